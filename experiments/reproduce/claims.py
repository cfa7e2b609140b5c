"""Every claim of the paper with what became of it, and the page of results in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from statistics import fmean, mean
from textwrap import indent
from typing import Any, Literal, get_args

from cgcl.experiments.reproduction import EMBEDDINGS, TRACE, records_of
from cgcl.experiments.statistics import LEVEL, Difference, Spread, corrected, paired_difference
from cgcl.experiments.study import Protocol, Record
from cgcl.experiments.tables import (
    FEWEST_TESTED,
    METRICS,
    Cell,
    Metric,
    Paired,
    Table,
    has_collapsed,
    joined,
    markdown_table,
    signed,
)
from cgcl.metrics.consistency import CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND, LEMMA_BOUND

from .page import REPRODUCED, Reproduced, counted, counts_of, own_cells, verdict_on

_NOTHING = 1e-9

Word = Literal[
    "holds", "holds in part", "does not hold", "cannot be told", "not run yet", "not tested"
]
Numbers = list[tuple[str, ...]]
"""A line of titles, and a line for each place."""


@dataclass(frozen=True)
class Verdict:
    """A word and what it rests on."""

    word: Word
    evidence: str
    numbers: Sequence[Sequence[str]] = ()
    """What is behind it, as a table: a line of titles and a line for each place."""


@dataclass(frozen=True)
class Check:
    """Looks at the runs and says what becomes of a claim."""

    look: Callable[[Reproduced], Verdict]
    experiments: tuple[str, ...]
    """What it looks at."""
    rows: tuple[str, ...] | None = None
    """The rows that it looks at; None for all."""
    protocol: Protocol | None = None
    """The protocol that it looks at; None for all of the experiment."""

    def verdict(self, reproduced: Reproduced) -> Verdict:
        """Return the verdict; there is none before the last run that it depends on is there.

        A clear exception among some runs may be none among all, with more comparisons to allow for.
        """
        for name in self.experiments:
            missing, every = reproduced.missing(name, self.rows, self.protocol)
            if missing:
                there = f"{every - missing:,} of {every:,} runs are there"
                option = f" --protocol {self.protocol}" if self.protocol else ""
                words = f"`cgcl reproduce {name}{option}` decides it: {there}."
                return Verdict("not run yet", words)
        return self.look(reproduced)


def by_sign(is_so: Collection[bool]) -> Word:
    """Return whether something is so everywhere, somewhere or nowhere."""
    if all(is_so):
        return "holds"
    return "holds in part" if any(is_so) else "does not hold"


def sign_of(difference: Difference) -> int:
    """Return 1 if a difference is above zero, -1 if below, and 0 if chance explains it.

    Where all runs differ by the same there is no p, and no chance that could explain it.

    Args:
        difference: With the p that allows for the number of comparisons.
    """
    if difference.p is None:
        is_told = difference.sd is not None and difference.sd < _NOTHING < abs(difference.mean)
    else:
        is_told = difference.adjusted_p is not None and difference.adjusted_p < LEVEL
    return (difference.mean > 0) - (difference.mean < 0) if is_told else 0


def told(differences: Sequence[Difference], above: str = "above zero", below: str = "below") -> str:
    """Return how many differences are above and below zero by more than chance explains.

    Args:
        differences: With p-values that allow for their number.
        above: What it is to be above zero.
        below: What it is to be below.
    """
    signs = [sign_of(own) for own in differences]
    return (
        f"{above} by more than chance explains in {signs.count(1) or 'none'} of {len(signs)}, "
        f"{below} in {signs.count(-1) or 'none'}"
    )


def by_test(differences: Sequence[Difference], *, everywhere: bool = False) -> Word:
    """Return whether differences are above zero, where chance does not explain them.

    Args:
        differences: With p-values that allow for their number.
        everywhere: The claim says that all are, so that one below zero refutes it.
    """
    signs = [sign_of(own) for own in differences]
    if -1 in signs and (everywhere or 1 not in signs):
        return "does not hold"
    if 1 not in signs:
        return "cannot be told"
    return "holds" if all(sign == 1 for sign in signs) else "holds in part"


_CITATIONS = ("cora", "citeseer", "pubmed")
_COPURCHASES = ("photo", "computers")
# What may be called a slight loss, what hardly a change, and what about the same, in points.
_SLIGHT, _HARDLY, _SAME = 1.0, 0.25, 1.0
_RATIOS = ("seen-10", "seen-30", "seen-50", "seen-70", "seen-90")
_VIEWS = {"cgcl": "two views", "one": "one view", "none": "no augmentation"}
_TERMS = ("views", "reconstructions", "view_1", "view_2")
# The share of its whole fall by which a loss may still fall when it is at rest.
_AT_REST = 0.05
_ALIKE = 0.9
_PERCENT = 100


def _splits(table: Table, row: str, metric: Metric = "auc") -> dict[tuple[str, int], Cell]:
    """Return the cells of a row over splits, by graph and share of test links."""
    return {
        (cell.place.graph, cell.place.test): cell
        for cell in table.cells
        if (cell.place.row, cell.place.protocol, cell.metric) == (row, "splits", metric)
    }


def _difference(one: Cell, other: Cell) -> Difference:
    """Return how far a cell is ahead of another on the same splits."""
    return paired_difference(one.values, other.values, _overlap(one.place.test))


def _overlap(test: int) -> float:
    """Return the test links per training link; half as many choose the epoch."""
    share = test / _PERCENT
    return share / (1 - 1.5 * share)


def _interval(own: Spread) -> str:
    if own.low is None or own.high is None:
        return signed(own.mean)
    return f"{signed(own.mean)} ({signed(own.low)} to {signed(own.high)})"


def _superiority(test: int, excepted: tuple[str, str] | None, reproduced: Reproduced) -> Verdict:
    """Tell whether CGCL is ahead of every row on every graph but one that is excepted."""
    table = reproduced.table("table1")
    every = [
        one
        for one in table.paired
        if one.place.test == test and (one.place.row, one.place.graph) != excepted
    ]
    paired = [one for one in every if one.difference.runs >= FEWEST_TESTED]
    text = standing(reproduced, paired)
    if excepted is not None:
        row, graph = excepted
        text += f" ({table.labels[row]} on {reproduced.title(graph)} left out, as claimed)"
    if len(paired) < len(every):
        few = len(every) - len(paired)
        text += f". {few} over fewer than {FEWEST_TESTED} splits are not tested"
    capped = sorted({table.labels[cell.place.row] for cell in table.cells if cell.caps})
    if capped:
        text += f". {joined(capped)} left things out to be affordable"
    tested = corrected([one.difference for one in paired])
    return Verdict(by_test(tested, everywhere=True), text + ".")


def standing(reproduced: Reproduced, paired: Sequence[Paired]) -> str:
    """Return how often CGCL is ahead and behind, and of whom, without a full stop.

    Args:
        reproduced: All runs.
        paired: Comparisons of Table I; the tests allow for the number of these.
    """
    signs = [sign_of(one) for one in corrected([one.difference for one in paired])]
    text = f"Over splits CGCL is ahead in {signs.count(1)} of {len(paired)} comparisons by more "
    text += f"than chance explains and behind in {signs.count(-1) or 'none'}"
    clearly = [one for one, sign in zip(paired, signs, strict=True) if sign == -1]
    below = [one for one in paired if one.difference.mean < 0]
    if clearly:
        text += f": {_rivals(reproduced, clearly)}"
    if below:
        text += f"; its mean is behind in {len(below)}: {_rivals(reproduced, below)}"
    return text


def _rivals(reproduced: Reproduced, paired: Sequence[Paired]) -> str:
    """Return against whom and where comparisons are, and how they end."""
    labels, found = reproduced.table("table1").labels, dict[str, list[str]]()
    for one in paired:
        place = f"{labels[one.place.row]} on {reproduced.where(one.place)}"
        words = f"{one.metric.upper()} {signed(one.difference.mean)}"
        found.setdefault(place, []).append(words)
    return joined([f"{place} ({', '.join(words)})" for place, words in found.items()])


def _margin(reproduced: Reproduced) -> Verdict:
    stated: Mapping[str, float] = reproduced.paper["stated"]["gain_auc_10"]
    table = reproduced.table("table1")
    best = _best_baselines(table)
    found = {
        (one.place.graph, one.place.row): one.difference
        for one in table.paired
        if (one.place.test, one.metric) == (10, "auc")
    }
    inside: list[bool] = []
    numbers: Numbers = [("graph", "best baseline", "CGCL minus it", "printed")]
    for graph, printed in stated.items():
        row = best[graph, 10]
        own = found[graph, row]
        is_known = own.low is not None and own.high is not None
        inside.append(is_known and (own.low or 0.0) <= printed <= (own.high or 0.0))
        title = reproduced.title(graph)
        numbers.append((title, table.labels[row], _interval(own), signed(printed)))
    text = "AUC over splits, against the baseline with the best mean. It holds where the interval "
    return Verdict(by_sign(inside), f"{text}contains the printed number.", numbers)


def _best_baselines(table: Table) -> dict[tuple[str, int], str]:
    """Return the baseline with the best mean AUC over splits, by graph and share."""
    others = [row.name for row in table.experiment.rows if row.name != "cgcl"]
    cells = {row: _splits(table, row) for row in others}
    return {
        place: max(others, key=lambda row: cells[row][place].mean or 0.0)
        for place in cells[others[0]]
    }


def _level(reproduced: Reproduced) -> Verdict:
    own = own_cells(reproduced.table("table1"))
    words = {
        (cell.place, cell.metric): verdict_on(cell, own.get(("splits", *key[1:])))
        for key, cell in own.items()
        if key[0] == "paper"
    }
    alone = [verdict_on(cell, cell) for key, cell in own.items() if key[0] == "splits"]
    low = [
        f"{reproduced.where(place)} {metric.upper()}"
        for (place, metric), word in words.items()
        if word not in REPRODUCED
    ]
    text = f"On the paper's split {len(words) - len(low)} of {len(words)} cells come up to the "
    text += f"printed ones ({counted([*words.values()])}){'; not ' + joined(low) if low else ''}. "
    text += f"Over splits it is {sum(word in REPRODUCED for word in alone)} ({counted(alone)})."
    return Verdict(by_sign([word in REPRODUCED for word in words.values()]), text)


def _runner_up(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table1")
    cells, best = _splits(table, "cgcl"), _best_baselines(table)
    numbers: Numbers = [("graph and test links", "best baseline by mean AUC over splits")]
    numbers += [(reproduced.where(cells[key].place), table.labels[best[key]]) for key in best]
    closest = [row == "maskgae" for row in best.values()]
    text = f"MaskGAE is the best baseline in {sum(closest)} of {len(closest)} places."
    return Verdict(by_sign(closest), text, numbers)


def _change(
    graphs: Sequence[str], is_small: Callable[[float], bool], most: str, reproduced: Reproduced
) -> Verdict:
    """Tell what CGCL loses from 10 % to 20 % test links."""
    cells = [_splits(reproduced.table("table1"), "cgcl", metric) for metric in METRICS]
    numbers: Numbers = [("from 10 % to 20 %", *(metric.upper() for metric in METRICS))]
    small: list[bool] = []
    for graph in graphs:
        changes = [(own[graph, 20].mean or 0.0) - (own[graph, 10].mean or 0.0) for own in cells]
        small += map(is_small, changes)
        numbers.append((reproduced.title(graph), *map(signed, changes)))
    return Verdict(by_sign(small), f"Over splits; {most} counts as such.", numbers)


def _robust_views(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table2")
    cells = {row: _splits(table, row) for row in ("cgcl", "one-equal", "none")}
    numbers: Numbers = [("AUC from 10 % to 20 %", *_VIEWS.values())]
    found: list[Difference] = []
    for graph in table.experiment.graphs:
        two, one, none = (
            [a - b for a, b in zip(own[graph, 20].values, own[graph, 10].values, strict=True)]
            for own in cells.values()
        )
        # One view hides links as well; what two have beside that is the coupling.
        found.append(paired_difference(two, one, _overlap(20)))
        numbers.append((reproduced.title(graph), *(signed(mean(own)) for own in (two, one, none))))
    tested = corrected(found)
    text = "What two views have beside one is that they are coupled, so it is two minus one that "
    return Verdict(by_test(tested), f"{text}is tested: {told(tested)}.", numbers)


def _two_views(reproduced: Reproduced) -> Verdict:
    parts: list[str] = []
    verdicts: list[Word] = []
    rows = {"one": "At equal epochs", "one-equal": "At equal optimizer steps"}
    for row, words in rows.items():
        paired = reproduced.table("table2").paired
        tested = corrected([one.difference for one in paired if one.place.row == row])
        verdicts.append(by_test(tested))
        parts.append(
            f"{words} it {verdicts[-1]}: AUC and AP of two views are ahead by "
            f"{signed(mean(one.mean for one in tested), 3)} on average; {told(tested)}"
        )
    word = verdicts[0] if len(set(verdicts)) == 1 else "holds in part"
    return Verdict(word, f"{'. '.join(parts)}.")


def _ahead(one: str, other: str, words: str, remark: str = "") -> Check:
    """Return a check of whether one row of Table II is ahead of another."""

    def look(reproduced: Reproduced) -> Verdict:
        table = reproduced.table("table2")
        first, second = _splits(table, one), _splits(table, other)
        found = {place: _difference(first[place], second[place]) for place in first}
        tests = table.experiment.test
        numbers: Numbers = [("AUC", *(f"{test} % test links" for test in tests))]
        numbers += [
            (reproduced.title(graph), *(_interval(found[graph, test]) for test in tests))
            for graph in table.experiment.graphs
        ]
        tested = corrected([*found.values()])
        return Verdict(by_test(tested), f"{remark}AUC {words}: {told(tested)}.", numbers)

    return Check(look, ("table2",), (one, other))


def _ratio_cells(reproduced: Reproduced) -> dict[str, dict[str, Cell]]:
    """Return by graph's title and row what dropping other shares of the links leads to."""
    table = reproduced.table("claims")
    rows = {row: _splits(table, row) for row in (*_RATIOS, "none", "cgcl")}
    return {
        reproduced.title(graph): {row: own[graph, test] for row, own in rows.items()}
        for graph, test in rows[_RATIOS[0]]
    }


