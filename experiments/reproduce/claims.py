"""Every claim of the paper with what became of it, and the page of results in a few lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, mean
from textwrap import indent
from typing import Literal, get_args

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

from .page import REPRODUCED, Reproduced, counted, counts_of, verdict_on

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
    experiment: str
    """What it looks at."""
    rows: tuple[str, ...] | None = None
    """The rows that it looks at; None for all."""
    and_also: str = ""
    """A second experiment that it looks at."""
    protocol: Protocol | None = None
    """The protocol that it looks at; None for all of the experiment."""

    def verdict(self, reproduced: Reproduced) -> Verdict:
        """Return the verdict; there is none before the last run that it depends on is there.

        A clear exception among some runs may be none among all, with more comparisons to allow for.
        """
        names = [self.experiment, *([self.and_also] if self.and_also else [])]
        for name in names:
            missing, every = reproduced.missing(name, self.rows, self.protocol)
            if missing:
                there = f"{every - missing:,} of {every:,} runs are there"
                option = f" --protocol {self.protocol}" if self.protocol else ""
                return Verdict(
                    "not run yet", f"`cgcl reproduce {name}{option}` decides it: {there}."
                )
        return self.look(reproduced)


def by_sign(is_so: Sequence[bool]) -> Word:
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
# What may be called a slight loss, and what hardly a change, in percentage points.
_SLIGHT, _HARDLY = 1.0, 0.25
_RATIOS = ("seen-10", "seen-30", "seen-50", "seen-70", "seen-90")
_ONE = {"one": "At equal epochs", "one-equal": "At equal optimizer steps"}
_PERCENT = 100


def _splits(table: Table, row: str, metric: Metric = "auc") -> dict[tuple[str, int], Cell]:
    """Return the cells of a row over splits, by graph and share of test links."""
    return {
        (cell.place.graph, cell.place.test): cell
        for cell in table.cells
        if (cell.place.row, cell.place.protocol, cell.metric) == (row, "splits", metric)
    }


def _where(table: Table, graph: str, test: int) -> str:
    return f"{table.graph_titles[graph]} {test} %"


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


def _superiority(test: int, excepted: tuple[str, str] | None) -> Callable[[Reproduced], Verdict]:
    """Return a check of whether CGCL is ahead of every row on every graph."""

    def look(reproduced: Reproduced) -> Verdict:
        table = reproduced.table("table1")
        paired = [
            one
            for one in table.paired
            if one.place.test == test and (one.place.row, one.place.graph) != excepted
        ]
        untested = sum(one.difference.runs < FEWEST_TESTED for one in paired)
        paired = [one for one in paired if one.difference.runs >= FEWEST_TESTED]
        tested = corrected([one.difference for one in paired])
        text = standing(table, paired)
        if excepted is not None:
            row, graph = excepted
            text += f" ({table.labels[row]} on {table.graph_titles[graph]} left out, as claimed)"
        capped = sorted({table.labels[cell.place.row] for cell in table.cells if cell.caps})
        if untested:
            text += f". {untested} over fewer than {FEWEST_TESTED} splits are not tested"
        if capped:
            text += f". {joined(capped)} left things out to be affordable"
        word = by_test(tested, everywhere=True)
        return Verdict(word, text + ".")

    return look


def standing(table: Table, paired: Sequence[Paired]) -> str:
    """Return how often CGCL is ahead and behind, and of whom, without a full stop.

    Args:
        table: Where they are from.
        paired: Comparisons; the tests allow for the number of these.
    """
    signs = [sign_of(one) for one in corrected([one.difference for one in paired])]
    text = f"Over splits CGCL is ahead in {signs.count(1)} of {len(paired)} comparisons by more "
    text += f"than chance explains and behind in {signs.count(-1) or 'none'}"
    if -1 in signs:
        clearly = [one for one, sign in zip(paired, signs, strict=True) if sign == -1]
        text += f": {_rivals(table, clearly)}"
    below = [one for one in paired if one.difference.mean < 0]
    if below:
        text += f"; its mean is behind in {len(below)}: {_rivals(table, below)}"
    return text


def _rivals(table: Table, paired: Sequence[Paired]) -> str:
    """Return against whom and where comparisons are, and how they end."""
    found: dict[str, list[str]] = {}
    for one in paired:
        where = _where(table, one.place.graph, one.place.test)
        words = f"{one.metric.upper()} {signed(one.difference.mean)}"
        found.setdefault(f"{table.labels[one.place.row]} on {where}", []).append(words)
    return joined([f"{where} ({', '.join(words)})" for where, words in found.items()])


def _margin(reproduced: Reproduced) -> Verdict:
    stated: Mapping[str, float] = reproduced.paper["stated"]["gain_auc_10"]
    table = reproduced.table("table1")
    best = _best_baselines(table)
    found = {
        one.place.graph: one
        for one in table.paired
        if (one.place.test, one.metric) == (10, "auc")
        and one.place.graph in stated
        and best[one.place.graph, 10] == one.place.row
    }
    inside: list[bool] = []
    numbers: Numbers = [("graph", "best baseline", "CGCL minus it", "printed")]
    for graph, printed in stated.items():
        own = found[graph].difference
        inside.append(
            own.low is not None and own.high is not None and own.low <= printed <= own.high
        )
        row = table.labels[best[graph, 10]]
        numbers.append((table.graph_titles[graph], row, _interval(own), signed(printed)))
    return Verdict(
        by_sign(inside),
        "AUC over splits, against the baseline with the best mean. It holds where the interval "
        "contains the printed number.",
        numbers,
    )


def _best_baselines(table: Table) -> dict[tuple[str, int], str]:
    """Return the baseline with the best mean AUC over splits, by graph and share."""
    others = [row.name for row in table.experiment.rows if row.name != "cgcl"]
    cells = {row: _splits(table, row) for row in others}
    return {
        place: max(others, key=lambda row: cells[row][place].mean or 0.0)
        for place in cells[others[0]]
    }


def _level(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table1")
    own = {
        (cell.place.protocol, cell.place.graph, cell.place.test, cell.metric): cell
        for cell in table.cells
        if cell.place.row == "cgcl"
    }
    words = {
        key: verdict_on(cell, own.get(("splits", *key[1:])))
        for key, cell in own.items()
        if key[0] == "paper"
    }
    alone = [verdict_on(cell, cell) for key, cell in own.items() if key[0] == "splits"]
    good = [word in REPRODUCED for word in words.values()]
    low = [
        f"{_where(table, graph, test)} {metric.upper()}"
        for (_, graph, test, metric), word in words.items()
        if word not in REPRODUCED
    ]
    text = f"On the paper's split {sum(good)} of {len(good)} cells come up to the printed ones "
    text += f"({counted([*words.values()])}){'; not ' + joined(low) if low else ''}. Over splits "
    text += f"it is {sum(word in REPRODUCED for word in alone)} ({counted(alone)})."
    return Verdict(by_sign(good), text)


def _runner_up(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table1")
    best = _best_baselines(table)
    numbers: Numbers = [("graph and test links", "best baseline by mean AUC over splits")]
    numbers += [(_where(table, *place), table.labels[row]) for place, row in best.items()]
    closest = [row == "maskgae" for row in best.values()]
    text = f"MaskGAE is the best baseline in {sum(closest)} of {len(closest)} places."
    return Verdict(by_sign(closest), text, numbers)


def _change(
    graphs: Sequence[str], is_small: Callable[[float], bool], most: str
) -> Callable[[Reproduced], Verdict]:
    """Return a check of what CGCL loses from 10 % to 20 % test links."""

    def look(reproduced: Reproduced) -> Verdict:
        table = reproduced.table("table1")
        numbers: Numbers = [("from 10 % to 20 %", *(metric.upper() for metric in METRICS))]
        small: list[bool] = []
        cells = {metric: _splits(table, "cgcl", metric) for metric in METRICS}
        for graph in graphs:
            changes = [
                (own[graph, 20].mean or 0.0) - (own[graph, 10].mean or 0.0)
                for own in cells.values()
            ]
            small += map(is_small, changes)
            numbers.append((table.graph_titles[graph], *map(signed, changes)))
        return Verdict(by_sign(small), f"Over splits; {most} counts as such.", numbers)

    return look


def _robust_views(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table2")
    cells = {row: _splits(table, row) for row in ("cgcl", "one-equal", "none")}
    numbers: Numbers = [("AUC from 10 % to 20 %", "two views", "one view", "no augmentation")]
    found: list[Difference] = []
    for graph in table.experiment.graphs:
        changes = {
            row: [
                few - many
                for few, many in zip(own[graph, 20].values, own[graph, 10].values, strict=True)
            ]
            for row, own in cells.items()
        }
        # One view hides links as well; what two have beside that is the coupling.
        found.append(paired_difference(changes["cgcl"], changes["one-equal"], _overlap(20)))
        means = [signed(mean(changes[row])) for row in cells]
        numbers.append((table.graph_titles[graph], *means))
    tested = corrected(found)
    text = "What two views have beside one is that they are coupled, so it is two minus one that "
    text += f"is tested: {told(tested)}."
    return Verdict(by_test(tested), text, numbers)


def _two_views(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table2")
    found = {row: [one for one in table.paired if one.place.row == row] for row in _ONE}
    parts: list[str] = []
    verdicts: list[Word] = []
    for (_, own), words in zip(found.items(), _ONE.values(), strict=True):
        tested = corrected([one.difference for one in own])
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
        for graph in table.experiment.graphs:
            own = [_interval(found[graph, test]) for test in tests]
            numbers.append((table.graph_titles[graph], *own))
        tested = corrected([*found.values()])
        text = f"{remark}AUC {words}: {told(tested)}."
        return Verdict(by_test(tested), text, numbers)

    return Check(look, "table2", (one, other))


def _ratio_cells(reproduced: Reproduced) -> dict[str, dict[str, Cell]]:
    """Return by graph's title and row what dropping other shares of the links leads to."""
    table = reproduced.table("claims")
    rows = {row: _splits(table, row) for row in (*_RATIOS, "none", "cgcl")}
    return {
        table.graph_titles[graph]: {row: own[graph, test] for row, own in rows.items()}
        for graph, test in rows[_RATIOS[0]]
    }


