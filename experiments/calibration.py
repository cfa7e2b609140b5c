"""Are the probabilities right? Calibrate on validation links, count test links.

    python experiments/calibration.py --graphs cora,citeseer
    python experiments/calibration.py --device cuda --workers 5 --data-root DATA --seconds 600

For each graph and split of CGCL-rank: the expected calibration error on the test pairs at 1:1; and,
among the best of all pairs that are neither training nor validation links, the number of test links
that the probabilities promise beside the number that is there, and how many different probabilities
are printed. Results are lines of JSON; what is there is not computed again.
"""

from __future__ import annotations

import time
from typing import Any

from script import Job, Result, Where, listed, options, run_missing, stamp

GRAPHS = ("cora", "citeseer", "pubmed", "photo", "computers")
METHOD = "cgcl-rank"
TOPS = (100, 1000)
KEY = ("graph", "preset", "seed")
_CELLS = 2**21


def best_pairs(scorer: Any, split: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return the logits of the best unknown pairs, best first, and which are test links.

    Unknown is every pair that is neither a training nor a validation link.
    """
    import torch

    n = split.num_nodes
    device = scorer.rows(torch.zeros(1, dtype=torch.int64)).device

    def codes(pairs: Any) -> Any:  # noqa: ANN401
        return (pairs[0] * n + pairs[1]).to(device)

    seen, test = codes(torch.cat([split.train, split.val], dim=1)), codes(split.test)
    nodes = torch.arange(n)
    best = torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device)
    for rows in nodes.split(max(1, _CELLS // n)):
        code = rows.to(device)[:, None] * n + nodes.to(device)
        is_new = (nodes.to(device) > rows.to(device)[:, None]).flatten()
        is_new[seen[(seen >= code[0, 0]) & (seen <= code[-1, -1])] - code[0, 0]] = False
        found = scorer.rows(rows).flatten()[is_new], code.flatten()[is_new]
        logits, code = (torch.cat(parts) for parts in zip(best, found, strict=True))
        logits, order = logits.topk(min(max(TOPS), logits.numel()))
        best = logits, code.index_select(0, order)
    return best[0].cpu(), torch.isin(best[1], test).cpu()


def measure(curve: Any, sets: dict[str, Any], base_rate: float) -> dict[str, Any]:  # noqa: ANN401
    """Return what a curve says about the test links, and what is true.

    Args:
        curve: From a logit to a log-likelihood ratio.
        sets: Logits and labels of the test pairs at 1:1 ("even") and of the best pairs ("best").
        base_rate: The share of test links among the unknown pairs.
    """
    import numpy as np

    from cgcl.metrics.calibration import expected_calibration_error, log_loss, probability_of
    from cgcl.predict.digits import decimals, told_apart

    logits, labels = sets["even"]
    even = probability_of(curve.log_ratio(logits), 0.5)
    best, hits = sets["best"]
    said = probability_of(curve.log_ratio(best), base_rate)
    printed = {str(top): len(set(told_apart(said[:top].tolist(), decimals))) for top in (10, 100)}
    return {
        "ece": expected_calibration_error(even, labels, bins=10),
        "log_loss": log_loss(even, labels),
        "expected": {str(top): float(said[:top].sum()) for top in TOPS},
        "observed": {str(top): int(np.sum(hits[:top])) for top in TOPS},
        "printed": printed,
    }


def run(job: Job, place: Where) -> Result:
    """Train on one split, calibrate, and measure on its test links."""
    import numpy as np

    import cgcl
    from cgcl.metrics.calibrators import METHODS
    from cgcl.split import UnlinkedPairs, random_split
    from cgcl.train.calibrating import calibrate, validation_sample
    from cgcl.train.config import Resources
    from cgcl.train.once import train_once
    from cgcl.train.recipe import Recipe

    seed = job["seed"]
    graph = cgcl.read(job["graph"], data_root=place["data_root"])
    split = random_split(graph, 0.05, 0.10, seed)
    recipe = Recipe.for_graph(METHOD, {"preset": job["preset"], "seed": seed}, graph)
    resources = Resources(device=place["device"], threads=place["threads"])
    trained = train_once(graph, split, recipe, resources, top_of_list=False)
    clock = time.perf_counter()
    calibration = calibrate(trained.scorer, split, seed=seed)
    seconds = time.perf_counter() - clock
    scorer = trained.scorer(split.train)
    found = validation_sample(scorer, split, seed=seed)
    assert calibration is not None
    assert found is not None
    positive, negative = (
        scorer.logits(pairs).double().numpy() for pairs in (split.test, split.test_negatives)
    )
    best, hits = best_pairs(scorer, split)
    sets = {
        "even": (
            np.concatenate([positive, negative]),
            np.repeat([1, 0], [positive.size, negative.size]),
        ),
        "best": (best.double().numpy(), hits.numpy()),
    }
    unknown = UnlinkedPairs(split.train, split.num_nodes).count - split.val.shape[1]
    rate = positive.size / unknown
    curves = {name: fit(found[0], (0.5, calibration.prior)) for name, fit in METHODS.items()}
    curves["chosen"] = calibration.curve
    ends = calibration.interval(sets["best"][0], rate)
    assert ends is not None
    return {
        **{name: job[name] for name in KEY},
        **stamp(place),
        "method": calibration.method,
        "losses": calibration.losses,
        "counts": calibration.counts,
        "prior": calibration.prior,
        "shift": calibration.shift,
        "results": {name: measure(curve, sets, rate) for name, curve in curves.items()},
        "scores": {str(top): int(np.unique(sets["best"][0][:top]).size) for top in (10, 100)},
        "interval": {str(top): [float(end[:top].sum()) for end in ends] for top in TOPS},
        "seconds": {"training": round(trained.seconds, 2), "calibration": round(seconds, 2)},
        "fingerprint": graph.fingerprint,
    }


def shown(record: Result) -> str:
    """Return a result in a line."""
    best = record["results"]["chosen"]
    counts = ", ".join(
        f"best {top}: {best['expected'][top]:.1f} promised, {best['observed'][top]} found"
        for top in map(str, TOPS)
    )
    head = f"{record['graph']}, split {record['seed']}: {record['method']}"
    return f"{head}, ECE {best['ece']:.4f}, {counts}"


def main() -> None:
    """Run what is missing."""
    parser = options(__doc__)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--seeds", default="5,6,7,8,9")
    parser.add_argument("--preset", default="quick")
    chosen = parser.parse_args()
    # The first split of every graph comes first.
    jobs = [
        {"graph": graph, "preset": chosen.preset, "seed": seed}
        for seed in map(int, listed(chosen.seeds))
        for graph in listed(chosen.graphs)
    ]
    run_missing("calibration", jobs, run, shown, chosen, KEY)


if __name__ == "__main__":
    main()
