"""One log for all results: nothing finished is lost, nothing foreign is mixed in."""

import json
import os
from dataclasses import replace

import pytest

from cgcl.errors import ConfigError, ResourceError, RunFolderError
from cgcl.experiments.comparison import PLAN, RESULTS, Result
from cgcl.experiments.log import Owner, ResultFolder, read_log
from cgcl.experiments.reproduction import Records, index, read_records
from cgcl.experiments.search import STUDY, Trial
from cgcl.experiments.study import Record

VERSIONS = {"cgcl": "0.1.0"}
WHERE = {"device": "cpu", "threads": 1, "versions": VERSIONS}


def result(seed=0, **changes):
    values = {"method": "mlp", "settings": {"lr": 0.01}, "split_seed": seed, "split": "f" * 64}
    values |= {"init_seed": seed, "ended": "2025-11-15T09:00:00+00:00", "test": {"auc": 0.9}}
    return Result(**{**values, **WHERE, **changes})


def trial(number=0, **changes):
    return replace(Trial(number + 1, "search", {"lr": 0.1}, 0.1 + 0.2, 1 / 3, 1), **changes)


def record(seed=0, **changes):
    given = {"graph": "cora", "test": 10, "method": "cgcl", "settings": {"lr": 0.02}}
    given |= {"split_seed": seed, "split": "s" * 64, "seed": seed, "fingerprint": "a" * 64}
    given |= {"val": {"auc": 0.8, "ap": 0.7}, "metrics": {"auc": 0.9, "ap": 0.8}, "epochs": 3}
    return Record(**{**given, **WHERE, **changes})


FAILED = record(metrics=None, val=None, failure="ValueError: no")


KINDS = pytest.mark.parametrize("make", [result, trial, record])
FILE = "lines.jsonl"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "deep" / "out"


def opened(path, make=result):
    return ResultFolder(path, FILE, type(make()))


@KINDS
def test_results_are_there_again_after_a_cut_at_any_place(path, make):
    with opened(path, make) as folder:
        for seed in (0, 1):
            folder.append(make(seed))
    content = (path / FILE).read_bytes()
    for cut in range(0, len(content) + 1, 41):
        (path / FILE).write_bytes(content[:cut])
        whole = [make(seed) for seed in range(content[:cut].count(b"\n"))]
        with opened(path, make) as folder:
            assert (folder.results, folder.damaged_lines) == (whole, 0)
            folder.append(make(2))
        with opened(path, make) as folder:
            assert (folder.results, folder.damaged_lines) == ([*whole, make(2)], 0)


@KINDS
def test_a_damaged_line_is_counted_and_the_others_are_kept(path, make):
    path.mkdir(parents=True)
    damaged = [b"{}", b"[1]", b"\xff\xfe", b"{", b"null", b"3", b"\0" * 30]
    before = make(0).to_line() + b"\n".join([*damaged, make(1).to_line()])
    (path / FILE).write_bytes(before)
    with opened(path, make) as folder:
        assert (folder.results, folder.damaged_lines) == ([make(0), make(1)], len(damaged))
        folder.append(make(2))
    assert (path / FILE).read_bytes() == before + make(2).to_line()


@pytest.mark.parametrize(
    "odd",
    [
        result(test=None, failure={"error": "E", "reason": "no file \udcff\n\u2028é"}),
        record(metrics=None, val=None, failure="Error: \udcff\n\u2028é", caps="few", stopped="x"),
        Trial(2, "search", {"views": "é"}, failure="gone\n"),
    ],
)
def test_a_reason_may_hold_what_no_text_can_and_one_that_is_not_there_is_left_out(odd):
    assert odd.to_line().count(b"\n") == 1
    assert type(odd).from_line(odd.to_line()) == odd
    said = json.loads(record(settings={}).to_line())
    assert not {"measures", "measured", "caps", "stopped", "failure"} & said.keys()
    assert said["settings"] == {}


@KINDS
def test_lines_of_other_versions_may_say_more_but_not_less(make):
    said = json.loads(make().to_line())
    line = json.dumps({**said, "colour": "blue"}).encode()
    assert type(make()).from_line(line) == make()
    del said["settings"]
    with pytest.raises(ValueError, match=r"^settings is missing$"):
        type(make()).from_line(json.dumps(said).encode())