def _against_each(
    found: Mapping[str, Mapping[str, Cell]], reference: str
) -> tuple[dict[str, list[Difference]], Numbers]:
    """Return by graph how far a row is ahead of each dropped share, and that as a table."""
    others = [row for row in _RATIOS if row != reference]
    pairs = [(graph, row) for graph in found for row in others]
    differences = corrected(
        [_difference(found[graph][reference], found[graph][row]) for graph, row in pairs]
    )
    by_graph: dict[str, list[Difference]] = {}
    for (graph, _), own in zip(pairs, differences, strict=True):
        by_graph.setdefault(graph, []).append(own)
    head = [f"{100 - int(row.removeprefix('seen-'))} % dropped" for row in others]
    rows = [(graph, *map(_interval, own)) for graph, own in by_graph.items()]
    return by_graph, [("AUC", *head), *rows]


def _ratio_matters(reproduced: Reproduced) -> Verdict:
    found, numbers = _against_each(_ratio_cells(reproduced), "seen-50")
    differs = [any(sign_of(one) for one in own) for own in found.values()]
    text = f"AUC of dropping 50 % of the links minus that of other shares: {_told(found)}."
    return Verdict(by_sign(differs) if any(differs) else "cannot be told", text, numbers)


def _ratio_can_hurt(reproduced: Reproduced) -> Verdict:
    found, numbers = _against_each(_ratio_cells(reproduced), "none")
    hurts = [any(sign_of(one) == 1 for one in own) for own in found.values()]
    text = f"AUC without augmentation minus that of dropped shares: {_told(found)}."
    return Verdict(by_sign(hurts) if any(hurts) else "cannot be told", text, numbers)


