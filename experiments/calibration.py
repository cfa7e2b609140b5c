"""Are the probabilities right? Calibrate on validation links, count test links.

    python experiments/calibration.py --graphs cora,citeseer
    python experiments/calibration.py --device cuda --workers 5 --data-root DATA --seconds 600

For each graph and split of CGCL-rank: the expected calibration error on the test pairs at 1:1; and,
among the best of all pairs that are neither training nor validation links, the number of test links
that the probabilities promise beside the number that is there, and how many different probabilities
are printed. Results are lines of JSON; what is there is not computed again. The tables of
docs/measured.md about this are written here, too.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from statistics import mean
from typing import Any

import numpy as np
import torch
from scipy.stats import chi2
from torch import Tensor

import cgcl
from cgcl.graph import Graph
from cgcl.methods.method import PairScorer
from cgcl.metrics.calibration import Curve, expected_calibration_error, log_loss, probability_of
from cgcl.metrics.calibrators import METHODS
from cgcl.predict.links import decimals, told_apart
from cgcl.predict.query import Query
from cgcl.predict.search import find
from cgcl.split import NegativeSampler, Split, random_split
from cgcl.train.calibrating import calibrate, validation_sample
from cgcl.train.config import Resources, RunConfig
from cgcl.train.fit import fit
from run import Line, grouped, latest, listed, options, results_of, run_missing, stamp, table

GRAPHS = ("cora", "citeseer", "pubmed", "photo", "computers")
METHOD = "cgcl-rank"
TOPS = (100, 1000)
KEY = ("graph", "preset", "seed")
# Constants of the calibration were settled with some of the first splits in view.
SPLITS = {"5-9": range(5, 10), "0-4": range(5)}
# So many times as many links as are found, or as few, may be promised.
MOST_OFF = 1.5


def best_pairs(scorer: PairScorer, graph: Graph, split: Split) -> tuple[Tensor, Tensor]:
    """Return the logits of the best unknown pairs, best first, and which are test links.

    Unknown is every pair that is neither a training nor a validation link.
    """
    links = torch.cat([split.train, split.val], dim=1)
    known = Graph.from_pairs(graph.title, graph.names, links)
    best = find(scorer, known, Query(count=max(TOPS), candidates="exact"))
    pairs, test = (x.amin(0) * split.num_nodes + x.amax(0) for x in (best.pairs, split.test))
    return best.logits.double().cpu(), torch.isin(pairs, test)


def measure(curve: Curve, sets: dict[str, Any], base_rate: float) -> Line:
    """Return what a curve says about the test links, and what is true.

    Args:
        curve: From a logit to a log-likelihood ratio.
        sets: Logits and labels of the test pairs at 1:1 ("even") and of the best pairs ("best").
        base_rate: The share of test links among the unknown pairs.
    """
    (logits, labels), (best, hits) = sets["even"], sets["best"]
    even = probability_of(curve.log_ratio(logits), 0.5)
    said = probability_of(curve.log_ratio(best), base_rate)
    return {
        "ece": expected_calibration_error(even, labels, bins=10),
        "log_loss": log_loss(even, labels),
        "expected": {str(top): float(said[:top].sum()) for top in TOPS},
        "observed": {str(top): int(np.sum(hits[:top])) for top in TOPS},
        "printed": {
            str(top): len(set(told_apart(said[:top].tolist(), decimals))) for top in (10, 100)
        },
    }


def run(job: Line, place: Line) -> Line:
    """Train on one split, calibrate, and measure on its test links."""
    seed = job["seed"]
    graph = cgcl.read(job["graph"], data_root=place["data_root"])
    split = random_split(graph, 0.05, 0.10, seed)
    recipe = RunConfig.for_graph(METHOD, {"preset": job["preset"], "seed": seed}, graph)
    resources = Resources(device=place["device"], threads=place["threads"])
    trained = fit(graph, split, recipe, resources, top_of_list=False)
    clock = time.perf_counter()
    calibration = calibrate(trained.scorer, split, seed=seed)
    seconds = time.perf_counter() - clock
    scorer = trained.scorer(split.train)
    found = validation_sample(scorer, split, seed=seed)
    assert calibration is not None
    assert found is not None
    pairs = torch.cat([split.test, split.test_negatives], dim=1)
    labels = np.repeat([1, 0], [split.test.shape[1], split.test_negatives.shape[1]])
    best, hits = (own.numpy() for own in best_pairs(scorer, graph, split))
    sets = {"even": (scorer.logits(pairs).double().numpy(), labels), "best": (best, hits)}
    unknown = NegativeSampler(split.train, split.num_nodes).count - split.val.shape[1]
    rate = split.test.shape[1] / unknown
    curves = {name: fit(found[0], (0.5, calibration.prior)) for name, fit in METHODS.items()}
    curves["chosen"] = calibration.curve
    ends = calibration.interval(best, rate)
    assert ends is not None
    return {
        **job,
        **stamp(place, METHOD),
        "method": calibration.method,
        "losses": calibration.losses,
        "counts": calibration.counts,
        "prior": calibration.prior,
        "shift": calibration.shift,
        "results": {name: measure(curve, sets, rate) for name, curve in curves.items()},
        "scores": {str(top): int(np.unique(best[:top]).size) for top in (10, 100)},
        "interval": {str(top): [float(end[:top].sum()) for end in ends] for top in TOPS},
        "seconds": {"training": round(trained.seconds, 2), "calibration": round(seconds, 2)},
        "fingerprint": graph.fingerprint,
    }


def shown(record: Line) -> str:
    """Return a result in a line."""
    best = record["results"]["chosen"]
    counts = ", ".join(
        f"best {top}: {best['expected'][top]:.1f} promised, {best['observed'][top]} found"
        for top in map(str, TOPS)
    )
    head = f"{record['graph']}, split {record['seed']}: {record['method']}"
    return f"{head}, ECE {best['ece']:.4f}, {counts}"


def _splits(graph: str, seeds: Iterable[int]) -> dict[str, list[Line]]:
    """Return the records of a graph on some splits by preset; of two about one the later counts."""
    lines = [x for x in results_of("calibration") if x["graph"] == graph and x["seed"] in seeds]
    last = [line for _, line in sorted(latest(lines, "preset", "seed").items())]
    return {preset: own for (preset,), own in grouped(last, "preset").items()}


def calibration_table() -> str:
    """The curve that is kept: promised and found test links, the new splits before the old."""
    rows = []
    for graph, (words, seeds) in product(GRAPHS, SPLITS.items()):
        found = _splits(graph, seeds)
        if not found and words == "5-9":
            rows.append([graph, words, "not run yet", *[""] * (3 * len(TOPS) + 1)])
        for preset, records in found.items():
            results = [record["results"]["chosen"] for record in records]
            row = [f"{graph}, {preset}", f"{words}: {len(records)}", _error(results)]
            for top in map(str, TOPS):
                row += [" ".join(_promised(results, top)), *_fits(results, top)]
            fewest = (min(own["printed"][top] for own in results) for top in ("10", "100"))
            rows.append([*row, ", ".join(map(str, fewest))])
    devices = sorted({record["device"] for record in results_of("calibration")})
    tops = [f"best {top:,}: promised / found, mean (each split) | ratio | fits" for top in TOPS]
    head = ["graph, preset | splits | calibration error at 1:1, mean (worst)", *tops]
    head.append("different as printed, fewest: of 10, of 100")
    return table(" | ".join(head), rows, f"CGCL-rank; {', '.join(devices)}.")


def curves_table() -> str:
    """Every curve on every graph, over all splits that have run."""
    rows = []
    places = [(graph, *own) for graph in GRAPHS for own in _splits(graph, range(10)).items()]
    for (graph, preset, records), curve in product(places, METHODS):
        results = [record["results"][curve] for record in records]
        kept = sum(record["method"] == curve for record in records)
        row = [f"{graph}, {preset}", curve, f"{kept} of {len(records)}", _error(results)]
        rows.append([*row, *(_promised(results, str(top))[0] for top in TOPS)])
    tops = (f"best {top:,}: promised / found, mean" for top in TOPS)
    head = ["graph, preset | curve | kept on | calibration error at 1:1", *tops]
    return table(" | ".join(head), rows)


def _error(results: Sequence[Line]) -> str:
    errors = [result["ece"] for result in results]
    return f"{mean(errors):.4f} ({max(errors):.4f})"


def _promised(results: Sequence[Line], top: str) -> tuple[str, str]:
    """Return links promised and found among the best: the mean, and each split in brackets."""
    pairs = [(result["expected"][top], result["observed"][top]) for result in results]
    expected, observed = map(mean, zip(*pairs, strict=True))
    each = ", ".join(f"{e:.1f} / {o}" for e, o in pairs)
    return f"{expected:.1f} / {observed:.1f}", f"({each})"


def _fits(results: Sequence[Line], top: str) -> tuple[str, str]:
    """Return promised over found, and by what rule that is near enough, if by any."""
    expected, observed = (
        sum(own[name][top] for own in results) for name in ("expected", "observed")
    )
    ratio = expected / observed if observed else math.inf
    low, high = chi2.ppf(0.025, 2 * observed) / 2, chi2.ppf(0.975, 2 * observed + 2) / 2
    if 1 / MOST_OFF <= ratio <= MOST_OFF:
        return f"{ratio:.2f}", f"factor {MOST_OFF}"
    is_chance = (low if observed else 0.0) <= expected <= high
    return f"{ratio:.2f}", "chance" if is_chance else "**no**"


TABLES: dict[str, Callable[[], str]] = {
    "calibration": calibration_table,
    "calibration-curves": curves_table,
}


def main() -> None:
    """Run what is missing."""
    parser = options(__doc__)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--seeds", default="5,6,7,8,9")
    parser.add_argument("--preset", default="quick")
    chosen = parser.parse_args()
    # The first split of every graph comes first.
    jobs = [
        {"graph": graph, "preset": chosen.preset, "seed": int(seed)}
        for seed, graph in product(listed(chosen.seeds), listed(chosen.graphs))
    ]
    run_missing("calibration", jobs, run, shown, chosen, KEY)


if __name__ == "__main__":
    main()
