"""Fit every calibrator, compare them on pairs they have not seen, keep the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cgcl.calibrate.bent import BentLine
from cgcl.calibrate.calibration import Calibration
from cgcl.calibrate.curve import Curve
from cgcl.calibrate.lines import fit_platt, fit_temperature
from cgcl.calibrate.losses import entropy, unexplained
from cgcl.calibrate.sample import Floats, Sample, check_prior

__all__ = ["METHODS", "fit_calibration"]

_FOLDS = 5
# Below this many links a bend rests on one or two of them.
_BENT_LINKS = 20
_EVEN = 0.5
_LOSSES = ("even_odds", "base_rate", "unexplained")

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
    by_fold: dict[str, Floats] = {}
    if num_links > 1 and sample.others.size > 1:
        folds = _folds(sample, seed)
        by_fold = {name: _held_out(METHODS[name], folds, priors) for name in names}
    losses = {
        name: dict(zip(_LOSSES, of.mean(axis=0).tolist(), strict=True))
        for name, of in by_fold.items()
    }
    method = _best({name: of[:, -1] for name, of in by_fold.items()}, names[0])
    bent = BentLine(sample, priors[-1])
    curve = bent.curve() if method == "bent" else METHODS[method](sample, priors)
    low, high = curve.log_ratio(np.array([sample.others.min(), sample.links.max()])).tolist()
    if low >= high:
        notes.append("Higher scores do not mean likelier links here; no score says much.")
    counts = {
        "links": num_links,
        "non_links": sample.others.size,
        "unknown_pairs": num_links + round(float(sample.weights.sum())),
    }
    return Calibration(
        method, curve, float(prior), losses, counts, None, tuple(notes), bent.margin()
    )


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
) -> Floats:
    """Return the losses on each fold, which the calibrator was not fitted on, [folds, 3]."""
    found: list[list[float]] = []
    for seen, unseen in folds:
        curve = fit(seen, priors)
        shares = [unexplained(curve, unseen, prior) for prior in priors]
        lost = [share * entropy(prior) for share, prior in zip(shares, priors, strict=True)]
        found.append([*lost, sum(shares) / 2])
    return np.array(found)


def _best(shares: dict[str, Floats], plainest: str) -> str:
    """Return the method that leaves the least unexplained; the plainest if nothing was held out.

    A bent line can be straight. If a straight one is ahead of it by no more than chance, one
    standard error over the folds, the bent one is kept: few held-out links are at the tip, and
    where the tip is not like the bulk, a straight line promises several times too much there.
    """
    best = min(shares, key=lambda name: float(shares[name].mean()), default=plainest)
    if "bent" in shares:
        behind = shares["bent"] - shares[best]
        if behind.mean() <= behind.std(ddof=1) / np.sqrt(behind.size):
            return "bent"
    return best
