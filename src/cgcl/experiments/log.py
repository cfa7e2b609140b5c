"""Results as lines of a file that only grows; what is missing is made, one process a folder.

`compare`, `tune`, `reproduce` and the scripts under experiments/ all go through here.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from cgcl.errors import ConfigError, ResourceError, RunFolderError
from cgcl.files import append_whole, is_leftover, make_folder, sync_folder, write_atomically
from cgcl.stored import misfits, parse_json, shapes_of
from cgcl.train.run_folder import LOCK, RunFolder

_FORMAT = 1


class AppendOnlyLog(contextlib.AbstractContextManager["AppendOnlyLog"]):
    """A file of lines that grows by one at a time; a line that was written is never lost.

    `OSError` is left to the caller, who knows what to say about it.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or begin it.

        A last line that was cut short is cut off, so that the next one does not go on in it.
        """
        is_new = not path.exists()
        whole = _whole_lines(path)
        if not is_new and len(whole) < path.stat().st_size:
            os.truncate(path, len(whole))
        self.lines = whole.splitlines()
        """The lines that were there, without their ends."""
        # Without a buffer, a line that did not fit is not tried again when the file closes.
        self._file = path.open("ab", buffering=0)
        if is_new:
            sync_folder(path.parent)

    def append(self, line: bytes) -> None:
        """Write a line, its end included; it survives the death of the process and of power."""
        append_whole(self._file, line, synced=True)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()


def _whole_lines(path: Path) -> bytes:
    """Return what a log holds, but for a last line that was cut short."""
    content = path.read_bytes() if path.exists() else b""
    return content[: content.rfind(b"\n") + 1]


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
    values = parse_json(line)
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
    found: list[dict[str, Any]] = []
    for number, line in enumerate(_whole_lines(path).splitlines(), start=1):
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
    SAID_IF_THERE: ClassVar[frozenset[str]] = frozenset()
    """What a line leaves out where there is nothing to say."""

    def is_sound(self) -> bool:
        """Tell whether the values make sense; a line from elsewhere may have anything."""
        return True

    def to_line(self) -> bytes:
        """Return it as a line of a file."""
        values = asdict(self)
        for name in self.SAID_IF_THERE:
            if values[name] in (None, "", {}, []):
                del values[name]
        return json.dumps(values).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Return what `to_line` gave; names that this version does not know are left out.

        Raises:
            ValueError: The line is damaged, or something is missing; names what.
        """
        needed = [
            own.name
            for own in fields(cls)
            if own.default is own.default_factory is MISSING or own.name in cls.NEEDED
        ]
        values = parse_line(line, needed)
        own_values = {own.name: values[own.name] for own in fields(cls) if own.name in values}
        shapes = shapes_of(cls)
        wrong = misfits(own_values, {name: shapes[name] for name in own_values})
        if wrong:
            raise ValueError(f"its values are of other kinds: {', '.join(wrong)}")
        result = cls(**own_values)
        try:
            sound = result.is_sound()
        except (TypeError, AttributeError, ConfigError) as error:
            raise ValueError("its values are of other kinds") from error
        if not sound:
            raise ValueError("its values make no sense")
        return result


@dataclass(frozen=True, kw_only=True)
class RunLine(Line):
    """What is known of every run of a method, whatever it was made for."""

    method: str
    settings: dict[str, Any]
    """Every setting of the method."""
    split_seed: int
    split: str
    """The split's fingerprint."""
    device: str
    threads: int
    versions: dict[str, str]
    caps: str = ""
    """What the method leaves out to stay affordable."""
    val: dict[str, float] | None = None
    """Metrics on the validation links at the best epoch, as fractions."""
    epochs: int = 0
    best_epoch: int = 0
    parameters: int = 0


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


