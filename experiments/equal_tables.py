"""What the equal search says: who is best on each graph, every row, every difference.

All of it is written from the runs that are there; what is missing is named. CGCL is set against
every other row, as experiments/reproduce/family.toml says; other rows are not tested against each
other.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import fmean

import run
from cgcl.experiments.statistics import Difference
from cgcl.experiments.study import family, read_data
from cgcl.experiments.tables import NOTHING, behind_words, p_words, signed
from cgcl.methods.table import method_named
from cgcl.metrics.table import METRICS
from cgcl.wording import joined
from equal import ASKED, FEW, SEARCH, goal_of, reached, rule, runs_there, searched
from run import TITLES, Key, Line, mean_sd, percent, table

OURS, MASKED, FOR_TOP = "cgcl", "gcn", "cgcl-rank"
SHARES, SPLITS = ASKED["run"]["share"], len(ASKED["run"]["splits"])
# What a table shows, with its decimals.
DECIMALS = {"auc": 2, "ap": 2, "node_mrr": 1, "precision@1000": 1}
HEADS = {name: METRICS[name].title for name in DECIMALS} | {"precision@1000": "P@1,000"}
# In a sentence a name has no comma.
SHORT = {"gcn": "masked GCN", "mlp": "MLP of features"}
NOT_PRINTED, NOT_RUN = "†", "not run"
# The last twentieth of the longest training.
_LATE = 0.95
PRINTED = tuple(read_data("paper")["table1"])
# The paper's rows that wait for their search are rows, too.
ROWS = tuple(dict.fromkeys((*ASKED["methods"], *PRINTED)))

Tests = Mapping[Key, Sequence[Line]]
"""The runs that test what was chosen by graph, share and method, in order of seeds."""


def tests() -> Tests:
    """Return what is committed."""
    return runs_there("run")


def _title(method: str) -> str:
    title = SHORT.get(method) or method_named(method).title
    return title + ("" if method in PRINTED else NOT_PRINTED)


def _mean(own: Sequence[Line], metric: str = "auc") -> float:
    """Return the mean in percent; nothing is below everything."""
    return fmean(percent(own, metric)) if own else -math.inf


def differences(
    found: Tests, ours: str = OURS, metrics: Sequence[str] | None = None
) -> dict[Key, Difference]:
    """Return a row minus each other one by graph, share, method and metric, tested as one family.

    Args:
        found: The runs.
        ours: The row.
        metrics: What is compared; by default those of the family of tables.
    """
    apart: dict[Key, Difference] = {}
    for key, own in found.items():
        reference = found.get((*key[:2], ours), ())
        for metric in metrics or family().metrics:
            is_whole = not any(_is_sampled(side, metric) for side in (own, reference))
            one = run.apart(reference, own, metric) if key[2] != ours and is_whole else None
            if one is not None:
                apart[*key, metric] = one.untested(family().fewest_splits)
    return run.tested(apart)


def results_table() -> str:
    """What each row reaches with what its search has chosen, a table for each graph."""
    found, columns = tests(), [*product(SHARES, DECIMALS)]
    parts = []
    for graph in ASKED["graphs"]:
        if all(key[0] != graph for key in found):
            parts.append(f"{TITLES[graph]}: {NOT_RUN}.")
            continue
        at = {method: [found.get((graph, s, method), ()) for s, _ in columns] for method in ROWS}
        best = [
            max(_printed(own[number], name) for own in at.values())
            for number, (_, name) in enumerate(columns)
        ]
        order = sorted(ROWS, key=lambda method: -_mean(at[method][0]))
        rows = [[_title(method), *map(_cell, at[method], columns, best)] for method in order]
        names = (f"{HEADS[name]}, {share} %" for share, name in columns)
        notes = [f"Reduced: {'; '.join(reduced)}."] if (reduced := _reduced(found, graph)) else []
        parts.append(table(" | ".join([TITLES[graph], *names]), rows, *notes))
    note = (
        f"Percent, mean ± standard deviation over {SPLITS} splits, in brackets of how many where "
        f"some are missing. Bold: the highest of a column. {NOT_PRINTED} Not in the paper. "
        "\\* On a sample of the test links. A dash: not measured, it takes too long."
    )
    return "\n\n".join([*parts, note])


def _printed(own: Sequence[Line], name: str) -> float:
    """Return a mean as it is printed, where it can be the best."""
    is_whole = all(name in line["test"] for line in own) and not _is_sampled(own, name)
    return round(_mean(own, name), DECIMALS[name]) if is_whole else -math.inf


def _is_sampled(own: Sequence[Line], name: str) -> bool:
    return name not in family().metrics and any(line["sampled"] for line in own)


def _cell(own: Sequence[Line], column: tuple[int, str], best: float) -> str:
    name = column[1]
    values = percent(own, name)
    if not own:
        return NOT_RUN
    if len(values) < len(own):
        return NOTHING
    words = mean_sd(values, DECIMALS[name])
    words = f"**{words}**" if _printed(own, name) == best else words
    words += "\\*" if _is_sampled(own, name) else ""
    return words if len(own) == SPLITS else f"{words} ({len(own)})"


def _reduced(found: Tests, graph: str) -> list[str]:
    """Return which rows that were tested on a graph had less than others, and what."""
    trials, told = searched({"out": run.RESULTS}), list[str]()
    for method in ROWS:
        own = [line for share in SHARES for line in found.get((graph, share, method), ())]
        # For a few methods that is more than the package has, and their runs say what they have.
        caps = ASKED["caps"].get(method if method not in FEW["methods"] else "", {}).get(graph, {})
        parts = [f"{name} {value:,}" for name, value in caps.items()]
        if method not in FEW["methods"]:  # what these leave out, their search has chosen
            parts += dict.fromkeys(line["caps"] for line in own if line["caps"])
        count = len(trials.get((graph, method), ()))
        parts += [f"{count} of {SEARCH['trials']} trials"] if count < SEARCH["trials"] else []
        if own and parts:
            told.append(f"{_title(method)} ({', '.join(parts)})")
    return told


def differences_table() -> str:
    """CGCL minus each other row, with p-values for the whole family."""
    return _differences(tests(), OURS, family().metrics)


def top_of_list_table() -> str:
    """CGCL-rank minus each other row where the top of the list is measured, and who is ahead."""
    found, metrics = tests(), family().top_of_list
    apart = differences(found, FOR_TOP, metrics).values()
    signs = [own.sign for own in apart if _is_tested(own)]
    told = (
        f"{_title(FOR_TOP)} is ahead in {signs.count(1)} of {len(signs)} comparisons by more than "
        f"chance explains, behind in {signs.count(-1)}."
    )
    sampled = dict.fromkeys(
        f"{_title(method)} on {TITLES[graph]}"
        for (graph, _, method), own in found.items()
        if any(_is_sampled(own, metric) for metric in metrics)
    )
    told += f" Measured on a sample and not compared: {joined([*sampled])}." if sampled else ""
    return f"{_differences(found, FOR_TOP, metrics)}\n\n{told}"


def _differences(found: Tests, ours: str, metrics: Sequence[str]) -> str:
    apart = differences(found, ours, metrics)
    columns, rows = [*product(SHARES, metrics)], list[list[str]]()
    for graph, method in dict.fromkeys((key[0], key[2]) for key in apart):
        there = [apart.get((graph, share, method, metric)) for share, metric in columns]
        is_run = [(graph, share, method) in found for share, _ in columns]
        cells = [_difference(own, is_run=there) for own, there in zip(there, is_run, strict=True)]
        rows.append([TITLES[graph], _title(method), *cells])
    rows.sort(key=lambda row: [*TITLES.values()].index(row[0]))
    names = (f"{HEADS[metric]}, {share} %" for share, metric in columns)
    number = sum(map(_is_tested, apart.values()))
    note = (
        "Percentage points, paired over splits, with 95 % intervals; these and p allow for their "
        f"overlap, p for all {number} tests together, too (Holm). Bold: more than chance "
        f"explains. Where {_title(ours)} is behind, in how many splits, and p with no other test. "
        f"{NOT_PRINTED} Not in the paper."
    )
    return table(" | ".join(["graph", f"{_title(ours)} minus", *names]), rows, note)


def _difference(own: Difference | None, *, is_run: bool = True) -> str:
    if own is None:
        return NOTHING if is_run else NOT_RUN
    ends = (
        "" if own.low is None or own.high is None else f" ({signed(own.low)} to {signed(own.high)})"
    )
    words = f"{signed(own.mean)}{ends}, p {p_words(own)}"
    words = behind_words(own) if own.mean < 0 else words
    return f"**{words}**" if own.sign else words


def choices_table() -> str:
    """What each search has chosen, and what it took."""
    rows = list[list[str]]()
    for (graph, method), own in searched({"out": run.RESULTS}).items():
        best = max(own.values(), key=lambda line: (reached(line), -line["number"]))
        names, goal = ASKED["methods"][method], METRICS[goal_of(method)].title
        values = ", ".join(f"{name} {best['tried'][name]}" for name in names)
        first, most = (f"{100 * reached(line):.2f}" for line in (own[1], best))
        if len(own) == rule(method)["trials"]:
            seconds = f"{sum(line['seconds'] for line in own.values()):,.0f}"
            rows.append([TITLES[graph], _title(method), goal, first, most, values, seconds])
    head = "graph | row | by validation | authors' settings | chosen | settings | seconds"
    rows.sort(key=lambda row: [*TITLES.values()].index(row[0]))
    return table(head, rows, "Seconds on one H200, up to 16 trials side by side.")


def crossing_table() -> str:
    """CGCL minus the GCN that hides what it predicts, each as searched, with their steps."""
    found, rows = tests(), list[list[str]]()
    apart = differences(found)
    for graph, share in product(ASKED["graphs"], SHARES):
        both = [found.get((graph, share, method), ()) for method in (OURS, MASKED)]
        if all(both):
            cells = [apart.get((graph, share, MASKED, metric)) for metric in family().metrics]
            steps = [f"{fmean(map(_steps, own)):,.0f}" for own in both]
            rows.append([TITLES[graph], f"{share} %", *map(_difference, cells), *steps])
    names = [HEADS[metric] for metric in family().metrics]
    titles = (f"steps of {_title(method)}" for method in (OURS, MASKED))
    note = "Steps of the optimizer until the epoch that is kept, the mean over splits."
    return table(" | ".join(["graph", "test links", *names, *titles]), rows, note)


def _steps(line: Line) -> int:
    """Return after how many optimizer steps the best epoch of a run was there."""
    batch, links = line["settings"].get("batch"), line["links"]["train"]
    # CGCL makes a step for each of its two views.
    an_epoch = 2 if batch is None else math.ceil(links / max(1, min(batch, links // 2)))
    return an_epoch * line["best_epoch"]


def _counts(apart: Mapping[Key, Difference]) -> str:
    """Say in how many tests CGCL is ahead, behind and level."""
    signs = [own.sign for own in apart.values() if _is_tested(own)]
    return (
        f"- **Who is best where every row had the same search?** Of {len(signs)} tests so far of "
        f"AUC and AP, one family, CGCL is ahead in {signs.count(1)} and behind in "
        f"{signs.count(-1)}; in {signs.count(0)} it cannot be told apart: chance could explain the "
        f"difference, which does not say that there is none."
    )


def headline() -> str:
    """Return the highest AUC at each place, CGCL's, and how CGCL stands to every row."""
    found, rows = tests(), list[list[str]]()
    apart, waiting, below = differences(found), dict[str, None](), list[str]()
    for graph, share in product(ASKED["graphs"], SHARES):
        of = {key[2]: own for key, own in found.items() if key[:2] == (graph, share)}
        signs = _standing(of, apart, graph, share)
        if not any(signs[sign] for sign in (-1, 0, 1)):
            waiting[TITLES[graph]] = None
            below += _lower(of, apart, graph, share)
            continue
        tested = (m for m in of if m == OURS or _title(m) not in signs[None])
        best = max(tested, key=lambda method: _mean(of[method]))
        cells = [f"{_title(best)} {_mean(of[best]):.2f}", f"{_mean(of[OURS]):.2f}"]
        cells += [joined(signs[sign]) if signs[sign] else "" for sign in (-1, 0, 1)]
        rows.append([TITLES[graph], f"{share} %", *cells])
    head = "graph | test links | highest AUC | CGCL | behind | not told apart from | ahead of"
    note = f"By AUC. {NOT_PRINTED} Not in the paper. Rows over fewer than {family().fewest_splits} "
    note += f"splits are left out. {_unlike(found)}"
    note += f" Still to be tested: {joined([*waiting])}." if waiting else ""
    note += f" Means there, without a test: CGCL minus {'; '.join(below)}." if below else ""
    return f"{_counts(apart)}\n\n{table(head, rows, note)}"


