"""How much memory this process may still take, and whether that was too little."""

from __future__ import annotations

from pathlib import Path

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
