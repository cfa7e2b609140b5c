from __future__ import annotations

import json
from pathlib import Path

import pytest

from cgcl.errors import ResourceError, RunFolderError
from cgcl.tune.study_folder import STUDY, TRIALS, StudyFolder
from cgcl.tune.trial import Trial

IDENTITY = {
    "method": "mlp",
    "graph": {"title": "toy", "fingerprint": "a" * 64},
    "split": {"fingerprint": "b" * 64},
    "seed": 0,
    "settings": {"searched": {"lr": (0.1, 0.2)}, "defaults": {"lr": 0.1}, "authors": {"lr": 0.1}},
}
ABOUT = {"threads": 2, "command": "cgcl tune toy.csv"}


def one(number: int) -> Trial:
    return Trial(number, "search", {"lr": number / 10}, 0.5, 0.5, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "deep" / "study"
    with StudyFolder(path, IDENTITY, ABOUT) as study:
        assert study.trials == {}
        for number in (1, 2, 3):
            study.append(one(number))
    return path


def test_trials_come_back(folder: Path) -> None:
    with StudyFolder(folder, IDENTITY, {"threads": 7}) as study:
        assert study.trials == {number: one(number) for number in (1, 2, 3)}
        assert study.threads == 2
        assert study.damaged_lines == 0


def test_cut_anywhere_the_whole_lines_come_back_and_the_file_goes_on(folder: Path) -> None:
    content = (folder / TRIALS).read_bytes()
    for end in range(0, len(content), 5):
        (folder / TRIALS).write_bytes(content[:end])
        whole = content[:end].count(b"\n")
        with StudyFolder(folder, IDENTITY, ABOUT) as study:
            assert sorted(study.trials) == list(range(1, whole + 1))
            study.append(one(9))
        with StudyFolder(folder, IDENTITY, ABOUT) as study:
            assert sorted(study.trials) == [*range(1, whole + 1), 9]
            assert study.damaged_lines == 0


def test_a_damaged_line_costs_its_trial_alone(folder: Path) -> None:
    lines = (folder / TRIALS).read_bytes().splitlines(keepends=True)
    (folder / TRIALS).write_bytes(lines[0] + b"\0" * 30 + b"\n" + lines[2])
    with StudyFolder(folder, IDENTITY, ABOUT) as study:
        assert sorted(study.trials) == [1, 3]
        assert study.damaged_lines == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"method": "cgcl"}, "a search with another method: mlp on 'toy'"),
        ({"graph": {"title": "toy", "fingerprint": "c" * 64}}, "another graph"),
        ({"split": {"fingerprint": "c" * 64}}, "another split"),
        ({"seed": 1}, "another seed"),
        (
            {"settings": {**IDENTITY["settings"], "searched": {"lr": (0.1, 0.3)}}},
            r"other settings \(lr\)",
        ),
        (
            {"seed": 1, "settings": {**IDENTITY["settings"], "defaults": {"lr": 0.1, "k": 3}}},
            r"another seed and other settings \(k\)",
        ),
    ],
)
def test_another_search_is_refused_and_nothing_changes(folder: Path, change, text: str) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "lock"}
    with pytest.raises(RunFolderError, match=text) as caught:
        StudyFolder(folder, {**IDENTITY, **change}, ABOUT)
    assert "choose another --out" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 4
    assert before == {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "lock"}
    StudyFolder(folder, IDENTITY, ABOUT).close()  # the lock has been let go


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "is damaged"),
        (b"null", "is damaged"),
        (b'{"format": 1, "about": {"threads": 1}, "identity": {"method": "mlp"}}', "is damaged"),
        (b'{"format": 2}', "has format 2; this version of cgcl reads format 1"),
    ],
)
def test_a_damaged_description_is_refused(folder: Path, content: bytes, text: str) -> None:
    (folder / STUDY).write_bytes(content)
    with pytest.raises(RunFolderError, match=text):
        StudyFolder(folder, IDENTITY, ABOUT)


def test_a_folder_with_other_things_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunFolderError, match="is not the folder of a search"):
        StudyFolder(tmp_path, IDENTITY, ABOUT)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_search_that_was_killed_at_its_beginning_begins_again(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / f"{STUDY}.tmp").write_text('{"form')
    StudyFolder(tmp_path, IDENTITY, ABOUT).close()
    assert json.loads((tmp_path / STUDY).read_text())["about"] == ABOUT


def test_two_processes_cannot_share_a_folder(folder: Path) -> None:
    owner = StudyFolder(folder, IDENTITY, ABOUT)
    with pytest.raises(RunFolderError, match="is in use by process"):
        StudyFolder(folder, IDENTITY, ABOUT)
    owner.close()
    StudyFolder(folder, IDENTITY, ABOUT).close()


def test_a_full_disk_is_told(folder: Path, monkeypatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with StudyFolder(folder, IDENTITY, ABOUT) as study:
        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(ResourceError, match="start the same command again"):
            study.append(one(4))


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="Cannot create the folder"):
        StudyFolder(tmp_path / "file", IDENTITY, ABOUT)
