"""Fit every calibrator, compare them on pairs they have not seen, keep the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cgcl.calibrate.bent import BentLine
from cgcl.calibrate.calibration import Calibration
from cgcl.calibrate.curve import Curve
from cgcl.calibrate.lines import fit_platt, fit_temperature
from cgcl.calibrate.losses import entropy, unexplained
from cgcl.calibrate.sample import Sample, check_prior

__all__ = ["METHODS", "fit_calibration"]

_FOLDS = 5
# Below this many links a bend rests on one or two of them.
_BENT_LINKS = 20
_EVEN = 0.5

METHODS: dict[str, Callable[[Sample, Sequence[float]], Curve]] = {
    "temperature": fit_temperature,
    "platt": fit_platt,
    "bent": lambda sample, priors: BentLine(sample, priors[-1]).curve(),
}
"""The calibrators by name, the plainest first: each fits a curve for some base rates, of which
the graph's own is the last. A curve rises everywhere, or nowhere if scores say nothing."""


def fit_calibration(sample: Sample, prior: float, seed: int) -> Calibration:
    """Return the calibration that explains held-out pairs best.

    Probabilities serve two uses: pairs that somebody picked, where links and other pairs are
    about as many, and all unknown pairs, where only the highest scores matter. So a method is
    judged by its mean `unexplained` share at even odds and at the base rate, over five folds.

    Whichever is kept, the margin is that of a bent line: one that supposes a straight line would
    promise more than the links near a score can show.

    Args:
        sample: Pairs that the network has not learned from; at least one link and one other.
        prior: The share of links among unknown pairs.
        seed: The folds follow from it.

    Raises:
        ConfigError: `prior` is not strictly between 0 and 1.
    """
    priors = (_EVEN, check_prior(prior))
    num_links = sample.links.size
    names, notes = list(METHODS), list[str]()
    if num_links < _BENT_LINKS:
        names.remove("bent")
        notes.append(
            f"Only {num_links} validation link{'' if num_links == 1 else 's'}: the probabilities "
            f"are rough. {_BENT_LINKS} or more allow a finer calibration."
        )
    losses: dict[str, dict[str, float]] = {}
    if num_links > 1 and sample.others.size > 1:
        folds = _folds(sample, seed)
        losses = {name: _held_out(METHODS[name], folds, priors) for name in names}
    # Without losses the plainest is taken.
    method = min(losses, key=lambda name: losses[name]["unexplained"], default=names[0])
    curve = METHODS[method](sample, priors)
    low, high = curve.log_ratio(np.array([sample.others.min(), sample.links.max()])).tolist()
    if low >= high:
        notes.append("Higher scores do not mean likelier links here; no score says much.")
    counts = {
        "links": num_links,
        "non_links": sample.others.size,
        "unknown_pairs": num_links + round(float(sample.weights.sum())),
    }
    margin = BentLine(sample, priors[-1]).margin()
    return Calibration(method, curve, float(prior), losses, counts, None, tuple(notes), margin)


def _folds(sample: Sample, seed: int) -> list[tuple[Sample, Sample]]:
    """Return what to fit on and what to judge by, several times; every pair is judged by once."""
    count = min(_FOLDS, sample.links.size, sample.others.size)
    random = np.random.default_rng(seed)
    link_fold = random.permutation(sample.links.size) % count
    other_fold = random.permutation(sample.others.size) % count
    return [
        (
            sample.part(link_fold != fold, other_fold != fold),
            sample.part(link_fold == fold, other_fold == fold),
        )
        for fold in range(count)
    ]


def _held_out(
    fit: Callable[[Sample, Sequence[float]], Curve],
    folds: Sequence[tuple[Sample, Sample]],
    priors: tuple[float, float],
) -> dict[str, float]:
    """Return mean losses on folds that a calibrator was not fitted on."""
    found: list[list[float]] = []
    for seen, unseen in folds:
        curve = fit(seen, priors)
        shares = [unexplained(curve, unseen, prior) for prior in priors]
        lost = [share * entropy(prior) for share, prior in zip(shares, priors, strict=True)]
        found.append([*lost, sum(shares) / 2])
    even, base_rate, share = np.mean(found, axis=0).tolist()
    return {"even_odds": even, "base_rate": base_rate, "unexplained": share}
