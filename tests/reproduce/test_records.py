"""The folder of a reproduction: no result is lost, none is mixed with those of another graph."""

import json
import os
from dataclasses import replace

import pytest

from cgcl.errors import ResourceError, RunFolderError
from cgcl.reproduce.record import Record
from cgcl.reproduce.records import RUNS, Records, found_in, read_records


def record(seed=0, **changes):
    given = {
        "graph": "cora",
        "test": 10,
        "method": "cgcl",
        "settings": {"lr": 0.02},
        "split_seed": seed,
        "split": "s" * 64,
        "seed": seed,
        "fingerprint": "a" * 64,
        "device": "cpu",
        "threads": 1,
        "versions": {"cgcl": "0.1.0"},
        "val": {"auc": 0.8, "ap": 0.7},
        "metrics": {"auc": 0.9, "ap": 0.8},
        "epochs": 3,
        "best_epoch": 2,
        "parameters": 7,
        "seconds": 0.25,
    }
    return Record(**{**given, **changes})


def failed(seed=0):
    return record(seed, metrics=None, val=None, failure="ValueError: no")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out"


def lines(path):
    return (path / RUNS).read_bytes().splitlines(keepends=True)


def test_records_are_there_again(path):
    made = [record(0), record(1, measures=["trace"], measured={"trace": {"epoch": [1]}}), failed(2)]
    with Records(path) as records:
        for own in made:
            records.append(own)
        found = dict(records.found)
    with Records(path) as records:
        keys = [(made[0].key, made[0]), (made[1].key, made[1]), (made[1].plain_key, made[1])]
        assert records.found == found == dict(keys)
        assert records.damaged_lines == 0
    assert read_records(path / RUNS) == made
    assert lines(path) == [own.to_line() for own in made]


def test_nothing_is_there_at_first(path):
    assert read_records(path / RUNS) == []
    with Records(path) as records:
        assert (records.found, records.damaged_lines) == ({}, 0)


def test_what_has_nothing_to_say_is_left_out():
    said = json.loads(record().to_line())
    assert not {"measures", "measured", "caps", "stopped", "failure"} & said.keys()
    assert json.loads(record(settings={}).to_line())["settings"] == {}
    odd = failed(1)
    odd = replace(odd, failure="Error: \udcff\n\u2028é", caps="at most 3", stopped="time limit")
    assert Record.from_line(odd.to_line()) == odd


def test_names_that_this_version_does_not_know_do_no_harm():
    line = json.dumps({**json.loads(record().to_line()), "colour": "blue"}).encode()
    assert Record.from_line(line) == record()


def test_a_last_line_that_was_cut_off_costs_no_other(path):
    line = record(1).to_line()
    for cut in (0, 1, 17, len(line) // 2, len(line) - 2, len(line) - 1):
        path.mkdir(exist_ok=True)
        (path / RUNS).write_bytes(record(0).to_line() + line[:cut])
        with Records(path) as records:
            assert list(records.found.values()) == [record(0)]
            assert records.damaged_lines == 0
            records.append(record(2))
        assert lines(path) == [record(0).to_line(), record(2).to_line()]


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[1, 2]",
        b"\xff\xfe",
        b"{",
        b"null",
        b"3",
        b'"cgcl"',
        b'{"method": "cgcl"}',
        record().to_line().replace(b'"metrics": {', b'"other": {').rstrip(),
        record().to_line().replace(b'"settings": {"lr": 0.02}', b'"settings": 3').rstrip(),
        *(
            record(metrics=metrics).to_line().rstrip()
            for metrics in (
                {"auc": "0.9", "ap": 0.9},
                {"auc": float("nan"), "ap": 0.9},
                {"auc": 12.0, "ap": 0.9},
                {"auc": 0.9, "ap": -0.1},
                {"auc": 0.9, "ap": None},
                {"auc": 0.9},
                {"hits": 0.9},
            )
        ),
    ],
)
def test_a_damaged_line_is_counted_and_ignored(path, line):
    path.mkdir()
    before = record(0).to_line() + line + b"\n" + record(1).to_line()
    (path / RUNS).write_bytes(before)
    with Records(path) as records:
        assert list(records.found.values()) == [record(0), record(1)]
        assert records.damaged_lines == 1
        records.append(record(2))
    assert (path / RUNS).read_bytes() == before + record(2).to_line()
    assert read_records(path / RUNS) == [record(0), record(1), record(2)]


