"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from cgcl.errors import ResourceError

# A name that nobody else has: not a file of the user's, not another writer's.
_TEMPORARY = re.compile(r".+\.[0-9a-f]{32}\.tmp", re.DOTALL)
# Of the bytes that a name may have, usually 255, so many are left to what is being written.
_NAME_BYTES = 200
# What is being written now.
_UNFINISHED: set[Path] = set()


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` to `path` so that a crash leaves the old file or the new one, never a mix.

    Raises:
        ResourceError: The disk is full or the folder cannot be written; the old file is intact.
    """
    with writing_atomically(path, len(content)) as file:
        file.write(content)


@contextlib.contextmanager
def writing_atomically(path: Path, size: int | None = None) -> Iterator[BinaryIO]:
    """Open a file to write that takes the name `path` only when all of it is on the disk.

    The bytes go to a temporary file in the same folder, reach the disk, and then take the name.
    If the caller fails, the old file stays and the new one is gone. The temporary file is a new
    one of a random name, whatever links lie there; who writes to `path` at the same time has
    another, and the last one to finish leaves all of what it wrote.

    Args:
        path: The file to write or to replace.
        size: How many bytes are coming, if that is known.

    Raises:
        ResourceError: The disk is full or the folder cannot be written; the old file is intact.
    """
    if not path.name or "\0" in str(path) or path.is_dir():
        raise ResourceError(f"'{path}' is not the name of a file. Give a file to write to.")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ResourceError(
            f"{path} is a link, a pipe or a device; replacing it would destroy it.\n"
            f"Write to an ordinary file, or leave out `out` and redirect the output."
        )
    name = os.fsdecode(os.fsencode(path.name)[:_NAME_BYTES])
    temporary = path.with_name(f"{name}.{secrets.token_hex(16)}.tmp")
    is_taken = False
    _UNFINISHED.add(temporary)
    try:
        try:
            file = temporary.open("xb")  # fails where anything has the name, even a link
        except FileExistsError:
            is_taken = True
            raise
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException as error:  # a signal, too, right after the file is there
        with contextlib.suppress(OSError):
            if not is_taken:
                temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _write_error(path, size, error) from error
        raise
    finally:
        _UNFINISHED.discard(temporary)


def remove_unfinished() -> None:
    """Delete the temporary files of this process: for when it ends in the middle of writing."""
    for path in [*_UNFINISHED]:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def append_whole(file: FileIO, line: bytes, *, synced: bool) -> None:
    """Write a line at the end of an unbuffered file; if it does not fit, nothing of it stays.

    Args:
        file: Opened to append, without a buffer.
        line: What to write, its end included.
        synced: Whether it is to survive a loss of power, too.

    Raises:
        OSError: The disk refuses.
    """
    size, left = os.fstat(file.fileno()).st_size, memoryview(line)
    try:
        # A disk that is nearly full takes a part and says so only when asked again.
        while left:
            left = left[file.write(left) :]
        if synced:
            os.fsync(file.fileno())
    except OSError:
        # What is not whole would swallow the next line.
        with contextlib.suppress(OSError):
            os.ftruncate(file.fileno(), size)
        raise


def make_folder(path: Path) -> None:
    """Create a folder and its parents if they are not there.

    Raises:
        ResourceError: The folder cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = error.strerror
        if isinstance(error, FileExistsError | NotADirectoryError):
            files = [own for own in (path, *path.parents) if own.is_file()]
            why = f"{files[0] if files else path} is a file"
        told = f"Cannot create the folder {path}: {why}. Choose another one."
        raise ResourceError(told) from error


def is_leftover(path: Path) -> bool:
    """Whether it has the name of what an interrupted write leaves."""
    return _TEMPORARY.fullmatch(path.name) is not None


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files that an interrupted write left in a folder of ours."""
    for path in folder.iterdir():
        if is_leftover(path):
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_error(path: Path, size: int | None, error: OSError) -> ResourceError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        needed = "more" if size is None else _in_words(size)
        return ResourceError(
            f"No space left in {path.parent}: {path.name} needs {needed}.\n"
            f"The file that was there before is intact. Free some space and try again."
        )
    return ResourceError(
        f"Cannot write {path}: {error.strerror or error}.\n"
        f"Choose another folder, or make this one writable."
    )


def _in_words(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
