import errno
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cgcl.graph.adjacency import Adjacency
from cgcl.methods import seal
from cgcl.methods import subgraphs as module
from cgcl.methods.method import TrainingGraph
from cgcl.methods.s3grl import S3GRL, Diffusion, S3GRLSettings, _normalised
from cgcl.methods.seal import DGCNN, SEAL, LabelledSubgraphs, SEALSettings, drnl_labels
from cgcl.methods.subgraphs import (
    Arrays,
    Examples,
    Subgraphs,
    SubgraphSettings,
    Surroundings,
    cache_folder,
    cached,
    extract,
)


def rule(hops: int, nodes_per_hop: int) -> SubgraphSettings:
    return SubgraphSettings(hops=hops, nodes_per_hop=nodes_per_hop)


RULE = rule(2, 6)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let every test have an empty cache of its own."""
    monkeypatch.setenv("CGCL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


Pairs = list[tuple[int, int]]
ENDS = st.tuples(st.integers(0, 11), st.integers(0, 11))


def links_of(pairs: Pairs) -> Tensor:
    """Return each pair of different nodes once."""
    kept = {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}
    return torch.tensor(sorted(kept), dtype=torch.int64).reshape(-1, 2).T


def as_sets(subgraphs: Subgraphs, which: int) -> tuple[set[int], set[tuple[int, int]]]:
    """Return the nodes of one subgraph, and its links by node numbers."""
    first, last = subgraphs.start[which : which + 2].tolist()
    nodes = subgraphs.nodes.tolist()
    links = {(nodes[a], nodes[b]) for a, b in subgraphs.edge_index.T.tolist() if first <= a < last}
    return set(nodes[first:last]), links


def by_networkx(links: Tensor, pair: tuple[int, int], hops: int) -> tuple[set, set]:
    """Return what `as_sets` does."""
    graph = nx.Graph(links.T.tolist())
    graph.add_nodes_from(pair)
    around = graph.subgraph(node for end in pair for node in nx.ego_graph(graph, end, hops))
    links_of_both = {*around.edges, *((b, a) for a, b in around.edges)}
    return set(around), links_of_both - {pair, pair[::-1]}


@given(
    st.integers(2, 12),
    st.lists(ENDS, max_size=30),
    st.lists(ENDS, max_size=8),
    st.integers(1, 3),
    st.sampled_from([1, 5, 2**17]),
)
@settings(deadline=None, max_examples=60)
def test_subgraphs_are_what_networkx_finds(
    num_nodes: int, links: Pairs, pairs: Pairs, hops: int, looked_at: int
) -> None:
    known = links_of([link for link in links if max(link) < num_nodes])
    asked = [(a % num_nodes, b % num_nodes) for a, b in pairs if a % num_nodes != b % num_nodes]
    adjacency, ends = Adjacency.from_pairs(known, num_nodes), torch.tensor(asked).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LOOKED_AT", looked_at)
        subgraphs = extract(adjacency, ends.long(), rule(hops, 0))
    assert subgraphs.start.numel() == len(asked) + 1
    for which, pair in enumerate(asked):
        assert as_sets(subgraphs, which) == by_networkx(known, pair, hops)
        first = int(subgraphs.start[which])
        assert subgraphs.nodes[first : first + 2].tolist() == sorted(pair)
    assert (subgraphs.owner.diff() >= 0).all()
    assert torch.equal(subgraphs.owner.bincount(minlength=len(asked)), subgraphs.start.diff())


def random_links(num_nodes: int, count: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return links_of(torch.randint(num_nodes, (count, 2), generator=generator).tolist())


def alike(one: Subgraphs, other: Subgraphs) -> bool:
    return all(
        torch.equal(getattr(one, name), getattr(other, name))
        for name in ("nodes", "owner", "edge_index", "start")
    )


@pytest.mark.parametrize("cap", [0, 1, 4])
def test_a_subgraph_depends_on_its_own_pair_only(cap: int, monkeypatch) -> None:
    adjacency, around = Adjacency.from_pairs(random_links(60, 240, 0), 60), rule(2, cap)
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
    near = extract(adjacency, pairs, rule(1, 10))
    kept = near.nodes.view(100, 12)[:, 2:]
    times = kept.flatten().bincount(minlength=42)[2:42]
    assert times.sum() == 1000
    assert 8 < times.min() < times.max() < 45
    # 42 is only met by way of 2 or 3. What the first hop leaves out stays out: 2 does not come
    # back by way of 3, as if it were no neighbour of 0.
    far = extract(adjacency, pairs, rule(2, 10))
    for which, nodes in enumerate(kept.tolist()):
        reached = as_sets(far, which)[0] - {0, 43 + which}
        assert reached == {*nodes, *([42] if {2, 3} & set(nodes) else [])}


def test_chances_are_those_of_splitmix64_whatever_is_asked_together() -> None:
    """By whole numbers without end: a model that was saved keeps the same nodes for ever."""
    mask, rows = 2**64 - 1, [(0, 1, 2), (7, 1234, 99), (2**40, 0, 5)]
    expected = []
    for row in rows:
        state = 0
        for number in (0, *row):
            state = ((state ^ number) + 0x9E3779B97F4A7C15) & mask
            state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
            state = (state ^ (state >> 27)) * 0x94D049BB133111EB & mask
            state ^= state >> 31
        expected.append(state)
    found = module._hashed(*torch.tensor(rows).T)
    assert [own & mask for own in found.tolist()] == expected
    assert module._shifted(found, 13).tolist() == [own >> 13 for own in expected]


def test_far_nodes_share_the_largest_label(monkeypatch) -> None:
    monkeypatch.setattr(seal, "LARGEST_LABEL", 60)
    rails, rungs = [(at, at + 2) for at in range(30)], [(at, at + 1) for at in range(2, 30, 2)]
    adjacency = Adjacency.from_pairs(torch.tensor(rails + rungs).T, 32)
    subgraphs = extract(adjacency, torch.tensor([[0], [1]]), rule(16, 0))
    labels = dict(zip(subgraphs.nodes.tolist(), drnl_labels(subgraphs).tolist(), strict=True))
    assert labels[2] == labels[3] == 3
    assert labels[30] == labels[28] == max(labels.values()) == 60


def labels_by_networkx(subgraphs: Subgraphs, which: int) -> list[int]:
    source, last = subgraphs.start[which : which + 2].tolist()
    graph, target = nx.Graph(subgraphs.edge_index.T.tolist()), source + 1
    graph.add_nodes_from((source, target))
    to_source, to_target = (
        nx.single_source_shortest_path_length(graph.subgraph(set(graph) - {other}), end)
        for end, other in ((source, target), (target, source))
    )
    labels = [1, 1]
    for node in range(source + 2, last):
        near, far = sorted([to_source.get(node, -1), to_target.get(node, -1)])
        half, odd = divmod(near + far, 2)
        labels.append(0 if near < 0 else 1 + near + half * (half + odd - 1))
    return labels


@given(st.lists(ENDS, max_size=30), st.lists(ENDS, min_size=1, max_size=6), st.integers(1, 3))
@settings(deadline=None, max_examples=30)
def test_labels_are_what_shortest_paths_give(links: Pairs, pairs: Pairs, hops: int) -> None:
    adjacency = Adjacency.from_pairs(links_of(links), 12)
    subgraphs = extract(adjacency, links_of(pairs), rule(hops, 0))
    labels = drnl_labels(subgraphs)
    for which in range(subgraphs.start.numel() - 1):
        first, last = subgraphs.start[which : which + 2].tolist()
        assert labels[first:last].tolist() == labels_by_networkx(subgraphs, which)


KNOWN = TrainingGraph(60, random_links(60, 200, 0))
ASKED = random_links(60, 150, 1)


def test_a_batch_holds_what_was_extracted_and_its_labels(monkeypatch) -> None:
    stored = LabelledSubgraphs.kept(KNOWN, ASKED, RULE)
    parts = [torch.tensor([5, 0, 90]), torch.tensor([7]), torch.tensor([1, 2])]
    for fetched in (2**20, 1):  # all together, or each alone
        monkeypatch.setattr(module, "_FETCHED", fetched)
        for which, batch in zip(parts, stored.in_turn(parts), strict=True):
            expected = extract(KNOWN.adjacency, ASKED[:, which], RULE)
            assert torch.equal(batch.nodes.long(), expected.nodes)
            assert torch.equal(batch.start, expected.start)
            assert torch.equal(batch.owner - batch.owner[0], expected.owner)
            assert torch.equal(batch.labels.long(), drnl_labels(expected))
            assert torch.equal(stored.sizes[which], expected.start.diff())
            t = expected.nodes.numel()
            found = batch.adjacency.times(torch.eye(t))
            torch.testing.assert_close(found, torch.from_numpy(_normalised(expected).toarray()))


def test_blocks_and_batches_cover_all_pairs_in_order(monkeypatch) -> None:
    monkeypatch.setattr(module, "_FIRST_BLOCK", 50)
    ends, counts = [], []
    blocks = list(LabelledSubgraphs.in_blocks(KNOWN.adjacency, ASKED, RULE))
    assert len(blocks) > 1
    for block in blocks:
        for batch, count in block.batches(num_nodes=40, fewest=4):
            assert batch.start.numel() > 4
            counts.append(count)
            first = batch.start[:count]
            ends.append(torch.stack([batch.nodes[first], batch.nodes[first + 1]]).long())
    assert torch.equal(torch.cat(ends, dim=1), ASKED)
    assert max(counts) >= 4 > min(counts)


@pytest.mark.parametrize("method", [SEAL, S3GRL])
def test_no_step_waits_for_a_device(method: type[SEAL | S3GRL], monkeypatch) -> None:
    """On torch's device without numbers, whatever asks for one fails."""
    monkeypatch.setattr(DGCNN, "size", 12)
    settings = (SEALSettings if method is SEAL else S3GRLSettings)(hops=2, hidden=8)
    kept = method.surroundings.kept(KNOWN, ASKED, settings)
    kept, learner = type(kept)(kept.arrays, "meta"), method(5, settings).to("meta")
    features = learner.prepared(replace(KNOWN, x=torch.empty(60, 5, device="meta")), kept)
    examples = Examples(0, torch.empty(0), kept, features)
    batches = torch.randperm(ASKED.shape[1]).split(7)
    for logits, chosen in zip(learner.logits(examples, batches), batches, strict=True):
        assert logits.shape == chosen.shape
        logits.sum().backward()


