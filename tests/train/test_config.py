from __future__ import annotations

import inspect
import math
from dataclasses import fields

import pytest

from cgcl import LinkPredictor
from cgcl.errors import ConfigError
from cgcl.methods.settings import PRESETS, CGCLSettings
from cgcl.settings import pick
from cgcl.train.config import Resources, SplitConfig

KINDS = (CGCLSettings, SplitConfig, Resources)


@pytest.mark.parametrize(
    ("kind", "setting", "text"),
    [
        (CGCLSettings, {"hidden": 1}, "hidden is 1; it must be at least 2 and at most 65,536."),
        (CGCLSettings, {"input_dropout": 1.0}, "input_dropout is 1.0; it must be at least 0 and"),
        (CGCLSettings, {"decoder_dropout": -0.1}, "decoder_dropout is -0.1; it must be at least 0"),
        (
            CGCLSettings,
            {"product": "outer"},
            "product is 'outer'; it must be one of hadamard, inner.",
        ),
        (
            CGCLSettings,
            {"last_layer": "tanh"},
            "last_layer is 'tanh'; it must be one of linear, relu",
        ),
        (CGCLSettings, {"targets": "soft"}, "targets is 'soft'; it must be one of hard, sigmoid."),
        (CGCLSettings, {"hidden": 64.5}, "hidden is 64.5; it must be a whole number."),
        (CGCLSettings, {"hidden": True}, "hidden is True; it must be a whole number."),
        (CGCLSettings, {"epochs": "5"}, "epochs is '5'; it must be a whole number."),
        (CGCLSettings, {"lr": None}, "lr is None; it must be a number."),
        (Resources, {"device": None}, "device is None; it must be text."),
        (Resources, {"engine": "slow"}, "engine is 'slow'; it must be one of auto, plain."),
        (
            Resources,
            {"precision": "fp8"},
            "precision is 'fp8'; it must be one of tf32, fp32.",
        ),
        (Resources, {"deterministic": 1}, "deterministic is 1; it must be true or false."),
        (Resources, {"time_limit": 5}, "time_limit is 5; it must be text."),
        (Resources, {"track_consistency": 1}, "track_consistency is 1; it must be true or false."),
        (CGCLSettings, {"lr": 0}, "lr is 0; it must be above 0 and at most 10."),
        (CGCLSettings, {"lr": math.nan}, "lr is nan; it must be above 0"),
        (CGCLSettings, {"lr": math.inf}, "lr is inf; it must be above 0"),
        (CGCLSettings, {"epochs": 0}, "epochs is 0; it must be at least 1"),
        (CGCLSettings, {"weight_decay": -1}, "weight_decay is -1; it must be at least 0"),
        (CGCLSettings, {"evaluate_every": 0}, "evaluate_every is 0; it must be at least 1"),
        (CGCLSettings, {"clip": -1.0}, "clip is -1.0; it must be at least 0 and at most 1,000,000"),
        (SplitConfig, {"val": 1.0}, "val is 1.0; it must be at least 0 and below 1."),
        (SplitConfig, {"test": -0.1}, "test is -0.1; it must be at least 0"),
        (SplitConfig, {"val": 0.5, "test": 0.5}, "leave no links to learn from"),
        (SplitConfig, {"seed": -1}, "seed is -1; it must be at least 0"),
        (CGCLSettings, {"views": "three"}, "views is 'three'; it must be one of disjoint, shared"),
        (CGCLSettings, {"negatives": "all"}, "negatives is 'all'; it must be one of train, view."),
        (Resources, {"threads": -1}, "threads is -1; it must be at least 0"),
        (Resources, {"checkpoint_every": -1}, "checkpoint_every is -1; it must be at least 0"),
        (Resources, {"device": "gpu"}, "device is 'gpu'; it must be auto, cpu, cuda or cuda:N."),
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


def test_the_paper_preset_is_what_the_authors_ran() -> None:
    settings = pick(CGCLSettings, PRESETS["paper"])
    assert (settings.hidden, settings.input_dropout, settings.decoder_dropout) == (512, 0.8, 0.2)
    assert (settings.lr, settings.epochs, settings.views) == (0.005, 800, "directed")
    assert (settings.weight_decay, settings.clip) == (1e-5, 0.0)


def test_presets_name_settings_that_exist() -> None:
    known = {field.name for field in fields(CGCLSettings)}
    assert all(set(preset) <= known for preset in PRESETS.values())


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
