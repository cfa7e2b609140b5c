"""`cgcl inspect`."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import textwrap
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cgcl.cli.reading import Reading
from cgcl.cli.settings import FLAT
from cgcl.errors import CGCLError
from cgcl.methods.settings import PRESETS, CGCLSettings, RankSettings, chosen_for
from cgcl.settings import pick
from cgcl.train.config import Resources, SplitConfig

if TYPE_CHECKING:
    from cgcl.graph import Graph
    from cgcl.graph.survey import FeatureSurvey, Survey
    from cgcl.train.estimate import Estimate

__all__ = ["inspect"]

_INDENT = 14


def inspect(
    graph: str,
    /,
    *,
    reading: Annotated[Reading, FLAT] = Reading(),  # noqa: B008
    threads: int = 0,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
) -> None:
    """Read a graph and tell what it is like and what training on it would take.

    Nothing is trained and nothing is written.

    Args:
        graph: A file of links, or a data set (cora, citeseer, pubmed, photo, computers).
        reading: The files.
        threads: CPU threads to estimate for; 0 takes the cores, at most 4.
        as_json: Print everything as JSON instead of text.
    """
    from cgcl.graph.survey import survey
    from cgcl.memory import free_memory
    from cgcl.train.estimate import measure_speed

    read = reading.read(graph)
    resources = Resources(threads=threads)
    found = survey(read)
    split = _Split.of(read)
    costs = _Costs.of(read, measure_speed(resources), resources.num_threads, free_memory())
    if as_json:
        answer = {
            "title": read.title,
            "survey": found.to_json(),
            "notes": list(read.notes),
            "split": asdict(split),
            "costs": costs.to_json(),
        }
        print(json.dumps(answer, indent=2, ensure_ascii=False))  # noqa: T201
        return
    command = shlex.join(["cgcl", "train", graph, *reading.words_of_command()])
    facts = [
        *_graph_facts(read, found),
        *split.facts(),
        *costs.facts(),
        ("Next", command),
    ]
    print("\n".join(_laid_out(what, text) for what, text in facts))  # noqa: T201


@dataclass(frozen=True)
class _Split:
    """The split that training would make, or why it cannot be made."""

    sizes: dict[str, int] | None = None
    notes: tuple[str, ...] = ()
    problem: str | None = None

    @classmethod
    def of(cls, graph: Graph) -> _Split:
        from cgcl.split import audit_split, random_split, time_split

        config = SplitConfig()
        notes: tuple[str, ...] = ()
        try:
            if graph.times is None:
                split = random_split(graph, config.val, config.test, config.seed)
            else:
                split, notes = time_split(graph, config.val, config.test, config.seed)
        except CGCLError as error:
            return cls(problem=str(error))
        found = audit_split(split, graph).findings
        return cls(split.sizes, (*notes, *(finding.sentence for finding in found)))

    def facts(self) -> list[tuple[str, str]]:
        if self.sizes is None:
            return _lines("Split", f"not possible as it is.\n{self.problem}")
        first = (
            f"{self.sizes['train']:,} links to learn from, {self.sizes['val']:,} to choose the "
            f"epoch by, {self.sizes['test']:,} to test on"
        )
        return _lines("Split", "\n".join([first, *self.notes]))


@dataclass(frozen=True)
class _Costs:
    """What training would take with each preset, or why it cannot be done."""

    presets: dict[str, Estimate]
    threads: int
    free_bytes: int
    notes: tuple[str, ...] = ()
    problem: str | None = None

    @classmethod
    def of(cls, graph: Graph, speed: float, threads: int, free: int) -> _Costs:
        from cgcl.graph.features import prepare
        from cgcl.train.estimate import estimate_graph

        try:
            # Only their number counts here, so that all links will do.
            prepared = prepare(graph, graph.edges)
        except CGCLError as error:
            return cls({}, threads, free, problem=str(error))
        told: dict[str, CGCLSettings | RankSettings] = {
            name: pick(RankSettings, {"preset": name, **chosen_for(prepared, name)})
            for name in ("quick", "best")
        }
        told["paper"] = pick(CGCLSettings, PRESETS["paper"])
        presets = {
            name: estimate_graph(
                prepared,
                settings,
                SplitConfig(),
                resources=Resources(threads=threads),
                speed=speed,
            )
            for name, settings in told.items()
        }
        return cls(presets, threads, free, prepared.notes[len(graph.notes) :])

    def facts(self) -> list[tuple[str, str]]:
        from cgcl.memory import in_words

        if self.problem is not None:
            return _lines("Training", f"not possible as it is.\n{self.problem}")
        lines = list(self.notes)
        for name, cost in self.presets.items():
            lines.append(
                f"--preset {name}: about {in_words(cost.memory_bytes)} and "
                f"{_duration(cost.seconds)} (width {cost.hidden}, {cost.epochs} epochs)"
                f"{'' if cost.fits_into(self.free_bytes) else '; does not fit into memory'}"
            )
        threads = "1 CPU thread" if self.threads == 1 else f"{self.threads} CPU threads"
        lines.append(f"{in_words(self.free_bytes)} of memory are free; times are for {threads}")
        return _lines("Training", "\n".join(lines))

    def to_json(self) -> dict[str, Any]:
        """Return the costs as JSON can hold them."""
        return {
            "presets": {
                name: {
                    "memory_bytes": cost.memory_bytes,
                    "memory_parts": dict(cost.parts),
                    "seconds": cost.seconds,
                }
                for name, cost in self.presets.items()
            },
            "threads": self.threads,
            "free_bytes": self.free_bytes,
            "notes": list(self.notes),
            "problem": self.problem,
        }


def _graph_facts(graph: Graph, found: Survey) -> list[tuple[str, str]]:
    from cgcl.graph.wording import shown

    facts = [("Graph", f"{graph.title}: {found.nodes:,} nodes, {_plural(found.links, 'link')}")]
    for note in graph.notes:
        facts += _lines("", note)
    facts.append(("Pieces", _pieces(found)))
    if found.hub is not None:
        facts.append(
            (
                "Links",
                f"{found.mean_degree:.1f} at a node on average, {found.median_degree:g} in the "
                f"middle, at most {found.max_degree:,} ('{shown(found.hub)}'); "
                f"{100 * found.density:.3g} % of all possible links",
            )
        )
    facts += _lines("Sides", _sides(found))
    facts.append(("Features", _features(found.features)))
    return facts


def _pieces(found: Survey) -> str:
    if found.components == 1:
        return "all nodes hang together"
    alone = _plural(found.isolated, "node") if found.isolated else "no node"
    return (
        f"{found.components:,} that no link joins; the largest has "
        f"{_plural(found.largest_component, 'node')}; {alone} without a link"
    )


def _sides(found: Survey) -> str:
    if found.sides is None:
        return "none: any two nodes may be linked"
    here, there = found.sides
    if found.is_bipartite:
        return (
            f"two, with {here:,} and {there:,} linked nodes: links, counter-examples and "
            f"suggestions only go across"
        )
    unsure = "" if found.is_sides_unique else " (this is one way to see it)"
    return (
        f"none given, but all links could go across two sides of {here:,} and {there:,} "
        f"nodes{unsure}\nIf these are two kinds of things, such as people and films, add "
        f"--bipartite yes"
    )


def _features(features: FeatureSurvey | None) -> str:
    if features is None:
        return "none"
    parts = [
        f"{features.count:,} for each node",
        f"{features.nonzeros:,} entries are not zero, kept {_storage(features)}",
    ]
    if features.constant:
        parts.append(f"{features.constant:,} the same at every node, so of no use")
    if features.nodes_without:
        parts.append(f"{_plural(features.nodes_without, 'node')} with nothing but zeros")
    return "; ".join(parts)


def _storage(features: FeatureSurvey) -> str:
    return "sparse" if features.is_sparse else "dense"


def _lines(what: str, text: str) -> list[tuple[str, str]]:
    """Return one fact per line of `text`, the first one headed."""
    first, *others = text.splitlines()
    return [(what, first), *(("", line) for line in others)]


def _laid_out(what: str, text: str) -> str:
    """Return a fact as lines, which on a terminal too narrow for it go on below themselves."""
    if sys.stdout.isatty():
        width = max(shutil.get_terminal_size().columns - _INDENT, 20)
        text = f"\n{'':<{_INDENT}}".join(textwrap.wrap(text, width, break_on_hyphens=False))
    return f"  {what:<{_INDENT - 2}}{text}"


def _plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _duration(seconds: float) -> str:
    """Return a rough time as people say it.

    Example:
        >>> _duration(0.3), _duration(42), _duration(600), _duration(9000)
        ('a second', '42 s', '10 min', '2.5 h')
    """
    if seconds < 1.5:
        return "a second"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
