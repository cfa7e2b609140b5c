"""What files of ours say in JSON: parsed and checked in one place, whoever wrote them last."""

from __future__ import annotations

import json
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


def parse_json(text: str | bytes) -> Any:  # noqa: ANN401, what JSON can hold
    """Return what JSON text says.

    Raises:
        ValueError: It is no JSON, or lists within lists so deep that nobody meant them.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def fits(found: Any, shape: Any, *, exactly: bool = True) -> bool:  # noqa: ANN401
    """Say whether something stored has a shape.

    Args:
        found: What JSON holds.
        shape: A type, a list of one for any number of it, a longer list for as many, a mapping of
            names or of any text (`str`) to shapes, a tuple of alternatives, or None. Numbers are
            finite, and True is no number.
        exactly: Whether a mapping of names has no others; files of later versions may.

    Example:
        >>> fits({"auc": 0.9}, {str: float}), fits({"auc": "high"}, {str: float})
        (True, False)
    """
    if isinstance(shape, tuple):
        return any(fits(found, one, exactly=exactly) for one in shape)
    if isinstance(shape, list):
        if not isinstance(found, list) or len(shape) not in (1, len(found)):
            return False
        return all(fits(own, shape[n % len(shape)], exactly=exactly) for n, own in enumerate(found))
    if isinstance(shape, dict):
        return isinstance(found, dict) and not misfits(found, shape, exactly=exactly)
    if shape is object:
        return True
    if shape is None or isinstance(found, bool):  # a bool is an int to Python
        return found is None if shape is None else shape is bool
    if isinstance(found, int) and abs(found) >= 2**63:  # no tensor or float holds all of them
        return False
    if shape is float:  # written so that NaN fails
        return isinstance(found, int | float) and abs(found) < 1e300
    return isinstance(found, shape)


def misfits(found: dict[str, Any], shape: dict[Any, Any], *, exactly: bool = False) -> list[str]:
    """Return the names in a mapping whose values have not their shape; the missing ones, too."""
    if str in shape:
        return [name for name, own in found.items() if not fits(own, shape[str], exactly=exactly)]
    others = sorted(found.keys() - shape.keys()) if exactly else []
    return others + [
        name
        for name, own in shape.items()
        if name not in found or not fits(found[name], own, exactly=exactly)
    ]


@cache
def shapes_of(kind: type) -> dict[str, Any]:
    """Return the shapes of a dataclass's fields, as their types say."""
    return {name: _shape(hint) for name, hint in get_type_hints(kind).items()}


def _shape(hint: Any) -> Any:  # noqa: ANN401, a type hint
    inside = get_args(hint)
    match get_origin(hint):
        case origin if origin is Union or origin is UnionType:
            return tuple(map(_shape, inside))
        case origin if origin is Literal:
            return tuple({type(word) for word in inside})
        case origin if origin is dict:
            return {str: _shape(inside[1])}
        case origin if origin in (list, tuple):
            return [_shape(inside[0])]
    return {NoneType: None, Any: object}.get(hint, hint)
