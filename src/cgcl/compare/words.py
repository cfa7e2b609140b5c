"""What a comparison says, and what it cannot claim, in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from cgcl.compare.plan import PAPER_SPLIT_SEED
from cgcl.compare.statistics import LEVEL
from cgcl.compare.summary import Row, Summary
from cgcl.metrics.table import METRICS

__all__ = ["METRIC_NAMES", "claim_words", "footnotes", "protocol_words", "verdict"]

METRIC_NAMES = {name: metric.title for name, metric in METRICS.items()}
"""Every metric as people write it."""

_STOPPED = {
    "time limit": "the time limit ended training early",
    "collapse": "training fell back to guessing and was stopped",
    "loss is not finite": "the loss became infinite and training was stopped",
}


def protocol_words(summary: Summary) -> str:
    """Say which pairs were learned from and tested on."""
    plan, sizes = summary.plan, summary.sizes
    seeds = "seed 0" if plan.runs == 1 else f"seeds 0 to {plan.runs - 1}"
    if plan.protocol == "splits":
        what = (
            f"{_count(plan.runs, 'random split')} of the links ({seeds}); a split's seed is also "
            f"that of the first weights."
        )
    else:
        what = (
            f"One random split of the links (seed {PAPER_SPLIT_SEED}), "
            f"{_count(plan.runs, 'initialisation')} ({seeds}), as in the paper."
        )
    chosen = f", {sizes['val']:,} to choose the epoch by" if sizes["val"] else ""
    tested = f"{sizes['test']:,} to test on against as many unlinked pairs"
    if any("node_mrr" in row.metrics for row in summary.rows):
        tested = (
            f"{sizes['test']:,} to test on, among all nodes and all pairs (node MRR, node Hits@10, "
            f"precision, AP of all pairs) and against as many unlinked pairs (the other metrics)"
        )
    return (
        f"{what} {sizes['train']:,} links to learn from{chosen}, {tested}: the same for every "
        f"method."
    )


def claim_words(summary: Summary) -> str:
    """Say how differences are tested and what the test can claim; empty if there is none."""
    tested = [row for row in summary.rows if row.difference and row.difference.p is not None]
    if not tested:
        return ""
    many = ""
    if len(tested) > 1:
        many = f" p-values are corrected for {len(tested)} comparisons (Holm), intervals are not."
    if summary.plan.protocol == "splits":
        return (
            f"Differences in {METRIC_NAMES[summary.metric]} are taken split by split. The t-test "
            f"and all 95 % intervals allow for training links that splits share (Nadeau and "
            f"Bengio, 2003; variance factor 1/k + {summary.sizes['test']:,}/"
            f"{summary.sizes['train']:,} for k splits).{many}"
        )
    return (
        f"Differences in {METRIC_NAMES[summary.metric]} are taken initialisation by "
        f"initialisation, with an ordinary paired t-test.{many} It says whether a difference "
        f"could be the luck of the first weights on this one split. It says nothing about other "
        f"splits, which usually differ far more: for that, use --protocol splits."
    )


def verdict(summary: Summary) -> str:
    """Say which methods differ from the reference by more than chance; empty if none was tested."""
    groups: dict[str, list[str]] = {"better": [], "worse": [], "open": []}
    for row in summary.rows:
        difference = row.difference
        if difference is None or difference.adjusted_p is None:
            continue
        side = "better" if difference.mean > 0 else "worse"
        groups[side if difference.adjusted_p < LEVEL else "open"].append(row.title)
    if not any(groups.values()):
        return ""
    where = "" if summary.plan.protocol == "splits" else ", on this split"
    reference = summary.reference_title
    beyond = [
        f"{_joined(groups[side])} did {side} than {reference}"
        for side in ("better", "worse")
        if groups[side]
    ]
    told = [f"{' and '.join(beyond)} by more than chance{where}."] if beyond else []
    if groups["open"]:
        told.append(f"{_joined(groups['open'])} cannot be told from {reference}{where}.")
    return f"By {METRIC_NAMES[summary.metric]}, {' '.join(told)}"


def footnotes(summary: Summary) -> list[str]:
    """Return what a reader of the table has to know about single rows."""
    notes = [f"{row.title}: {row.caps}." for row in summary.rows if row.caps]
    notes += [
        f"{row.title}: node MRR and node Hits@10 on {row.sampled:,} of {summary.sizes['test']:,} "
        f"test links, drawn at random in each run, because all of them would take too long."
        for row in summary.rows
        if row.sampled
    ]
    for row in summary.rows:
        notes += [
            f"{row.title}: {_STOPPED.get(reason, reason)} in {number} of "
            f"{_count(row.runs, 'run')}; the best epoch counts."
            for reason, number in Counter(row.stopped).items()
        ]
    notes += _failures(summary)
    notes += [
        f"{row.title}: {_count(row.runs, 'run')} of {summary.plan.runs:,} so far."
        for row in summary.rows
        if row.runs + len(row.failures) < summary.plan.runs
    ]
    if any(row.is_tuned for row in summary.rows):
        notes.append(
            "Tuned settings were chosen by the validation links of one split. Other splits may "
            "test on some of those links, which flatters tuned rows a little, all alike."
        )
    if summary.plan.protocol == "paper":
        same = [row.title for row in summary.rows if _is_fixed(row)]
        if same:
            notes.append(f"No spread on a single split, nothing is random: {_joined(same)}.")
    return [*notes, *summary.notes]


def _failures(summary: Summary) -> list[str]:
    """Return a sentence for each reason that a method failed for."""
    notes = []
    for row in summary.rows:
        runs_by_reason: dict[str, list[int]] = {}
        for run, error, reason in row.failures:
            runs_by_reason.setdefault(f"{error}: {reason}", []).append(run + 1)
        for reason, runs in runs_by_reason.items():
            which = f"run {runs[0]}" if len(runs) == 1 else f"runs {_joined(list(map(str, runs)))}"
            notes.append(f"{row.title} failed in {which}: {' '.join(reason.split())}")
    if notes:
        notes.append("What failed is tried again when the command is started again.")
    return notes


def _is_fixed(row: Row) -> bool:
    """Tell whether a method with several runs gave the same in each, as formulas do."""
    return "epochs" not in row.settings and row.runs > 1


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
