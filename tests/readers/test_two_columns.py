"""Tables of two columns, and columns that hold two kinds of things."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import cgcl
from cgcl.errors import GraphFormatError

chance = random.Random(0)
RATINGS = sorted({(chance.randrange(60), chance.randrange(40)) for _ in range(300)})
TWO_KINDS = "numbers are in both columns, such as"


def table(folder: Path, head: str, rows, name: str = "g.csv") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in [head, *(f"{a},{b}" for a, b in rows)] if line))
    return path


def told(graph: cgcl.Graph, words: str) -> list[str]:
    return [note for note in graph.notes if words in note]


def test_two_columns_need_no_names(tmp_path) -> None:
    named = cgcl.read(table(tmp_path, "from,to", [("a", "b"), ("b", "c")]))
    assert named.names == ("a", "b", "c")
    assert told(named, "Columns 'from' and 'to' hold the two ends of each link.")
    frame = cgcl.read(pa.table({"1": ["a", "b"], "2": ["b", "c"]}))
    assert (
        frame.fingerprint == cgcl.read(table(tmp_path, "source,target", ["ab", "bc"])).fingerprint
    )
    assert told(frame, "Columns '1' and '2'")


@pytest.mark.parametrize("head", ["a,b", "a,x", "7,8", "7,x"])
def test_a_first_row_that_looks_like_a_link_is_no_header(tmp_path, head: str) -> None:
    path = table(tmp_path, head, [("a", "b"), ("b", "c")])
    with pytest.raises(GraphFormatError, match=r"has no column 'source'.*\n.*\n.*`header=False`"):
        cgcl.read(path)
    assert cgcl.read(path, header=False).num_edges >= 2


def test_more_than_two_columns_are_to_be_named(tmp_path) -> None:
    path = tmp_path / "g.csv"
    path.write_text("from,to,at\na,b,1\n")
    with pytest.raises(GraphFormatError, match=r"Name them: .*--source from --target to"):
        cgcl.read(path)


def test_numbers_that_may_count_two_kinds_of_things_are_told(tmp_path) -> None:
    graph = cgcl.read(table(tmp_path, "user,item", RATINGS))
    (note,) = told(graph, TWO_KINDS)
    assert note.endswith("If 'user' and 'item' are two kinds of things, use `bipartite=columns`.")
    apart = cgcl.read(table(tmp_path, "user,item", RATINGS), bipartite="columns")
    assert apart.num_nodes == len({a for a, _ in RATINGS}) + len({b for _, b in RATINGS})
    assert not told(apart, TWO_KINDS)
    # Without names the columns are told by how far they count.
    assert told(cgcl.read(table(tmp_path, "", RATINGS), header=False), TWO_KINDS)


def test_links_of_one_kind_of_nodes_are_not_suspected(tmp_path) -> None:
    names = [f"n{a}" for a in range(60)]
    once = sorted({(min(e), max(e)) for e in RATINGS if e[0] != e[1]})
    square = sorted({(chance.randrange(50), chance.randrange(50)) for _ in range(400)})
    for head, rows in (
        ("source,target", once),
        ("user,item", [(names[a], names[b]) for a, b in RATINGS]),  # no numbers
        ("user,item", [*RATINGS, *((b, a) for a, b in RATINGS)]),  # mirrored
        ("user,item", [(a, b + 1000) for a, b in RATINGS]),  # nothing in both
        ("from,to", once),
    ):
        assert not told(cgcl.read(table(tmp_path, head, rows)), TWO_KINDS), head
    assert not told(cgcl.read(table(tmp_path, "", square), header=False), TWO_KINDS)


def test_negative_numbers_that_become_nodes_are_told(tmp_path) -> None:
    edge_index = np.array([[0, 1, -1], [1, 2, 2]])
    np.savez(tmp_path / "g.npz", edge_index=edge_index)
    for source in (edge_index, tmp_path / "g.npz"):
        assert told(cgcl.read(source), "1 negative number is a node, such as -1")
    assert not told(cgcl.read(abs(edge_index)), "negative")


def test_names_that_differ_only_in_how_unicode_writes_them_are_told(tmp_path) -> None:
    graph = cgcl.read(table(tmp_path, "source,target", [("é", "b"), ("e\u0301", "b"), ("ü", "b")]))
    assert graph.num_nodes == 4
    (note,) = told(graph, "only in how Unicode writes it")
    assert note.startswith(
        r"1 name differs from another only in how Unicode writes it, such as 'e\u0301' and '\xe9'"
    )
    assert not told(cgcl.read(table(tmp_path, "source,target", [("é", "ü")])), "Unicode")


def test_numbers_of_any_length_are_names(tmp_path) -> None:
    """Nobody counts so far: they are no sign of two kinds, and no error."""
    rows = [(10**19 + one, 10**19 + one + 1) for one in range(5)]
    assert cgcl.read(table(tmp_path, "source,target", rows)).num_nodes == 6


def test_a_further_file_whose_first_row_names_nodes_has_no_header(tmp_path) -> None:
    graph = table(tmp_path, "from,to", [("a", "b"), ("b", "c"), ("c", "d")])
    with pytest.raises(GraphFormatError, match=r"more\.csv has no column 'source'"):
        cgcl.read(graph, also=[table(tmp_path, "a,c", [("b", "d")], "more.csv")])
    assert cgcl.read(graph, also=[table(tmp_path, "from,to", ["bd"], "more.csv")]).num_edges == 4
