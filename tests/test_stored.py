"""JSON of ours: parsed and checked in one place."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from cgcl.stored import fits, misfits, parse_json, shapes_of


@dataclass
class Kept:
    name: str
    seed: int
    auc: float | None
    origin: Literal["a", "b"]
    metrics: dict[str, float]
    losses: list[float]
    more: dict[str, Any]


SOUND = {
    "name": "x",
    "seed": 1,
    "auc": None,
    "origin": "a",
    "metrics": {"ap": 1},
    "losses": [0.5],
    "more": {"of": [None, "anything"]},
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", 3),
        ("seed", 1.5),
        ("seed", True),
        ("auc", "high"),
        ("auc", 10**400),
        ("auc", float("nan")),
        ("origin", 0),
        ("metrics", {"ap": None}),
        ("metrics", [1.0]),
        ("losses", [[0.5]]),
        ("more", None),
    ],
)
def test_what_does_not_fit_the_type_of_its_field_is_named(name: str, value) -> None:
    assert misfits(SOUND, shapes_of(Kept)) == []
    assert misfits(SOUND | {name: value}, shapes_of(Kept)) == [name]
    rest = {own: kept for own, kept in SOUND.items() if own != name}
    assert misfits(rest, shapes_of(Kept)) == [name]


def test_names_of_later_versions_are_welcome_unless_a_shape_is_all_there_is() -> None:
    assert fits({"a": 1, "b": 2}, {"a": int}, exactly=False)
    assert not fits({"a": 1, "b": 2}, {"a": int})
    assert not fits([{"a": 1, "b": 2}], [{"a": int}])


@pytest.mark.parametrize("text", ["", "{", b"\xff", "[" * 100_000 + "]" * 100_000])
def test_text_that_is_no_json_is_a_value_error_however_deep(text) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parse_json(text)