def test_the_first_result_of_a_run_counts(path):
    first, second = record(metrics={"auc": 0.9, "ap": 0.8}), record(metrics={"auc": 0.1, "ap": 0.1})
    assert first.key == second.key
    with Records(path) as records:
        records.append(first)
        records.append(second)
        assert records.found == {first.key: first}
    with Records(path) as records:
        assert records.found == {first.key: first}
    assert found_in([second, first]) == {first.key: second}


def test_a_run_with_a_measure_stands_for_one_without_unless_there_is_one(path):
    plain = record()
    traced = record(measures=["trace"], measured={"trace": {"epoch": [1]}})
    assert traced.plain_key == plain.plain_key == plain.key != traced.key
    assert found_in([traced]) == {traced.key: traced, plain.key: traced}
    both = {traced.key: traced, plain.key: plain}
    assert found_in([traced, plain]) == found_in([plain, traced]) == both
    with Records(path) as records:
        records.append(traced)
        assert records.found == found_in([traced])


def test_a_failure_is_no_result(path):
    with Records(path) as records:
        records.append(failed())
        assert records.found == {}
        records.append(record())
        records.append(failed())
        assert records.found == {record().key: record()}
    with Records(path) as records:
        assert records.found == {record().key: record()}
    assert len(lines(path)) == 3


def test_another_graph_of_the_same_name_is_refused(path):
    with Records(path) as records:
        records.require_graph("cora", "b" * 64)  # there is nothing to mix it with
        records.append(record())
        records.require_graph("cora", "a" * 64)
        records.require_graph("photo", "b" * 64)
        with pytest.raises(RunFolderError) as refused:
            records.require_graph("cora", "b" * 64)
    assert str(refused.value) == (
        f"{path} holds runs on another cora (aaaaaaaaaaaa); this one is bbbbbbbbbbbb.\n"
        f"Choose another --out."
    )


def test_two_processes_do_not_share_a_folder(path):
    with Records(path), pytest.raises(RunFolderError, match="is in use by process"):
        Records(path)
    Records(path).close()


def test_every_record_reaches_the_disk(path, monkeypatch):
    synced, real = [], os.fsync
    with Records(path) as records:
        monkeypatch.setattr(os, "fsync", lambda number: (synced.append(number), real(number)))
        records.append(record())
        assert len(synced) == 1


def test_a_full_disk_is_told(path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    with Records(path) as records:
        records.append(record(0))
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ResourceError) as told:
            records.append(record(1))
        assert list(records.found.values()) == [record(0)]
    assert str(told.value) == (
        f"Cannot write {path / RUNS}: No space left on device. What was finished before is "
        f"intact.\nFree some space or choose another --out, then start the same command again."
    )


class AlmostFull:
    """A file on a disk that has room for half a line: the system writes as much and says so."""

    def __init__(self, file):
        self._file, self._room = file, 200

    def write(self, line):
        if not self._room:
            raise OSError(28, "No space left on device")
        written = self._file.write(line[: self._room])
        self._room -= written
        return written

    def fileno(self):
        return self._file.fileno()

    def close(self):
        self._file.close()


def test_a_disk_with_room_for_half_a_line_is_told(path):
    with Records(path) as records:
        records._file._file = AlmostFull(records._file._file)
        assert len(record(0).to_line()) > 200
        with pytest.raises(ResourceError, match="No space left on device"):
            records.append(record(0))
        assert records.found == {}


def test_a_record_of_a_method_that_this_version_does_not_have_does_no_harm(path):
    path.mkdir()
    written = [record(0, method="newer"), record(1), record(2, method=3)]
    (path / RUNS).write_bytes(b"".join(own.to_line() for own in written))
    with Records(path) as records:
        assert records.found == {record(1).key: record(1)}
        assert records.damaged_lines == 2


def test_a_file_that_cannot_be_opened_is_told_and_the_folder_is_free_again(path):
    (path / RUNS).mkdir(parents=True)
    with pytest.raises(ResourceError, match=r"Cannot write .*runs.jsonl: Is a directory\."):
        Records(path)
    (path / RUNS).rmdir()
    Records(path).close()


def test_a_folder_that_cannot_be_made_is_told(path):
    path.write_text("a file")
    with pytest.raises(ResourceError, match="Cannot create the folder"):
        Records(path)