def test_a_script_is_told_which_line_lacks_what(tmp_path):
    assert read_log(tmp_path / FILE) == []
    (tmp_path / FILE).write_text('{"graph": "cora", "seed": 0, "new": 1}\n{"graph": "cora"}\n{"gra')
    assert len(read_log(tmp_path / FILE, ["graph"])) == 2
    with pytest.raises(ConfigError, match=r"Line 2 of .*lines.jsonl is no result: seed is missing"):
        read_log(tmp_path / FILE, ["graph", "seed"])


@pytest.mark.parametrize(
    "wrong",
    [
        replace(trial(), number="1"),
        replace(trial(), auc=None),
        result(test=None),
        record(settings=3),
        record(method="newer"),
        record(metrics=None),
        record(metrics={"auc": float("nan"), "ap": 0.9}),
        record(metrics={"auc": 12.0, "ap": 0.9}),
        record(metrics={"auc": 0.9}),
    ],
)
def test_values_that_make_no_sense_are_no_result(wrong):
    with pytest.raises(ValueError, match="its values"):
        type(wrong).from_line(wrong.to_line())


def test_every_result_reaches_the_disk_and_a_full_one_is_told(path, monkeypatch):
    synced, real = [], os.fsync
    with opened(path) as folder:
        monkeypatch.setattr(os, "fsync", lambda number: (synced.append(number), real(number)))
        folder.append(result())
        assert len(synced) == 1

        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ResourceError) as told:
            folder.append(result(1))
        assert folder.results == [result()]
    assert str(told.value) == (
        f"Cannot write {path / FILE}: No space left on device. What was finished before is "
        f"intact.\nFree some space or choose another `out`, then start the same command again."
    )


def test_two_processes_do_not_share_a_folder(path):
    with opened(path), pytest.raises(RunFolderError, match="is in use by process"):
        opened(path)
    opened(path).close()


def test_a_place_that_cannot_be_written_is_told_and_the_folder_is_free_again(path):
    (path / FILE).mkdir(parents=True)
    with pytest.raises(ResourceError, match=r"Cannot write .*lines.jsonl: Is a directory\."):
        opened(path)
    (path / FILE).rmdir()
    opened(path).close()
    with pytest.raises(ResourceError, match="Cannot create the folder"):
        opened(path / "lock")


GRAPH = {"title": "toy", "fingerprint": "a" * 64}
COMPARED = {"graph": GRAPH, "protocol": "splits", "val": 0.05, "test": 0.1}
SETTINGS = {"searched": {"lr": (0.1, 0.2)}, "defaults": {"lr": 0.1}, "authors": {"lr": 0.1}}
SEARCHED = {"method": "mlp", "graph": GRAPH, "split": {"fingerprint": "b" * 64}, "seed": 0}
SEARCHED |= {"settings": SETTINGS}
ABOUT = {"threads": 2, "command": "cgcl tune toy.csv"}
CLAIMS = {PLAN: ("a comparison", COMPARED), STUDY: ("a search", SEARCHED)}
BOTH = pytest.mark.parametrize("about", CLAIMS)


def claimed(path, about, **changes):
    what, identity = CLAIMS[about]
    owner = Owner(about, what, {**identity, **changes}, ABOUT, kept=["threads"])
    return ResultFolder(path, RESULTS, Result, owner)


@pytest.mark.parametrize(
    ("about", "changes", "text"),
    [
        (
            PLAN,
            {"graph": {"title": "cora", "fingerprint": "b" * 64}},
            r"a comparison with graph 'toy' \(a{12}\); you asked for graph 'cora' \(b{12}\)\.",
        ),
        (PLAN, {"val": 0.1}, "val 0.05; you asked for val 0.1"),
        (STUDY, {"split": {"fingerprint": "c" * 64}}, r"split \(b{12}\); .* split \(c{12}\)"),
        (
            STUDY,
            {"settings": {**SETTINGS, "searched": {"lr": (0.3,)}}},
            r"lr \[0.1, 0.2\]; you asked for lr \[0.3\]",
        ),
        (
            STUDY,
            {"seed": 1, "settings": {**SETTINGS, "defaults": {"lr": 0.1, "k": 3}}},
            "seed 0 and k unset; you asked for seed 1 and k 3",
        ),
    ],
)
def test_the_folder_of_something_else_is_refused_and_stays_as_it_is(path, about, changes, text):
    claimed(path, about).close()
    before = (path / about).read_bytes()
    with pytest.raises(RunFolderError, match=text) as refused:
        claimed(path, about, **changes)
    assert "another `out`" in str(refused.value)
    assert (path / about).read_bytes() == before
    claimed(path, about).close()  # the lock is free again


