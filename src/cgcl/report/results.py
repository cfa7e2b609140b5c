"""What a page shows of a run; what takes long is done once and kept in the run's folder."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cgcl.errors import ResourceError
from cgcl.files import write_atomically
from cgcl.graph.survey import Survey, survey
from cgcl.metrics.calibration import (
    Calibration,
    ReliabilityBin,
    expected_calibration_error,
    reliability_curve,
)
from cgcl.predict import LinkPredictor, Links
from cgcl.predict.baselines import compare_with_baselines
from cgcl.predict.saved import Fitted, read_fitted
from cgcl.split import Finding, audit_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.run_folder import MODEL, read_run
from cgcl.train.top_of_list import DEAR, Progress, silent
from cgcl.train.trainer import build_learner, learned_nothing

COMPARISON = "comparison.json"
SUGGESTIONS = "suggestions.json"
_FORMAT = 2
_SHOWN_LINKS = 100
_EVIDENCE = ("shared_neighbours", "common_features", "distance", "because")
# Searching up to so many pairs takes about a minute at most; larger graphs are asked for it.
_SEARCHED_PAIRS = 200_000_000
# A method that is dear to search with looks at a few thousand pairs, as many as this allows.
_DEAR_BUDGET = 2.5e9
_PROPOSING = "resource-allocation"


@dataclass(frozen=True)
class Suggestions:
    """The list of new links."""

    links: Sequence[Mapping[str, Any]]
    """Best first; each with the names of its `source` and `target`, `probability`, `score`, the
    95 % `interval` of the probability, and what speaks for it: `shared_neighbours`,
    `common_features`, `distance` and `because`. None where there is no such thing."""
    how_found: str
    """One sentence: every pair was scored, or candidates with a measured recall."""


@dataclass(frozen=True)
class Comparison:
    """Methods on the same held-out links."""

    results: Sequence[Mapping[str, Any]]
    """Of each method, ours first, its name as `method` and its `metrics`, None where one was not
    measured; more is better."""
    protocol: str = ""
    """Which links were held out and what was ranked, a sentence or two."""

    @property
    def ours(self) -> str:
        """The name of the method of this run."""
        return self.results[0]["method"]


@dataclass(frozen=True)
class Reliability:
    """How predicted probabilities compare with what was observed."""

    bins: Sequence[ReliabilityBin]
    """By rising probability, with equally many pairs."""
    error: float
    """The expected calibration error: |predicted - observed|, weighted by count."""
    error_by_chance: float
    """About what a perfect model would show on as many pairs."""
    links: npt.NDArray[np.float64]
    """Probabilities of the links."""
    others: npt.NDArray[np.float64]
    """Probabilities of the unlinked pairs."""


@dataclass(frozen=True, eq=False)
class RunResults:
    """Everything that the page of a run shows. Names are as they were read, whatever they hold."""

    run: Mapping[str, Any]
    """What run.json holds, `folder`, the run folder as a shell would take it, and `method`, what
    the method is called."""
    history: Sequence[Mapping[str, Any]] = ()
    """What the run recorded about every epoch."""
    positive: npt.NDArray[Any] | None = None
    """Scores of the test links, None if there was no test."""
    negative: npt.NDArray[Any] | None = None
    """Scores of the unlinked test pairs, None if there was no test."""
    suggestions: Suggestions | None = None
    """New links, None if nobody asked for them."""
    calibration: Calibration | None = None
    """How scores became probabilities, None if they did not."""
    reliability: Reliability | None = None
    """How these fared on the test links, None without."""
    comparison: Comparison | None = None
    """Methods on the same held-out links, None if there are no others."""
    audit: Sequence[Finding] | None = None
    """What the split audit found, empty if nothing, None if there was no audit."""
    survey: Survey | None = None
    """The shape of the graph, None if nobody looked."""


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
    steps, calibration = _Steps(folder), predictor.calibration_
    positive = negative = compared = trust = None
    if fitted.split.test.shape[1]:
        logits = predictor.test_scores()
        if run["test"]:
            positive, negative = (side.sigmoid().numpy() for side in logits)
        if calibration is not None:  # at 1:1, as the test pairs are
            trust = reliability(*(calibration.probability(side, 0.5) for side in logits))
    if compare is not False:
        compared = steps.comparison(fitted, thorough=bool(compare), progress=progress)
    return RunResults(
        run,
        fitted.history,
        positive,
        negative,
        suggestions=steps.suggestions(predictor, fitted, progress),
        calibration=calibration,
        reliability=trust,
        comparison=compared,
        audit=audit_split(predictor.split_, predictor.graph_).findings,
        survey=survey(predictor.graph_),
    )


def reliability(links: npt.ArrayLike, others: npt.ArrayLike) -> Reliability | None:
    """Compare probabilities with outcomes in ten bins of equally many pairs.

    Args:
        links: Probabilities of pairs that are links.
        others: Probabilities of pairs that are not.

    Returns:
        None where there is nothing to compare.
    """
    positive = np.asarray(links, dtype=np.float64).ravel()
    negative = np.asarray(others, dtype=np.float64).ravel()
    predicted = np.concatenate([positive, negative])
    if not predicted.size:
        return None
    is_link = np.repeat([1.0, 0.0], [positive.size, negative.size])
    bins = reliability_curve(predicted, is_link)
    # E|observed - p| = sqrt(2 p (1 - p) / (pi n)) in a large bin of n pairs.
    chance = sum(
        math.sqrt(max(0.0, 2 * part.count * part.predicted * (1 - part.predicted)) / math.pi)
        for part in bins
    )
    error = expected_calibration_error(predicted, is_link)
    return Reliability(bins, error, chance / predicted.size, positive, negative)


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
        return None if found is None else Comparison(tuple(found["results"]), found["protocol"])

    def suggestions(
        self, predictor: LinkPredictor, fitted: Fitted, progress: Progress
    ) -> Suggestions | None:
        def compute() -> dict[str, Any] | None:
            progress("Looking for new links", 0, 1)
            found = _search(predictor, fitted)
            return None if found is None else asdict(found)

        found = self._kept(SUGGESTIONS, compute)
        return None if found is None else Suggestions(found["links"], found["how_found"])

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
        {
            "source": link.source,
            "target": link.target,
            "probability": link.probability,
            "score": link.score,
            **{name: link.evidence.get(name) for name in _EVIDENCE},
            "interval": link.interval and list(link.interval),
        }
        for link in links
    ]
    return Suggestions(rows, links.found)


def _among_proposed(predictor: LinkPredictor, fitted: Fitted, count: int) -> Links | None:
    """Return the best of so many pairs that a formula proposes; None if those are too few."""
    if fitted.graph.sides is not None or count < _SHOWN_LINKS:
        return None
    recipe = RunConfig.of(_PROPOSING, {})
    formula = replace(fitted, recipe=recipe, learner=build_learner(0, recipe), calibration=None)
    proposed = LinkPredictor.of(formula, "cpu").top(count)
    pairs = list(zip(proposed.sources, proposed.targets, strict=True))
    order = np.argsort(-predictor.score(pairs), kind="stable")[:_SHOWN_LINKS]
    best = predictor.score_pairs([pairs[place] for place in order], explain=True)
    title = recipe.method.title.lower()
    return replace(best, found=f"The best {len(pairs):,} new pairs by {title} were scored.")
