"""The choice of settings: validation links decide, test links have no say."""

import random
import tomllib
from dataclasses import replace
from itertools import product

import pytest

import cgcl
from cgcl.errors import ConfigError
from cgcl.experiments import study as choosing
from cgcl.experiments.reproduction import CHOSEN_HEAD, index, read_records
from cgcl.experiments.study import FOLDER, Selection, jobs_of, read_data, read_experiment
from cgcl.experiments.tables import toml_text as chosen_toml
from cgcl.split import random_split

COUNT = 48
SETTINGS = ("hidden", "lr", "input_dropout")


def places_of(name, *, chosen=(), **asked):
    return jobs_of(read_experiment(name), Selection(**asked), dict(chosen))


@pytest.fixture
def grid():
    """The places of CGCL's grid on some graphs."""
    return lambda *graphs: places_of("grid", graphs=graphs or None, methods=("cgcl",), test=(10,))


def choose(places, found):
    return choosing.choose(read_experiment("grid"), places, found)


@pytest.fixture
def found(scored):
    """Records of all jobs in some places, with these AUC on validation and test links."""

    def make(places, vals, tests):
        jobs = [job for own in places.values() for job in own]
        made = {}
        for job, val, test in zip(jobs, vals, tests, strict=True):
            own = None if val is None else {"auc": val, "ap": 1 - val}
            made[job.key] = scored(job, 0, val=own, metrics={"auc": test, "ap": test})
        return made

    return make


def settings_of(places, number):
    job = [job for own in places.values() for job in own][number]
    return {name: getattr(job.recipe.settings, name) for name in SETTINGS}


def test_the_best_on_validation_links_is_chosen_whatever_the_test_says(grid, found):
    places, order = grid("cora"), list(range(COUNT))
    random.Random(1).shuffle(order)
    vals = [place / 100 for place in order]
    # The worst on validation links is the best on test links, and the other way round.
    records = found(places, vals, [1 - val for val in vals])
    best = order.index(COUNT - 1)
    assert best not in (0, COUNT - 1)
    chosen = {"cgcl-cora-10": {**settings_of(places, best), "val_auc": 0.47, "runs": COUNT}}
    assert choose(places, records) == chosen
    # Test metrics are not even looked at.
    without = {key: replace(own, metrics={}, measured={}) for key, own in records.items()}
    assert choose(places, without) == chosen


def test_of_equal_ones_the_first_counts_and_a_run_without_validation_loses(grid, found):
    places = grid("cora")
    vals = [{9: 0.8, 21: 0.8, 30: 0.8, 31: None}.get(number, 0.5) for number in range(COUNT)]
    records = found(places, vals, [0.9] * COUNT)
    expected = {"cgcl-cora-10": {**settings_of(places, 9), "val_auc": 0.8, "runs": COUNT}}
    assert choose(places, records) == choose(places, dict(reversed(records.items()))) == expected


def test_what_is_written_reads_as_what_was_chosen(grid, found):
    chosen = choose(grid("cora"), found(grid("cora"), [0.5] * COUNT, [0.5] * COUNT))
    # Words and truth values can be chosen, too.
    chosen["vgae-photo-10"] = {"views": "one", "row_normalised": True, "lr": 1e-5, "runs": 3}
    text = chosen_toml(chosen, ["One.", "Two."])
    assert text.startswith("# One.\n# Two.\n\n[cgcl-cora-10]\nhidden = 512\nlr = 0.001\n")
    assert text.endswith("\n")
    assert tomllib.loads(text) == chosen
    assert chosen_toml({}, ["One."]) == "# One.\n"


def test_the_committed_choice_is_what_the_committed_runs_say(grid, project):
    records = index(read_records(project / "experiments/results/reproduce/runs.jsonl"))
    chosen = choose(places_of("grid"), records)
    assert chosen.keys() >= {f"cgcl-{graph}-10" for graph in read_experiment("grid").graphs}
    assert chosen_toml(chosen, CHOSEN_HEAD).encode() == (FOLDER / "chosen.toml").read_bytes()
    assert read_data("chosen") == chosen


def test_no_test_link_of_the_split_that_is_tested_on_has_a_say():
    """With one seed, validation links at 10 % are test links at 20 %: a grid for each share."""
    graph = cgcl.read("cora")
    ten, twenty = (random_split(graph, test / 2, test, seed=10) for test in (0.1, 0.2))
    links = [{tuple(pair) for pair in part.T.tolist()} for part in (ten.val, twenty.test)]
    assert links[0] <= links[1]
    asked = {"graphs": ("cora",), "methods": ("cgcl",), "protocols": ("paper",)}
    rows = places_of("table1", chosen=read_data("chosen"), **asked)
    grid = places_of("grid", graphs=("cora",))
    for place, jobs in rows.items():
        choosing = [own for there, own in grid.items() if there.test == place.test]
        assert len(choosing) == COUNT
        splits = {
            (job.split_seed, job.recipe.split.val, job.recipe.split.test)
            for own in (*choosing, jobs[:1])
            for job in own
        }
        assert len(splits) == 1


def test_a_grid_has_what_a_table_takes_from_it():
    """A setting that is chosen is searched, and what is not searched is the same in both."""
    keys = {job.key for own in places_of("grid").values() for job in own}
    searched = {(row.method, row.searched) for row in read_experiment("grid").rows}
    table = read_experiment("table1")
    some = {"lr": 0.01, "hidden": 64, "input_dropout": 0.5}
    for row, graph in product(table.rows, table.graphs):
        names = row.chosen_on(graph)
        if names:
            assert (row.method, names) in searched
            chosen = {f"{row.method}-{graph}-10": {name: some[name] for name in names}}
            asked = {"methods": (row.method,), "test": (10,), "protocols": ("paper",)}
            [jobs] = places_of("table1", chosen=chosen, graphs=(graph,), **asked).values()
            assert jobs[0].key in keys


def test_two_grids_of_a_method_are_refused():
    of = read_experiment("grid")
    other = replace(of.rows[0], name="other", searched=("clip",))
    of = replace(of, rows=(*of.rows, other))
    with pytest.raises(ConfigError, match=r"^grid has two grids of cgcl on cora\.$"):
        choosing.choose(of, jobs_of(of, Selection(), {}), {})
