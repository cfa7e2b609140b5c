"""Pictures and pages: one self-contained HTML file per run."""

from cgcl.report.figures import (
    comparison_figure,
    consistency_figure,
    loss_figure,
    precision_recall_figure,
    reliability_figure,
    roc_figure,
    score_histogram,
    validation_figure,
)
from cgcl.report.inputs import (
    AuditFinding,
    Comparison,
    MethodResult,
    Probabilities,
    SuggestedLink,
    Suggestions,
)
from cgcl.report.page import render_page

__all__ = [
    "AuditFinding",
    "Comparison",
    "MethodResult",
    "Probabilities",
    "SuggestedLink",
    "Suggestions",
    "comparison_figure",
    "consistency_figure",
    "loss_figure",
    "precision_recall_figure",
    "reliability_figure",
    "render_page",
    "roc_figure",
    "score_histogram",
    "validation_figure",
]