def _dropped(row: str) -> str:
    return f"{100 - int(row.removeprefix('seen-'))} %"


def _against_each(
    reference: str, words: str, counts: int | None, reproduced: Reproduced
) -> Verdict:
    """Tell on which graphs a row differs from a dropped share.

    Args:
        reference: The row.
        words: What is subtracted from what.
        counts: The sign that a difference has to have; None if either counts.
        reproduced: All runs.
    """
    found, others = _ratio_cells(reproduced), [row for row in _RATIOS if row != reference]
    apart = [_difference(own[reference], own[row]) for own in found.values() for row in others]
    tested = corrected(apart)
    numbers: Numbers = [("AUC", *(f"{_dropped(row)} dropped" for row in others))]
    is_so: list[bool] = []
    for number, graph in enumerate(found):
        own = tested[number * len(others) : (number + 1) * len(others)]
        numbers.append((graph, *map(_interval, own)))
        is_so.append(any(sign_of(one) in ((1, -1) if counts is None else (counts,)) for one in own))
    word = by_sign(is_so) if any(is_so) else "cannot be told"
    return Verdict(word, f"AUC {words}: {told(tested)}.", numbers)


def _no_ratio_to_tune(reproduced: Reproduced) -> Verdict:
    numbers: Numbers = [("AUC", "best share dropped", "two halves minus it")]
    found: list[Spread] = []
    for graph, cells in _ratio_cells(reproduced).items():
        best = max(_RATIOS, key=lambda row: cells[row].mean or 0.0)
        found.append(_difference(cells["cgcl"], cells[best]))
        numbers.append((graph, _dropped(best), _interval(found[-1])))
    surely = [own.low is not None and own.low >= -_HARDLY for own in found]
    hardly = [own.high is not None and own.high < -_HARDLY for own in found]
    text = f"It holds where the whole interval of the difference is above -{_HARDLY}. The best "
    text += "share is picked by the very results, which is to its advantage."
    word = by_sign(surely) if any(surely) or any(hardly) else "cannot be told"
    return Verdict(word, text, numbers)


