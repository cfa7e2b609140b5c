"""Measure the top of the list: search, ablation, rows, test, without features, by either engine.

    python experiments/ranking.py search --device cuda
    python experiments/ranking.py run --methods cgcl-rank,cgcl --device cuda
    python experiments/ranking.py run --methods adamic-adar --workers 2
    python experiments/ranking.py quick --threads 2
    python experiments/ranking.py negatives --device cuda
    python experiments/ranking.py readable --device cuda
    python experiments/ranking.py heart-search --device cuda --data-root FOLDER, then heart
    python experiments/ranking.py hits100-search --device cuda, then hits100

What to run stands in ranking.toml, for the last two lines in harder.toml. A result is one line of
JSON in experiments/results/; what is there with the same settings is not computed again, so an
interrupted call goes on where it stopped. Of two lines about the same run the later one counts.
"""

from __future__ import annotations

import math
import sys
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import harder
from script import Job, Result, key_of, listed, options, place_of, results_of, run_missing, stamp

HERE = Path(__file__).parent
RESULTS, SEARCH = "ranking", "ranking_search"
OURS = "cgcl-rank"
# These look at validation links only.
BLIND = ("search", "ablation", "negatives", *harder.GOALS)
# These take the readable path: the first is `run` once more, and what is compared in the second is
# to differ in its rows alone.
READABLE = ("readable", "negatives")
KEY = ("stage", "graph", "features", "name", "seed")


def jobs_of(experiment: dict[str, Any], stage: str) -> Iterator[Job]:
    """Yield the runs of a stage, the first split of all first."""
    told = experiment[stage]
    if stage in BLIND:
        for part in told.values():
            for graph, seeds in part["seeds"].items():
                for seed in seeds:
                    for name, changed in part["variants"].items():
                        settings = {"preset": "best", **part.get("base", {}), **changed}
                        job = _job(stage, graph, OURS, name, seed, settings)
                        yield {**job, "features": part.get("features", True)}
        return
    for seed in range(max(told["splits"].values())):
        for graph in told["graphs"]:
            for method, splits in told["splits"].items():
                most = min(splits, told.get("most", {}).get(graph, splits))
                if seed < most and graph in told.get("only", {}).get(method, told["graphs"]):
                    settings = _settings(stage, graph, method)
                    settings |= told.get("settings", {}).get(method, {})
                    yield _job(stage, graph, method, method, seed, settings)


def _job(
    stage: str, graph: str, method: str, name: str, seed: int, settings: dict[str, Any]
) -> Job:
    values = {"graph": graph, "method": method, "name": name, "seed": seed, "settings": settings}
    return {"stage": stage, "features": stage != "bare", **values}


def _settings(stage: str, graph: str, method: str) -> dict[str, Any]:
    """Return what a method is told: for Table I's rows what Table I tells them."""
    if method == OURS:
        return {"preset": "quick" if stage == "quick" else "best"}
    folder = HERE / "reproduce"
    rows = tomllib.loads((folder / "table1.toml").read_text(encoding="utf-8"))["rows"]
    row = rows.get(method)
    if row is None:
        return {}
    chosen = tomllib.loads((folder / "chosen.toml").read_text(encoding="utf-8"))
    own = row.get("on", {}).get(graph, {})
    names = [*row.get("chosen", ()), *own.get("chosen", ())]
    found = chosen.get(f"{method}-{graph}-10", {})
    return {**row.get("settings", {}), **own.get("settings", {}), **{n: found[n] for n in names}}


def run_once(job: Job, place: dict[str, Any]) -> Result | None:
    """Train once and measure; None if that was done before, or time ran out."""
    from dataclasses import replace

    from cgcl.errors import CGCLError
    from cgcl.split import random_split
    from cgcl.train.config import Resources
    from cgcl.train.fit import fit
    from cgcl.train.top_of_list import ranking_metrics

    if time.time() >= place["deadline"]:
        return None
    graph = _read(job["graph"], place["data_root"])
    if not job["features"]:
        graph = replace(graph, x=None, feature_names=())
    if job["settings"].get("normalised"):
        graph = harder.normalised(graph)
    is_harder = job["stage"] in harder.STAGES
    if is_harder:
        split = harder.split_of(job, graph, place["data_root"])
    else:
        split = random_split(graph, 0.05, 0.10, job["seed"])
    recipe = _recipe(job, graph)
    # A setting that a line does not know of had its default then.
    default, have = type(recipe.settings)().to_json(), place["have"].get(key_of(job, KEY))
    if have is not None and recipe.settings.to_json() == {**default, **have}:
        return None
    line: Result = {**job, "settings": recipe.settings.to_json(), **stamp(place)}
    line |= {"nodes": graph.num_nodes, "links": split.sizes}
    line |= {"fingerprint": graph.fingerprint, "split": split.fingerprint}
    engine = "plain" if job["stage"] in READABLE else "auto"
    resources = Resources(device=place["device"], threads=place["threads"], engine=engine)
    is_blind = job["stage"] in BLIND
    try:
        trained = fit(
            graph,
            split,
            recipe,
            resources,
            measure_test=not is_blind,
            top_of_list=not is_harder,
        )
    except (CGCLError, RuntimeError, MemoryError) as error:
        return {**line, "failure": f"{type(error).__name__}: {error}"[:500]}
    val, test = dict(trained.val or {}), dict(trained.test or {})
    sampled = trained.test_sampled
    if is_harder:
        val, test = harder.measured(job, trained, split, place["data_root"])
    elif is_blind:
        # Test links are pairs like any other here.
        val = ranking_metrics(trained.scorer(split.train), split, "val").metrics | val
    elif "precision@1000" not in test:
        # Nobody waits here: all pairs, whatever it takes.
        scorer = trained.scorer(split.train)
        test, sampled = test | ranking_metrics(scorer, split, budget=math.inf).metrics, None
    return {
        **line,
        "val": val,
        "test": test,
        "sampled": sampled,
        "best_epoch": trained.best_epoch,
        "stopped": trained.stopped.reason if trained.stopped else None,
        "seconds": round(trained.seconds, 2),
        "parameters": trained.parameters,
    }


