"""Looks for leaks in a split, ours or anyone's: pairs that are where they should not be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cgcl.errors import GraphContentError, SplitError
from cgcl.graph import Graph
from cgcl.split.findings import Audit, Finding, Kind, Severity
from cgcl.split.split import Split

__all__ = ["PARTS", "audit_split"]

PARTS = ("train", "val", "test", "val_negatives", "test_negatives")
"""The parts of a split: links, then the counter-examples to set against them."""

_LINKS = PARTS[:3]
_WORDS = {
    "train": "training link",
    "val": "validation link",
    "test": "test link",
    "val_negatives": "validation counter-example",
    "test_negatives": "test counter-example",
}
_VERBS = {"is": "are", "has": "have", "joins": "join", "repeats": "repeat"}
_SEVERITIES: tuple[Severity, ...] = ("leak", "warning", "note")


def audit_split(
    parts: Split | Mapping[str, Tensor],
    nodes: Graph | Sequence[str] | int,
    *,
    sides: Tensor | None = None,
) -> Audit:
    """Look for pairs that are where they should not be.

    Pairs may come as they are: in any order and direction, repeated, with self-links. A link is
    one link in whatever direction it is written.

    Args:
        parts: A split, or any of train, val, test, val_negatives and test_negatives by name,
            node numbers [2, any].
        nodes: The graph, whose links no counter-example may be, or the names of the nodes, or
            their number.
        sides: The side of every node of a bipartite graph, bool [n]; the split's or the graph's
            if not given.

    Raises:
        SplitError: A part has an unknown name.
        GraphContentError: A part is not of shape [2, any], or not of whole numbers, or the
            sides do not fit the nodes.

    Example:
        >>> train, test = torch.tensor([[0, 1], [1, 2]]), torch.tensor([[1], [0]])
        >>> audit = audit_split({"train": train, "test": test}, ["Anna", "Bob", "Eve"])
        >>> audit.is_clean, audit.findings[0].named_pairs
        (False, (('Anna', 'Bob'),))
    """
    names: Sequence[str] = () if isinstance(nodes, int) else _names(nodes)
    num_nodes = nodes if isinstance(nodes, int) else len(names)
    known = torch.empty(0, dtype=torch.int64)
    if isinstance(nodes, Graph):
        known = nodes.edges[0] * num_nodes + nodes.edges[1]  # sorted, as the links are
    if sides is None:
        sides = next((s.sides for s in (parts, nodes) if isinstance(s, Split | Graph)), None)
    if sides is not None and sides.shape != (num_nodes,):
        raise GraphContentError(
            f"Sides must be one bool per node, found {list(sides.shape)} for {num_nodes:,} nodes."
        )
    given = _given(parts)
    auditor = _Auditor(num_nodes, names)
    clean = {name: auditor.read(name, pairs) for name, pairs in given.items()}
    auditor.compare_links(clean)
    auditor.compare_negatives(clean, known, sides)
    auditor.find_isolated(clean)
    findings = sorted(auditor.findings, key=lambda found: _SEVERITIES.index(found.severity))
    return Audit(tuple(findings), {name: pairs.shape[1] for name, pairs in given.items()})


def _names(nodes: Graph | Sequence[str]) -> Sequence[str]:
    return nodes.names if isinstance(nodes, Graph) else nodes


def _given(parts: Split | Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return all five parts; those that were not given are empty."""
    if isinstance(parts, Split):
        parts = {name: getattr(parts, name) for name in PARTS}
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        raise SplitError(f"A split has no part '{unknown[0]}'. Its parts are {', '.join(PARTS)}.")
    given = {name: parts.get(name, torch.empty(2, 0, dtype=torch.int64)) for name in PARTS}
    for name, pairs in given.items():
        whole = not (pairs.is_floating_point() or pairs.is_complex() or pairs.dtype == torch.bool)
        if pairs.dim() != 2 or pairs.shape[0] != 2 or not whole:
            raise GraphContentError(
                f"Part '{name}' must hold node numbers of shape [2, any], found {pairs.dtype} "
                f"{list(pairs.shape)}."
            )
    return {name: pairs.to("cpu", torch.int64) for name, pairs in given.items()}


class _Part(NamedTuple):
    """The pairs of one part, without self-links and nodes outside the graph, as numbers."""

    ways: Tensor
    """A number for each pair and direction that is listed, sorted, each once."""
    codes: Tensor
    """A number for each pair in whatever direction, sorted, each once."""