def _unlike(found: Tests) -> str:
    """Say which of the tested rows had less than others, or were chosen by something else."""
    few = [own for own in FEW["methods"] if any(key[2] == own for key in found)]
    goals = [f"{_title(own)} by {METRICS[goal].title}" for own, goal in SEARCH["goals"].items()]
    words = f"Settings are chosen by AUC, of {joined(goals)}. " if goals else ""
    if few:
        titles = joined([_title(own) for own in few])
        words += f"{titles}: {FEW['trials']} of {SEARCH['trials']} trials. "
    fewer = [
        f"{_title(key[2])} {len(own)} on {TITLES[key[0]]} {key[1]} %"
        for key, own in found.items()
        if family().fewest_splits <= len(own) < SPLITS
    ]
    return f"{words}Of {SPLITS} splits: {', '.join(sorted(fewer))}." if fewer else words.strip()


def _lower(
    of: Mapping[str, Sequence[Line]], apart: Mapping[Key, Difference], graph: str, share: int
) -> list[str]:
    """Return the rows that CGCL's mean is below, over few splits, and by how much."""
    there = {method: apart.get((graph, share, method, "auc")) for method in of}
    told = [
        f"{_title(method)} {signed(own.mean)} ({own.lost} of {own.runs} splits lost)"
        for method, own in there.items()
        if own is not None and own.mean < 0
    ]
    return [f"{TITLES[graph]} {share} %: {', '.join(told)}"] if told else []


