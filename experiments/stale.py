"""Which committed results are older than the numbers that their methods give today.

A line says in `versions` which numbers it has: its method, and the `version` of that `Method`. One
that says nothing was made before there were versions, and counts as older.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from cgcl.errors import ConfigError
from cgcl.methods.table import numbers_of
from run import RESULTS, ROOT, Line, results_of, table

# The tables that are written from a log, by how their names begin, where that is not its own name.
_TABLES = {
    "reproduce/runs": "reproduced",
    "harder_search": "harder",
    "tuning": "methods-tuning",
    "seal_hops": "methods-seal",
}


def is_older(line: Line) -> bool:
    """Say whether a method would give other numbers today."""
    told = line.get("versions", {}).get("numbers", "")
    try:
        return told != numbers_of(told.rpartition(" ")[0])
    except ConfigError:  # it is gone, or nothing was told
        return True


def logs(folder: Path = RESULTS) -> list[str]:
    """Return the names of all logs of runs."""
    found = [*folder.glob("*.jsonl"), *folder.glob("reproduce/*.jsonl"), folder / "structure.json"]
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in found)


def older(folder: Path = RESULTS) -> dict[str, tuple[int, int]]:
    """Return by log how many of its lines are older, and how many there are."""
    lines = {name: results_of(name, folder=folder) for name in logs(folder)}
    return {name: (sum(map(is_older, own)), len(own)) for name, own in lines.items()}


def pages_of(name: str, root: Path = ROOT) -> list[str]:
    """Return the pages with a table that is written from a log."""
    begin = _TABLES.get(name, name).replace("_", "-")
    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    tables = {page: re.findall(r"<!-- table ([\w-]+) -->", page.read_text()) for page in pages}
    return [
        str(page.relative_to(root))
        for page, own in tables.items()
        if any(f"{one}-".replace("_", "-").startswith(f"{begin}-") for one in own)
    ]


def stale_table() -> str:
    """Each log with older lines, and the pages that rest on it."""
    found = {name: own for name, own in older().items() if own[0]}
    rows = [
        [f"`{name}`", ", ".join(pages_of(name)), f"{own:,} of {every:,}"]
        for name, (own, every) in found.items()
    ]
    fresh = ", ".join(f"`{name}`" for name in logs() if name not in found)
    note = f"Every line by today's numbers: {fresh or 'none'}."
    return table("results | pages | lines of older numbers", rows, note)


TABLES: dict[str, Callable[[], str]] = {"stale": stale_table}
