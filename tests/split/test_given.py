from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.errors import GraphContentError, SplitError
from cgcl.graph import Graph
from cgcl.split import audit_split, given_split


def names(count: int) -> list[str]:
    return [f"n{i:02d}" for i in range(count)]


def ring(count: int) -> Graph:
    """Nodes in a ring: `count` links, the last one from the end to the start."""
    nodes = torch.arange(count)
    return Graph.from_pairs("ring", names(count), torch.stack([nodes, (nodes + 1) % count]))


def as_set(pairs: torch.Tensor) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in pairs.T.tolist()}


@st.composite
def own_splits(draw: st.DrawFn) -> tuple[Graph, torch.Tensor, torch.Tensor]:
    """A graph, and disjoint sets of its links in any direction and order, some of them twice."""
    n = draw(st.integers(15, 25))  # across two sides 56 pairs: enough are left unlinked
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    pairs = torch.combinations(torch.arange(n), 2).T
    chosen = torch.randperm(pairs.shape[1], generator=generator)[: draw(st.integers(20, 40))]
    sides = draw(st.booleans())
    if sides:
        halves = torch.arange(n) % 2 == 1
        pairs = pairs[:, halves[pairs[0]] != halves[pairs[1]]]
        chosen = torch.randperm(pairs.shape[1], generator=generator)[: draw(st.integers(20, 40))]
    graph = Graph.from_pairs("g", names(n), pairs[:, chosen], sides=halves if sides else None)
    links = graph.edges[:, torch.randperm(graph.num_edges, generator=generator)]
    test, val = links[:, :6], links[:, 6 : 6 + draw(st.integers(1, 4))]
    flipped = torch.cat([test[:, :3].flip(0), test, test[:, -2:]], dim=1)
    return graph, flipped, torch.cat([val.flip(0), val[:, :1]], dim=1)


@settings(max_examples=100, deadline=None)
@given(own_splits(), st.integers(0, 3))
def test_the_chosen_links_are_hidden_and_nothing_else_is(case, seed: int) -> None:
    graph, test, val = case
    split, _ = given_split(graph, test=test, val=val, seed=seed)
    assert as_set(split.test) == as_set(test)
    assert as_set(split.val) == as_set(val)
    assert as_set(split.train) == as_set(graph.edges) - as_set(test) - as_set(val)
    assert split.test_negatives.shape == split.test.shape
    assert split.val_negatives.shape == split.val.shape
    known = as_set(graph.edges)
    assert not as_set(split.test_negatives) & known
    assert not as_set(split.val_negatives) & known
    audit = audit_split(split, graph)
    assert {finding.kind for finding in audit.findings} <= {"isolated by the split"}


def test_order_direction_and_repetition_do_not_matter() -> None:
    graph = ring(20)
    test, val = graph.edges[:, 3:9], graph.edges[:, 12:14]
    first, notes = given_split(graph, test=test, val=val)
    assert notes == ()
    tangled = torch.cat([test.flip(0).flip(1), test[:, :2], torch.tensor([[4], [4]])], dim=1)
    again, notes = given_split(graph, test=tangled, val=val.flip(0))
    assert again.fingerprint == first.fingerprint
    assert notes == (
        "1 self-link dropped among the test links.",
        "2 repeated links merged among the test links.",
    )


def test_the_validation_links_have_notes_of_their_own() -> None:
    graph = ring(20)
    val = torch.tensor([[1, 2, 5, 6], [2, 1, 5, 6]])
    split, notes = given_split(graph, test=graph.edges[:, 8:14], val=val)
    assert split.sizes == {"train": 13, "val": 1, "test": 6}
    assert notes == (
        "2 self-links dropped among the validation links.",
        "1 repeated link merged among the validation links.",
    )


def test_without_validation_links_a_share_of_the_rest_is_drawn_by_the_seed() -> None:
    graph = ring(30)
    test = graph.edges[:, :10]
    splits = [given_split(graph, test=test, val_share=0.2, seed=seed)[0] for seed in (0, 0, 1)]
    assert splits[0].sizes == {"train": 16, "val": 4, "test": 10}
    assert torch.equal(splits[0].val, splits[1].val)
    assert not torch.equal(splits[0].val, splits[2].val)
    assert not as_set(splits[0].val) & as_set(test)
    assert given_split(graph, test=test, val_share=0.0)[0].sizes["val"] == 0


def test_a_link_in_both_sets_is_refused_by_name() -> None:
    graph = ring(20)
    with pytest.raises(SplitError) as error:
        given_split(graph, test=graph.edges[:, :8], val=graph.edges[:, 6:9].flip(0))
    assert str(error.value) == (
        "2 links are both for validation and for the test: 'n05 - n06', 'n06 - n07'.\n"
        "What chooses the epoch cannot test it. Leave each link in one of the two."
    )


def test_a_pair_that_is_no_link_is_refused_by_name() -> None:
    graph = ring(20)
    odd = torch.tensor([[0, 0, 0, 0, 0, 0, 0, 1], [2, 3, 4, 5, 6, 7, 8, 0]])
    with pytest.raises(SplitError, match=r"7 of the test links are no links .* 'n00 - n06' and 2"):
        given_split(graph, test=odd)


def test_too_few_links_are_refused() -> None:
    graph = ring(10)
    with pytest.raises(SplitError, match="There are 4 test links; at least 5 are needed to be"):
        given_split(graph, test=graph.edges[:, :4])
    with pytest.raises(SplitError, match="There are 0 validation links; at least 1 is needed"):
        given_split(graph, test=graph.edges[:, :5], val=graph.edges[:, :0])
    with pytest.raises(SplitError, match="8 for the test, so 1 would be left to learn from"):
        given_split(graph, test=graph.edges[:, :8], val=graph.edges[:, 8:9])
    with pytest.raises(SplitError, match="must be at least 0 and below 1"):
        given_split(graph, test=graph.edges[:, :5], val_share=float("nan"))
    with pytest.raises(SplitError, match="5 links are left beside the test; 5 % of them"):
        given_split(graph, test=graph.edges[:, :5])
    assert given_split(graph, test=graph.edges[:, :5], val=graph.edges[:, 5:8])[0].sizes == {
        "train": 2, "val": 3, "test": 5,
    }  # fmt: skip


def test_nodes_outside_the_graph_and_other_shapes_are_refused() -> None:
    graph = ring(10)
    with pytest.raises(GraphContentError, match=r"must lie in 0\.\.9, found 0\.\.10"):
        given_split(graph, test=torch.tensor([[0], [10]]))
    with pytest.raises(GraphContentError, match=r"must lie in 0\.\.9, found -1\.\.3"):
        given_split(graph, test=torch.tensor([[-1], [3]]))
    with pytest.raises(GraphContentError, match=r"int64 tensor of shape \[2, any\]"):
        given_split(graph, test=graph.edges.T)
    with pytest.raises(GraphContentError, match=r"torch\.float32"):
        given_split(graph, test=graph.edges.float())