def _embedded(reproduced: Reproduced) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return what embeddings were measured by: by graph, row and name a number for each run."""
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for place, jobs in reproduced.places("claims")[1].items():
        if place.row in _VIEWS:
            own = found.setdefault(place.graph, {}).setdefault(place.row, {})
            for job in jobs:
                for name, value in reproduced.found[job.key].measured[EMBEDDINGS].items():
                    own.setdefault(name, []).append(value)
    return found


def _distinct(reproduced: Reproduced) -> Verdict:
    numbers: Numbers = [("mean cosine of two nodes, effective rank of Z", *_VIEWS.values())]
    apart: dict[str, list[Difference]] = {"one": [], "none": []}
    for graph, own in _embedded(reproduced).items():
        cosines, ranks = ({v: own[v][m] for v in _VIEWS} for m in ("mean_cosine", "effective_rank"))
        for other, found in apart.items():
            # Lower cosines and higher ranks are more distinct.
            found.append(paired_difference(cosines[other], cosines["cgcl"], _overlap(10)))
            found.append(paired_difference(ranks["cgcl"], ranks[other], _overlap(10)))
        cells = (f"{mean(cosines[views]):.2f}, {mean(ranks[views]):.0f}" for views in _VIEWS)
        numbers.append((reproduced.title(graph), *cells))
    tested = corrected([one for found in apart.values() for one in found])
    one, none = tested[: len(tested) // 2], tested[len(tested) // 2 :]
    text = "A lower cosine and a higher rank are more distinct. Against one view: "
    text += f"{told(one, 'more distinct', 'less')}. Against no augmentation: "
    return Verdict(by_test(tested), f"{text}{told(none, 'more distinct', 'less')}.", numbers)


def _invariant(reproduced: Reproduced) -> Verdict:
    head = ("scores correlate by", "after training with one view", "probabilities differ by")
    numbers: Numbers = [("", *head, "cosine of a node's two embeddings", "of two nodes'")]
    good: list[bool] = []
    gains: list[float] = []
    for graph, own in _embedded(reproduced).items():
        ours = {name: mean(values) for name, values in own["cgcl"].items()}
        alike, one_view = ours["logit_correlation"], mean(own["one"]["logit_correlation"])
        good.append(alike >= _ALIKE)
        gains.append(alike - one_view)
        others = ("probability_difference", "same_node_cosine", "other_node_cosine")
        cells = (alike, one_view, *(ours[name] for name in others))
        numbers.append((reproduced.title(graph), *(f"{value:.2f}" for value in cells)))
    text = f"From two fresh halves of the links; scores that correlate by {_ALIKE} count as the "
    text += "same. With one view nothing is coupled in training; what two add to the correlation "
    text += f"is {signed(min(gains), 3)} to {signed(max(gains), 3)}."
    return Verdict(by_sign(good), text, numbers)


def _insensitive(reproduced: Reproduced) -> Verdict:
    head = ("AUC over the grid", "all of it", "without the largest r", "runs that collapsed")
    numbers: Numbers = [head]
    good: list[bool] = []
    for name in ("fig2", "fig3"):
        records = _records(reproduced, name)
        for test in sorted({record.test for record in records}):
            own = [record for record in records if record.test == test]
            fast = max(record.settings["lr"] for record in own)
            slower = [record for record in own if record.settings["lr"] < fast]
            for metric in METRICS:
                for some in (own, slower):
                    means = _grid_means(some, metric).values()
                    good.append(max(means) - min(means) <= _SAME)
            every, few = _grid_means(own, "auc"), _grid_means(slower, "auc").values()
            width, rate = worst = min(every, key=lambda place: every[place])
            low = f"{every[worst]:.2f} (d_v {width}, r {rate})"
            lost = f"{sum(map(has_collapsed, own))} of {len(own)}"
            numbers.append(
                (
                    reproduced.where(own[0]),
                    f"{low} to {max(every.values()):.2f}",
                    f"{min(few):.2f} to {max(few):.2f}",
                    f"{lost}, {sum(map(has_collapsed, slower))} with smaller r",
                )
            )
    text = f"It holds where means of runs over the grid are at most {_SAME:.0f} apart, in AUC and "
    text += "in AP; looked at with the largest r and without. A run that broke off counts with its "
    return Verdict(by_sign(good), f"{text}best epoch.", numbers)


def _grid_means(records: Sequence[Record], metric: str) -> dict[tuple[int, float], float]:
    """Return the mean of each cell of the grid of d_v and r."""
    cells: dict[tuple[int, float], list[float]] = {}
    for record in records:
        place = (record.settings["hidden"], record.settings["lr"])
        cells.setdefault(place, []).append(_PERCENT * (record.metrics or {})[metric])
    return {place: mean(values) for place, values in cells.items()}


def _records(reproduced: Reproduced, name: str) -> list[Record]:
    return records_of(reproduced.places(name)[1], reproduced.found)


def _traces(reproduced: Reproduced) -> dict[str, Mapping[str, Any]]:
    """Return what was seen along each training, by graph and share of test links."""
    records = [own for own in _records(reproduced, "fig4") if TRACE in own.measured]
    return {reproduced.where(own): own.measured[TRACE] for own in records}


def _converges(reproduced: Reproduced) -> Verdict:
    head = ("mean loss of the first tenth", "of the last", "fall at last")
    numbers: Numbers = [("", *head, "last AUC, from the best")]
    good: list[bool] = []
    for title, trace in _traces(reproduced).items():
        auc = [_PERCENT * value for value in trace["val_auc"]]
        tenths = _tenths(trace["loss"])
        falls = all(later < earlier for earlier, later in pairwise(tenths))
        last = (tenths[-2:][0] - tenths[-1]) / (tenths[0] - min(tenths) or 1.0)
        good.append(falls and last <= _AT_REST)
        ends = (f"{tenths[0]:.2f}", f"{tenths[-1]:.2f}", f"{_PERCENT * last:.1f} %")
        numbers.append((title, *ends, signed(auc[-1] - max(auc))))
    text = "It holds where the mean loss falls from every tenth of the training to the next, and "
    text += f"at last by no more than {_PERCENT * _AT_REST:.0f} % of the whole fall. AUC on "
    text += "validation links may be past its best by then: the best epoch is kept."
    return Verdict(by_sign(good), text, numbers)


def _tenths(values: Sequence[float]) -> list[float]:
    """Return the means of ten parts of a series."""
    ends = [round(len(values) * part / 10) for part in range(11)]
    return [mean(values[start:end]) for start, end in pairwise(ends) if end > start]


def _theorem(reproduced: Reproduced) -> Verdict:
    terms = [trace[term] for trace in _traces(reproduced).values() for term in _TERMS]
    text = "Proved for r in [0, 1]; logits can lie outside (`tests/paper/test_theory.py`). Measured"
    text += f" along training: {min(map(min, terms)):.3f} to {max(map(max, terms)):.3f} between "
    bounds = f"{CONSISTENCY_LOWER_BOUND:.3f} and {CONSISTENCY_UPPER_BOUND:.3f}"
    return Verdict("holds", f"{text}the bounds {bounds}.")


def _lemma(reproduced: Reproduced) -> Verdict:
    terms = [trace[term] for trace in _traces(reproduced).values() for term in _TERMS]
    widest = max(max(values) - min(values) for values in terms)
    tight = CONSISTENCY_UPPER_BOUND - CONSISTENCY_LOWER_BOUND
    text = f"It follows from Theorem 1, which gives {tight:.3f} where the lemma has "
    text += (
        f"{LEMMA_BOUND:.3f}. Between two epochs of a run a term differs by {widest:.3f} at most."
    )
    return Verdict("holds", text)


def _information_loss(reproduced: Reproduced) -> Verdict:
    both = {title: (x["views"], x["reconstructions"]) for title, x in _traces(reproduced).items()}
    looks = [views >= own for pair in both.values() for views, own in zip(*pair, strict=True)]
    numbers: Numbers = [("C at the end", "of the views", "of the reconstructions")]
    numbers += [(title, *(f"{own[-1]:.3f}" for own in pair)) for title, pair in both.items()]
    text = f"No run tells what information is lost. The condition was met in {sum(looks)} of "
    return Verdict("not tested", f"{text}{len(looks)} looks.", numbers)


def _sufficiency(reproduced: Reproduced) -> Verdict:
    numbers: Numbers = [("the three terms are apart by", "at the first look", "at the last")]
    for title, trace in _traces(reproduced).items():
        numbers.append((title, *(f"{trace['gap'][look]:.3f}" for look in (0, -1))))
    return Verdict("not tested", "No run tells what is relevant.", numbers)


_over_splits = partial(Check, experiments=("table1",), protocol="splits")
_ON_TRACES = ("fig4",)
CHECKS: dict[str, Check] = {
    "superiority_10": _over_splits(partial(_superiority, 10, ("maskgae", "citeseer"))),
    "superiority_20": _over_splits(partial(_superiority, 20, None)),
    "margin_over_runner_up": _over_splits(_margin),
    "published_level": Check(_level, ("table1",), ("cgcl",)),
    "masked_runner_up": _over_splits(_runner_up),
    "masking_beats_plain": _ahead("one-equal", "none", "with hidden targets minus visible ones"),
    "cross_view_training": _ahead(
        "cgcl",
        "own",
        "when asked for each other minus for themselves",
        "To be better everywhere counts as central. ",
    ),
    "no_information_loss": _ahead(
        "cgcl",
        "one-equal",
        "of two views minus one view in as many steps, which draws a half for every step",
        "Two views encode every link in an epoch, two halves drawn apart three in four. ",
    ),
    "robust_on_citations": _over_splits(
        partial(_change, _CITATIONS, lambda x: x >= -_SLIGHT, f"a loss of {_SLIGHT:.0f} or less"),
        rows=("cgcl",),
    ),
    "unchanged_on_copurchases": _over_splits(
        partial(
            _change, _COPURCHASES, lambda x: abs(x) <= _HARDLY, f"a change of {_HARDLY} or less"
        ),
        rows=("cgcl",),
    ),
    "robust_by_coupled_views": Check(_robust_views, ("table2",), ("cgcl", "one-equal", "none")),
    "two_views_beat_one": Check(_two_views, ("table2",), ("cgcl", "one", "one-equal")),
    "ratio_matters": Check(
        partial(
            _against_each,
            "seen-50",
            "of dropping 50 % of the links minus that of other shares",
            None,
        ),
        ("claims",),
    ),
    "ratio_can_hurt": Check(
        partial(_against_each, "none", "without augmentation minus that of dropped shares", 1),
        ("claims",),
    ),
    "no_ratio_to_tune": Check(_no_ratio_to_tune, ("claims",)),
    "distinct_embeddings": Check(_distinct, ("claims",), tuple(_VIEWS)),
    "invariant_representations": Check(_invariant, ("claims",), tuple(_VIEWS)),
    "insensitive_to_width_and_rate": Check(_insensitive, ("fig2", "fig3")),
    "converges": Check(_converges, _ON_TRACES),
    "theorem_1": Check(_theorem, _ON_TRACES),
    "lemma_1": Check(_lemma, _ON_TRACES),
    "information_loss_condition": Check(_information_loss, _ON_TRACES),
    "sufficiency_condition": Check(_sufficiency, _ON_TRACES),
}


def verdict_of(claim: str, reproduced: Reproduced) -> Verdict:
    """Return what became of a claim, by its name in `paper.toml`.

    What no run decides, because a test does, stands there with its verdict.
    """
    if claim in CHECKS:
        return CHECKS[claim].verdict(reproduced)
    about = next(own for own in reproduced.paper["claims"] if own["id"] == claim)
    return Verdict(about.get("verdict", "not tested"), about.get("evidence", ""))


def claims_markdown(reproduced: Reproduced) -> str:
    """Return all claims under their verdicts, and how many there are of each."""
    lines: dict[Word, list[str]] = {word: [] for word in get_args(Word)}
    for claim in reproduced.paper["claims"]:
        verdict = verdict_of(claim["id"], reproduced)
        ground = verdict.evidence or f"It would take this: {_lowered(claim['checked_by'])}"
        text = f"- **{claim['claim']}** ({claim['section']}) {ground}"
        if verdict.numbers:
            # A table that belongs to an item of a list.
            head, *rows = verdict.numbers
            text += f"\n\n{indent(markdown_table(head, rows), '  ')}\n"
        lines[verdict.word].append(text)
    counts = [f"{word}: {len(own)}" for word, own in lines.items() if own]
    parts = [f"Of {sum(map(len, lines.values()))} claims, {', '.join(counts)}."]
    for word, own in lines.items():
        if own:
            parts += [f"### {word.capitalize()}", "\n".join(own).rstrip()]
    return "\n\n".join(parts)


def _lowered(sentence: str) -> str:
    """Return a sentence that goes on after a colon; names keep their capitals."""
    first = sentence.split()[0]
    return sentence if first.isupper() else sentence[0].lower() + sentence[1:]


def summary(reproduced: Reproduced, names: Sequence[str]) -> str:
    """Return what came out, a line for each question.

    Args:
        reproduced: All runs.
        names: The experiments.
    """
    missing = joined(
        [
            f"{missing:,} of {every:,} runs of `{words}`"
            for words, _, missing, every in counts_of(reproduced, names)
            if missing
        ]
    )
    level = verdict_of("published_level", reproduced).evidence
    lines = [
        f"**Does CGCL reach the printed numbers?** {level}",
        f"**Is it the best?** {_rank(reproduced)}",
        f"**Is it the second view?** {_gains(reproduced)}",
        f"**Is it stable?** {_rates(reproduced)}",
        f"**What is missing?** {missing or 'Nothing: every run that is described is there'}.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def _rank(reproduced: Reproduced) -> str:
    table = reproduced.table("table1")
    tested = [one for one in table.paired if one.difference.runs >= FEWEST_TESTED]
    if not tested:
        return "No comparison has enough splits to be tested yet."
    by_row: dict[str, list[int]] = {}
    for one, own in zip(tested, corrected([one.difference for one in tested]), strict=True):
        by_row.setdefault(table.labels[one.place.row], []).append(sign_of(own))
    rows = [f"{row} {signs.count(1)} of {len(signs)}" for row, signs in by_row.items()]
    alone = [
        reproduced.title(graph)
        for graph in table.experiment.graphs
        if {row.name for row in table.experiment.rows if row.chosen_on(graph)} == {"cgcl"}
    ]
    text = f"{standing(reproduced, tested)}. Ahead by method: {', '.join(rows)}."
    if alone:
        text += f" On {joined(alone)} only CGCL's settings were searched."
    untested = len(table.paired) - len(tested)
    rest = f" {untested} over fewer than {FEWEST_TESTED} splits are not tested." if untested else ""
    return text + rest


def _gains(reproduced: Reproduced) -> str:
    """Return by how much CGCL is ahead of two rows of Table II, over graphs and shares."""
    steps, itself = (
        [
            one.difference.mean
            for one in reproduced.table("table2").paired
            if (one.place.row, one.metric) == (row, "auc")
        ]
        for row in ("one-equal", "own")
    )
    if not steps or not itself:
        return "Not run yet."
    return (
        f"With as many optimizer steps, the AUC of two views minus that of one is "
        f"{signed(fmean(steps), 3)} points on average ({signed(min(steps))} to "
        f"{signed(max(steps))}). To be asked for each other and not for themselves is worth "
        f"{signed(min(itself))} to {signed(max(itself))}."
    )


def _rates(reproduced: Reproduced) -> str:
    """Return which runs over the grid of d_v and r collapsed."""
    runs = {own.key: own for name in ("fig2", "fig3") for own in _records(reproduced, name)}
    if not runs:
        return "Not run yet."
    rates = [record.settings["lr"] for record in runs.values() if has_collapsed(record)]
    where = [f"{rates.count(rate)} with r = {rate}" for rate in sorted({*rates})]
    text = f"{len(rates) or 'None'} of {len(runs)} runs over the grid of d_v and r collapsed"
    return f"{text}: {joined(where)}." if rates else f"{text}."
