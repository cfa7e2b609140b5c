"""Search the settings of trained methods alike, then test what was chosen.

    python experiments/equal.py search --device cuda --workers 8   # twice: draws, then neighbours
    python experiments/equal.py run --device cuda --workers 8
    python experiments/equal.py choice --device cuda --workers 8   # what authors leave to choose

What is searched, and by which rules, stands in equal.toml and was fixed before the first run. A
result is one line of JSON in experiments/results/equal.jsonl; what is there is not computed again.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from operator import itemgetter
from typing import Any

import torch

import cgcl
import run
from cgcl.methods.table import method_named
from cgcl.seeds import stream
from cgcl.split import random_split
from cgcl.train.config import RunConfig
from cgcl.train.top_of_list import BUDGET, ranking_metrics
from run import Key, Line

RESULTS = "equal"
KEY = ("stage", "graph", "method", "share", "seed", "number")
ASKED = run.described("equal")
SEARCH, LADDERS, FEW = ASKED["search"], ASKED["ladders"], ASKED["few"]
# To see all pairs of all graphs, whatever the method.
_BUDGET = 20 * BUDGET
# So often a neighbour is drawn again if it was tried before.
_DRAWS = 100

Settings = dict[str, Any]


# A process makes many runs on a graph.
_read = cache(cgcl.read)


def rule(method: str) -> Line:
    """Return by what a method is searched: the rules for all, or those for few trials."""
    return {**SEARCH, **FEW} if method in FEW["methods"] else SEARCH


def asked(graphs: Sequence[str], methods: Sequence[str]) -> list[tuple[str, str]]:
    """Return the graphs and methods that are searched together."""
    both = product(graphs, methods)
    return [(graph, own) for graph, own in both if graph in rule(own).get("graphs", graphs)]


def authors(method: str, graph: str, data_root: str | None = None) -> Settings:
    """Return every setting as its authors have it on a graph, but for what equal.toml changes."""
    known, caps = method_named(method), ASKED["caps"].get(method, {}).get(graph, {})
    told = {**known.authors_settings(graph), **caps}
    if known.rule is not None:
        told["preset"] = "best"
    return RunConfig.for_graph(method, told, _read(graph, data_root=data_root)).settings.to_json()


def lengthened(settings: Mapping[str, Any]) -> Settings:
    """Return settings with the longest training that is allowed, ended by patience."""
    epochs, look = settings["epochs"], settings["evaluate_every"]
    patience = -(-SEARCH["patience"] * epochs // look) * look  # whole looks
    return {**settings, "epochs": SEARCH["longer"] * epochs, "patience": int(patience)}


def proposals(method: str, graph: str, start: Settings, reached: Sequence[float]) -> list[Settings]:
    """Return what the trials of a search try, in their order.

    Args:
        method: The method's name.
        graph: The graph's name.
        start: The authors' settings.
        reached: What the trials that are drawn have reached; neighbours wait for all of them.
    """
    ranges, tried, rules = ASKED["methods"][method], [start], rule(method)
    best: Settings = {}
    while len(tried) < rules["trials"]:
        if len(tried) == rules["drawn"]:
            if len(reached) < rules["drawn"]:
                break
            best = max(zip(reached, tried, strict=False), key=itemgetter(0))[1]
        generator = stream(SEARCH["split"], f"equal {method} {graph}", len(tried) + 1)
        for _ in range(_DRAWS):
            own = {
                name: _moved(LADDERS[name], ends, best[name], generator)
                if best
                else _drawn(LADDERS[name], ends, generator)
                for name, ends in ranges.items()
            }
            if {**start, **own} not in tried:
                break
        tried.append({**start, **own})
    return tried


def _drawn(ladder: list[Any], ends: Sequence[Any], generator: torch.Generator) -> Any:  # noqa: ANN401
    low, high = map(ladder.index, ends)
    return ladder[int(torch.randint(low, high + 1, (), generator=generator))]


def _moved(
    ladder: list[Any],
    ends: Sequence[Any],
    value: Any,  # noqa: ANN401
    generator: torch.Generator,
) -> Any:  # noqa: ANN401
    """Return a value or, as often, one next to it; by one step it may leave its range."""
    stays, goes_up = torch.randint(2, (2,), generator=generator).tolist()
    if stays:
        return value
    low, high = map(ladder.index, ends)
    # The authors' own may stand on no step.
    place = min(range(len(ladder)), key=lambda step: abs(ladder[step] - value))
    place += 1 if goes_up else -1
    return ladder[min(max(place, low - 1, 0), high + 1, len(ladder) - 1)]


def searched(place: Line) -> dict[Key, dict[int, Line]]:
    """Return the trials that went well by graph and method, then by number."""
    lines = [x for x in run.sound(RESULTS, place["out"]) if x["stage"] == "search"]
    found = run.grouped(lines, "graph", "method")
    return {key: {line["number"]: line for line in own} for key, own in found.items()}


def goal_of(method: str) -> str:
    """Return by what the best trial of a method is chosen."""
    return str(SEARCH["goals"].get(method, SEARCH["goal"]))


def reached(line: Line) -> float:
    """Return what a trial reached on the validation links; nothing if it failed."""
    return float((line.get("val") or {}).get(goal_of(line["method"]), 0.0))


def trials(place: Line, graphs: Sequence[str], methods: Sequence[str]) -> Iterator[Line]:
    """Yield the trials that can be told by now: the neighbours wait for all that are drawn."""
    lines = [x for x in run.results_of(RESULTS, folder=place["out"]) if x["stage"] == "search"]
    # What broke its device is tried again.
    sound = (line for line in lines if "CUDA error" not in line.get("failure", ""))
    found = run.latest(sound, "graph", "method", "number")
    jobs: list[Line] = []
    for graph, method in asked(graphs, methods):
        drawn = [found.get((graph, method, n)) for n in range(1, rule(method)["drawn"] + 1)]
        # One that has failed has reached nothing.
        told = [reached(line) for line in drawn if line is not None]
        for number, own in enumerate(
            proposals(method, graph, authors(method, graph, place["data_root"]), told), start=1
        ):
            job = {"stage": "search", "graph": graph, "method": method, "share": 10}
            jobs.append({**job, "seed": SEARCH["split"], "number": number, "tried": own})
    yield from sorted(jobs, key=lambda job: job["number"])


def chosen(place: Line) -> dict[Key, Line]:
    """Return the best trial of each search that is complete, ties by the earlier one."""
    return {
        key: max(own.values(), key=lambda line: (reached(line), -line["number"]))
        for key, own in searched(place).items()
        if len(own) == rule(key[1])["trials"]
    }


def runs(place: Line, graphs: Sequence[str], methods: Sequence[str]) -> Iterator[Line]:
    """Yield the runs that test what was chosen."""
    best, told = chosen(place), ASKED["run"]
    for seed, share, (graph, method) in product(
        told["splits"], told["share"], asked(graphs, methods)
    ):
        if (graph, method) in best:
            line = best[graph, method]
            job = {"stage": "run", "graph": graph, "method": method, "share": share, "seed": seed}
            yield {**job, "number": line["number"], "tried": line["tried"]}


def choices(place: Line, graphs: Sequence[str], methods: Sequence[str]) -> Iterator[Line]:
    """Yield the same runs with what the authors' code leaves to choose, as equal.toml has it."""
    own = ASKED["choices"]
    for job in runs(place, graphs, [name for name in methods if name in own]):
        yield {**job, "stage": "choice", "tried": {**job["tried"], **own[job["method"]]}}


