"""Pictures and pages: one self-contained HTML file per run."""

from cgcl.report.figures import (
    consistency_figure,
    loss_figure,
    precision_recall_figure,
    roc_figure,
    score_histogram,
    validation_figure,
)
from cgcl.report.page import render_page

__all__ = [
    "consistency_figure",
    "loss_figure",
    "precision_recall_figure",
    "render_page",
    "roc_figure",
    "score_histogram",
    "validation_figure",
]
