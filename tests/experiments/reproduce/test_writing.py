"""The files of an experiment: which there are, and that only the results decide their bytes."""

import csv
import io
import random
import tomllib
from dataclasses import replace

import cgcl_paper as writing
import pytest

from cgcl.experiments.reproduction import Findings, index, known_places, measured_csv, records_of
from cgcl.experiments.study import Selection, jobs_of, read_experiment

from .conftest import CHOSEN, record_of

TRACE = {
    "epoch": [10, 20],
    "loss": [0.7, 0.5],
    "val_auc": [0.8, 0.9],
    "val_ap": [0.8, 0.85],
    **{term: [-0.3, -0.25] for term in ("views", "reconstructions", "view_1", "view_2")},
    "gap": [0.01, 0.02],
}
EMBEDDINGS = {"mean_cosine": 0.125, "effective_rank": 7.5, "auc_view_1": 0.75}
TABLES = {
    "grid": ["grid.csv", "chosen.toml"],
    **{name: [f"{name}.{end}" for end in ("csv", "md", "tex")] for name in ("table1", "table2")},
    "fig2": ["fig2.csv"],
    "fig3": ["fig3.csv"],
    "fig4": ["fig4.csv", "fig4-trace.csv"],
    "claims": ["claims.csv", "claims.md", "claims.tex", "claims-embeddings.csv", "verdicts.md"],
}
FIGURES = {name: [f"{name}.svg", f"{name}.png"] for name in ("fig2", "fig3", "fig4")}


def record(job):
    """Return a made-up result that follows from the run alone."""
    chance = random.Random(job.key)
    auc, ap = (round(chance.uniform(0.6, 1), 6) for _ in range(2))
    known = {"trace": TRACE, "embeddings": {**EMBEDDINGS, "auc_view_1": auc}}
    measured = {name: known[name] for name in job.measures}
    val, seconds = {"auc": ap, "ap": auc}, chance.random()
    return record_of(job, auc, ap, val=val, measured=measured, best_epoch=20, seconds=seconds)


def made(name, **asked):
    """Return an experiment, its places and made-up results of all its runs."""
    of = read_experiment(name)
    few = tuple(graph for graph in ("cora", "computers") if graph in of.graphs)
    places = jobs_of(of, Selection(**{"runs": 2, "graphs": few, **asked}), CHOSEN)
    found = [record(job) for own in places.values() for job in own]
    return of, places, {own.key: own for own in found}


def write_tables(of, places, found, folder, epochs=None, chosen=CHOSEN):
    return Findings(of, places, found, chosen, epochs).write_tables(folder)


def write_figures(of, places, found, folder, epochs=None):
    return Findings(of, places, found, CHOSEN, epochs).write_figures(folder)


@pytest.fixture(autouse=True)
def judged(monkeypatch):
    """Stand in for the verdicts, which look at all experiments; return what they were given."""
    given = []

    def verdicts(found, chosen):
        given.append((found, chosen))
        return f"{len(found)} runs\n"

    monkeypatch.setattr(writing, "claims_markdown", verdicts)
    return given


def contents(paths):
    return {path.name: path.read_bytes() for path in paths}


def lines_of(content):
    return list(csv.DictReader(io.StringIO(content.decode())))


@pytest.mark.parametrize("name", TABLES)
def test_the_order_and_the_time_of_runs_change_no_byte_of_a_table(name, tmp_path):
    of, places, found = made(name)
    keys = list(found)
    random.Random(3).shuffle(keys)
    assert keys != list(found)
    later = {key: replace(found[key], seconds=99.0, device="gpu", threads=4) for key in keys}
    first = contents(write_tables(of, places, found, tmp_path / "new" / "folder"))
    assert [*first] == TABLES[name]
    assert all(first.values())
    assert {own.name for own in (tmp_path / "new/folder").iterdir()} == first.keys()
    assert contents(write_tables(of, places, later, tmp_path / "second")) == first
    # A result that is another does.
    key = next(iter(found))
    other = {**found, key: replace(found[key], metrics={"auc": 0.1, "ap": 0.1})}
    assert contents(write_tables(of, places, other, tmp_path / "third")) != first


def test_a_run_that_serves_two_rows_is_listed_once(tmp_path):
    of, places, found = made("claims", graphs=("cora",))
    measured = index(own for own in found.values() if own.measured)
    records = records_of(places, measured)
    assert len(records) == len({own.key for own in records}) == 6
    assert len(measured) == 12
    write_tables(of, places, measured, tmp_path)
    assert (tmp_path / "claims-embeddings.csv").read_text().count("\n") == 1 + 6


