from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from cgcl.graph.adjacency import Adjacency
from cgcl.methods.subgraph import labelled
from cgcl.methods.subgraph import subgraphs as module
from cgcl.methods.subgraph.labelled import (
    LARGEST_LABEL,
    Batch,
    LabelledSubgraphs,
    SubgraphsAround,
    drnl_labels,
)
from cgcl.methods.subgraph.subgraphs import Subgraphs, Surroundings, extract

RULE = Surroundings(hops=2, nodes_per_hop=6)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGCL_CACHE", str(tmp_path))


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
    subgraphs = extract(
        Adjacency.from_pairs(LINKS, 8), torch.tensor([[1], [0]]), Surroundings(1, 0)
    )
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
@settings(deadline=None, max_examples=60)
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
        subgraphs = extract(
            Adjacency.from_pairs(known, num_nodes), links_of(asked), Surroundings(hops, 0)
        )
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
    adjacency, around = Adjacency.from_pairs(random_links(60, 240, 0), 60), Surroundings(2, cap)
    pairs = random_links(60, 50, 1)
    together = extract(adjacency, pairs, around)
    some = extract(adjacency, pairs[:, [7, 0, 0, 31]], around)
    for which, place in enumerate((7, 0, 0, 31)):
        assert as_sets(some, which) == as_sets(together, place)
    assert alike(extract(adjacency, pairs.flip(0), around), together)
    monkeypatch.setattr(module, "_LOOKED_AT", 7)
    monkeypatch.setattr(module, "_TABLE_PLACES", 200)
    assert alike(extract(adjacency, pairs, around), together)


def test_a_full_hop_keeps_some_of_its_nodes_by_the_pair() -> None:
    """Node 0 has 40 neighbours, each of 100 others has none: a chance of 1/4 for each leaf."""
    links = links_of([(0, leaf) for leaf in range(2, 42)] + [(2, 42), (3, 42), (2, 3)])
    pairs = torch.stack([torch.zeros(100, dtype=torch.int64), torch.arange(43, 143)])
    adjacency = Adjacency.from_pairs(links, 143)
    near = extract(adjacency, pairs, Surroundings(1, 10))
    kept = near.nodes.view(100, 12)[:, 2:]
    times = kept.flatten().bincount(minlength=42)[2:42]
    assert times.sum() == 1000
    assert 8 < times.min() < times.max() < 45
    # 42 is only met by way of 2 or 3. What the first hop leaves out stays out: 2 does not come
    # back by way of 3, as if it were no neighbour of 0.
    far = extract(adjacency, pairs, Surroundings(2, 10))
    for which, nodes in enumerate(kept.tolist()):
        reached = as_sets(far, which)[0].keys() - {0, 43 + which}
        assert reached == {*nodes, *([42] if {2, 3} & set(nodes) else [])}


def test_no_pairs_no_links_and_isolated_ends_are_fine() -> None:
    none = torch.empty(2, 0, dtype=torch.int64)
    lonely = Adjacency.from_pairs(none, 4)
    nothing = extract(lonely, none, Surroundings(2, 5))
    assert (nothing.num_pairs, nothing.nodes.numel(), nothing.edge_index.shape) == (0, 0, (2, 0))
    alone = extract(lonely, torch.tensor([[3, 0], [1, 2]]), Surroundings(2, 5))
    assert alone.nodes.tolist() == [1, 3, 0, 2]
    assert alone.start.tolist() == [0, 2, 4]


def labels_around(
    links: list[tuple[int, int]], hops: int, pair: tuple[int, int] = (0, 1)
) -> dict[int, int]:
    known = torch.tensor(links).T
    num_nodes = int(known.max()) + 2
    subgraphs = extract(
        Adjacency.from_pairs(known, num_nodes), torch.tensor([pair]).T, Surroundings(hops, 0)
    )
    return dict(zip(subgraphs.nodes.tolist(), drnl_labels(subgraphs).tolist(), strict=True))


# 2 is a neighbour of both ends, 3 of 0 only and 4 of 1 only; 5 hangs on 3 and 6 on 5, 7 on 2;
# a tail of 8, 9, 10 and 11 hangs on 1.
CHAINED = [(0, 2), (0, 3), (1, 2), (1, 4), (3, 4), (3, 5), (5, 6), (2, 7)]
CHAINED += [(1, 8), (8, 9), (9, 10), (10, 11)]


def test_labels_by_hand() -> None:
    """f = 1 + min(dx, dy) + (d // 2) (d // 2 + d % 2 - 1), ways to one end avoid the other."""
    labels = labels_around([(0, 1), *CHAINED], 4)
    assert labels == {
        0: 1,
        1: 1,
        2: 2,  # dx 1, dy 1, d 2: 1 + 1 + 1 (1 + 0 - 1)
        3: 3,  # dx 1, dy 2 by way of 4, d 3: 1 + 1 + 1 (1 + 1 - 1)
        4: 3,  # dx 2, dy 1
        5: 7,  # dx 2, dy 3, d 5: 1 + 2 + 2 (2 + 1 - 1)
        6: 13,  # dx 3, dy 4, d 7: 1 + 3 + 3 (3 + 1 - 1)
        7: 5,  # dx 2, dy 2, d 4: 1 + 2 + 2 (2 + 0 - 1)
        **dict.fromkeys([8, 9, 10, 11], 0),  # their only way to 0 leads through 1
    }
    assert labels_around(CHAINED, 4) == labels  # the link of the pair itself plays no part
    assert labels_around(CHAINED, 1) == {0: 1, 1: 1, 2: 2, 3: 3, 4: 3, 8: 0}


