"""Calibrate a trained network on its validation links."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgcl.calibrate import Calibration, Sample, fit_calibration
from cgcl.calibrate.reservoir import Kept, Reservoir
from cgcl.errors import TrainingError
from cgcl.model import CGCL, symmetric
from cgcl.seeds import stream
from cgcl.split import Split, UnlinkedPairs
from cgcl.train.scoring import BLOCK_PAIRS, decode_pairs, embed

__all__ = ["MAX_OPERATIONS", "MAX_SCORED", "MIN_SCORED", "calibrate_model", "validation_sample"]

# How many unlinked pairs are scored: some seconds on two cores. The best thousand of a graph can
# be one pair in 10^5 or fewer, so that a hundred thousand pairs would hold none of them.
MAX_SCORED = 2**24
MAX_OPERATIONS = 2**38
MIN_SCORED = 100_000
# How many of those are kept: the best, and as many that stand for the rest.
_KEPT = 100_000
# The check for a shift counts the links among all pairs, and among the best of them.
_TOP_PAIRS = 1000
_SHIFT_BAND = 1.5


def calibrate_model(model: CGCL, x: Tensor, split: Split, *, seed: int) -> Calibration | None:
    """Return how the network's logits become probabilities, or None without validation links.

    Only the training links are encoded. Validation links are set against a large sample of pairs
    that are no link of any part, across the sides of a bipartite graph only.

    Args:
        model: The network with the weights to keep.
        x: Node features, [n, d], on the network's device.
        split: The links that it learned from, chose by and was tested on.
        seed: The sample and the folds follow from it.

    Raises:
        TrainingError: The network gives scores that are not finite.
    """
    num_val, num_test = split.val.shape[1], split.test.shape[1]
    found = validation_sample(model, x, split, seed=seed)
    if found is None:
        return None
    sample, others = found
    hidden = num_val + num_test
    unknown = UnlinkedPairs(split.train, split.num_nodes, split.sides).count
    calibration = fit_calibration(sample, hidden / unknown, seed)
    if num_test == 0:
        return calibration
    # Predictions encode every known link; the nearest that can be checked leaves out one part.
    seen = torch.cat([split.train, split.test], dim=1)
    z = embed(model, x, symmetric(seen.to(x.device)))
    links, unlinked = (decode_pairs(model, z, pairs) for pairs in (split.val, others.pairs))
    return replace(
        calibration, shift=_measure_shift(calibration, _as_sample(links, unlinked, others))
    )


def validation_sample(
    model: CGCL, x: Tensor, split: Split, *, seed: int
) -> tuple[Sample, Kept] | None:
    """Return what a calibration is fitted on, and the unlinked pairs in it.

    None without validation links, or where every pair is linked.

    Args:
        model: The network with the weights to keep.
        x: Node features, [n, d], on the network's device.
        split: The links that it learned from, chose by and was tested on.
        seed: The sample follows from it.

    Raises:
        TrainingError: The network gives scores that are not finite.
    """
    known = torch.cat([split.train, split.val, split.test], dim=1)
    unlinked = UnlinkedPairs(known, split.num_nodes, split.sides)
    if split.val.shape[1] == 0 or unlinked.count == 0:
        return None
    z = embed(model, x, symmetric(split.train.to(x.device)))
    others = _sample_unlinked(model, z, split, known, unlinked.count, seed)
    return _as_sample(decode_pairs(model, z, split.val), others.logits, others), others


def _sample_unlinked(
    model: CGCL, z: Tensor, split: Split, known: Tensor, count: int, seed: int
) -> Kept:
    """Score as many unlinked pairs as is cheap, and keep those that tell most.

    They stand for all `count` unlinked pairs, but none of them is one of the test's: there the
    probabilities are to be measured.
    """
    tested = torch.cat([known, split.test_negatives], dim=1)
    unlinked = UnlinkedPairs(tested, split.num_nodes, split.sides)
    if unlinked.count:
        known = tested
    else:  # a graph so dense that the test has taken every pair
        unlinked = UnlinkedPairs(known, split.num_nodes, split.sides)
    layer = model.decode.layer_1
    operations = 2 * layer.in_features * layer.out_features
    scored = max(MIN_SCORED, min(MAX_SCORED, MAX_OPERATIONS // operations))
    if unlinked.count <= scored:
        scored, blocks = unlinked.count, _every_pair(known, split.num_nodes, split.sides)
    else:
        blocks = _random_pairs(unlinked, scored, seed)
    reservoir = Reservoir(_KEPT, scored, stream(seed, "calibration sample"))
    for pairs in blocks:
        reservoir.offer(pairs, decode_pairs(model, z, pairs))
    return reservoir.kept(count)


def _every_pair(known: Tensor, num_nodes: int, sides: Tensor | None) -> Iterator[Tensor]:
    """Yield all unlinked pairs, block by block."""
    # The smaller node is first in every part. The last code is no pair, and above all that are.
    codes = torch.cat([known[0] * num_nodes + known[1], torch.tensor([num_nodes**2])])
    linked = codes.sort().values
    nodes = torch.arange(num_nodes)
    # Across two sides there may be few pairs among many nodes: walk those pairs only.
    rows, columns = (nodes, nodes) if sides is None else (nodes[~sides], nodes[sides])
    for some in rows.split(max(1, BLOCK_PAIRS // max(columns.numel(), 1))):
        ends = torch.cartesian_prod(some, columns).T
        pairs = torch.stack([ends.amin(dim=0), ends.amax(dim=0)])
        codes = pairs[0] * num_nodes + pairs[1]
        wanted = linked.index_select(0, torch.searchsorted(linked, codes)) != codes
        # Within one set of nodes every pair comes up from both its ends.
        yield pairs[:, wanted & (ends[0] < ends[1])] if sides is None else pairs[:, wanted]


def _random_pairs(unlinked: UnlinkedPairs, count: int, seed: int) -> Iterator[Tensor]:
    """Yield `count` random unlinked pairs, block by block."""
    generator = stream(seed, "calibration pairs")
    for start in range(0, count, BLOCK_PAIRS):
        yield unlinked.draw(min(BLOCK_PAIRS, count - start), generator)


def _as_sample(links: Tensor, others: Tensor, kept: Kept) -> Sample:
    if not (torch.isfinite(links).all() and torch.isfinite(others).all()):
        raise TrainingError(
            "The model gives scores that are not finite numbers, so they cannot be calibrated.\n"
            "Train again with a lower --lr, and look for very large feature values."
        )
    return Sample(links.double().numpy(), others.double().numpy(), kept.weights.numpy())


def _measure_shift(calibration: Calibration, sample: Sample) -> dict[str, Any]:
    """Compare expected and observed numbers of links where more links are encoded."""
    logits = np.concatenate([sample.links, sample.others])
    weights = np.concatenate([np.ones(sample.links.size), sample.weights])
    is_link = np.arange(logits.size) < sample.links.size
    probability = calibration.probability(logits, sample.links.size / weights.sum())
    order = np.argsort(-logits, kind="stable")
    best = order[np.cumsum(weights[order]) <= max(_TOP_PAIRS, weights[order[0]])]
    overall = _compare(float(probability @ weights), sample.links.size)
    top = _compare(float(probability[best] @ weights[best]), int(is_link[best].sum()))
    found: dict[str, Any] = {**overall, "top": {"pairs": _TOP_PAIRS, **top}, "warning": None}
    for region, where in ((overall, "all pairs"), (top, f"the best {_TOP_PAIRS:,} pairs")):
        if _is_off(region):
            found["warning"] = (
                f"With more links encoded than in training, the probabilities of {where} promise "
                f"{region['expected']:.1f} of the validation links and hold {region['observed']}."
                f" Take the probabilities of suggestions with care."
            )
    return found


def _compare(expected: float, observed: int) -> dict[str, Any]:
    return {
        "expected": expected,
        "observed": observed,
        "ratio": expected / observed if observed else None,
    }


def _is_off(region: dict[str, Any]) -> bool:
    """Say whether a count is outside the band, and by more than chance explains."""
    expected, observed = region["expected"], region["observed"]
    outside = not observed / _SHIFT_BAND <= expected <= observed * _SHIFT_BAND
    return outside and abs(expected - observed) > 2 * math.sqrt(max(expected, 1.0))
