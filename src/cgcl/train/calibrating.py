"""Calibrate a trained method on its validation links."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import TrainingError
from cgcl.graph.pairs import canonical, encode_ordered, is_in
from cgcl.methods.method import PairScorer
from cgcl.methods.scoring import BLOCK_PAIRS
from cgcl.metrics.calibration import Calibration, Sample
from cgcl.metrics.calibrators import Kept, Reservoir, fit_calibration
from cgcl.seeds import stream
from cgcl.split import NegativeSampler, Split
from cgcl.train.top_of_list import DEAR, Progress, ScoreTable, scored_once, silent

# How many unlinked pairs are scored: some seconds on two cores. The best thousand of a graph can
# be one pair in 10^5 or fewer, so that a hundred thousand pairs would hold none of them.
_MAX_SCORED = 2**24
_MAX_OPERATIONS, _MAX_DEAR = 2**38, 2**35
# A method that looks at the surroundings of every pair takes a millisecond for each.
_MIN_SCORED = 10_000
# How many of those are kept: the best, and as many that stand for the rest.
_KEPT = 100_000
# The check for a shift counts the links among all pairs, and among the best of them.
_TOP_PAIRS = 1000
_SHIFT_BAND = 1.5


def calibrate(
    scorer_for: Callable[[Tensor], PairScorer],
    split: Split,
    *,
    seed: int,
    scorer: PairScorer | None = None,
    progress: Progress = silent,
) -> Calibration | None:
    """Return how a method's logits become probabilities, or None without validation links.

    Only the training links are looked at. Validation links are set against a large sample of
    pairs that are no link of any part, across the sides of a bipartite graph only.

    Args:
        scorer_for: Returns the method as it scores pairs by some links, int64 [2, m].
        split: The links that it learned from, chose by and was tested on.
        seed: The sample and the folds follow from it.
        scorer: The method as it scores pairs by the training links, if there is one already.
        progress: Told about blocks of pairs that were scored.

    Raises:
        TrainingError: The method gives scores that are not finite.
    """
    num_val, num_test = split.val.shape[1], split.test.shape[1]
    scorer = scorer or scorer_for(split.train)
    found = validation_sample(scorer, split, seed=seed, progress=progress)
    if found is None:
        return None
    sample, others = found
    unknown = NegativeSampler(split.train, split.num_nodes, split.sides).count
    calibration = fit_calibration(sample, (num_val + num_test) / unknown, seed)
    if num_test == 0:
        return calibration
    # Predictions look at every known link; the nearest that can be checked leaves out one part.
    scorer = scorer_for(torch.cat([split.train, split.test], dim=1))
    links, unlinked = (scorer.logits(pairs) for pairs in (split.val, others.pairs))
    return replace(
        calibration, shift=_measure_shift(calibration, _as_sample(links, unlinked, others))
    )


def validation_sample(
    scorer: PairScorer, split: Split, *, seed: int, progress: Progress = silent
) -> tuple[Sample, Kept] | None:
    """Return what a calibration is fitted on, and the unlinked pairs in it.

    None without validation links, or where every pair is linked.

    Args:
        scorer: The method as it scores pairs by the training links.
        split: The links that it learned from, chose by and was tested on.
        seed: The sample follows from it.
        progress: Told about blocks of pairs that were scored.

    Raises:
        TrainingError: The method gives scores that are not finite.
    """
    known = torch.cat([split.train, split.val, split.test], dim=1)
    unlinked = NegativeSampler(known, split.num_nodes, split.sides)
    if split.val.shape[1] == 0 or unlinked.count == 0:
        return None
    others = _sample_unlinked(scorer, split, known, unlinked.count, seed, progress)
    return _as_sample(scorer.logits(split.val), others.logits, others), others


def pairs_to_score(cost_per_pair: float, cost_per_node: float = 0.0, num_nodes: int = 0) -> int:
    """Return how many unlinked pairs a calibration scores, all or at random, in blocks.

    Args:
        cost_per_pair: How many operations a pair takes.
        cost_per_node: How many more each different first end takes in a block of pairs.
        num_nodes: Number of nodes; a block of random pairs has nearly all of them at one end.
    """
    cost = cost_per_pair + min(1.0, num_nodes / BLOCK_PAIRS) * cost_per_node
    most = _MAX_DEAR if cost_per_pair > DEAR else _MAX_OPERATIONS
    return int(max(_MIN_SCORED, min(_MAX_SCORED, most // max(cost, 1.0))))


def _sample_unlinked(
    scorer: PairScorer, split: Split, known: Tensor, count: int, seed: int, progress: Progress
) -> Kept:
    """Score as many unlinked pairs as is cheap, and keep those that tell most.

    They stand for all `count` unlinked pairs, but none of them is one of the test's: there the
    probabilities are to be measured.
    """
    tested = torch.cat([known, split.test_negatives], dim=1)
    unlinked = NegativeSampler(tested, split.num_nodes, split.sides)
    if unlinked.count:
        known = tested
    else:  # a graph so dense that the test has taken every pair
        unlinked = NegativeSampler(known, split.num_nodes, split.sides)
    scored = pairs_to_score(scorer.cost_per_pair, scorer.cost_per_node, scorer.num_nodes)
    logits = scorer.logits
    if unlinked.count <= scored:
        scored, blocks = unlinked.count, _every_pair(known, split.num_nodes, split.sides)
        table = scored_once(scorer)
        logits = table.of if isinstance(table, ScoreTable) else logits
    else:
        random, starts = stream(seed, "calibration pairs"), range(0, scored, BLOCK_PAIRS)
        blocks = (unlinked.draw(min(BLOCK_PAIRS, scored - at), random) for at in starts)
    reservoir = Reservoir(_KEPT, scored, stream(seed, "calibration sample"))
    done = 0
    for pairs in blocks:
        progress("Calibrating", done, scored)
        reservoir.offer(pairs, logits(pairs))
        done += pairs.shape[1]
    return reservoir.kept(count)


def _every_pair(known: Tensor, num_nodes: int, sides: Tensor | None) -> Iterator[Tensor]:
    """Yield all unlinked pairs, block by block."""
    linked = encode_ordered(known[0], known[1], num_nodes).sort().values
    nodes = torch.arange(num_nodes)
    # Across two sides there may be few pairs among many nodes: walk those pairs only.
    rows, columns = (nodes, nodes) if sides is None else (nodes[~sides], nodes[sides])
    for some in rows.split(max(1, BLOCK_PAIRS // max(columns.numel(), 1))):
        if sides is None:
            # Within one set of nodes every pair comes up from both its ends: once is enough.
            pairs = torch.cartesian_prod(some, columns[int(some[0]) + 1 :]).T
            pairs = pairs[:, pairs[0] < pairs[1]]
        else:
            pairs = canonical(torch.cartesian_prod(some, columns).T)
        yield pairs[:, ~is_in(encode_ordered(pairs[0], pairs[1], num_nodes), linked)]


def _as_sample(links: Tensor, others: Tensor, kept: Kept) -> Sample:
    if not (torch.isfinite(links).all() and torch.isfinite(others).all()):
        raise TrainingError(
            "The model gives scores that are not finite numbers, so they cannot be calibrated.\n"
            "Train again with a lower `lr`, and look for very large feature values."
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
    warning = None
    for region, where in ((overall, "all pairs"), (top, f"the best {_TOP_PAIRS:,} pairs")):
        if _is_off(region):
            warning = (
                f"With more links encoded than in training, the probabilities of {where} promise "
                f"{region['expected']:.1f} of the validation links and hold {region['observed']}."
                f" Take the probabilities of suggestions with care."
            )
    return {**overall, "top": {"pairs": _TOP_PAIRS, **top}, "warning": warning}


def _compare(expected: float, observed: int) -> dict[str, Any]:
    ratio = expected / observed if observed else None
    return {"expected": expected, "observed": observed, "ratio": ratio}


def _is_off(region: dict[str, Any]) -> bool:
    """Say whether a count is outside the band, and by more than chance explains."""
    expected, observed = region["expected"], region["observed"]
    outside = not observed / _SHIFT_BAND <= expected <= observed * _SHIFT_BAND
    return outside and abs(expected - observed) > 2 * math.sqrt(max(expected, 1.0))
