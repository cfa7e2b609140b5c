import csv
import io
import random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from cgcl.errors import CGCLError, ConfigError, GraphFormatError
from cgcl.readers import node_names, read
from cgcl.readers.edge_table import LinkOptions
from cgcl.readers.formats import read_links
from cgcl.readers.tables import MAX_COLUMNS
from cgcl.wording import shown

fuzzed = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))

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


EMPTY = "Fill in the name, or delete the row."
# What is in the file, in which line that is refused and why, and what to do.
BAD_LINES = [
    (
        "source,target\nAnna,Bob\nAnna\n",
        "3: 1 column, expected 2 (source, target).",
        "Each row needs two node names. If your columns are separated by ';' use `separator=';'`.",
    ),
    (
        "source,target,when\r\nAnna,Bob,1\r\n\r\nAnna|Eve|2\r\n",
        "4: 1 column, expected 3 (source, target, when).",
        "This row has '|' where the others have ','. Use one separator in the whole file.",
    ),
    (
        "source,target,when\nAnna,Bob,1\nAnna Maria,Bob\n",
        "3: 2 columns, expected 3 (source, target, when).",
        "Each row needs 3 cells with ',' between them.",
    ),
    (
        "source,target\nAnna,Bob,Eve\n",
        "2: 3 columns, expected 2 (source, target).",
        "If a cell contains ',' itself, quote it: \"...\".",
    ),
    (
        "source;target\nAnna;Bob\n",
        "1: 1 column, expected at least 2.",
        "Each row needs two node names. If they are separated by ';' use `separator=';'`.",
    ),
    (
        "source\nAnna\n",
        "1: 1 column, expected at least 2.",
        "Each row needs two node names, with ',' between them (a tab in .tsv files).",
    ),
    ("source,target\nA,B\n\n,E\n", "4: the node name in column 'source' is empty.", EMPTY),
    ('source,target\nA,""\n', "2: the node name in column 'target' is empty.", EMPTY),
    (
        "source,target\nAnna," + "x" * 1001 + "\n",
        "2: a node name of 1,001 characters in column 'target'.",
        "Names may have up to 1,000 characters. Look for a missing separator or line break.",
    ),
    (
        'source,target\nAnna,"Bob\nEve,Dan\n',
        '2: a quote (") is opened here and never closed.',
        'Close it, or write a quote inside a quoted name twice: "".',
    ),
    (
        'source,target\nAnna,"Bob" the builder\n',
        '2: text follows a closing quote (").',
        'Put the whole cell in quotes and write a quote inside it twice: "".',
    ),
]
BAD_WHOLES = [
    (
        b"",
        " is empty.\n"
        "Expected a table with a header line and one row per line, such as:\n"
        "source,target\n"
        "Anna,Bob",
    ),
    (
        b"source,target\n",
        " has a header line but no rows: source,target\n"
        "Add rows below it. If that line is a row itself, add `header=False`.",
    ),
    (
        b"from,to,weight\nAnna,Bob,1\n",
        " has no column 'source'. Columns found: from, to, weight.\n"
        "Name them: cgcl train friends.csv --source from --target to\n"
        "If the file has no header line, add `header=False`.",
    ),
    (
        b"weight,source,to\n1,Anna,Bob\n",
        " has no column 'target'. Columns found: weight, source, to.\n"
        "Name them: cgcl train friends.csv --source source --target weight\n"
        "If the file has no header line, add `header=False`.",
    ),
    (
        b"source,target,source\na,b,c\n",
        " has two columns called 'source'. Columns found: source, target, source.\n"
        "Give every column a name of its own. If the file has no header line, add `header=False`.",
    ),
    (
        b"source,target\nAnna,Bob\0\n",
        ", line 2: a NUL byte, which no text table contains.\n"
        "Save the table again as CSV with UTF-8 encoding.",
    ),
    (
        "source,target\r\nAnna,Bob\r\nJosé,Bob\r\n".encode("latin-1"),
        ", line 3: byte 0xe9 is not UTF-8.\n"
        "Save the file with UTF-8 encoding, or convert it: iconv -f LATIN1 -t UTF-8 friends.csv",
    ),
    (
        "source,target\nAnna,Bob\n".encode("utf-16"),
        " is encoded as UTF-16, expected UTF-8.\nSave it again as CSV with UTF-8 encoding.",
    ),
    (
        b"," * MAX_COLUMNS + b"\na,b\n",
        ", line 1: 100,001 columns.\n"
        "At most 100,000 are read. Is the separator ',' right? If not, use `separator`.",
    ),
]


def refusal(path):
    with pytest.raises(GraphFormatError) as caught:
        read(path)
    return str(caught.value)


@pytest.mark.parametrize(("content", "problem", "remedy"), BAD_LINES)
def test_a_bad_line_is_refused_with_place_and_remedy(write, content, problem, remedy):
    line = int(problem[0])
    quoted = shown(content.splitlines()[line - 1])
    found = refusal(write("friends.csv", content))
    assert found == f"friends.csv, line {problem}\n  {line} | {quoted}\n{remedy}"


