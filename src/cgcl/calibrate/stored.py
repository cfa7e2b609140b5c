"""A calibration read back from JSON that anybody may have changed."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from cgcl.calibrate.calibration import Calibration
from cgcl.calibrate.curve import Curve, Knots, Line, Margin
from cgcl.errors import ModelFileError
from cgcl.graph.wording import shown

__all__ = ["read_calibration"]

_LINES = ("temperature", "platt")
_METHODS = (*_LINES, "isotonic", "bent")
_KEYS = ("method", "curve", "prior", "losses", "counts", "shift", "notes", "margin")
_COUNTS = ("links", "non_links", "unknown_pairs")
_MAX_KNOTS = 10_000


def read_calibration(found: Any) -> Calibration:  # noqa: ANN401
    """Return the calibration that `Calibration.to_json` described.

    Raises:
        ModelFileError: Something is missing, of the wrong kind, or out of range.
    """
    if isinstance(found, dict):
        found = {"margin": None, **found}  # earlier versions knew of none
    parts = _mapping(found, "it", _KEYS)
    method = parts["method"]
    if not isinstance(method, str) or method not in _METHODS:
        raise _damaged(f"its method is not one of {', '.join(_METHODS)}")
    prior = _number(parts["prior"], "its base rate")
    if not 0 < prior < 1:
        raise _damaged(f"its base rate is {prior}, not between 0 and 1")
    counts = _mapping(parts["counts"], "its counts", _COUNTS)
    if any(type(count) is not int or count < 0 for count in counts.values()):
        raise _damaged("its counts are not whole numbers")
    notes = parts["notes"]
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise _damaged("its notes are not a list of sentences")
    return Calibration(
        method,
        _line(parts["curve"]) if method in _LINES else _knots(parts["curve"], method),
        prior,
        _losses(parts["losses"]),
        counts,
        _shift(parts["shift"]),
        tuple(notes),
        _margin(parts["margin"]),
    )


def _line(found: Any) -> Curve:  # noqa: ANN401
    parts = _mapping(found, "its curve", ("slope", "offset"))
    slope, offset = (_number(parts[name], f"its {name}") for name in ("slope", "offset"))
    if slope < 0:
        raise _damaged(f"its slope is {slope}, so that better scores would mean fewer links")
    return Line(slope, offset)


def _knots(found: Any, method: str) -> Curve:  # noqa: ANN401
    ends = () if method == "isotonic" else ("below", "above")
    parts = _mapping(found, "its curve", ("logits", "log_ratios", *ends))
    logits, ratios = _points(parts, "log_ratios")
    if any(after < before for before, after in pairwise(ratios)):
        raise _damaged("its log ratios decrease")
    slopes = [_number(parts[name], f"its slope {name}") for name in ends]
    if any(slope < 0 for slope in slopes):
        raise _damaged("better scores would mean fewer links beyond an end of its curve")
    return Knots(logits, ratios, *slopes)


def _margin(found: Any) -> Margin | None:  # noqa: ANN401
    if found is None:
        return None
    logits, widths = _points(_mapping(found, "its margin", ("logits", "widths")), "widths")
    if any(width < 0 for width in widths):
        raise _damaged("a width of its margin is below 0")
    return Margin(logits, widths)


def _points(parts: dict[str, Any], name: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return logits and as many numbers by some name."""
    logits, values = _numbers(parts["logits"], "logits"), _numbers(parts[name], name)
    if len(logits) != len(values):
        raise _damaged(f"it has {len(logits)} logits and {len(values)} {name}")
    if any(after <= before for before, after in pairwise(logits)):
        raise _damaged("its logits do not increase")
    return logits, values


def _losses(found: Any) -> dict[str, dict[str, float]]:  # noqa: ANN401
    losses = _mapping(found, "its losses")
    return {
        name: {kind: _number(loss, "a loss") for kind, loss in _mapping(of, "a loss").items()}
        for name, of in losses.items()
    }


def _shift(found: Any) -> dict[str, Any] | None:  # noqa: ANN401
    if found is None:
        return None
    shift = _mapping(found, "its shift", ("expected", "observed", "ratio", "top", "warning"))
    top = _mapping(shift["top"], "its shift", ("pairs", "expected", "observed", "ratio"))
    _number(top["pairs"], "its number of best pairs")
    for region in (shift, top):
        _number(region["expected"], "an expected number of links")
        _number(region["observed"], "an observed number of links")
        if region["ratio"] is not None:
            _number(region["ratio"], "the ratio of its shift")
    if not isinstance(shift["warning"], str | None):
        raise _damaged("its warning is no sentence")
    return shift


def _mapping(found: Any, what: str, keys: tuple[str, ...] = ()) -> dict[str, Any]:  # noqa: ANN401
    """Return a mapping with exactly these keys, or with any text keys if none are given."""
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise _damaged(f"{what} is no mapping")
    if keys and set(found) != set(keys):
        wrong = sorted(set(found) ^ set(keys))
        raise _damaged(f"{what} should have {', '.join(keys)}; wrong: {shown(', '.join(wrong))}")
    return found


def _numbers(found: Any, name: str) -> tuple[float, ...]:  # noqa: ANN401
    if not isinstance(found, list) or not 1 <= len(found) <= _MAX_KNOTS:
        raise _damaged(f"its {name} are not a list of 1 to {_MAX_KNOTS:,} numbers")
    return tuple(_number(value, f"one of its {name}") for value in found)


def _number(found: Any, what: str) -> float:  # noqa: ANN401
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise _damaged(f"{what} is not a number")
    try:
        value = float(found)
    except OverflowError:  # a whole number of hundreds of digits
        value = math.inf
    if not math.isfinite(value):
        raise _damaged(f"{what} is {value}, not a finite number")
    return value


def _damaged(why: str) -> ModelFileError:
    return ModelFileError(
        f"The model's calibration is damaged: {why}.\nTrain again with cgcl train."
    )
