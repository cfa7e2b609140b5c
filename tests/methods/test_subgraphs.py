from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgcl.methods import subgraphs as module
from cgcl.methods.subgraphs import Adjacency, Subgraphs, extract


def links_of(pairs: list[tuple[int, int]]) -> Tensor:
    return torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T


# 0 - 1 is the pair; 2 is a neighbour of both, 3 of 0 only, 4 of 1 only, 5 hangs on 3, 6 on 5.
LINKS = links_of([(0, 1), (0, 2), (0, 3), (1, 2), (1, 4), (3, 4), (3, 5), (5, 6)])


def as_sets(subgraphs: Subgraphs, which: int) -> tuple[dict[int, int], set[tuple[int, int]]]:
    """Return the nodes of one subgraph with their hops, and its links by node numbers."""
    first, last = subgraphs.start[which : which + 2].tolist()
    nodes = subgraphs.nodes.tolist()
    hops = dict(zip(nodes[first:last], subgraphs.hop[first:last].tolist(), strict=True))
    links = {(nodes[a], nodes[b]) for a, b in subgraphs.edge_index.T.tolist() if first <= a < last}
    return hops, links


def by_plain_search(
    links: Tensor, pair: tuple[int, int], hops: int
) -> tuple[dict[int, int], set[tuple[int, int]]]:
    """Return what `as_sets` does, computed node by node."""
    around: dict[int, set[int]] = {}
    for a, b in links.T.tolist():
        around.setdefault(a, set()).add(b)
        around.setdefault(b, set()).add(a)
    found = {pair[0]: 0, pair[1]: 0}
    for hop in range(1, hops + 1):
        ring = {w for v, at in found.items() if at == hop - 1 for w in around.get(v, ())}
        found |= {w: hop for w in ring if w not in found}
    inside = {(v, w) for v in found for w in around.get(v, ()) if w in found}
    return found, {link for link in inside if set(link) != set(pair)}


def test_a_subgraph_by_hand() -> None:
    subgraphs = extract(Adjacency(LINKS, 8), torch.tensor([[1], [0]]), 1, 0, 0)
    assert subgraphs.nodes.tolist() == [0, 1, 2, 3, 4]
    assert subgraphs.hop.tolist() == [0, 0, 1, 1, 1]
    assert subgraphs.owner.tolist() == [0] * 5
    assert subgraphs.start.tolist() == [0, 5]
    # 0-2, 0-3, 1-2, 1-4 and 3-4 in both directions; never 0-1
    assert subgraphs.edge_index.tolist() == [
        [0, 0, 1, 1, 2, 2, 3, 3, 4, 4],
        [2, 3, 2, 4, 0, 1, 0, 4, 1, 3],
    ]