@cache
def _read(name: str, data_root: str | None) -> Any:  # noqa: ANN401
    import cgcl

    return cgcl.read(name, data_root=data_root)


def _recipe(job: Job, graph: Any) -> Any:  # noqa: ANN401 - torch is not imported up here
    from cgcl.methods.settings import TrainedSettings
    from cgcl.methods.table import method_named
    from cgcl.train.config import Recipe

    method, told = method_named(job["method"]), dict(job["settings"])
    times = told.pop("epochs_times", 1.0)
    told.pop("normalised", None)  # said of the graph, not of the method
    if issubclass(method.settings, TrainedSettings):
        told.setdefault("choose_by", harder.choose_by(job["stage"]))
    if job["method"] != OURS:
        told = {**method.authors_settings(job["graph"]), **told}
    recipe = Recipe.for_graph(job["method"], {**told, "seed": job["seed"]}, graph)
    if times == 1:
        return recipe
    told["epochs"] = round(times * recipe.epochs)
    return Recipe.for_graph(job["method"], {**told, "seed": job["seed"]}, graph)


def shown(result: Result) -> str:
    """Return a result in a line."""
    head = ", ".join(str(result[name]) for name in KEY if name != "features")
    head += "" if result["features"] else ", no features"
    if "CUDA error" in result.get("failure", ""):
        # Nothing runs after such an error in the same process.
        sys.exit(f"{head}: failed, {result['failure']}")
    if "failure" in result:
        return f"{head}: failed, {result['failure']}"
    found = result["test"] or result["val"]
    wanted = (
        "node_mrr",
        "precision@100",
        "precision@1000",
        "heart_mrr",
        "hits@50",
        "hits@100",
        "auc",
    )
    figures = "  ".join(f"{name} {100 * found[name]:.2f}" for name in wanted if name in found)
    return f"{head}: {figures}  (epoch {result['best_epoch']}, {result['seconds']:.0f} s)"


def main() -> None:
    """Run what is missing."""
    parser = options(__doc__)
    stages = ["search", "ablation", *READABLE, "run", "bare", "first", "quick"]
    parser.add_argument("stage", choices=[*stages, *harder.STAGES])
    parser.add_argument("--methods", default="", help="only these, with commas")
    parser.add_argument("--graphs", default="", help="only these, with commas")
    chosen = parser.parse_args()
    is_harder = chosen.stage in harder.STAGES
    told = (HERE / ("harder.toml" if is_harder else "ranking.toml")).read_text(encoding="utf-8")
    home = harder if is_harder else sys.modules[__name__]
    log = home.SEARCH if chosen.stage in BLIND else home.RESULTS
    lines = results_of(log, (*KEY, "settings"), chosen.out)
    have = {key_of(line, KEY): line["settings"] for line in lines if "failure" not in line}
    methods, graphs = listed(chosen.methods), listed(chosen.graphs)
    experiment = tomllib.loads(told)
    todo = [
        job
        for job in jobs_of(experiment, chosen.stage)
        if (not methods or job["method"] in methods) and (not graphs or job["graph"] in graphs)
    ]
    if chosen.stage in harder.SEARCHES:
        todo = [
            harder.with_winner(job, experiment, chosen.out) if job["method"] == OURS else job
            for job in todo
        ]
    failed = {key_of(line, KEY) for line in lines} - have.keys()
    todo.sort(key=lambda job: key_of(job, KEY) in failed)
    place = {**place_of(chosen), "have": have}
    # What is there with the same settings is left out by `run_once`, which knows them.
    run_missing(log, todo, run_once, shown, chosen, place=place, is_fresh=False)


if __name__ == "__main__":
    main()
