import csv
import io
import os
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgcl.errors import CGCLError, ConfigError, GraphFormatError
from cgcl.readers import node_names, read
from cgcl.readers.delimited import MAX_COLUMNS, _has_plain_quotes
from cgcl.readers.table import read_edge_table

# One folder serves all examples of a test: every example writes the same file anew.
fuzzed = settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20
)
links = st.lists(st.tuples(names, names), min_size=1, max_size=12)


def write_csv(path, rows, header=("source", "target"), separator=","):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quoting=csv.QUOTE_ALL)
    writer.writerows([header, *rows] if header else rows)
    path.write_bytes(text.getvalue().encode())
    return path


def refusal(path, **options):
    """Return the text of our error, or nothing if the file is fine; other errors pass through."""
    try:
        read(path, **options)
    except CGCLError as error:
        return str(error)
    return ""


BAD_FILES = {
    "empty": (
        b"",
        "friends.csv is empty.\n"
        "Expected a table with a header line and one row per line, such as:\n"
        "source,target\nAnna,Bob",
    ),
    "blank lines only": (
        b"\r\n\n\n",
        "friends.csv is empty.\n"
        "Expected a table with a header line and one row per line, such as:\n"
        "source,target\nAnna,Bob",
    ),
    "header only": (
        b"source,target\n",
        "friends.csv has a header line but no rows: source,target\n"
        "Add rows below it. If that line is a row itself, add `header=False`.",
    ),
    "too few cells": (
        b"source,target\nAnna,Bob\nAnna\n",
        "friends.csv, line 3: 1 column, expected 2 (source, target).\n"
        "  3 | Anna\n"
        "Each row needs two node names. If your columns are separated by ';' use `separator=';'`.",
    ),
    "too few cells after blank lines": (
        b"source,target,when\r\nAnna,Bob,1\r\n\r\nAnna|Eve|2\r\n",
        "friends.csv, line 4: 1 column, expected 3 (source, target, when).\n"
        "  4 | Anna|Eve|2\n"
        "This row has '|' where the others have ','. Use one separator in the whole file.",
    ),
    "a blank inside a name is no separator": (
        b"source,target,when\nAnna,Bob,1\nAnna Maria,Bob\n",
        "friends.csv, line 3: 2 columns, expected 3 (source, target, when).\n"
        "  3 | Anna Maria,Bob\n"
        "Each row needs 3 cells with ',' between them.",
    ),
    "too many cells": (
        b"source,target\nAnna,Bob,Eve\n",
        "friends.csv, line 2: 3 columns, expected 2 (source, target).\n"
        "  2 | Anna,Bob,Eve\n"
        "If a cell contains ',' itself, quote it: \"...\".",
    ),
    "missing column": (
        b"from,to,weight\nAnna,Bob,1\n",
        "friends.csv has no column 'source'. Columns found: from, to, weight.\n"
        "Name them: cgcl train friends.csv --source from --target to\n"
        "If the file has no header line, add `header=False`.",
    ),
    "one missing column": (
        b"weight,source,to\n1,Anna,Bob\n",
        "friends.csv has no column 'target'. Columns found: weight, source, to.\n"
        "Name them: cgcl train friends.csv --source source --target weight\n"
        "If the file has no header line, add `header=False`.",
    ),
    "other separator": (
        b"source;target\nAnna;Bob\n",
        "friends.csv, line 1: 1 column, expected at least 2.\n"
        "  1 | source;target\n"
        "Each row needs two node names. If they are separated by ';' use `separator=';'`.",
    ),
    "one column": (
        b"source\nAnna\n",
        "friends.csv, line 1: 1 column, expected at least 2.\n"
        "  1 | source\n"
        "Each row needs two node names, with ',' between them (a tab in .tsv files).",
    ),
    "duplicate columns": (
        b"source,target,source\na,b,c\n",
        "friends.csv has two columns called 'source'. Columns found: source, target, source.\n"
        "Give every column a name of its own. If the file has no header line, add `header=False`.",
    ),
    "empty name": (
        b"source,target\nAnna,Bob\n\n,Eve\n",
        "friends.csv, line 4: the node name in column 'source' is empty.\n"
        "  4 | ,Eve\n"
        "Fill in the name, or delete the row.",
    ),
    "empty quoted name": (
        b'source,target\nAnna,""\n',
        "friends.csv, line 2: the node name in column 'target' is empty.\n"
        '  2 | Anna,""\n'
        "Fill in the name, or delete the row.",
    ),
    "long name": (
        b"source,target\nAnna," + b"x" * 1001 + b"\n",
        "friends.csv, line 2: a node name of 1,001 characters in column 'target'.\n"
        "  2 | Anna," + "x" * 54 + "…\n"
        "Names may have up to 1,000 characters. Look for a missing separator or line break.",
    ),
    "NUL byte": (
        b"source,target\nAnna,Bob\0\n",
        "friends.csv, line 2: a NUL byte, which no text table contains.\n"
        "Save the table again as CSV with UTF-8 encoding.",
    ),
    "Latin-1": (
        "source,target\r\nAnna,Bob\r\nJosé,Bob\r\n".encode("latin-1"),
        "friends.csv, line 3: byte 0xe9 is not UTF-8.\n"
        "Save the file with UTF-8 encoding, or convert it: iconv -f LATIN1 -t UTF-8 friends.csv",
    ),
    "UTF-16": (
        "source,target\nAnna,Bob\n".encode("utf-16"),
        "friends.csv is encoded as UTF-16, expected UTF-8.\n"
        "Save it again as CSV with UTF-8 encoding.",
    ),
    "unclosed quote": (
        b'source,target\nAnna,"Bob\nEve,Dan\n',
        'friends.csv, line 2: a quote (") is opened here and never closed.\n'
        '  2 | Anna,"Bob\n'
        'Close it, or write a quote inside a quoted name twice: "".',
    ),
    "text after a quote": (
        b'source,target\nAnna,"Bob" the builder\n',
        'friends.csv, line 2: text follows a closing quote (").\n'
        '  2 | Anna,"Bob" the builder\n'
        'Put the whole cell in quotes and write a quote inside it twice: "".',
    ),
    "50 MB field": (
        b"source,target\nAnna," + b"x" * 50_000_000 + b"\n",
        "friends.csv, line 2: a cell of more than 131,072 characters.\n"
        "  2 | Anna," + "x" * 54 + "…\n"
        "Look for a missing line break or a quote that is not closed.",
    ),
    "too many columns": (
        b"," * MAX_COLUMNS + b"\na,b\n",
        "friends.csv, line 1: 100,001 columns.\n"
        "At most 100,000 are read. Is the separator ',' right? If not, use `separator`.",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_with_place_and_remedy(tmp_path, case):
    content, message = BAD_FILES[case]
    path = tmp_path / "friends.csv"
    path.write_bytes(content)
    with pytest.raises(GraphFormatError) as caught:
        read_edge_table(path)
    assert str(caught.value) == message
    assert message.count("\n") < 4


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "nobody.csv"
    with pytest.raises(GraphFormatError) as caught:
        read_edge_table(path)
    assert str(caught.value) == (
        f"No such file: {path}\nCheck the spelling and the folder you are in."
    )


def test_a_folder_a_pipe_and_a_device_are_not_regular_files(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(GraphFormatError, match="is a folder, not a regular file"):
        read_edge_table(tmp_path)
    with pytest.raises(GraphFormatError, match="is not a regular file but a pipe or a device"):
        read_edge_table(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    with pytest.raises(GraphFormatError, match="is not a regular file but a pipe or a device"):
        read_edge_table(tmp_path / "zero.csv")


def test_an_impossible_path_is_refused():
    from pathlib import Path

    with pytest.raises(GraphFormatError, match="Cannot read"):
        read_edge_table(Path("x" * 5000))


@pytest.mark.parametrize(
    "content",
    [
        b"source,target\nAnna,Bob\nBob,NA\n",
        b"\xef\xbb\xbfsource,target\nAnna,Bob\nBob,NA\n",
        b"source,target\r\nAnna,Bob\r\nBob,NA",
        b"source,target\rAnna,Bob\rBob,NA\r",
        b'\n\n"source","target"\n"Anna","Bob"\n\nBob,NA\n\n',
        b"target,source\nNA,Bob\nBob,Anna\n",
    ],
)
def test_the_same_table_in_other_clothes_is_the_same_graph(tmp_path, content):
    path = tmp_path / "friends.csv"
    path.write_bytes(content)
    graph = read(path)
    assert graph.names == ("Anna", "Bob", "NA")
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.notes == ()


def test_names_that_look_like_something_else_stay_names(tmp_path):
    odd = ["NA", "null", "", "007", "1e3", "True", " Anna ", "🦊", "-5", "9" * 40, "nan", "../x"]
    odd.remove("")
    path = write_csv(tmp_path / "odd.csv", [(name, "hub") for name in odd])
    assert set(read(path).names) == {*odd, "hub"}


def test_huge_and_negative_ids_cost_nothing(tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text("source,target\n1000000000000,-7\n-7,340282366920938463463374607431768211456\n")
    graph = read(path)
    assert graph.num_nodes == 3
    assert graph.num_edges == 2


def test_extra_columns_are_ignored_with_a_note(tmp_path):
    path = tmp_path / "friends.csv"
    path.write_text("source,weight,target\nAnna,1,Bob\n")
    assert read(path).notes == (
        "Column 'weight' ignored: only the two ends of each link are used.",
    )
    path.write_text("source,a,b,c,d,e,f,target\nAnna,1,2,3,4,5,6,Bob\n")
    assert read(path).notes == (
        "Columns 'a', 'b', 'c', 'd', 'e' and 1 more ignored: "
        "only the two ends of each link are used.",
    )


def test_without_a_header_the_first_two_columns_count(tmp_path):
    path = tmp_path / "friends.csv"
    path.write_text("Anna,Bob,1\nBob,Eve,2\n")
    graph = read(path, header=False)
    assert graph.names == ("Anna", "Bob", "Eve")
    assert graph.notes == ("Column 3 ignored: only the two ends of each link are used.",)
    path.write_text("Anna,Bob\nEve\n")
    with pytest.raises(GraphFormatError, match=r"line 2: 1 column, expected 2 as in line 1\."):
        read(path, header=False)
    path.write_text("Anna Bob\n")
    with pytest.raises(GraphFormatError, match="use `separator=' '`"):
        read(path, header=False)


def test_the_separator_is_given_or_chosen_by_suffix(tmp_path):
    for file, text, separator in (
        ("a.tsv", "source\ttarget\nx, y\tz\n", None),
        ("a.TAB", "source\ttarget\nx, y\tz\n", None),
        ("a.csv", "source;target\nx, y;z\n", ";"),
        ("a.txt", "source\ttarget\nx, y\tz\n", "\\t"),
    ):
        (tmp_path / file).write_text(text)
        assert read(tmp_path / file, separator=separator).names == ("x, y", "z")


@pytest.mark.parametrize("separator", ["", ";;", '"', "\n", "é", "\0"])
def test_an_impossible_separator_is_refused(tmp_path, separator):
    path = write_csv(tmp_path / "a.csv", [("a", "b")])
    with pytest.raises(ConfigError, match="is not one plain character"):
        read(path, separator=separator)


def test_source_and_target_must_differ(tmp_path):
    path = write_csv(tmp_path / "a.csv", [("a", "b")])
    with pytest.raises(ConfigError, match="both the column 'source'"):
        read(path, target="source")


def test_long_texts_in_ignored_columns_do_no_harm(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("source,target,text\na,b," + "x" * 200_000 + "\n")
    assert read(path).num_edges == 1


@fuzzed
@given(rows=links)
def test_names_out_are_names_in(tmp_path, rows):
    path = write_csv(tmp_path / "names.csv", rows)
    assert set(read(path).names) == {name for row in rows for name in row}


@fuzzed
@given(rows=links, data=st.data())
def test_order_of_rows_columns_and_ends_never_matters(tmp_path, rows, data):
    shuffled = data.draw(st.permutations(rows))
    flips = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    turned = [row[::-1] if flip else row for row, flip in zip(shuffled, flips, strict=True)]
    first = read(write_csv(tmp_path / "a.csv", rows))
    second = read(write_csv(tmp_path / "b.tsv", turned, ("target", "source"), "\t"))
    assert first.fingerprint == second.fingerprint


@fuzzed
@given(
    content=st.binary(max_size=200)
    | st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace"))
)
def test_arbitrary_content_gives_a_graph_or_our_error(tmp_path, content):
    path = tmp_path / "any.csv"
    for header in (True, False):
        path.write_bytes(content)
        assert refusal(path, header=header).count("\n") < 4


@fuzzed
@given(content=st.text('ab,"\r\n;é', max_size=40))
def test_text_that_is_almost_a_table_reads_as_python_reads_it_or_not_at_all(tmp_path, content):
    path = tmp_path / "almost.csv"
    path.write_bytes(content.encode())
    try:
        found = read_edge_table(path, header=False)
    except CGCLError:
        return
    expected = [row for row in csv.reader(io.StringIO(content, newline="")) if row]
    pairs = [[found.names[node] for node in pair] for pair in found.pairs.T.tolist()]
    assert pairs == [row[:2] for row in expected]


def test_a_separator_that_is_not_the_one_of_the_file_is_named(tmp_path):
    path = tmp_path / "friends.csv"
    path.write_text('"source","target"\n"Anna","Bob"\n')
    with pytest.raises(GraphFormatError) as caught:
        read(path, separator=";")
    assert str(caught.value) == (
        "friends.csv, line 1: ',' follows a closing quote (\"), but the separator is ';'.\n"
        '  1 | "source","target"\n'
        "If your columns are separated by ',' use `separator=','`."
    )


@fuzzed
@given(content=st.text('a,"\n', max_size=30))
def test_the_quick_look_at_quotes_never_passes_what_python_refuses(content):
    if _has_plain_quotes(content.encode(), 0, ","):
        list(csv.reader(io.StringIO(content, newline=""), strict=True))


@pytest.mark.parametrize(
    ("content", "is_plain"),
    [
        ('"a","b"\n"c","d ""e"""', True),
        ('a,"b\nc"\r\n"",d', True),
        ('a,b"c"', False),
        ('"a"b,c', False),
        ('"a,b', False),
        ('a,""', True),
    ],
)
def test_ordinary_quotes_need_no_second_reading(content, is_plain):
    assert _has_plain_quotes(content.encode(), 0, ",") is is_plain


def test_quotes_in_the_header_alone_leave_the_rows_as_they_are(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('"source","x,y","target"\na,1,b\n')
    assert read(path).names == ("a", "b")
    path.write_text('"source","x,y","target"\na,1,b\nc,2\n')
    with pytest.raises(GraphFormatError, match=r"line 3: 2 columns, expected 3"):
        read(path)


def test_a_million_names_are_numbered_as_few_are(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    chance = random.Random(0)
    rows = [
        [f"{chance.choice('abcde')}{chance.randrange(500):x}" for _ in "ab"] for _ in range(999)
    ]
    write_csv(path, rows)
    few = read(path)
    monkeypatch.setattr(node_names, "_MANY", 100)
    many = read(path)
    assert many.names == few.names == tuple(sorted({name for row in rows for name in row}))
    assert many.fingerprint == few.fingerprint
    write_csv(path, [("a", "b"), ("", "c"), ("a", "")] * 100)
    with pytest.raises(
        GraphFormatError, match=r"line 3: the node name in column 'source' is empty"
    ):
        read(path)


def test_times_are_read_with_the_links(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("source,when,target\nc,2024-01-02,b\na,2024-01-01,b\nb,2023-12-31,a\n")
    graph = read(path, time="when")
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.times.tolist() == [1703980800.0, 1704153600.0]  # the earliest of a - b
    assert not any("when" in note for note in graph.notes)
    path.write_text("a,b,7\nb,c,1.5\n")
    assert read(path, header=False, time="3").times.tolist() == [7.0, 1.5]


@pytest.mark.parametrize(
    ("time", "header", "message"),
    [
        (
            "then",
            True,
            "a.csv has no column 'then' for the times. Columns found: source, target, t",
        ),
        ("9", False, "has no header line; columns are numbered 1 to 3"),
        ("t", False, "has no header line; columns are numbered 1 to 3"),
    ],
)
def test_a_time_column_that_is_not_there_is_named(tmp_path, time, header, message):
    path = tmp_path / "a.csv"
    path.write_text("source,target,t\na,b,1\n" if header else "a,b,1\n")
    with pytest.raises(GraphFormatError, match=message):
        read(path, time=time, header=header)


def test_names_are_no_times(tmp_path):
    path = write_csv(tmp_path / "a.csv", [("a", "b")])
    with pytest.raises(ConfigError, match="The time column 'source' holds node names"):
        read(path, time="source")


def test_a_time_that_is_none_is_found_by_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("source,target,t\na,b,1\n\nb,c,\n")
    with pytest.raises(GraphFormatError, match=r"a.csv, line 4: the time in column 't' is empty"):
        read(path, time="t")
    path.write_text("source,target,t\na,b,1\nb,c,soon\nc,d,later\n")
    with pytest.raises(GraphFormatError) as caught:
        read(path, time="t")
    assert str(caught.value) == (
        "a.csv, line 3: 'soon' in column 't' is not a time.\n"
        "Expected one that is written like the first, '1'.\n"
        "Every link needs a time: fill it in, delete the row, or name another column with `time`."
    )
