from __future__ import annotations

import pytest
import torch

from cgcl.errors import ModelFileError
from cgcl.tensors import write_tensors
from cgcl.train.config import ModelConfig
from cgcl.train.model_file import read_model, write_model
from cgcl.train.trainer import build_model

CONFIG = ModelConfig(hidden=8, product="inner", last_layer="relu", targets="sigmoid")


def test_a_model_is_read_back_with_its_options(tmp_path) -> None:
    model = build_model(5, CONFIG, seed=3)
    write_model(tmp_path / "m", model, CONFIG, {"note": 1})
    again, config, about = read_model(tmp_path / "m")
    assert (config, about) == (CONFIG, {"note": 1})
    assert again.targets == "sigmoid"
    assert again.decode.product == "inner"
    assert again.decode.last_layer == "relu"
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])


def stored(tmp_path, tensors, hidden: int = 8, in_channels: int = 5):
    description = {
        "model": {"hidden": hidden, "product": "inner"},
        "in_channels": in_channels,
        "about": {},
    }
    write_tensors(tmp_path / "m", "cgcl model 1", tensors, description)
    return tmp_path / "m"


def test_a_wrong_shape_names_the_tensor_and_both_shapes(tmp_path) -> None:
    tensors = build_model(5, CONFIG, seed=0).state_dict()
    tensors["encode.weight"] = torch.zeros(5, 9)
    with pytest.raises(ModelFileError, match=r"encode\.weight is \(5, 9\), expected \(5, 8\)"):
        read_model(stored(tmp_path, tensors))


def test_a_missing_and_a_surplus_tensor_are_named(tmp_path) -> None:
    tensors = build_model(5, CONFIG, seed=0).state_dict()
    del tensors["encode.bias"]
    with pytest.raises(ModelFileError, match=r"encode\.bias is missing, expected \(8,\)"):
        read_model(stored(tmp_path, tensors))
    tensors = {**build_model(5, CONFIG, seed=0).state_dict(), "extra": torch.ones(2)}
    with pytest.raises(ModelFileError, match=r"extra is \(2,\), expected nothing of that name"):
        read_model(stored(tmp_path, tensors))


def test_weights_that_are_not_finite_are_refused(tmp_path) -> None:
    tensors = build_model(5, CONFIG, seed=0).state_dict()
    tensors["encode.bias"][2] = torch.nan
    with pytest.raises(ModelFileError, match=r"encode\.bias holds NaN or infinite values"):
        read_model(stored(tmp_path, tensors))


def test_a_huge_model_in_a_small_file_is_refused_before_memory_is_taken(tmp_path) -> None:
    tensors = build_model(5, CONFIG, seed=0).state_dict()
    with pytest.raises(ModelFileError, match="expected"):
        read_model(stored(tmp_path, tensors, hidden=65536, in_channels=10**9))


def test_settings_that_make_no_model_are_refused(tmp_path) -> None:
    with pytest.raises(ModelFileError, match="does not say how its model is built"):
        read_model(stored(tmp_path, {}, hidden=0))
