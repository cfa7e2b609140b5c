"""The page of a run, from the files in its folder."""

from __future__ import annotations

import shlex
from pathlib import Path

from cgcl.files import write_atomically
from cgcl.predict import LinkPredictor
from cgcl.report.page import render_page
from cgcl.train.history import read_history
from cgcl.train.run_folder import read_run
from cgcl.train.trainer import learned_nothing

__all__ = ["REPORT", "write_report"]

REPORT = "report.html"


def write_report(folder: Path) -> Path:
    """Write `report.html` into a run folder and return its path.

    Raises:
        RunFolderError: The folder holds no run.
        ModelFileError: The run has no model yet, or its files are damaged.
        ResourceError: The disk is full.
    """
    run = read_run(folder)
    positive = negative = None
    if run["test"]:
        # On the CPU if that is where it was trained: the page shows that run, not another.
        device = "cpu" if run["device"] == "cpu" else "auto"
        positive, negative = LinkPredictor.load(folder, device).test_scores()
        positive, negative = positive.sigmoid().numpy(), negative.sigmoid().numpy()
    run["folder"] = shlex.quote(str(folder))
    run["warnings"] = [text for text in (learned_nothing(run["val"]),) if text]
    page = render_page(run, read_history(folder), positive, negative)
    path = folder / REPORT
    write_atomically(path, page.encode(errors="replace"))  # a command may hold undecodable bytes
    return path
