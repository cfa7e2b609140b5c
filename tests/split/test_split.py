from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cgcl.errors import GraphContentError, SplitError
from cgcl.graph import Graph
from cgcl.split import random_split
from cgcl.split.split import read_split, write_split


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


@settings(max_examples=100, deadline=None)
@given(random_graphs(), shares, shares, st.integers(0, 10))
def test_no_pair_is_in_two_places(graph: Graph, val: float, test: float, seed: int) -> None:
    unlinked = graph.num_nodes * (graph.num_nodes - 1) // 2 - graph.num_edges
    assume(graph.num_edges >= 50 and (val + test) * graph.num_edges <= unlinked)
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


@settings(max_examples=100, deadline=None)
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
    assert 0.29 * 100 < 29
    assert random_split(star(100), val=0.0, test=0.29).sizes["test"] == 29


def test_the_seed_decides_and_nothing_else_does(cora: Graph) -> None:
    torch.rand(7)  # the global generator must not matter, and is left alone
    before = torch.get_rng_state()
    first, again, other = (random_split(cora, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(before, torch.get_rng_state())
    assert first.fingerprint == again.fingerprint
    assert not torch.equal(first.test, other.test)
    assert not torch.equal(first.test_negatives, other.test_negatives)


def star(num_links: int) -> Graph:
    pairs = torch.tensor([[0] * num_links, list(range(1, num_links + 1))], dtype=torch.int64)
    return Graph.from_pairs("star", [str(i) for i in range(num_links + 1)], pairs)


def test_too_few_links_for_a_test_are_refused_with_a_way_out() -> None:
    with pytest.raises(SplitError) as error:
        random_split(star(12), val=0.0, test=0.10)
    assert str(error.value) == (
        "The graph has 12 links; a 10 % test set would hold 1 link, which cannot be measured.\n"
        "Use at least 50 links, or train without a test set: `test=0`."
    )


COMPLETE = Graph.from_pairs("k", list(map(str, range(20))), torch.combinations(torch.arange(20)).T)


@pytest.mark.parametrize(
    ("graph", "val", "test", "words"),
    [
        (star(12), 0.05, 0.0, r"Use at least 20 links, .* `val=0`\."),
        (star(0), 0.05, 0.1, "1 nodes and no links"),
        # Almost complete graphs are refused, not shortchanged.
        (COMPLETE, 0.05, 0.1, "Only 0 pairs are not linked; 28 are needed"),
        *(
            (COMPLETE, val, test, "both must be at least 0 and together below 1")
            for val, test in ((-0.1, 0.1), (0.5, 0.5), (0.0, float("nan")), (1.0, 0))
        ),
    ],
)
def test_what_cannot_be_split_is_refused(graph: Graph, val: float, test: float, words: str) -> None:
    with pytest.raises((SplitError, GraphContentError), match=words):
        random_split(graph, val, test)


def test_a_split_is_stored_and_read_back(tmp_path, cora: Graph) -> None:
    split = random_split(cora)
    write_split(tmp_path / "split.safetensors", split)
    again = read_split(tmp_path / "split.safetensors")
    assert again.fingerprint == split.fingerprint
