"""Claims that tables decide: who is better, by how much, and what more test links cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import mean

from cgcl.compare.statistics import Difference, Spread, corrected, paired_difference
from cgcl.reproduce.cells import FEWEST_TESTED, METRICS, Cell, Metric, Paired, Table
from cgcl.reproduce.page import REPRODUCED, Reproduced, counted, verdict_on
from cgcl.reproduce.verdict import (
    Check,
    Numbers,
    Verdict,
    Word,
    by_sign,
    by_test,
    sign_of,
    told,
)
from cgcl.reproduce.words import joined, signed

__all__ = ["CHECKS", "standing"]

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


CHECKS: dict[str, Check] = {
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