def test_a_table_does_not_show_what_was_measured_for_another(tmp_path):
    _, _, measured = made("claims")
    of, places, plain = made("table2", test=(10,))
    found = {**plain, **index(measured.values())}
    assert any(own.measured for own in records_of(places, found))
    written = write_tables(of, places, found, tmp_path)
    assert [path.name for path in written] == TABLES["table2"]


def test_claims_are_judged_by_all_runs_and_the_choices_in_use(tmp_path, judged):
    of, places, found = made("claims", graphs=("cora",))
    _, _, others = made("table1", graphs=("cora",), methods=("vgae",))
    write_tables(of, places, {**found, **others}, tmp_path, chosen={"cora": {"lr": 0.5}})
    [given] = judged
    assert given == ({**found, **others}, {"cora": {"lr": 0.5}})
    assert (tmp_path / "verdicts.md").read_text() == f"{len(found) + len(others)} runs\n"


@pytest.mark.parametrize("name", TABLES)
def test_trainings_that_were_cut_short_have_files_of_their_own_that_tell(name, tmp_path):
    of, places, found = made(name, runs=1)
    # Claims are judged by whole trainings alone.
    names = [own for own in TABLES[name] + FIGURES.get(name, []) if own != "verdicts.md"]
    whole = contents(write_tables(of, places, found, tmp_path))
    whole |= contents(write_figures(of, places, found, tmp_path))
    of, places, found = made(name, runs=1, epochs=3)
    cut = contents(write_tables(of, places, found, tmp_path, 3))
    cut |= contents(write_figures(of, places, found, tmp_path, 3))
    assert [*cut] == [
        own.replace(name, f"{name}-3-epochs").replace("chosen", "chosen-3-epochs") for own in names
    ]
    assert {own: (tmp_path / own).read_bytes() for own in whole} == whole
    for own, content in cut.items():
        if own.endswith((".md", ".tex", ".toml")):
            assert b"Trained for 3 epochs, not as long as described." in content
        if own.endswith(".csv"):
            assert {line["cut_to_epochs"] for line in lines_of(content)} == {"3"}
    assert not any(b"as described" in content for content in whole.values())


def test_a_part_of_a_grid_chooses_nothing_and_takes_no_choice_away(tmp_path):
    of, whole, found = made("grid", test=(10,))
    left = {
        key: own
        for key, own in found.items()
        if own.graph == "cora" or (own.method == "cgcl" and own.settings["lr"] == 0.01)
    }
    for graph in ("cora", "computers"):
        _, asked, _ = made("grid", test=(10,), graphs=(graph,))
        write_tables(of, known_places(asked, whole, left), left, tmp_path)
        assert [*tomllib.loads((tmp_path / "chosen.toml").read_text())] == ["cgcl-cora-10"]
        lines = lines_of((tmp_path / "grid.csv").read_bytes())
        assert {line["graph"] for line in lines} == {"cora", "computers"}


def test_what_is_written_may_be_unfinished(tmp_path):
    for name in TABLES:
        of, places, _ = made(name, runs=1)
        written = write_tables(of, places, {}, tmp_path / name)
        assert [path.name for path in written] == [
            own for own in TABLES[name] if own.split(".")[0] in (name, "chosen", "verdicts")
        ]
    assert tomllib.loads((tmp_path / "grid/chosen.toml").read_text()) == {}
    assert "not run" in (tmp_path / "table1/table1.md").read_text()


def test_a_trace_has_a_line_for_each_look():
    _, places, found = made("fig4", graphs=("cora",))
    records = records_of(places, found)
    text = measured_csv(records, "trace")
    names = text.splitlines()[0].split(",")
    assert len(set(names)) == len(names) == 6 + len(TRACE)
    lines = lines_of(text.encode())
    looks = [(line["test"], line["epoch"]) for line in lines]
    assert looks == [("10", "10"), ("10", "20"), ("20", "10"), ("20", "20")]
    assert {(line["split_seed"], line["seed"]) for line in lines} == {("10", "0")}
    for number, line in enumerate(lines):
        assert {name: float(line[name]) for name in TRACE} == {
            name: column[number % 2] for name, column in TRACE.items()
        }
    assert measured_csv(records, "embeddings") == ""


def test_a_figure_takes_runs_from_before_a_setting_was_added(tmp_path):
    """As in the committed results, whose grid has no `seen`; what follows has it."""
    of, places, found = made("fig2", runs=1, test=(10,))
    key = next(iter(found))
    old = {name: value for name, value in found[key].settings.items() if name != "seen"}
    found[key] = replace(found[key], settings=old)
    assert found[key].key == key
    assert write_figures(of, places, found, tmp_path)