@given(
    st.integers(2, 12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=8),
    st.integers(1, 3),
    st.sampled_from([1, 5, 2**17]),
)
@settings(deadline=None, max_examples=150)
def test_subgraphs_are_what_a_plain_search_finds(
    num_nodes: int,
    links: list[tuple[int, int]],
    pairs: list[tuple[int, int]],
    hops: int,
    looked_at: int,
) -> None:
    kept = sorted({(min(link), max(link)) for link in links if max(link) < num_nodes})
    known = links_of([(a, b) for a, b in kept if a != b])
    asked = [(a % num_nodes, b % num_nodes) for a, b in pairs if a % num_nodes != b % num_nodes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LOOKED_AT", looked_at)
        subgraphs = extract(Adjacency(known, num_nodes), links_of(asked), hops, 0, 0)
    assert subgraphs.num_pairs == len(asked)
    for which, pair in enumerate(asked):
        assert as_sets(subgraphs, which) == by_plain_search(known, pair, hops)
        first = int(subgraphs.start[which])
        assert subgraphs.nodes[first : first + 2].tolist() == sorted(pair)
    assert (subgraphs.owner.diff() >= 0).all()
    assert torch.equal(subgraphs.owner.bincount(minlength=len(asked)), subgraphs.start.diff())


def random_links(num_nodes: int, count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(num_nodes, (2, count), generator=generator)
    ends = torch.stack([ends.min(0).values, ends.max(0).values])
    return ends[:, ends[0] < ends[1]].unique(dim=1)


def alike(one: Subgraphs, other: Subgraphs) -> bool:
    return all(
        torch.equal(getattr(one, name), getattr(other, name))
        for name in ("nodes", "owner", "hop", "edge_index", "start")
    )


@pytest.mark.parametrize("cap", [0, 1, 4])
def test_a_subgraph_depends_on_its_own_pair_only(cap: int, monkeypatch) -> None:
    adjacency = Adjacency(random_links(60, 240, 0), 60)
    pairs = random_links(60, 50, 1)
    together = extract(adjacency, pairs, 2, cap, 3)
    which = torch.tensor([7, 0, 0, 31])
    assert alike(extract(adjacency, pairs[:, which], 2, cap, 3), together.select(which))
    assert alike(extract(adjacency, pairs.flip(0), 2, cap, 3), together)
    monkeypatch.setattr(module, "_LOOKED_AT", 7)
    monkeypatch.setattr(module, "_TABLE_PLACES", 200)
    assert alike(extract(adjacency, pairs, 2, cap, 3), together)


def test_a_full_hop_keeps_some_of_its_nodes_by_the_seed() -> None:
    # Node 0 has 40 neighbours, node 1 has none of its own.
    links = links_of([(0, leaf) for leaf in range(2, 42)] + [(2, 42), (3, 42), (2, 3)])
    adjacency, pairs = Adjacency(links, 43), torch.tensor([[0], [1]])
    kept = [extract(adjacency, pairs, 1, 10, seed).nodes.tolist() for seed in range(300)]
    assert all(len(nodes) == len(set(nodes)) == 12 for nodes in kept)
    assert kept[0] == extract(adjacency, pairs, 1, 10, 0).nodes.tolist()
    # Each leaf stays with chance 1/4: 75 of 300 times, give or take.
    times = torch.tensor(kept)[:, 2:].flatten().bincount(minlength=42)[2:42]
    assert times.sum() == 3000
    assert 40 < times.min() < times.max() < 115
    # 42 is only met by way of 2 or 3. What the first hop leaves out stays out: 2 does not come
    # back by way of 3, as if it were no neighbour of 0.
    for seed, nodes in enumerate(kept[:50]):
        reached = extract(adjacency, pairs, 2, 10, seed).nodes.tolist()
        assert set(reached) == {*nodes, *([42] if {2, 3} & set(nodes) else [])}


def test_the_nodes_that_stay_differ_from_pair_to_pair() -> None:
    links = links_of([(0, leaf) for leaf in range(3, 43)])
    pairs = torch.tensor([[0, 0], [1, 2]])
    subgraphs = extract(Adjacency(links, 43), pairs, 1, 10, 0)
    one, other = (as_sets(subgraphs, which)[0].keys() - {0, 1, 2} for which in (0, 1))
    assert len(one) == len(other) == 10
    assert one != other


def test_no_pairs_no_links_and_isolated_ends_are_fine() -> None:
    lonely = Adjacency(torch.empty(2, 0, dtype=torch.int64), 4)
    nothing = extract(lonely, torch.empty(2, 0, dtype=torch.int64), 2, 5, 0)
    assert (nothing.num_pairs, nothing.nodes.numel(), nothing.edge_index.shape) == (0, 0, (2, 0))
    alone = extract(lonely, torch.tensor([[3, 0], [1, 2]]), 2, 5, 0)
    assert alone.nodes.tolist() == [1, 3, 0, 2]
    assert alone.start.tolist() == [0, 2, 4]
    assert alone.select(torch.tensor([1])).nodes.tolist() == [0, 2]
    assert alone.select(torch.empty(0, dtype=torch.int64)).num_pairs == 0


def test_rows_are_sorted_and_degrees_counted() -> None:
    adjacency = Adjacency(LINKS.flip(1), 8)
    which, neighbours = adjacency.take(torch.tensor([3, 7, 0]).numpy())
    assert which.tolist() == [0, 0, 0, 2, 2, 2]
    assert neighbours.tolist() == [0, 4, 5, 1, 2, 3]
    assert adjacency.degree.tolist() == [3, 3, 2, 3, 2, 2, 1, 0]