def unfinished_table() -> str:
    """In how many tested runs training ended at its longest, in its last twentieth."""
    found, rows = tests(), list[list[str]]()
    for method in (own for own in ROWS if any(key[2] == own for key in found)):
        cells = []
        for graph in ASKED["graphs"]:
            own = [line for share in SHARES for line in found.get((graph, share, method), ())]
            late = sum(line["best_epoch"] > _LATE * line["settings"]["epochs"] for line in own)
            cells.append(f"{late} of {len(own)}" if own else NOT_RUN)
        rows.append([_title(method), *cells])
    return table(" | ".join(["best epoch late", *(TITLES[own] for own in ASKED["graphs"])]), rows)


def _standing(
    of: Mapping[str, Sequence[Line]], apart: Mapping[Key, Difference], graph: str, share: int
) -> Mapping[int | None, list[str]]:
    """Return the other rows, best first, by how CGCL stands to them in AUC; None: not tested."""
    signs = defaultdict[int | None, list[str]](list)
    for method in sorted(of, key=lambda method: -_mean(of[method])):
        own = apart.get((graph, share, method, "auc"))
        if method != OURS:
            is_tested = own is not None and _is_tested(own)
            signs[own.sign if own and is_tested else None].append(_title(method))
    return signs


def summary() -> str:
    """Say who is best on each graph, by how much, and where it is level."""
    found = tests()
    apart = differences(found)
    lines = [_counts(apart)]
    for graph in ASKED["graphs"]:
        told = [_best_words(found, apart, graph, share) for share in SHARES]
        words = [own for own in told if own]
        missing = [_title(method) for method in ROWS if not _is_run(found, graph, method)]
        if words and missing:
            words.append(f"{NOT_RUN.capitalize()}: {joined(missing)}.")
        reduced = _reduced(found, graph)
        words += [f"Reduced: {'; '.join(reduced)}."] if reduced and words else []
        lines.append(f"- **{TITLES[graph]}.** {' '.join(words) or 'Still to be tested.'}")
    return "\n".join([*lines, f"\n{NOT_PRINTED} Not in the paper."])


