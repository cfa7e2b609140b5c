"""Are the probabilities right? Calibrate on validation links, count test links.

    python experiments/calibration.py --graphs cora,citeseer --seeds 0,1,2,3,4
    python experiments/calibration.py --summary

For each graph and split: the expected calibration error on the test pairs at 1:1, and, among the
best 1,000 of all pairs that are neither training nor validation links, the number of test links
that the probabilities promise beside the number that is there. Results are lines of JSON; what
is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
TOPS = (100, 1000, 10_000)
_BLOCK = 2**21


def best_pairs(decoder: Any, z: Any, split: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return the logits of the best unknown pairs, best first, and which are test links.

    Unknown is every pair that is neither a training nor a validation link.
    """
    import torch

    from cgcl.methods.scoring import evaluating

    def codes(pairs: Any) -> Any:  # noqa: ANN401
        return (pairs[0] * n + pairs[1]).sort().values.to(z.device)

    n = split.num_nodes
    seen = codes(torch.cat([split.train, split.val], dim=1))
    test = codes(split.test)
    logits, labels = torch.empty(0, device=z.device), torch.empty(0, device=z.device).bool()
    size = _BLOCK if z.is_cuda else 2**16
    with evaluating(decoder):
        for pairs in row_blocks(n, size, z.device):
            code = pairs[0] * n + pairs[1]
            unknown = ~torch.isin(code, seen)
            pairs, code = pairs[:, unknown], code[unknown]
            logits = torch.cat([logits, decoder(z, pairs)])
            labels = torch.cat([labels, torch.isin(code, test)])
            logits, order = logits.topk(min(max(TOPS), logits.numel()))
            labels = labels[order]
    return logits.cpu(), labels.cpu()


