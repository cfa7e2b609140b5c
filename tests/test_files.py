import contextlib
import errno
import os
from pathlib import Path

import pytest

from cgcl import files
from cgcl.errors import ResourceError
from cgcl.experiments.log import AppendOnlyLog
from cgcl.files import make_folder, remove_leftovers, write_atomically, writing_atomically


def test_bytes_reach_the_disk_before_the_name_and_the_name_before_return(
    tmp_path: Path, monkeypatch
) -> None:
    calls: list[str] = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), fsync(fd))[1])
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (calls.append(f"replace {to.name}"), replace(self, to))[1]
    )
    write_atomically(tmp_path / "f", b"content")
    assert calls == ["fsync", "replace f", "fsync"]
    assert (tmp_path / "f").read_bytes() == b"content"
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "f").write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResourceError) as error:
        write_atomically(tmp_path / "f", b"x" * 1_500_000)
    assert str(error.value) == (
        f"No space left in {tmp_path}: f needs 1.5 MB.\n"
        "The file that was there before is intact. Free some space and try again."
    )
    assert (tmp_path / "f").read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "sub", tmp_path / "file"):
        with pytest.raises(ResourceError) as told:
            make_folder(path)
        assert str(told.value) == (
            f"Cannot create the folder {path}: {tmp_path / 'file'} is a file. Choose another one."
        )
    with pytest.raises(ResourceError, match="Cannot write"):
        write_atomically(tmp_path / "no" / "f", b"")


def test_leftovers_are_cleared_away(tmp_path: Path) -> None:
    (tmp_path / f"model.safetensors.{'0' * 32}.tmp").touch()
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "mine.tmp").touch()
    remove_leftovers(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.tmp", "model.safetensors"]


def test_a_file_of_the_users_and_what_a_link_points_to_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "links.csv.tmp").symlink_to(tmp_path / "precious")
    with writing_atomically(tmp_path / "links.csv") as file:
        assert not any(path.is_symlink() for path in tmp_path.glob("links.csv.*.tmp"))
        file.write(b"new")
    assert (tmp_path / "precious").read_text() == "kept"
    assert (tmp_path / "links.csv.tmp").is_symlink()


def test_whoever_finds_the_name_taken_overwrites_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(files.secrets, "token_hex", lambda _: "0" * 32)
    taken = tmp_path / f"f.{'0' * 32}.tmp"
    taken.symlink_to(tmp_path / "precious")
    with pytest.raises(ResourceError, match="Cannot write"):
        write_atomically(tmp_path / "f", b"new")
    assert not (tmp_path / "precious").exists()
    assert taken.is_symlink()


def test_writers_of_one_file_do_not_meet_and_one_of_them_wins_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with writing_atomically(path) as one, writing_atomically(path) as other:
        for _ in range(3):
            one.write(b"1" * 10_000)
            other.write(b"2" * 10_000)
    assert path.read_bytes() == b"1" * 30_000  # the last one to finish
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["n" * 255, "\N{SNOWMAN}" * 85])
def test_the_longest_names_can_be_written(tmp_path: Path, name: str) -> None:
    write_atomically(tmp_path / name, b"content")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_written_in_parts_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    with contextlib.suppress(KeyboardInterrupt), writing_atomically(tmp_path / "f") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert (tmp_path / "f").read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [tmp_path / "f"]
    with writing_atomically(tmp_path / "f") as file:
        file.write(b"new ")
        file.write(b"content")
    assert (tmp_path / "f").read_bytes() == b"new content"


class Disk:
    """Takes three bytes at a time, as long as there is room."""

    def __init__(self, real, room: int) -> None:
        self.fileno, self._real, self._room = real.fileno, real, room

    def write(self, content: memoryview) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._real.write(content[: min(self._room, 3)])
        self._room -= written
        return written


def test_a_line_is_written_whole_in_parts_or_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    file = AppendOnlyLog(tmp_path / "lines")
    real = file._file
    monkeypatch.setattr(file, "_file", Disk(real, 15))
    file.append(b"a long line\n")
    with pytest.raises(OSError, match="No space left"):
        file.append(b"two and more\n")
    real.close()
    assert (tmp_path / "lines").read_bytes() == b"a long line\n"
