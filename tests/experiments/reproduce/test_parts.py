"""Several experiments at once: each gives what it has of what is asked for."""

from __future__ import annotations

import pytest

from cgcl.errors import ConfigError
from cgcl.experiments.study import NAMES, Selection, jobs_of, parts_of, read_experiment

from .conftest import CHOSEN

ALL = [read_experiment(name) for name in NAMES]


def test_everything_is_asked_of_every_experiment() -> None:
    assert parts_of(ALL, Selection()) == dict.fromkeys(NAMES, Selection())


def test_an_experiment_without_any_of_it_is_left_out() -> None:
    parts = parts_of(ALL, Selection(graphs=("cora", "photo"), runs=1))
    assert set(parts) == set(NAMES) - {"fig3"}  # Computers alone
    assert parts["fig2"] == Selection(graphs=("cora",), runs=1)
    assert parts["fig4"] == Selection(graphs=("cora", "photo"), runs=1)
    for experiment in ALL:
        if experiment.name in parts:
            assert jobs_of(experiment, parts[experiment.name], CHOSEN)


def test_an_experiment_without_the_methods_on_the_graphs_is_left_out() -> None:
    asked = Selection(methods=("vgae",), graphs=("cora",))
    assert set(parts_of(ALL, asked)) == {"table1"}
    [grid] = [one for one in ALL if one.name == "grid"]
    with pytest.raises(ConfigError, match=r"^grid runs vgae on photo, computers, not on cora\.$"):
        jobs_of(grid, asked, {})


def test_methods_ratios_and_protocols_are_cut_as_well() -> None:
    assert set(parts_of(ALL, Selection(methods=("vgae",)))) == {"grid", "table1"}
    assert "claims" not in parts_of(ALL, Selection(test=(20,)))
    assert set(parts_of(ALL, Selection(protocols=("splits",)))) == {"table1", "table2", "claims"}


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (Selection(graphs=("core",)), "No experiment has the dataset core. There are cora,"),
        (Selection(methods=("cgcl", "gcnn")), "No experiment has the method gcnn."),
        (Selection(test=(30,)), "No experiment has the ratio 30. There are 10, 20."),
    ],
)
def test_what_no_experiment_has_is_an_error(asked: Selection, text: str) -> None:
    with pytest.raises(ConfigError, match=text.replace(".", r"\.")):
        parts_of(ALL, asked)
