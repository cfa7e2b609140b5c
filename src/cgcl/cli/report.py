"""`cgcl report`."""

from __future__ import annotations

from pathlib import Path

from cgcl.cli.terminal import StepLine, print_path


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
    from cgcl.train.run_folder import RunFolder, read_run

    with StepLine() as line:
        conclude_run(run, line.show)
        read_run(run)  # before the lock, which would create a file in a folder that is no run
        with RunFolder(run):
            results = read_results(run, compare=compare, progress=line.show)
            page = write_report(run, results)
    print_path(page)
