"""Every claim of the paper with what became of it, and the page of results in a few lines."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, mean
from textwrap import indent
from typing import Any, Literal, get_args

from cgcl.experiments import tables
from cgcl.experiments.reproduction import EMBEDDINGS, TRACE
from cgcl.experiments.statistics import Difference, Spread, corrected, paired_difference
from cgcl.experiments.study import Record, family
from cgcl.experiments.tables import METRICS, Cell, Paired, markdown_table, signed
from cgcl.metrics.consistency import CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND, LEMMA_BOUND
from cgcl.wording import joined

from .page import (
    REPRODUCED,
    Place,
    Reproduced,
    cells_of,
    counted,
    counts_of,
    of_paper_grid,
    verdict_on,
)

Word = Literal[
    "holds", "holds in part", "does not hold", "cannot be told", "not run yet", "not tested"
]
Numbers = list[tuple[str, ...]]
"""A line of titles, and a line for each place."""
Claim = Mapping[str, Any]
"""What `paper.toml` says of a claim: which runs decide it, what counts, and its sentences."""


@dataclass(frozen=True)
class Verdict:
    """A word and what it rests on."""

    word: Word
    evidence: str
    numbers: Sequence[Sequence[str]] = ()
    """What is behind it, as a table: a line of titles and a line for each place."""


def by_sign(is_so: Collection[bool]) -> Word:
    """Return whether something is so everywhere, somewhere or nowhere."""
    if all(is_so):
        return "holds"
    return "holds in part" if any(is_so) else "does not hold"


def told(differences: Sequence[Difference], above: str = "above zero", below: str = "below") -> str:
    """Return how many differences are above and below zero by more than chance explains.

    Args:
        differences: With p-values that allow for their number.
        above: What it is to be above zero.
        below: What it is to be below.
    """
    signs = [own.sign for own in differences]
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
    signs = [own.sign for own in differences]
    if -1 in signs and (everywhere or 1 not in signs):
        return "does not hold"
    if 1 not in signs:
        return "cannot be told"
    return "holds" if all(sign == 1 for sign in signs) else "holds in part"


_RATIOS = ("seen-10", "seen-30", "seen-50", "seen-70", "seen-90")
_VIEWS = {"cgcl": "two views", "one": "one view", "none": "no augmentation"}
_SAME_STEPS = {
    "one-equal": "One view, which masks a half and crosses nothing",
    "masked": "Masking a tenth",
    "own": "Views asked for themselves, which hides nothing",
}
_TERMS = ("views", "reconstructions", "view_1", "view_2")
_PERCENT = 100


def _evidence(claim: Claim, **found: object) -> str:
    """Return the sentences of a claim with what was found in them."""
    return str(claim["evidence"]).format(**claim, **found)


def _difference(one: Cell, other: Cell) -> Difference:
    """Return how far a cell is ahead of another on the same splits."""
    return paired_difference(one.values, other.values, _overlap(one.place.test))


def _overlap(test: int) -> float:
    """Return the test links per training link; half as many choose the epoch."""
    share = test / _PERCENT
    return share / (1 - 1.5 * share)


def _ends(own: Spread) -> tuple[float, float]:
    """Return the interval; where there is none it lies nowhere."""
    return (math.nan, math.nan) if own.low is None or own.high is None else (own.low, own.high)


def _interval(own: Spread) -> str:
    low, high = _ends(own)
    return signed(own.mean) + ("" if math.isnan(low) else f" ({signed(low)} to {signed(high)})")


def _superiority(reproduced: Reproduced, claim: Claim) -> Verdict:
    """Tell whether CGCL is ahead of every row on every graph but one that is excepted."""
    table, excepted = reproduced.table("table1"), claim.get("excepted")
    paired, untested = _tested(
        reproduced,
        (
            one
            for one in table.paired
            if one.place.test == claim["test"]
            and one.place.row in reproduced.printed("table1")
            and [one.place.row, one.place.graph] != excepted
        ),
    )
    parts = [_standing(reproduced, paired), *untested]
    if excepted:
        where = f"{table.labels[excepted[0]]} on {reproduced.title(excepted[1])}"
        parts[0] += f" ({where} left out, as claimed)"
    parts += _reduced(reproduced)
    word = by_test([one.difference for one in paired], everywhere=True)
    return Verdict(word, f"{'. '.join(parts)}.")


def _tested(reproduced: Reproduced, paired: Iterable[Paired]) -> tuple[list[Paired], list[str]]:
    """Return comparisons over enough splits, and of whom there are others, if any."""
    every, fewest = [*paired], family().fewest_splits
    there = [one for one in every if one.difference.runs >= fewest]
    few = [one.place.row for one in every if one.difference.runs < fewest]
    labels = reproduced.table("table1").labels
    rows = joined([f"{few.count(row)} of {labels[row]}" for row in dict.fromkeys(few)])
    return there, [f"Over fewer than {fewest} splits and not tested: {rows}"] if few else []


def _standing(reproduced: Reproduced, paired: Sequence[Paired]) -> str:
    """Return how often CGCL is ahead and behind, and of whom, without a full stop."""
    signs = [one.difference.sign for one in paired]
    text = f"Over splits CGCL is ahead in {signs.count(1)} of {len(paired)} comparisons by more "
    text += f"than chance explains and behind in {signs.count(-1) or 'none'}"
    clearly = [one for one, sign in zip(paired, signs, strict=True) if sign == -1]
    below = [one for one in paired if one.difference.mean < 0 and one not in clearly]
    if clearly:
        text += f": {_rivals(reproduced, clearly)}"
    if below:
        more = " more" if clearly else ""
        text += f"; its mean is behind in {len(below)}{more}: {_rivals(reproduced, below)}"
    return text


def _rivals(reproduced: Reproduced, paired: Sequence[Paired]) -> str:
    """Return against whom and where comparisons are, and how they end."""
    found = defaultdict[str, list[str]](list)
    for one in paired:
        own = one.difference
        words = f"{one.metric.upper()} {signed(own.mean)}, lost {own.lost} of {own.runs}"
        found[_against(reproduced, one)].append(words)
    return joined([f"{place} ({'; '.join(words)})" for place, words in found.items()])


def _against(reproduced: Reproduced, one: Paired) -> str:
    return f"{reproduced.table('table1').labels[one.place.row]} on {reproduced.where(one.place)}"


def _by_column(paired: Sequence[Paired]) -> list[Paired]:
    """Return comparisons with the p of a family for each column of the table."""
    columns = defaultdict[object, list[Paired]](list)
    for one in paired:
        columns[one.place.graph, one.place.test, one.metric].append(one)
    return [
        replace(one, difference=own)
        for there in columns.values()
        for one, own in zip(there, corrected([each.difference for each in there]), strict=True)
    ]


def behind_table(reproduced: Reproduced) -> str:
    """Return where CGCL's mean is behind, with p alone and in larger and larger families."""
    tested, _ = _tested(reproduced, reproduced.table("table1").paired)
    whole = {(one.place, one.metric): one.difference for one in tested}
    rows = [
        [
            *(_against(reproduced, one), one.metric.upper(), signed(one.difference.mean)),
            f"{one.difference.lost} of {one.difference.runs}",
            tables.p_text(one.difference.p),
            tables.p_words(one.difference),
            tables.p_words(whole[one.place, one.metric]),
        ]
        for one in _by_column(tested)
        if one.difference.mean < 0
    ]
    head = ["behind", "metric", "CGCL minus it", "splits lost", "p alone", "p in its column"]
    return markdown_table([*head, "p in the table"], rows)


