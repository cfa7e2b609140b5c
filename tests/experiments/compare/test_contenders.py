"""Who takes part and with which settings."""

from dataclasses import replace

import pytest
import torch

from cgcl.errors import ConfigError
from cgcl.experiments import Plan
from cgcl.experiments.comparison import TunedSettings, names_of, read_tuned, resolve_methods
from cgcl.experiments.search import best_file
from cgcl.methods.settings import PRESETS

PAPER_WIDTH = PRESETS["paper"]["hidden"]
TUNED = {"mlp": TunedSettings({"hidden": 16}, 20), "vgae": TunedSettings({})}
MLP = "Features only (MLP)"


@pytest.mark.parametrize(
    ("methods", "asked", "rows"),
    [
        ("cgcl,mlp", {}, {"CGCL": ("authors", PAPER_WIDTH), MLP: ("default", 128)}),
        ("cgcl", {"settings": "default"}, {"CGCL": ("default", 128)}),
        # It holds for whoever is trained.
        ("mlp,katz", {"epochs": 7}, {MLP: ("default, epochs 7", 128), "Katz": ("default", None)}),
        ("adamic-adar", {"epochs": 7}, {"Adamic-Adar": ("", None)}),
        (
            "mlp",
            {"tuned": TUNED},
            {MLP: ("default", 128), f"{MLP} tuned": ("tuned, 20 trials", 16)},
        ),
    ],
)
def test_each_method_has_the_settings_that_are_asked_for(two_cliques, methods, asked, rows):
    found, notes = resolve_methods(two_cliques, names_of(methods), Plan(test=0.2), **asked)
    assert {own.title: (own.source, own.settings.get("hidden")) for own in found} == rows
    assert ([own.title for own in found], notes) == ([*rows], [])
    assert {own.recipe.split.test for own in found} == {0.2}
    if "epochs" in asked:
        assert {own.recipe.epochs for own in found} <= {0, 7}


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
    ("files", "message"),
    [
        (["[train\n"], "is not valid TOML"),
        (["[predict]\ntop = 3\n"], "names no method"),
        (['[train]\nmethod = "cgl"\n'], "method is 'cgl'"),
        (['[train]\nmethod = "mlp"\nset = 3\n'], "it must be a table"),
        (['[train]\nmethod = "mlp"\n'] * 2, "both hold settings for mlp"),
        ([], "holds no settings for 'toy'"),
    ],
)
def test_settings_files_that_cannot_be_used_are_refused(tmp_path, files, message):
    for number, content in enumerate(files):
        (tmp_path / f"{number}.toml").write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_tuned(tmp_path, "toy")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"methods": " , "}, "methods is ' , '; give names with commas"),
        ({"epochs": 0}, "epochs is 0"),
        ({"tuned": {"mlp": TunedSettings({"breadth": 3})}}, "mlp has no setting breadth"),
        ({"protocol": "folds"}, "protocol is 'folds'; it must be one of splits, paper."),
        ({"val": 0.5, "test": 0.5}, "val 0.5 and test 0.5 leave no links to learn from."),
    ],
)
def test_what_makes_no_sense_is_refused(two_cliques, asked, message):
    how = {name: asked[name] for name in ("epochs", "tuned") if name in asked}
    plan = {name: asked[name] for name in asked if name not in (*how, "methods")}
    with pytest.raises(ConfigError, match=message):
        resolve_methods(two_cliques, names_of(asked.get("methods", "mlp")), Plan(**plan), **how)
