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
    Check,
    Numbers,
    Verdict,
    by_sign,
    by_test,
    told,
)
from cgcl.reproduce.words import signed

__all__ = ["CHECKS"]

_VIEWS = {"cgcl": "two views", "one": "one view", "none": "no augmentation"}
_TERMS = ("views", "reconstructions", "view_1", "view_2")
# In percentage points: what may be called about the same.
_SAME = 1.0
# The share of its whole fall by which a loss may still fall when it is at rest.
_AT_REST = 0.05
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
    numbers: Numbers = [("mean cosine of two nodes, effective rank of Z", *_VIEWS.values())]
    differences: dict[str, list[Difference]] = {"one": [], "none": []}
    for graph, own in _embedded(reproduced).items():
        for other, found in differences.items():
            ours, theirs = own["cgcl"], own[other]
            # Lower cosines and higher ranks are more distinct.
            found += [
                paired_difference(theirs["mean_cosine"], ours["mean_cosine"], _OVERLAP),
                paired_difference(ours["effective_rank"], theirs["effective_rank"], _OVERLAP),
            ]
        cells = [
            f"{mean(own[views]['mean_cosine']):.2f}, {mean(own[views]['effective_rank']):.0f}"
            for views in _VIEWS
        ]
        numbers.append((_title(reproduced, graph), *cells))
    tested = corrected([one for found in differences.values() for one in found])
    half = len(tested) // 2
    text = "A lower cosine and a higher rank are more distinct. Against one view: "
    text += f"{told(tested[:half], 'more distinct', 'less')}. Against no augmentation: "
    text += f"{told(tested[half:], 'more distinct', 'less')}."
    return Verdict(by_test(tested), text, numbers)


def _invariant(reproduced: Reproduced) -> Verdict:
    found = _embedded(reproduced)
    head = ("scores correlate by", "after training with one view", "probabilities differ by")
    cosines = ("cosine of a node's two embeddings", "of two nodes'")
    numbers: Numbers = [("", *head, *cosines)]
    good: list[bool] = []
    gains: list[float] = []
    for graph, own in found.items():
        ours = {name: mean(values) for name, values in own["cgcl"].items()}
        one_view = mean(own["one"]["logit_correlation"])
        good.append(ours["logit_correlation"] >= _ALIKE)
        gains.append(ours["logit_correlation"] - one_view)
        cells = [
            ours["logit_correlation"],
            one_view,
            ours["probability_difference"],
            ours["same_node_cosine"],
            ours["other_node_cosine"],
        ]
        numbers.append((_title(reproduced, graph), *(f"{value:.2f}" for value in cells)))
    text = f"From two fresh halves of the links; scores that correlate by {_ALIKE} count as the "
    text += "same. With one view nothing is coupled in training; what two add to the correlation "
    text += f"is {signed(min(gains), 3)} to {signed(max(gains), 3)}."
    return Verdict(by_sign(good), text, numbers)


def _insensitive(reproduced: Reproduced) -> Verdict:
    numbers: Numbers = [
        ("AUC over the grid", "all of it", "without the largest r", "runs that collapsed")
    ]
    good: list[bool] = []
    for name in ("fig2", "fig3"):
        records = _records(reproduced, name)
        for test in sorted({record.test for record in records}):
            own = [record for record in records if record.test == test]
            title = f"{_title(reproduced, own[0].graph)} {test} %"
            fast = max(record.settings["lr"] for record in own)
            slower = [record for record in own if record.settings["lr"] < fast]
            for records_here in (own, slower):
                for metric in ("auc", "ap"):
                    low, high, _ = _range_over_grid(records_here, metric)
                    good.append(high - low <= _SAME)
            low, high, (width, rate) = _range_over_grid(own, "auc")
            slow_low, slow_high, _ = _range_over_grid(slower, "auc")
            collapsed = sum(map(has_collapsed, own))
            numbers.append(
                (
                    title,
                    f"{low:.2f} (d_v {width}, r {rate}) to {high:.2f}",
                    f"{slow_low:.2f} to {slow_high:.2f}",
                    f"{collapsed} of {len(own)}, {sum(map(has_collapsed, slower))} with smaller r",
                )
            )
    text = f"It holds where means of runs over the grid are at most {_SAME:.0f} apart, in AUC and "
    text += "in AP; looked at with the largest r and without. A run that broke off counts with its "
    text += "best epoch."
    return Verdict(by_sign(good), text, numbers)


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
    head = (
        "mean loss of the first tenth",
        "of the last",
        "fall at last",
        "last AUC, from the best",
    )
    numbers: Numbers = [("", *head)]
    good: list[bool] = []
    for record in _traces(reproduced):
        trace = record.measured[TRACE]
        auc = [_PERCENT * value for value in trace["val_auc"]]
        tenths = _tenths(trace["loss"])
        falls = all(later < earlier for earlier, later in pairwise(tenths))
        last = (tenths[-2:][0] - tenths[-1]) / (tenths[0] - min(tenths) or 1.0)
        good.append(falls and last <= _AT_REST)
        ends = [f"{tenths[0]:.2f}", f"{tenths[-1]:.2f}", f"{_PERCENT * last:.1f} %"]
        title = f"{_title(reproduced, record.graph)} {record.test} %"
        numbers.append((title, *ends, signed(auc[-1] - max(auc))))
    text = "It holds where the mean loss falls from every tenth of the training to the next, and "
    text += f"at last by no more than {_PERCENT * _AT_REST:.0f} % of the whole fall. AUC on "
    text += "validation links may be past its best by then: the best epoch is kept."
    return Verdict(by_sign(good), text, numbers)


def _tenths(values: Sequence[float]) -> list[float]:
    """Return the means of ten parts of a series."""
    ends = [round(len(values) * part / 10) for part in range(11)]
    return [mean(values[start:end]) for start, end in pairwise(ends) if end > start]


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
    numbers: Numbers = [("C at the end", "of the views", "of the reconstructions")]
    for record in records:
        last = [record.measured[TRACE][name][-1] for name in ("views", "reconstructions")]
        title = f"{_title(reproduced, record.graph)} {record.test} %"
        numbers.append((title, *(f"{value:.3f}" for value in last)))
    return Verdict(
        "not tested",
        f"No run tells what information is lost. The condition was met in {sum(looks)} of "
        f"{len(looks)} looks.",
        numbers,
    )


def _sufficiency(reproduced: Reproduced) -> Verdict:
    records = _traces(reproduced)
    gaps = [record.measured[TRACE]["gap"] for record in records]
    numbers: Numbers = [("the three terms are apart by", "at the first look", "at the last")]
    for record, gap in zip(records, gaps, strict=True):
        title = f"{_title(reproduced, record.graph)} {record.test} %"
        numbers.append((title, f"{gap[0]:.3f}", f"{gap[-1]:.3f}"))
    return Verdict("not tested", "No run tells what is relevant.", numbers)


CHECKS: dict[str, Check] = {
    "distinct_embeddings": Check(_distinct, "claims", tuple(_VIEWS)),
    "invariant_representations": Check(_invariant, "claims", tuple(_VIEWS)),
    "insensitive_to_width_and_rate": Check(_insensitive, "fig2", and_also="fig3"),
    "converges": Check(_converges, "fig4"),
    "theorem_1": Check(_theorem, "fig4"),
    "lemma_1": Check(_lemma, "fig4"),
    "information_loss_condition": Check(_information_loss, "fig4"),
    "sufficiency_condition": Check(_sufficiency, "fig4"),
}
