"""The surroundings of pairs of nodes, for methods that learn from them: SEAL and S3GRL.

They are cut out of a graph for many pairs at once, by row operations on compressed rows (CSR);
nothing loops over nodes or pairs, and a GPU does what a CPU does. Pairs are worked on in blocks, so
that memory beyond the answer stays bounded.

What was cut out once is kept on disk, under the name of what it was made of. That cache is a
convenience: whatever is wrong with it, the answer is computed. Its folder is `cgcl/extracted` in
the user's cache folder. The environment variable `CGCL_CACHE` names another folder, or is `off`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from cgcl.errors import ModelFileError, ResourceError
from cgcl.files import make_folder
from cgcl.graph.adjacency import Adjacency, Numbers, blocks_of
from cgcl.graph.pairs import canonical
from cgcl.methods.method import Epoch, Learner, Remembered, TrainingGraph
from cgcl.methods.settings import TrainedSettings
from cgcl.seeds import stream
from cgcl.tensors import read_tensors, write_tensors
from cgcl.wording import counted

Arrays = dict[str, npt.NDArray[Any]]
Part = Tensor | int | str
"""What a key may be made of."""

_KIND = "cgcl extracted 1"
_MOST_BYTES = 4 * 2**30
# kind, sha256, and for a file that is being written a name of its own
_OWN_FILE = re.compile(r"[a-z0-9-]+-[0-9a-f]{64}\.safetensors")
_UNFINISHED = re.compile(r"[a-z0-9-]+-[0-9a-f]{64}(\.safetensors)?\.[0-9a-f]{32}(\.tmp)?")
_UNFINISHED_FOR_S = 24 * 3600

# A block's table says where each node lies in each subgraph: 2^22 places take 16 MB. Larger ones
# are slower, because they leave the processor's cache. The same holds for what is looked at
# together: 2^17 neighbours take about 6 MB with what is computed of them.
_TABLE_PLACES = 2**22
_BLOCK_PAIRS = 2**12
_LOOKED_AT = 2**17
_NOWHERE = 2**31 - 1
# Unpacked subgraphs take ten times the room, so a block of them is packed before the next is cut
# out. A block has about so many nodes and links: 100 MB unpacked, with what is computed of them.
_UNPACKED = 2**20
_FIRST_BLOCK = 64
# A GPU takes so many times as much of all these.
_ON_GPU = 16
# So many numbers of what steps compute with are fetched together.
_FETCHED = 2**20
# Where features are made of links, at most this share of the links are examples.
_MOST_OF_STRUCTURE = 0.5


@dataclass(frozen=True)
class SubgraphSettings(TrainedSettings):
    """What a method can be told that looks at the surroundings of each pair."""

    epochs: int = 50
    evaluate_every: int = 1
    hops: int = 1
    """How far from the nearer end of a pair its surroundings reach."""
    nodes_per_hop: int = 100
    """How many nodes a hop adds to the surroundings at most; 0 for no limit."""
    share: float = 1.0
    """Share of the training links that serve as examples; all of them are seen around a pair."""

    @property
    def limits(self) -> tuple[int, ...]:
        """All settings that decide what is kept of the surroundings of a pair."""
        return self.hops, self.nodes_per_hop

    def caps_beside(self, other: str) -> str:
        """Return what is left out to stay affordable, for tables, beside what the method says."""
        parts = [counted(self.hops, "hop"), other]
        if self.nodes_per_hop:
            parts.append(f"at most {counted(self.nodes_per_hop, 'node')} a hop")
        if self.share < 1:
            parts.append(f"{100 * self.share:g} % of the training links")
        return ", ".join(parts)


def starts_of(sizes: npt.ArrayLike) -> Numbers:
    """Return where stretches of these sizes begin, and the end of the last."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])


@dataclass(frozen=True, eq=False)
class Subgraphs:
    """The surroundings of p pairs, one after the other; links join nodes of one subgraph only."""

    nodes: Tensor
    """Node numbers, int64 [t]: in each subgraph the source, the target, then hop by hop."""
    owner: Tensor
    """Which pair each of them belongs to, int64 [t]; it never falls."""
    edge_index: Tensor
    """Links in both directions as places in `nodes`, int64 [2, e], sorted by their first end.

    A link between source and target is never among them.
    """
    start: Tensor
    """Where each subgraph begins in `nodes`, int64 [p + 1]: its source, and next its target."""

    def cpu(self) -> Subgraphs:
        """Return them on the CPU."""
        return Subgraphs(*(own.cpu() for own in vars(self).values()))


