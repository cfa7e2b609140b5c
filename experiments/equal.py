"""Search the settings of trained methods alike, then test what was chosen.

    python experiments/equal.py search --device cuda --workers 8   # twice: draws, then neighbours
    python experiments/equal.py run --device cuda --workers 8

What is searched, and by which rules, stands in equal.toml and was fixed before the first run. A
result is one line of JSON in experiments/results/equal.jsonl; what is there is not computed again.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from operator import itemgetter
from typing import Any

import torch

import cgcl
import run
from cgcl.experiments.statistics import LEVEL, Difference
from cgcl.experiments.tables import p_words
from cgcl.methods.table import method_named
from cgcl.metrics.table import METRICS
from cgcl.seeds import stream
from cgcl.split import random_split
from cgcl.train.config import RunConfig
from cgcl.train.fit import Fitted
from cgcl.train.top_of_list import ranking_metrics
from cgcl.wording import joined
from run import TITLES, Key, Line, mean_sd, percent, table

RESULTS, OURS = "equal", "cgcl"
KEY = ("stage", "graph", "method", "share", "seed", "number")
ASKED = run.described("equal")
SEARCH, LADDERS, FEW = ASKED["search"], ASKED["ladders"], ASKED["few"]
# So often a neighbour is drawn again if it was tried before.
_DRAWS = 100

Settings = dict[str, Any]


# A process makes many runs on a graph.
_read = cache(cgcl.read)


def rule(method: str) -> Line:
    """Return by what a method is searched: the rules for all, or those for few trials."""
    return {**SEARCH, **FEW} if method in FEW["methods"] else SEARCH


def titled(method: str) -> str:
    """Return a method's title, marked if it has had fewer trials than others."""
    title = method_named(method).title
    return f"{title} ({FEW['trials']} trials)" if method in FEW["methods"] else title


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


def work(job: Line, place: Line) -> Line:
    """Train once; in the search nothing is asked of the test links."""
    graph, share = _read(job["graph"], data_root=place["data_root"]), job["share"] / 100
    split = random_split(graph, share / 2, share, job["seed"])
    told = {**lengthened(job["tried"]), "seed": job["seed"], "val": share / 2, "test": share}
    recipe = RunConfig.for_graph(job["method"], told, graph)
    is_search, is_few = job["stage"] == "search", job["method"] in FEW["methods"]
    about = {**job, "settings": recipe.settings.to_json(), "caps": recipe.settings.caps}
    how = {"measure_test": not is_search, "top_of_list": not is_few}
    line, trained = run.trained_once(about, graph, split, recipe, place, **how)
    if trained is None:
        return line
    line["epochs"] = len(trained.history)
    if is_few:
        return line if is_search else {**line, **_ranked(line, trained)}
    if is_search:
        found = ranking_metrics(trained.scorer(split.train), split, "val")
        line["val"] = found.metrics | line["val"]
    return {**line, "sampled": trained.test_sampled}


def _ranked(line: Line, trained: Fitted) -> Line:
    """Return the metrics of a test with where some of its links stand, and how many those are."""
    split, most = trained.split, FEW["ranked"].get(line["graph"], 0)
    scorer, seed = trained.scorer(split.train), line["seed"]
    top = ranking_metrics(scorer, split, budget=math.inf, most_links=most, seed=seed)
    return {"test": {**top.metrics, **line["test"]}, "sampled": top.sampling}


def shown(result: Line) -> str:
    """Return a result in a line."""
    words = f"{result['number']}: {run.shown(result)}"
    # Nothing runs after such an error in the same process.
    return sys.exit(words) if "CUDA error" in result.get("failure", "") else words


def tests() -> dict[Key, list[Line]]:
    """Return the runs that test what was chosen by graph, share and method, in order of seeds."""
    lines = sorted(run.sound(RESULTS), key=lambda line: line["seed"])
    tested = (line for line in lines if line["stage"] == "run")
    return run.grouped(tested, "graph", "share", "method")


def _named(key: Key) -> list[str]:
    graph, share, method = key
    return [TITLES[graph], f"{share} %", titled(method)]


def results_table() -> str:
    """What each row reaches with what its search has chosen."""
    rows = [
        [
            *_named(key),
            *(mean_sd(percent(own, name)) for name in ("auc", "ap")),
            *(_of_list(own, name) for name in ("node_mrr", "precision@1000")),
            str(len(own)),
        ]
        for key, own in tests().items()
    ]
    head = "graph | test links | row | AUC | AP | node MRR | P@1,000 | splits"
    note = "\\* On a sample of the test links, or not measured, because all of them take too long."
    return table(head, sorted(rows, key=_order), note)


