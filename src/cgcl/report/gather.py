"""What a page shows beyond the run itself, computed from the run's folder."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from cgcl.errors import ResourceError
from cgcl.files import write_atomically
from cgcl.predict import LinkPredictor, Links
from cgcl.predict.beside import CHEAP_PAIRS, set_beside
from cgcl.predict.saved import read_fitted
from cgcl.report.inputs import (
    AuditFinding,
    Comparison,
    MethodResult,
    Probabilities,
    SuggestedLink,
    Suggestions,
)
from cgcl.split import audit_split
from cgcl.train.config import Resources
from cgcl.train.model_file import MODEL

__all__ = ["COMPARISON", "audit_findings", "comparison", "probabilities", "suggestions"]

COMPARISON = "comparison.json"
_FORMAT = 2
_SHOWN_LINKS = 100
_EXAMPLES = 5
# Searching up to so many pairs takes about a minute at most; larger graphs are asked for it.
_SEARCHED_PAIRS = 10 * CHEAP_PAIRS
# A method that looks at the surroundings of every pair scores a thousand a second, and a search
# scores at least a hundred thousand.
_DEAR = 4e6


def suggestions(predictor: LinkPredictor) -> Suggestions | None:
    """Return the best new links with what speaks for them; None where that would take long."""
    nodes = predictor.graph_.num_nodes
    if nodes * (nodes - 1) // 2 > _SEARCHED_PAIRS or predictor.scorer().cost_per_pair > _DEAR:
        return None
    try:
        links: Links = predictor.top(_SHOWN_LINKS, explain=True)
    except ResourceError:
        return None
    rows = [
        SuggestedLink(
            source=link.source,
            target=link.target,
            probability=link.probability,
            score=link.score,
            shared_neighbours=link.evidence["shared_neighbours"],
            common_features=link.evidence.get("common_features"),
            distance=link.evidence["distance"],
            because=link.evidence["because"],
            interval=link.interval,
        )
        for link in links
    ]
    return Suggestions(rows, links.found)


def probabilities(predictor: LinkPredictor) -> Probabilities | None:
    """Return how scores became probabilities, and how they fared on the test links."""
    calibration = predictor.calibration_
    if calibration is None:
        return None
    links = others = None
    if predictor.split_.test.shape[1]:
        # At 1:1, as the test pairs are.
        links, others = (calibration.probability(part, 0.5) for part in predictor.test_scores())
    return Probabilities(
        method=calibration.method,
        losses=calibration.losses,
        base_rate=calibration.prior,
        base_rate_from="held-out links over unknown pairs",
        test_links=links,
        test_others=others,
        shift=calibration.shift,
        notes=calibration.notes,
    )


def audit_findings(predictor: LinkPredictor) -> list[AuditFinding]:
    """Return what an audit of the run's split finds."""
    found = audit_split(predictor.split_, predictor.graph_).findings
    return [
        AuditFinding(item.sentence, item.severity, item.named_pairs[:_EXAMPLES], item.count)
        for item in found
    ]


def comparison(folder: Path, *, ask: bool = False) -> Comparison | None:
    """Return the run beside simple methods: as stored, or computed if that is cheap.

    Args:
        folder: The run folder; what is computed is kept there.
        ask: Compute it even if it takes minutes.

    Raises:
        ResourceError: The disk is full.
    """
    model = hashlib.sha256((folder / MODEL).read_bytes()).hexdigest()
    found: dict[str, Any] | None = _stored(folder / COMPARISON, model)
    if found is None or (ask and not found.get("thorough")):
        compared = set_beside(read_fitted(folder), Resources(device="cpu"), thorough=ask)
        if compared is None:
            return None
        found = dict[str, Any](format=_FORMAT, model=model, thorough=ask, **compared.to_json())
        found["digest"] = _digest(found)
        write_atomically(folder / COMPARISON, (json.dumps(found, indent=2) + "\n").encode())
    results = [MethodResult(item["method"], item["metrics"]) for item in found["results"]]
    return Comparison(results, found["protocol"], ours=results[0].method)


def _stored(path: Path, model: str) -> dict[str, Any] | None:
    """Return the stored comparison if it is one of this model, else None: it is made again."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    # The digest vouches for all the rest.
    is_whole = isinstance(found, dict) and found.pop("digest", None) == _digest(found)
    is_ours = is_whole and found.get("format") == _FORMAT and found["model"] == model
    return found if is_ours else None


def _digest(found: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