@pytest.mark.parametrize("kind", [LabelledSubgraphs, Diffusion])
def test_what_was_cut_out_once_is_found_on_disk(kind: type[Surroundings], monkeypatch) -> None:
    around = S3GRLSettings(hops=2, nodes_per_hop=6, powers=2)
    first = kind.kept(KNOWN, ASKED, around).arrays

    def refuse(*_: object) -> None:
        raise AssertionError("cut out again")

    monkeypatch.setattr(module, "extract", refuse)
    assert same(kind.kept(KNOWN, ASKED, around).arrays, first)
    for known, pairs, changed in (
        (KNOWN.with_links(KNOWN.links[:, 1:]), ASKED, {}),
        (TrainingGraph(61, KNOWN.links), ASKED, {}),
        (KNOWN, ASKED[:, 1:], {}),
        (KNOWN, ASKED, {"hops": 1}),
        (KNOWN, ASKED, {"nodes_per_hop": 7}),
        (KNOWN, ASKED, {"powers": 1}),
    ):
        with pytest.raises(AssertionError, match="cut out again"):
            kind.kept(known, pairs, replace(around, **changed))


@pytest.mark.parametrize("room", [2**28, 5000])
def test_the_last_lists_of_pairs_are_remembered_if_they_are_small(room, monkeypatch) -> None:
    cut_out: list[int] = []

    def counted(*asked: Any) -> Subgraphs:
        cut_out.append(asked[1].shape[1])
        return extract(*asked)

    monkeypatch.setattr(module, "extract", counted)
    monkeypatch.setattr(module, "_FIRST_BLOCK", 50)
    monkeypatch.setattr(LabelledSubgraphs, "remembered_bytes", room)
    learner = SEAL(0, SEALSettings(hops=2, nodes_per_hop=6, use_features=False))

    def ends(pairs: Tensor) -> Tensor:
        found = []
        for block in learner.blocks(pairs, KNOWN):
            batch = block.fetched(torch.arange(block.sizes.numel()))
            found.append(batch.nodes[batch.start[:-1, None] + torch.arange(2)].T.long())
        return torch.cat(found, dim=1)

    one, other, third = ASKED[:, :60].clone(), ASKED[:, 60:], ASKED[:, 30:90]
    for pairs in (one, other, one, other, third, other, one):
        assert torch.equal(ends(pairs), pairs)
    count, small = ASKED.shape[1], room > 5000
    # A third list takes the place of the first; what is large is cut out every time.
    assert sum(cut_out) == (count + 120 if small else 3 * count + 60)
    # Pairs that were changed in place are other pairs.
    one[:, 0] = ASKED[:, 99]
    assert torch.equal(ends(one), one)


