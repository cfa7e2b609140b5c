"""Experiments as data: what is committed is understood, what is not understood is refused."""

import itertools

import pytest

from cgcl.errors import ConfigError
from cgcl.experiments.study import FOLDER, NAMES, Selection, jobs_of, read_experiment

SMALL = """
title = "Small"
graphs = ["cora", "photo"]
test = [10]
protocols = ["splits"]
runs = 4
"""


@pytest.fixture
def described(tmp_path):
    """Read an experiment that is written as text."""

    def read(text, head=SMALL):
        (tmp_path / "small.toml").write_text(head + text)
        return read_experiment("small", tmp_path)

    return read


def rows_with(text):
    return f'[rows.cgcl]\nmethod = "cgcl"\n{text}\n'


def test_every_file_is_an_experiment_or_one_of_three_others_and_no_other_is_there():
    assert {path.stem for path in FOLDER.glob("*.toml")} == {*NAMES, "paper", "chosen", "family"}
    with pytest.raises(ConfigError) as refused:
        read_experiment("fig5")
    assert str(refused.value) == (
        "There is no experiment fig5. There are chosen, claims, family, fig2, fig3, fig4, grid, "
        "paper, table1, table2."
    )


@pytest.mark.parametrize(
    ("head", "text", "told"),
    [
        ('epochs = 3\ncolour = "red"\n', "", "small: colour, epochs is not understood. It may "),
        ("", "setting = { lr = 1.0 }", "small, row cgcl: setting is not understood. It may have "),
        (
            "",
            "on.photo = { epochs = 3 }",
            "row cgcl on photo: epochs is not understood. It may have chosen, runs, settings.",
        ),
        (
            "",
            "grid = { lr = [0.1, 0.2] }\non.photo = { settings = { lr = 0.3 } }",
            "small, row cgcl: lr is varied by the grid and set on photo. Leave out one of them.",
        ),
    ],
)
def test_what_is_not_understood_is_refused(described, head, text, told):
    with pytest.raises(ConfigError) as refused:
        described(rows_with(text), SMALL + head)
    assert told in str(refused.value)


def test_a_grid_is_every_combination_in_order_and_a_row_may_have_its_own(described):
    of = described(
        "settings = { hidden = 8, epochs = 3 }\n[grid]\nhidden = [4, 2]\nlr = [0.1, 0.2]\n"
        '[rows.one]\nmethod = "cgcl"\nsettings = { epochs = 7 }\n'
        '[rows.two]\nmethod = "vgae"\ngrid = { lr = [0.3] }\n'
    )
    cells = list(itertools.product([4, 2], [0.1, 0.2]))
    both = ("hidden", "lr")
    assert [(row.name, row.searched, row.settings) for row in of.rows] == [
        *(
            (f"one hidden={h} lr={lr}", both, {"hidden": h, "epochs": 7, "lr": lr})
            for h, lr in cells
        ),
        ("two lr=0.3", ("lr",), {"hidden": 8, "epochs": 3, "lr": 0.3}),
    ]


@pytest.mark.parametrize(
    ("where", "rates"),
    [
        ('chosen = ["lr"]', {"cora": 0.2, "photo": 0.3}),
        ('on.photo = { chosen = ["lr"] }', {"cora": 0.1, "photo": 0.3}),  # on one graph alone
    ],
)
def test_what_was_chosen_wins_over_what_is_described(described, where, rates):
    of = described(rows_with(f"settings = {{ hidden = 4, lr = 0.1 }}\n{where}"))
    chosen = {"cgcl-cora-10": {"lr": 0.2, "hidden": 64}, "cgcl-photo-10": {"lr": 0.3, "hidden": 64}}
    places = {place.graph: own[0] for place, own in jobs_of(of, Selection(), chosen).items()}
    assert {graph: own.recipe.settings.lr for graph, own in places.items()} == rates
    assert {own.recipe.settings.hidden for own in places.values()} == {4}
    with pytest.raises(ConfigError, match="No lr of cgcl was chosen for photo with 10 %"):
        jobs_of(of, Selection(), {"cgcl-cora-10": {"lr": 0.2}})
    some = jobs_of(of, Selection(), {}, only_chosen=True)
    assert [place.graph for place in some] == [graph for graph in rates if rates[graph] == 0.1]
