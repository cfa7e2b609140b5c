"""Pure functions of scores and labels: ranking metrics, curves, and the paper's consistency."""

from cgcl.metrics.consistency import (
    CONSISTENCY_LOWER_BOUND,
    CONSISTENCY_UPPER_BOUND,
    LEMMA_BOUND,
    consistency,
    consistency_terms,
    is_consistent,
    loses_information,
    supervision_gap,
)
from cgcl.metrics.ranking import (
    Ranked,
    auc,
    average_precision,
    hits_at,
    link_metrics,
    own_ranks,
    precision_recall_curve,
    roc_curve,
)
from cgcl.metrics.table import METRICS, ON_REQUEST, metric_title

__all__ = [
    "CONSISTENCY_LOWER_BOUND",
    "CONSISTENCY_UPPER_BOUND",
    "LEMMA_BOUND",
    "METRICS",
    "ON_REQUEST",
    "Ranked",
    "auc",
    "average_precision",
    "consistency",
    "consistency_terms",
    "hits_at",
    "is_consistent",
    "link_metrics",
    "loses_information",
    "metric_title",
    "own_ranks",
    "precision_recall_curve",
    "roc_curve",
    "supervision_gap",
]
