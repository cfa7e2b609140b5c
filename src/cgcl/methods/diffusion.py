r"""Powers of a subgraph's adjacency, of which only the rows around its two ends are kept.

The subgraph of a pair (u, v) has the links within some hops of either end, but not u-v itself.
With self-links and degrees counted inside the subgraph,

$\hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}$,

and what S3GRL looks at are the rows of $\hat A^k [\ell \mid X]$ for u, for v and for the
neighbours they share; $\ell$ is 1 at u and v and 0 elsewhere. Such a row of $\hat A^k$ has few
entries, so entries are what is stored. Features are only multiplied in when they are needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor
from torch.nn import functional

from cgcl.methods.extraction_cache import Arrays, cached
from cgcl.methods.subgraphs import Adjacency, Numbers, Subgraphs, extract, places_of

__all__ = [
    "Diffusion",
    "KeptRows",
    "Surroundings",
    "diffuse",
    "expected_looks",
    "stored_diffusion",
]

# Subgraphs of so many pairs are in memory at once; with 300 nodes each they take about 100 MB.
_BLOCK_PAIRS = 1024
# Which nodes stay in a crowded hop has nothing to do with the seed of a run: a model that is
# saved and loaded again must see the same subgraphs.
_SEED = 0


@dataclass(frozen=True)
class Surroundings:
    """What of a pair's surroundings is looked at."""

    hops: int
    """How far from the nearer end a node may lie."""
    nodes_per_hop: int
    """How many nodes a hop adds at most; 0 for no limit."""
    powers: int
    """The highest power of the adjacency, K."""


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Which rows some pairs have: all sources, then all targets, then all shared neighbours."""

    rows: Tensor
    """Places among the rows of a `Diffusion`, int64 [2q + s] for q pairs."""
    num_pairs: int
    owner: Tensor
    """Which of the pairs each shared neighbour belongs to, int64 [s]; it never falls."""


@dataclass(frozen=True, eq=False)
class Diffusion:
    """The kept rows of the powers 1, ..., K for p pairs, on the CPU.

    A pair's rows lie together: its source, its target, then the neighbours they share. An entry
    says how much of a node arrives at the row's node within k steps.
    """

    start: Tensor
    """Where the rows of each pair begin, int64 [p + 1]."""
    nodes: Tensor
    """The node of each row, int32 [r]."""
    labels: Tensor
    r"""$\hat A^k \ell$ for k = 0, ..., K: what arrives from the two ends, float32 [r, K + 1]."""
    entry_start: Tensor
    """Where the entries of each row begin, int64 [r K + 1]: its K powers one after the other."""
    reached: Tensor
    """The node of each entry, int32 [e]."""
    weights: Tensor
    """What each entry is worth, float32 [e]."""

    @property
    def num_rows(self) -> int:
        """Number of rows, r."""
        return self.nodes.numel()

    @property
    def powers(self) -> int:
        """The highest power, K."""
        return self.labels.shape[1] - 1

    @cached_property
    def _starts(self) -> tuple[Numbers, Numbers]:
        return self.start.numpy(), self.entry_start.numpy()

    def rows_of(self, pairs: Tensor) -> KeptRows:
        """Return the rows of some pairs.

        Args:
            pairs: Numbers of pairs, int64 [q].
        """
        start, _ = self._starts
        chosen = pairs.cpu().numpy()
        source = start[chosen]
        owner, shared = places_of(source + 2, start[chosen + 1] - source - 2)
        return KeptRows(
            torch.from_numpy(np.concatenate([source, source + 1, shared])),
            chosen.size,
            torch.from_numpy(owner),
        )

    def features(self, rows: Tensor, x: Tensor) -> Tensor:
        r"""Return rows of $[\ell \mid X], \hat A [\ell \mid X], \dots, \hat A^K [\ell \mid X]$.

        Args:
            rows: Which rows, int64 [q], on the CPU.
            x: Dense features of all nodes, float32 [n, d], on the device to compute on.

        Returns:
            One row each, the powers side by side, float32 [q, (K + 1) (d + 1)].
        """
        size, places = self._entries(rows)
        features = x.new_empty(rows.numel(), self.powers + 1, x.shape[1] + 1)
        features[:, :, 0] = self.labels.index_select(0, rows).to(x.device)
        features[:, 0, 1:] = x.index_select(0, self._nodes_of(rows).to(x.device))
        features[:, 1:, 1:] = _weighted_sums(
            x,
            self.reached.index_select(0, places).long(),
            self.weights.index_select(0, places),
            size.reshape(-1),
        ).view(-1, self.powers, x.shape[1])
        return features.view(rows.numel(), -1)

    def times(self, rows: Tensor, label: Tensor, x: Tensor) -> Tensor:
        r"""Return rows of $\sum_{k=0}^K \hat A^k [\ell \mid X] W_k$, from products with $X$.

        As $(\hat A^k X) W_k = \hat A^k (X W_k)$, this is `features` times the weights, but with
        few sums. A row's numbers do not depend on the rows it is asked with.

        Args:
            rows: Which rows, int64 [q], on the CPU.
            label: The weights of the labels for each power, [K + 1, hidden].
            x: All nodes' features times the weights for each power, [K + 1, n, hidden].

        Returns:
            One row each, [q, hidden].
        """
        num_nodes, width = x.shape[1:]
        size, places = self._entries(rows)
        power = np.tile(np.arange(1, self.powers + 1), rows.numel())
        at = torch.from_numpy(np.repeat(power * num_nodes, size.reshape(-1)))
        arrived = _weighted_sums(
            x.reshape(-1, width),
            self.reached.index_select(0, places) + at,
            self.weights.index_select(0, places),
            size.sum(axis=1),
        )
        labels = self.labels.index_select(0, rows).to(x.device)
        own = x[0].index_select(0, self._nodes_of(rows).to(x.device))
        return arrived + own + (labels.unsqueeze(2) * label).sum(dim=1)

    def _nodes_of(self, rows: Tensor) -> Tensor:
        return self.nodes.index_select(0, rows).long()

    def _entries(self, rows: Tensor) -> tuple[Numbers, Tensor]:
        """Return how many entries each row has for each power, [q, K], and where they are."""
        _, start = self._starts
        which = rows.numpy()[:, None] * self.powers + np.arange(self.powers)
        size = start[which + 1] - start[which]
        _, places = places_of(start[which[:, 0]], size.sum(axis=1))
        return size, torch.from_numpy(places)


def _weighted_sums(table: Tensor, places: Tensor, weights: Tensor, size: Numbers) -> Tensor:
    """Return sums of weighted rows of a table, one for each stretch of so many places."""
    return functional.embedding_bag(
        places.to(table.device),
        table,
        torch.from_numpy(_starts(size)).to(table.device),
        mode="sum",
        per_sample_weights=weights.to(table.device),
        include_last_offset=True,
    )


def diffuse(adjacency: Adjacency, pairs: Tensor, surroundings: Surroundings) -> Diffusion:
    """Return the kept rows of each pair; they do not depend on the pairs beside it.

    Args:
        adjacency: The links to go along; one between a pair's own ends is not seen.
        pairs: Node numbers, int64 [2, p]; (u, v) and (v, u) give the same.
        surroundings: What is looked at.
    """
    blocks = (
        _diffuse_block(
            extract(adjacency, block, surroundings.hops, surroundings.nodes_per_hop, _SEED),
            surroundings.powers,
        )
        for block in pairs.cpu().split(_BLOCK_PAIRS, dim=1)
    )
    return _joined(blocks)


def stored_diffusion(
    links: Tensor, num_nodes: int, pairs: Tensor, surroundings: Surroundings
) -> Diffusion:
    """Return what `diffuse` returns, from disk if it was computed before.

    Args:
        links: The links to go along, each once, int64 [2, m].
        num_nodes: Number of nodes, isolated ones included.
        pairs: Node numbers, int64 [2, p].
        surroundings: What is looked at.
    """

    def compute() -> Arrays:
        found = diffuse(Adjacency(links, num_nodes), pairs, surroundings)
        return {field.name: getattr(found, field.name).numpy() for field in fields(found)}

    limits = (surroundings.hops, surroundings.nodes_per_hop, surroundings.powers, _SEED)
    arrays = cached("s3grl-1", [links, num_nodes, pairs, *limits], compute)
    return Diffusion(**{name: torch.from_numpy(array) for name, array in arrays.items()})


def expected_looks(degree: Numbers, surroundings: Surroundings) -> float:
    """Return about how many neighbours are looked at to cut out an average pair.

    Args:
        degree: The number of links of each node, int64 [n].
        surroundings: What is looked at.
    """
    mean = float(degree.mean()) if degree.size else 0.0
    # A neighbour's mean degree: nodes with many links are neighbours of many.
    onward = float((degree**2).mean()) / mean if mean else 0.0
    looks = new = 2.0 * mean
    for _ in range(surroundings.hops):
        ring = min(new, float(degree.size), surroundings.nodes_per_hop or np.inf)
        new = ring * onward
        looks += new
    # Once to find the nodes, and once to find the links between them.
    return 2.0 * looks


def _diffuse_block(subgraphs: Subgraphs, powers: int) -> Diffusion:
    nodes, owner = subgraphs.nodes.numpy(), subgraphs.owner.numpy()
    is_end, is_kept = _kept(subgraphs)
    kept = is_kept.nonzero()[0]
    once = _normalised(subgraphs)
    found = [sparse.csr_array(once[kept])]  # the kept rows of A^, A^2, ...
    for _ in range(powers - 1):
        found.append(sparse.csr_array(found[-1] @ once))
    # From all rows of a power together to all powers of a row together.
    order = np.arange(powers * kept.size).reshape(powers, kept.size).T.reshape(-1)
    entries = sparse.csr_array(sparse.csr_array(sparse.vstack(found))[order])
    label = is_end.astype(np.float32)
    arrived = (entries @ label).reshape(kept.size, powers)
    count = np.bincount(owner[kept], minlength=subgraphs.num_pairs)
    return Diffusion(
        start=torch.from_numpy(_starts(count)),
        nodes=torch.from_numpy(nodes[kept].astype(np.int32)),
        labels=torch.from_numpy(np.concatenate([label[kept, None], arrived], axis=1)),
        entry_start=torch.from_numpy(entries.indptr.astype(np.int64)),
        reached=torch.from_numpy(nodes[entries.indices].astype(np.int32)),
        weights=torch.from_numpy(entries.data),
    )


def _normalised(subgraphs: Subgraphs) -> sparse.csr_array:
    r"""Return $\hat A$ of all subgraphs, one block of the diagonal each, float32 [t, t]."""
    total = subgraphs.nodes.numel()
    loops = np.arange(total)
    source, target = np.concatenate([subgraphs.edge_index.numpy(), [loops, loops]], axis=1)
    scale = 1 / np.sqrt(np.bincount(source, minlength=total))  # D~^(-1/2); no degree is 0
    weight = (scale[source] * scale[target]).astype(np.float32)
    return sparse.csr_array((weight, (source, target)), shape=(total, total))


def _kept(subgraphs: Subgraphs) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which nodes are ends of their pair, and which of them are kept: also those between."""
    total = subgraphs.nodes.numel()
    source = subgraphs.start.numpy()[:-1]
    is_end, is_shared = np.zeros(total, dtype=np.bool_), np.ones(total, dtype=np.bool_)
    here, there = subgraphs.edge_index.numpy()
    for end in (source, source + 1):
        is_this, is_near = np.zeros(total, dtype=np.bool_), np.zeros(total, dtype=np.bool_)
        is_this[end] = True
        is_near[there[is_this[here]]] = True
        is_end |= is_this
        is_shared &= is_near
    return is_end, is_end | is_shared


def _joined(blocks: Iterable[Diffusion]) -> Diffusion:
    """Put blocks one after the other."""
    parts = list(blocks)
    rows, entries = (
        _starts(np.array([part.num_rows for part in parts])),
        _starts(np.array([part.weights.numel() for part in parts])),
    )
    start = [part.start[:-1] + at for part, at in zip(parts, rows.tolist(), strict=False)]
    entry_start = [
        part.entry_start[:-1] + at for part, at in zip(parts, entries.tolist(), strict=False)
    ]
    return Diffusion(
        start=torch.cat([*start, torch.from_numpy(rows[-1:])]),
        nodes=torch.cat([part.nodes for part in parts]),
        labels=torch.cat([part.labels for part in parts]),
        entry_start=torch.cat([*entry_start, torch.from_numpy(entries[-1:])]),
        reached=torch.cat([part.reached for part in parts]),
        weights=torch.cat([part.weights for part in parts]),
    )


def _starts(sizes: Numbers) -> Numbers:
    """Return where stretches of these sizes begin, and the end of the last."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
