"""Looks for leaks in a split, ours or anyone's: pairs that are where they should not be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from cgcl.errors import GraphContentError, SplitError
from cgcl.graph import Graph
from cgcl.graph.pairs import decode, encode, encode_ordered, is_in
from cgcl.split.split import PARTS, Split
from cgcl.wording import counted, shown

Severity = Literal["leak", "warning", "note"]
"""A leak makes every figure doubtful, a warning some of them; a note is good to know."""

_FATES = {"train": "to learn from", "val": "for validation", "test": "for the test"}


@dataclass(frozen=True, eq=False)
class Finding:
    """One thing that an audit found, with all the pairs it concerns."""

    kind: str
    """A key of `KINDS`."""
    severity: Severity
    part: str
    """Where it was found: train, val, test, val_negatives or test_negatives."""
    count: int
    sentence: str
    pairs: Tensor
    """The node numbers of the pairs, int64 [2, any], each pair once."""
    names: Sequence[str] = field(default=(), repr=False)
    """The name of every node; empty if they have none but their numbers."""

    @cached_property
    def named_pairs(self) -> tuple[tuple[str, str], ...]:
        """All pairs by the names of their nodes."""
        return self._first(self.pairs.shape[1])

    def shown_pairs(self, limit: int = 5) -> str:
        """Return up to `limit` pairs on one line, and how many more there are."""
        first = self._first(limit)
        more = self.pairs.shape[1] - len(first)
        words = ", ".join(f"'{shown(a)}' - '{shown(b)}'" for a, b in first)
        return words + (f" and {more:,} more" if more else "")

    def to_json(self) -> dict[str, Any]:
        """Return the finding as JSON can hold it, with all its pairs."""
        told = ("kind", "severity", "part", "count", "sentence")
        pairs = list(map(list, self.named_pairs))
        return {name: getattr(self, name) for name in told} | {"pairs": pairs}

    def _first(self, count: int) -> tuple[tuple[str, str], ...]:
        sources, targets = (map(self._name, row) for row in self.pairs[:, :count].tolist())
        return tuple(zip(sources, targets, strict=True))

    def _name(self, node: int) -> str:
        return self.names[node] if 0 <= node < len(self.names) else str(node)


@dataclass(frozen=True, eq=False)
class Audit:
    """Everything that an audit found, the worst first."""

    findings: tuple[Finding, ...]
    sizes: Mapping[str, int]
    """How many pairs each part lists."""

    @property
    def leaks(self) -> tuple[Finding, ...]:
        """The findings that make every figure doubtful."""
        return tuple(finding for finding in self.findings if finding.severity == "leak")

    @property
    def is_clean(self) -> bool:
        """Whether nothing leaks; there may still be warnings and notes."""
        return not self.leaks

    def raise_for_leaks(self) -> None:
        """Refuse to go on with a split that leaks.

        Raises:
            SplitError: There is a leak; the message has the first one, with its pairs.
        """
        if self.is_clean:
            return
        first, *others = self.leaks
        more = f"\nThere {_are(len(others), 'other leak')}." if others else ""
        raise SplitError(f"The split leaks. {first.sentence}\n  {first.shown_pairs()}{more}")

    def to_json(self) -> dict[str, Any]:
        """Return the audit as JSON can hold it, with all pairs."""
        return {
            "is_clean": self.is_clean,
            "sizes": dict(self.sizes),
            "findings": [finding.to_json() for finding in self.findings],
        }

    def text(self, limit: int = 5) -> str:
        """Return the audit for people, with up to `limit` pairs for each finding."""
        links = ", ".join(f"{self.sizes[part]:,} {words}" for part, words in _FATES.items())
        against = self.sizes["val_negatives"] + self.sizes["test_negatives"]
        lines = [f"Links: {links}; {counted(against, 'counter-example')}."]
        for finding in self.findings:
            lines.append(f"  {finding.severity:<9} {finding.sentence}")
            if limit > 0:
                lines.append(f"{'':<12}{finding.shown_pairs(limit)}")
        warnings = sum(finding.severity == "warning" for finding in self.findings)
        verdict = f"No leak found, but there {_are(warnings, 'warning')}."
        if not self.is_clean:
            found = counted(len(self.leaks), "leak")
            verdict = f"{found} found: figures measured on this split cannot be trusted."
        elif not warnings:
            verdict = "No leak found."
        return "\n".join([*lines, verdict])


def _are(count: int, what: str) -> str:
    return f"{'is' if count == 1 else 'are'} {counted(count, what)}"


_NAMES = {
    "train": "training link",
    "val": "validation link",
    "test": "test link",
    "val_negatives": "validation counter-example",
    "test_negatives": "test counter-example",
}
_SEVERAL = {"is": "are", "has": "have", "joins": "join", "repeats": "repeat", "it": "them"}
_SEVERITIES: tuple[Severity, ...] = ("leak", "warning", "note")
_AMONG = "{what} {is} also among the links to learn from"
_CHOSEN_BY = "{what} {is} also for validation: what chooses the epoch cannot test it."

KINDS: dict[str, tuple[Severity, str]] = {
    "held-out link in training": ("leak", f"{_AMONG}."),
    "reverse of a held-out link in training": ("leak", f"{_AMONG}, in the other direction."),
    "validation link in the test": ("leak", _CHOSEN_BY),
    "counter-example is a link": ("leak", "{what} {is} linked after all ({where})."),
    "counter-example in two parts": ("leak", _CHOSEN_BY),
    "counter-example within one side": (
        "warning",
        "{what} {joins} two nodes of the same side, which is easy to tell.",
    ),
    "repeated pair": ("warning", "{what} {repeats} an earlier one."),
    "both directions": ("warning", "{what} {is} listed in both directions{effect}"),
    "self-link": ("warning", "{what} {joins} a node to itself."),
    "node outside the graph": ("warning", "{what} {has} a node outside the graph."),
    "isolated by the split": (
        "note",
        "{nodes} of {part}s {has} no link to learn from: only features speak for {it}.",
    ),
}
"""Every kind of finding: how bad it is, and a sentence on it."""
_FINE_IN_TRAINING = ("repeated pair", "both directions", "self-link")


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
    names = nodes.names if isinstance(nodes, Graph) else () if isinstance(nodes, int) else nodes
    num_nodes = nodes if isinstance(nodes, int) else len(names)
    known = nodes.codes if isinstance(nodes, Graph) else torch.empty(0, dtype=torch.int64)
    if sides is None:
        sides = next((s.sides for s in (parts, nodes) if isinstance(s, Split | Graph)), None)
    if sides is not None and sides.shape != (num_nodes,):
        raise GraphContentError(
            f"Sides must be one bool per node, found {list(sides.shape)} for {num_nodes:,} nodes."
        )
    given = _given(parts)
    auditor = _Auditor(given, num_nodes, names)
    auditor.compare_links()
    auditor.compare_negatives(known, sides)
    auditor.find_isolated()
    findings = sorted(auditor.findings, key=lambda found: _SEVERITIES.index(found.severity))
    return Audit(tuple(findings), {name: pairs.shape[1] for name, pairs in given.items()})


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

    def __init__(self, given: Mapping[str, Tensor], num_nodes: int, names: Sequence[str]) -> None:
        self.findings: list[Finding] = []
        self._num_nodes = num_nodes
        self._names = names
        self._parts = {name: self._read(name, pairs) for name, pairs in given.items()}

    def _read(self, name: str, pairs: Tensor) -> _Part:
        """Return what is sound of a part, and note what is not."""
        outside = ((pairs < 0) | (pairs >= self._num_nodes)).any(dim=0)
        loops = (pairs[0] == pairs[1]) & ~outside
        sound = pairs[:, ~(outside | loops)]
        ways = encode_ordered(sound[0], sound[1], self._num_nodes)
        ways, times = torch.unique(ways, return_counts=True)
        codes, directions = torch.unique(self._undirected(ways), return_counts=True)
        effect = ", which is fine." if name == "train" else ": each counts twice."
        for kind, odd in (("node outside the graph", outside), ("self-link", loops)):
            self._add(kind, name, torch.unique(pairs[:, odd], dim=1), int(odd.sum()))
        self._add("repeated pair", name, self._pairs(ways[times > 1]), int((times - 1).sum()))
        self._add("both directions", name, self._pairs(codes[directions > 1]), effect=effect)
        return _Part(ways, codes)

    def compare_links(self) -> None:
        """Look for links of one part in another."""
        parts, train = self._parts, self._parts["train"]
        for name in ("val", "test"):
            ways, codes = parts[name].ways, parts[name].codes
            inside = _common(codes, train.codes)
            same = torch.unique(self._undirected(_common(ways, train.ways)))
            reverse = inside[~is_in(inside, same)]
            self._add("held-out link in training", name, self._pairs(same))
            self._add("reverse of a held-out link in training", name, self._pairs(reverse))
        both = _common(parts["test"].codes, parts["val"].codes)
        self._add("validation link in the test", "test", self._pairs(both))

    def compare_negatives(self, known: Tensor, sides: Tensor | None) -> None:
        """Look for counter-examples that are links, in both parts, or within one side."""
        parts = self._parts
        for name in ("val_negatives", "test_negatives"):
            codes = parts[name].codes
            pairs = self._pairs(codes)
            linked, where = self._linked(codes, known)
            self._add("counter-example is a link", name, pairs[:, linked], where=where)
            if sides is not None:
                within = pairs[:, sides[pairs[0]] == sides[pairs[1]]]
                self._add("counter-example within one side", name, within)
        both = _common(parts["test_negatives"].codes, parts["val_negatives"].codes)
        self._add("counter-example in two parts", "test_negatives", self._pairs(both))

    def _linked(self, codes: Tensor, known: Tensor) -> tuple[Tensor, str]:
        """Return which codes are links, bool, and where they are, in words."""
        found = torch.zeros_like(codes, dtype=torch.bool)
        where: list[str] = []
        for name in PARTS[:3]:
            here = is_in(codes, self._parts[name].codes)
            found |= here
            if bool(here.any()):
                where.append(f"{int(here.sum()):,} in {name}")
        elsewhere = is_in(codes, known) & ~found
        if bool(elsewhere.any()):
            where.append(f"{int(elsewhere.sum()):,} elsewhere in the graph")
        return found | elsewhere, ", ".join(where)

    def find_isolated(self) -> None:
        """Look for nodes of held-out links that no link to learn from touches."""
        is_seen = torch.zeros(self._num_nodes, dtype=torch.bool)
        is_seen[self._pairs(self._parts["train"].codes)] = True
        for name in ("val", "test"):
            pairs = self._pairs(self._parts[name].codes)
            alone = torch.unique(pairs[~is_seen[pairs]]).numel()
            self._add("isolated by the split", name, pairs[:, ~is_seen[pairs].all(dim=0)], alone)

    def _add(
        self, kind: str, part: str, pairs: Tensor, count: int | None = None, **words: str
    ) -> None:
        """Add a finding, unless there is nothing to tell; `count` is that of the pairs if None."""
        count = pairs.shape[1] if count is None else count
        if count == 0:
            return
        severity, sentence = KINDS[kind]
        severity = "note" if part == "train" and kind in _FINE_IN_TRAINING else severity
        words |= {one: one if count == 1 else many for one, many in _SEVERAL.items()}
        words |= {"what": counted(count, _NAMES[part]), "nodes": counted(count, "node")}
        told = sentence.format(part=_NAMES[part], **words)
        self.findings.append(Finding(kind, severity, part, count, told, pairs, self._names))

    def _undirected(self, ways: Tensor) -> Tensor:
        source, target = self._pairs(ways)
        return encode(source, target, self._num_nodes)

    def _pairs(self, codes: Tensor) -> Tensor:
        return decode(codes, self._num_nodes)


def _common(codes: Tensor, others: Tensor) -> Tensor:
    """Return the codes of the one that are in the other too; both are sorted, without repeats."""
    return codes[is_in(codes, others)]