class Work:
    """Something to compute, and how often it was."""

    def __init__(self, value: float = 1.0, size: int = 3) -> None:
        self.times, self.value, self.size = 0, value, size

    def __call__(self) -> Arrays:
        self.times += 1
        return {
            "values": np.full(self.size, self.value, dtype=np.float32),
            "nodes": np.arange(4, dtype=np.int32).reshape(2, 2),
            "none": np.empty((0, 2), dtype=np.int64),
            "flags": np.array([True, False]),
        }


def same(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) and one[name].dtype == other[name].dtype
        for name in one
    )


def test_what_was_computed_once_comes_from_disk_and_no_array_changes_it(folder: Path) -> None:
    work = Work()
    first, again = cached("toy-1", ["a"], work), cached("toy-1", ["a"], work)
    assert same(first, again)
    (path,) = folder.glob("*.safetensors")
    before = path.read_bytes()
    cached("toy-1", ["a"], work)["values"][:] = 7
    assert path.read_bytes() == before
    assert work.times == 1
    path.unlink()  # a mapped array outlives its file
    assert same(again, Work()())


PATH = torch.tensor([[0, 1], [1, 2]])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a", "b"], ["ab"]),
        ([1, 2], [12]),
        (["1"], [1]),
        ([PATH], [PATH.flip(0)]),
        ([PATH], [PATH.int()]),
        ([PATH], [PATH.reshape(1, 4)]),
    ],
)
def test_other_parts_and_another_kind_are_another_key_and_a_copy_is_not(one, other) -> None:
    work = Work()
    copies = [part.clone() if isinstance(part, torch.Tensor) else part for part in one]
    for parts in (one, other, copies, other):
        cached("toy-1", parts, work)
    assert work.times == 2
    cached("toy-2", one, work)
    assert work.times == 3


