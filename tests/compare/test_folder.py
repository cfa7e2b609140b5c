"""The folder: nothing finished is lost, nothing foreign is mixed in."""

import json
import os

import pytest

from cgcl.compare.folder import ComparisonFolder
from cgcl.compare.result import Result
from cgcl.errors import ResourceError, RunFolderError

IDENTITY = {
    "graph": {"title": "toy", "fingerprint": "a" * 64},
    "protocol": "splits",
    "val": 0.05,
    "test": 0.1,
}


def result(seed=0, **changes):
    values = {
        "method": "mlp",
        "settings": {"lr": 0.01},
        "split_seed": seed,
        "split": "f" * 64,
        "init_seed": seed,
        "device": "cpu",
        "threads": 1,
        "versions": {"cgcl": "0.1.0"},
        "ended": "2025-11-15T09:00:00+00:00",
        "test": {"auc": 0.9},
    }
    return Result(**{**values, **changes})


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out"


def open_folder(path, **changes):
    return ComparisonFolder(path, {**IDENTITY, **changes}, {"runs": 3})


def test_results_are_there_again(path):
    with open_folder(path) as folder:
        folder.append(result(0))
        folder.append(result(1, test=None, failure={"error": "TrainingError", "reason": "NaN"}))
    with open_folder(path) as folder:
        assert folder.results == [
            result(0),
            result(1, test=None, failure={"error": "TrainingError", "reason": "NaN"}),
        ]
        assert folder.damaged_lines == 0
    plan = json.loads((path / "plan.json").read_text())
    assert plan == {"format": 1, **IDENTITY, "runs": 3}


def test_a_torn_last_line_costs_no_other_result(path):
    with open_folder(path) as folder:
        folder.append(result(0))
    sound = (path / "runs.jsonl").read_bytes()
    line = result(1).to_line()
    for cut in (0, 1, 17, len(line) // 2, len(line) - 2, len(line) - 1):
        (path / "runs.jsonl").write_bytes(sound + line[:cut])
        with open_folder(path) as folder:
            assert folder.results == [result(0)]
            assert folder.damaged_lines == 0
            folder.append(result(2))
        with open_folder(path) as folder:
            assert folder.results == [result(0), result(2)]


@pytest.mark.parametrize(
    "line", [b"{}", b"[1, 2]", b"\xff\xfe", b"{", b'{"method": "mlp"}', b"null", b"3"]
)
def test_a_damaged_line_is_counted_and_the_others_are_kept(path, line):
    with open_folder(path) as folder:
        folder.append(result(0))
    with (path / "runs.jsonl").open("ab") as file:
        file.write(line + b"\n" + result(1).to_line())
    with open_folder(path) as folder:
        assert folder.results == [result(0), result(1)]
        assert folder.damaged_lines == 1


def test_a_reason_may_hold_what_no_text_can():
    odd = result(test=None, failure={"error": "E", "reason": "no file \udcff\n\u2028é"})
    assert Result.from_line(odd.to_line().rstrip(b"\n")) == odd


def test_names_that_this_version_does_not_know_do_no_harm():
    line = json.dumps({**json.loads(result().to_line()), "colour": "blue"}).encode()
    assert Result.from_line(line) == result()


def test_every_result_reaches_the_disk(path, monkeypatch):
    synced = []
    real = os.fsync
    with open_folder(path) as folder:
        monkeypatch.setattr(os, "fsync", lambda number: (synced.append(number), real(number)))
        folder.append(result())
        assert len(synced) == 1


def test_another_graph_is_refused(path):
    open_folder(path).close()
    before = (path / "plan.json").read_bytes()
    with pytest.raises(RunFolderError) as refused:
        open_folder(path, graph={"title": "cora", "fingerprint": "b" * 64})
    assert str(refused.value) == (
        f"{path} holds a comparison on another graph, 'toy' (aaaaaaaaaaaa); this is 'cora' "
        f"(bbbbbbbbbbbb).\nChoose another --out."
    )
    assert (path / "plan.json").read_bytes() == before
    open_folder(path).close()  # the lock is free again


@pytest.mark.parametrize(("key", "value"), [("protocol", "paper"), ("val", 0.1), ("test", 0.2)])
def test_another_protocol_is_refused(path, key, value):
    open_folder(path).close()
    with pytest.raises(RunFolderError) as refused:
        open_folder(path, **{key: value})
    assert str(refused.value) == (
        f"{path} holds a comparison with {key} {IDENTITY[key]}; you asked for {key} {value}.\n"
        f"Ask for the same, or choose another --out."
    )


def test_two_processes_do_not_share_a_folder(path):
    with open_folder(path), pytest.raises(RunFolderError, match="is in use by process"):
        open_folder(path)


def test_a_folder_with_other_things_is_left_alone(path):
    path.mkdir()
    (path / "thesis.tex").write_text("x")
    with pytest.raises(RunFolderError, match="is not the folder of a comparison"):
        open_folder(path)
    assert [file.name for file in path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', '{"format": 1, "graph": 3}'])
def test_a_damaged_plan_is_told(path, content):
    open_folder(path).close()
    (path / "plan.json").write_text(content)
    with pytest.raises(RunFolderError, match=r"plan.json is damaged"):
        open_folder(path)


def test_a_plan_of_another_version_is_told(path):
    open_folder(path).close()
    (path / "plan.json").write_text(json.dumps({**IDENTITY, "format": 2}))
    with pytest.raises(RunFolderError, match="has format 2; this version of cgcl reads format 1"):
        open_folder(path)


def test_a_full_disk_is_told(path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    with open_folder(path) as folder:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ResourceError) as told:
            folder.append(result())
    assert "runs.jsonl: No space left on device. What was finished before is intact" in str(
        told.value
    )


def test_a_training_that_was_cut_short_is_final_only_under_the_same_limit():
    cut = result(stopped={"reason": "time limit", "epoch": 3, "message": ""}, time_limit="5m")
    assert cut.is_final("5m")
    assert not cut.is_final("10m")
    assert not cut.is_final("")
    assert result(time_limit="5m").is_final("")
    assert result(stopped={"reason": "collapse", "epoch": 3, "message": ""}).is_final("10m")
    assert not result(test=None, failure={"error": "E", "reason": "r"}).is_final("")