def _reduced(reproduced: Reproduced) -> list[str]:
    """Return which rows left things out, as a sentence without a full stop; none if none did."""
    table = reproduced.table("table1")
    capped = dict.fromkeys(table.labels[cell.place.row] for cell in table.cells if cell.caps)
    return [f"{joined([*capped])} left things out to be affordable"] if capped else []


def _margin(reproduced: Reproduced, claim: Claim) -> Verdict:
    table = reproduced.table("table1")
    best, found = (
        _best_baselines(reproduced),
        {(one.place, one.metric): one for one in table.paired},
    )
    inside: list[bool] = []
    numbers: Numbers = [("graph", "best baseline", "CGCL minus it", "printed")]
    for graph, printed in reproduced.paper["stated"]["gain_auc_10"].items():
        cell = best[graph, 10, "auc"]
        own = found[cell.place, "auc"].difference
        low, high = _ends(own)
        inside.append(low <= printed <= high)
        label = table.labels[cell.place.row]
        numbers.append((reproduced.title(graph), label, _interval(own), signed(printed)))
    return Verdict(by_sign(inside), _evidence(claim), numbers)


def _best_baselines(reproduced: Reproduced) -> dict[Place, Cell]:
    """Return the cell of the paper's baseline with the best mean AUC over splits, by place."""
    table = reproduced.table("table1")
    rows = [row for row in reproduced.printed(table.experiment.name) if row != tables.REFERENCE]
    others = [cells_of(table, row) for row in rows]
    return {
        place: max((cells[place] for cells in others), key=lambda cell: cell.mean or 0.0)
        for place in others[0]
    }


