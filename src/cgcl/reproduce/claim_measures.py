"""Claims that more than accuracy decides: embeddings, agreement, stability, convergence, theory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import mean

from cgcl.compare.statistics import Difference, corrected, paired_difference
from cgcl.metrics.consistency import (
    CONSISTENCY_LOWER_BOUND,
    CONSISTENCY_UPPER_BOUND,
    LEMMA_BOUND,
)
from cgcl.reproduce.cells import has_collapsed
from cgcl.reproduce.measures import EMBEDDINGS, TRACE
from cgcl.reproduce.page import Reproduced
from cgcl.reproduce.record import Record
from cgcl.reproduce.records import records_of
from cgcl.reproduce.verdict import (
    CORRECTED,
    Check,
    Verdict,
    by_sign,
    by_test,
    sign_of,
)
from cgcl.reproduce.words import joined, signed

__all__ = ["CHECKS"]

_VIEWS = {"cgcl": "two views", "one": "one view", "none": "no augmentation"}
_TERMS = ("views", "reconstructions", "view_1", "view_2")
# In percentage points of AUC: what may be called about the same, and nearly the best.
_SAME, _NEARLY = 1.0, 0.5
_ALIKE = 0.9
_PERCENT = 100
# Test links per training link, with 10 % test and 5 % validation links.
_OVERLAP = 0.1 / 0.85


def _records(reproduced: Reproduced, name: str) -> list[Record]:
    return records_of(reproduced.places(name)[1], reproduced.found)


def _title(reproduced: Reproduced, graph: str) -> str:
    return str(reproduced.paper["datasets"][graph]["title"])


Measured = dict[str, list[float]]
"""What embeddings were measured by: a number for each run, in the order of splits."""


def _embedded(reproduced: Reproduced) -> dict[str, dict[str, Measured]]:
    """Return by graph and row what embeddings were measured by."""
    found: dict[str, dict[str, Measured]] = {}
    for place, jobs in reproduced.places("claims")[1].items():
        if place.row in _VIEWS:
            own = found.setdefault(place.graph, {}).setdefault(place.row, {})
            for job in jobs:
                for name, value in reproduced.found[job.key].measured[EMBEDDINGS].items():
                    own.setdefault(name, []).append(value)
    return found


def _distinct(reproduced: Reproduced) -> Verdict:
    parts: list[str] = []
    differences: dict[str, list[Difference]] = {"one": [], "none": []}
    for graph, own in _embedded(reproduced).items():
        for other, found in differences.items():
            ours, theirs = own["cgcl"], own[other]
            # Lower cosines and higher ranks are more distinct.
            found += [
                paired_difference(theirs["mean_cosine"], ours["mean_cosine"], _OVERLAP),
                paired_difference(ours["effective_rank"], theirs["effective_rank"], _OVERLAP),
            ]
        numbers = [
            f"{words} {mean(own[views]['mean_cosine']):.2f} and "
            f"{mean(own[views]['effective_rank']):.0f}"
            for views, words in _VIEWS.items()
        ]
        parts.append(f"{_title(reproduced, graph)}: {', '.join(numbers)}")
    tested = corrected([one for found in differences.values() for one in found])
    half = len(tested) // 2
    counts = [
        f"than with {words} in {sum(sign_of(one) == 1 for one in found)} of {half}"
        for words, found in (("one view", tested[:half]), ("no augmentation", tested[half:]))
    ]
    text = f"Mean cosine of two nodes and effective rank of Z. {'; '.join(parts)}. More distinct "
    text += f"{' comparisons and '.join(counts)}; {CORRECTED}."
    return Verdict(by_test(tested), text)


def _invariant(reproduced: Reproduced) -> Verdict:
    found = _embedded(reproduced)
    parts: list[str] = []
    good: list[bool] = []
    for graph, own in found.items():
        ours = {name: mean(values) for name, values in own["cgcl"].items()}
        one_view = mean(own["one"]["logit_correlation"])
        good.append(ours["logit_correlation"] >= _ALIKE)
        parts.append(
            f"{_title(reproduced, graph)}: scores correlate by {ours['logit_correlation']:.2f} "
            f"(one view {one_view:.2f}), probabilities differ by "
            f"{ours['probability_difference']:.2f}, a node's two embeddings have cosine "
            f"{ours['same_node_cosine']:.2f} (two nodes' {ours['other_node_cosine']:.2f})"
        )
    text = f"From two fresh halves of the links; scores that correlate by {_ALIKE} count as the "
    text += "same. In brackets: after training with one view, for which nothing is coupled."
    return Verdict(by_sign(good), f"{text} {'; '.join(parts)}.")


def _insensitive(reproduced: Reproduced) -> Verdict:
    parts: list[str] = []
    good: list[bool] = []
    for name in ("fig2", "fig3"):
        records = _records(reproduced, name)
        for test in sorted({record.test for record in records}):
            own = [record for record in records if record.test == test]
            title = f"{_title(reproduced, own[0].graph)} {test} %"
            ranges = [_range_over_grid(own, metric) for metric in ("auc", "ap")]
            good += [high - low <= _SAME for low, high, _ in ranges]
            low, high, (width, rate) = ranges[0]
            collapsed = sum(map(has_collapsed, own))
            parts.append(
                f"{title}: {low:.2f} (d_v {width}, r {rate}) to {high:.2f}, "
                f"{collapsed} of {len(own)} runs collapsed"
            )
    return Verdict(
        by_sign(good), f"AUC over the grid; {_SAME:.0f} counts as the same. {'; '.join(parts)}."
    )


def _range_over_grid(
    records: Sequence[Record], metric: str
) -> tuple[float, float, tuple[int, float]]:
    """Return the smallest and the largest mean of a cell, and where the smallest is."""
    cells: dict[tuple[int, float], list[float]] = {}
    for record in records:
        place = (record.settings["hidden"], record.settings["lr"])
        cells.setdefault(place, []).append(_PERCENT * (record.metrics or {})[metric])
    means = {place: mean(values) for place, values in cells.items()}
    worst = min(means, key=lambda place: means[place])
    return means[worst], max(means.values()), worst


def _traces(reproduced: Reproduced) -> list[Record]:
    return [record for record in _records(reproduced, "fig4") if TRACE in record.measured]


def _converges(reproduced: Reproduced) -> Verdict:
    records = _traces(reproduced)
    parts: list[str] = []
    good: list[bool] = []
    for record in records:
        trace = record.measured[TRACE]
        loss, auc = trace["loss"], [_PERCENT * value for value in trace["val_auc"]]
        falls = sum(later < earlier for earlier, later in pairwise(loss))
        good.append(loss[-1] < loss[0] and auc[-1] >= max(auc) - _NEARLY)
        parts.append(
            f"{_title(reproduced, record.graph)} {record.test} % loss {loss[0]:.2f} to "
            f"{loss[-1]:.2f}, falling in {falls} of {len(loss) - 1} looks, last AUC "
            f"{signed(auc[-1] - max(auc))} from the best"
        )
    text = f"It converges where the last AUC is at most {_NEARLY} below the best. "
    return Verdict(by_sign(good), f"{text}{'; '.join(parts)}.")


def _terms(reproduced: Reproduced) -> list[float]:
    return [
        value
        for record in _traces(reproduced)
        for term in _TERMS
        for value in record.measured[TRACE][term]
    ]


def _theorem(reproduced: Reproduced) -> Verdict:
    values = _terms(reproduced)
    return Verdict(
        "holds",
        f"Proved for r in [0, 1]; logits can lie outside (`tests/paper/test_theory.py`). Measured "
        f"along training: {min(values):.3f} to {max(values):.3f} between the bounds "
        f"{CONSISTENCY_LOWER_BOUND:.3f} and {CONSISTENCY_UPPER_BOUND:.3f}.",
    )


def _lemma(reproduced: Reproduced) -> Verdict:
    widest = max(
        max(trace[term]) - min(trace[term])
        for record in _traces(reproduced)
        for trace in [record.measured[TRACE]]
        for term in _TERMS
    )
    tight = CONSISTENCY_UPPER_BOUND - CONSISTENCY_LOWER_BOUND
    return Verdict(
        "holds",
        f"It follows from Theorem 1, which gives {tight:.3f} where the lemma has "
        f"{LEMMA_BOUND:.3f}. Between two epochs of a run a term differs by {widest:.3f} at most.",
    )


def _information_loss(reproduced: Reproduced) -> Verdict:
    records = _traces(reproduced)
    looks = [
        views >= rebuilt
        for record in records
        for views, rebuilt in zip(
            record.measured[TRACE]["views"], record.measured[TRACE]["reconstructions"], strict=True
        )
    ]
    last = [
        f"{_title(reproduced, record.graph)} {record.test} % "
        f"{record.measured[TRACE]['views'][-1]:.3f} and "
        f"{record.measured[TRACE]['reconstructions'][-1]:.3f}"
        for record in records
    ]
    return Verdict(
        "not tested",
        f"No run tells what information is lost. The condition was met in {sum(looks)} of "
        f"{len(looks)} looks; at the end C of the views and of the reconstructions are "
        f"{joined(last)}.",
    )


def _sufficiency(reproduced: Reproduced) -> Verdict:
    records = _traces(reproduced)
    gaps = [record.measured[TRACE]["gap"] for record in records]
    parts = [
        f"{_title(reproduced, record.graph)} {record.test} % {gap[0]:.3f} to {gap[-1]:.3f}"
        for record, gap in zip(records, gaps, strict=True)
    ]
    return Verdict(
        "not tested",
        f"No run tells what is relevant. The three terms are apart by, from the first look to the "
        f"last: {joined(parts)}.",
    )


CHECKS: dict[str, Check] = {
    "distinct_embeddings": Check(_distinct, "claims", tuple(_VIEWS)),
    "invariant_representations": Check(_invariant, "claims", tuple(_VIEWS)),
    "insensitive_to_width_and_rate": Check(_insensitive, "fig2", and_also="fig3", fails_early=True),
    "converges": Check(_converges, "fig4"),
    "theorem_1": Check(_theorem, "fig4"),
    "lemma_1": Check(_lemma, "fig4"),
    "information_loss_condition": Check(_information_loss, "fig4"),
    "sufficiency_condition": Check(_sufficiency, "fig4"),
}
