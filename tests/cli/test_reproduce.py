"""`cgcl reproduce` as a user meets it: what is printed where, going on, errors, signals."""

import csv
import json
import signal
import sys
from pathlib import Path

import pytest

import cgcl
from cgcl.cli import reproduce as command_module
from cgcl.experiments import reproduction as running
from cgcl.experiments.reproduction import Records
from cgcl.experiments.study import (
    Record,
    Selection,
    jobs_of,
    read_data,
    read_experiment,
    study_pages,
)

SMALL = {
    "dataset": "cora",
    "methods": "vgae",
    "runs": "1",
    "epochs": "2",
    "ratio": "10",
    "protocol": "splits",
    "threads": "1",
    "device": "cpu",
    "out": "out",
}
TABLES = ("table1-2-epochs.csv", "table1-2-epochs.md", "table1-2-epochs.tex")


def command(*flags: str, what: str = "table1", **options: str) -> list[str]:
    """Return the words of a small reproduction, with other options."""
    given = {**SMALL, **options}.items()
    return [
        "reproduce",
        what,
        *(word for name, own in given for word in (f"--{name}", own)),
        *flags,
    ]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}


def record(job) -> Record:
    """Return a made-up result."""
    where = {"device": "cpu", "threads": 1, "versions": {"cgcl": "0.1.0"}}
    reached = {"auc": 0.9, "ap": 0.9}
    return Record.of(job, split="s", fingerprint="f", **where, val=reached, metrics=reached)


def test_files_go_to_stdout_and_the_story_to_stderr_and_again_to_the_same_bytes(cli):
    code, out, err = cli(*command())
    assert code == 0, err
    assert out.splitlines() == [f"out/{name}" for name in TABLES]
    written = files(Path("out"))
    assert written.keys() == {"runs.jsonl", *TABLES}
    first, second, third, result, note = err.splitlines()
    assert first.split(maxsplit=1) == ["Experiment", "Table I: AUC and AP on held-out links"]
    assert second.split(maxsplit=1) == ["Runs", "0 of 1 runs are there; folder out"]
    assert third.split()[0] == "1/1"
    assert "vgae, cora, 10 %, split 0, seed 0: AUC " in third
    found = json.loads(written["runs.jsonl"])
    assert found["settings"]["epochs"] == found["epochs"] == 2
    auc, ap = (100 * found["metrics"][name] for name in ("auc", "ap"))
    assert f"AUC {auc:.2f}" in third
    assert result.split()[0] == "Result"
    assert f"vgae, cora, 10 %, splits: AUC {auc:.2f} (published " in result
    assert f"AP {ap:.2f} (published " in result
    assert note.split(maxsplit=1)[1] == "Trained for 2 epochs, not as long as described."
    for name in TABLES:
        Path("out", name).unlink()
    code, again, err = cli(*command())
    assert (code, again, files(Path("out"))) == (0, out, written)
    # What came out is told all the same.
    told = [line.split(maxsplit=1) for line in err.splitlines()]
    assert told[1] == ["Runs", "1 of 1 runs are there; folder out"]
    assert [first for first, _ in told] == ["Experiment", "Runs", "Result", "Note"]


def filled(name: str, chosen: dict | None = None, **asked) -> None:
    """Fill the folder with made-up results of a part of an experiment."""
    with Records(Path("out")) as records:
        for jobs in jobs_of(read_experiment(name), Selection(**asked), chosen or {}).values():
            for job in jobs:
                records.append(record(job))


def lines_of(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(Path("out", name).read_text().splitlines()))


def of_table1(**options: str) -> list[str]:
    """Return the words of a request without training: made-up results are there for all of it."""
    given = {"dataset": "cora", "methods": "graphsage,vgae", "runs": "3", **options}
    words = [word for name, own in given.items() for word in (f"--{name}", own)]
    return ["reproduce", "table1", "--out", "out", "--quiet", *words]


@pytest.mark.parametrize(
    "narrow", [{"methods": "vgae"}, {"ratio": "10"}, {"protocol": "paper"}, {"runs": "1"}], ids=str
)
def test_a_narrow_request_takes_nothing_from_the_tables_of_a_wide_one(cli, narrow):
    filled("table1", graphs=("cora",), methods=("graphsage", "vgae"), runs=3)
    assert cli(*of_table1()).code == 0
    before = files(Path("out"))
    assert len(lines_of("table1.csv")) == 2 * 2 * 2 * 2
    assert cli(*of_table1(**narrow)).code == 0
    assert files(Path("out")) == before


def test_all_is_what_each_experiment_has_of_it_and_tables_keep_to_what_the_grid_chose(
    cli, monkeypatch
):
    filled("grid", graphs=("cora", "citeseer"), test=(10,))
    # All are equally good, so that the first counts; what cgcl brings has another choice.
    first = {"hidden": 512, "lr": 0.001, "input_dropout": 0.2}
    assert not first.items() <= read_data("chosen")["cgcl-citeseer-10"].items()
    own = {"cgcl-citeseer-10": first}
    filled("table1", own, graphs=("citeseer",), methods=("cgcl",), test=(10,), runs=2)
    asked = []

    def noted(jobs, *_):
        asked.append({job.graph for job in jobs})
        return True

    monkeypatch.setattr(running, "run_jobs", noted)
    cli("reproduce", "all", "--out", "out", "--dataset", "cora", "--ratio", "10")
    assert asked == [{"cora"}] * 6  # Fig. 3 is of another graph
    runs = {(line["graph"], line["runs"]) for line in lines_of("table1.csv")}
    assert ("citeseer", "2") in runs