def _level(reproduced: Reproduced, _: Claim) -> Verdict:
    paper, splits = (
        cells_of(reproduced.table("table1"), "cgcl", protocol, METRICS)
        for protocol in ("paper", "splits")
    )
    words = {place: verdict_on(cell, splits.get(place)) for place, cell in paper.items()}
    alone = [verdict_on(cell, cell) for cell in splits.values()]
    low = [
        f"{reproduced.where(paper[place].place)} {paper[place].metric.upper()}"
        for place, word in words.items()
        if word not in REPRODUCED
    ]
    text = f"{of_paper_grid(reproduced)} "
    text += f"After the wider search {len(words) - len(low)} of {len(words)} cells come up to the "
    text += f"printed ones ({counted([*words.values()])}){'; not ' + joined(low) if low else ''}. "
    text += f"Over splits it is {sum(word in REPRODUCED for word in alone)} ({counted(alone)})."
    return Verdict(by_sign([word in REPRODUCED for word in words.values()]), text)


def _runner_up(reproduced: Reproduced, claim: Claim) -> Verdict:
    table = reproduced.table("table1")
    best = [cell.place for cell in _best_baselines(reproduced).values()]
    numbers: Numbers = [("graph and test links", "best baseline by mean AUC over splits")]
    numbers += [(reproduced.where(place), table.labels[place.row]) for place in best]
    closest = [place.row == "maskgae" for place in best]
    words = _evidence(claim, closest=sum(closest), places=len(closest))
    return Verdict(by_sign(closest), words, numbers)


def _change(reproduced: Reproduced, claim: Claim) -> Verdict:
    """Tell what CGCL loses from 10 % to 20 % test links."""
    cells = cells_of(reproduced.table("table1"), "cgcl", metrics=METRICS)
    means = {place: cell.mean or 0.0 for place, cell in cells.items()}
    least, most = claim["change"]
    numbers: Numbers = [("from 10 % to 20 %", *(metric.upper() for metric in METRICS))]
    small: list[bool] = []
    for graph in claim["graphs"]:
        changes = [means[graph, 20, metric] - means[graph, 10, metric] for metric in METRICS]
        small += [least <= change <= most for change in changes]
        numbers.append((reproduced.title(graph), *map(signed, changes)))
    return Verdict(by_sign(small), _evidence(claim), numbers)


def _robust_views(reproduced: Reproduced, claim: Claim) -> Verdict:
    table = reproduced.table("table2")
    cells = [cells_of(table, row) for row in claim["rows"]]
    numbers: Numbers = [("AUC from 10 % to 20 %", *_VIEWS.values())]
    found: list[Difference] = []
    for graph in table.experiment.graphs:
        pairs = [(own[graph, 20, "auc"].values, own[graph, 10, "auc"].values) for own in cells]
        changes = [[a - b for a, b in zip(*pair, strict=True)] for pair in pairs]
        # One view hides links as well; what two have beside that is the coupling.
        found.append(paired_difference(changes[0], changes[1], _overlap(20)))
        numbers.append((reproduced.title(graph), *(signed(mean(own)) for own in changes)))
    tested = corrected(found)
    return Verdict(by_test(tested), _evidence(claim, told=told(tested)), numbers)


def _two_views(reproduced: Reproduced, _: Claim) -> Verdict:
    parts: list[str] = []
    verdicts: list[Word] = []
    rows = {"one": "At equal epochs", "one-equal": "At equal optimizer steps"}
    for row, words in rows.items():
        paired = reproduced.table("table2").paired
        tested = [one.difference for one in paired if one.place.row == row]
        verdicts.append(by_test(tested))
        parts.append(
            f"{words} it {verdicts[-1]}: AUC and AP of two views are ahead by "
            f"{signed(mean(one.mean for one in tested), 3)} on average; {told(tested)}"
        )
    word = verdicts[0] if len(set(verdicts)) == 1 else "holds in part"
    return Verdict(word, f"{'. '.join(parts)}.")


