"""Run every method on the citation graphs: with its authors' settings, and tuned.

    python experiments/methods.py tune --workers 2    chooses settings by validation links
    python experiments/methods.py run --workers 2     trains and tests, on every split

What to run stands in methods.toml. A result is one line of JSON in experiments/results/. Results
that are there are not computed again, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import tomllib
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULTS, TUNING = "methods.jsonl", "tuning.jsonl"
KINDS = ("authors", "tuned")

Job = dict[str, Any]
Result = dict[str, Any]


def names(experiment: dict[str, Any]) -> list[str]:
    """Return the methods of an experiment: all there are, unless it says which."""
    from cgcl.methods.table import METHODS

    return list(experiment.get("methods", METHODS))


def caps_of(experiment: dict[str, Any], method: str, graph: str) -> dict[str, Any]:
    """Return what is cut down for a method on a graph."""
    return dict(experiment.get("caps", {}).get(method, {}).get(graph, {}))


def studies(experiment: dict[str, Any]) -> Iterator[Job]:
    """Yield every search for settings, the slow ones first."""
    from cgcl.methods.table import method_named

    tuning = experiment["tuning"]
    for graph in reversed(experiment["graphs"]):
        for method in names(experiment):
            if not method_named(method).search:
                continue
            yield {
                "graph": graph,
                "method": method,
                "trials": tuning["fewer"].get(method, {}).get(graph, tuning["trials"]),
                "split": tuning["split"],
                "fixed": caps_of(experiment, method, graph),
            }


def runs(experiment: dict[str, Any], tuned: dict[tuple[str, str], dict[str, Any]]) -> Iterator[Job]:
    """Yield every run, split by split; those with settings that are still to be found are not."""
    from cgcl.methods.table import method_named

    for seed in experiment["splits"]:
        for graph in reversed(experiment["graphs"]):
            for method in names(experiment):
                caps = caps_of(experiment, method, graph)
                known = method_named(method)
                settings = {"authors": {**known.authors_settings(graph), **caps}}
                if (graph, method) in tuned:
                    settings["tuned"] = tuned[graph, method]
                for kind, chosen in settings.items():
                    yield {
                        "graph": graph,
                        "method": method,
                        "kind": kind,
                        "seed": seed,
                        "settings": chosen,
                    }


def tune_once(job: Job, place: dict[str, Any]) -> Result | None:
    """Search for the settings of one method on one graph; None if time ran out."""
    import cgcl
    from cgcl.experiments.search import tune
    from cgcl.split import random_split
    from cgcl.train.config import Resources, SplitConfig

    remaining = place["deadline"] - time.time()
    if remaining <= 0:
        return None
    graph = cgcl.read(job["graph"], data_root=place["data_root"])
    shares = SplitConfig()
    found = tune(
        graph,
        random_split(graph, shares.val, shares.test, job["split"]),
        job["method"],
        job["trials"],
        resources=Resources(
            device=place["device"], threads=place["threads"], time_limit=f"{remaining:.0f}s"
        ),
        folder=Path(place["out"]) / "studies" / f"{job['graph']}-{job['method']}",
        fixed=job["fixed"],
    )
    if found.stopped not in (None, "all tried"):
        return None
    return {
        **job,
        "trials": len(found.trials),
        "failed": sum(trial.has_failed for trial in found.trials),
        "val": {"auc": found.best.auc, "ap": found.best.ap},
        "origin": found.best.origin,
        "settings": found.settings,
        "values": [trial.auc for trial in found.trials],
        "fingerprint": graph.fingerprint,
        **where(place),
    }


def run_once(job: Job, place: dict[str, Any]) -> Result | None:
    """Train and test once; None if time ran out."""
    import cgcl
    from cgcl.errors import CGCLError
    from cgcl.split import random_split
    from cgcl.train.config import Resources
    from cgcl.train.once import train_once
    from cgcl.train.recipe import Recipe

    if time.time() >= place["deadline"]:
        return None
    graph = cgcl.read(job["graph"], data_root=place["data_root"])
    recipe = Recipe.of(job["method"], {**job["settings"], "seed": job["seed"]})
    split = random_split(graph, recipe.split.val, recipe.split.test, job["seed"])
    resources = Resources(device=place["device"], threads=place["threads"])
    line = {key: job[key] for key in ("graph", "method", "kind", "seed")} | {
        "settings": recipe.settings.to_json(),
        "caps": recipe.settings.caps,
        **where(place),
    }
    try:
        trained = train_once(graph, split, recipe, resources)
    except (CGCLError, RuntimeError, MemoryError) as error:
        return {**line, "failure": f"{type(error).__name__}: {error}"}
    return {
        **line,
        "val": trained.val,
        "test": trained.test,
        "best_epoch": trained.best_epoch,
        "stopped": trained.stopped.reason if trained.stopped else None,
        "seconds": round(trained.seconds, 2),
        "parameters": trained.parameters,
        "links": split.sizes,
        "fingerprint": graph.fingerprint,
        "split": split.fingerprint,
    }


def where(place: dict[str, Any]) -> dict[str, Any]:
    """Return what decides the last bits of a result: the device, threads and versions."""
    import torch

    from cgcl.train.execution import versions

    cuda = torch.cuda.is_available() and place["device"] != "cpu"
    kept = ("cgcl", "python", "torch", "numpy")
    return {
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "threads": place["threads"],
        "versions": {name: versions()[name] for name in kept},
    }


def side_by_side(
    work: Callable[[Job, dict[str, Any]], Result | None],
    todo: list[Job],
    place: dict[str, Any],
    workers: int,
) -> Iterator[Result]:
    """Yield results as they come; nothing new is begun after the deadline.

    Every job has a process of its own, so that one that breaks its device breaks no other. A job
    that dies is tried once more: its neighbour on the device may have been the culprit.
    """
    spawn = multiprocessing.get_context("spawn")
    waiting, tried = deque(todo), Counter[int]()
    with ProcessPoolExecutor(workers, mp_context=spawn, max_tasks_per_child=1) as pool:
        running: dict[Future[Result | None], Job] = {}
        while True:
            while waiting and len(running) < workers and time.time() < place["deadline"]:
                job = waiting.popleft()
                running[pool.submit(work, job, place)] = job
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                error = future.exception()
                if error is not None:
                    print(f"{job['graph']}, {job['method']}: {error!r}"[:200], flush=True)
                    tried[id(job)] += 1
                    if tried[id(job)] < 2:
                        waiting.append(job)
                    continue
                result = future.result()
                if result is not None:
                    yield result


def lines_of(path: Path) -> list[Result]:
    """Return the results that are there."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def shown(result: Result) -> str:
    """Return a result in a line."""
    head = f"{result['graph']}, {result['method']}"
    if "values" in result:
        return f"{head}: {result['trials']} trials, validation AUC {result['val']['auc']:.4f}"
    head = f"{head}, {result['kind']}, split {result['seed']}"
    if "failure" in result:
        return f"{head}: failed, {result['failure']}"
    test = result["test"]
    return f"{head}: AUC {test['auc']:.4f} AP {test['ap']:.4f}, {result['seconds']:.0f} s"


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=["tune", "run"])
    parser.add_argument("--experiment", type=Path, default=HERE / "methods.toml")
    parser.add_argument("--methods", help="only these, separated by commas")
    parser.add_argument("--graphs", help="only these, separated by commas")
    parser.add_argument("--splits", type=int, help="only the first so many")
    parser.add_argument("--kinds", default=",".join(KINDS), help="authors, tuned or both")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing new after this")
    parser.add_argument("--data-root")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    chosen = parser.parse_args()
    experiment = tomllib.loads(chosen.experiment.read_text(encoding="utf-8"))
    if chosen.methods:
        experiment["methods"] = chosen.methods.split(",")
    if chosen.graphs:
        experiment["graphs"] = chosen.graphs.split(",")
    experiment["splits"] = experiment["splits"][: chosen.splits]
    place = {
        "device": chosen.device,
        "threads": chosen.threads,
        "data_root": chosen.data_root,
        "out": str(chosen.out),
        "deadline": time.time() + chosen.seconds,
    }
    chosen.out.mkdir(parents=True, exist_ok=True)
    tuned = {(r["graph"], r["method"]): r["settings"] for r in lines_of(chosen.out / TUNING)}
    if chosen.what == "tune":
        path, keys, work = chosen.out / TUNING, ("graph", "method"), tune_once
        jobs = list(studies(experiment))
    else:
        path, keys, work = chosen.out / RESULTS, ("graph", "method", "kind", "seed"), run_once
        kinds = chosen.kinds.split(",")
        jobs = [job for job in runs(experiment, tuned) if job["kind"] in kinds]
    have = {tuple(line[key] for key in keys) for line in lines_of(path) if "failure" not in line}
    todo = [job for job in jobs if tuple(job[key] for key in keys) not in have]
    with path.open("a", encoding="utf-8") as file:
        for number, result in enumerate(side_by_side(work, todo, place, chosen.workers), start=1):
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(f"{number}/{len(todo)} {shown(result)}", flush=True)


if __name__ == "__main__":
    main()
