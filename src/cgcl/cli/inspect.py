"""`cgcl inspect`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from cgcl.cli.settings import FLAT, Reading, flags_of
from cgcl.cli.terminal import fact
from cgcl.errors import CGCLError
from cgcl.methods.settings import PRESETS, CGCLSettings, RankSettings, chosen_for
from cgcl.settings import pick
from cgcl.train.config import Resources, SplitConfig
from cgcl.wording import counted

if TYPE_CHECKING:
    from cgcl.graph import Graph
    from cgcl.graph.survey import FeatureSurvey, Survey
    from cgcl.train.estimate import Estimate

_NOT_POSSIBLE = "not possible as it is."


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

    read = reading.read(graph)
    found, split, costs = survey(read), _split(read), _costs(read, Resources(threads=threads))
    if as_json:
        answer = {
            "title": read.title,
            "survey": asdict(found),
            "notes": list(read.notes),
            "split": split,
            "costs": costs
            | {"presets": {name: _told(own) for name, own in costs["presets"].items()}},
        }
        print(json.dumps(answer, indent=2, ensure_ascii=False))  # noqa: T201
        return
    facts = [
        *_graph_facts(read, found),
        ("Split", _split_fact(split)),
        ("Training", _cost_fact(costs)),
        ("Next", shlex.join(["cgcl", "train", graph, *flags_of(reading)])),
    ]
    for what, text in facts:
        for line in text.splitlines():
            print(fact(what, line, sys.stdout))  # noqa: T201
            what = ""


def _split(graph: Graph) -> dict[str, Any]:
    """Return the split that training would make, or the problem why it cannot be made."""
    from cgcl.split import audit_split, random_split, time_split

    config = SplitConfig()
    notes: tuple[str, ...] = ()
    try:
        if graph.times is None:
            split = random_split(graph, config.val, config.test, config.seed)
        else:
            split, notes = time_split(graph, config.val, config.test, config.seed)
    except CGCLError as error:
        return {"sizes": None, "notes": (), "problem": str(error)}
    found = (finding.sentence for finding in audit_split(split, graph).findings)
    return {"sizes": split.sizes, "notes": (*notes, *found), "problem": None}


def _split_fact(split: Mapping[str, Any]) -> str:
    sizes = split["sizes"]
    if sizes is None:
        return f"{_NOT_POSSIBLE}\n{split['problem']}"
    first = (
        f"{sizes['train']:,} links to learn from, {sizes['val']:,} to choose the "
        f"epoch by, {sizes['test']:,} to test on"
    )
    return "\n".join([first, *split["notes"]])


def _costs(graph: Graph, resources: Resources) -> dict[str, Any]:
    """Return what training takes with each preset, and notes."""
    from cgcl.graph.features import prepare
    from cgcl.memory import free_memory
    from cgcl.train.estimate import estimate_graph, measure_speed

    # Only the number of features counts here, so that all links will do.
    prepared = prepare(graph, graph.edges)
    speed = measure_speed(resources)
    told: dict[str, CGCLSettings | RankSettings] = {
        name: pick(RankSettings, {"preset": name, **chosen_for(prepared, name)})
        for name in ("quick", "best")
    }
    told["paper"] = pick(CGCLSettings, PRESETS["paper"])
    presets = {
        name: estimate_graph(prepared, settings, SplitConfig(), resources=resources, speed=speed)
        for name, settings in told.items()
    }
    found = {"presets": presets, "threads": resources.num_threads, "free_bytes": free_memory()}
    return found | {"notes": prepared.notes[len(graph.notes) :]}


def _told(cost: Estimate) -> dict[str, Any]:
    parts = {"memory_bytes": cost.memory_bytes, "memory_parts": dict(cost.parts)}
    return {**parts, "seconds": cost.seconds}


def _cost_fact(costs: Mapping[str, Any]) -> str:
    from cgcl.memory import in_words

    lines, free = list(costs["notes"]), costs["free_bytes"]
    for name, cost in costs["presets"].items():
        lines.append(
            f"--preset {name}: about {in_words(cost.memory_bytes)} and "
            f"{_duration(cost.seconds)} (width {cost.hidden}, {cost.epochs} epochs)"
            f"{'' if cost.fits_into(free) else '; does not fit into memory'}"
        )
    machine = f"times are for {counted(costs['threads'], 'CPU thread')}"
    return "\n".join([*lines, f"{in_words(free)} of memory are free; {machine}"])


def _graph_facts(graph: Graph, found: Survey) -> list[tuple[str, str]]:
    from cgcl.wording import shown

    about = f"{graph.title}: {found.nodes:,} nodes, {counted(found.links, 'link')}"
    facts = [("Graph", "\n".join([about, *graph.notes])), ("Pieces", _pieces(found))]
    if found.hub is not None:
        links = (
            f"{found.mean_degree:.1f} at a node on average, {found.median_degree:g} in the "
            f"middle, at most {found.max_degree:,} ('{shown(found.hub)}'); "
            f"{100 * found.density:.3g} % of all possible links"
        )
        facts.append(("Links", links))
    return [*facts, ("Sides", _sides(found)), ("Features", _features(found.features))]


def _pieces(found: Survey) -> str:
    if found.components == 1:
        return "all nodes hang together"
    alone = counted(found.isolated, "node") if found.isolated else "no node"
    return (
        f"{found.components:,} that no link joins; the largest has "
        f"{counted(found.largest_component, 'node')}; {alone} without a link"
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
    storage = "sparse" if features.is_sparse else "dense"
    parts = [
        f"{features.count:,} for each node",
        f"{features.nonzeros:,} entries are not zero, kept {storage}",
    ]
    if features.constant:
        parts.append(f"{features.constant:,} the same at every node, so of no use")
    if features.nodes_without:
        parts.append(f"{counted(features.nodes_without, 'node')} with nothing but zeros")
    return "; ".join(parts)


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
