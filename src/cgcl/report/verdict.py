"""Which method is best, in a sentence that does not favour ours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cgcl.report.inputs import Comparison, MethodResult, Probabilities
from cgcl.report.words import about, percent

__all__ = [
    "ahead_at_top",
    "best_values",
    "calibration_choice",
    "measured",
    "method_name",
    "metric_name",
    "metrics_of",
    "shift_sentence",
    "verdict",
]

# What a person sees of a ranking, and by what a method is ahead there.
_TOP = ("node_mrr", "precision@100")
_CALIBRATIONS = {
    "platt": "Platt scaling",
    "bent": "Bent-line scaling",
    "isotonic": "Isotonic regression",
    "temperature": "Temperature scaling",
}


def metric_name(key: str) -> str:
    """Return a metric's name as the page writes it.

    Example:
        >>> metric_name("auc"), metric_name("node_mrr")
        ('AUC', 'node MRR')
    """
    from cgcl.metrics.table import metric_title

    return metric_title(key)


def method_name(key: str) -> str:
    """Return the name of a calibration method as the page writes it.

    Example:
        >>> method_name("platt")
        'Platt scaling'
    """
    return _CALIBRATIONS.get(key, key)


def metrics_of(results: Sequence[MethodResult]) -> list[str]:
    """Return every metric that some method has: the top of the list first, then by mention."""
    from cgcl.metrics.table import METRICS

    keys = dict.fromkeys(key for result in results for key in result.metrics)
    return [
        key
        for key in dict.fromkeys([*(name for name in METRICS if name in keys), *keys])
        if any(measured(result, key) is not None for result in results)
    ]


def measured(result: MethodResult, key: str) -> float | None:
    """Return a metric of a method, None where it was not measured."""
    value = result.metrics.get(key)
    return float(value) if value is not None and math.isfinite(value) else None


def best_values(results: Sequence[MethodResult]) -> Mapping[str, str]:
    """Return the best value of each metric, as the page writes it."""
    return {
        key: percent(max(value for r in results if (value := measured(r, key)) is not None))
        for key in metrics_of(results)
    }


def ahead_at_top(comparison: Comparison) -> str:
    """Say who is ahead of the run at the top of the list; empty if nobody is.

    It is what people read, so it is said before anything else.
    """
    told: dict[str, list[str]] = {}
    for key, (leaders, best, mine) in _ahead(comparison).items():
        who = f"{_joined(leaders)} {'is' if len(leaders) == 1 else 'are'} ahead of"
        told.setdefault(who, []).append(f"{metric_name(key)} {best} against {mine}")
    parts = [f"{who} {comparison.ours}: {_joined(what)}" for who, what in told.items()]
    return f"At the top of the list, {'; '.join(parts)}." if parts else ""


def _ahead(comparison: Comparison) -> dict[str, tuple[list[str], str, str]]:
    """Return who leads at the top where the run does not, the best value and the run's."""
    results = comparison.results
    found: dict[str, tuple[list[str], str, str]] = {}
    ours = next((result for result in results if result.method == comparison.ours), None)
    for key, best in best_values(results).items():
        mine = measured(ours, key) if ours else None
        if key in _TOP and mine is not None and percent(mine) != best:
            found[key] = (_leaders(results, key, best), best, percent(mine))
    return found


def _leaders(results: Sequence[MethodResult], key: str, best: str) -> list[str]:
    return [
        r.method
        for r in results
        if (value := measured(r, key)) is not None and percent(value) == best
    ]


def verdict(comparison: Comparison) -> str:
    """Say who is best by each metric; methods that look equal on the page share the place.

    Who is behind at the top of the list is called best by nothing.
    """
    results, ahead = comparison.results, _ahead(comparison)
    ours = next((result for result in results if result.method == comparison.ours), None)
    phrases: dict[str, list[str]] = {}
    for key, best in best_values(results).items():
        if key in ahead:
            continue
        leaders = _leaders(results, key, best)
        if best == percent(0.0) and len(leaders) > 1:  # nobody is best at finding nothing
            phrases.setdefault("Every method is at 0 % by", []).append(metric_name(key))
            continue
        many = len(leaders) > 1
        verb = ("have" if many else "has") + " the highest" if ahead else ""
        who = f"{_joined(leaders)} {verb or ('are best by' if many else 'is best by')}"
        what = f"{metric_name(key)} ({best}"
        mine = measured(ours, key) if ours else None
        if mine is not None and comparison.ours not in leaders:
            what += f"; {comparison.ours} {percent(mine)}"
        phrases.setdefault(who, []).append(what + ")")
    told = [ahead_at_top(comparison)] if ahead else []
    return " ".join([*told, *(f"{who} {_joined(parts)}." for who, parts in phrases.items())])


def calibration_choice(probabilities: Probabilities) -> str:
    """Say which calibrator was kept and why."""
    left = {name: loss["unexplained"] for name, loss in probabilities.losses.items()}
    kept = method_name(probabilities.method)
    if probabilities.method not in left or len(left) == 1:
        return f"{kept} turned scores into probabilities."
    lowest = min(left, key=left.__getitem__)
    if left[probabilities.method] > left[lowest] and probabilities.method == "bent":
        return (
            f"{kept} turned scores into probabilities: {method_name(lowest)} is ahead of it on "
            "held-out links by no more than chance, and does not follow the highest scores."
        )
    if left[probabilities.method] > left[lowest]:
        return (
            f"{kept} turned scores into probabilities, although {method_name(lowest)} does "
            "better on held-out links."
        )
    return (
        f"{kept} turned scores into probabilities: of {len(left)} methods it leaves the least "
        "uncertainty about held-out links."
    )


def shift_sentence(shift: Mapping[str, Any]) -> str:
    """Say whether the probabilities hold where more links are encoded than in training."""
    if shift.get("warning"):
        return str(shift["warning"])
    top = shift["top"]
    return (
        "The probabilities hold where more links are encoded than in training: of the validation "
        f"links they promise {about(shift['expected'])} where there are {shift['observed']:,}, and "
        f"among the best {top['pairs']:,} pairs {about(top['expected'])} where there are "
        f"{top['observed']:,}."
    )


def _joined(parts: Sequence[str]) -> str:
    """Return the parts with commas and a last "and"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