def test_the_grid_in_a_folder_chooses_for_later_requests(cli):
    filled("grid", graphs=("cora",), test=(10,))
    first = {"cgcl-cora-10": {"hidden": 512, "lr": 0.001, "input_dropout": 0.2}}
    filled("table1", first, graphs=("cora",), methods=("cgcl",), test=(10,), runs=2)
    filled("table1", graphs=("cora",), methods=("vgae",), test=(10,), runs=1)
    words = of_table1(methods="vgae", ratio="10", runs="1")
    assert cli(*words).code == 0
    runs = {(line["row"], line["runs"]) for line in lines_of("table1.csv")}
    assert runs == {("cgcl", "2"), ("vgae", "1")}
    # What is given counts more.
    Path("other.toml").write_text("[cgcl-cora-10]\nhidden = 64\nlr = 0.05\ninput_dropout = 0.8\n")
    assert cli(*words, "--chosen", "other.toml").code == 0
    runs = {(line["row"], line["runs"]) for line in lines_of("table1.csv")}
    assert runs == {("cgcl", "1"), ("vgae", "1")}


def test_graphs_are_read_from_the_folder_that_is_given(cli, monkeypatch):
    asked, real = [], cgcl.read
    noted = lambda name, data_root: asked.append((name, data_root)) or real(name)  # noqa: E731
    monkeypatch.setattr(cgcl, "read", noted)
    assert cli(*command("--data-root", "elsewhere")).code == 0
    assert asked == [("cora", Path("elsewhere"))]


def test_damaged_lines_are_told(cli):
    Path("out").mkdir()
    Path("out/runs.jsonl").write_text("{}\nnonsense\n")
    done = cli(*command("--quiet"))
    assert done.code == 0
    assert done.err == (
        "Warning: 2 damaged lines are ignored; what they held is made again when it is asked for.\n"
    )


def test_a_run_that_fails_is_told_and_made_up_for_the_next_time(cli, monkeypatch):
    real = running.fit_many

    def broken(graph, splits, recipes, *others, **more):
        if recipes[0].split.seed == 0:
            raise RuntimeError("no\nluck")
        return real(graph, splits, recipes, *others, **more)

    with monkeypatch.context() as patched:
        patched.setattr(running, "fit_many", broken)
        done = cli(*command("--quiet", runs="2"))
    assert done.code == 1
    assert done.err == (
        "Warning: vgae failed on cora, 10 %, split 0, seed 0. RuntimeError: no luck\n"
    )
    assert done.out.splitlines() == [f"out/{name}" for name in TABLES]
    assert "1 of 2 runs" in Path("out/table1-2-epochs.md").read_text()
    done = cli(*command(runs="2"))
    assert done.code == 0
    assert "1 of 2 runs are there" in done.err
    assert "1 of 2 runs" not in Path("out/table1-2-epochs.md").read_text()


def test_without_matplotlib_there_is_a_warning_and_everything_else(cli, monkeypatch):
    part = {"test": (10,), "protocols": ("paper",), "runs": 1, "epochs": 2}
    filled("fig2", read_data("chosen"), **part)
    words = command("--quiet", what="fig2", methods="cgcl", protocol="paper")
    with monkeypatch.context() as patched:
        patched.delattr(study_pages(), "figures", raising=False)
        patched.delitem(sys.modules, "cgcl_paper.figures", raising=False)
        patched.setitem(sys.modules, "matplotlib", None)
        code, out, err = cli(*words)
    assert (code, out) == (0, "out/fig2-2-epochs.csv\n")
    assert err == 'Warning: Figures need matplotlib: pip install "cgcl[figures]"\n'
    # With it, the figure is there.
    code, out, err = cli(*words)
    assert (code, err) == (0, "")
    assert out.splitlines() == [f"out/fig2-2-epochs.{kind}" for kind in ("csv", "svg", "png")]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_polite_signal_ends_it_and_says_how_to_go_on(tmp_path, interrupted, number, code):
    # Epochs enough that it is still in its first training.
    words = command(epochs="1000000")
    ended, out, err = interrupted(words, "0 of 1 runs are there", number)
    assert ended == code
    last = err.strip().splitlines()[-1]
    assert last.startswith("Stopped: 0 of 1 runs are there. Go on with: ")
    assert last.endswith(" ".join(words))
    assert (tmp_path / "out/runs.jsonl").read_bytes() == b""
    # What is known by then is written.
    assert out.splitlines() == [f"out/{name.replace('-2-', '-1000000-')}" for name in TABLES]


def test_claims_are_judged_when_all_is_run(cli, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda _: None)

    def made_up(jobs, records, *_):
        for job in jobs:
            if job.key not in records.found and not job.measures:
                records.append(record(job))
        return True

    monkeypatch.setattr(running, "run_jobs", made_up)
    monkeypatch.setattr(command_module, "_write", lambda *_: None)
    assert cli("reproduce", "all", "--methods", "cgcl", "--out", "out", "--quiet").code == 1
    text = Path("out/verdicts.md").read_text()
    # Table II comes after the claims.
    unclear = text.split("### Cannot be told")[1].split("###")[0]
    assert "**Letting each view reconstruct the other" in unclear
    assert "`cgcl reproduce table1 --protocol splits` decides it" in text
    Path("out/verdicts.md").unlink()
    cli("reproduce", "all", "--dataset", "cora", "--out", "out", "--quiet", "--epochs", "2")
    assert not Path("out/verdicts.md").exists()
