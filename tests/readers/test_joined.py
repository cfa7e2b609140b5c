from __future__ import annotations

import pytest
import torch

import cgcl
from cgcl.errors import ConfigError
from cgcl.readers.edge_table import EdgeTable, joined


def links(graph) -> set[tuple[str, str]]:
    return {(graph.names[a], graph.names[b]) for a, b in graph.edges.T.tolist()}


def test_it_makes_no_difference_which_file_a_link_stands_in(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("source,target\nb,c\nd,b\n")
    (tmp_path / "b.csv").write_text("source,target\na,d\nc,b\n")
    (tmp_path / "all.csv").write_text("source,target\nb,c\nd,b\na,d\nc,b\n")
    parts = cgcl.read(tmp_path / "a.csv", also=[tmp_path / "b.csv"], bipartite="no")
    whole = cgcl.read(tmp_path / "all.csv", bipartite="no")
    assert parts.names == whole.names
    assert links(parts) == links(whole) == {("b", "c"), ("b", "d"), ("a", "d")}
    assert parts.fingerprint == whole.fingerprint


def test_features_of_the_first_stay_with_their_nodes() -> None:
    x = torch.tensor([[1.0], [2.0]])
    first = EdgeTable(("b", "a"), torch.tensor([[0], [1]]), x=x, sides=torch.tensor([True, False]))
    both = joined(first, [EdgeTable(("a",), torch.zeros(2, 1, dtype=torch.int64))])
    assert both.names == ("a", "b")
    assert both.x.tolist() == [[2.0], [1.0]]
    assert both.sides.tolist() == [False, True]
    with pytest.raises(ConfigError, match="nodes that have none"):
        joined(first, [EdgeTable(("c",), torch.zeros(2, 1, dtype=torch.int64))])


def test_sides_are_those_of_the_first_file_and_reach_new_nodes(tmp_path) -> None:
    rows = [f"u{a},f{b}" for a in range(6) for b in range(4) if (a + b) % 3]
    (tmp_path / "a.csv").write_text("source,target\n" + "\n".join(rows))
    # The other way round, and with a film and a user that the first file does not know.
    (tmp_path / "b.csv").write_text("source,target\nf0,u0\nnew,u1\nnew,other\n")
    graph = cgcl.read(tmp_path / "a.csv", also=[tmp_path / "b.csv"])
    assert graph.sides is not None
    films = {name for name, side in zip(graph.names, graph.sides.tolist(), strict=True) if side}
    assert films == {"f0", "f1", "f2", "f3", "new"}
    assert not any("both directions" in note for note in graph.notes)


def test_links_held_out_are_not_counted_as_repeated_or_directed(tmp_path) -> None:
    (tmp_path / "a.csv").write_text("source,target\na,b\nb,c\na,c\n")
    (tmp_path / "b.csv").write_text("source,target\nb,a\n")
    graph = cgcl.read(tmp_path / "a.csv", also=[tmp_path / "b.csv"], directed="error")
    assert graph.notes == ()
    assert graph.num_edges == 3