def extract(adjacency: Adjacency, pairs: Tensor, rule: SubgraphSettings) -> Subgraphs:
    """Return what lies within some hops of either end of each pair, and the links in between.

    The end with the smaller number is the source, so (u, v) and (v, u) give the same subgraph.
    Which nodes a full hop keeps follows from the pair and the node alone: a subgraph does not
    depend on the pairs that are asked with it, and a loaded model finds the same.

    Args:
        adjacency: The links to go along; one between a pair's own ends is not seen.
        pairs: Node numbers, int64 [2, p]; the two of a pair differ.
        rule: How far to go, and how many nodes a hop adds at most.
    """
    pairs, n = canonical(pairs.to(adjacency.indices.device)), max(adjacency.num_rows, 1)
    size = max(1, min(_BLOCK_PAIRS, _TABLE_PLACES * _at_once(pairs.device) // n))
    most = min(size, max(pairs.shape[1], 1))
    table = torch.full((most * n,), _NOWHERE, dtype=torch.int32, device=pairs.device)
    blocks = [_extract_block(adjacency, block, table, rule) for block in pairs.split(size, dim=1)]
    nodes, edges, sizes = zip(*blocks, strict=True)
    size_of = torch.cat(sizes)
    offsets = starts_of([block.numel() for block in nodes])
    edge_index = [block + at for block, at in zip(edges, offsets.tolist(), strict=False)]
    return Subgraphs(
        nodes=torch.cat(nodes),
        owner=torch.repeat_interleave(size_of),
        edge_index=torch.cat(edge_index, dim=1),
        start=functional.pad(size_of.cumsum(0), (1, 0)),
    )


def _at_once(device: torch.device) -> int:
    """Return how many times as much as on a CPU is worked on at once."""
    return 1 if device.type == "cpu" else _ON_GPU


def _extract_block(
    adjacency: Adjacency, pairs: Tensor, table: Tensor, rule: SubgraphSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """Return nodes, links and sizes of some pairs' subgraphs.

    `table` holds `_NOWHERE` everywhere, before and after; a node's place in it is
    `owner * n + node`.
    """
    n, p = adjacency.num_rows, pairs.shape[1]
    each = torch.arange(p, device=pairs.device)
    ring = each.repeat_interleave(2), pairs.T.flatten()
    table[ring[0] * n + ring[1]] = 0
    rings, left_out = [ring], [each[:0]]
    for _ in range(rule.hops):
        ring = _next_ring(adjacency, *ring, table)
        if rule.nodes_per_hop:
            owner, nodes = ring
            stays = _stay(owner, nodes, pairs, rule.nodes_per_hop)
            ring = owner[stays], nodes[stays]
            left_out.append((owner * n + nodes)[~stays])
        rings.append(ring)
    # Only now: what one hop leaves out must not come back at the next, further away than it is.
    table[torch.cat(left_out)] = _NOWHERE
    owner, nodes = (torch.cat(parts) for parts in zip(*rings, strict=True))
    # Stable: within an owner the source stays before the target, and each hop before the next.
    owner, order = owner.sort(stable=True)
    nodes = nodes.index_select(0, order)
    row = owner * n
    places = row + nodes
    table[places] = torch.arange(nodes.numel(), dtype=torch.int32, device=nodes.device)
    size = torch.bincount(owner, minlength=p)
    first = (size.cumsum(0) - size).index_select(0, owner)
    edges = _links_within(adjacency, row, nodes, table, first)
    table[places] = _NOWHERE
    return nodes, edges, size


def _neighbours(adjacency: Adjacency, nodes: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the neighbours of nodes, piece by piece: each one's place in `nodes`, and who."""
    degree = adjacency.degree.index_select(0, nodes).cpu().numpy()
    for block in blocks_of(degree, _LOOKED_AT * _at_once(nodes.device)):
        which, neighbours = adjacency.neighbours(nodes[block])
        yield which + block.start, neighbours


def _next_ring(
    adjacency: Adjacency, owner_of: Tensor, nodes: Tensor, table: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the neighbours that are in no ring yet, each once, as they are met; mark them."""
    n = adjacency.num_rows
    owners, found = [owner_of[:0]], [nodes[:0]]
    for which, neighbours in _neighbours(adjacency, nodes):
        owner = owner_of.index_select(0, which)
        places = owner * n + neighbours
        new = (table.index_select(0, places) == _NOWHERE).nonzero().squeeze(1)
        # Of several that find one place empty, the first one met gets it, so that a ring does not
        # depend on where a block ends.
        places, number = places.index_select(0, new), new.int()
        table.scatter_reduce_(0, places, number, "amin")
        new = new[table.index_select(0, places) == number]
        owners.append(owner.index_select(0, new))
        found.append(neighbours.index_select(0, new))
    return torch.cat(owners), torch.cat(found)


def _stay(owner: Tensor, nodes: Tensor, pairs: Tensor, most: int) -> Tensor:
    """Return which nodes of a ring stay, so that no owner has more than a hop may add, bool."""
    stays = torch.ones_like(owner, dtype=torch.bool)
    count = torch.bincount(owner, minlength=pairs.shape[1])
    is_over = count > most
    crowd = is_over.index_select(0, owner).nonzero().squeeze(1)
    if crowd.numel() == 0:
        return stays
    whose = owner.index_select(0, crowd)
    # One number orders them by owner, then by chance: 12 bits for one of 2^12 owners at most.
    chance = _hashed(*pairs.index_select(1, whose), nodes.index_select(0, crowd))
    draw = (whose << 51) | _shifted(chance, 13)
    size = count[is_over]
    first_out = size.cumsum(0) - size + most
    limit = draw.sort().values.index_select(0, first_out).repeat_interleave(size)
    stays[crowd] = draw < limit
    return stays


def _links_within(
    adjacency: Adjacency, row: Tensor, nodes: Tensor, table: Tensor, first: Tensor
) -> Tensor:
    """Return the links between nodes of the same subgraph but for the pair's own, [2, e]."""
    pieces = [torch.empty(2, 0, dtype=torch.int64, device=nodes.device)]
    for which, neighbours in _neighbours(adjacency, nodes):
        there = table.index_select(0, row.index_select(0, which) + neighbours).long()
        # Source and target are the first two of a subgraph.
        past = first.index_select(0, which) + 2
        inside = (there != _NOWHERE) & ((which >= past) | (there >= past))
        pieces.append(torch.stack([which, there])[:, inside])
    return torch.cat(pieces, dim=1)


def _hashed(*numbers: Tensor) -> Tensor:
    """Return 64 bits for each row of `numbers` that look drawn by chance (splitmix64), int64."""
    state = torch.zeros_like(numbers[0])
    for number in (state, *numbers):
        state = (state ^ number) + (0x9E3779B97F4A7C15 - 2**64)
        state = (state ^ _shifted(state, 30)) * (0xBF58476D1CE4E5B9 - 2**64)
        state = (state ^ _shifted(state, 27)) * (0x94D049BB133111EB - 2**64)
        state = state ^ _shifted(state, 31)
    return state


def _shifted(bits: Tensor, places: int) -> Tensor:
    """Return 64 bits moved to the right, zeros from the left; torch would copy the sign."""
    return (bits >> places) & (2 ** (64 - places) - 1)


class Surroundings:
    """What a method keeps of the surroundings of pairs: arrays that hold one pair after another."""

    kind: ClassVar[str]
    """What they are called in the cache."""
    remembered_bytes: ClassVar[int] = 2**28
    """A list of pairs that was to be scored is remembered if its surroundings take no more."""

    room: Numbers
    """About how many numbers each pair's take, [p]."""

    def __init__(self, arrays: Arrays, device: torch.device | str = "cpu") -> None:
        """Take the arrays that `packed` makes, and where they are computed on."""
        self.arrays, self.device = arrays, torch.device(device)

    def placed(self, *arrays: npt.NDArray[Any]) -> list[Tensor]:
        """Return arrays where they are computed with; a GPU gets them when it comes to them."""
        return [torch.from_numpy(own).to(self.device, non_blocking=True) for own in arrays]

    @classmethod
    def packed(cls, subgraphs: Subgraphs, rule: Any) -> Arrays:  # noqa: ANN401
        """Return what is kept of subgraphs; the arrays of two blocks may be put end to end."""
        raise NotImplementedError

    @classmethod
    def in_blocks(
        cls, adjacency: Adjacency, pairs: Tensor, rule: SubgraphSettings
    ) -> Iterator[Self]:
        """Yield the surroundings of all pairs in order, as many at a time as are handy.

        Args:
            adjacency: The links to go along; one between a pair's own ends is not seen.
            pairs: Node numbers, int64 [2, p].
            rule: What is looked at.
        """
        first, size = 0, _FIRST_BLOCK
        unpacked = _UNPACKED * _at_once(adjacency.indices.device)
        while first < pairs.shape[1]:
            block = pairs[:, first : first + size]
            subgraphs = extract(adjacency, block, rule)
            yield cls(cls.packed(subgraphs, rule), adjacency.indices.device)
            first += block.shape[1]
            # The next block has the size that would have been right for this one.
            numbers = (subgraphs.nodes.numel() + subgraphs.edge_index.shape[1]) / block.shape[1]
            size = max(1, min(2 * size, int(unpacked / numbers)))

    @classmethod
    def kept(cls, known: TrainingGraph, pairs: Tensor, rule: SubgraphSettings) -> Self:
        """Cut out the surroundings of pairs, or find them on disk.

        Args:
            known: The links to go along; one between a pair's own ends is not seen.
            pairs: Node numbers, int64 [2, p], one at least.
            rule: What is looked at.
        """

        def compute() -> Arrays:
            blocks = [own.arrays for own in cls.in_blocks(known.adjacency, pairs, rule)]
            return {name: np.concatenate([own[name] for own in blocks]) for name in blocks[0]}

        parts = [known.links, known.num_nodes, pairs, *rule.limits]
        return cls(cached(cls.kind, parts, compute), known.device)

    def fetched(self, which: Tensor) -> Any:  # noqa: ANN401
        """Return what is computed with for some pairs, of which `part` gives some in a row.

        Args:
            which: Their numbers, int64 [b], on the CPU.
        """
        raise NotImplementedError

    def in_turn(self, batches: Sequence[Tensor]) -> Iterator[Any]:
        """Yield what is computed with for each batch; those of many are fetched together.

        Args:
            batches: The numbers of the pairs of each, int64, on the CPU.
        """
        for block in blocks_of(np.array([self.room[own].sum() for own in batches]), _FETCHED):
            several = batches[block]
            fetched, ends = self.fetched(torch.cat([*several])), starts_of([*map(len, several)])
            yield from (fetched.part(*own) for own in pairwise(ends.tolist()))


@dataclass(frozen=True, eq=False)
class Examples:
    """Linked and as many unlinked pairs to learn from: the same in every epoch of a run."""

    seed: int
    """The seed of the run."""
    is_link: Tensor
    """1 for a linked pair and 0 for another, float32 [p]."""
    surroundings: Any
    """Their `Surroundings`."""
    features: Any
    """What the method makes of features; if they are made of links, of those that are no
    examples."""


class SubgraphLearner(Learner):
    """Learns linked and unlinked pairs by their surroundings, which are cut out once.

    The unlinked pairs are drawn once a run, as many as there are links: new ones would need new
    surroundings in every epoch.
    """

    surroundings: ClassVar[type[Surroundings]]
    """What is kept of the surroundings."""
    in_order: ClassVar[bool]
    """Whether a share of the links stays in the order of the graph."""

    def __init__(self, settings: Any) -> None:  # noqa: ANN401
        """Take the settings; the weights are the method's business."""
        super().__init__()
        self.settings = settings
        self._examples: Remembered[Examples] = Remembered()
        self._asked: Remembered[list[tuple[Tensor, list[Any]]]] = Remembered()

    def batches(self, order: Tensor) -> Sequence[Tensor]:
        """Return the numbers of the examples of each step."""
        return order.split(self.settings.batch)

    def prepared(self, seen: TrainingGraph, surroundings: Any) -> Any:  # noqa: ANN401
        """Return what is made once of the features, which are those of `seen`, for examples."""
        raise NotImplementedError

    def logits(self, examples: Examples, batches: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the logits of the examples of each step while training."""
        raise NotImplementedError

    def steps(self, known: TrainingGraph, epoch: Epoch) -> Iterator[Tensor]:
        """Yield the loss of each batch of linked and unlinked pairs, shuffled together."""
        examples = self.examples_of(known, epoch.seed)
        order = torch.randperm(examples.is_link.numel(), generator=epoch.stream("batches"))
        batches = self.batches(order)
        wanted = examples.is_link.index_select(0, order).to(known.device)
        each = wanted.split([*map(len, batches)])
        for logits, own in zip(self.logits(examples, batches), each, strict=True):
            yield functional.binary_cross_entropy_with_logits(logits, own)

    def examples_of(self, known: TrainingGraph, seed: int) -> Examples:
        """Return the pairs to learn from; they follow from the links and the seed of the run."""
        examples = self._examples.get(known)
        if examples is None or examples.seed != seed:
            examples = self._examples[known] = self._drawn(known, seed)
        return examples

    def _drawn(self, known: TrainingGraph, seed: int) -> Examples:
        share, total = self.settings.share, known.links.shape[1]
        if known.structure is not None:
            share = min(share, _MOST_OF_STRUCTURE)
        count = max(1, round(share * total))
        drawn = torch.randperm(total, generator=stream(seed, "examples"))[:count]
        if self.in_order or count == total:
            drawn = drawn.sort().values
        drawn = drawn.to(known.device)
        links = known.links.index_select(1, drawn)
        unlinked = known.unlinked.draw(count, stream(seed, "negatives", device=known.device))
        is_link = torch.cat([torch.ones(links.shape[1]), torch.zeros(unlinked.shape[1])])
        pairs = torch.cat([links, unlinked], dim=1)
        kept = self.surroundings.kept(known, pairs, self.settings)
        seen = known.with_links(known.without(drawn))
        return Examples(seed, is_link, kept, self.prepared(seen, kept))

    def blocks(self, pairs: Tensor, known: TrainingGraph) -> Iterator[Any]:
        """Yield the surroundings of all pairs in order; those of the last two lists are remembered.

        Training asks for its validation links, and the pairs beside them, again and again.

        Args:
            pairs: Node numbers, int64 [2, p].
            known: The links to go along; one between a pair's own ends is not seen.
        """
        pairs, asked = pairs.cpu(), self._asked.setdefault(known, [])
        for before, found in asked:
            if torch.equal(before, pairs):
                yield from found
                return
        kept: list[Any] = []
        room = self.surroundings.remembered_bytes
        for block in self.surroundings.in_blocks(known.adjacency, pairs, self.settings):
            room -= sum(array.nbytes for array in block.arrays.values())
            kept = [*kept, block] if room >= 0 else []
            yield block
        if room >= 0:
            # A copy: what the caller does with its pairs later is its own business.
            asked[:] = [*asked, (pairs.clone(), kept)][-2:]


def cached(kind: str, parts: Iterable[Part], compute: Callable[[], Arrays]) -> Arrays:
    """Return what `compute` returns, from disk if it was computed of the same parts before.

    Arrays from disk are mapped, not loaded: what is not looked at takes no memory. Changing one
    in place changes no file.

    Args:
        kind: What it is, such as `"seal-1"`: small letters, digits and hyphens. It takes another
            number whenever the same parts come to mean something else.
        parts: Everything the answer depends on, in a fixed order.
        compute: Makes the answer; it is called at most once.
    """
    folder = cache_folder()
    if folder is None:
        return compute()
    path = folder / f"{kind}-{_digest(kind, parts)}.safetensors"
    stored = _read(path)
    if stored is not None:
        return stored
    arrays = compute()
    _write(path, arrays)
    return arrays


def cache_folder() -> Path | None:
    """Return where things are kept, or None if nothing is to be."""
    chosen = os.environ.get("CGCL_CACHE", "")
    if chosen.lower() == "off":
        return None
    if chosen:
        return Path(chosen)
    shared = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(shared) if shared else Path.home() / ".cache") / "cgcl" / "extracted"
    except RuntimeError:  # no home
        return None


def _digest(kind: str, parts: Iterable[Part]) -> str:
    """Return a name such that no two different lists of parts share one."""
    digest = hashlib.sha256(f"{_KIND}\n{kind}\n".encode())
    for part in parts:
        array = part.cpu().numpy() if isinstance(part, Tensor) else np.array(part)
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read(path: Path) -> Arrays | None:
    """Return what is in a file, or None if it is missing, damaged or out of reach."""
    try:
        tensors, _ = read_tensors(path, _KIND)
        # The cache forgets what was not used for longest.
        os.utime(path)
    except (ModelFileError, OSError):
        return None
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def _write(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Store arrays if that is possible; processes that store the same do not meet."""
    size = sum(array.nbytes for array in arrays.values())
    if size > _MOST_BYTES:
        return
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    # A full disk, a read-only folder: the answer is there, and that is what counts.
    with contextlib.suppress(ResourceError, OSError):
        make_folder(path.parent)
        _make_room(path.parent, size)
        write_tensors(path, _KIND, tensors, {})


def _make_room(folder: Path, size: int) -> None:
    """Remove what was not used for longest until there is room, and what nobody finishes."""
    files: list[tuple[float, int, Path]] = []
    long_ago = time.time() - _UNFINISHED_FOR_S
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another process may have removed it
            about = path.stat()
            if _OWN_FILE.fullmatch(path.name):
                files.append((about.st_mtime, about.st_size, path))
            elif _UNFINISHED.fullmatch(path.name) and about.st_mtime < long_ago:
                path.unlink(missing_ok=True)
    total = size + sum(bytes_ for _, bytes_, _ in files)
    for _, bytes_, path in sorted(files):
        if total <= _MOST_BYTES:
            return
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            total -= bytes_
