"""Run an experiment file: every variant on every graph with every seed, results as data.

    python experiments/run.py experiments/presets.toml --threads 2

A result is one line of JSON in experiments/results/. Results that are there are not computed
again, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import tomllib
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def jobs(experiment: dict[str, Any]) -> list[dict[str, Any]]:
    """List what an experiment asks for, one run each."""
    return [
        {"graph": graph, "variant": variant, "seed": seed, "settings": settings}
        for seed in experiment["seeds"]
        for graph in experiment["graphs"]
        for variant, settings in experiment["variants"].items()
    ]


def settings_of(job: dict[str, Any], experiment: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of one run: its preset's, then its own."""
    from cgcl.methods.settings import PRESETS

    own = dict(job["settings"])
    preset = own.pop("preset", experiment.get("preset", "quick"))
    return {**PRESETS[preset], **own, "seed": job["seed"]}


def run(job: dict[str, Any], settings: dict[str, Any], resources: dict[str, Any]) -> dict[str, Any]:
    """Train and test once."""
    import torch

    import cgcl
    from cgcl.train.execution import versions

    graph = cgcl.read(job["graph"], data_root=resources["data_root"])
    start = time.perf_counter()
    predictor = cgcl.LinkPredictor(
        "cgcl", **settings, device=resources["device"], threads=resources["threads"]
    ).fit(graph)
    cuda = torch.cuda.is_available() and resources["device"] != "cpu"
    return {
        "graph": job["graph"],
        "variant": job["variant"],
        "seed": job["seed"],
        "val": predictor.val_,
        "test": predictor.test_,
        "best_epoch": predictor.best_epoch_,
        "stopped": predictor.stopped_.reason if predictor.stopped_ else None,
        "seconds": round(time.perf_counter() - start, 2),
        "device": torch.cuda.get_device_name() if cuda else "cpu",
        "threads": resources["threads"],
        "settings": settings,
        "fingerprint": graph.fingerprint,
        "versions": {name: versions()[name] for name in ("cgcl", "python", "torch", "numpy")},
    }


def _run_packed(packed: tuple[dict[str, Any], dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return run(*packed)


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("experiment", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--data-root")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    experiment = tomllib.loads(chosen.experiment.read_text())
    path = chosen.out / f"{chosen.experiment.stem}.jsonl"
    done = {
        (line["graph"], line["variant"], line["seed"])
        for line in map(json.loads, path.read_text().splitlines() if path.exists() else [])
    }
    resources = {
        "device": chosen.device,
        "threads": chosen.threads,
        "data_root": chosen.data_root,
    }
    todo = [
        (job, settings_of(job, experiment), resources)
        for job in jobs(experiment)
        if (job["graph"], job["variant"], job["seed"]) not in done
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(chosen.workers) as pool, path.open("a") as file:
        for number, result in enumerate(pool.imap_unordered(_run_packed, todo), start=1):
            file.write(json.dumps(result) + "\n")
            file.flush()
            figures = f"AUC {result['test']['auc']:.4f} AP {result['test']['ap']:.4f}"
            print(
                f"{number}/{len(todo)} {result['graph']}, {result['variant']}, seed "
                f"{result['seed']}: {figures}, {result['seconds']:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