def _is_run(found: Tests, graph: str, method: str) -> bool:
    return all(found.get((graph, share, method)) for share in SHARES)


def _is_tested(own: Difference) -> bool:
    return own.runs >= family().fewest_splits


def _best_words(found: Tests, apart: Mapping[Key, Difference], graph: str, share: int) -> str:
    """Say who has the highest AUC, by how much, and from whom CGCL cannot be told apart."""
    of = {key[2]: own for key, own in found.items() if key[:2] == (graph, share)}
    order = sorted(of, key=lambda method: -_mean(of[method]))
    if OURS not in order or len(order) < 2:
        return ""
    best, signs = order[0], _standing(of, apart, graph, share)
    words = f"{share} %: {_title(best)} has the highest AUC, {_mean(of[best]):.2f}"
    if best == OURS:
        words += f", {_mean(of[best]) - _mean(of[order[1]]):.2f} above {_title(order[1])}"
    elif (own := apart.get((graph, share, best, "auc"))) is not None:
        words += f" (CGCL {behind_words(own)})"
    hows = {-1: "is behind", 0: "is not told apart from", 1: "is ahead of"}
    hows |= {None: "is not tested against"}
    told = [f"{how} {joined(signs[sign])}" for sign, how in hows.items() if signs[sign]]
    words += f"; CGCL {joined(told)}"
    by_ap = max(of, key=lambda method: _mean(of[method], "ap"))
    if by_ap != best:
        words += f"; by AP {_title(by_ap)} is highest, {_mean(of[by_ap], 'ap'):.2f}"
    fewer = ", ".join(f"{_title(m)} {len(of[m])}" for m in order if len(of[m]) < SPLITS)
    return f"{words}.{f' Of {SPLITS} splits so far: {fewer}.' if fewer else ''}"


TABLES: dict[str, Callable[[], str]] = {
    "equal": results_table,
    "equal-differences": differences_table,
    "equal-choices": choices_table,
    "equal-crossing": crossing_table,
    "equal-top-of-list": top_of_list_table,
    "equal-headline": headline,
    "equal-unfinished": unfinished_table,
    "equal-summary": summary,
}
