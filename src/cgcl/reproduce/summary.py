"""The page of results in a few lines, written from runs: nothing in them is typed."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from cgcl.compare.statistics import corrected
from cgcl.reproduce.cells import FEWEST_TESTED, Paired, has_collapsed
from cgcl.reproduce.claim_tables import standing
from cgcl.reproduce.claims import verdict_of
from cgcl.reproduce.page import Reproduced, counts_of
from cgcl.reproduce.records import records_of
from cgcl.reproduce.verdict import sign_of
from cgcl.reproduce.words import joined, signed

__all__ = ["summary"]


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
