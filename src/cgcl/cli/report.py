"""`cgcl report`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["report"]


def report(run: Path, /) -> None:
    """Write the page of a run again and print its path.

    Args:
        run: A run folder.
    """
    from cgcl.report.write import write_report

    print(write_report(run))  # noqa: T201