def _order(row: Sequence[str]) -> tuple[int, str, float]:
    return [*TITLES.values()].index(row[0]), row[1], -float(row[3].split()[0])


def _of_list(runs: Sequence[Line], name: str) -> str:
    found = percent(runs, name)
    if len(found) < len(runs):
        return "\\*"
    return mean_sd(found, 1) + ("\\*" if any(line["sampled"] for line in runs) else "")


def differences() -> dict[Key, Difference]:
    """Return CGCL minus each other row in AUC and AP, tested as the one family of equal.toml."""
    found = tests()
    ours = {key[:2]: own for key, own in found.items() if key[2] == OURS}
    apart = {
        (*key, metric): run.apart(ours[key[:2]], own, metric)
        for key, own in found.items()
        for metric in ASKED["family"]["metrics"]
        if key[2] != OURS and key[:2] in ours
    }
    return run.tested(apart)


def differences_table() -> str:
    """CGCL minus each other row, with p-values for the whole family."""
    found = differences()
    cells = {key: f"{own.mean:+.2f} (p {p_words(own)})" for key, own in found.items()}
    keys = dict.fromkeys(key[:3] for key in found)
    rows = [[*_named(key), *(cells[*key, m] for m in ASKED["family"]["metrics"])] for key in keys]
    rows.sort(key=lambda row: ([*TITLES.values()].index(row[0]), row[1]))
    note = f"Paired over splits, corrected for their overlap; Holm over all {len(found)} tests."
    return table("graph | test links | CGCL minus | AUC | AP", rows, note)


def choices_table() -> str:
    """What each search has chosen, and what it took."""
    rows = []
    for (graph, method), own in searched({"out": run.RESULTS}).items():
        best = max(own.values(), key=lambda line: (reached(line), -line["number"]))
        names, goal = ASKED["methods"][method], METRICS[goal_of(method)].title
        values = ", ".join(f"{name} {best['tried'][name]}" for name in names)
        first, most = (f"{100 * reached(line):.2f}" for line in (own[1], best))
        if len(own) == rule(method)["trials"]:
            seconds = f"{sum(line['seconds'] for line in own.values()):,.0f}"
            rows.append([TITLES[graph], titled(method), goal, first, most, values, seconds])
    head = "graph | row | by validation | authors' settings | chosen | settings | seconds"
    rows.sort(key=lambda row: [*TITLES.values()].index(row[0]))
    return table(head, rows, "Seconds on one H200, up to 16 trials side by side.")


def summary() -> str:
    """Say who is ahead where every row was searched alike."""
    found, graphs = differences(), dict.fromkeys(key[0] for key in differences())
    told = []
    for graph in graphs:
        own = {key: value for key, value in found.items() if key[0] == graph}
        tested = {key: value.adjusted_p for key, value in own.items()}
        sure = [own[key] for key, p in tested.items() if p is not None and p < LEVEL]
        ahead = [value for value in sure if value.mean > 0]
        behind = [value for value in sure if value.mean < 0]
        lower = dict.fromkeys(
            method_named(key[2]).title for key, value in own.items() if value.mean < 0
        )
        words = f"{TITLES[graph]}: ahead in {len(ahead)} of {len(own)} by more than chance explains"
        words += f", behind in {len(behind)}"
        words += f"; its mean is below that of {joined([*lower])}" if lower else ""
        told.append(words)
    missing = [TITLES[graph] for graph in ASKED["graphs"] if graph not in graphs]
    rest = f" {joined(missing)} are still to be tested." if missing else ""
    unsearched = [own for own in FEW["methods"] if own not in {key[2] for key in found}]
    if unsearched:
        titles = joined([method_named(own).title for own in unsearched])
        rest += f" {titles} are not searched yet."
    of = f"{len(found):,} tests so far"
    return f"- **And with rows searched alike?** AUC and AP of CGCL, {of}. {'. '.join(told)}.{rest}"


TABLES: dict[str, Callable[[], str]] = {
    "equal": results_table,
    "equal-differences": differences_table,
    "equal-choices": choices_table,
    "equal-summary": summary,
}


def main() -> None:
    """Run what is missing."""
    parser = run.options(__doc__)
    parser.add_argument("stage", choices=("search", "run"))
    parser.add_argument("--graphs", type=run.listed, default=ASKED["graphs"])
    parser.add_argument("--methods", type=run.listed, default=[*ASKED["methods"]])
    told = parser.parse_args()
    place = {"out": told.out, "data_root": told.data_root}
    jobs = trials if told.stage == "search" else runs
    wanted = jobs(place, told.graphs, told.methods)
    run.run_missing(RESULTS, wanted, work, shown, told, KEY, is_fresh=False)


if __name__ == "__main__":
    main()
