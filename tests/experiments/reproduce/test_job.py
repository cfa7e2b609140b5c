"""What tells one run from another, and which runs an experiment has."""

import contextlib
import functools
import json
from collections import Counter
from dataclasses import asdict, replace
from hashlib import sha256
from typing import get_args, get_type_hints

import pytest

from cgcl.errors import ConfigError
from cgcl.experiments.reproduction import read_records
from cgcl.experiments.study import (
    NAMES,
    CellId,
    Record,
    Selection,
    having,
    jobs_of,
    read_data,
    read_experiment,
)
from cgcl.methods.table import METHODS, method_named
from cgcl.train.config import RunConfig

from .conftest import job, record_of, row, toy

LATER = {"cgcl": {"seen": 0.5, "batch": 0}, "s2gae": {"encoder": "gcn"}}
"""Settings that methods got after the first results were committed: what those runs had."""
LATER_FOR_ALL = {"choose_by": "auc", "patience": 0}


def again(own):
    """Return what a run leaves behind, after a trip through its file."""
    return Record.from_line(record_of(own).to_line())


@functools.cache
def committed_jobs():
    """Return every run of the committed experiments, by key."""
    chosen = read_data("chosen")
    return {
        own.key: own
        for name in NAMES
        for jobs in jobs_of(read_experiment(name), Selection(), chosen, only_chosen=True).values()
        for own in jobs
    }


def another(method, name, value):
    """Return a run with another value of a setting, whatever the setting takes."""
    choices = get_args(get_type_hints(method_named(method).settings)[name])
    for candidate in (*choices, not value, 1, 2, 3, 4, 0.25):
        if candidate != value:
            with contextlib.suppress(ConfigError):
                return job(method=method, **{name: candidate})
    return pytest.fail(f"{method}: no other value for {name} was found")


@pytest.mark.parametrize("method", METHODS)
def test_every_setting_of_every_method_counts(method):
    plain = job(method=method)
    others = [another(method, name, own) for name, own in asdict(plain.recipe.settings).items()]
    places = ({"graph": "photo"}, {"test": 20}, {"split_seed": 1}, {"measures": ("trace",)})
    others += [job(**{"method": method, **place}) for place in (*places, {"seed": 1})]
    assert len({own.key for own in [plain, *others]}) == 1 + len(others)


def test_what_is_as_by_default_makes_no_difference():
    assert job(lr=0.01, hidden=128, seen=0.5).key == job().key


def test_a_key_stays_what_it_is():
    """Worked out apart from the code: results that were written with it must stay findable."""
    text = '["cora", 10, "cgcl", {"hidden": 64, "lr": 0.05}, 10, 3, ["trace"]]'
    own = job(lr=0.05, hidden=64, split_seed=10, seed=3, measures=("trace",))
    assert own.key == sha256(text.encode()).hexdigest()[:16]


def test_a_record_has_the_key_of_its_run():
    """Whatever the method: what JSON makes of a setting must not turn it into another one."""
    assert len(committed_jobs()) > 1000
    for key, own in committed_jobs().items():
        assert again(own).key == key
    for method in METHODS:
        assert again(job(method=method)).key == job(method=method).key


def test_a_part_of_it():
    asked = Selection(
        graphs=("photo",), methods=("vgae",), test=(20,), protocols=("splits",), runs=2, epochs=7
    )
    [(place, jobs)] = jobs_of(toy(), asked, {}).items()
    assert place == CellId("vgae", "photo", 20, "splits")
    assert [own.recipe.settings.epochs for own in jobs] == [7, 7]
    # No more runs than described.
    [all_jobs] = jobs_of(toy(), replace(asked, runs=99, epochs=None), {}).values()
    assert len(all_jobs) == 3
    assert all_jobs[0].recipe.settings.epochs == RunConfig.of("vgae", {}).epochs != 7
    assert replace(jobs[0], recipe=all_jobs[0].recipe) == all_jobs[0]


TOY = toy(row("cgcl"), row("vgae", graphs=("cora",)), protocols=("paper",))
SEVERAL = (
    toy(name="both"),
    toy(row("gcn"), name="one", graphs=("cora",), test=(10,), protocols=("paper",)),
)