class _Auditor:
    """Collects findings; pairs are compared as numbers, source * n + target or low * n + high."""

    def __init__(self, num_nodes: int, names: Sequence[str]) -> None:
        self.findings: list[Finding] = []
        self._num_nodes = num_nodes
        self._n = max(num_nodes, 1)  # divides, so it may not be 0
        self._names = names

    def read(self, name: str, pairs: Tensor) -> _Part:
        """Return what is sound of a part, and note what is not."""
        severity: Severity = "note" if name == "train" else "warning"
        outside = ((pairs < 0) | (pairs >= self._num_nodes)).any(dim=0)
        loops = (pairs[0] == pairs[1]) & ~outside
        source, target = pairs[:, ~(outside | loops)]
        ways, times = torch.unique(source * self._n + target, return_counts=True)
        codes, directions = torch.unique(self._undirected(ways), return_counts=True)
        both = self._pairs(codes[directions > 1])
        effect = ", which is fine." if name == "train" else ": each counts twice."
        for kind, level, where, count, sentence in (
            ("node outside the graph", "warning", _distinct(pairs[:, outside]),
             int(outside.sum()), "{what} {has} a node outside the graph."),
            ("self-link", severity, _distinct(pairs[:, loops]),
             int(loops.sum()), "{what} {joins} a node to itself."),
            ("repeated pair", severity, self._pairs(ways[times > 1]),
             int((times - 1).sum()), "{what} {repeats} an earlier one."),
            ("both directions", severity, both,
             both.shape[1], "{what} {is} listed in both directions" + effect),
        ):  # fmt: skip
            self._add(kind, level, name, where, sentence, count)
        return _Part(ways, codes)

    def compare_links(self, parts: Mapping[str, _Part]) -> None:
        """Look for links of one part in another."""
        train = parts["train"]
        for name in ("val", "test"):
            ways, codes = parts[name].ways, parts[name].codes
            inside = _common(codes, train.codes)
            same = torch.unique(self._undirected(_common(ways, train.ways)))
            reverse = inside[~_is_in(inside, same)]
            sentence = "{what} {is} also among the links to learn from"
            self._add("held-out link in training", "leak", name, self._pairs(same), f"{sentence}.")
            self._add(
                "reverse of a held-out link in training",
                "leak",
                name,
                self._pairs(reverse),
                f"{sentence}, in the other direction.",
            )
        self._add(
            "validation link in the test",
            "leak",
            "test",
            self._pairs(_common(parts["test"].codes, parts["val"].codes)),
            "{what} {is} also for validation: what chooses the epoch cannot test it.",
        )

    def compare_negatives(
        self, parts: Mapping[str, _Part], known: Tensor, sides: Tensor | None
    ) -> None:
        """Look for counter-examples that are links, in both parts, or within one side."""
        for name in ("val_negatives", "test_negatives"):
            codes = parts[name].codes
            pairs = self._pairs(codes)
            linked, where = self._linked(codes, parts, known)
            self._add(
                "counter-example is a link",
                "leak",
                name,
                pairs[:, linked],
                f"{{what}} {{is}} linked after all ({where}).",
            )
            if sides is not None:
                self._add(
                    "counter-example within one side",
                    "warning",
                    name,
                    pairs[:, sides[pairs[0]] == sides[pairs[1]]],
                    "{what} {joins} two nodes of the same side, which is easy to tell.",
                )
        self._add(
            "counter-example in two parts",
            "leak",
            "test_negatives",
            self._pairs(_common(parts["test_negatives"].codes, parts["val_negatives"].codes)),
            "{what} {is} also for validation: what chooses the epoch cannot test it.",
        )

    def _linked(
        self, codes: Tensor, parts: Mapping[str, _Part], known: Tensor
    ) -> tuple[Tensor, str]:
        """Return which codes are links, bool, and where they are, in words."""
        found = torch.zeros_like(codes, dtype=torch.bool)
        where: list[str] = []
        for name in _LINKS:
            here = _is_in(codes, parts[name].codes)
            found |= here
            if bool(here.any()):
                where.append(f"{int(here.sum()):,} in {name}")
        elsewhere = _is_in(codes, known) & ~found
        if bool(elsewhere.any()):
            where.append(f"{int(elsewhere.sum()):,} elsewhere in the graph")
        return found | elsewhere, ", ".join(where)

    def find_isolated(self, parts: Mapping[str, _Part]) -> None:
        """Look for nodes of held-out links that no link to learn from touches."""
        is_seen = torch.zeros(self._n, dtype=torch.bool)
        is_seen[self._pairs(parts["train"].codes).reshape(-1)] = True
        for name in ("val", "test"):
            pairs = self._pairs(parts[name].codes)
            ends = pairs.reshape(-1)
            alone = torch.unique(ends[~is_seen[ends]]).numel()
            one = alone == 1
            self._add(
                "isolated by the split",
                "note",
                name,
                pairs[:, ~is_seen[pairs].all(dim=0)],
                f"{alone:,} node{'' if one else 's'} of {_WORDS[name]}s {{has}} no link to learn "
                f"from: only features speak for {'it' if one else 'them'}.",
                alone,
            )

    def _add(
        self,
        kind: Kind,
        severity: Severity,
        part: str,
        pairs: Tensor,
        sentence: str,
        count: int | None = None,
    ) -> None:
        """Add a finding, unless there is nothing to tell; `count` is that of the pairs if None."""
        count = pairs.shape[1] if count is None else count
        if count == 0:
            return
        verbs = {one: one if count == 1 else many for one, many in _VERBS.items()}
        what = f"{count:,} {_WORDS[part]}{'' if count == 1 else 's'}"
        words = sentence.format(what=what, **verbs)
        self.findings.append(Finding(kind, severity, part, count, words, pairs, self._names))

    def _undirected(self, ways: Tensor) -> Tensor:
        source, target = self._pairs(ways)
        return torch.minimum(source, target) * self._n + torch.maximum(source, target)

    def _pairs(self, codes: Tensor) -> Tensor:
        return torch.stack([codes // self._n, codes % self._n])


def _distinct(pairs: Tensor) -> Tensor:
    return torch.unique(pairs, dim=1) if pairs.shape[1] else pairs


def _common(codes: Tensor, others: Tensor) -> Tensor:
    """Return the codes of the one that are in the other too; both are sorted, without repeats."""
    return codes[_is_in(codes, others)]


def _is_in(codes: Tensor, others: Tensor) -> Tensor:
    """Say which codes are among `others`, which are sorted; many times faster than torch.isin."""
    if others.numel() == 0:
        return torch.zeros_like(codes, dtype=torch.bool)
    place = torch.searchsorted(others, codes).clamp(max=others.numel() - 1)
    return others.index_select(0, place) == codes
