"""How much memory this process may still take, and how much reading a file may."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from cgcl.errors import ConfigError, GraphFormatError, TooLargeError

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")
# The files of a group that hold its limit, what it uses, and what of that can be given back, in
# the two layouts that Linux knows.
_LAYOUTS = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def free_memory(cgroups: Path = _CGROUPS, own_groups: Path = _OWN_GROUPS) -> int:
    """Return the bytes that are free on this machine, or within the limit of its container.

    Args:
        cgroups: Where the system shows the limits of groups of processes.
        own_groups: The file that says which groups this process belongs to.
    """
    import psutil

    return min([psutil.virtual_memory().available, *_within_limits(cgroups, own_groups)])


_SHARE = 0.8
# A file that claims to hold more than this, and so many times its own size, holds little else but
# that claim: links, names and numbers take a byte or two each however well they are packed.
_HARMLESS, _MAX_RATIO = 5e8, 200
_limit: ContextVar[float | None] = ContextVar("limit", default=None)
_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


@contextmanager
def reading_at_most(limit: str | float | None) -> Iterator[None]:
    """Let readers take so much memory for a file: bytes, or words such as "8GB".

    Args:
        limit: How much; None leaves what was said before, or else four fifths of what is free.

    Raises:
        ConfigError: It is no amount of memory.
    """
    token = _limit.set(_limit.get() if limit is None else _bytes_in(limit))
    try:
        yield
    finally:
        _limit.reset(token)


def _bytes_in(limit: str | float) -> float:
    text = limit if isinstance(limit, str) else f"{limit:f}"
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([kmgt]?)b?\s*", text, re.IGNORECASE)
    size = float(found[1]) * _UNITS[found[2].lower()] if found else 0.0
    if size <= 0:
        raise ConfigError(f"max_memory is {limit!r}; it must be an amount such as 8GB.")
    return size


def readable_memory() -> float:
    """Return how many bytes reading a file may take."""
    limit = _limit.get()
    return _SHARE * free_memory() if limit is None else limit


def require_readable(
    place: str, needed: float, *, on_disk: int | None = None, remedy: str = ""
) -> None:
    """Refuse to read what takes too much memory, before it is read.

    Args:
        place: What messages call the file.
        needed: About how many bytes reading takes at worst, as it says itself or as was counted.
        on_disk: How large the file is, if it only says so.
        remedy: What would take less, a sentence.

    Raises:
        GraphFormatError: It says many times more than it can hold.
        TooLargeError: More than may be taken.
    """
    if on_disk is not None and needed > max(_HARMLESS, _MAX_RATIO * on_disk):
        raise GraphFormatError(
            f"{place} has {on_disk:,} bytes and claims to hold what takes {in_words(needed)}, more "
            f"than {_MAX_RATIO} times as much.\nThat is how files look that are made to fill a "
            f"memory. It was not read."
        )
    allowed = readable_memory()
    if needed > allowed:
        raise TooLargeError(
            f"Reading {place} takes up to {in_words(needed)} of memory; {in_words(allowed)} may be "
            f"taken.\n{remedy or 'Use a machine with more memory'}, or allow more with "
            f"`max_memory`."
        )


def in_words(size: float) -> str:
    """Return a number of bytes as people say it.

    Example:
        >>> in_words(26.84e9), in_words(431e6), in_words(1.2e13)
        ('26.8 GB', '431 MB', '12,000 GB')
    """
    if size < 1e9:
        return f"{size / 1e6:,.0f} MB"
    return f"{size / 1e9:,.1f} GB" if size < 1e12 else f"{size / 1e9:,.0f} GB"


def _within_limits(cgroups: Path, own_groups: Path) -> list[int]:
    """Return what is left within each limit that holds for this process, if any does."""
    left: list[int] = []
    for line in _read(own_groups).splitlines():
        _, controllers, group = line.split(":", 2)
        for controller, files in _LAYOUTS.items():
            if controller in controllers.split(","):
                folder = cgroups / controller
                # In a container the group's path may be the one outside it.
                for place in (folder / group.lstrip("/"), folder):
                    left += _left(place, *files)
    return left


def _left(place: Path, limit_file: str, usage_file: str, reclaimable: str) -> list[int]:
    limit, usage = _read(place / limit_file).strip(), _read(place / usage_file).strip()
    if not (limit.isdigit() and usage.isdigit()):  # "max" is no limit
        return []
    stat = dict(line.split(" ", 1) for line in _read(place / "memory.stat").splitlines())
    return [max(int(limit) - int(usage) + int(stat.get(reclaimable, "0")), 0)]


def _read(path: Path) -> str:
    """Return a file of the system, or nothing where the system has no such file."""
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether an error says that memory ran out, on whichever device."""
    # torch reports a failed allocation as a RuntimeError.
    says_so = any(sign in str(error) for sign in ("can't allocate memory", "out of memory"))
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and says_so)
