"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from cgcl.errors import ResourceError

__all__ = ["TEMPORARY_SUFFIX", "make_folder", "remove_leftovers", "write_atomically"]

TEMPORARY_SUFFIX = ".tmp"


def write_atomically(path: Path, content: bytes) -> None:
    """Write `content` to `path` so that a crash leaves the old file or the new one, never a mix.

    The bytes go to a temporary file in the same folder, reach the disk, and then take the name.

    Raises:
        ResourceError: The disk is full or the folder cannot be written; the old file is intact.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _write_error(path, len(content), error) from error


def make_folder(path: Path) -> None:
    """Create a folder and its parents if they are not there.

    Raises:
        ResourceError: The folder cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResourceError(
            f"Cannot create the folder {path}: {error.strerror}. Choose another one."
        ) from error


def remove_leftovers(folder: Path) -> None:
    """Delete the temporary files that an interrupted write left in `folder`."""
    for leftover in folder.glob(f"*{TEMPORARY_SUFFIX}"):
        leftover.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power loss."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_error(path: Path, size: int, error: OSError) -> ResourceError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return ResourceError(
            f"No space left in {path.parent}: {path.name} needs {_in_words(size)}.\n"
            f"The file that was there before is intact. Free some space and try again."
        )
    return ResourceError(
        f"Cannot write {path}: {error.strerror or error}.\n"
        f"Choose another folder, or make this one writable."
    )


def _in_words(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size / 1e3:,.1f} kB"