def _told(found: Mapping[str, Sequence[Difference]]) -> str:
    return told([one for own in found.values() for one in own])


def _no_ratio_to_tune(reproduced: Reproduced) -> Verdict:
    numbers: Numbers = [("AUC", "best share dropped", "two halves minus it")]
    found: list[Spread] = []
    for graph, cells in _ratio_cells(reproduced).items():
        best = max(_RATIOS, key=lambda row: cells[row].mean or 0.0)
        found.append(_difference(cells["cgcl"], cells[best]))
        dropped = 100 - int(best.removeprefix("seen-"))
        numbers.append((graph, f"{dropped} %", _interval(found[-1])))
    surely = [own.low is not None and own.low >= -_HARDLY for own in found]
    hardly = [own.high is not None and own.high < -_HARDLY for own in found]
    text = f"It holds where the whole interval of the difference is above -{_HARDLY}. The best "
    text += "share is picked by the very results, which is to its advantage."
    word = by_sign(surely) if any(surely) or any(hardly) else "cannot be told"
    return Verdict(word, text, numbers)


def _over_splits(
    look: Callable[[Reproduced], Verdict],
    rows: tuple[str, ...] | None = None,
) -> Check:
    """Return a check that looks at Table I under the protocol `splits` alone."""
    return Check(look, "table1", rows, protocol="splits")