def _ahead(reproduced: Reproduced, claim: Claim) -> Verdict:
    """Tell whether the first of two rows of Table II is ahead of the second."""
    table, (one, other) = reproduced.table("table2"), claim["rows"]
    first, second = (cells_of(table, row) for row in claim["rows"])
    found = {place: _difference(first[place], second[place]) for place in first}
    tested = corrected([*found.values()])
    if one == tables.REFERENCE:  # what stands in the table has the p that it has there
        tested = [
            own.difference for own in table.paired if own.place.row == other and own.metric == "auc"
        ]
    graphs, tests = table.experiment.graphs, table.experiment.test
    numbers: Numbers = [("AUC", *(f"{test} % test links" for test in tests))]
    for graph in graphs:
        cells = (_interval(found[graph, test, "auc"]) for test in tests)
        numbers.append((reproduced.title(graph), *cells))
    return Verdict(by_test(tested), _evidence(claim, told=told(tested)), numbers)


def _ratio_cells(reproduced: Reproduced) -> dict[str, dict[str, Cell]]:
    """Return by graph's title and row what dropping other shares of the links leads to."""
    rows = (*_RATIOS, "none", "cgcl")
    of = {row: cells_of(reproduced.table("claims"), row) for row in rows}
    return {
        reproduced.title(place[0]): {row: own[place] for row, own in of.items()}
        for place in of[_RATIOS[0]]
    }


def _dropped(row: str) -> str:
    return f"{100 - int(row.removeprefix('seen-'))} %"


def _against_each(reproduced: Reproduced, claim: Claim) -> Verdict:
    """Tell on which graphs a row differs from a dropped share, in a direction that counts."""
    found = _ratio_cells(reproduced)
    others = [row for row in _RATIOS if row != claim["reference"]]
    tested = corrected(
        [_difference(own[claim["reference"]], own[row]) for own in found.values() for row in others]
    )
    numbers: Numbers = [("AUC", *(f"{_dropped(row)} dropped" for row in others))]
    is_so: list[bool] = []
    for number, graph in enumerate(found):
        own = tested[number * len(others) : (number + 1) * len(others)]
        numbers.append((graph, *map(_interval, own)))
        is_so.append(any(one.sign in claim["signs"] for one in own))
    word = by_sign(is_so) if any(is_so) else "cannot be told"
    return Verdict(word, _evidence(claim, told=told(tested)), numbers)


def _no_ratio_to_tune(reproduced: Reproduced, claim: Claim) -> Verdict:
    numbers: Numbers = [("AUC", "best share dropped", "two halves minus it")]
    found: list[tuple[float, float]] = []
    for graph, cells in _ratio_cells(reproduced).items():
        best = max(_RATIOS, key=lambda row: cells[row].mean or 0.0)
        apart = _difference(cells["cgcl"], cells[best])
        found.append(_ends(apart))
        numbers.append((graph, _dropped(best), _interval(apart)))
    surely = [low >= -claim["hardly"] for low, _ in found]
    is_told = any(surely) or any(high < -claim["hardly"] for _, high in found)
    return Verdict(by_sign(surely) if is_told else "cannot be told", _evidence(claim), numbers)


def _embedded(reproduced: Reproduced) -> dict[str, dict[str, dict[str, list[float]]]]:
    """Return what embeddings were measured by: by graph, row and name a number for each run."""
    found = defaultdict[str, dict[str, dict[str, list[float]]]](dict)
    for place, jobs in reproduced.places("claims")[1].items():
        if place.row in _VIEWS:
            runs = [reproduced.found[job.key].measured[EMBEDDINGS] for job in jobs]
            own = {name: [run[name] for run in runs] for name in runs[0]}
            found[reproduced.title(place.graph)][place.row] = own
    return found


