"""Run an experiment file: every variant on every graph with every seed, results as data.

    python experiments/run.py experiments/presets.toml --threads 2

A result is one line of JSON in experiments/results/. Results that are there are not computed
again, so an interrupted run goes on where it stopped.
"""

from __future__ import annotations

import time
import tomllib
from pathlib import Path
from typing import Any

from script import Job, Result, Where, options, run_missing, stamp

KEY = ("graph", "variant", "seed")


def jobs(experiment: dict[str, Any]) -> list[Job]:
    """List what an experiment asks for, one run each."""
    return [
        {
            "graph": graph,
            "variant": variant,
            "seed": seed,
            "settings": settings_of(own, seed, experiment),
        }
        for seed in experiment["seeds"]
        for graph in experiment["graphs"]
        for variant, own in experiment["variants"].items()
    ]


def settings_of(own: dict[str, Any], seed: int, experiment: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of one run: its preset's, then its own."""
    from cgcl.methods.cgcl_settings import PRESETS

    own = dict(own)
    preset = own.pop("preset", experiment.get("preset", "quick"))
    return {**PRESETS[preset], **own, "seed": seed}


def run(job: Job, place: Where) -> Result:
    """Train and test once."""
    import cgcl

    graph = cgcl.read(job["graph"], data_root=place["data_root"])
    start = time.perf_counter()
    predictor = cgcl.LinkPredictor(
        "cgcl", **job["settings"], device=place["device"], threads=place["threads"]
    ).fit(graph)
    return {
        **job,
        "val": predictor.val_,
        "test": predictor.test_,
        "best_epoch": predictor.best_epoch_,
        "stopped": predictor.stopped_.reason if predictor.stopped_ else None,
        "seconds": round(time.perf_counter() - start, 2),
        "fingerprint": graph.fingerprint,
        **stamp(place),
    }


def shown(result: Result) -> str:
    """Return a result in a line."""
    figures = f"AUC {result['test']['auc']:.4f} AP {result['test']['ap']:.4f}"
    head = f"{result['graph']}, {result['variant']}, seed {result['seed']}"
    return f"{head}: {figures}, {result['seconds']:.0f} s"


def main() -> None:
    """Run what is missing."""
    parser = options(__doc__, threads=2)
    parser.add_argument("experiment", type=Path)
    chosen = parser.parse_args()
    experiment = tomllib.loads(chosen.experiment.read_text())
    run_missing(chosen.experiment.stem, jobs(experiment), run, shown, chosen, KEY)


if __name__ == "__main__":
    main()