_TABLE_CHECKS: dict[str, Check] = {
    "superiority_10": _over_splits(_superiority(10, ("maskgae", "citeseer"))),
    "superiority_20": _over_splits(_superiority(20, None)),
    "margin_over_runner_up": _over_splits(_margin),
    "published_level": Check(_level, "table1", ("cgcl",)),
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
        _change(_CITATIONS, lambda change: change >= -_SLIGHT, f"a loss of {_SLIGHT:.0f} or less"),
        ("cgcl",),
    ),
    "unchanged_on_copurchases": _over_splits(
        _change(
            _COPURCHASES, lambda change: abs(change) <= _HARDLY, f"a change of {_HARDLY} or less"
        ),
        ("cgcl",),
    ),
    "robust_by_coupled_views": Check(_robust_views, "table2", ("cgcl", "one-equal", "none")),
    "two_views_beat_one": Check(_two_views, "table2", ("cgcl", "one", "one-equal")),
    "ratio_matters": Check(_ratio_matters, "claims"),
    "ratio_can_hurt": Check(_ratio_can_hurt, "claims"),
    "no_ratio_to_tune": Check(_no_ratio_to_tune, "claims"),
}


_VIEWS = {"cgcl": "two views", "one": "one view", "none": "no augmentation"}
_TERMS = ("views", "reconstructions", "view_1", "view_2")
# In percentage points: what may be called about the same.
_SAME = 1.0
# The share of its whole fall by which a loss may still fall when it is at rest.
_AT_REST = 0.05
_ALIKE = 0.9
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


_MEASURE_CHECKS: dict[str, Check] = {
    "distinct_embeddings": Check(_distinct, "claims", tuple(_VIEWS)),
    "invariant_representations": Check(_invariant, "claims", tuple(_VIEWS)),
    "insensitive_to_width_and_rate": Check(_insensitive, "fig2", and_also="fig3"),
    "converges": Check(_converges, "fig4"),
    "theorem_1": Check(_theorem, "fig4"),
    "lemma_1": Check(_lemma, "fig4"),
    "information_loss_condition": Check(_information_loss, "fig4"),
    "sufficiency_condition": Check(_sufficiency, "fig4"),
}


_UNTESTED = Verdict("not tested", "")
# What no run decides, because a test does.
_BY_TEST = {
    "views_complementary": Verdict(
        "holds",
        "By construction, in every reading: `tests/model/test_views.py`. With `disjoint` no link "
        "is in both, with `shared` half of them are.",
    ),
    "loss_bounded": Verdict(
        "does not hold",
        "With sigmoids as targets, the letter of Eq. 8, the loss is above the interval that "
        "Theorem 1 gives -C whatever the logits are, and has no upper bound: "
        "`tests/paper/test_theory.py`.",
    ),
    "data_processing": Verdict(
        "does not hold", "A counterexample is a test: `tests/paper/test_theory.py`."
    ),
}
CHECKS: dict[str, Check] = {**_TABLE_CHECKS, **_MEASURE_CHECKS}