@pytest.mark.parametrize(
    ("to_source", "to_target", "label"),
    [(1, 1, 2), (1, 2, 3), (1, 3, 4), (2, 2, 5), (1, 4, 6), (2, 3, 7), (1, 5, 8), (2, 4, 9)],
)
def test_the_labels_number_the_distances_as_in_the_paper(
    to_source: int, to_target: int, label: int
) -> None:
    """A node at the end of a chain to each end of the pair has both distances."""
    chains = [(2, 100)] if to_source > 1 else [(2, 0)]
    chains += [(99 + at, 100 + at) for at in range(1, to_source - 1)]
    chains += [(100 + to_source - 2, 0)] if to_source > 1 else []
    chains += [(2, 200)] if to_target > 1 else [(2, 1)]
    chains += [(199 + at, 200 + at) for at in range(1, to_target - 1)]
    chains += [(200 + to_target - 2, 1)] if to_target > 1 else []
    assert labels_around(chains, 8)[2] == label


def test_far_nodes_share_the_largest_label() -> None:
    rails, rungs = [(at, at + 2) for at in range(140)], [(at, at + 1) for at in range(2, 140, 2)]
    labels = labels_around(rails + rungs, 200)
    assert labels[2] == labels[3] == 3
    assert labels[140] == labels[120] == max(labels.values()) == LARGEST_LABEL


def by_scipy(subgraphs: Subgraphs, which: int) -> Tensor:
    first, last = subgraphs.start[which : which + 2].tolist()
    size = last - first
    edges = subgraphs.edge_index[:, (subgraphs.edge_index[0] >= first)]
    edges = edges[:, edges[0] < last] - first
    dense = np.zeros((size, size))
    dense[edges[0], edges[1]] = 1
    distances = []
    for end, other in ((0, 1), (1, 0)):
        cut = dense.copy()
        cut[other], cut[:, other] = 0, 0
        distances.append(shortest_path(csr_array(cut), unweighted=True, indices=end))
    is_far = ~np.isfinite(np.add(*distances))
    to_source, to_target = (np.where(is_far, 0, distance) for distance in distances)
    near, both = np.minimum(to_source, to_target), to_source + to_target
    label = 1 + near + (both // 2) * (both // 2 + both % 2 - 1)
    label[is_far] = 0
    label[:2] = 1
    return torch.from_numpy(label).long()


@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=6),
    st.integers(1, 3),
)
@settings(deadline=None, max_examples=30)
def test_labels_are_what_scipys_shortest_paths_give(
    links: list[tuple[int, int]], pairs: list[tuple[int, int]], hops: int
) -> None:
    kept = sorted({(min(link), max(link)) for link in links if link[0] != link[1]})
    known = torch.tensor(kept, dtype=torch.int64).reshape(-1, 2).T
    asked = [pair for pair in pairs if pair[0] != pair[1]]
    subgraphs = extract(Adjacency.from_pairs(known, 12), links_of(asked), Surroundings(hops, 0))
    labels = drnl_labels(subgraphs)
    for which in range(len(asked)):
        first, last = subgraphs.start[which : which + 2].tolist()
        assert torch.equal(labels[first:last], by_scipy(subgraphs, which))


KNOWN = random_links(60, 200, 0)
ASKED = random_links(60, 150, 1)


def batches_alike(one: Batch, other: Batch) -> bool:
    names = ("nodes", "labels", "start", "owner", "degree", "neighbours")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


def test_a_batch_holds_what_was_extracted_and_its_labels() -> None:
    stored = LabelledSubgraphs.kept(KNOWN, 60, ASKED, RULE)
    which = torch.tensor([5, 0, 90])
    batch = stored.batch(which)
    expected = extract(Adjacency.from_pairs(KNOWN, 60), ASKED[:, which], RULE)
    assert batch.num_pairs == 3
    assert torch.equal(batch.nodes, expected.nodes)
    assert torch.equal(batch.start, expected.start)
    assert torch.equal(batch.owner, expected.owner)
    assert torch.equal(batch.labels, drnl_labels(expected))
    here = torch.arange(batch.nodes.numel()).repeat_interleave(batch.degree)
    assert torch.equal(torch.stack([here, batch.neighbours]), expected.edge_index)
    assert torch.equal(stored.sizes[which], expected.start.diff())


def test_no_source_is_a_neighbour_of_its_target() -> None:
    batch = LabelledSubgraphs.kept(KNOWN, 60, KNOWN, RULE).batch(torch.arange(KNOWN.shape[1]))
    here = torch.arange(batch.nodes.numel()).repeat_interleave(batch.degree)
    source = batch.start[:-1][batch.owner[here]]
    assert not ((here == source) & (batch.neighbours == source + 1)).any()
    assert not ((here == source + 1) & (batch.neighbours == source)).any()


