import pytest
import torch

from cgcl.errors import ModelFileError
from cgcl.graph import Graph
from cgcl.methods.method import Learner, TrainingGraph
from cgcl.split import random_split
from cgcl.tensors import write_tensors
from cgcl.train.config import RunConfig
from cgcl.train.fit import Fitted
from cgcl.train.run_folder import count_weights, read_model, write_model
from cgcl.train.trainer import build_learner

OPTIONS = {"hidden": 8, "product": "inner", "last_layer": "relu", "targets": "sigmoid"}
RECIPE = RunConfig.of("cgcl", {**OPTIONS, "val": 0.1, "seed": 3})


def fitted(learner: Learner, recipe: RunConfig) -> Fitted:
    pairs = torch.combinations(torch.arange(5)).T
    graph = Graph.from_pairs("five", list("abcde"), pairs[:, ::2], torch.eye(5))
    split = random_split(graph, 0.0, 0.0)
    return Fitted(graph, split, learner, recipe, None, [], 3, {"auc": 0.5}, None)


def test_a_model_is_read_back_with_its_options(tmp_path) -> None:
    model = build_learner(5, RECIPE)
    write_model(tmp_path / "m", fitted(model, RECIPE))
    again, recipe, about = read_model(tmp_path / "m")
    assert recipe == RECIPE
    assert (about["best_epoch"], about["val"], about["calibration"]) == (3, {"auc": 0.5}, None)
    assert again.targets == "sigmoid"
    assert again.decode.product == "inner"
    assert again.decode.last_layer == "relu"
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])


ABOUT = {"graph": "", "split": "", "best_epoch": 1, "val": None, "test": None, "calibration": None}


def stored(tmp_path, tensors, num_features: int = 5, kind: str = "cgcl model 2", **told):
    recipe = {"method": "cgcl", "hidden": 8, "product": "inner", **told}
    description = {"recipe": recipe, "num_features": num_features, "about": ABOUT}
    write_tensors(tmp_path / "m", kind, tensors, description)
    return tmp_path / "m"


def test_a_model_from_before_scores_had_an_offset_answers_as_it_did(tmp_path) -> None:
    model = build_learner(5, RunConfig.of("cgcl-rank", {"hidden": 8}))
    model.offset.fill_(2.0)
    tensors = model.state_dict()
    del tensors["offset"]
    again, *_ = read_model(stored(tmp_path, tensors, method="cgcl-rank"))
    assert again.offset == 0
    for name, value in tensors.items():
        assert torch.equal(value, again.state_dict()[name])
    known = TrainingGraph(3, torch.tensor([[0], [1]]), torch.eye(3, 5))
    pairs = torch.tensor([[0, 1], [2, 2]])
    now, before = (learner.scorer(known).logits(pairs) for learner in (model, again))
    torch.testing.assert_close(before, now + 2)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("encode.weight", torch.zeros(5, 9), r"encode\.weight is \(5, 9\), expected \(5, 8\)"),
        ("encode.bias", None, r"encode\.bias is missing, expected \(8,\)"),
        ("extra", torch.ones(2), r"extra is \(2,\), expected nothing of that name"),
        ("encode.bias", torch.full((8,), torch.nan), r"encode\.bias holds NaN or infinite"),
    ],
)
def test_tensors_that_are_not_the_models_are_named(tmp_path, name, value, text: str) -> None:
    tensors = {**build_learner(5, RECIPE).state_dict(), name: value}
    there = {key: tensor for key, tensor in tensors.items() if tensor is not None}
    with pytest.raises(ModelFileError, match=text):
        read_model(stored(tmp_path, there))
    with pytest.raises(ModelFileError, match="cgcl model 1"):
        read_model(stored(tmp_path, there, kind="cgcl model 1"))


def test_a_huge_model_in_a_small_file_is_refused_before_memory_is_taken(tmp_path) -> None:
    tensors = build_learner(5, RECIPE).state_dict()
    with pytest.raises(ModelFileError, match="expected"):
        read_model(stored(tmp_path, tensors, hidden=65536, num_features=10**9))


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"hidden": 0}, "hidden is 0; it must be at least 2"),
        ({"hidden": "8"}, "hidden is '8'; it must be a whole number"),
        ({"method": "oracle"}, "method is 'oracle'; it must be one of cgcl, "),
        ({"method": None}, "method is None; it must be one of"),
        ({"num_features": "many"}, "num_features is missing or of another kind"),
    ],
)
def test_settings_that_make_no_model_are_refused(tmp_path, told, found: str) -> None:
    with pytest.raises(ModelFileError, match="does not say how its model is built") as error:
        read_model(stored(tmp_path, {}, **told))
    assert found in str(error.value)


def test_weights_are_counted_without_being_made() -> None:
    recipe = RunConfig.of("cgcl", {"hidden": 8})
    assert count_weights(5, recipe) == 5 * 8 + 8 + (8 * 4 + 4) + (4 + 1)
    wide = RunConfig.of("cgcl", {"hidden": 65536})
    assert count_weights(10**9, wide) > 6 * 10**13
    assert count_weights(0, RunConfig.of("adamic-adar", {})) == 0
