"""Run an experiment file: every variant on every graph with every seed, results as data.

    python experiments/run.py experiments/presets.toml --threads 2

And what the other scripts have in common: options, the log of results, and parts of tables. A
result is one line of JSON in experiments/results/. What is there is not computed again, so an
interrupted call goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import tomllib
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeVar

import cgcl
from cgcl.errors import CGCLError
from cgcl.experiments.log import AppendOnlyLog, read_log
from cgcl.experiments.statistics import Difference, corrected, paired_difference, spread_of
from cgcl.experiments.study import graph_titles, read_data
from cgcl.experiments.tables import markdown_table
from cgcl.graph import Graph
from cgcl.methods.settings import PRESETS
from cgcl.split import Split, random_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.execution import machine, resolve_device, versions
from cgcl.train.fit import Fitted, fit

ROOT = Path(__file__).parents[1]
HERE = ROOT / "experiments"
RESULTS = HERE / "results"
TITLES = graph_titles()
KEY = ("graph", "variant", "seed")
# What is told of a result while others are made.
SHOWN = ("node_mrr", "precision@100", "precision@1000", "heart_mrr")
SHOWN += ("hits@50", "hits@100", "auc", "ap")

Line = dict[str, Any]
"""A job, its result, or what every job is told."""
Key = tuple[Any, ...]
K = TypeVar("K")


def described(name: str) -> Line:
    """Return what an experiment's file says."""
    return read_data(name, HERE)


def results_of(name: str, needed: Sequence[str] = (), folder: Path = RESULTS) -> list[Line]:
    """Return all results of a kind: those of an older file that is one list, then the log's."""
    older = folder / f"{name}.json"
    found = json.loads(older.read_text(encoding="utf-8")) if older.exists() else []
    return [*found, *read_log(folder / f"{name}.jsonl", needed)]


def sound(name: str, folder: Path = RESULTS) -> list[Line]:
    """Return the results of a kind that are no failure."""
    return [line for line in results_of(name, folder=folder) if "failure" not in line]


def key_of(line: Line, names: Sequence[str]) -> Key:
    """Return what tells one run from another."""
    return tuple(line[name] for name in names)


def latest(lines: Iterable[Line], *names: str) -> dict[Key, Line]:
    """Return the last line for each combination of these fields."""
    return {key_of(line, names): line for line in lines}


def grouped(lines: Iterable[Line], *names: str) -> dict[Key, list[Line]]:
    """Return the lines by these fields, in their order."""
    found: dict[Key, list[Line]] = defaultdict(list)
    for line in lines:
        found[key_of(line, names)].append(line)
    return found


def runs_of(stage: str, *names: str, folder: Path = RESULTS) -> dict[Key, list[Line]]:
    """Return the runs of a stage in some logs by graph and name, in the order of seeds.

    Of two lines about the same run the later one counts.
    """
    lines = [x for name in names for x in sound(name, folder) if x["stage"] == stage]
    last = latest(lines, "graph", "name", "seed")
    return grouped((last[key] for key in sorted(last)), "graph", "name")


def paired(*sides: Iterable[Line]) -> list[list[Line]]:
    """Return of each side the runs with the seeds that all sides have, in their order."""
    of = [{line["seed"]: line for line in side} for side in sides]
    seeds = sorted(set.intersection(*map(set, of)))
    return [[own[seed] for seed in seeds] for own in of]


def percent(lines: Iterable[Line], metric: str, part: str = "test") -> list[float]:
    """Return a metric of each result that has it, in percent."""
    return [100 * line[part][metric] for line in lines if metric in (line[part] or {})]


def apart(ours: Iterable[Line], theirs: Iterable[Line], metric: str) -> Difference | None:
    """Return ours minus theirs over the splits that both have, None if there are none."""
    sides = ([line for line in own if metric in line["test"]] for own in (ours, theirs))
    both = paired(*sides)
    if not both[0]:
        return None
    links = both[0][0]["links"]
    values = (percent(lines, metric) for lines in both)
    return paired_difference(*values, overlap=links["test"] / links["train"])


def tested(differences: Mapping[K, Difference | None]) -> dict[K, Difference]:
    """Return the differences that there are, with p-values that allow for their number."""
    there = {key: own for key, own in differences.items() if own is not None}
    return dict(zip(there, corrected([*there.values()]), strict=True))


def mean_sd(values: Sequence[float], digits: int = 2, sign: str = "") -> str:
    """Return mean and, of several values, standard deviation as text; of no values nothing."""
    if not values:
        return ""
    spread = spread_of(values)
    mean = f"{spread.mean:{sign}.{digits}f}"
    return mean if spread.sd is None else f"{mean} ± {spread.sd:.{digits}f}"


