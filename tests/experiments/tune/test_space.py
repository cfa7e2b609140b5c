from __future__ import annotations

import pytest

from cgcl.errors import ConfigError
from cgcl.experiments.search import Space
from cgcl.methods.table import method_named


def test_a_search_begins_with_the_defaults_and_the_authors_settings() -> None:
    starts = Space.of("cgcl", "cora", {}).starts
    assert [start.origin for start in starts] == ["defaults", "authors"]
    assert (starts[0].settings["hidden"], starts[0].settings["views"]) == (128, "disjoint")
    assert (starts[1].settings["hidden"], starts[1].settings["views"]) == (512, "directed")
    # What the authors do not say is as by default.
    assert starts[1].settings["input_dropout"] == starts[0].settings["input_dropout"]


def test_authors_that_use_the_defaults_get_no_trial_of_their_own() -> None:
    assert [start.origin for start in Space.of("mlp", "cora", {}).starts] == ["defaults"]


def test_what_is_fixed_is_not_searched_and_holds_for_the_authors_too() -> None:
    space = Space.of("cgcl", "cora", {"epochs": 7, "val": 0.2})
    assert "epochs" not in space.choices
    assert [start.settings["epochs"] for start in space.starts] == [7, 7]
    assert "val" not in space.base


def test_the_space_holds_what_can_be_chosen_and_nothing_else() -> None:
    space = Space.of("cgcl", "cora", {})
    assert space.contains(space.base)
    assert space.contains({**space.base, "hidden": 512})
    assert not space.contains({**space.base, "hidden": 100})
    # Beyond what is searched, the authors differ: their trial says nothing about the others.
    assert not space.contains(space.authors)


def test_every_place_is_another_choice() -> None:
    space = Space.of("mlp", "cora", {"hidden": 8})
    places = [space.at(place) for place in range(space.size)]
    assert space.size == 3 * 3 * 3
    assert all(space.contains(settings) for settings in places)
    assert all(one not in places[:number] for number, one in enumerate(places))


@pytest.mark.parametrize(
    ("method", "fixed", "text"),
    [
        ("common-neighbours", {}, "common-neighbours has no settings that are worth a search"),
        ("mlp", dict.fromkeys(method_named("mlp").search, 0.5) | {"hidden": 8}, "all are fixed"),
        ("mlp", {"hops": 2}, "mlp has no setting hops"),
        ("mlp", {"epochs": 0}, "epochs is 0"),
        ("mpl", {}, "Did you mean mlp?"),
    ],
)
def test_what_cannot_be_searched_is_refused(method, fixed, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Space.of(method, "cora", fixed)
