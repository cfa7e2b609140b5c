import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cgcl.errors import GraphFormatError
from cgcl.readers import read
from cgcl.readers.edge_table import LinkOptions
from cgcl.readers.text import read_text_links

fuzzed = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))

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
def test_separator_comments_and_header_are_found(tmp_path, case, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(GOOD[case])
    graph = read(path)
    assert graph.names == ("a", "b", "c c")
    assert graph.edges.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    "content", [b"a b\nb c\n", b"  a   b \n\tb \t c\n\n", b'a "b"\n"b"  c', b"a b\r\nb c\r\n"]
)
def test_runs_of_blanks_separate_if_nothing_else_does(tmp_path, content):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    assert read(path).names == ("a", "b", "c")
    assert read(path, separator=" ").num_edges == 2


def test_blanks_inside_quotes_belong_to_the_name(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text('"Anna  B"   c\n')
    assert read(path).names == ("Anna  B", "c")


def test_the_rarer_separator_counts(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Doe, Ann\tRoe; Bob\n")
    assert read(path).names == ("Doe, Ann", "Roe; Bob")
    path.write_text("Ann; Doe,Bob Roe\n")
    assert read(path).names == ("Ann; Doe", "Bob Roe")


def test_one_of_the_two_column_names_is_a_node(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("source,water\nwater,sea\n")
    assert read(path).names == ("sea", "source", "water")


def test_what_networkx_writes_is_read(tmp_path):
    path = tmp_path / "a.edgelist"
    path.write_text("1 2 {}\n2 3 {'weight': 1, 'b': 2}\n")
    graph = read(path)
    assert graph.names == ("1", "2", "3")
    assert graph.notes == ("Attributes in {...} ignored: only the two ends of each link are used.",)


def test_skipped_lines_and_ignored_columns_are_noted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("# one\n%two\na b 3\n")
    assert read(path).notes == (
        "2 lines that begin with # or % skipped.",
        "Column 3 ignored: only the two ends of each link are used.",
    )
    path.write_text("# one\na b\n")
    assert read(path).notes == ("1 line that begins with # or % skipped.",)


def test_a_sign_inside_a_name_is_no_comment(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a#1,b%2\nhttp://x,//y\n")
    assert read(path).names == ("//y", "a#1", "b%2", "http://x")
    path = tmp_path / "a.csv"
    path.write_text("source,target\n#1,%2\n")
    assert read(path).names == ("#1", "%2")


def test_column_names_that_are_asked_for_must_be_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("from,to\na,b\n")
    assert read(path, source="from", target="to").names == ("a", "b")
    with pytest.raises(GraphFormatError, match="has no column 'von'"):
        read(path, source="von", target="to")
    assert read(path).names == ("a", "b", "from", "to")
    assert read(path, source="from", target="to", header=False).num_nodes == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "a.txt is empty"),
        (b"# only\n% comments\n", "a.txt is empty"),
        (b"source,target\n# nothing\n", "has a header line but no rows"),
        (b"# x\na b\n\nc\n", "line 4: 1 column, expected 2"),
        (b"# x\na b\nc d e\n", "line 3: 3 columns, expected 2"),
        (b"a\n", "line 1: 1 column, expected at least 2"),
        (b"a,b\n,c\n", "line 2: the node name in column 1 is empty"),
        (b"a,b\n\xff,c\n", "line 2: byte 0xff is not UTF-8"),
        (b"a,b\n\0,c\n", "line 2: a NUL byte"),
    ],
)
def test_lines_in_messages_are_those_of_the_file(tmp_path, content, message):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    with pytest.raises(GraphFormatError, match=message):
        read(path)


plain = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=8)


@fuzzed
@given(rows=st.lists(st.tuples(plain, plain), min_size=1, max_size=8), sep=st.sampled_from("\t,; "))
def test_names_out_are_names_in(tmp_path, rows, sep):
    path = tmp_path / "a.edges"
    path.write_bytes("".join(f"{a}{sep}{b}\n" for a, b in rows).encode())
    table = read_text_links(path, LinkOptions(header=False))
    pairs = [tuple(table.names[node] for node in pair) for pair in table.pairs.T.tolist()]
    assert pairs == rows