@pytest.mark.parametrize(("content", "message"), BAD_WHOLES)
def test_a_bad_file_is_refused_with_place_and_remedy(write, content, message):
    assert refusal(write("friends.csv", content)) == f"friends.csv{message}"
    assert message.count("\n") < 4


@pytest.mark.parametrize(("path", "message"), [("x" * 5000, "Cannot read"), ("x", "No such file")])
def test_an_impossible_path_is_refused(path, message):
    with pytest.raises(GraphFormatError, match=message):
        read_links(path)


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
def test_the_same_table_in_other_clothes_is_the_same_graph(write, content):
    graph = read(write("friends.csv", content))
    assert graph.names == ("Anna", "Bob", "NA")
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.notes == ()


def test_names_that_look_like_something_else_stay_names(tmp_path):
    odd = ["NA", "null", "007", "1e3", "True", " Anna ", "🦊", "-5", "nan", "../x"]
    odd += ["9" * 40, "1000000000000"]
    path = write_csv(tmp_path / "odd.csv", [(name, "hub") for name in odd])
    assert set(read(path).names) == {*odd, "hub"}


def test_extra_columns_are_ignored_with_a_note(write):
    path = write("friends.csv", "source,weight,target\nAnna,1,Bob\n")
    assert read(path).notes == (
        "Column 'weight' ignored: only the two ends of each link are used.",
    )
    path.write_text(f"source,a,b,c,d,e,f,target\nAnna,{'x' * 200_000},2,3,4,5,6,Bob\n")
    assert read(path).notes == (
        "Columns 'a', 'b', 'c', 'd', 'e' and 1 more ignored: "
        "only the two ends of each link are used.",
    )


def test_without_a_header_the_first_two_columns_count(write):
    path = write("friends.csv", "Anna,Bob,1\nBob,Eve,2\n")
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "source"}, "both the column 'source'"),
        ({"time": "source"}, "The time column 'source' holds node names"),
        *(
            ({"separator": s}, "is not one plain character")
            for s in ("", ";;", '"', "\n", "é", "\0")
        ),
    ],
)
def test_impossible_options_are_refused(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        read(write_csv(tmp_path / "a.csv", [("a", "b")]), **options)


@pytest.mark.parametrize("file", ["a.csv", "a.parquet", "a.edges"])
@fuzzed
@given(data=st.data())
def test_names_out_are_names_in(tmp_path, file, data):
    plain = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)
    rows = data.draw(st.lists(st.tuples(plain, plain), min_size=1) if ".edges" in file else links)
    if file == "a.edges":
        separator = data.draw(st.sampled_from("\t,; "))
        (tmp_path / file).write_text("".join(f"{a}{separator}{b}\n" for a, b in rows))
    elif file == "a.csv":
        write_csv(tmp_path / file, rows)
    else:
        source, target = (list(column) for column in zip(*rows, strict=True))
        parquet.write_table(pa.table({"source": source, "target": target}), tmp_path / file)
    found = read_links(tmp_path / file, LinkOptions(header=False if file == "a.edges" else None))
    assert found.names == tuple(sorted({name for row in rows for name in row}))
    assert [tuple(found.names[node] for node in pair) for pair in found.pairs.T.tolist()] == rows


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
@given(content=st.text('ab,"\r\n;é', max_size=40))
def test_text_that_is_almost_a_table_reads_as_python_reads_it_or_not_at_all(write, content):
    path = write("almost.csv", content.encode())
    try:
        found = read_links(path, LinkOptions(header=False))
    except CGCLError:
        return
    expected = [row for row in csv.reader(io.StringIO(content, newline="")) if row]
    pairs = [[found.names[node] for node in pair] for pair in found.pairs.T.tolist()]
    assert pairs == [row[:2] for row in expected]


def test_a_separator_that_is_not_the_one_of_the_file_is_named(write):
    path = write("friends.csv", '"source","target"\n"Anna","Bob"\n')
    with pytest.raises(GraphFormatError) as caught:
        read(path, separator=";")
    assert str(caught.value) == (
        "friends.csv, line 1: ',' follows a closing quote (\"), but the separator is ';'.\n"
        '  1 | "source","target"\n'
        "If your columns are separated by ',' use `separator=','`."
    )


def test_quotes_in_the_header_alone_leave_the_rows_as_they_are(write):
    path = write("a.csv", '"source","x,y","target"\na,1,b\n')
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


def test_times_are_read_with_the_links(write):
    path = write("a.csv", "source,when,target\nc,2024-01-02,b\na,2024-01-01,b\nb,2023-12-31,a\n")
    graph = read(path, time="when")
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.times.tolist() == [1703980800.0, 1704153600.0]  # the earliest of a - b
    assert not any("when" in note for note in graph.notes)
    path.write_text("a,b,7\nb,c,1.5\n")
    assert read(path, header=False, time="3").times.tolist() == [7.0, 1.5]
    path.write_text("source,target,t\na,b,1\n\nb,c,soon\nc,d,later\n")
    with pytest.raises(GraphFormatError) as caught:
        read(path, time="t")
    assert str(caught.value) == (
        "a.csv, line 4: 'soon' in column 't' is not a time.\n"
        "Expected one that is written like the first, '1'.\n"
        "Every link needs a time: fill it in, delete the row, or name another column with `time`."
    )


