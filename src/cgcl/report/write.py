"""The page of a run, from the files in its folder."""

from __future__ import annotations

import shlex
from pathlib import Path

from cgcl.files import write_atomically
from cgcl.graph.survey import survey
from cgcl.methods.table import method_named
from cgcl.predict import LinkPredictor
from cgcl.report import gather
from cgcl.report.page import render_page
from cgcl.train.history import read_history
from cgcl.train.run_folder import read_run
from cgcl.train.trainer import learned_nothing

__all__ = ["REPORT", "write_report"]

REPORT = "report.html"


def write_report(folder: Path, *, compare: bool | None = None) -> Path:
    """Write `report.html` into a run folder and return its path.

    Args:
        folder: The run folder.
        compare: Whether to set the run beside simple methods: True even if that takes minutes,
            False not at all, None if it takes seconds.

    Raises:
        RunFolderError: The folder holds no run.
        ModelFileError: The run has no model yet, or its files are damaged.
        ResourceError: The disk is full.
    """
    run = read_run(folder)
    # On the CPU if that is where it was trained: the page shows that run, not another.
    device = "cpu" if run["device"] == "cpu" else "auto"
    predictor = LinkPredictor.load(folder, device).set_params(threads=run["threads"])
    positive = negative = None
    if run["test"]:
        links, others = predictor.test_scores()
        positive, negative = links.sigmoid().numpy(), others.sigmoid().numpy()
    run["method"] = method_named(predictor.method).title
    run["folder"] = shlex.quote(str(folder))
    run["warnings"] = [text for text in (learned_nothing(run["val"]),) if text]
    page = render_page(
        run,
        read_history(folder),
        positive,
        negative,
        suggestions=gather.suggestions(predictor),
        probabilities=gather.probabilities(predictor),
        comparison=None if compare is False else gather.comparison(folder, ask=bool(compare)),
        audit=gather.audit_findings(predictor),
        survey=survey(predictor.graph_),
    )
    path = folder / REPORT
    write_atomically(path, page.encode(errors="replace"))  # a command may hold undecodable bytes
    return path
