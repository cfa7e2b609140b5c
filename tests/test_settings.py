import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest

from cgcl.errors import ConfigError
from cgcl.settings import Range, Settings, check_range, pick


@dataclass(frozen=True)
class Size(Settings):
    width: int = 8
    share: float = 0.5
    RANGES: ClassVar[Mapping[str, Range]] = {
        "width": Range(low=2, high=4096),
        "share": Range(above=0, below=1),
    }


@dataclass(frozen=True)
class Shape(Size):
    """Adds settings, and another range for one of its base's."""

    width: int = 16
    rounds: int = 1
    kind: Literal["round", "square"] = "round"
    title: str = ""
    is_loud: bool = False
    RANGES: ClassVar[Mapping[str, Range]] = {"rounds": Range(low=1), "width": Range(low=10)}


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({"width": "8"}, "width is '8'; it must be a whole number."),
        ({"width": 8.0}, "width is 8.0; it must be a whole number."),
        ({"share": "a"}, "share is 'a'; it must be a number."),
        ({"share": None}, "share is None; it must be a number."),
        ({"share": True}, "share is True; it must be a number."),
        ({"title": 5}, "title is 5; it must be text."),
        ({"is_loud": 1}, "is_loud is 1; it must be true or false."),
        ({"kind": "flat"}, "kind is 'flat'; it must be one of round, square."),
    ],
)
def test_a_value_of_another_type_is_refused(told: dict, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        Shape(**told)
    assert str(error.value) == text


def test_ranges_of_a_class_and_of_its_bases_hold() -> None:
    assert Size(width=2).width == 2
    with pytest.raises(ConfigError) as error:
        Size(width=1)
    assert str(error.value) == "width is 1; it must be at least 2 and at most 4,096."
    with pytest.raises(ConfigError, match=r"rounds is 0; it must be at least 1\.$"):
        Shape(rounds=0)
    with pytest.raises(ConfigError, match=r"share is 1\.0; it must be above 0 and below 1\.$"):
        Shape(share=1.0)
    # A subclass may narrow a range, and cannot widen it.
    with pytest.raises(ConfigError, match=r"width is 9; it must be at least 10\.$"):
        Shape(width=9)
    with pytest.raises(ConfigError, match="at most 4,096"):
        Shape(width=5000)


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        (Range(low=1), [1, 1.5, 10**9], [0.999, -1]),
        (Range(above=1), [1.001], [1, 0]),
        (Range(high=1), [1, -5], [1.001]),
        (Range(below=1), [0.999, -5], [1, 2]),
        (Range(low=0, below=1), [0, 0.5], [-0.1, 1]),
        (Range(), [-1e300, 0, 1e300], []),
    ],
)
def test_a_bound_counts_or_does_not_as_it_says(bounds, inside, outside) -> None:
    for value in inside:
        check_range("x", value, bounds)
    for value in (*outside, math.nan, math.inf, -math.inf):
        with pytest.raises(ConfigError, match="x is "):
            check_range("x", value, bounds)


def test_settings_are_picked_out_of_a_mapping_that_holds_others() -> None:
    assert pick(Size, {"width": 4, "colour": "red"}) == Size(width=4)
    assert pick(Size, {}) == Size()
    assert pick(Shape, {"width": 40, "kind": "square"}) == Shape(width=40, kind="square")
    with pytest.raises(ConfigError, match="width is 1"):
        pick(Size, {"width": 1})