@dataclass(frozen=True)
class Owner:
    """Whose folder it is: a file there says it."""

    file: str
    """The name of the file."""
    what: str
    """What the folder is of, such as "a comparison"."""
    identity: Mapping[str, Any]
    """What decides the results in it, by what it is called in messages."""
    about: Mapping[str, Any]
    """What else is good to know."""
    kept: Collection[str] = ()
    """What of that stays as it was when the folder was new."""

    def require_own_or_empty(self, path: Path) -> None:
        """Refuse a folder with other things in it, before a file is written there.

        Raises:
            RunFolderError: It has.
        """
        if not path.is_dir() or (path / self.file).exists():
            return
        # What was killed at its very beginning leaves no more than these.
        if any(p.name != LOCK and not is_leftover(p) for p in path.iterdir()):
            why = f"holds other things and no {self.file}, so it is not the folder of {self.what}"
            remedy = "Choose another `out`; it is created if it is not there."
            raise RunFolderError(f"{path} {why}.\n{remedy}")

    def claim(self, path: Path) -> dict[str, Any]:
        """Write down whose folder it is and return that.

        Raises:
            RunFolderError: It holds something else, or nobody can tell what.
        """
        # As it comes back from a file: a tuple is a list there.
        asked = json.loads(json.dumps({"format": _FORMAT, **self.identity}))
        there = self._read(path / self.file, asked) if (path / self.file).exists() else {}
        kept = {name: there[name] for name in self.kept if name in there}
        if there:
            self._require_same(path, there, asked)
        said = {**asked, **self.about, **kept}
        if said != there:
            write_atomically(path / self.file, json.dumps(said, indent=2).encode() + b"\n")
        return said

    def _read(self, file: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
        try:
            found = parse_line(file.read_bytes(), ["format"])
            # Version 0.1 had what decides a search in a table of its own.
            found |= {**found.pop("identity", {}), **found.pop("about", {})}
            if found["format"] != _FORMAT:
                why = f"has format {found['format']}; this version of cgcl reads format {_FORMAT}"
                raise RunFolderError(f"{file} {why}. Choose another `out`.")
            if any(isinstance(found[own], dict) != isinstance(asked[own], dict) for own in asked):
                raise ValueError("something is of another kind")
        except (ValueError, TypeError, KeyError) as error:
            why = f"is damaged, so it cannot be told what {self.what} is here"
            raise RunFolderError(f"{file} {why}. Choose another `out`.") from error
        return found

    def _require_same(self, path: Path, there: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        before, now = _parts(there, asked), _parts(asked, asked)
        unset = ("", "unset")
        names = [n for n in before | now if before.get(n, unset)[0] != now.get(n, unset)[0]]
        if ("method",) in names:
            # The settings of another method say nothing more.
            names = [name for name in names if len(name) == 1]
        if names:
            told = [[f"{n[-1]} {o.get(n, unset)[1]}" for n in sorted(names)] for o in (before, now)]
            words = [" and ".join(dict.fromkeys(own)) for own in told]
            raise RunFolderError(
                f"{path} holds {self.what} with {words[0]}; you asked for {words[1]}.\n"
                f"Nothing was changed. Ask for the same again, or choose another `out`."
            )


def _parts(
    values: Mapping[str, Any], names: Iterable[str]
) -> dict[tuple[str, ...], tuple[str, str]]:
    """Return what is told one by one of what decides results: what it is, and that in words."""
    found: dict[tuple[str, ...], tuple[str, str]] = {}
    for name in names:
        value = values[name]
        if not isinstance(value, dict):
            found[(name,)] = (str(value), str(value))
        elif "fingerprint" in value:
            # What a graph is called plays no part, only what it is.
            title = f"'{value['title']}' " if "title" in value else ""
            whole = str(value["fingerprint"])
            found[(name,)] = (whole, f"{title}({whole[:12]})")
        else:
            found |= {(name, *place): own for place, own in _parts(value, value).items()}
    return found


class ResultFolder(Generic[R]):
    """A folder with a log of results that this process owns until `close`.

    A result is on the disk before the next one is made; one that was cut short is dropped.
    """

    def __init__(self, path: Path, log: str, kind: type[R], owner: Owner | None = None) -> None:
        """Create or open the folder, and read what is in it.

        Args:
            path: The folder.
            log: The name of the log in it.
            kind: What a line is.
            owner: Whose folder it is; None if it may hold anything.

        Raises:
            RunFolderError: It belongs to something else, or another process is at work in it.
            ResourceError: It cannot be written.
        """
        self.path = path
        self._name = log
        if owner is not None:
            owner.require_own_or_empty(path)
        make_folder(path)
        self.about: dict[str, Any] = {}
        """What the folder says of itself."""
        with contextlib.ExitStack() as held, self._told_errors():
            held.enter_context(RunFolder(path))
            if owner is not None:
                self.about = owner.claim(path)
            self._log = held.enter_context(AppendOnlyLog(path / log))
            self.results, self.damaged_lines = sound_lines(self._log.lines, kind)
            self._held = held.pop_all()

    def append(self, result: R) -> None:
        """Write a result down; from then on nothing but the disk's end can lose it.

        Raises:
            ResourceError: The disk is full.
        """
        with self._told_errors():
            self._log.append(result.to_line())
        self.results.append(result)

    def close(self) -> None:
        """Let other processes have the folder."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _told_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ResourceError(
                f"Cannot write {self.path / self._name}: {error.strerror}. What was finished "
                f"before is intact.\nFree some space or choose another `out`, then start the same "
                f"command again."
            ) from error


class _Keyed(Protocol):
    @property
    def key(self) -> str:
        """Equal for jobs that the same result answers."""
        ...


K = TypeVar("K", bound=_Keyed)


def pending(jobs: Iterable[K], done: Container[str]) -> list[K]:
    """Return the jobs without a result, each once, in their order."""
    left: dict[str, K] = {}
    for job in jobs:
        if job.key not in done:
            left.setdefault(job.key, job)
    return [*left.values()]
