"""Measure the top of the list: search, ablation, test, without features, on two cores.

    python experiments/ranking.py search --device cuda
    python experiments/ranking.py run --methods cgcl-rank,cgcl --device cuda
    python experiments/ranking.py run --methods adamic-adar --workers 2
    python experiments/ranking.py quick --threads 2

What to run stands in ranking.toml. A result is one line of JSON in experiments/results/; what is
there is not computed again, so an interrupted call goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

from methods import lines_of, where

HERE = Path(__file__).parent
RESULTS, SEARCH = "ranking.jsonl", "ranking_search.jsonl"
OURS = "cgcl-rank"
# These two look at validation links only.
BLIND = ("search", "ablation")
KEY = ("stage", "graph", "name", "seed")

Job = dict[str, Any]
Result = dict[str, Any]


def jobs_of(experiment: dict[str, Any], stage: str) -> Iterator[Job]:
    """Yield the runs of a stage, the first split of all first."""
    told = experiment[stage]
    if stage in BLIND:
        for seed in told["seeds"]:
            for graph in told["graphs"]:
                for name, changed in told["variants"].items():
                    yield _job(stage, graph, OURS, name, seed, {"preset": "best", **changed})
        return
    for seed in range(max(told["splits"].values())):
        for graph in told["graphs"]:
            for method, splits in told["splits"].items():
                if seed < splits and graph in told.get("only", {}).get(method, told["graphs"]):
                    settings = _settings(stage, graph, method)
                    yield _job(stage, graph, method, method, seed, settings)


def _job(
    stage: str, graph: str, method: str, name: str, seed: int, settings: dict[str, Any]
) -> Job:
    values = {"graph": graph, "method": method, "name": name, "seed": seed, "settings": settings}
    return {"stage": stage, **values}


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
    """Train once and measure; None if time ran out."""
    from dataclasses import replace

    from cgcl.errors import CGCLError
    from cgcl.split import random_split
    from cgcl.train.config import Resources
    from cgcl.train.once import train_once
    from cgcl.train.top_of_list import ranking_metrics

    if time.time() >= place["deadline"]:
        return None
    graph = _read(job["graph"], place["data_root"])
    if job["stage"] == "bare":
        graph = replace(graph, x=None, feature_names=())
    split = random_split(graph, 0.05, 0.10, job["seed"])
    recipe = _recipe(job, graph)
    line: Result = {**job, "settings": recipe.settings.to_json(), **where(place)}
    line |= {"links": split.sizes, "fingerprint": graph.fingerprint, "split": split.fingerprint}
    resources = Resources(device=place["device"], threads=place["threads"])
    is_blind = job["stage"] in BLIND
    try:
        trained = train_once(graph, split, recipe, resources, measure_test=not is_blind)
    except (CGCLError, RuntimeError, MemoryError) as error:
        return {**line, "failure": f"{type(error).__name__}: {error}"[:500]}
    val = dict(trained.val or {})
    if is_blind:
        # Test links are pairs like any other here.
        val = ranking_metrics(trained.scorer(split.train), split, "val").metrics | val
    return {
        **line,
        "val": val,
        "test": trained.test,
        "sampled": trained.test_sampled,
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
    from cgcl.train.recipe import Recipe

    method, told = method_named(job["method"]), dict(job["settings"])
    times = told.pop("epochs_times", 1.0)
    if issubclass(method.settings, TrainedSettings):
        told.setdefault("choose_by", "node_mrr")
    if job["method"] != OURS:
        told = {**method.authors_settings(job["graph"]), **told}
    if told.get("link_columns"):
        told["link_columns"] = min(told["link_columns"], graph.num_nodes)
    recipe = Recipe.for_graph(job["method"], {**told, "seed": job["seed"]}, graph)
    if times == 1:
        return recipe
    told["epochs"] = round(times * recipe.epochs)
    return Recipe.for_graph(job["method"], {**told, "seed": job["seed"]}, graph)


def shown(result: Result) -> str:
    """Return a result in a line."""
    head = ", ".join(str(result[name]) for name in KEY)
    if "failure" in result:
        return f"{head}: failed, {result['failure']}"
    found = result["test"] or result["val"]
    wanted = ("node_mrr", "precision@100", "precision@1000", "auc")
    figures = "  ".join(f"{name} {100 * found[name]:.2f}" for name in wanted if name in found)
    return f"{head}: {figures}  (epoch {result['best_epoch']}, {result['seconds']:.0f} s)"


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("stage", choices=["search", "ablation", "run", "bare", "quick"])
    parser.add_argument("--methods", default="", help="only these, with commas")
    parser.add_argument("--graphs", default="", help="only these, with commas")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="begin nothing after so long")
    parser.add_argument("--data-root", default=None)
    parser.add_argument("--out", type=Path, default=HERE / "results")
    chosen = parser.parse_args()
    experiment = tomllib.loads((HERE / "ranking.toml").read_text(encoding="utf-8"))
    path = chosen.out / (SEARCH if chosen.stage in BLIND else RESULTS)
    have = {tuple(line[k] for k in KEY) for line in lines_of(path) if "failure" not in line}
    methods, graphs = (
        [x for x in text.split(",") if x] for text in (chosen.methods, chosen.graphs)
    )
    todo = [
        job
        for job in jobs_of(experiment, chosen.stage)
        if tuple(job[k] for k in KEY) not in have
        and (not methods or job["method"] in methods)
        and (not graphs or job["graph"] in graphs)
    ]
    place = {
        "device": chosen.device,
        "threads": chosen.threads,
        "data_root": chosen.data_root,
        "deadline": time.time() + chosen.seconds,
    }
    spawn = multiprocessing.get_context("spawn")
    with (
        path.open("a", encoding="utf-8") as file,
        ProcessPoolExecutor(chosen.workers, mp_context=spawn) as pool,
    ):
        found = (
            future.result()
            for future in as_completed([pool.submit(run_once, job, place) for job in todo])
        )
        for number, result in enumerate((r for r in found if r is not None), start=1):
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(f"{number}/{len(todo)} {shown(result)}", flush=True)


if __name__ == "__main__":
    main()
