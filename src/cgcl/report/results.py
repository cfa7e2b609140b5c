"""What a page shows of a run; what takes long is done once and kept in the run's folder."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

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
from cgcl.predict.baselines import Compared, compare_with_baselines
from cgcl.predict.saved import Fitted, read_fitted
from cgcl.predict.strategy import by_products, in_words
from cgcl.split import Finding, audit_split
from cgcl.stored import misfits, parse_json
from cgcl.train.config import Resources, RunConfig
from cgcl.train.run_folder import MODEL, read_run
from cgcl.train.top_of_list import DEAR, Progress, silent
from cgcl.train.trainer import build_learner, learned_nothing

COMPARISON = "comparison.json"
SUGGESTIONS = "suggestions.json"
_FORMAT = 2
_SHOWN_LINKS = 100
_LINK = ("source", "target", "probability", "score")
_EVIDENCE = ("shared_neighbours", "common_features", "distance", "because")
# What is kept, as `cgcl.stored.fits` takes it.
_FIGURE = (None, float)
_LATER = {"protocol": "", "why_none": ""}
_SHAPES: dict[str, dict[str, Any]] = {
    COMPARISON: {
        "results": [
            {
                "method": str,
                "metrics": {str: _FIGURE},
                "sampled": (None, {"links": int, "se": {str: float}}),
            }
        ],
        "protocol": str,
    },
    SUGGESTIONS: {
        "links": [
            {
                **dict.fromkeys(("source", "target"), str),
                **dict.fromkeys(("probability", *_EVIDENCE), _FIGURE),
                "score": float,
                "because": (None, str),
                "interval": (None, [float, float]),
            }
        ],
        **dict.fromkeys(("how_found", "why_none"), str),
    },
}
# Searching up to so many pairs takes about a minute at most, ten times as many if products of
# matrices give their scores; larger graphs are asked for it.
_SEARCHED_PAIRS = 200_000_000
_SEARCHED_BY_PRODUCTS = 10 * _SEARCHED_PAIRS
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
    why_none: str = ""
    """Why nothing was searched for; empty if something was."""


_Step = TypeVar("_Step", Compared, Suggestions)


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
    comparison: Compared | None = None
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
    calibration = predictor.calibration_
    positive = negative = trust = None
    if fitted.split.test.shape[1]:
        logits = predictor.test_scores()
        if run["test"]:
            positive, negative = (side.sigmoid().double().numpy() for side in logits)
        if calibration is not None:  # at 1:1, as the test pairs are
            trust = reliability(*(calibration.probability(side, 0.5) for side in logits))

    def measure() -> Compared | None:
        on = Resources(device="cpu")
        return compare_with_baselines(fitted, on, thorough=bool(compare), progress=progress)

    def search() -> Suggestions | None:
        progress("Looking for new links", 0, 1)
        return _search(predictor, fitted)

    compared = None
    if compare is not False:
        compared = _kept(folder, COMPARISON, Compared, measure, thorough=bool(compare))
    return RunResults(
        run,
        fitted.history,
        positive,
        negative,
        suggestions=_kept(folder, SUGGESTIONS, Suggestions, search),
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


def _kept(
    folder: Path, name: str, kind: type[_Step], compute: Callable[[], _Step | None], **asked: bool
) -> _Step | None:
    """Return a result as the folder has it, or else compute and store it; None if there is none.

    Args:
        folder: The run folder.
        name: The file, which says of which model it is.
        kind: The class of the result.
        compute: What makes it.
        asked: What is asked for beyond the usual; what is stored without it is made again.
    """
    about = {"format": _FORMAT, "model": hashlib.sha256((folder / MODEL).read_bytes()).hexdigest()}
    wanted = about | {what: True for what in asked if asked[what]}
    found = _read(folder / name)
    if found is None or not wanted.items() <= found.items():
        computed = compute()
        if computed is None:
            return None
        found = about | asked | asdict(computed)
        stored = found | {"digest": _digest(found)}
        write_atomically(folder / name, (json.dumps(stored, indent=2) + "\n").encode())
    # What earlier versions stored may say less.
    return kind(**{own.name: found[own.name] for own in fields(kind) if own.name in found})


def _read(path: Path) -> dict[str, Any] | None:
    """Return what is stored if it is whole, else None: it is made again."""
    try:
        found = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.pop("digest", None) != _digest(found):
        return None
    is_sound = not misfits({**_LATER, **found}, _SHAPES[path.name]) and found.get("results") != []
    return found if is_sound else None


def _digest(found: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def _search(predictor: LinkPredictor, fitted: Fitted) -> Suggestions:
    """Return the best new links with what speaks for them, or why that would take long."""
    nodes, scorer = predictor.graph_.num_nodes, predictor.scorer()
    pairs, cost = nodes * (nodes - 1) // 2, scorer.cost_per_pair
    by_product = by_products(scorer, lists_all=False) is not None
    if pairs > (_SEARCHED_BY_PRODUCTS if by_product else _SEARCHED_PAIRS):
        why = f"The graph has {in_words(pairs)} pairs, too many to search them all for a page."
        return Suggestions([], "", why)
    try:
        if cost <= DEAR:
            links = predictor.top(_SHOWN_LINKS, explain=True)
        else:
            links = _among_proposed(predictor, fitted, int(_DEAR_BUDGET / cost))
    except ResourceError as error:
        return Suggestions([], "", str(error).partition("\n")[0])
    if links is None:
        why = f"{fitted.recipe.method.title} takes long for every pair, too long for a page."
        return Suggestions([], "", why)
    rows = [
        {name: getattr(link, name) for name in _LINK}
        | {name: link.evidence.get(name) for name in _EVIDENCE}
        | {"interval": link.interval and list(link.interval)}
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