def row_blocks(num_nodes: int, size: int, device: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield every pair of nodes once, about `size` at a time."""
    import torch

    nodes = torch.arange(num_nodes, device=device)
    for low in nodes.split(max(1, size // num_nodes)):
        pairs = torch.cartesian_prod(low, nodes[int(low[0]) :]).T.contiguous()
        yield pairs[:, pairs[0] < pairs[1]]


def trained(graph_name: str, seed: int, device: str, data_root: str | None) -> tuple[Any, ...]:
    """Return graph, split, trainer and test metrics of the quick preset.

    Without the class that users fit, whose files need packages that a bare machine lacks.
    """
    import torch

    import cgcl
    from cgcl.graph.prepare import features_of
    from cgcl.split import random_split
    from cgcl.train.recipe import Recipe
    from cgcl.train.trainer import Trainer

    graph = cgcl.read(graph_name, data_root=data_root)
    recipe = Recipe.of("cgcl", {"seed": seed})
    split = random_split(graph, recipe.split.val, recipe.split.test, seed)
    x = features_of(graph).to(device)
    trainer = Trainer(x, split, recipe, torch.device(device))
    for _ in range(trainer.epochs):
        trainer.run_epoch()
    return graph, split, trainer, trainer.finish()


def measure(curve: Any, sets: dict[str, Any], base_rate: float) -> dict[str, Any]:  # noqa: ANN401
    """Return what a curve says about the test links, and what is true.

    Args:
        curve: From a logit to a log-likelihood ratio.
        sets: Logits and labels of the test pairs at 1:1 ("even") and of the best pairs ("best").
        base_rate: The share of test links among the unknown pairs.
    """
    import numpy as np

    from cgcl.calibrate import probability_of
    from cgcl.metrics.calibration import expected_calibration_error, log_loss

    logits, labels = sets["even"]
    even = probability_of(curve.log_ratio(logits), 0.5)
    best, hits = sets["best"]
    at_base_rate = probability_of(curve.log_ratio(best), base_rate)
    return {
        "ece": expected_calibration_error(even, labels, bins=10),
        "log_loss": log_loss(even, labels),
        "expected": {str(top): float(at_base_rate[:top].sum()) for top in TOPS},
        "observed": {str(top): int(np.sum(hits[:top])) for top in TOPS},
    }


def run(graph_name: str, seed: int, device: str, data_root: str | None) -> dict[str, Any]:
    """Train on one split, calibrate, and measure on its test links."""
    import numpy as np

    from cgcl.calibrate import METHODS, Line
    from cgcl.split import UnlinkedPairs
    from cgcl.train.calibrating import calibrate, validation_sample

    clock = [time.perf_counter()]
    graph, split, trainer, test = trained(graph_name, seed, device, data_root)
    known, learner = trainer.known, trainer.learner
    clock.append(time.perf_counter())
    calibration = calibrate(
        lambda links: learner.scorer(known.with_links(links.to(known.device))), split, seed=seed
    )
    clock.append(time.perf_counter())
    scorer = learner.scorer(known)
    found = validation_sample(scorer, split, seed=seed)
    if calibration is None or found is None:
        raise SystemExit(f"{graph_name} has no validation links to calibrate on.")
    positive, negative = (
        scorer.logits(pairs).double().numpy() for pairs in (split.test, split.test_negatives)
    )
    labels = np.repeat([1, 0], [positive.size, negative.size])
    best, hits = best_pairs(learner.decode, scorer.z, split)
    sets = {
        "even": (np.concatenate([positive, negative]), labels),
        "best": (best.double().numpy(), hits.numpy()),
    }
    unknown = UnlinkedPairs(split.train, split.num_nodes).count - split.val.shape[1]
    curves = {name: fit(found[0], (0.5, calibration.prior)) for name, fit in METHODS.items()}
    curves = {"raw sigmoid": Line(1.0), **curves, "chosen": calibration.curve}
    return {
        "graph": graph_name,
        "seed": seed,
        "test": test,
        "method": calibration.method,
        "losses": calibration.losses,
        "counts": calibration.counts,
        "prior": calibration.prior,
        "shift": calibration.shift,
        "results": {
            name: measure(curve, sets, positive.size / unknown) for name, curve in curves.items()
        },
        "seconds": {
            "training": round(clock[1] - clock[0], 2),
            "calibration": round(clock[2] - clock[1], 2),
        },
        "device": str(known.device),
        "fingerprint": graph.fingerprint,
    }


def summary(records: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table: one row per graph and curve, means over splits."""
    lines = [
        "| graph | curve | ECE at 1:1, mean (each split) | links in the best 1,000: promised / "
        "found | ratio |",
        "| --- | --- | --- | --- | --- |",
    ]
    for graph in dict.fromkeys(record["graph"] for record in records):
        splits = [record for record in records if record["graph"] == graph]
        splits.sort(key=lambda record: record["seed"])
        for curve in splits[0]["results"]:
            results = [record["results"][curve] for record in splits]
            ece = [result["ece"] for result in results]
            expected = [result["expected"]["1000"] for result in results]
            observed = [result["observed"]["1000"] for result in results]
            each = ", ".join(f"{e:.1f}/{o}" for e, o in zip(expected, observed, strict=True))
            ratio = f"{sum(expected) / sum(observed):.2f}" if sum(observed) else "none found"
            lines.append(
                f"| {graph} | {curve} | {statistics.mean(ece):.4f} "
                f"({', '.join(f'{e:.3f}' for e in ece)}) | {statistics.mean(expected):.1f} / "
                f"{statistics.mean(observed):.1f} ({each}) | {ratio} |"
            )
    return lines


def main() -> None:
    """Run what is missing, or print what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--graphs", default="cora,citeseer,pubmed")
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--data-root")
    parser.add_argument("--out", type=Path, default=RESULTS / "calibration.jsonl")
    parser.add_argument("--summary", action="store_true", help="print the table and stop")
    chosen = parser.parse_args()
    path: Path = chosen.out
    records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if chosen.summary:
        print("\n".join(summary(records)))
        return
    done = {(record["graph"], record["seed"]) for record in records}
    path.parent.mkdir(parents=True, exist_ok=True)
    for graph in chosen.graphs.split(","):
        for seed in map(int, chosen.seeds.split(",")):
            if (graph, seed) in done:
                continue
            record = run(graph, seed, chosen.device, chosen.data_root)
            with path.open("a") as file:
                file.write(json.dumps(record) + "\n")
            best = record["results"]["chosen"]
            print(
                f"{graph}, split {seed}: {record['method']}, ECE {best['ece']:.4f}, best 1,000: "
                f"{best['expected']['1000']:.1f} promised, {best['observed']['1000']} found",
                flush=True,
            )


if __name__ == "__main__":
    main()
