from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

import pytest

from cgcl.errors import ConfigError
from cgcl.methods.networks import FeaturesMLPSettings
from cgcl.methods.settings import CGCLSettings, MethodSettings, TrainedSettings
from cgcl.train.config import Recipe, SplitConfig


@dataclass(frozen=True)
class ByRank(TrainedSettings):
    choose_by: Literal["auc", "node_mrr"] = "node_mrr"


def test_settings_and_shares_are_told_apart_by_name() -> None:
    found = Recipe.of("cgcl", {"hidden": 16, "val": 0.1, "seed": 3})
    assert found == Recipe("cgcl", CGCLSettings(hidden=16), SplitConfig(val=0.1, seed=3))
    assert found.method.title == "CGCL"
    assert Recipe.of("mlp", {"hidden": 4}).settings == FeaturesMLPSettings(hidden=4)
    assert Recipe.of("adamic-adar", {}).settings == MethodSettings()


def test_what_is_not_told_is_as_by_default() -> None:
    assert Recipe.of("cgcl", {}) == Recipe("cgcl", CGCLSettings(), SplitConfig())


def test_a_setting_of_another_method_is_refused_with_those_it_has() -> None:
    with pytest.raises(ConfigError) as error:
        Recipe.of("mlp", {"views": "one", "hops": 2, "hidden": 8})
    assert str(error.value) == (
        "mlp has no setting hops, views. It has choose_by, clip, decoder_dropout, epochs, "
        "evaluate_every, hidden, input_dropout, lr, weight_decay."
    )
    with pytest.raises(ConfigError) as error:
        Recipe.of("adamic-adar", {"lr": 0.1})
    assert str(error.value) == "adamic-adar has no setting lr. It has none."
    with pytest.raises(ConfigError, match="cgcl has no setting device"):
        Recipe.of("cgcl", {"device": "cpu"})


def test_values_are_checked() -> None:
    with pytest.raises(ConfigError, match="hidden is 1; it must be at least 2"):
        Recipe.of("cgcl", {"hidden": 1})
    with pytest.raises(ConfigError, match="leave no links to learn from"):
        Recipe.of("adamic-adar", {"val": 0.5, "test": 0.5})


def test_a_method_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"method is 'vgea'; .* Did you mean vgae\?"):
        Recipe.of("vgea", {})


def test_epochs_are_none_where_there_is_nothing_to_train() -> None:
    assert Recipe.of("cgcl", {"epochs": 7}).epochs == 7
    assert Recipe.of("adamic-adar", {}).epochs == 0


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cgcl", {"hidden": 16, "views": "directed", "test": 0.2}),
        ("mlp", {"lr": 0.5, "seed": 9}),
        ("adamic-adar", {"val": 0.0}),
    ],
)
def test_a_recipe_survives_json(name: str, values: dict) -> None:
    recipe = Recipe.of(name, values)
    stored = json.loads(json.dumps(recipe.to_json()))
    assert stored["method"] == name
    assert values.items() <= stored.items()
    assert Recipe.from_json(stored) == recipe
    # A run keeps where it was computed in the same mapping.
    assert Recipe.from_json({**stored, "device": "cpu", "threads": 2}) == recipe


def test_json_that_names_no_method_or_a_wrong_one_is_refused() -> None:
    with pytest.raises(KeyError):
        Recipe.from_json({"hidden": 8})
    with pytest.raises(ConfigError, match="method is 'oracle'"):
        Recipe.from_json({"method": "oracle"})
    with pytest.raises(ConfigError, match="hidden is '8'"):
        Recipe.from_json({"method": "cgcl", "hidden": "8"})


def test_a_setting_that_came_later_is_told_only_where_it_matters() -> None:
    """Runs from before it are recognised as the same runs."""
    assert "choose_by" not in Recipe.of("cgcl", {}).to_json()
    chosen = Recipe.of("cgcl", {"choose_by": "node_mrr"})
    assert chosen.to_json()["choose_by"] == "node_mrr"
    assert Recipe.from_json(chosen.to_json()) == chosen

    # Where something else is the default, both must be told.
    assert ByRank().to_json()["choose_by"] == "node_mrr"
    assert ByRank(choose_by="auc").to_json()["choose_by"] == "auc"
