from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from cgcl.errors import ResourceError
from cgcl.methods.subgraph import cache as module
from cgcl.methods.subgraph.cache import Arrays, cache_folder, cached


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let every test have an empty cache of its own."""
    place = tmp_path / "cache"
    monkeypatch.setenv("CGCL_CACHE", str(place))
    return place


class Work:
    """Something to compute, and how often it was."""

    def __init__(self, value: float = 1.0, size: int = 3) -> None:
        self.times = 0
        self.value, self.size = value, size

    def __call__(self) -> Arrays:
        self.times += 1
        return {
            "values": np.full(self.size, self.value, dtype=np.float32),
            "nodes": np.arange(4, dtype=np.int32).reshape(2, 2),
            "none": np.empty((0, 2), dtype=np.int64),
            "flags": np.array([True, False]),
        }


def same(one: Arrays, other: Arrays) -> bool:
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name]) and one[name].dtype == other[name].dtype
        for name in one
    )


def test_what_was_computed_once_comes_from_disk(folder: Path) -> None:
    work = Work()
    first, again = cached("toy-1", ["a"], work), cached("toy-1", ["a"], work)
    assert work.times == 1
    assert same(first, again)
    assert same(again, Work()())
    assert [path.suffix for path in folder.iterdir()] == [".safetensors"]


LINKS = torch.tensor([[0, 1], [1, 2]])
SPARSE = torch.eye(3).to_sparse_coo().coalesce()
WIDER = torch.eye(3, 4).to_sparse_coo().coalesce()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["a", "b"], ["ab"]),
        ([1, 2], [12]),
        (["1"], [1]),
        ([1], [1.0]),
        ([b"a"], ["a"]),
        ([LINKS], [LINKS.flip(0)]),
        ([LINKS], [LINKS.int()]),
        ([LINKS], [LINKS.reshape(1, 4)]),
        ([SPARSE], [SPARSE.to_dense()]),
        ([SPARSE], [(2 * SPARSE).coalesce()]),
        ([SPARSE], [WIDER]),
        ([np.array([1.0, 2.0])], [np.array([1.0, -2.0])]),
    ],
)
def test_other_parts_are_another_key(one, other) -> None:
    work = Work()
    for parts in (one, other, one, other):
        cached("toy-1", parts, work)
    assert work.times == 2


def test_another_kind_is_another_key() -> None:
    work = Work()
    cached("toy-1", ["a"], work)
    cached("toy-2", ["a"], work)
    assert work.times == 2


def test_a_tensor_and_its_copy_are_the_same_key() -> None:
    work = Work()
    cached("toy-1", [LINKS, SPARSE, LINKS.T], work)
    cached("toy-1", [LINKS.clone(), SPARSE.clone(), LINKS.T.contiguous()], work)
    assert work.times == 1


@pytest.mark.parametrize("damage", ["cut", "flipped", "emptied", "other"])
def test_a_damaged_file_is_computed_again(folder: Path, damage: str) -> None:
    work = Work(size=1000)
    expected = cached("toy-1", ["a"], work)
    (path,) = folder.iterdir()
    content = bytearray(path.read_bytes())
    content[-5] ^= 255
    path.write_bytes(
        {
            "cut": path.read_bytes()[:-10],
            "flipped": bytes(content),
            "emptied": b"",
            "other": b"hello" * 100,
        }[damage]
    )
    assert same(cached("toy-1", ["a"], work), expected)
    assert work.times == 2
    assert same(cached("toy-1", ["a"], work), expected)
    assert work.times == 2


def test_changing_an_array_changes_no_file(folder: Path) -> None:
    cached("toy-1", ["a"], Work())
    (path,) = folder.iterdir()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    cached("toy-1", ["a"], Work())["values"][:] = 7
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert same(cached("toy-1", ["a"], Work(5.0)), Work()())


def test_a_mapped_array_outlives_its_file(folder: Path) -> None:
    cached("toy-1", ["a"], Work())
    kept = cached("toy-1", ["a"], Work())
    (path,) = folder.iterdir()
    path.unlink()
    assert same(kept, Work()())


def test_it_can_be_switched_off(folder: Path, monkeypatch) -> None:
    monkeypatch.setenv("CGCL_CACHE", "off")
    work = Work()
    cached("toy-1", ["a"], work)
    cached("toy-1", ["a"], work)
    assert work.times == 2
    assert not folder.exists()


def test_the_folder_is_the_users_cache(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CGCL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "cgcl" / "extracted"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "cgcl" / "extracted"

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_folder() is None


def test_a_folder_that_cannot_be_is_no_obstacle(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        monkeypatch.setenv("CGCL_CACHE", str(place))
        assert same(cached("toy-1", ["a"], Work()), Work()())


def test_a_full_disk_is_no_obstacle_and_leaves_nothing(folder: Path, monkeypatch) -> None:
    def full(path: Path, *_: object) -> None:
        path.write_bytes(b"half")
        raise ResourceError("No space left")

    monkeypatch.setattr(module, "write_tensors", full)
    assert same(cached("toy-1", ["a"], Work()), Work()())
    assert list(folder.iterdir()) == []


def test_a_failure_of_the_work_itself_is_told(folder: Path) -> None:
    def broken() -> Arrays:
        raise ResourceError("out of memory")

    with pytest.raises(ResourceError, match="out of memory"):
        cached("toy-1", ["a"], broken)
    assert not folder.exists()


def test_what_was_not_used_for_longest_makes_room(folder: Path, monkeypatch) -> None:
    size = sum(array.nbytes for array in Work(size=1000)().values())
    for at, name in enumerate("abc"):
        cached("toy-1", [name], Work(size=1000))
        os.utime(max(folder.iterdir(), key=lambda path: path.stat().st_mtime), (at, at))
    (folder / "notes.safetensors").write_bytes(b"x" * 10_000)
    os.utime(folder / "notes.safetensors", (0, 0))
    cached("toy-1", ["a"], Work(size=1000))  # used again, so b is the oldest now
    largest = max(path.stat().st_size for path in folder.iterdir() if "toy" in path.name)
    monkeypatch.setattr(module, "_MOST_BYTES", 2 * largest + size)
    cached("toy-1", ["d"], Work(size=1000))
    for name, kept in (("a", True), ("c", True), ("d", True), ("b", False)):
        work = Work(size=1000)
        monkeypatch.setattr(module, "_write", lambda *_: None)
        cached("toy-1", [name], work)
        assert (work.times == 0) == kept, name
    assert (folder / "notes.safetensors").exists()


def test_what_is_too_large_is_not_stored(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 100)
    cached("toy-1", ["a"], Work(size=1000))
    assert not folder.exists()


def test_only_old_unfinished_files_are_removed(folder: Path) -> None:
    folder.mkdir()
    names = [f"toy-1-{'0' * 64}.{digit * 32}{end}" for digit in "ab" for end in ("", ".tmp")]
    for name in [*names, "mine.tmp"]:
        (folder / name).touch()
    for name in [*names[:2], "mine.tmp"]:
        os.utime(folder / name, (0, 0))
    cached("toy-1", ["a"], Work())
    left = {path.name for path in folder.iterdir()}
    assert left >= {*names[2:], "mine.tmp"}
    assert not left & set(names[:2])


def test_those_who_compute_the_same_at_the_same_time_do_not_meet(folder: Path) -> None:
    def use_and_clear(_: int) -> bool:
        right = True
        for at in range(40):
            name = at % 4
            got = cached("toy-1", [name], Work(value=name, size=5000))
            right &= same(got, Work(value=name, size=5000)())
            if at % 7 == 6:
                for path in folder.glob("*.safetensors"):
                    path.unlink(missing_ok=True)
        return right

    with ThreadPoolExecutor(3) as several:
        assert all(several.map(use_and_clear, range(3)))
    assert all(path.suffix == ".safetensors" for path in folder.iterdir())
