"""Results as lines of a file that only grows, and the folder that one process writes them in."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterable
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from cgcl.errors import ConfigError, ResourceError, RunFolderError
from cgcl.files import TEMPORARY_SUFFIX, make_folder, sync_folder
from cgcl.train.run_folder import LOCK, RunFolder


class AppendOnlyLog:
    """A file of lines that grows by one at a time; a line that was written is never lost.

    `OSError` is left to the caller, who knows what to say about it.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or begin it.

        A last line that was cut short is cut off, so that the next one does not go on in it.
        """
        content = path.read_bytes() if path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(path, len(whole))
        self.lines = whole.splitlines()
        """The lines that were there, without their ends."""
        is_new = not path.exists()
        # Without a buffer, a line that did not fit is not tried again when the file closes.
        self._file = path.open("ab", buffering=0)
        if is_new:
            sync_folder(path.parent)

    def append(self, line: bytes) -> None:
        """Write a line, its end included; it survives the death of the process and of power."""
        size = os.fstat(self._file.fileno()).st_size
        left = memoryview(line)
        try:
            # A disk that is nearly full takes a part and says so only when asked again.
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError:
            # What is not whole would swallow the next line.
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), size)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def parse_line(line: bytes | str, needed: Collection[str]) -> dict[str, Any]:
    """Return what a line says. Lines of other versions count: it may say more than is needed.

    Raises:
        ValueError: It is not JSON, or what is needed is missing; names what.

    Example:
        >>> parse_line(b'{"seed": 1, "new": 2}', ["seed"])
        {'seed': 1, 'new': 2}
        >>> parse_line(b'{"seed": 1}', ["seed", "auc"])
        Traceback (most recent call last):
        ...
        ValueError: auc is missing
    """
    values = json.loads(line)
    if not isinstance(values, dict):
        raise ValueError("not a table of names and values")
    missing = [name for name in needed if name not in values]
    if missing:
        raise ValueError(f"{', '.join(missing)} is missing")
    return values


def read_log(path: Path, needed: Collection[str] = ()) -> list[dict[str, Any]]:
    """Return every line of a file of results; none if it is not there.

    Raises:
        ConfigError: A line is damaged or has not what is needed; says which and what.
    """
    content = path.read_bytes() if path.exists() else b""
    # As in the log itself, a last line that was cut short is none.
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(parse_line(line, needed))
        except ValueError as error:
            raise ConfigError(f"Line {number} of {path} is no result: {error}.") from error
    return found


@dataclass(frozen=True)
class Line:
    """A result that is kept as a line of JSON."""

    NEEDED: ClassVar[frozenset[str]] = frozenset()
    """What a line must say although it has a default."""

    def is_sound(self) -> bool:
        """Tell whether the values make sense; a line from elsewhere may have anything."""
        return True

    def said(self) -> dict[str, Any]:
        """Return what the line says."""
        return asdict(self)

    def to_line(self) -> bytes:
        """Return it as a line of a file."""
        return json.dumps(self.said()).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Return what `to_line` gave; names that this version does not know are left out.

        Raises:
            ValueError: The line is damaged, or something is missing; names what.
        """
        needed = [own.name for own in fields(cls) if not has_default(own) or own.name in cls.NEEDED]
        values = parse_line(line, needed)
        result = cls(**{own.name: values[own.name] for own in fields(cls) if own.name in values})
        try:
            sound = result.is_sound()
        except (TypeError, AttributeError, ConfigError) as error:
            raise ValueError("its values are of other kinds") from error
        if not sound:
            raise ValueError("its values make no sense")
        return result


def has_default(field: Any) -> bool:  # noqa: ANN401
    """Tell whether a field of a dataclass may be left out."""
    return field.default is not MISSING or field.default_factory is not MISSING


R = TypeVar("R", bound=Line)


def sound_lines(lines: Iterable[bytes], kind: type[R]) -> tuple[list[R], int]:
    """Return the results, and how many lines are none."""
    results: list[R] = []
    damaged = 0
    for line in lines:
        try:
            results.append(kind.from_line(line))
        except ValueError:
            damaged += 1
    return results, damaged


class ResultFolder(Generic[R]):
    """A folder with a log of results that this process owns until `close`.

    A result is on the disk before the next one is made; one that was cut short is dropped.
    """

    def __init__(
        self,
        path: Path,
        log: str,
        kind: type[R],
        *,
        about: str = "",
        what: str = "",
        check: Callable[[Path], None] = lambda _: None,
    ) -> None:
        """Create or open the folder, and read what is in it.

        Args:
            path: The folder.
            log: The name of the log in it.
            kind: What a line is.
            about: The name of the file that says whose folder it is; empty for none.
            what: What the folder is of, such as "a comparison".
            check: Given that file, refuses the folder of something else, or writes it.

        Raises:
            RunFolderError: It belongs to something else, or another process is at work in it.
            ResourceError: It cannot be written.
        """
        self.path = path
        self._name = log
        if about:
            _require_own_or_empty(path, about, what)
        make_folder(path)
        self._lock = RunFolder(path)
        try:
            check(path / about)
            self._log = AppendOnlyLog(path / log)
        except OSError as error:
            self._lock.close()
            raise self._error(error) from error
        except BaseException:
            self._lock.close()
            raise
        self.results, self.damaged_lines = sound_lines(self._log.lines, kind)

    def append(self, result: R) -> None:
        """Write a result down; from then on nothing but the disk's end can lose it.

        Raises:
            ResourceError: The disk is full.
        """
        try:
            self._log.append(result.to_line())
        except OSError as error:
            raise self._error(error) from error
        self.results.append(result)

    def close(self) -> None:
        """Let other processes have the folder."""
        self._log.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _error(self, error: OSError) -> ResourceError:
        return ResourceError(
            f"Cannot write {self.path / self._name}: {error.strerror}. What was finished before is "
            f"intact.\nFree some space or choose another `out`, then start the same command again."
        )


def _require_own_or_empty(path: Path, about: str, what: str) -> None:
    """Refuse a folder with other things in it, before a file is written there."""
    if not path.is_dir() or (path / about).exists():
        return
    # What was killed at its very beginning leaves no more than these.
    if any(p.name != LOCK and p.suffix != TEMPORARY_SUFFIX for p in path.iterdir()):
        raise RunFolderError(
            f"{path} holds other things and no {about}, so it is not the folder of {what}.\n"
            f"Choose another `out`; it is created if it is not there."
        )


def read_about(file: Path, version: int, names: Collection[str], done: str) -> dict[str, Any]:
    """Return what the file says that tells whose folder it is.

    Args:
        file: The file.
        version: The format that this version of cgcl reads.
        names: What it must say.
        done: What was done in the folder, such as "compared".

    Raises:
        RunFolderError: It is damaged, or of another format.
    """
    try:
        found = parse_line(file.read_bytes(), ("format", *names))
    except ValueError as error:
        raise damaged(file, done) from error
    if found["format"] != version:
        raise RunFolderError(
            f"{file} has format {found['format']}; this version of cgcl reads format {version}. "
            f"Choose another `out`."
        )
    return found


def damaged(file: Path, done: str) -> RunFolderError:
    """Return what to say of a file that does not tell whose folder it is."""
    return RunFolderError(
        f"{file} is damaged, so it cannot be told what was {done} here. Choose another `out`."
    )
