"""The graph as the rest of the package sees it, and the file that keeps it beside a model."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import CGCLError, FeatureError, GraphContentError, ModelFileError
from cgcl.graph.features import Structure, coalesced
from cgcl.graph.names import MappedNames, NumberOf
from cgcl.graph.pairs import decode, encode, encode_ordered, unique_sorted
from cgcl.stored import misfits
from cgcl.tensors import read_tensors, write_tensors
from cgcl.wording import counted, listed

# Finding the nearest name takes about a second for this many.
_COMPARED_NAMES = 50_000


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """An undirected graph without self-links and without duplicate links.

    Build one with `cgcl.read`, with `load_dataset`, or from node numbers with `from_pairs`.
    """

    title: str
    """A short name; run folders are called after it."""
    names: Sequence[str]
    """The name of every node, in node order: a tuple, or names that lie in a file."""
    edges: Tensor
    """Each link once: int64 [2, m], `edges[0] < edges[1]`, columns in lexicographic order."""
    x: Tensor | None = None
    """Node features, float32 [n, d], dense or coalesced sparse COO; None if there are none."""
    notes: tuple[str, ...] = ()
    """What reading merged, dropped or ignored, a sentence each."""
    sides: Tensor | None = None
    """For a bipartite graph the side of every node, bool [n]: links join False to True. None if
    any two nodes may be linked."""
    times: Tensor | None = None
    """When each link first appeared, float64 [m] in the order of `edges`; None if not known."""
    feature_names: tuple[str, ...] = ()
    """What each feature is called; empty if they have no names."""
    feature_scale: Tensor | None = None
    """What the features were multiplied by before training, float32 [d]; None if by nothing."""
    structure: Structure | None = None
    """How features are made of links, if that was asked for; `x` is None then."""

    def __post_init__(self) -> None:
        """Check the promises above once, so that nobody else has to.

        Raises:
            GraphContentError: Names repeat, the links are not in canonical form, or one of them
                joins two nodes of the same side.
            FeatureError: The features have the wrong shape or type, or are not finite.
        """
        if isinstance(self.names, MappedNames):  # of a store, where all this was checked
            return
        if not _are_distinct(self.names):
            raise GraphContentError("Two nodes have the same name. Node names must be unique.")
        if not _are_text(self.names):
            raise GraphContentError(
                "A node's name holds half of a character (a lone surrogate), which no file can "
                "hold. Correct the names."
            )
        check_pairs(self.edges, self.num_nodes, "Links of a graph", "Node numbers")
        low, high = self.edges
        is_sorted = (encode_ordered(low, high, self.num_nodes).diff() > 0).all()
        if not (is_sorted and (low < high).all()):
            raise GraphContentError(
                "Links must be listed once, smaller node number first, sorted. "
                "Use Graph.from_pairs to build a graph from any pairs."
            )
        self._check_sides_and_times()
        if self.x is not None:
            _check_features(self.x, self.names)
        if self.feature_names and len(self.feature_names) != self.num_features:
            raise FeatureError(
                f"There are {len(self.feature_names):,} feature names for "
                f"{self.num_features:,} features."
            )

    def _check_sides_and_times(self) -> None:
        sides, times = self.sides, self.times
        if sides is not None:
            if sides.dtype != torch.bool or sides.shape != (self.num_nodes,):
                raise GraphContentError(
                    f"Sides must be one bool per node, found {sides.dtype} {list(sides.shape)}."
                )
            within = (sides[self.edges[0]] == sides[self.edges[1]]).nonzero()
            if len(within):
                low, high = self.edges[:, int(within[0])].tolist()
                raise GraphContentError(
                    f"{self.names[low]!r} and {self.names[high]!r} are linked, but on the same "
                    f"side. In a bipartite graph every link joins the two sides."
                )
        if times is not None and (
            times.dtype != torch.float64
            or times.shape != (self.num_edges,)
            or not torch.isfinite(times).all()
        ):
            raise GraphContentError(
                f"Times must be one finite float64 per link, found {times.dtype} "
                f"{list(times.shape)}."
            )

    @classmethod
    def from_pairs(
        cls,
        title: str,
        names: Sequence[str],
        pairs: Tensor,
        x: Tensor | None = None,
        notes: Sequence[str] = (),
        *,
        sides: Tensor | None = None,
        times: Tensor | None = None,
        feature_names: Sequence[str] = (),
    ) -> Graph:
        """Build a graph from node pairs in any order and direction.

        Self-links are dropped and repeated links merged; both are counted in `notes`.

        Args:
            title: A short name for the graph.
            names: One name per node.
            pairs: Node numbers, int64 [2, any].
            x: Node features, or None.
            notes: Sentences to put before the ones added here.
            sides: The side of every node of a bipartite graph, bool [n].
            times: When each pair appeared, float64 [any]; a repeated link counts from its first.
            feature_names: What each feature is called.

        Raises:
            GraphContentError: A node number is outside 0..n-1, names repeat, or `pairs` has another
                type or shape.
            FeatureError: The features do not fit.

        Example:
            >>> graph = Graph.from_pairs("toy", "abc", torch.tensor([[1, 0, 2], [0, 1, 2]]))
            >>> graph
            Graph(3 nodes, 1 link, no features)
            >>> graph.notes
            ('1 self-link dropped.', '1 repeated link merged.')
        """
        num_nodes = len(names)
        check_pairs(pairs, num_nodes, "Pairs", "Node numbers")
        codes, distinct, counted = distinct_links(pairs, num_nodes)
        links = pairs[0] != pairs[1]
        return cls(
            title,
            tuple(names),
            decode(distinct, num_nodes),
            x,
            (*notes, *(f"{count}." for count in counted)),
            sides=sides,
            times=None if times is None else _first_times(times[links], codes, distinct),
            feature_names=tuple(feature_names),
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes, isolated ones included (n)."""
        return len(self.names)

    @property
    def num_edges(self) -> int:
        """Number of links, each counted once (m)."""
        return self.edges.shape[1]

    @property
    def num_features(self) -> int:
        """Number of features per node (d); 0 if there are none."""
        if self.structure is not None:
            return self.structure.num_features
        return 0 if self.x is None else self.x.shape[1]

    @property
    def num_nonzeros(self) -> int:
        """Number of feature entries that are not zero."""
        if self.structure is not None:
            return self.structure.num_nonzeros
        if self.x is None:
            return 0
        return self.x.values().numel() if self.x.is_sparse else int(self.x.count_nonzero())

    @property
    def is_sparse(self) -> bool:
        """Whether there are features, few of which are not zero."""
        return self.structure is not None or (self.x is not None and self.x.is_sparse)

    @property
    def edge_index(self) -> Tensor:
        """Both directions of every link, int64 [2, 2m], as PyTorch Geometric wants them."""
        return torch.cat([self.edges, self.edges.flip(0)], dim=1)

    @cached_property
    def codes(self) -> Tensor:
        """The code of each link, int64 [m]; they rise."""
        return encode_ordered(self.edges[0], self.edges[1], self.num_nodes)

    @cached_property
    def node_of(self) -> Mapping[str, int]:
        """The number of every node by its name."""
        if isinstance(self.names, MappedNames):
            return NumberOf(self.names)
        return {name: number for number, name in enumerate(self.names)}

    def nodes_named(self, names: Sequence[str]) -> Tensor:
        """Return the node numbers of `names`, int64.

        Raises:
            GraphContentError: A name is not in the graph; up to five are listed.
        """
        strange = [name for name in names if not isinstance(name, str)]
        if strange:
            raise GraphContentError(
                f"Names are text, found {strange[0]!r} of type {type(strange[0]).__name__}. "
                f"Write it as a string, such as {str(strange[0])!r}."
            )
        unknown = [name for name in names if name not in self.node_of]
        if unknown:
            raise GraphContentError(
                f"No node is called {listed(unknown)}. The graph '{self.title}' has "
                f"{self.num_nodes:,} nodes{self._hint(unknown[0])}"
            )
        return torch.tensor([self.node_of[name] for name in names], dtype=torch.int64)

    def _hint(self, unknown: str) -> str:
        """Return the end of a sentence that helps to find the right name."""
        folded = {name.casefold(): name for name in self.names[:_COMPARED_NAMES]}
        nearest = difflib.get_close_matches(unknown.casefold(), folded, 1)
        if nearest:
            return f". Did you mean {folded[nearest[0]]!r}?"
        return f", such as {self.names[0]!r}." if self.names else "."

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of names, links, features and sides: equal for equal graphs of any title.

        Times and the names of features are not part of it: no score depends on them.
        """
        digest = hashlib.sha256(f"{self.num_nodes} nodes".encode())
        # One update for all: a million calls take a second.
        encoded = map(str.encode, self.names)
        digest.update(b"".join(len(name).to_bytes(4, "big") + name for name in encoded))
        digest.update(self.edges.contiguous().numpy().data)
        if self.x is not None:
            digest.update(str(tuple(self.x.shape)).encode())
            sparse = self.x if self.x.is_sparse else self.x.to_sparse_coo()
            sparse = sparse.coalesce()
            digest.update(sparse.indices().contiguous().numpy().data)
            digest.update(sparse.values().contiguous().numpy().data)
        if self.structure is not None:
            digest.update(b"structure" + self.structure.feature_of_node.numpy().tobytes())
        if self.sides is not None:
            digest.update(b"sides" + self.sides.numpy().tobytes())
        return digest.hexdigest()

    def with_features(
        self,
        x: Tensor,
        note: str,
        feature_names: Sequence[str] = (),
        feature_scale: Tensor | None = None,
    ) -> Graph:
        """Return the same graph with other features and one more note."""
        return replace(
            self,
            x=x,
            notes=(*self.notes, note),
            feature_names=tuple(feature_names),
            feature_scale=feature_scale,
        )

    def __repr__(self) -> str:
        links = counted(self.num_edges, "link")
        features = f"{self.num_features:,} features" if self.num_features else "no features"
        bipartite = ", bipartite" if self.sides is not None else ""
        return f"Graph({self.num_nodes:,} nodes, {links}, {features}{bipartite})"


def check_pairs(pairs: Tensor, num_nodes: int, what: str, whose: str) -> None:
    """Refuse what is not node pairs of a graph.

    Args:
        pairs: What was given.
        num_nodes: Number of nodes.
        what: What it is called at the beginning of a sentence.
        whose: Likewise, for its node numbers.

    Raises:
        GraphContentError: It is of another type or shape, or has nodes outside the graph.
    """
    if pairs.dtype != torch.int64 or pairs.dim() != 2 or pairs.shape[0] != 2:
        raise GraphContentError(
            f"{what} must be an int64 tensor of shape [2, any], found {pairs.dtype} "
            f"{list(pairs.shape)}."
        )
    if pairs.numel() and (int(pairs.min()) < 0 or int(pairs.max()) >= num_nodes):
        raise GraphContentError(
            f"{whose} must lie in 0..{num_nodes - 1}, found {int(pairs.min())}..{int(pairs.max())}."
        )


def distinct_links(pairs: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, list[str]]:
    """Return the codes of all links among pairs, each code once, and what was left out, in words.

    Args:
        pairs: Node numbers in any order and direction, int64 [2, any].
        num_nodes: Number of nodes.
    """
    links = pairs[:, pairs[0] != pairs[1]]
    codes = encode(links[0], links[1], num_nodes)
    distinct = unique_sorted(codes)
    loops, repeats = pairs.shape[1] - codes.numel(), codes.numel() - distinct.numel()
    return codes, distinct, left_out(loops, repeats)


def left_out(loops: int, repeats: int) -> list[str]:
    """Return in words how many self-links and repeated links were left out."""
    notes = [f"{counted(loops, 'self-link')} dropped"] if loops else []
    return notes + ([f"{counted(repeats, 'repeated link')} merged"] if repeats else [])


def _are_text(names: Sequence[str]) -> bool:
    try:
        "".join(names).encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_distinct(names: Sequence[str]) -> bool:
    is_sorted = all(map(operator.lt, names, itertools.islice(names, 1, None)))
    return is_sorted or len(set(names)) == len(names)


def _first_times(times: Tensor, codes: Tensor, distinct: Tensor) -> Tensor:
    """Return the earliest time of each distinct code, in their (sorted) order."""
    place = torch.searchsorted(distinct, codes)
    late = torch.full((distinct.numel(),), torch.inf, dtype=torch.float64)
    return late.scatter_reduce(0, place, times.to(torch.float64), "amin")


def _check_features(x: Tensor, names: Sequence[str]) -> None:
    if x.dtype != torch.float32 or x.dim() != 2 or x.shape[0] != len(names):
        raise FeatureError(
            f"Features must be float32 of shape [{len(names)}, d], one row per node; "
            f"found {x.dtype} {list(x.shape)}."
        )
    if x.is_sparse and not x.is_coalesced():
        raise FeatureError("Sparse features must be coalesced: call x.coalesce() first.")
    values = x.values() if x.is_sparse else x
    if not torch.isfinite(values).all():
        bad = (~torch.isfinite(values)).nonzero()[0]
        row, column = x.indices()[:, int(bad)].tolist() if x.is_sparse else bad.tolist()
        raise FeatureError(
            f"Feature {column} of node {names[row]!r} is not a finite number. "
            f"Every feature must be finite: one NaN would spread to all neighbours."
        )


_KIND = "cgcl graph 1"
_EARLIER: dict[str, Any] = {"feature_names": [], "num_nonzeros": 0}
"""What earlier versions did not say."""
_ABOUT_SHAPE = {
    "title": str,
    "notes": [str],
    "num_features": int,
    "num_nonzeros": int,
    "feature_names": [str],
    "fingerprint": str,
}
_OPTIONAL = ("sides", "times", "feature_scale")


def write_graph(path: Path, graph: Graph) -> None:
    """Write a graph to one file that `read_stored_graph` gives back unchanged.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    encoded = [name.encode() for name in graph.names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    tensors: dict[str, Tensor] = {
        "edges": graph.edges,
        "name_bytes": torch.frombuffer(
            bytearray(b"".join(encoded)) or bytearray(1), dtype=torch.uint8
        ),
        "name_ends": torch.from_numpy(ends),
    }
    optional = {part: getattr(graph, part) for part in _OPTIONAL}
    tensors |= {part: tensor for part, tensor in optional.items() if tensor is not None}
    if graph.x is not None and graph.x.is_sparse:
        tensors |= {"x_indices": graph.x.indices(), "x_values": graph.x.values()}
    elif graph.x is not None:
        tensors["x"] = graph.x
    if graph.structure is not None:
        tensors["feature_of_node"] = graph.structure.feature_of_node
    about = {
        "title": graph.title,
        "notes": list(graph.notes),
        "num_features": graph.num_features,
        "num_nonzeros": graph.num_nonzeros,
        "feature_names": list(graph.feature_names),
        "fingerprint": graph.fingerprint,
    }
    write_tensors(path, _KIND, tensors, about)


def _check_structure(graph: Graph) -> None:
    if graph.structure is None:
        return
    features, count = graph.structure.feature_of_node, graph.structure.num_features
    is_right = features.dtype == torch.int64 and features.shape == (graph.num_nodes,)
    if not is_right or (
        features.numel() and not -1 <= int(features.min()) <= int(features.max()) < count
    ):
        raise FeatureError("features that are made of links do not belong to its nodes")


def read_stored_graph(path: Path) -> Graph:
    """Return the graph that `write_graph` stored.

    Raises:
        ModelFileError: The file is missing, damaged or not one of ours.
    """
    tensors, about = read_tensors(path, _KIND)
    about = {**_EARLIER, **about}
    try:
        if wrong := misfits(about, _ABOUT_SHAPE):
            raise ValueError(f"{', '.join(wrong)} is missing or of another kind")
        joined, ends = tensors["name_bytes"].numpy().tobytes(), tensors["name_ends"].tolist()
        x, num_features = tensors.get("x"), about["num_features"]
        if "x_indices" in tensors:
            shape = (len(ends), num_features)
            x = coalesced(tensors["x_indices"], tensors["x_values"], shape)
        feature = tensors.get("feature_of_node")
        graph = Graph(
            title=about["title"],
            names=tuple(joined[a:b].decode() for a, b in zip([0, *ends[:-1]], ends, strict=True)),
            edges=tensors["edges"],
            x=x,
            notes=tuple(about["notes"]),
            feature_names=tuple(about["feature_names"]),
            # Graphs of earlier versions hold the features that were made themselves.
            structure=None
            if feature is None
            else Structure(feature, num_features, about["num_nonzeros"]),
            **{part: tensors.get(part) for part in _OPTIONAL},
        )
        _check_structure(graph)
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError, CGCLError) as error:
        raise ModelFileError(f"{path} does not hold a whole graph ({error}).") from error
    if graph.fingerprint != about["fingerprint"]:
        raise ModelFileError(f"{path} is damaged (its graph is not the one that was stored).")
    return graph