@pytest.mark.parametrize(
    "damaged",
    [
        lambda content: content[:-10],
        lambda content: content[:-5] + bytes([content[-5] ^ 255]) + content[-4:],
        lambda _: b"",
        lambda _: b"hello" * 100,
    ],
    ids=["cut", "flipped", "emptied", "other"],
)
def test_a_damaged_file_is_computed_again(folder: Path, damaged) -> None:
    work = Work(size=1000)
    expected = cached("toy-1", ["a"], work)
    (path,) = folder.iterdir()
    path.write_bytes(damaged(path.read_bytes()))
    for _ in range(2):
        assert same(cached("toy-1", ["a"], work), expected)
        assert work.times == 2


@pytest.mark.parametrize("reason", ["off", "too large"])
def test_nothing_is_stored_where_nothing_may_be(folder: Path, reason: str, monkeypatch) -> None:
    if reason == "off":
        monkeypatch.setenv("CGCL_CACHE", "off")
    else:
        monkeypatch.setattr(module, "_MOST_BYTES", 100)
    work = Work(size=1000)
    for times in (1, 2):
        cached("toy-1", ["a"], work)
        assert work.times == times
    assert not folder.exists()


def test_the_folder_is_the_users_cache(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CGCL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "cgcl" / "extracted"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "cgcl" / "extracted"

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() is None


def test_a_folder_that_cannot_be_is_no_obstacle(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setenv("CGCL_CACHE", str(place))
        assert same(cached("toy-1", ["a"], Work()), Work()())


def test_a_full_disk_is_no_obstacle_and_leaves_nothing(folder: Path, monkeypatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert same(cached("toy-1", ["a"], Work()), Work()())
    assert not any(folder.iterdir())


def test_what_was_not_used_for_longest_makes_room(folder: Path, monkeypatch) -> None:
    work = Work(size=1000)
    for at, name in enumerate("abc"):
        cached("toy-1", [name], work)
        os.utime(max(folder.iterdir(), key=lambda path: path.stat().st_mtime), (at, at))
    largest = max(path.stat().st_size for path in folder.iterdir())
    (folder / "notes.safetensors").write_bytes(b"x" * 10_000)
    os.utime(folder / "notes.safetensors", (0, 0))
    cached("toy-1", ["a"], work)  # used again, so b is the oldest now
    size = sum(array.nbytes for array in work().values())
    monkeypatch.setattr(module, "_MOST_BYTES", 2 * largest + size)
    cached("toy-1", ["d"], work)
    monkeypatch.setattr(module, "_write", lambda *_: None)
    for name, times in (("a", 0), ("c", 0), ("d", 0), ("b", 1)):
        work = Work(size=1000)
        cached("toy-1", [name], work)
        assert work.times == times, name
    assert (folder / "notes.safetensors").exists()


def test_only_old_unfinished_files_are_removed(folder: Path) -> None:
    folder.mkdir()
    start = f"toy-1-{'0' * 64}"
    ends = [f".{'0' * 32}", f".{'0' * 32}.tmp", f".safetensors.{'0' * 32}.tmp"]  # two of before
    names = [start + end.replace("0", digit) for digit in "ab" for end in ends]
    for name in [*names, "mine.tmp"]:
        (folder / name).touch()
    for name in [*names[:3], "mine.tmp"]:
        os.utime(folder / name, (0, 0))
    cached("toy-1", ["a"], Work())
    left = {path.name for path in folder.iterdir()}
    assert left >= {*names[3:], "mine.tmp"}
    assert not left & set(names[:3])


def test_those_who_compute_the_same_at_the_same_time_do_not_meet(folder: Path) -> None:
    def use_and_clear(_: int) -> bool:
        right = True
        for at in range(40):
            work = Work(value=at % 4, size=5000)
            right &= same(cached("toy-1", [at % 4], work), work())
            for path in folder.glob("*.safetensors") if at % 7 == 6 else ():
                path.unlink(missing_ok=True)
        return right

    with ThreadPoolExecutor(3) as several:
        assert all(several.map(use_and_clear, range(3)))
    assert all(path.suffix == ".safetensors" for path in folder.iterdir())