def verdict_of(claim: str, reproduced: Reproduced) -> Verdict:
    """Return what became of a claim, by its name in `paper.toml`."""
    if claim in CHECKS:
        return CHECKS[claim].verdict(reproduced)
    return _BY_TEST.get(claim, _UNTESTED)


def claims_markdown(reproduced: Reproduced) -> str:
    """Return all claims under their verdicts, and how many there are of each."""
    lines: dict[Word, list[str]] = {word: [] for word in get_args(Word)}
    for claim in reproduced.paper["claims"]:
        verdict = verdict_of(claim["id"], reproduced)
        ground = verdict.evidence or f"It would take this: {_lowered(claim['checked_by'])}"
        text = f"- **{claim['claim']}** ({claim['section']}) {ground}"
        lines[verdict.word].append(text + _table(verdict.numbers))
    counts = [f"{word}: {len(own)}" for word, own in lines.items() if own]
    parts = [f"Of {sum(map(len, lines.values()))} claims, {', '.join(counts)}."]
    for word, own in lines.items():
        if own:
            parts += [f"### {word.capitalize()}", "\n".join(own).rstrip()]
    return "\n\n".join(parts)


def _table(numbers: Sequence[Sequence[str]]) -> str:
    """Return numbers as a table that belongs to an item of a list."""
    if not numbers:
        return ""
    head, *rows = numbers
    return f"\n\n{indent(markdown_table(head, rows), '  ')}\n"


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
    level = verdict_of("published_level", reproduced).evidence
    lines = [
        f"**Does CGCL reach the printed numbers?** {level}",
        f"**Is it the best?** {_rank(reproduced)}",
        f"**Is it the second view?** {_views(reproduced)}",
        f"**Is it stable?** {_rates(reproduced)}",
        f"**What is missing?** {_missing(reproduced, names)}",
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
    untested = len(table.paired) - len(tested)
    rest = f" {untested} over fewer than {FEWEST_TESTED} splits are not tested." if untested else ""
    alone = [
        table.graph_titles[graph]
        for graph in table.experiment.graphs
        if {row.name for row in table.experiment.rows if row.chosen_on(graph)} == {"cgcl"}
    ]
    searched = f" On {joined(alone)} only CGCL's settings were searched." if alone else ""
    return f"{standing(table, tested)}. Ahead by method: {', '.join(rows)}.{searched}{rest}"


def _views(reproduced: Reproduced) -> str:
    steps, itself = (_gains(reproduced, row) for row in ("one-equal", "own"))
    if not steps or not itself:
        return "Not run yet."
    return (
        f"With as many optimizer steps, the AUC of two views minus that of one is "
        f"{signed(fmean(steps), 3)} points on average ({signed(min(steps))} to "
        f"{signed(max(steps))}). To be asked for each other and not for themselves is worth "
        f"{signed(min(itself))} to {signed(max(itself))}."
    )


def _gains(reproduced: Reproduced, row: str) -> list[float]:
    """Return by how much CGCL is ahead of a row of Table II, on each graph and share."""
    paired: Sequence[Paired] = reproduced.table("table2").paired
    return [one.difference.mean for one in paired if (one.place.row, one.metric) == (row, "auc")]


def _rates(reproduced: Reproduced) -> str:
    runs = {
        record.key: record
        for name in ("fig2", "fig3")
        for record in records_of(reproduced.places(name)[1], reproduced.found)
    }
    if not runs:
        return "Not run yet."
    rates = [record.settings["lr"] for record in runs.values() if has_collapsed(record)]
    if not rates:
        return f"None of {len(runs)} runs over the grid of d_v and r collapsed."
    where = [f"{rates.count(rate)} with r = {rate}" for rate in sorted({*rates})]
    return (
        f"{len(rates)} of {len(runs)} runs over the grid of d_v and r collapsed: {joined(where)}."
    )


def _missing(reproduced: Reproduced, names: Sequence[str]) -> str:
    parts = [
        f"{missing:,} of {every:,} runs of `{words}`"
        for words, _, missing, every in counts_of(reproduced, names)
        if missing
    ]
    return f"{joined(parts)}." if parts else "Nothing: every run that is described is there."