def test_small_blocks_change_nothing(monkeypatch) -> None:
    every = torch.arange(ASKED.shape[1])
    whole = LabelledSubgraphs.kept(KNOWN, 60, ASKED, RULE).batch(every)
    monkeypatch.setenv("CGCL_CACHE", "off")
    for unpacked, first in ((100, 1), (2000, 3), (1, 64)):
        monkeypatch.setattr(labelled, "_UNPACKED", unpacked)
        monkeypatch.setattr(labelled, "_FIRST_BLOCK", first)
        assert batches_alike(LabelledSubgraphs.kept(KNOWN, 60, ASKED, RULE).batch(every), whole)


def test_blocks_and_batches_cover_all_pairs_in_order(monkeypatch) -> None:
    monkeypatch.setattr(labelled, "_FIRST_BLOCK", 50)
    ends, counts = [], []
    blocks = list(LabelledSubgraphs.in_blocks(Adjacency.from_pairs(KNOWN, 60), ASKED, RULE))
    assert len(blocks) > 1
    for block in blocks:
        for batch, count in block.batches(num_nodes=40, fewest=4):
            assert batch.num_pairs >= 4
            counts.append(count)
            first = batch.start[:count]
            ends.append(torch.stack([batch.nodes[first], batch.nodes[first + 1]]))
    assert torch.equal(torch.cat(ends, dim=1), ASKED)
    assert max(counts) >= 4 > min(counts)


def test_what_was_cut_out_once_is_found_on_disk(monkeypatch) -> None:
    first = LabelledSubgraphs.kept(KNOWN, 60, ASKED, RULE)
    every = torch.arange(ASKED.shape[1])

    def refuse(*_: object) -> None:
        raise AssertionError("cut out again")

    monkeypatch.setattr(labelled, "extract", refuse)
    assert batches_alike(
        LabelledSubgraphs.kept(KNOWN, 60, ASKED, RULE).batch(every), first.batch(every)
    )
    for links, num_nodes, pairs, rule in (
        (KNOWN[:, 1:], 60, ASKED, RULE),
        (KNOWN, 61, ASKED, RULE),
        (KNOWN, 60, ASKED[:, 1:], RULE),
        (KNOWN, 60, ASKED, Surroundings(1, 6)),
        (KNOWN, 60, ASKED, Surroundings(2, 7)),
    ):
        with pytest.raises(AssertionError, match="cut out again"):
            LabelledSubgraphs.kept(links, num_nodes, pairs, rule)


def batches_around(around: SubgraphsAround, pairs: Tensor) -> list[Batch]:
    return [block.batch(torch.arange(block.sizes.numel())) for block in around.blocks(pairs)]


@pytest.fixture
def extracted(monkeypatch) -> list[int]:
    """Note how many pairs are cut out each time."""
    counts: list[int] = []

    def counted(adjacency: Adjacency, pairs: Tensor, *how: int) -> object:
        counts.append(pairs.shape[1])
        return extract(adjacency, pairs, *how)

    monkeypatch.setattr(labelled, "extract", counted)
    monkeypatch.setattr(labelled, "_FIRST_BLOCK", 50)
    return counts


def test_the_last_two_lists_of_pairs_are_remembered(extracted) -> None:
    around = SubgraphsAround(KNOWN, 60, RULE)
    one, other, third = ASKED[:, :60].clone(), ASKED[:, 60:], ASKED[:, 30:90]
    first = batches_around(around, one), batches_around(around, other)
    count = len(extracted)
    assert sum(extracted) == ASKED.shape[1]
    again = batches_around(around, one), batches_around(around, other)
    assert len(extracted) == count
    for before, after in zip(first, again, strict=True):
        assert all(batches_alike(*both) for both in zip(before, after, strict=True))
    # A third list takes the place of the first.
    batches_around(around, third)
    batches_around(around, other)
    assert sum(extracted[count:]) == 60
    batches_around(around, one)
    assert sum(extracted[count:]) == 120
    # Pairs that were changed in place are other pairs.
    one[:, 0] = ASKED[:, 99]
    changed = batches_around(around, one)[0]
    assert changed.nodes[:2].tolist() == ASKED[:, 99].tolist()


def test_lists_that_take_much_memory_are_not_remembered(extracted, monkeypatch) -> None:
    around = SubgraphsAround(KNOWN, 60, RULE)
    first = LabelledSubgraphs.kept(KNOWN, 60, ASKED, RULE)
    extracted.clear()
    monkeypatch.setattr(labelled, "_REMEMBERED_BYTES", first.nbytes // 2)
    batches_around(around, ASKED)
    batches_around(around, ASKED)
    assert sum(extracted) == 2 * ASKED.shape[1]
    # Half of a list must not pass for all of it.
    assert sum(own.num_pairs for own in batches_around(around, ASKED)) == ASKED.shape[1]
