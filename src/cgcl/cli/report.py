"""`cgcl report`."""

from __future__ import annotations

from pathlib import Path

from cgcl.cli.terminal import StepLine


def report(run: Path, /, *, compare: bool | None = None) -> None:
    """Write the page of a run again and print its path.

    Args:
        run: A run folder.
        compare: Set the run beside common neighbours, Adamic-Adar and a network that sees features
            only, on the same held-out links; by default if that takes seconds.
    """
    from cgcl.report.page import write_report
    from cgcl.report.results import read_results
    from cgcl.train.run import conclude_run

    with StepLine() as line:
        conclude_run(run, line.show)
        results = read_results(run, compare=compare, progress=line.show)
    print(write_report(run, results))  # noqa: T201
