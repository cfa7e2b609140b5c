"""Claims that tables decide: who is better, by how much, and what more test links cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean

from cgcl.compare.statistics import Spread, paired_difference
from cgcl.reproduce.cells import METRICS, Cell, Metric, Paired, Table
from cgcl.reproduce.page import REPRODUCED, Reproduced, verdict_on
from cgcl.reproduce.verdict import Check, Verdict, by_interval, by_sign, listed

__all__ = ["CHECKS"]

_CITATIONS = ("cora", "citeseer", "pubmed")
_COPURCHASES = ("photo", "computers")
# What may be called a slight loss, and what hardly a change, in percentage points.
_SLIGHT, _HARDLY = 1.0, 0.25
_RATIOS = ("seen-10", "seen-30", "seen-50", "seen-70", "seen-90")
_ONE = {"one": "At equal epochs", "one-equal": "at equal optimizer steps"}
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


def _difference(one: Cell, other: Cell) -> Spread:
    """Return how far a cell is ahead of another on the same splits."""
    test = one.place.test / _PERCENT
    return paired_difference(one.values, other.values, overlap=test / (1 - 1.5 * test))


def _interval(own: Spread) -> str:
    if own.low is None or own.high is None:
        return f"{own.mean:+.2f}"
    return f"{own.mean:+.2f} ({own.low:+.2f} to {own.high:+.2f})"


def _superiority(test: int, excepted: tuple[str, str] | None) -> Callable[[Reproduced], Verdict]:
    """Return a check of whether CGCL is ahead of every row on every graph."""

    def look(reproduced: Reproduced) -> Verdict:
        table = reproduced.table("table1")
        paired = [
            one
            for one in table.paired
            if one.place.test == test and (one.place.row, one.place.graph) != excepted
        ]
        surely = [one for one in paired if (one.difference.low or 0) > 0]
        behind = [one for one in paired if (one.difference.high or 0) < 0]
        text = f"Over splits CGCL is ahead in {len(surely)} of {len(paired)} comparisons by more "
        text += f"than chance explains, behind in {len(behind)}"
        if behind:
            text += f": {listed([_against(table, one) for one in behind])}"
        capped = sorted({table.labels[cell.place.row] for cell in table.cells if cell.caps})
        if capped:
            text += f". {listed(capped)} left things out to be affordable"
        return Verdict(by_interval([one.difference for one in paired]), text + ".")

    return look


def _against(table: Table, one: Paired) -> str:
    title = table.labels[one.place.row]
    graph = table.graph_titles[one.place.graph]
    return f"{title} on {graph} ({one.metric.upper()} {one.difference.mean:+.2f})"


def _margin(reproduced: Reproduced) -> Verdict:
    stated: Mapping[str, float] = reproduced.paper["stated"]["gain_auc_10"]
    table = reproduced.table("table1")
    found = {
        one.place.graph: one.difference
        for one in table.paired
        if (one.place.row, one.place.test, one.metric) == ("maskgae", 10, "auc")
        and one.place.graph in stated
    }
    inside = [
        own.low is not None and own.high is not None and own.low <= stated[graph] <= own.high
        for graph, own in found.items()
    ]
    parts = [
        f"{_interval(own)} on {table.graph_titles[graph]}, printed {stated[graph]:+.2f}"
        for graph, own in found.items()
    ]
    return Verdict(
        by_sign(inside),
        f"CGCL minus MaskGAE over splits: {listed(parts)}. It holds where the interval contains "
        f"the printed number; MaskGAE has its authors' settings.",
    )


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
    good = [word in REPRODUCED for word in words.values()]
    low = [
        f"{_where(table, graph, test)} {metric.upper()}"
        for (_, graph, test, metric), word in words.items()
        if word not in REPRODUCED
    ]
    text = f"{sum(good)} of {len(good)} cells come up to the printed ones"
    return Verdict(by_sign(good), f"{text}{'; not ' + listed(low) if low else ''}.")


def _runner_up(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table1")
    others = [row.name for row in table.experiment.rows if row.name != "cgcl"]
    cells = {row: _splits(table, row) for row in others}
    best = {
        place: max(others, key=lambda row: cells[row][place].mean or 0.0)
        for place in cells["maskgae"]
    }
    parts = [f"{table.labels[row]} on {_where(table, *place)}" for place, row in best.items()]
    words = by_sign([row == "maskgae" for row in best.values()])
    return Verdict(words, f"The best baseline by mean AUC over splits is {listed(parts)}.")


def _change(
    graphs: Sequence[str], is_small: Callable[[float], bool], most: str
) -> Callable[[Reproduced], Verdict]:
    """Return a check of what CGCL loses from 10 % to 20 % test links."""

    def look(reproduced: Reproduced) -> Verdict:
        table = reproduced.table("table1")
        parts: list[str] = []
        small: list[bool] = []
        for metric in METRICS:
            cells = _splits(table, "cgcl", metric)
            for graph in graphs:
                change = (cells[graph, 20].mean or 0.0) - (cells[graph, 10].mean or 0.0)
                small.append(is_small(change))
                parts.append(f"{table.graph_titles[graph]} {metric.upper()} {change:+.2f}")
        text = f"From 10 % to 20 % over splits: {listed(parts)}; {most} counts as such."
        return Verdict(by_sign(small), text)

    return look


def _robust_views(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table2")
    cells = {row: _splits(table, row) for row in ("cgcl", "one-equal", "none")}
    parts: list[str] = []
    better: list[bool] = []
    worse: list[bool] = []
    for graph in table.experiment.graphs:
        change = {
            row: (own[graph, 20].mean or 0.0) - (own[graph, 10].mean or 0.0)
            for row, own in cells.items()
        }
        gains = [change["cgcl"] - change[row] for row in ("one-equal", "none")]
        better.append(min(gains) > _HARDLY)
        worse.append(max(gains) < -_HARDLY)
        parts.append(
            f"{table.graph_titles[graph]} {change['cgcl']:+.2f} (one view "
            f"{change['one-equal']:+.2f}, no augmentation {change['none']:+.2f})"
        )
    text = f"AUC from 10 % to 20 %: {listed(parts)}; less than {_HARDLY} apart counts as alike."
    unclear = not any(better) and not all(worse)
    return Verdict("cannot be told" if unclear else by_sign(better), text)


def _two_views(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table2")
    found = {row: [one for one in table.paired if one.place.row == row] for row in _ONE}
    parts = [
        f"{words}, two views are ahead by {mean(one.difference.mean for one in own):+.2f} on "
        f"average, in {sum((one.difference.low or 0) > 0 for one in own)} of {len(own)} "
        f"comparisons by more than chance explains"
        for (_, own), words in zip(found.items(), _ONE.values(), strict=True)
    ]
    every = [one.difference for own in found.values() for one in own]
    return Verdict(by_interval(every), f"{'; '.join(parts)}.")


def _ahead(one: str, other: str, words: str, remark: str = "") -> Check:
    """Return a check of whether one row of Table II is ahead of another."""

    def look(reproduced: Reproduced) -> Verdict:
        table = reproduced.table("table2")
        first, second = _splits(table, one), _splits(table, other)
        found = {place: _difference(first[place], second[place]) for place in first}
        parts = [f"{_where(table, *place)} {_interval(own)}" for place, own in found.items()]
        return Verdict(by_interval([*found.values()]), f"{remark}AUC {words}: {listed(parts)}.")

    return Check(look, "table2", (one, other))


def _ratio(kind: str) -> Callable[[Reproduced], Verdict]:
    """Return a check of what the share of dropped links decides."""

    def look(reproduced: Reproduced) -> Verdict:
        table = reproduced.table("claims")
        rows = {row: _splits(table, row) for row in (*_RATIOS, "none", "cgcl")}
        parts: list[str] = []
        found: list[Spread] = []
        for graph, test in rows[_RATIOS[0]]:
            cells = {row: own[graph, test] for row, own in rows.items()}
            ordered = sorted(_RATIOS, key=lambda row: cells[row].mean or 0.0)
            worst, best = cells[ordered[0]], cells[ordered[-1]]
            one, other = {
                "matters": (best, worst),
                "hurts": (cells["none"], worst),
                "free": (cells["cgcl"], best),
            }[kind]
            found.append(_difference(one, other))
            parts.append(f"{table.graph_titles[graph]} {_interval(found[-1])}")
        what = {
            "matters": "The best dropped share minus the worst",
            "hurts": "No augmentation minus the worst dropped share",
            "free": "Two halves minus the best dropped share",
        }[kind]
        is_free = by_sign([own.mean >= -_HARDLY for own in found])
        word = is_free if kind == "free" else by_interval(found)
        return Verdict(word, f"{what}, AUC: {listed(parts)}.")

    return look


def _over_splits(
    look: Callable[[Reproduced], Verdict], rows: tuple[str, ...] | None = None
) -> Check:
    """Return a check that looks at Table I under the protocol `splits` alone."""
    return Check(look, "table1", rows, protocol="splits")


CHECKS: dict[str, Check] = {
    "superiority_10": _over_splits(_superiority(10, ("maskgae", "citeseer"))),
    "superiority_20": _over_splits(_superiority(20, None)),
    "margin_over_runner_up": _over_splits(_margin, ("cgcl", "maskgae")),
    "published_level": Check(_level, "table1", ("cgcl",)),
    "masked_runner_up": _over_splits(_runner_up),
    "masking_beats_plain": _ahead("one-equal", "none", "with hidden targets minus visible ones"),
    "cross_view_training": _ahead("cgcl", "own", "when asked for each other minus for themselves"),
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
    "ratio_matters": Check(_ratio("matters"), "claims"),
    "ratio_can_hurt": Check(_ratio("hurts"), "claims"),
    "no_ratio_to_tune": Check(_ratio("free"), "claims"),
}