@pytest.mark.parametrize(
    ("time", "header", "message"),
    [
        ("then", True, "no column 'then' for the times. Columns found: source, target, t"),
        ("9", False, "has no header line; columns are numbered 1 to 3"),
        ("t", False, "has no header line; columns are numbered 1 to 3"),
    ],
)
def test_a_time_column_that_is_not_there_is_named(write, time, header, message):
    path = write("a.csv", "source,target,t\na,b,1\n" if header else "a,b,1\n")
    with pytest.raises(GraphFormatError, match=message):
        read(path, time=time, header=header)


# --- Edge lists ---

GOOD = {
    "tab": b"# a comment\na\tb\nb\tc c\n",
    "comma": b"% a comment\n%% another\na,b\nb,c c\n",
    "semicolon": b"a;b\nb;c c\n",
    "a comment between rows, indented": b"a,b\n  # here\nb,c c\n",
    "carriage returns": b"#x\ra,b\r#y\rb,c c\r",
    "byte order mark": b"\xef\xbb\xbf# x\na,b\nb,c c",
    "header": b"# x\nsource;target\na;b\nb;c c\n",
    "header, columns swapped": b"target\tsource\tw\nb\ta\t1\nc c\tb\t2\n",
}


@pytest.mark.parametrize("case", GOOD)
@pytest.mark.parametrize("suffix", [".txt", ".edges", ".EDGELIST"])
def test_separator_comments_and_header_are_found(write, case, suffix):
    graph = read(write(f"a{suffix}", GOOD[case]))
    assert graph.names == ("a", "b", "c c")
    assert graph.edges.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    "content", [b"a b\nb c\n", b"  a   b \n\tb \t c\n\n", b'a "b"\n"b"  c', b"a b\r\nb c\r\n"]
)
def test_runs_of_blanks_separate_if_nothing_else_does(write, content):
    path = write("a.txt", content)
    assert read(path).names == ("a", "b", "c")
    assert read(path, separator=" ").num_edges == 2


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('"Anna  B"   c', ("Anna  B", "c")),  # blanks inside quotes belong to the name
        ("Doe, Ann\tRoe; Bob", ("Doe, Ann", "Roe; Bob")),  # the rarer separator counts
        ("Ann; Doe,Bob Roe", ("Ann; Doe", "Bob Roe")),
        ("source,water\nwater,sea", ("sea", "source", "water")),  # not a header: half of it
        ("a#1,b%2\nhttp://x,//y", ("//y", "a#1", "b%2", "http://x")),  # no comments
    ],
)
def test_names_are_what_a_reader_of_the_file_takes_them_for(write, text, names):
    assert read(write("a.txt", text + "\n")).names == names


def test_a_table_has_no_comments(write):
    assert read(write("a.csv", "source,target\n#1,%2\n")).names == ("#1", "%2")


def test_what_networkx_writes_is_read(write):
    graph = read(write("a.edgelist", "1 2 {}\n2 3 {'weight': 1, 'b': 2}\n"))
    assert graph.names == ("1", "2", "3")
    assert graph.notes == ("Attributes in {...} ignored: only the two ends of each link are used.",)


def test_skipped_lines_and_ignored_columns_are_noted(write):
    path = write("a.txt", "# one\n%two\na b 3\n")
    assert read(path).notes == (
        "2 lines that begin with # or % skipped.",
        "Column 3 ignored: only the two ends of each link are used.",
    )
    path.write_text("# one\na b\n")
    assert read(path).notes == ("1 line that begins with # or % skipped.",)


def test_column_names_that_are_asked_for_must_be_there(write):
    path = write("a.txt", "from,to\na,b\n")
    assert read(path, source="from", target="to").names == ("a", "b")
    with pytest.raises(GraphFormatError, match="has no column 'von'"):
        read(path, source="von", target="to")
    assert read(path).names == ("a", "b", "from", "to")
    assert read(path, source="from", target="to", header=False).num_nodes == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# only\n% comments\n", "a.txt is empty"),
        (b"source,target\n# nothing\n", "has a header line but no rows"),
        (b"# x\na b\n\nc\n", "line 4: 1 column, expected 2"),
        (b"# x\na b\nc d e\n", "line 3: 3 columns, expected 2"),
        (b"a\n", "line 1: 1 column, expected at least 2"),
        (b"a,b\n,c\n", "line 2: the node name in column 1 is empty"),
    ],
)
def test_lines_in_messages_are_those_of_the_file(write, content, message):
    path = write("a.txt", content)
    with pytest.raises(GraphFormatError, match=message):
        read(path)
