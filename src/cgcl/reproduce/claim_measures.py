"""Claims that more than accuracy decides: embeddings, agreement, stability, convergence, theory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import mean

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
from cgcl.reproduce.verdict import Check, Verdict, by_sign, listed

__all__ = ["CHECKS"]

_VIEWS = {"disjoint": "two views", "one": "one view", "all": "no augmentation"}
_MEASURED = ("cgcl", "one", "none")
_TERMS = ("views", "reconstructions", "view_1", "view_2")
# In percentage points of AUC: what may be called about the same, and nearly the best.
_SAME, _NEARLY = 1.0, 0.5
_ALIKE = 0.9
_PERCENT = 100


def _records(reproduced: Reproduced, name: str) -> list[Record]:
    return records_of(reproduced.places(name)[1], reproduced.found)


def _title(reproduced: Reproduced, graph: str) -> str:
    return str(reproduced.paper["datasets"][graph]["title"])


def _embedded(reproduced: Reproduced) -> dict[str, dict[str, dict[str, float]]]:
    """Return by graph and kind of views the means of what embeddings were measured by."""
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for record in _records(reproduced, "claims"):
        if EMBEDDINGS in record.measured:
            place = (record.graph, record.settings["views"])
            found.setdefault(place, []).append(record.measured[EMBEDDINGS])
    means: dict[str, dict[str, dict[str, float]]] = {}
    for (graph, views), own in found.items():
        each = {name: mean(one[name] for one in own) for name in own[0]}
        means.setdefault(graph, {})[views] = each
    return {graph: own for graph, own in means.items() if _VIEWS.keys() <= own.keys()}


def _distinct(reproduced: Reproduced) -> Verdict:
    found = _embedded(reproduced)
    parts: list[str] = []
    good: list[bool] = []
    for graph, own in found.items():
        ours, others = own["disjoint"], [own["one"], own["all"]]
        good.append(ours["mean_cosine"] < min(one["mean_cosine"] for one in others))
        good.append(ours["effective_rank"] > max(one["effective_rank"] for one in others))
        numbers = [
            f"{words} {own[views]['mean_cosine']:.2f} and {own[views]['effective_rank']:.0f}"
            for views, words in _VIEWS.items()
        ]
        parts.append(f"{_title(reproduced, graph)}: {', '.join(numbers)}")
    text = f"Mean cosine of two nodes and effective rank of Z. {'; '.join(parts)}."
    return Verdict(by_sign(good), text)


def _invariant(reproduced: Reproduced) -> Verdict:
    found = _embedded(reproduced)
    parts: list[str] = []
    good: list[bool] = []
    for graph, own in found.items():
        ours = own["disjoint"]
        good.append(ours["logit_correlation"] >= _ALIKE)
        parts.append(
            f"{_title(reproduced, graph)}: scores correlate by {ours['logit_correlation']:.2f} "
            f"(one view {own['one']['logit_correlation']:.2f}), probabilities differ by "
            f"{ours['probability_difference']:.2f}, a node's two embeddings have cosine "
            f"{ours['same_node_cosine']:.2f} (two nodes' {ours['other_node_cosine']:.2f})"
        )
    return Verdict(by_sign(good), f"From two fresh halves of the links. {'; '.join(parts)}.")


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
            f"{auc[-1] - max(auc):+.2f} from the best"
        )
    return Verdict(by_sign(good), f"{'; '.join(parts)}.")


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
        f"{listed(last)}.",
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
        f"last: {listed(parts)}.",
    )


CHECKS: dict[str, Check] = {
    "distinct_embeddings": Check(_distinct, "claims", _MEASURED),
    "invariant_representations": Check(_invariant, "claims", _MEASURED),
    "insensitive_to_width_and_rate": Check(_insensitive, "fig2", and_also="fig3"),
    "converges": Check(_converges, "fig4"),
    "theorem_1": Check(_theorem, "fig4"),
    "lemma_1": Check(_lemma, "fig4"),
    "information_loss_condition": Check(_information_loss, "fig4"),
    "sufficiency_condition": Check(_sufficiency, "fig4"),
}
