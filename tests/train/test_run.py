"""Runs inside this process: files, resuming, and what a damaged folder gets."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from cgcl.errors import ModelFileError, ResourceError, RunFolderError
from cgcl.graph import Graph
from cgcl.predict import LinkPredictor
from cgcl.train.checkpoint import CHECKPOINT, PREVIOUS_CHECKPOINT
from cgcl.train.config import ModelConfig, Resources, TrainConfig
from cgcl.train.history import HISTORY, read_history
from cgcl.train.model_file import read_model
from cgcl.train.run import Run
from cgcl.train.run_folder import RunFolder, read_run
from cgcl.train.start import resume_run, start_run
from cgcl.train.trainer import EpochRecord

Build = Callable[[int], Graph]
MODEL = ModelConfig(hidden=8)
CONFIG = TrainConfig(epochs=12, evaluate_every=3)
OFTEN = Resources(threads=1, checkpoint_every=0.0)


def begin(graph: Graph, out: Path, config: TrainConfig = CONFIG, res: Resources = OFTEN) -> Run:
    return start_run(graph, MODEL, config, res, out, "cgcl train sbm")


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
    assert list(run["test"]) == ["auc", "ap", "hits@10", "hits@50", "hits@100", "mrr"]
    assert all(0 <= value <= 1 for value in run["test"].values())
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


def test_a_run_and_the_python_class_give_the_same_model(sbm: Build, straight: Path) -> None:
    predictor = LinkPredictor(hidden=8, epochs=12, evaluate_every=3, threads=1).fit(sbm(0))
    model, _, _ = read_model(straight / "model.safetensors")
    for name, value in predictor.model_.state_dict().items():
        assert torch.equal(value, model.state_dict()[name])
    assert predictor.test_ == read_run(straight)["test"]


@pytest.mark.parametrize("epoch", [1, 4, 6, 11, 12])
def test_a_crashed_run_resumes_to_the_same_bits(sbm: Build, straight, tmp_path, epoch) -> None:
    path = crashed(sbm(0), tmp_path, epoch=epoch)
    finish(resume_run(path))
    assert_same_bits(path, straight)


def test_a_run_that_crashed_before_its_first_checkpoint_starts_over(sbm, straight, tmp_path):
    path = crashed(sbm(0), tmp_path, epoch=5, res=Resources(threads=1, checkpoint_every=1e6))
    assert not (path / CHECKPOINT).exists()
    assert len(read_history(path)) == 5
    finish(resume_run(path, OFTEN))
    assert_same_bits(path, straight)


def test_a_history_cut_in_the_middle_of_a_line_is_mended(sbm, straight, tmp_path) -> None:
    path = crashed(sbm(0), tmp_path, epoch=7)
    history = path / HISTORY
    history.write_bytes(history.read_bytes() + b'{"epoch": 8, "los')
    finish(resume_run(path))
    assert_same_bits(path, straight)


def test_what_an_interrupted_write_left_is_ignored_and_removed(sbm, straight, tmp_path) -> None:
    path = crashed(sbm(0), tmp_path, epoch=7)
    (path / "checkpoint.safetensors.tmp").write_bytes(b"half a checkpoint")
    finish(resume_run(path))
    assert_same_bits(path, straight)
    assert not list(path.glob("*.tmp"))


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "pickle", "missing"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before(sbm, straight, tmp_path, damage):
    path = crashed(sbm(0), tmp_path, epoch=7)
    spoil(path / CHECKPOINT, damage)
    run = resume_run(path)
    told: list[tuple[int, str | None]] = []
    with run.folder:
        run.train(on_start=lambda epoch, warning: told.append((epoch, warning)))
    # The newest checkpoint held epoch 7, the one before it epoch 6.
    assert told[0][0] == 6
    if damage != "missing":
        assert "Going on from the one before it." in (told[0][1] or "")
    assert_same_bits(path, straight)


def spoil(path: Path, damage: str) -> None:
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "pickle":
        path.write_bytes(b"\x80\x04K\x01.")
    else:
        path.unlink()


def test_two_damaged_checkpoints_are_an_error_and_nothing_is_lost(sbm, tmp_path) -> None:
    path = crashed(sbm(0), tmp_path, epoch=7)
    for name in (CHECKPOINT, PREVIOUS_CHECKPOINT):
        spoil(path / name, "flip")
    before = {p.name: p.read_bytes() for p in path.iterdir() if p.name != "lock"}
    run = resume_run(path)
    with run.folder, pytest.raises(ModelFileError) as error:
        run.train()
    assert str(error.value) == (
        f"checkpoint.safetensors in {path} is damaged (its checksum does not match).\n"
        "There is no earlier checkpoint to go on from. Nothing was changed. "
        "Delete checkpoint.safetensors to start this run again from its first epoch."
    )
    assert before == {p.name: p.read_bytes() for p in path.iterdir() if p.name != "lock"}


def test_a_checkpoint_of_another_run_is_refused_by_its_first_difference(sbm, tmp_path) -> None:
    path = crashed(sbm(0), tmp_path, epoch=7)
    other = begin(sbm(0), tmp_path / "other", TrainConfig(epochs=12, evaluate_every=3, lr=0.02))
    foreign = finish(other)
    (path / CHECKPOINT).write_bytes((foreign / CHECKPOINT).read_bytes())
    run = resume_run(path)
    with run.folder, pytest.raises(ModelFileError, match=r"its lr is 0\.02, this run's is 0\.01"):
        run.train()


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
    resumed = resume_run(path, OFTEN)
    assert not resumed.is_finished
    finish(resumed)
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
    assert owner.stdout is not None
    assert owner.stdout.readline() == "locked\n"
    with pytest.raises(RunFolderError) as error:
        RunFolder(tmp_path / "r")
    assert f"r is in use by process {owner.pid} (started " in str(error.value)
    assert str(error.value).endswith("Use another --out, or wait.")
    owner.kill()
    owner.communicate()
    RunFolder(tmp_path / "r").close()


def test_too_little_space_is_told_before_training(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"MB free; the run needs about 1,000,000,000 MB"):
        RunFolder.create(tmp_path, "g", needed_bytes=10**15)


def test_an_output_that_is_a_file_is_told_before_training(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="Cannot create a run folder in"):
        RunFolder.create(tmp_path / "file", "g", 0)


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


def test_settings_that_were_tampered_with_are_refused(straight: Path) -> None:
    run = json.loads((straight / "run.json").read_text())
    run["config"]["hidden"] = -1
    (straight / "run.json").write_text(json.dumps(run))
    with pytest.raises(RunFolderError, match="hidden is -1; it must be at least 2"):
        resume_run(straight)


def test_a_history_damaged_in_the_middle_is_an_error_of_ours(straight: Path) -> None:
    lines = (straight / HISTORY).read_text().splitlines()
    lines[3] = "garbage"
    (straight / HISTORY).write_text("\n".join(lines))
    with pytest.raises(RunFolderError, match=r"metrics\.jsonl, line 4: not a JSON record"):
        read_history(straight)
