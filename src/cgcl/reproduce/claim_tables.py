"""Claims that tables decide: who is better, by how much, and what more test links cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean

from cgcl.reproduce.cells import METRICS, Cell, Metric, Paired, Table
from cgcl.reproduce.described import Protocol
from cgcl.reproduce.page import Reproduced, verdict_on
from cgcl.reproduce.verdict import Check, Verdict, by_sign, listed, open_verdict

__all__ = ["CHECKS"]

_CITATIONS = ("cora", "citeseer", "pubmed")
_COPURCHASES = ("photo", "computers")
# What may be called a slight loss, and what hardly a change, in percentage points.
_SLIGHT, _HARDLY = 1.0, 0.25
_LEVEL = 0.05
_REPRODUCED = ("above", "within 0.5", "within 2 sd over splits")
_RATIOS = ("seen-10", "seen-30", "seen-50", "seen-70", "seen-90")


def _means(
    table: Table, row: str, protocol: Protocol = "splits", metric: Metric = "auc"
) -> dict[tuple[str, int], float]:
    """Return the means of a row by graph and share of test links, where there are runs."""
    return {
        (cell.place.graph, cell.place.test): cell.mean
        for cell in table.cells
        if (cell.place.row, cell.place.protocol, cell.metric) == (row, protocol, metric)
        and cell.mean is not None
    }


def _where(table: Table, graph: str, test: int) -> str:
    return f"{table.graph_titles[graph]} {test} %"


def _superiority(test: int, excepted: tuple[str, str] | None) -> Check:
    """Return a check of whether CGCL is ahead of every row on every graph."""

    def check(reproduced: Reproduced) -> Verdict:
        table = reproduced.table("table1")
        paired = [
            one
            for one in table.paired
            if one.place.test == test and (one.place.row, one.place.graph) != excepted
        ]
        if not paired:
            return open_verdict("table1")
        behind = [one for one in paired if one.difference.mean < 0]
        surely = [one for one in behind if (one.difference.adjusted_p or 1) < _LEVEL]
        ahead = len(paired) - len(behind)
        text = f"CGCL is ahead in {ahead} of {len(paired)} comparisons over splits"
        if behind:
            text += f"; behind {listed([_against(table, one) for one in behind])}"
        if surely:
            text += f"; {len(surely)} of these by more than chance explains"
        return Verdict(by_sign([one not in behind for one in paired]), text + ".")

    return check


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
    if not found:
        return open_verdict("table1")
    parts: list[str] = []
    inside: list[bool] = []
    for graph, own in found.items():
        title = table.graph_titles[graph]
        if own.low is None or own.high is None:
            parts.append(f"{own.mean:+.2f} on {title}, a single run")
            continue
        inside.append(own.low <= stated[graph] <= own.high)
        parts.append(
            f"{own.mean:+.2f} ({own.low:+.2f} to {own.high:+.2f}) on {title}, "
            f"printed {stated[graph]:+.2f}"
        )
    return Verdict(by_sign(inside or [False]), f"CGCL minus MaskGAE over splits: {listed(parts)}.")


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
        if key[0] == "paper" and cell.mean is not None
    }
    if not words:
        return open_verdict("table1")
    good = [word in _REPRODUCED for word in words.values()]
    low = [
        f"{_where(table, graph, test)} {metric.upper()}"
        for (_, graph, test, metric), word in words.items()
        if word not in _REPRODUCED
    ]
    text = f"{sum(good)} of {len(good)} cells come up to the printed ones"
    return Verdict(by_sign(good), f"{text}{'; not ' + listed(low) if low else ''}.")


def _runner_up(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table1")
    others = [row.name for row in table.experiment.rows if row.name != "cgcl"]
    means = {row: _means(table, row) for row in others}
    places = [place for place in means["maskgae"] if all(place in means[row] for row in others)]
    if not places:
        return open_verdict("table1")
    best = {place: max(others, key=lambda row: means[row][place]) for place in places}
    parts = [f"{table.labels[row]} on {_where(table, *place)}" for place, row in best.items()]
    words = by_sign([row == "maskgae" for row in best.values()])
    return Verdict(words, f"The best baseline is {listed(parts)}.")


def _change(graphs: tuple[str, ...], is_small: Callable[[float], bool], most: str) -> Check:
    """Return a check of what CGCL loses from 10 % to 20 % test links."""

    def check(reproduced: Reproduced) -> Verdict:
        table = reproduced.table("table1")
        parts: list[str] = []
        small: list[bool] = []
        for metric in METRICS:
            found = _means(table, "cgcl", metric=metric)
            for graph in graphs:
                if (graph, 10) in found and (graph, 20) in found:
                    change = found[graph, 20] - found[graph, 10]
                    small.append(is_small(change))
                    parts.append(f"{table.graph_titles[graph]} {metric.upper()} {change:+.2f}")
        if not parts:
            return open_verdict("table1")
        return Verdict(
            by_sign(small),
            f"From 10 % to 20 % over splits: {listed(parts)}; {most} counts as such.",
        )

    return check


def _robust_views(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table2")
    rows = ("cgcl", "one-equal", "none")
    means = {row: _means(table, row) for row in rows}
    graphs = [
        graph
        for graph in table.experiment.graphs
        if all((graph, test) in means[row] for row in rows for test in (10, 20))
    ]
    if not graphs:
        return open_verdict("table2")
    change = {
        (row, graph): means[row][graph, 20] - means[row][graph, 10]
        for row in rows
        for graph in graphs
    }
    parts = [
        f"{table.graph_titles[graph]} {change['cgcl', graph]:+.2f} (one view "
        f"{change['one-equal', graph]:+.2f}, no augmentation {change['none', graph]:+.2f})"
        for graph in graphs
    ]
    smallest = [
        change["cgcl", graph] > max(change["one-equal", graph], change["none", graph])
        for graph in graphs
    ]
    return Verdict(by_sign(smallest), f"AUC from 10 % to 20 %: {listed(parts)}.")


def _two_views(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table2")
    found = {row: [one for one in table.paired if one.place.row == row] for row in _ONE}
    if not all(found.values()):
        return open_verdict("table2")
    parts = [
        f"{words}, two views are ahead in {sum(one.difference.mean > 0 for one in found[row])} of "
        f"{len(found[row])} comparisons, by {mean(one.difference.mean for one in found[row]):+.2f} "
        f"on average"
        for row, words in _ONE.items()
    ]
    every = [one.difference.mean > 0 for own in found.values() for one in own]
    return Verdict(by_sign(every), f"{'; '.join(parts)}.")


_ONE = {"one": "At equal epochs", "one-equal": "at equal optimizer steps"}


def _hiding(reproduced: Reproduced) -> Verdict:
    table = reproduced.table("table2")
    hidden, seen = _means(table, "one-equal"), _means(table, "none")
    both = [place for place in hidden if place in seen]
    if not both:
        return open_verdict("table2")
    parts = [f"{_where(table, *place)} {hidden[place] - seen[place]:+.2f}" for place in both]
    words = by_sign([hidden[place] > seen[place] for place in both])
    return Verdict(words, f"AUC with hidden targets minus visible ones: {listed(parts)}.")


def _ratio_cells(reproduced: Reproduced) -> tuple[Table, dict[str, dict[str, Cell]]]:
    """Return by graph the cells of each dropped share, of no augmentation and of CGCL."""
    table = reproduced.table("claims")
    cells: dict[str, dict[str, Cell]] = {}
    for cell in table.cells:
        if cell.metric == "auc" and cell.mean is not None:
            cells.setdefault(cell.place.graph, {})[cell.place.row] = cell
    complete = {graph: own for graph, own in cells.items() if {*_RATIOS, "none", "cgcl"} <= {*own}}
    return table, complete


def _ratio(kind: str) -> Check:
    """Return a check of what the share of dropped links decides."""

    def check(reproduced: Reproduced) -> Verdict:
        table, cells = _ratio_cells(reproduced)
        if not cells:
            return open_verdict("claims")
        parts: list[str] = []
        good: list[bool] = []
        for graph, own in cells.items():
            shares = {row: own[row].mean or 0.0 for row in _RATIOS}
            low, high = min(shares.values()), max(shares.values())
            deviation = max(own[row].sd or 0.0 for row in _RATIOS)
            none, cgcl = own["none"].mean or 0.0, own["cgcl"].mean or 0.0
            title = table.graph_titles[graph]
            if kind == "matters":
                good.append(high - low > deviation)
                parts.append(f"{title} {low:.2f} to {high:.2f} (deviation {deviation:.2f})")
            elif kind == "hurts":
                good.append(low < none)
                parts.append(f"{title} at worst {low:.2f}, without {none:.2f}")
            else:
                good.append(cgcl >= high - _HARDLY)
                parts.append(f"{title} two halves {cgcl:.2f}, best share {high:.2f}")
        return Verdict(by_sign(good), f"AUC over the shares dropped: {listed(parts)}.")

    return check


CHECKS: dict[str, Check] = {
    "superiority_10": _superiority(10, ("maskgae", "citeseer")),
    "superiority_20": _superiority(20, None),
    "margin_over_runner_up": _margin,
    "published_level": _level,
    "masked_runner_up": _runner_up,
    "masking_beats_plain": _hiding,
    "robust_on_citations": _change(
        _CITATIONS, lambda change: change >= -_SLIGHT, f"a loss of {_SLIGHT:.0f} or less"
    ),
    "unchanged_on_copurchases": _change(
        _COPURCHASES, lambda change: abs(change) <= _HARDLY, f"a change of {_HARDLY} or less"
    ),
    "robust_by_coupled_views": _robust_views,
    "two_views_beat_one": _two_views,
    "ratio_matters": _ratio("matters"),
    "ratio_can_hurt": _ratio("hurts"),
    "no_ratio_to_tune": _ratio("free"),
}
