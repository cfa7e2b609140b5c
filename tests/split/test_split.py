from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cgcl.errors import GraphContentError, SplitError
from cgcl.graph import Graph
from cgcl.split import Split, random_split
from cgcl.split.stored import read_split, write_split


def as_set(pairs: torch.Tensor) -> set[tuple[int, int]]:
    """Unordered pairs; fails if one occurs twice, in whatever direction."""
    listed = [tuple(sorted(pair)) for pair in pairs.T.tolist()]
    assert len(set(listed)) == len(listed), "a pair occurs twice"
    return set(listed)


@st.composite
def random_graphs(draw: st.DrawFn) -> Graph:
    """Graphs of 50 to some 600 links, listed in any order and direction, some of them twice."""
    num_nodes = draw(st.integers(20, 40))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    pairs = torch.combinations(torch.arange(num_nodes), 2).T
    density = draw(st.floats(0.35, 0.75))
    links = pairs[:, torch.rand(pairs.shape[1], generator=generator) < density]
    links = torch.cat([links.flip(0), links[:, ::7]], dim=1)
    return Graph.from_pairs("g", [str(i) for i in range(num_nodes)], links)


shares = st.one_of(st.just(0.0), st.floats(0.1, 0.3))


@settings(max_examples=200, deadline=None)
@given(random_graphs(), shares, shares, st.integers(0, 10))
def test_no_pair_is_in_two_places(graph: Graph, val: float, test: float, seed: int) -> None:
    unlinked = graph.num_nodes * (graph.num_nodes - 1) // 2 - graph.num_edges
    assume((val + test) * graph.num_edges <= unlinked)
    split = random_split(graph, val, test, seed)
    assert split.sizes["val"] == pytest.approx(val * graph.num_edges, abs=1)
    assert split.sizes["test"] == pytest.approx(test * graph.num_edges, abs=1)
    known = as_set(graph.edges)
    train, validation, tested = as_set(split.train), as_set(split.val), as_set(split.test)
    val_negatives, test_negatives = as_set(split.val_negatives), as_set(split.test_negatives)
    assert not train & validation
    assert not train & tested
    assert not validation & tested
    assert train | validation | tested == known
    assert not val_negatives & known
    assert not test_negatives & known
    assert not val_negatives & test_negatives
    assert len(val_negatives) == len(validation)
    assert len(test_negatives) == len(tested)
    assert all(a < b for a, b in val_negatives | test_negatives)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(2, 12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=40),
    st.floats(0, 0.99),
    st.floats(0, 0.99),
)
def test_any_small_graph_is_split_or_refused_with_an_error_of_ours(n, pairs, val, test) -> None:
    pairs = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T % n
    graph = Graph.from_pairs("g", [str(i) for i in range(n)], pairs)
    try:
        split = random_split(graph, val, test)
    except (SplitError, GraphContentError):
        return
    assert sum(split.sizes.values()) == graph.num_edges


def test_cora_is_divided_as_in_the_paper(cora: Graph) -> None:
    assert random_split(cora, 0.05, 0.10).sizes == {"train": 4488, "val": 263, "test": 527}
    assert random_split(cora, 0.10, 0.20).sizes == {"train": 3696, "val": 527, "test": 1055}


def test_a_share_that_rounding_would_cut_short_is_kept() -> None:
    pairs = torch.tensor([[0] * 100, list(range(1, 101))])
    graph = Graph.from_pairs("star", [str(i) for i in range(101)], pairs)
    assert 0.29 * 100 < 29
    assert random_split(graph, val=0.0, test=0.29).sizes["test"] == 29


def parts(split: Split) -> list[torch.Tensor]:
    return [split.train, split.val, split.test, split.val_negatives, split.test_negatives]


def test_the_seed_decides_and_nothing_else_does(cora: Graph) -> None:
    torch.rand(7)  # the global generator must not matter
    first, again, other = (random_split(cora, seed=seed) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(parts(first), parts(again), strict=True))
    assert not torch.equal(first.test, other.test)
    assert not torch.equal(first.test_negatives, other.test_negatives)


def test_splitting_leaves_the_global_generator_alone(cora: Graph) -> None:
    before = torch.get_rng_state()
    random_split(cora)
    assert torch.equal(before, torch.get_rng_state())


def small(num_links: int) -> Graph:
    pairs = torch.tensor([[0] * num_links, list(range(1, num_links + 1))])
    return Graph.from_pairs("star", [str(i) for i in range(num_links + 1)], pairs)


def test_too_few_links_for_a_test_are_refused_with_a_way_out() -> None:
    with pytest.raises(SplitError) as error:
        random_split(small(12), val=0.0, test=0.10)
    assert str(error.value) == (
        "The graph has 12 links; a 10 % test set would hold 1 link, which cannot be measured.\n"
        "Use at least 50 links, or train without a test set: `test=0`."
    )


def test_too_few_links_to_choose_by_are_refused_with_a_way_out() -> None:
    with pytest.raises(SplitError, match=r"Use at least 20 links, .* `val=0`\."):
        random_split(small(12), val=0.05, test=0.0)


def test_a_graph_without_links_is_refused() -> None:
    empty = Graph.from_pairs("e", ["a", "b"], torch.empty(2, 0, dtype=torch.int64))
    with pytest.raises(GraphContentError, match="2 nodes and no links"):
        random_split(empty)


def test_an_almost_complete_graph_is_refused_not_shortchanged() -> None:
    nodes = torch.arange(20)
    graph = Graph.from_pairs("k", [str(i) for i in range(20)], torch.combinations(nodes, 2).T)
    with pytest.raises(SplitError, match="Only 0 pairs are not linked; 28 are needed"):
        random_split(graph)


def test_a_split_is_stored_and_read_back(tmp_path, cora: Graph) -> None:
    split = random_split(cora)
    write_split(tmp_path / "split.safetensors", split)
    again = read_split(tmp_path / "split.safetensors")
    assert again.num_nodes == split.num_nodes
    assert all(torch.equal(a, b) for a, b in zip(parts(split), parts(again), strict=True))


@pytest.mark.parametrize(("val", "test"), [(-0.1, 0.1), (0.5, 0.5), (0.0, float("nan")), (1.0, 0)])
def test_shares_that_make_no_sense_are_refused(cora: Graph, val: float, test: float) -> None:
    with pytest.raises(SplitError, match="both must be at least 0 and together below 1"):
        random_split(cora, val, test)
