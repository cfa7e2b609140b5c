"""Runs inside this process: files, resuming, and what a damaged folder gets."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cgcl.errors import ModelFileError, ResourceError, RunFolderError
from cgcl.graph import Graph
from cgcl.predict import LinkPredictor
from cgcl.tensors import read_tensors, write_tensors
from cgcl.train.config import Resources, RunConfig
from cgcl.train.run import Run, conclude_run, resume_run, start_run
from cgcl.train.run_folder import (
    CHECKPOINT,
    HISTORY,
    PREVIOUS_CHECKPOINT,
    RunFolder,
    read_history,
    read_run,
)
from cgcl.train.trainer import EpochRecord

Build = Callable[[int], Graph]
SMALL = {"hidden": 8, "epochs": 12, "evaluate_every": 3}
OFTEN = Resources(threads=1, checkpoint_every=0.0)

ENGINE = "blocked"
LOST = object()


def begin(graph: Graph, out: Path, res: Resources = OFTEN, **settings) -> Run:
    recipe = RunConfig.of("cgcl", SMALL | settings)
    return start_run(graph, recipe, res, out, "cgcl train sbm")


class Crash(BaseException):
    """Ends a run as abruptly as an exception can."""


def crash_at(epoch: int) -> Callable[[EpochRecord], None]:
    def crash(record: EpochRecord) -> None:
        if record.epoch == epoch:
            raise Crash

    return crash


def finish(run: Run) -> Path:
    with run.folder:
        run.train()
    return run.folder.path


@pytest.fixture
def straight(sbm: Build, tmp_path: Path) -> Path:
    return finish(begin(sbm(0), tmp_path / "straight"))


def crashed(graph: Graph, out: Path, *, epoch: int, res: Resources = OFTEN) -> Path:
    run = begin(graph, out, res=res)
    with run.folder, pytest.raises(Crash):
        run.train(on_epoch=crash_at(epoch))
    return run.folder.path


def go_on(path: Path, changed: dict | None = None) -> tuple[int, list[str]]:
    """Resume a run to its end; return what is told at the beginning."""
    told: list[tuple[int, list[str]]] = []
    run = resume_run(path, changed)
    with run.folder:
        run.train(on_start=lambda epoch, warnings: told.append((epoch, list(warnings))))
    return told[0]


def refused(path: Path, text: str) -> None:
    """Resume a run that does not go on, for what is in its folder."""
    run = resume_run(path)
    with run.folder, pytest.raises(ModelFileError) as error:
        run.train()
    assert text in str(error.value)


def rewrite(path: Path, **changed: object) -> None:
    """Change what `run.json` says, or its settings; what is lost is left out."""
    run = json.loads((path / "run.json").read_text())
    for key, value in changed.items():
        (run["config"] if key in run["config"] else run)[key] = value
    told = {key: value for key, value in run.items() if value is not LOST}
    (path / "run.json").write_text(json.dumps(told))


def assert_same_bits(a: Path, b: Path) -> None:
    for name in ("model.safetensors", "graph.safetensors", "split.safetensors", HISTORY):
        assert (a / name).read_bytes() == (b / name).read_bytes(), name
    for key in ("val", "test", "best_epoch", "epochs", "stopped", "status"):
        assert read_run(a)[key] == read_run(b)[key], key


def test_a_finished_run_says_everything_about_itself(straight: Path) -> None:
    run = read_run(straight)
    assert run["status"] == "finished"
    assert run["graph"]["nodes"] == 120
    assert run["split"] == {k: run["split"][k] for k in ("train", "val", "test")}
    assert sum(run["split"].values()) == run["graph"]["links"]
    assert set(run["val"]) == {"auc", "ap"}
    top = ["node_mrr", "node_hits@10", "precision@100", "pair_ap"]  # too few pairs for 1,000
    against_unlinked = ["auc", "ap", "hits@10", "hits@50", "hits@100", "mrr"]
    assert list(run["test"]) == [*top, *against_unlinked]
    assert run["test_sampled"] is None
    assert all(0 <= value <= 1 for value in run["test"].values())
    assert run["config"]["method"] == "cgcl"
    assert run["config"]["hidden"] == 8
    assert {"cgcl", "python", "torch", "numpy"} <= set(run["versions"])
    assert (run["device"], run["threads"]) == ("cpu", 1)
    assert run["best_epoch"] in (3, 6, 9, 12)
    assert len(run["graph"]["fingerprint"]) == 64
    assert run["parameters"] == 4 * 8 + 8 + 8 * 4 + 4 + 4 + 1
    history = read_history(straight)
    assert [record["epoch"] for record in history] == list(range(1, 13))
    assert all(len(record["losses"]) == 2 for record in history)
    assert [record["epoch"] for record in history if "val" in record] == [3, 6, 9, 12]


@pytest.mark.parametrize("method", ["cgcl", "mlp", "common-neighbours"])
def test_a_run_of_any_method_gives_the_model_of_the_python_class(sbm, tmp_path, method) -> None:
    settings = {} if method == "common-neighbours" else SMALL
    run = start_run(sbm(0), RunConfig.of(method, settings), OFTEN, tmp_path, "cgcl train sbm")
    assert read_run(run.folder.path)["status"] == "running"  # described from its first moment
    path = finish(run)
    predictor = LinkPredictor(method, threads=1, **settings).fit(sbm(0))
    again = LinkPredictor.load(path)
    about = read_run(path)
    assert again.calibration_ == predictor.calibration_
    assert (about["test"], about["val"]) == (predictor.test_, predictor.val_)
    if not settings:
        assert (about["epochs"], about["best_epoch"], about["parameters"]) == (0, None, 0)
    assert (about["config"]["method"], about["status"]) == (method, "finished")
    assert again.get_params() == predictor.set_params(threads=0).get_params()
    for name, value in predictor.model_.state_dict().items():
        assert torch.equal(value, again.model_.state_dict()[name])
    resumed = resume_run(path)
    with resumed.folder:
        assert resumed.is_finished


@pytest.mark.parametrize(("epoch", "every"), [(1, 0.0), (6, 0.0), (12, 0.0), (5, 1e6)])
def test_a_crashed_run_resumes_to_the_same_bits(sbm, straight, tmp_path, epoch, every) -> None:
    """Whatever lies around of a write that did not come to its end; without a checkpoint, too."""
    path = crashed(sbm(0), tmp_path, epoch=epoch, res=Resources(threads=1, checkpoint_every=every))
    assert (path / CHECKPOINT).exists() == (every == 0)
    (path / HISTORY).write_bytes((path / HISTORY).read_bytes() + b'{"epoch": 8, "los')
    (path / f"checkpoint.safetensors.{'0' * 32}.tmp").write_bytes(b"half a checkpoint")
    assert go_on(path) == (epoch if every == 0 else 0, [])
    assert_same_bits(path, straight)
    assert not list(path.glob("*.tmp"))


@pytest.mark.parametrize("cut", ["time limit", "no checkpoint", "nothing else"])
def test_a_run_that_ends_after_its_last_epoch_keeps_its_model_and_can_be_concluded(
    sbm, straight, tmp_path, cut: str
) -> None:
    """From the model, for after a collapse there is no checkpoint; or it goes on from there."""

    def die() -> None:
        raise Crash

    limit = {"time_limit": "0s"} if cut == "time limit" else {}
    run = begin(sbm(0), tmp_path, Resources(threads=1, checkpoint_every=0.0, **limit))
    with run.folder, pytest.raises(Crash):
        run.train(on_trained=die)
    path = run.folder.path
    about = read_run(path)
    assert (about["status"], about["test"]) == ("trained", None)
    assert LinkPredictor.load(path).calibration_ is None
    if cut == "no checkpoint":
        (path / CHECKPOINT).unlink()
        (path / PREVIOUS_CHECKPOINT).unlink()
    conclude_run(path)
    concluded = read_run(path)
    assert (concluded["status"], concluded["stopped"]) == ("finished", about["stopped"])
    conclude_run(path)  # nothing is left
    if limit:
        assert concluded["epochs"] == 1
        finish(resume_run(path, {"time_limit": ""}))
    assert_same_bits(path, straight)


def test_a_run_of_before_that_said_bf16_goes_on(sbm, straight, tmp_path) -> None:
    path = crashed(sbm(0), tmp_path, epoch=6)
    rewrite(path, precision="bf16")
    finish(resume_run(path))
    assert_same_bits(path, straight)
    assert read_run(path)["config"]["precision"] == "tf32"


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "pickle", "missing"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(sbm, straight, tmp_path, damage):
    path = crashed(sbm(0), tmp_path, epoch=7)
    spoil(path / CHECKPOINT, damage)
    epoch, warnings = go_on(path)
    assert epoch == 6  # the newest checkpoint held epoch 7
    if damage != "missing":
        assert "Going on from the one before it." in warnings[0]
    assert_same_bits(path, straight)


def test_the_sound_checkpoint_survives_even_if_the_next_write_fails(
    sbm, straight, tmp_path, monkeypatch
) -> None:
    path = crashed(sbm(0), tmp_path, epoch=7)
    spoil(path / CHECKPOINT, "flip")

    def full(*_: object) -> None:
        raise ResourceError("No space left")

    with monkeypatch.context() as patched:
        patched.setattr("cgcl.train.run_folder.write_tensors", full)
        run = resume_run(path)
        with run.folder, pytest.raises(ResourceError):
            run.train()
    about = read_run(path)
    assert about["status"] == "failed"
    assert about["stopped"] == {"reason": "error", "epoch": 7, "message": "No space left"}
    finish(resume_run(path))
    assert_same_bits(path, straight)


def test_a_file_system_without_hard_links_will_do(sbm, straight, tmp_path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = finish(begin(sbm(0), tmp_path))
    assert_same_bits(path, straight)
    assert (path / PREVIOUS_CHECKPOINT).exists()


def spoil(path: Path, damage: str) -> None:
    content = path.read_bytes()
    damaged = {
        "flip": content[:-2] + bytes([content[-2] ^ 1]) + content[-1:],
        "truncate": content[: len(content) // 2],
        "empty": b"",
        "pickle": b"\x80\x04K\x01.",
    }
    path.unlink()
    if damage in damaged:
        path.write_bytes(damaged[damage])


def test_two_damaged_checkpoints_are_an_error_and_nothing_is_lost(sbm, tmp_path) -> None:
    path = crashed(sbm(0), tmp_path, epoch=7)
    for name in (CHECKPOINT, PREVIOUS_CHECKPOINT):
        spoil(path / name, "flip")
    before = {p.name: p.read_bytes() for p in path.iterdir() if p.name != "lock"}
    refused(
        path,
        f"checkpoint.safetensors in {path} is damaged (its checksum does not match).\n"
        "There is no sound checkpoint to go on from. Nothing was changed. "
        "Delete checkpoint.safetensors and checkpoint.previous.safetensors\n"
        "to start this run again from its first epoch.",
    )
    after = {p.name: p.read_bytes() for p in path.iterdir() if p.name != "lock"}
    assert before == after
    for name in (CHECKPOINT, PREVIOUS_CHECKPOINT):
        (path / name).unlink()
    finish(resume_run(path))
    assert read_run(path)["status"] == "finished"


def test_a_checkpoint_of_another_run_is_refused_by_its_first_difference(sbm, tmp_path) -> None:
    path = crashed(sbm(0), tmp_path, epoch=7)
    foreign = finish(begin(sbm(0), tmp_path / "other", lr=0.02))
    (path / CHECKPOINT).write_bytes((foreign / CHECKPOINT).read_bytes())
    refused(path, "its lr is 0.02, this run's is 0.01")


def test_a_checkpoint_that_is_whole_and_fits_nothing_is_refused(sbm, tmp_path) -> None:
    path = crashed(sbm(0), tmp_path, epoch=7)
    (path / PREVIOUS_CHECKPOINT).unlink()
    kind = "cgcl checkpoint 1"
    tensors, about = read_tensors(path / CHECKPOINT, kind)
    name = next(own for own in tensors if own.startswith("adam.0.exp_avg"))
    weight = next(own for own in tensors if own.startswith("model."))
    rest = {own: value for own, value in tensors.items() if own != weight}
    numbers = about["numbers"]
    for wrong_tensors, wrong_about, words in (
        (tensors, {"numbers": numbers}, "is damaged (identity)"),
        (tensors, about | {"numbers": numbers | {"best_val": True}}, "is damaged (numbers)"),
        (tensors | {name: tensors[name][1:]}, about, f"'{name}' missing or of another kind"),
        (tensors | {weight: tensors[weight].double()}, about, f"'{weight}' missing or"),
        (
            tensors | {"adam.9x": tensors[name].clone()},
            about,
            "'adam.9x' missing or of another kind",
        ),
        (rest, about, f"'{weight}' missing or of another kind"),
    ):
        write_tensors(path / CHECKPOINT, kind, wrong_tensors, wrong_about)
        refused(path, words)


def test_a_run_folder_with_another_graph_is_refused(sbm: Build, tmp_path) -> None:
    path = crashed(sbm(0), tmp_path, epoch=7)
    other = finish(begin(sbm(1), tmp_path / "other"))
    (path / "graph.safetensors").write_bytes((other / "graph.safetensors").read_bytes())
    with pytest.raises(RunFolderError, match="holds another graph"):
        resume_run(path)


def test_a_time_limited_run_is_whole_and_can_still_go_on(sbm, straight, tmp_path) -> None:
    limited = Resources(threads=1, checkpoint_every=1e6, time_limit="0s")
    path = finish(begin(sbm(0), tmp_path, res=limited))
    run = read_run(path)
    assert run["status"] == "finished"
    assert run["stopped"]["reason"] == "time limit"
    assert run["test"] is not None
    resumed = resume_run(path, {"checkpoint_every": 0.0, "time_limit": ""})
    assert not resumed.is_finished
    begun: list[int] = []
    with pytest.raises(Crash), resumed.folder:
        resumed.train(on_start=lambda epoch, _: begun.append(epoch), on_epoch=crash_at(4))
    assert begun == [1]
    about = read_run(path)  # the test of one epoch would stand beside the best of another
    assert (about["status"], about["test"], about["stopped"]) == ("running", None, None)
    finish(resume_run(path))
    assert (path / HISTORY).read_bytes() == (straight / HISTORY).read_bytes()
    for key in ("val", "test", "best_epoch", "epochs", "stopped"):
        assert read_run(path)[key] == read_run(straight)[key]


def test_run_folders_are_numbered_and_never_shared(tmp_path: Path) -> None:
    folders = [RunFolder.create(tmp_path, "g", 0) for _ in range(3)]
    assert [folder.path.name for folder in folders] == ["g-1", "g-2", "g-3"]
    (tmp_path / "g-9").mkdir()
    (tmp_path / "g-x").mkdir()
    folders.append(RunFolder.create(tmp_path, "g", 0))
    assert folders[-1].path.name == "g-10"
    for folder in folders:
        folder.close()


def test_a_folder_in_use_is_refused_and_free_again_when_its_owner_dies(tmp_path: Path) -> None:
    """The owner is another process, killed without a chance to clean up."""
    (tmp_path / "r").mkdir()
    code = (
        "import sys; from pathlib import Path; from cgcl.train.run_folder import RunFolder;"
        f"f = RunFolder(Path({str(tmp_path / 'r')!r})); print('locked', flush=True);"
        "sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout.readline() == "locked\n"
    with pytest.raises(RunFolderError) as error:
        RunFolder(tmp_path / "r")
    assert f"r is in use by process {owner.pid} (started " in str(error.value)
    assert str(error.value).endswith("Use another `out`, or wait.")
    owner.kill()
    owner.communicate()
    RunFolder(tmp_path / "r").close()


def test_a_lock_that_is_a_link_is_refused_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "lock").symlink_to(tmp_path / "precious")
    with pytest.raises(RunFolderError, match="lock is a link"):
        RunFolder(tmp_path)
    assert (tmp_path / "precious").read_text() == "kept"


def test_where_there_can_be_no_run_is_told_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match=r"file is a file, not a folder\. Choose another `out`"):
        RunFolder.create(tmp_path / "file", "g", 0)
    with pytest.raises(ResourceError, match="Cannot create a run folder in"):
        RunFolder.create(tmp_path / "file" / "below", "g", 0)
    with pytest.raises(ResourceError, match=r"MB free; the run needs about 1,000,000,000 MB"):
        RunFolder.create(tmp_path, "g", needed_bytes=10**15)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, r"holds no run\.json, so it is not a run"),
        ("", r"run\.json is damaged"),
        ("[]", r"run\.json is damaged"),
        ('{"format": 2}', "has format 2; this version of cgcl reads format 1"),
    ],
)
def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, content, text: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunFolderError, match=text):
        resume_run(tmp_path)
    assert not (tmp_path / "lock").exists()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("hidden", -1, "hidden is -1; it must be at least 2"),
        ("hidden", 8.5, "hidden is 8.5"),
        ("seed", 0.0, "seed is"),
        ("method", "oracle", r"settings in run\.json are damaged \(.*method"),
        *(
            (key, LOST, rf"run\.json is damaged \({key}\)")
            for key in ("config", "graph", "status", "started", "versions")
        ),
        ("stopped", "x", r"run\.json is damaged \(stopped\)"),
    ],
)
def test_what_makes_no_run_is_refused(sbm: Build, tmp_path, name: str, value, text: str) -> None:
    run = begin(sbm(0), tmp_path)
    run.folder.close()
    rewrite(run.folder.path, **{name: value})
    with pytest.raises(RunFolderError, match=text):
        resume_run(run.folder.path)


def test_a_run_whose_test_was_on_some_links_only_is_read(straight: Path, tmp_path: Path) -> None:
    about = json.loads((straight / "run.json").read_text())
    some = {"links": 40, "se": {"node_mrr": 0.03}}
    (tmp_path / "run.json").write_text(json.dumps(about | {"test_sampled": some}))
    assert read_run(tmp_path)["test_sampled"] == some


def test_a_history_damaged_in_the_middle_loses_only_what_is_damaged(sbm, straight, tmp_path):
    path = crashed(sbm(0), tmp_path, epoch=7)
    lines = (path / HISTORY).read_text().splitlines()
    lines[1:4] = ["garbage", "{}", "5"]
    (path / HISTORY).write_text("\n".join(lines) + "\n")
    assert go_on(path)[1] == [
        "metrics.jsonl was damaged: the records of 3 earlier epochs are lost. The model is not "
        "affected."
    ]
    assert [r["epoch"] for r in read_history(path)] == [1, *range(5, 13)]
    assert (path / "model.safetensors").read_bytes() == (
        straight / "model.safetensors"
    ).read_bytes()


def test_another_number_of_threads_is_warned_of_and_written_down(sbm, tmp_path) -> None:
    path = crashed(sbm(0), tmp_path, epoch=7)
    assert go_on(path, {"threads": 2})[1] == [
        f"Until epoch 7 this run used cpu with 1 thread(s), {ENGINE} engine, now it uses cpu with "
        f"2 thread(s), {ENGINE} engine: from here on, bits may differ."
    ]
    assert read_run(path)["machines"] == [
        {"from_epoch": 1, "device": "cpu", "threads": 1, "engine": ENGINE},
        {"from_epoch": 8, "device": "cpu", "threads": 2, "engine": ENGINE},
    ]


def test_an_exchanged_split_is_refused(sbm: Build, straight: Path, tmp_path) -> None:
    other = finish(begin(sbm(0), tmp_path, seed=1))
    (straight / "split.safetensors").write_bytes((other / "split.safetensors").read_bytes())
    with pytest.raises(ModelFileError, match="was trained on another split"):
        LinkPredictor.load(straight)
    refused(straight, "belongs to another run: its split is")