@BOTH
def test_a_folder_is_known_again_by_its_graph_and_only_what_was_killed_early_begins_anew(
    path, about
):
    path.mkdir(parents=True)
    (path / "thesis.tex").write_text("x")
    with pytest.raises(RunFolderError, match=f"is not the folder of {CLAIMS[about][0]}"):
        claimed(path, about)
    assert [file.name for file in path.iterdir()] == ["thesis.tex"]
    (path / "thesis.tex").unlink()
    (path / "lock").touch()
    (path / f"{about}.{'0' * 32}.tmp").write_text('{"form')
    claimed(path, about).close()
    assert json.loads((path / about).read_text())["format"] == 1
    claimed(path, about, graph={**GRAPH, "title": "other"}).close()


DAMAGED = "is damaged"


@BOTH
@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", DAMAGED),
        ("[]", DAMAGED),
        ('{"format": 1, "graph": 3, "protocol": 1, "val": 1, "test": 1}', DAMAGED),
        ('{"format": 1, "about": {"threads": 1}, "identity": {"method": "mlp"}}', DAMAGED),
        ('{"format": 2}', "has format 2; this version of cgcl reads format 1"),
    ],
)
def test_a_description_that_is_damaged_or_of_another_version_is_told(path, about, content, text):
    claimed(path, about).close()
    (path / about).write_text(content)
    with pytest.raises(RunFolderError, match=text):
        claimed(path, about)


def test_a_search_of_version_0_1_is_known_again_and_keeps_its_threads(path):
    claimed(path, STUDY).close()
    old = {"format": 1, "identity": SEARCHED, "about": {**ABOUT, "threads": 7}}
    (path / STUDY).write_text(json.dumps(old))
    with claimed(path, STUDY) as folder:
        assert folder.about["threads"] == 7
    with pytest.raises(RunFolderError, match="seed 0; you asked for seed 1"):
        claimed(path, STUDY, seed=1)


def test_a_training_that_was_cut_short_is_final_only_under_the_same_limit():
    cut = result(stopped={"reason": "time limit", "epoch": 3, "message": ""}, time_limit="5m")
    assert [cut.is_final(limit) for limit in ("5m", "10m", "")] == [True, False, False]
    assert result(stopped={"reason": "collapse", "epoch": 3, "message": ""}).is_final("10m")
    assert not result(test=None, failure={"error": "E", "reason": "r"}).is_final("")


def test_the_first_result_of_a_run_counts_and_a_failure_is_none(path):
    first, second = record(), record(metrics={"auc": 0.1, "ap": 0.1})
    assert first.key == second.key
    with Records(path) as records:
        for own in (FAILED, first, second, FAILED):
            records.append(own)
        assert records.found == {first.key: first}
    with Records(path) as records:
        assert records.found == {first.key: first}
    assert read_records(path / RESULTS) == [FAILED, first, second, FAILED]
    assert index([second, first]) == {first.key: second}


def test_a_run_with_a_measure_stands_for_one_without_unless_there_is_one(path):
    plain = record()
    traced = record(measures=["trace"], measured={"trace": {"epoch": [1]}})
    assert traced.plain_key == plain.plain_key == plain.key != traced.key
    assert index([traced]) == {traced.key: traced, plain.key: traced}
    both = {traced.key: traced, plain.key: plain}
    assert index([traced, plain]) == index([plain, traced]) == both
    with Records(path) as records:
        records.append(traced)
        assert records.found == index([traced])


def test_another_graph_of_the_same_name_is_refused(path):
    with Records(path) as records:
        records.require_graph("cora", "b" * 64)  # there is nothing to mix it with
        records.append(record())
        records.require_graph("cora", "a" * 64)
        records.require_graph("photo", "b" * 64)
        with pytest.raises(RunFolderError, match=r"holds runs on another cora \(a{12}\)"):
            records.require_graph("cora", "b" * 64)
