"""Who takes part and with which settings."""

from dataclasses import replace

import pytest
import torch

from cgcl.errors import ConfigError
from cgcl.experiments import Plan
from cgcl.experiments.comparison import TunedSettings, names_of, read_tuned, resolve_methods
from cgcl.experiments.search import best_file
from cgcl.methods.settings import PRESETS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cgcl,vgea", "method is 'vgea'; it must be one of"),
        (" , ", "methods is ' , '; give names with commas"),
    ],
)
def test_a_wrong_list_of_methods_is_refused(text, message):
    with pytest.raises(ConfigError, match=message):
        names_of(text)


def test_authors_settings_are_taken_where_there_are_any(two_cliques):
    rows, notes = resolve_methods(two_cliques, ["cgcl", "mlp", "adamic-adar"], Plan(test=0.2))
    assert notes == []
    assert [(row.title, row.source) for row in rows] == [
        ("CGCL", "authors"),
        ("Features only (MLP)", "default"),
        ("Adamic-Adar", ""),
    ]
    assert rows[0].settings["hidden"] == PRESETS["paper"]["hidden"]
    assert rows[0].recipe.split.test == 0.2
    plain, _ = resolve_methods(two_cliques, ["cgcl"], Plan(), settings="default")
    assert (plain[0].source, plain[0].settings["hidden"]) == ("default", 128)


def test_a_common_number_of_epochs_holds_for_whoever_is_trained(two_cliques):
    rows, _ = resolve_methods(two_cliques, ["mlp", "adamic-adar"], Plan(), epochs=7)
    assert rows[0].settings["epochs"] == 7
    assert rows[0].source == "default, epochs 7"
    assert rows[1].source == ""
    with pytest.raises(ConfigError, match="epochs is 0"):
        resolve_methods(two_cliques, ["mlp"], Plan(), epochs=0)


def test_tuned_settings_make_a_row_more(two_cliques):
    tuned = {"mlp": TunedSettings({"hidden": 16}, 20), "vgae": TunedSettings({})}
    rows, _ = resolve_methods(two_cliques, ["cgcl", "mlp"], Plan(), tuned=tuned)
    assert [(row.title, row.source) for row in rows] == [
        ("CGCL", "authors"),
        ("Features only (MLP)", "default"),
        ("Features only (MLP) tuned", "tuned, 20 trials"),
    ]
    assert [row.settings["hidden"] for row in rows[1:]] == [128, 16]


def test_what_says_nothing_across_two_sides_is_left_out(two_cliques):
    sides = torch.arange(20) >= 10
    graph = replace(two_cliques, edges=torch.stack([torch.arange(10), torch.arange(10, 20)]))
    graph = replace(graph, sides=sides)
    rows, notes = resolve_methods(graph, ["mlp", "common-neighbours"], Plan())
    assert [row.name for row in rows] == ["mlp"]
    assert notes == [
        "Common neighbours is left out: it says nothing about two nodes on different sides of a "
        "bipartite graph."
    ]
    with pytest.raises(ConfigError, match="No method is left to compare"):
        resolve_methods(graph, ["common-neighbours"], Plan())


def test_what_a_search_wrote_is_read_with_its_number_of_trials(tmp_path):
    settings = {"lr": 0.005, "hidden": 64}
    comments = ["Chosen.", "Trials: 12 of 20; this is trial 3"]
    for name, content in {
        "tune-toy-mlp": best_file("mlp", settings, {"seed": 0, "val": 0.1}, comments),
        "tune-other-vgae": best_file("vgae", {}, {}, []),
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "best.toml").write_bytes(content)
    (tmp_path / "cgcl.toml").write_text('[train]\nmethod = "cgcl"\n[train.set]\nhidden = 32\n')
    own, other = TunedSettings(settings, 12), TunedSettings({"hidden": 32}, None)
    assert read_tuned(tmp_path, "toy") == {"mlp": own, "cgcl": other}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[train\n", "is not valid TOML"),
        ("[predict]\ntop = 3\n", "names no method"),
        ('[train]\nmethod = "cgl"\n', "method is 'cgl'"),
        ('[train]\nmethod = "mlp"\nset = 3\n', "it must be a table"),
    ],
)
def test_a_settings_file_that_cannot_be_used_is_refused(tmp_path, content, message):
    (tmp_path / "a.toml").write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_tuned(tmp_path, "toy")


def test_two_files_for_one_method_and_none_at_all_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="holds no settings for 'toy'"):
        read_tuned(tmp_path, "toy")
    with pytest.raises(ConfigError, match="There is no folder"):
        read_tuned(tmp_path / "nowhere", "toy")
    for name in ("a.toml", "b.toml"):
        (tmp_path / name).write_text('[train]\nmethod = "mlp"\n')
    with pytest.raises(ConfigError, match=r"both hold settings for mlp"):
        read_tuned(tmp_path, "toy")


def test_an_unknown_setting_in_a_file_is_refused(two_cliques):
    with pytest.raises(ConfigError, match="mlp has no setting breadth"):
        resolve_methods(two_cliques, ["mlp"], Plan(), tuned={"mlp": TunedSettings({"breadth": 3})})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"runs": 0}, "runs is 0; it must be at least 1"),
        ({"test": 0.0}, "test is 0.0; it must be above 0"),
        ({"protocol": "folds"}, "protocol is 'folds'; it must be one of splits, paper."),
        ({"val": 0.5, "test": 0.5}, "val 0.5 and test 0.5 leave no links to learn from."),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    with pytest.raises(ConfigError) as refused:
        Plan(**settings)
    assert message in str(refused.value)
