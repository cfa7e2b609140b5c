"""What a page shows of a run; what takes long is done once and kept in the run's folder."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from cgcl.errors import ResourceError
from cgcl.files import write_atomically
from cgcl.graph.survey import Survey, survey
from cgcl.predict import LinkPredictor, Links
from cgcl.predict.baselines import compare_with_baselines
from cgcl.predict.saved import Fitted, read_fitted
from cgcl.report.inputs import (
    AuditFinding,
    Comparison,
    MethodResult,
    Probabilities,
    SuggestedLink,
    Suggestions,
)
from cgcl.split import audit_split
from cgcl.train.config import Recipe, Resources
from cgcl.train.run_folder import MODEL, read_run
from cgcl.train.top_of_list import DEAR, Progress, silent
from cgcl.train.trainer import build_learner, learned_nothing

COMPARISON = "comparison.json"
SUGGESTIONS = "suggestions.json"
_FORMAT = 2
_SHOWN_LINKS = 100
_EXAMPLES = 5
# Searching up to so many pairs takes about a minute at most; larger graphs are asked for it.
_SEARCHED_PAIRS = 200_000_000
# A method that is dear to search with looks at a few thousand pairs, as many as this allows.
_DEAR_BUDGET = 2.5e9
_PROPOSING = "resource-allocation"


@dataclass(frozen=True, eq=False)
class RunResults:
    """Everything that the page of a run shows; see `render_page`."""

    run: dict[str, Any]
    history: Sequence[dict[str, Any]]
    positive: npt.ArrayLike | None
    negative: npt.ArrayLike | None
    suggestions: Suggestions | None
    probabilities: Probabilities | None
    comparison: Comparison | None
    audit: Sequence[AuditFinding]
    survey: Survey


def read_results(
    folder: Path, *, compare: bool | None = None, progress: Progress = silent
) -> RunResults:
    """Return the results of a run: as stored; steps that were not done yet are done and stored.

    Args:
        folder: The run folder.
        compare: Whether to set the run beside simple methods: True even if that takes minutes,
            False not at all, None if it takes seconds.
        progress: Told about every step.

    Raises:
        RunFolderError: The folder holds no run.
        ModelFileError: The run has no model yet, or its files are damaged.
        ResourceError: The disk is full.
    """
    run = read_run(folder)
    # On the CPU if that is where it was trained: the page shows that run, not another.
    device = "cpu" if run["device"] == "cpu" else "auto"
    fitted = read_fitted(folder)
    predictor = LinkPredictor.of(fitted, device).set_params(threads=run["threads"])
    run["method"] = fitted.recipe.method.title
    run["folder"] = shlex.quote(str(folder))
    run["warnings"] = [text for text in (learned_nothing(run["val"]),) if text]
    steps = _Steps(folder)
    logits = predictor.test_scores() if fitted.split.test.shape[1] else ()
    positive = negative = compared = None
    if run["test"] and logits:
        positive, negative = (side.sigmoid().numpy() for side in logits)
    if compare is not False:
        compared = steps.comparison(fitted, thorough=bool(compare), progress=progress)
    return RunResults(
        run,
        fitted.history,
        positive,
        negative,
        suggestions=steps.suggestions(predictor, fitted, progress),
        probabilities=_probabilities(predictor, logits),
        comparison=compared,
        audit=_audited(predictor),
        survey=survey(predictor.graph_),
    )


class _Steps:
    """Results in a run's folder, each in a file that says of which model it is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._model = hashlib.sha256((folder / MODEL).read_bytes()).hexdigest()

    def comparison(
        self, fitted: Fitted, *, thorough: bool, progress: Progress
    ) -> Comparison | None:
        def compute() -> dict[str, Any] | None:
            compared = compare_with_baselines(
                fitted, Resources(device="cpu"), thorough=thorough, progress=progress
            )
            return None if compared is None else {"thorough": thorough, **asdict(compared)}

        found = self._kept(COMPARISON, compute, lambda was: was.get("thorough") or not thorough)
        if found is None:
            return None
        results = [MethodResult(item["method"], item["metrics"]) for item in found["results"]]
        return Comparison(results, found["protocol"], ours=results[0].method)

    def suggestions(
        self, predictor: LinkPredictor, fitted: Fitted, progress: Progress
    ) -> Suggestions | None:
        def compute() -> dict[str, Any] | None:
            progress("Looking for new links", 0, 1)
            found = _search(predictor, fitted)
            return None if found is None else asdict(found)

        found = self._kept(SUGGESTIONS, compute)
        if found is None:
            return None
        links = [SuggestedLink(**link) for link in found["links"]]
        return Suggestions(links, found["how_found"])

    def _kept(
        self,
        name: str,
        compute: Callable[[], dict[str, Any] | None],
        is_enough: Callable[[dict[str, Any]], bool] = lambda _: True,
    ) -> dict[str, Any] | None:
        """Return a result as stored, or else compute and store it; None if there is none."""
        found = self._read(self._folder / name)
        if found is not None and is_enough(found):
            return found
        computed = compute()
        if computed is None:
            return None
        found = {"format": _FORMAT, "model": self._model, **computed}
        stored = found | {"digest": _digest(found)}
        write_atomically(self._folder / name, (json.dumps(stored, indent=2) + "\n").encode())
        return found

    def _read(self, path: Path) -> dict[str, Any] | None:
        """Return what is stored if it is whole and of this model, else None: it is made again."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        # The digest vouches for all the rest.
        is_whole = isinstance(found, dict) and found.pop("digest", None) == _digest(found)
        is_ours = is_whole and found.get("format") == _FORMAT and found["model"] == self._model
        return found if is_ours else None


def _digest(found: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _search(predictor: LinkPredictor, fitted: Fitted) -> Suggestions | None:
    """Return the best new links with what speaks for them; None where that would take long."""
    nodes, cost = predictor.graph_.num_nodes, predictor.scorer().cost_per_pair
    if nodes * (nodes - 1) // 2 > _SEARCHED_PAIRS:
        return None
    try:
        if cost <= DEAR:
            links = predictor.top(_SHOWN_LINKS, explain=True)
        else:
            links = _among_proposed(predictor, fitted, int(_DEAR_BUDGET / cost))
    except ResourceError:
        return None
    if links is None:
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
            interval=link.interval and list(link.interval),
        )
        for link in links
    ]
    return Suggestions(rows, links.found)


def _among_proposed(predictor: LinkPredictor, fitted: Fitted, count: int) -> Links | None:
    """Return the best of so many pairs that a formula proposes; None if those are too few."""
    if fitted.graph.sides is not None or count < _SHOWN_LINKS:
        return None
    recipe = Recipe.of(_PROPOSING, {})
    formula = replace(fitted, recipe=recipe, learner=build_learner(0, recipe), calibration=None)
    proposed = LinkPredictor.of(formula, "cpu").top(count)
    pairs = list(zip(proposed.sources, proposed.targets, strict=True))
    order = np.argsort(-predictor.score(pairs), kind="stable")[:_SHOWN_LINKS]
    best = predictor.score_pairs([pairs[place] for place in order], explain=True)
    title = recipe.method.title.lower()
    return replace(best, found=f"The best {len(pairs):,} new pairs by {title} were scored.")


def _probabilities(predictor: LinkPredictor, logits: Sequence[Tensor]) -> Probabilities | None:
    """Return how scores became probabilities, and how they fared on the test links."""
    calibration = predictor.calibration_
    if calibration is None:
        return None
    links = others = None
    if logits:  # at 1:1, as the test pairs are
        links, others = (calibration.probability(side, 0.5) for side in logits)
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


def _audited(predictor: LinkPredictor) -> list[AuditFinding]:
    """Return what an audit of the run's split finds."""
    found = audit_split(predictor.split_, predictor.graph_).findings
    return [
        AuditFinding(item.sentence, item.severity, item.named_pairs[:_EXAMPLES], item.count)
        for item in found
    ]