def _distinct(reproduced: Reproduced, claim: Claim) -> Verdict:
    numbers: Numbers = [("mean cosine of two nodes, effective rank of Z", *_VIEWS.values())]
    apart: dict[str, list[Difference]] = {"one": [], "none": []}
    for graph, own in _embedded(reproduced).items():
        cosines, ranks = ({v: own[v][m] for v in _VIEWS} for m in ("mean_cosine", "effective_rank"))
        for other, found in apart.items():
            # Lower cosines and higher ranks are more distinct.
            found.append(paired_difference(cosines[other], cosines["cgcl"], _overlap(10)))
            found.append(paired_difference(ranks["cgcl"], ranks[other], _overlap(10)))
        cells = (f"{mean(cosines[views]):.2f}, {mean(ranks[views]):.0f}" for views in _VIEWS)
        numbers.append((graph, *cells))
    tested = corrected([*apart["one"], *apart["none"]])
    halves = tested[: len(tested) // 2], tested[len(tested) // 2 :]
    one, none = (told(half, "more distinct", "less") for half in halves)
    return Verdict(by_test(tested), _evidence(claim, one=one, none=none), numbers)


def _invariant(reproduced: Reproduced, claim: Claim) -> Verdict:
    head = ("scores correlate by", "after training with one view", "probabilities differ by")
    numbers: Numbers = [("", *head, "cosine of a node's two embeddings", "of two nodes'")]
    both: list[tuple[float, float]] = []
    for graph, own in _embedded(reproduced).items():
        ours = {name: mean(values) for name, values in own["cgcl"].items()}
        both.append((ours["logit_correlation"], mean(own["one"]["logit_correlation"])))
        others = ("probability_difference", "same_node_cosine", "other_node_cosine")
        cells = (*both[-1], *(ours[name] for name in others))
        numbers.append((graph, *(f"{value:.2f}" for value in cells)))
    gains = [two - one for two, one in both]
    ends = {"least": signed(min(gains), 3), "most": signed(max(gains), 3)}
    word = by_sign([two >= claim["alike"] for two, _ in both])
    return Verdict(word, _evidence(claim, **ends), numbers)


def _insensitive(reproduced: Reproduced, claim: Claim) -> Verdict:
    head = ("AUC over the grid", "all of it", "without the largest r", "runs that collapsed")
    numbers: Numbers = [head]
    places = defaultdict[str, list[Record]](list)
    for record in (own for name in claim["rests_on"] for own in reproduced.records(name)):
        places[reproduced.where(record)].append(record)
    good: list[bool] = []
    for place, own in places.items():
        fast = max(record.settings["lr"] for record in own)
        slower = [record for record in own if record.settings["lr"] < fast]
        grids = [_grid_means(some, metric) for metric in METRICS for some in (own, slower)]
        good += [max(grid.values()) - min(grid.values()) <= claim["apart"] for grid in grids]
        every, few = grids[0], grids[1].values()
        width, rate = worst = min(every, key=lambda cell: every[cell])
        low = f"{every[worst]:.2f} (d_v {width}, r {rate})"
        lost, lost_slower = (sum(map(tables.has_collapsed, some)) for some in (own, slower))
        cells = (f"{low} to {max(every.values()):.2f}", f"{min(few):.2f} to {max(few):.2f}")
        ends = f"{lost} of {len(own)}, {lost_slower} with smaller r"
        numbers.append((place, *cells, ends))
    return Verdict(by_sign(good), _evidence(claim), numbers)


def _grid_means(records: Sequence[Record], metric: str) -> dict[tuple[int, float], float]:
    """Return the mean of each cell of the grid of d_v and r."""
    cells = defaultdict[tuple[int, float], list[float]](list)
    for record in records:
        place = (record.settings["hidden"], record.settings["lr"])
        cells[place].append(_PERCENT * (record.metrics or {})[metric])
    return {place: mean(values) for place, values in cells.items()}


def _traces(reproduced: Reproduced) -> dict[str, Mapping[str, Any]]:
    """Return what was seen along each training, by graph and share of test links."""
    records = [own for own in reproduced.records("fig4") if TRACE in own.measured]
    return {reproduced.where(own): own.measured[TRACE] for own in records}


def _converges(reproduced: Reproduced, claim: Claim) -> Verdict:
    head = ("mean loss of the first tenth", "of the last", "fall at last")
    numbers: Numbers = [("", *head, "last AUC, from the best")]
    good: list[bool] = []
    for title, trace in _traces(reproduced).items():
        auc = [_PERCENT * value for value in trace["val_auc"]]
        tenths = _tenths(trace["loss"])
        falls = all(later < earlier for earlier, later in pairwise(tenths))
        last = (tenths[-2:][0] - tenths[-1]) / (tenths[0] - min(tenths) or 1.0)
        # The share of its whole fall by which a loss may still fall when it is at rest.
        good.append(falls and last <= claim["at_rest"])
        ends = (f"{tenths[0]:.2f}", f"{tenths[-1]:.2f}", f"{_PERCENT * last:.1f} %")
        numbers.append((title, *ends, signed(auc[-1] - max(auc))))
    words = _evidence(claim, percent=_PERCENT * claim["at_rest"])
    return Verdict(by_sign(good), words, numbers)


def _tenths(values: Sequence[float]) -> list[float]:
    """Return the means of ten parts of a series."""
    ends = [round(len(values) * part / 10) for part in range(11)]
    return [mean(values[start:end]) for start, end in pairwise(ends) if end > start]


def _bounded(reproduced: Reproduced, claim: Claim) -> Verdict:
    """Tell what was measured beside Theorem 1 and Lemma 1, which are proved."""
    terms = [trace[term] for trace in _traces(reproduced).values() for term in _TERMS]
    lower, upper = CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND
    found = {"least": min(map(min, terms)), "most": max(map(max, terms))}
    found["widest"] = max(max(values) - min(values) for values in terms)
    bounds = {"lower": lower, "upper": upper, "tight": upper - lower, "lemma": LEMMA_BOUND}
    return Verdict("holds", _evidence(claim, **found, **bounds))


def _information_loss(reproduced: Reproduced, claim: Claim) -> Verdict:
    both = {title: (x["views"], x["reconstructions"]) for title, x in _traces(reproduced).items()}
    looks = [views >= own for pair in both.values() for views, own in zip(*pair, strict=True)]
    numbers: Numbers = [("C at the end", "of the views", "of the reconstructions")]
    numbers += [(title, *(f"{own[-1]:.3f}" for own in pair)) for title, pair in both.items()]
    return Verdict("not tested", _evidence(claim, met=sum(looks), looks=len(looks)), numbers)


def _sufficiency(reproduced: Reproduced, claim: Claim) -> Verdict:
    numbers: Numbers = [("the three terms are apart by", "at the first look", "at the last")]
    for title, trace in _traces(reproduced).items():
        numbers.append((title, *(f"{trace['gap'][look]:.3f}" for look in (0, -1))))
    return Verdict("not tested", _evidence(claim), numbers)


CHECKS: dict[str, Callable[[Reproduced, Claim], Verdict]] = {
    "superiority_10": _superiority,
    "superiority_20": _superiority,
    "margin_over_runner_up": _margin,
    "published_level": _level,
    "masked_runner_up": _runner_up,
    "masking_beats_plain": _ahead,
    "cross_view_training": _ahead,
    "no_information_loss": _ahead,
    "robust_on_citations": _change,
    "unchanged_on_copurchases": _change,
    "robust_by_coupled_views": _robust_views,
    "two_views_beat_one": _two_views,
    "ratio_matters": _against_each,
    "ratio_can_hurt": _against_each,
    "no_ratio_to_tune": _no_ratio_to_tune,
    "distinct_embeddings": _distinct,
    "invariant_representations": _invariant,
    "insensitive_to_width_and_rate": _insensitive,
    "converges": _converges,
    "theorem_1": _bounded,
    "lemma_1": _bounded,
    "information_loss_condition": _information_loss,
    "sufficiency_condition": _sufficiency,
}
"""What looks at the runs and says what becomes of a claim."""


def verdict_of(name: str, reproduced: Reproduced) -> Verdict:
    """Return what became of a claim, by its name in `paper.toml`.

    What no run decides, because a test does, stands there with its verdict. Else there is none
    before the last run that it depends on is there: a clear exception among some runs may be none
    among all, with more comparisons to allow for.
    """
    claim = next(own for own in reproduced.paper["claims"] if own["id"] == name)
    if name not in CHECKS:
        return Verdict(claim.get("verdict", "not tested"), claim.get("evidence", ""))
    protocol = claim.get("protocol")
    for experiment in claim["rests_on"]:
        # The paper's claims are about the rows that it has.
        rows = claim.get("rows") or reproduced.printed(experiment) or None
        missing, every = reproduced.missing(experiment, rows, protocol)
        if missing:
            there = f"{every - missing:,} of {every:,} runs are there"
            option = f" --protocol {protocol}" if protocol else ""
            words = f"`cgcl reproduce {experiment}{option}` decides it: {there}."
            return Verdict("not run yet", words)
    return CHECKS[name](reproduced, claim)


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


def summary(reproduced: Reproduced) -> str:
    """Return what came out, a line for each question."""
    missing = [
        f"{missing:,} of {every:,} runs of `{words}`"
        for words, _, missing, every in counts_of(reproduced)
        if missing
    ]
    rest = joined(missing) or "Nothing: every run that is described is there"
    lines = {
        "Does CGCL reach the printed numbers?": verdict_of("published_level", reproduced).evidence,
        "Is it the best?": _rank(reproduced),
        "Is it the second view?": _gains(reproduced),
        "Is it stable?": _rates(reproduced),
        "What is missing?": f"{rest}.",
    }
    return "\n".join(f"- **{question}** {answer}" for question, answer in lines.items())


def _rank(reproduced: Reproduced) -> str:
    table = reproduced.table("table1")
    tested, untested = _tested(reproduced, table.paired)
    if not tested:
        return "No comparison has enough splits to be tested yet."
    by_row = defaultdict[str, list[int]](list)
    for one in tested:
        by_row[table.labels[one.place.row]].append(one.difference.sign)
    rows = [f"{row} {signs.count(1)} of {len(signs)}" for row, signs in by_row.items()]
    alone = [
        reproduced.title(graph)
        for graph in table.experiment.graphs
        if {row.name for row in table.experiment.rows if row.chosen_on(graph)} == {"cgcl"}
    ]
    signs = [one.difference.sign for one in _by_column(tested)]
    column = f"ahead in {signs.count(1)} and behind in {signs.count(-1) or 'none'}"
    parts = [_standing(reproduced, tested)]
    parts += [f"With a family for each column of the table it would be {column}"]
    parts += [f"Ahead by method: {', '.join(rows)}", *_reduced(reproduced)]
    if alone:
        parts.append(f"On {joined(alone)} only CGCL's settings were searched")
    return f"{'. '.join([*parts, *untested])}."


def _gains(reproduced: Reproduced) -> str:
    """Return by how much CGCL is ahead of other views at as many steps, over graphs and shares."""
    found = defaultdict[str, list[Difference]](list)
    for one in reproduced.table("table2").paired:
        if one.metric == "auc":
            found[one.place.row].append(one.difference)
    if not found["one-equal"] or not found["own"]:
        return "Not run yet."
    parts = [f"{title}: {_averaged(found[row])}" for row, title in _SAME_STEPS.items()]
    widths = [(high - low) / 2 for own in found["one-equal"] for low, high in [_ends(own)]]
    wide = f"{min(widths):.2f} to {max(widths):.2f}"
    return (
        f"CGCL minus each of these in AUC, with as many optimizer steps. {'. '.join(parts)}. "
        f"Over {found['own'][0].runs} splits only large differences can be told from chance: for "
        f"one view the 95 % intervals reach {wide} to either side."
    )


def _averaged(found: Sequence[Difference]) -> str:
    """Return the mean of differences, their ends, and how many of them chance does not explain."""
    if not found:
        return "not run"
    means = [own.mean for own in found]
    ends = f"{signed(min(means))} to {signed(max(means))}"
    return f"{signed(fmean(means), 3)} on average ({ends}; {told(found, 'above zero')})"


def _rates(reproduced: Reproduced) -> str:
    """Return which runs over the grid of d_v and r collapsed."""
    runs = {own.key: own for name in ("fig2", "fig3") for own in reproduced.records(name)}
    if not runs:
        return "Not run yet."
    rates = [record.settings["lr"] for record in runs.values() if tables.has_collapsed(record)]
    where = [f"{rates.count(rate)} with r = {rate}" for rate in sorted({*rates})]
    text = f"{len(rates) or 'None'} of {len(runs)} runs over the grid of d_v and r collapsed"
    return f"{text}: {joined(where)}." if rates else f"{text}."
