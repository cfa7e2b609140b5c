"""`cgcl report`."""

from __future__ import annotations

from pathlib import Path

__all__ = ["report"]


def report(run: Path, /, *, compare: bool | None = None) -> None:
    """Write the page of a run again and print its path.

    Args:
        run: A run folder.
        compare: Set the run beside common neighbours, Adamic-Adar and a network that sees features
            only, on the same held-out links; by default if that takes seconds.
    """
    from cgcl.report.write import write_report

    print(write_report(run, compare=compare))  # noqa: T201
