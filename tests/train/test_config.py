"""What decides a run, and computing with it while leaving the caller's settings as they were."""

import inspect
import math
from dataclasses import dataclass, fields
from typing import Literal

import pytest
import torch

from cgcl import LinkPredictor
from cgcl.errors import ConfigError
from cgcl.methods.networks import FeaturesMLPSettings
from cgcl.methods.settings import CGCLSettings, MethodSettings, TrainedSettings
from cgcl.train import execution
from cgcl.train.config import Resources, RunConfig, SplitConfig
from cgcl.train.execution import computing_with

KINDS = (CGCLSettings, SplitConfig, Resources)


@pytest.mark.parametrize(
    ("kind", "setting", "text"),
    [
        (CGCLSettings, {"hidden": 1}, "hidden is 1; it must be at least 2 and at most 65,536."),
        (CGCLSettings, {"lr": 0}, "lr is 0; it must be above 0 and at most 10."),
        (SplitConfig, {"val": 0.5, "test": 0.5}, "leave no links to learn from"),
        (Resources, {"threads": -1}, "threads is -1; it must be at least 0 and at most 4,096."),
        (Resources, {"device": "gpu"}, "device is 'gpu'; it must be auto, cpu, cuda or cuda:N."),
        (Resources, {"precision": "bf16"}, "precision is 'bf16'; it must be one of tf32, fp32."),
        (Resources, {"time_limit": "soon"}, "time_limit is 'soon'; write a number with s, m or h"),
    ],
)
def test_a_setting_out_of_range_is_refused_with_its_range(kind, setting, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        kind(**setting)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", math.inf), ("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400), ("5 m", 300)],
)
def test_time_limits_are_written_as_people_write_them(text: str, seconds: float) -> None:
    assert Resources(time_limit=text).time_limit_s == seconds


def test_threads_default_to_the_free_cores_but_not_many() -> None:
    assert 1 <= Resources().num_threads <= 4
    assert Resources(threads=7).num_threads == 7


def test_python_and_command_line_have_the_same_settings_and_defaults() -> None:
    """Checkpoints belong to run folders, which only the command line writes."""
    declared = {f.name: f.default for kind in KINDS for f in fields(kind)}
    del declared["checkpoint_every"]
    assert LinkPredictor("cgcl").get_params() == {"method": "cgcl", **declared}


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_is_explained(kind: type) -> None:
    source = "".join(inspect.getsource(base) for base in kind.__mro__[:-1])
    for field in fields(kind):
        line = next(x for x in source.splitlines() if x.strip().startswith(f"{field.name}:"))
        after = source.split(line, 1)[1].lstrip()
        assert after.startswith('"""'), f"{field.name} has no docstring"


def test_settings_and_shares_are_told_apart_by_name() -> None:
    found = RunConfig.of("cgcl", {"hidden": 16, "val": 0.1, "seed": 3})
    assert found == RunConfig("cgcl", CGCLSettings(hidden=16), SplitConfig(val=0.1, seed=3))
    assert found.method.title == "CGCL"
    assert RunConfig.of("mlp", {"hidden": 4}).settings == FeaturesMLPSettings(hidden=4)
    formula = RunConfig.of("adamic-adar", {})
    assert (formula.settings, formula.split) == (MethodSettings(), SplitConfig())
    assert (formula.epochs, RunConfig.of("cgcl", {"epochs": 7}).epochs) == (0, 7)


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        (
            "mlp",
            {"views": "one", "hops": 2, "hidden": 8},
            "mlp has no setting hops, views. It has choose_by, clip, decoder_dropout, epochs, "
            "evaluate_every, hidden, input_dropout, lr, patience, weight_decay.",
        ),
        ("adamic-adar", {"lr": 0.1}, "adamic-adar has no setting lr. It has none."),
        ("cgcl", {"device": "cpu"}, "cgcl has no setting device"),
        ("vgea", {}, "Did you mean vgae?"),
    ],
)
def test_a_recipe_that_cannot_be_made_says_what_there_is(name, values, text: str) -> None:
    with pytest.raises(ConfigError) as error:
        RunConfig.of(name, values)
    assert text in str(error.value)


@dataclass(frozen=True)
class ByRank(TrainedSettings):
    choose_by: Literal["auc", "node_mrr"] = "node_mrr"


def test_a_setting_that_came_later_is_told_only_where_it_matters() -> None:
    """Runs from before it are recognised as the same runs."""
    assert "choose_by" not in RunConfig.of("cgcl", {}).to_json()
    chosen = RunConfig.of("cgcl", {"choose_by": "node_mrr"})
    assert chosen.to_json()["choose_by"] == "node_mrr"
    assert RunConfig.from_json(chosen.to_json()) == chosen
    # Where something else is the default, both must be told.
    assert ByRank().to_json()["choose_by"] == "node_mrr"
    assert ByRank(choose_by="auc").to_json()["choose_by"] == "auc"


@pytest.mark.parametrize(
    ("device", "asked", "expected"),
    [("cuda", True, True), ("cuda", False, False), ("cpu", True, False)],
)
def test_what_computing_changes_is_put_back_even_after_a_failure(
    device: str, asked: bool, expected: bool, monkeypatch
) -> None:
    """Only a GPU is told to add in order, and only for a while."""
    monkeypatch.setattr(execution, "resolve_device", lambda _: torch.device(device))
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    before = torch.get_num_threads()
    here = Resources(deterministic=asked, threads=before + 1)

    def compute() -> None:
        assert torch.get_num_threads() == before + 1
        assert torch.are_deterministic_algorithms_enabled() is expected
        raise KeyError

    with pytest.raises(KeyError), computing_with(here):
        compute()
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == before
