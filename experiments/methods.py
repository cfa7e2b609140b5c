"""Run every method on the citation graphs: with its authors' settings, and tuned.

    python experiments/methods.py tune --workers 2    chooses settings by validation links
    python experiments/methods.py run --workers 2     trains and tests, on every split

What to run stands in methods.toml. A result is one line of JSON in experiments/results/. Results
that are there are not computed again, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from script import Job, Result, listed, options, results_of, run_missing, stamp

HERE = Path(__file__).parent
RESULTS, TUNING = "methods", "tuning"
KINDS = ("authors", "tuned")


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
        **stamp(place),
    }


def run_once(job: Job, place: dict[str, Any]) -> Result | None:
    """Train and test once; None if time ran out."""
    import cgcl
    from cgcl.errors import CGCLError
    from cgcl.split import random_split
    from cgcl.train.config import Recipe, Resources
    from cgcl.train.fit import fit

    if time.time() >= place["deadline"]:
        return None
    graph = cgcl.read(job["graph"], data_root=place["data_root"])
    recipe = Recipe.of(job["method"], {**job["settings"], "seed": job["seed"]})
    split = random_split(graph, recipe.split.val, recipe.split.test, job["seed"])
    resources = Resources(device=place["device"], threads=place["threads"])
    line = {key: job[key] for key in ("graph", "method", "kind", "seed")} | {
        "settings": recipe.settings.to_json(),
        "caps": recipe.settings.caps,
        **stamp(place),
    }
    try:
        trained = fit(graph, split, recipe, resources)
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
    parser = options(__doc__)
    parser.add_argument("what", choices=["tune", "run"])
    parser.add_argument("--experiment", type=Path, default=HERE / "methods.toml")
    parser.add_argument("--methods", help="only these, separated by commas")
    parser.add_argument("--graphs", help="only these, separated by commas")
    parser.add_argument("--splits", type=int, help="only the first so many")
    parser.add_argument("--kinds", default=",".join(KINDS), help="authors, tuned or both")
    chosen = parser.parse_args()
    experiment = tomllib.loads(chosen.experiment.read_text(encoding="utf-8"))
    for name in ("methods", "graphs"):
        if getattr(chosen, name):
            experiment[name] = listed(getattr(chosen, name))
    experiment["splits"] = experiment["splits"][: chosen.splits]
    if chosen.what == "tune":
        run_missing(TUNING, studies(experiment), tune_once, shown, chosen, ("graph", "method"))
        return
    found = results_of(TUNING, ("graph", "method", "settings"), chosen.out)
    tuned = {(line["graph"], line["method"]): line["settings"] for line in found}
    jobs = [job for job in runs(experiment, tuned) if job["kind"] in listed(chosen.kinds)]
    run_missing(RESULTS, jobs, run_once, shown, chosen, ("graph", "method", "kind", "seed"))


if __name__ == "__main__":
    main()
