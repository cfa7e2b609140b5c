from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from cgcl.methods import labelled as module
from cgcl.methods.drnl import drnl_labels
from cgcl.methods.labelled import Batch, LabelledSubgraphs, SubgraphRule, SubgraphsAround
from cgcl.methods.subgraphs import Adjacency, extract

RULE = SubgraphRule(hops=2, nodes_per_hop=6)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGCL_CACHE", str(tmp_path))


def random_links(num_nodes: int, count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    ends = torch.randint(num_nodes, (2, count), generator=generator)
    ends = torch.stack([ends.min(0).values, ends.max(0).values])
    return ends[:, ends[0] < ends[1]].unique(dim=1)


LINKS = random_links(60, 200, 0)
PAIRS = random_links(60, 150, 1)


def alike(one: Batch, other: Batch) -> bool:
    names = ("nodes", "labels", "start", "owner", "degree", "neighbours")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


def test_a_batch_holds_what_was_extracted_and_its_labels() -> None:
    stored = LabelledSubgraphs.kept(LINKS, 60, PAIRS, RULE)
    which = torch.tensor([5, 0, 90])
    batch = stored.batch(which)
    expected = extract(Adjacency(LINKS, 60), PAIRS[:, which], 2, 6, 0)
    assert batch.num_pairs == 3
    assert torch.equal(batch.nodes, expected.nodes)
    assert torch.equal(batch.start, expected.start)
    assert torch.equal(batch.owner, expected.owner)
    assert torch.equal(batch.labels, drnl_labels(expected))
    here = torch.arange(batch.nodes.numel()).repeat_interleave(batch.degree)
    assert torch.equal(torch.stack([here, batch.neighbours]), expected.edge_index)
    assert torch.equal(stored.sizes[which], expected.start.diff())


def test_no_source_is_a_neighbour_of_its_target() -> None:
    batch = LabelledSubgraphs.kept(LINKS, 60, LINKS, RULE).batch(torch.arange(LINKS.shape[1]))
    here = torch.arange(batch.nodes.numel()).repeat_interleave(batch.degree)
    source = batch.start[:-1][batch.owner[here]]
    assert not ((here == source) & (batch.neighbours == source + 1)).any()
    assert not ((here == source + 1) & (batch.neighbours == source)).any()


def test_small_blocks_change_nothing(monkeypatch) -> None:
    every = torch.arange(PAIRS.shape[1])
    whole = LabelledSubgraphs.kept(LINKS, 60, PAIRS, RULE).batch(every)
    monkeypatch.setenv("CGCL_CACHE", "off")
    for unpacked, first in ((100, 1), (2000, 3), (1, 64)):
        monkeypatch.setattr(module, "_UNPACKED", unpacked)
        monkeypatch.setattr(module, "_FIRST_BLOCK", first)
        assert alike(LabelledSubgraphs.kept(LINKS, 60, PAIRS, RULE).batch(every), whole)


def test_blocks_and_batches_cover_all_pairs_in_order(monkeypatch) -> None:
    monkeypatch.setattr(module, "_FIRST_BLOCK", 50)
    ends, counts = [], []
    blocks = list(LabelledSubgraphs.in_blocks(Adjacency(LINKS, 60), PAIRS, RULE))
    assert len(blocks) > 1
    for block in blocks:
        for batch, count in block.batches(num_nodes=40, fewest=4):
            assert batch.num_pairs >= 4
            counts.append(count)
            first = batch.start[:count]
            ends.append(torch.stack([batch.nodes[first], batch.nodes[first + 1]]))
    assert torch.equal(torch.cat(ends, dim=1), PAIRS)
    assert max(counts) >= 4 > min(counts)


def test_what_was_cut_out_once_is_found_on_disk(monkeypatch) -> None:
    first = LabelledSubgraphs.kept(LINKS, 60, PAIRS, RULE)
    every = torch.arange(PAIRS.shape[1])

    def refuse(*_: object) -> None:
        raise AssertionError("cut out again")

    monkeypatch.setattr(module, "extract", refuse)
    assert alike(LabelledSubgraphs.kept(LINKS, 60, PAIRS, RULE).batch(every), first.batch(every))
    for links, num_nodes, pairs, rule in (
        (LINKS[:, 1:], 60, PAIRS, RULE),
        (LINKS, 61, PAIRS, RULE),
        (LINKS, 60, PAIRS[:, 1:], RULE),
        (LINKS, 60, PAIRS, SubgraphRule(1, 6)),
        (LINKS, 60, PAIRS, SubgraphRule(2, 7)),
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

    monkeypatch.setattr(module, "extract", counted)
    monkeypatch.setattr(module, "_FIRST_BLOCK", 50)
    return counts


def test_the_last_two_lists_of_pairs_are_remembered(extracted) -> None:
    around = SubgraphsAround(LINKS, 60, RULE)
    one, other, third = PAIRS[:, :60].clone(), PAIRS[:, 60:], PAIRS[:, 30:90]
    first = batches_around(around, one), batches_around(around, other)
    count = len(extracted)
    assert sum(extracted) == PAIRS.shape[1]
    again = batches_around(around, one), batches_around(around, other)
    assert len(extracted) == count
    for before, after in zip(first, again, strict=True):
        assert all(alike(*both) for both in zip(before, after, strict=True))
    # A third list takes the place of the first.
    batches_around(around, third)
    batches_around(around, other)
    assert sum(extracted[count:]) == 60
    batches_around(around, one)
    assert sum(extracted[count:]) == 120
    # Pairs that were changed in place are other pairs.
    one[:, 0] = PAIRS[:, 99]
    changed = batches_around(around, one)[0]
    assert changed.nodes[:2].tolist() == PAIRS[:, 99].tolist()


def test_lists_that_take_much_memory_are_not_remembered(extracted, monkeypatch) -> None:
    around = SubgraphsAround(LINKS, 60, RULE)
    first = LabelledSubgraphs.kept(LINKS, 60, PAIRS, RULE)
    extracted.clear()
    monkeypatch.setattr(module, "_REMEMBERED_BYTES", first.nbytes // 2)
    batches_around(around, PAIRS)
    batches_around(around, PAIRS)
    assert sum(extracted) == 2 * PAIRS.shape[1]
    # Half of a list must not pass for all of it.
    assert sum(own.num_pairs for own in batches_around(around, PAIRS)) == PAIRS.shape[1]