@pytest.mark.parametrize(
    ("of", "asked", "told"),
    [
        ([TOY], {"graphs": ("cora", "nope")}, "toy has no dataset nope. It has cora, photo."),
        ([TOY], {"methods": ("gcn", "x")}, "toy has no method gcn, x. It has cgcl, vgae."),
        ([TOY], {"test": (30,)}, "toy has no ratio 30. It has 10, 20."),
        ([TOY], {"protocols": ("splits",)}, "toy has no protocol splits. It has paper."),
        (
            [TOY],
            {"graphs": ("photo",), "methods": ("vgae",)},
            "toy runs vgae on cora, not on photo.",
        ),
        (
            SEVERAL,
            {"graphs": ("nope",)},
            "No experiment has the dataset nope. There are cora, photo.",
        ),
    ],
)
def test_what_is_not_there_is_told_with_what_is(of, asked, told):
    with pytest.raises(ConfigError) as refused:
        jobs_of(*having(of, Selection(**asked)), Selection(**asked), {})
    assert str(refused.value) == told


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        ({"runs": 2}, {"both": 16, "one": 1}),
        ({"graphs": ("photo", "cora")}, {"both": 16, "one": 1}),
        ({"graphs": ("photo",)}, {"both": 8}),
        ({"methods": ("gcn", "vgae"), "test": (10,)}, {"both": 4, "one": 1}),
        ({"methods": ("gcn",), "protocols": ("splits",)}, {}),
    ],
)
def test_of_several_experiments_each_gives_what_it_has(asked, places):
    part = Selection(**asked)
    assert {of.name: len(jobs_of(of, part, {})) for of in having(SEVERAL, part)} == places


@pytest.mark.parametrize(
    "chosen", [{}, {"cgcl-cora-10": {"hidden": 8}}, {"cgcl-cora-20": {"lr": 0.1}}]
)
def test_what_was_not_chosen_yet_is_told_or_left_out(chosen):
    with pytest.raises(ConfigError) as refused:
        jobs_of(toy(row("cgcl", chosen=("lr",))), Selection(), chosen)
    assert str(refused.value) == (
        "No lr of cgcl was chosen for cora with 10 % test links yet. Run cgcl reproduce grid "
        "--methods cgcl --dataset cora --ratio 10 and give what it writes as `chosen`."
    )
    of = toy(row("cgcl", chosen=("lr",)), row("vgae"))
    places = jobs_of(of, Selection(), {"cgcl-cora-20": {"lr": 0.1}}, only_chosen=True)
    assert {f"{place.row} {place.test}" for place in places} == {"cgcl 20", "vgae 10", "vgae 20"}


@pytest.fixture(scope="module")
def committed(project):
    path = project / "experiments/results/reproduce/runs.jsonl"
    records = read_records(path)
    assert len(records) == len(path.read_bytes().splitlines()) > 0  # none is damaged
    return records


def test_every_committed_result_belongs_to_a_run_that_is_described(committed):
    """It fails if a default, authors' settings, a choice or an experiment changes under results."""
    jobs = committed_jobs()
    orphans = Counter(
        (own.graph, own.test, own.method, json.dumps(own.settings))
        for own in committed
        if own.key not in jobs
    )
    assert not orphans
    for own in committed:
        now = asdict(jobs[own.key].recipe.settings)
        assert {name: now[name] for name in own.settings} == own.settings
        assert own.seed == jobs[own.key].recipe.split.seed


def test_what_a_committed_result_does_not_say_is_still_as_it_was(committed):
    """A key leaves out what is as by default, so a new default would claim results of the old one.

    A setting that a method gets is entered above with the value that earlier runs had; from then on
    its default may change only with new results.
    """
    for own in committed:
        now = asdict(RunConfig.of(own.method, {}).settings)
        unsaid = {name: value for name, value in now.items() if name not in own.settings}
        later = LATER_FOR_ALL | LATER.get(own.method, {})
        assert unsaid == {name: later.get(name) for name in unsaid}


def test_committed_results_are_on_one_graph_of_each_name(committed):
    prints = {(own.graph, own.fingerprint) for own in committed}
    assert len(prints) == len({own.graph for own in committed})
    splits = {(own.graph, own.test, own.split_seed): set() for own in committed}
    for own in committed:
        splits[own.graph, own.test, own.split_seed].add(own.split)
    assert all(len(own) == 1 for own in splits.values())