def work(job: Line, place: Line) -> Line:
    """Train once; in the search nothing is asked of the test links."""
    graph, share = _read(job["graph"], data_root=place["data_root"]), job["share"] / 100
    split = random_split(graph, share / 2, share, job["seed"])
    told = {**lengthened(job["tried"]), "seed": job["seed"], "val": share / 2, "test": share}
    recipe = RunConfig.for_graph(job["method"], told, graph)
    is_search = job["stage"] == "search"
    about = {**job, "settings": recipe.settings.to_json(), "caps": recipe.settings.caps}
    how = {"measure_test": not is_search, "top_of_list": False}
    line, trained = run.trained_once(about, graph, split, recipe, place, **how)
    if trained is None:
        return line
    line |= {"epochs": len(trained.history), "sampled": None}
    if is_search:
        return line
    start, scorer = time.perf_counter(), trained.scorer(split.train)
    top = ranking_metrics(scorer, split, seed=job["seed"], **_looks(job["method"], job["graph"]))
    line |= {"test": top.metrics | line["test"], "sampled": top.sampling}
    return {**line, "seconds": round(line["seconds"] + time.perf_counter() - start, 2)}


def _looks(method: str, graph: str) -> dict[str, Any]:
    """Return how much of the top of the list is looked at: all of it, if that is affordable."""
    if method not in FEW["methods"]:
        return {"budget": _BUDGET}
    return {"budget": math.inf, "most_links": FEW["ranked"].get(graph, 0)}


def shown(result: Line) -> str:
    """Return a result in a line."""
    words = f"{result['number']}: {run.shown(result)}"
    # Nothing runs after such an error in the same process.
    return sys.exit(words) if "CUDA error" in result.get("failure", "") else words


def runs_there(stage: str) -> dict[Key, list[Line]]:
    """Return the runs of a stage by graph, share and method, in order of seeds."""
    lines = sorted(run.sound(RESULTS), key=lambda line: line["seed"])
    own = (line for line in lines if line["stage"] == stage)
    return run.grouped(own, "graph", "share", "method")


STAGES = {"search": trials, "run": runs, "choice": choices}


def main() -> None:
    """Run what is missing."""
    parser = run.options(__doc__)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--graphs", type=run.listed, default=ASKED["graphs"])
    parser.add_argument("--methods", type=run.listed, default=[*ASKED["methods"]])
    told = parser.parse_args()
    place = {"out": told.out, "data_root": told.data_root}
    asked = STAGES[told.stage](place, told.graphs, told.methods)
    run.run_missing(RESULTS, asked, work, shown, told, KEY, is_fresh=False)


if __name__ == "__main__":
    main()