def table(head: str, rows: Iterable[Sequence[str]], *notes: str) -> str:
    """Return a table of a page.

    Args:
        head: The titles of the columns, with bars between them.
        rows: A cell for each column.
        notes: Lines below it.
    """
    return "\n".join([markdown_table(head.split(" | "), rows), *(["", *notes] if notes else ())])


def options(doc: str | None, threads: int = 1) -> argparse.ArgumentParser:
    """Return a parser for what every script can be told."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=threads)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing after so long")
    parser.add_argument("--data-root")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the results")
    return parser


def listed(text: str) -> list[str]:
    """Return the parts of a list with commas."""
    return [part for part in text.split(",") if part]


def stamp(place: Line, method: str) -> Line:
    """Return what decides a result besides settings: device, threads, versions of all in use."""
    resources = Resources(device=place["device"], threads=place["threads"])
    found = versions(method)
    own = {name: found[name] for name in ("cgcl", "python", "torch", "numpy", "numbers")}
    return {**machine(resources, resolve_device(resources)), "versions": own}


def trained_once(
    line: Line,
    graph: Graph,
    split: Split,
    recipe: RunConfig,
    place: Line,
    engine: Literal["auto", "plain"] = "auto",
    **how: Any,  # noqa: ANN401
) -> tuple[Line, Fitted | None]:
    """Train and test once; return the line with what came out, and the model if it went well.

    Args:
        line: What is known before.
        graph: As for `fit`.
        split: As for `fit`.
        recipe: As for `fit`.
        place: Where to compute.
        engine: What trains.
        how: What else `fit` is told.
    """
    line = {**line, **stamp(place, recipe.name), "links": split.sizes, "split": split.fingerprint}
    line |= {"fingerprint": graph.fingerprint}
    resources = Resources(device=place["device"], threads=place["threads"], engine=engine)
    try:
        trained = fit(graph, split, recipe, resources, **how)
    except (CGCLError, RuntimeError, MemoryError) as error:
        return {**line, "failure": f"{type(error).__name__}: {error}"[:500]}, None
    line |= {"val": trained.val, "test": trained.test, "best_epoch": trained.best_epoch}
    line |= {"stopped": trained.stopped.reason if trained.stopped else None}
    line |= {"seconds": round(trained.seconds, 2), "parameters": trained.parameters}
    return line, trained


def run_missing(
    name: str,
    jobs: Iterable[Line],
    work: Callable[[Line, Line], Line | None],
    shown: Callable[[Line], str],
    chosen: argparse.Namespace,
    key: Sequence[str] = (),
    *,
    is_fresh: bool = True,
    **told: Any,  # noqa: ANN401
) -> None:
    """Make the results that are missing in a log, and tell of each.

    Args:
        name: Of the log.
        jobs: What is asked for.
        work: Makes one result, in another process; None if there is nothing to keep.
        shown: A result in a line.
        chosen: The options, which `work` is told besides its job.
        key: What tells one run from another; a job with a result is left out. Empty if `work`
            decides itself.
        is_fresh: Every job has a process of its own: one that breaks its device breaks no other.
        told: What `work` is told besides.
    """
    place = {name: getattr(chosen, name) for name in ("device", "threads", "data_root", "out")}
    place |= {"deadline": time.time() + chosen.seconds, **told}
    lines = results_of(name, key, chosen.out) if key else []
    done = {key_of(line, key) for line in lines if "failure" not in line}
    todo = [job for job in jobs if key_of(job, key) not in done or not key]
    chosen.out.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    most = 1 if is_fresh else None
    with (
        AppendOnlyLog(chosen.out / f"{name}.jsonl") as log,
        ProcessPoolExecutor(chosen.workers, mp_context=spawn, max_tasks_per_child=most) as pool,
    ):
        results = _side_by_side(todo, partial(pool.submit, work), place, chosen.workers)
        for number, result in enumerate(results, start=1):
            log.append(json.dumps(result).encode() + b"\n")
            print(f"{number}/{len(todo)} {shown(result)}", flush=True)


def _side_by_side(
    jobs: Iterable[Line], submit: Callable[..., Future[Line | None]], place: Line, workers: int
) -> Iterator[Line]:
    """Yield results as they come; nothing new is begun after the deadline.

    A job that dies is tried once more: its neighbour on the device may have been the culprit.
    """
    waiting = deque((job, True) for job in jobs)
    running: dict[Future[Line | None], tuple[Line, bool]] = {}
    while running or (waiting and time.time() < place["deadline"]):
        while waiting and len(running) < workers and time.time() < place["deadline"]:
            job, is_first = waiting.popleft()
            running[submit(job, place)] = (job, is_first)
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            (job, is_first), error = running.pop(future), future.exception()
            if error is not None:
                print(f"{job}: {error!r}"[:300])
                if is_first:
                    waiting.append((job, False))
            elif (result := future.result()) is not None:
                yield result


def jobs_of(experiment: Line) -> list[Line]:
    """List what an experiment asks for: each run with the settings of its preset and its own."""
    jobs: list[Line] = []
    variants = experiment["variants"].items()
    for seed, graph, (name, told) in product(experiment["seeds"], experiment["graphs"], variants):
        own = dict(told)
        preset = PRESETS[own.pop("preset", experiment.get("preset", "quick"))]
        job = {"graph": graph, "variant": name, "seed": seed}
        jobs.append({**job, "settings": {**preset, **own, "seed": seed}})
    return jobs


def run(job: Line, place: Line) -> Line:
    """Train and test once, on the split of the same seed."""
    graph = cgcl.read(job["graph"], data_root=place["data_root"])
    recipe = RunConfig.of(job.get("method", "cgcl"), {**job["settings"], "seed": job["seed"]})
    split = random_split(graph, recipe.split.val, recipe.split.test, job["seed"])
    about = {"settings": recipe.settings.to_json(), "caps": recipe.settings.caps}
    return trained_once({**job, **about}, graph, split, recipe, place)[0]


def shown(result: Line) -> str:
    """Return a result in a line."""
    names = ("stage", "graph", "method", "kind", "variant", "name")
    head = ", ".join(dict.fromkeys(result[name] for name in names if name in result))
    head += f", {'' if result.get('features', True) else 'no features, '}seed {result['seed']}"
    if "failure" in result:
        return f"{head}: failed, {result['failure']}"
    found = result["test"] or result["val"]
    figures = (f"{name} {100 * found[name]:.2f}" for name in SHOWN if name in found)
    return (
        f"{head}: {'  '.join(figures)}  (epoch {result['best_epoch']}, {result['seconds']:.0f} s)"
    )


def complete(name: str) -> tuple[Line, dict[Key, list[Line]]]:
    """Return an experiment and its results by graph and variant, if they are what it asks for."""
    experiment = described(name)
    results = sorted(sound(name), key=lambda line: line["seed"])
    found, asked = (sorted(key_of(x, KEY) for x in own) for own in (results, jobs_of(experiment)))
    if found != asked:
        raise SystemExit(f"{name}: the results are not those that the experiment asks for")
    return experiment, grouped(results, "graph", "variant")


def presets_table() -> str:
    """Both presets on Cora, a row per split."""
    experiment, of = complete("presets")
    runs = {variant: of["cora", variant] for variant in ("quick", "paper")}
    columns = [percent(own, metric) for own in runs.values() for metric in ("auc", "ap")]
    rows = [
        [f"seed {seed}", *(f"{value:.2f}" for value in values)]
        for seed, *values in zip(experiment["seeds"], *columns, strict=True)
    ]
    published = [f"{mean:.2f} ± {sd:.2f}" for mean, sd in experiment["published"].values()]
    rows += [["**mean ± sd**", *map(mean_sd, columns)], ["the paper's Table I | |", *published]]
    one = runs["quick"][0]
    return table(
        "split | quick AUC | quick AP | paper AUC | paper AP",
        rows,
        f"On {one['device']}, {one['threads']} threads, torch {one['versions']['torch']}. Another "
        "number of threads rounds otherwise, and that moves single runs.",
    )


def readings_table() -> str:
    """What each reading changes, as paired differences over the same splits."""
    experiment, of = complete("readings")
    columns = [*product(experiment["graphs"], ("auc", "ap"))]
    base = {place: percent(of[place[0], "base"], place[1]) for place in columns}
    rows = [["`paper` preset", *map(mean_sd, base.values())]]
    for variant in [name for name in experiment["variants"] if name != "base"]:
        values = (zip(percent(of[g, variant], m), base[g, m], strict=True) for g, m in columns)
        rows.append([variant, *(mean_sd([a - b for a, b in own], sign="+") for own in values)])
    head = " | ".join(f"{graph} {metric.upper()}" for graph, metric in columns)
    runs = [run for own in of.values() for run in own]
    devices = sorted({f"{run['device']}, torch {run['versions']['torch']}" for run in runs})
    splits = len(experiment["seeds"])
    return table(f"reading | {head}", rows, f"{splits} splits; {'; '.join(devices)}.")


TABLES: dict[str, Callable[[], str]] = {"presets": presets_table, "readings": readings_table}


def main() -> None:
    """Run what is missing."""
    parser = options(__doc__, threads=2)
    parser.add_argument("experiment", type=Path)
    chosen = parser.parse_args()
    experiment = tomllib.loads(chosen.experiment.read_text())
    run_missing(chosen.experiment.stem, jobs_of(experiment), run, shown, chosen, KEY)


if __name__ == "__main__":
    main()
