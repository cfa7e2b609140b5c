"""From results to rows and words: a comparison as sentences, a table, Markdown, CSV, JSON."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import repeat
from typing import Any

from cgcl.experiments import PAPER_SPLIT_SEED, Plan
from cgcl.experiments.comparison import Comparison, MethodSpec, Result, Stratum
from cgcl.experiments.statistics import (
    LEVEL,
    Difference,
    Spread,
    common_difference,
    corrected,
    spread_of,
)
from cgcl.experiments.tables import NOTHING, csv_text, markdown_table, mean_words, p_words
from cgcl.methods.table import DEFAULT_METHOD, PAPER_METHOD, method_named
from cgcl.metrics.table import METRICS
from cgcl.wording import counted, joined

METRIC_NAMES = {name: metric.title for name, metric in METRICS.items()}
"""Every metric as people write it."""
WORDY_COLUMNS = ("method", "settings")
"""The columns of a table that hold words; the others hold numbers."""
_STOPPED = {
    "time limit": "the time limit ended training early",
    "collapse": "training fell back to guessing and was stopped",
    "loss is not finite": "the loss became infinite and training was stopped",
    "no better epoch": "training ended by its patience",
}
_FOR_PAGES = ("node_hits@10", "pair_ap")
_GAP = "  "
_NARROWEST = 40


@dataclass(frozen=True)
class DegreeCell:
    """A method's AUC among the pairs of one stratum; None if no run had both kinds of pairs."""

    auc: Spread | None
    links: float
    """Test links in the stratum, the mean over runs."""
    others: float
    """Unlinked test pairs in it."""


@dataclass(frozen=True)
class Row:
    """What one method reached."""

    method: str
    title: str
    source: str
    """Where its settings come from."""
    is_tuned: bool
    settings: Mapping[str, Any]
    caps: str
    """What it leaves out to stay affordable; empty for nothing."""
    runs: int
    """How many runs have a result."""
    metrics: Mapping[str, Spread]
    """By name, as fractions; empty without a result."""
    seconds: float | None
    """Mean time of a run."""
    parameters: int | None
    by_degree: tuple[DegreeCell, ...]
    failures: tuple[tuple[int, str, str], ...]
    """Run, kind of error and reason of every run that failed."""
    stopped: tuple[str, ...]
    """Why trainings ended early, a reason per run that did."""
    sampled: int | None = None
    """How few test links a run looked for among all nodes; None if all of them."""
    difference: Difference | None = None
    """To the reference, as fractions; None for the reference itself, or without common runs."""
    against: str | None = None
    """The title of the row that it is set against."""


@dataclass(frozen=True)
class Summary:
    """All that a table or a page of a comparison says."""

    graph: Mapping[str, Any]
    plan: Plan
    sizes: Mapping[str, int]
    """Links in each part of a split."""
    metric: str
    """What differences are measured in."""
    rows: tuple[Row, ...]
    strata: tuple[Stratum, ...]
    machines: tuple[str, ...]
    """Where results were computed, in words; several if the comparison moved."""
    versions: tuple[Mapping[str, str], ...]
    notes: tuple[str, ...]

    @property
    def reference(self) -> str | None:
        """The method that every other one is set against; None if it is not among them."""
        there = [row.method for row in self.rows]
        return next((name for name in (DEFAULT_METHOD, PAPER_METHOD) if name in there), None)

    @property
    def reference_title(self) -> str:
        """What people call it."""
        return method_named(self.reference).title if self.reference else ""

    @property
    def overlap(self) -> float:
        """Test links per training link if runs are splits of one graph; 0 on a single split."""
        is_resampled = self.plan.protocol == "splits"
        return self.sizes["test"] / self.sizes["train"] if is_resampled else 0.0

    @property
    def is_complete(self) -> bool:
        """Whether every method has a result in every run."""
        return all(row.runs == self.plan.runs for row in self.rows)


def summarise(
    comparison: Comparison, metric: str | None = None, notes: Sequence[str] = ()
) -> Summary:
    """Return what is known so far.

    Differences are taken over the runs in which both methods have a result, and their p-values
    corrected for the number of methods after Holm. Every method is set against CGCL-rank, or
    against CGCL where that is not there; a tuned one against the tuned reference if there is one.

    Args:
        comparison: The methods and their results.
        metric: What differences are measured in; None for node MRR if every run has it, else AUC.
        notes: Sentences to go with the table.
    """
    graph, found = comparison.graph, comparison.found()
    done = [cell for cell in comparison.cells if cell.key in found]
    by_row = [
        {cell.run: found[cell.key] for cell in done if cell.spec is spec}
        for spec in comparison.specs
    ]
    results = [result for one in by_row for result in one.values()]
    has_top = all("node_mrr" in one.test for one in results if one.test)
    machines = (f"{one.device}, {counted(one.threads, 'thread')}" for one in results)
    summary = Summary(
        graph={
            "title": graph.title,
            "nodes": graph.num_nodes,
            "links": graph.num_edges,
            "features": 0 if graph.x is None else graph.num_features,
            "fingerprint": graph.fingerprint,
        },
        plan=comparison.plan,
        sizes=comparison.sizes,
        metric=metric or ("node_mrr" if has_top else "auc"),
        rows=(),
        strata=comparison.strata,
        machines=tuple(dict.fromkeys(machines)),
        versions=tuple({str(own): own for own in map(_shared_versions, results)}.values()),
        notes=tuple(notes),
    )
    rows = map(_row, comparison.specs, by_row, repeat(summary))
    return _compared(replace(summary, rows=tuple(rows)), by_row)


def _shared_versions(result: Result) -> dict[str, str]:
    """Return the versions that the results of all methods have in common."""
    return {name: own for name, own in result.versions.items() if name != "numbers"}


def _row(spec: MethodSpec, results: Mapping[int, Result], summary: Summary) -> Row:
    good = [(one, one.test) for one in results.values() if one.test is not None]
    runs, overlap = [one for one, _ in good], summary.overlap
    # What one run has not measured, such as one from before a metric was there, has no mean.
    metrics = {
        name: spread_of([test[name] for _, test in good], overlap)
        for name, metric in METRICS.items()
        if good
        and all(name in test for _, test in good)
        and summary.sizes["test"] >= metric.least_links
    }
    failed = [(run, one.failure) for run, one in results.items() if one.failure is not None]
    return Row(
        method=spec.name,
        title=spec.title,
        source=spec.source,
        is_tuned=spec.is_tuned,
        settings=spec.settings,
        caps=spec.recipe.settings.caps,
        runs=len(runs),
        metrics=metrics,
        seconds=sum(one.seconds for one in runs) / len(runs) if runs else None,
        parameters=round(sum(one.parameters for one in runs) / len(runs)) if runs else None,
        by_degree=tuple(_degree_cell(runs, part, overlap) for part in summary.strata),
        failures=tuple((run, own["error"], own["reason"]) for run, own in failed),
        stopped=tuple(one.stopped["reason"] for one in runs if one.stopped is not None),
        sampled=min((o.test_sampled["links"] for o in runs if o.test_sampled), default=None),
    )


def _degree_cell(results: Sequence[Result], part: Stratum, overlap: float) -> DegreeCell:
    every = [cell for one in results for cell in one.by_degree or []]
    cells = [cell for cell in every if (cell["low"], cell["high"]) == (part.low, part.high)]
    values = [cell["auc"] for cell in cells if cell["auc"] is not None]
    links, others = (
        sum(cell[kind] for cell in cells) / max(len(cells), 1) for kind in ("links", "others")
    )
    return DegreeCell(spread_of(values, overlap) if values else None, links, others)


def _compared(summary: Summary, by_row: Sequence[Mapping[int, Result]]) -> Summary:
    """Return it with the differences of rows to the reference."""
    reference, metric, rows = summary.reference, summary.metric, [*summary.rows]
    ours = {row.is_tuned: place for place, row in enumerate(rows) if row.method == reference}
    values = [
        {run: one.test[metric] for run, one in own.items() if one.test and metric in one.test}
        for own in by_row
    ]
    for number, row in enumerate(summary.rows):
        place = ours.get(row.is_tuned, ours.get(False))
        if place is not None and row.method != reference:
            found = common_difference(values[number], values[place], summary.overlap)
            rows[number] = replace(row, difference=found, against=rows[place].title)
    compared = {number: row.difference for number, row in enumerate(rows) if row.difference}
    for number, found in zip(compared, corrected([*compared.values()]), strict=True):
        rows[number] = replace(rows[number], difference=found)
    return replace(summary, rows=tuple(rows))


def protocol_words(summary: Summary) -> str:
    """Say which pairs were learned from and tested on."""
    plan, sizes = summary.plan, summary.sizes
    seeds = "seed 0" if plan.runs == 1 else f"seeds 0 to {plan.runs - 1}"
    what = (
        f"{counted(plan.runs, 'random split')} of the links ({seeds}); a split's seed is also that "
        f"of the first weights."
        if plan.protocol == "splits"
        else f"One random split of the links (seed {PAPER_SPLIT_SEED}), "
        f"{counted(plan.runs, 'initialisation')} ({seeds}), as in the paper."
    )
    chosen = f", {sizes['val']:,} to choose the epoch by" if sizes["val"] else ""
    tested = " against as many unlinked pairs"
    if any("node_mrr" in row.metrics for row in summary.rows):
        tested = (
            f", among all nodes and all pairs (node MRR, node Hits@10, precision, AP of all pairs) "
            f"and{tested} (the other metrics)"
        )
    return (
        f"{what} {sizes['train']:,} links to learn from{chosen}, {sizes['test']:,} to test "
        f"on{tested}: the same for every method."
    )


def claim_words(summary: Summary) -> str:
    """Say how differences are tested and what the test can claim; empty if there is none."""
    tested = [row for row in summary.rows if row.difference and row.difference.p is not None]
    if not tested:
        return ""
    many = ""
    if len(tested) > 1:
        many = f" p-values are corrected for {len(tested)} comparisons (Holm), intervals are not."
    begin = f"Differences in {METRIC_NAMES[summary.metric]} are taken"
    if summary.plan.protocol == "splits":
        return (
            f"{begin} split by split. The t-test and all 95 % intervals allow for training links "
            f"that splits share (Nadeau and Bengio, 2003; variance factor 1/k + "
            f"{summary.sizes['test']:,}/{summary.sizes['train']:,} for k splits).{many}"
        )
    return (
        f"{begin} initialisation by initialisation, with an ordinary paired t-test.{many} It says "
        f"whether a difference could be the luck of the first weights on this one split. It says "
        f"nothing about other splits, which usually differ far more: for that, use --protocol "
        f"splits."
    )


def verdict(summary: Summary) -> str:
    """Say which methods differ from the reference by more than chance; empty if none was tested."""
    groups: dict[str, list[str]] = {"better": [], "worse": [], "open": []}
    for row in summary.rows:
        if row.difference is not None and row.difference.adjusted_p is not None:
            side = "better" if row.difference.mean > 0 else "worse"
            groups[side if row.difference.adjusted_p < LEVEL else "open"].append(row.title)
    if not any(groups.values()):
        return ""
    where = "" if summary.plan.protocol == "splits" else ", on this split"
    reference, unclear = summary.reference_title, groups.pop("open")
    beyond = [f"{joined(who)} did {how} than {reference}" for how, who in groups.items() if who]
    told = [f"{' and '.join(beyond)} by more than chance{where}."] if beyond else []
    if unclear:
        told.append(f"{joined(unclear)} cannot be told from {reference}{where}.")
    return f"By {METRIC_NAMES[summary.metric]}, {' '.join(told)}"


def footnotes(summary: Summary) -> list[str]:
    """Return what a reader of the table has to know about single rows."""
    rows, runs = summary.rows, summary.plan.runs
    notes = [f"{row.title}: {row.caps}." for row in rows if row.caps]
    for row in rows:
        if row.sampled:
            notes.append(
                f"{row.title}: node MRR and node Hits@10 on {row.sampled:,} of "
                f"{summary.sizes['test']:,} test links, drawn at random in each run, because all "
                f"of them would take too long."
            )
    for row in rows:
        for reason, number in Counter(row.stopped).items():
            often = f"{number} of {counted(row.runs, 'run')}; the best epoch counts."
            notes.append(f"{row.title}: {_STOPPED.get(reason, reason)} in {often}")
    notes += _failures(summary)
    unfinished = [row for row in rows if row.runs + len(row.failures) < runs]
    notes += [f"{own.title}: {counted(own.runs, 'run')} of {runs:,} so far." for own in unfinished]
    if any(row.is_tuned for row in rows):
        notes.append(
            "Tuned settings were chosen by the validation links of one split. Other splits may "
            "test on some of those links, which flatters tuned rows a little, all alike."
        )
    # What has no epochs is a formula, which gives the same in each run on one split.
    same = [row.title for row in rows if "epochs" not in row.settings and row.runs > 1]
    if same and summary.plan.protocol == "paper":
        notes.append(f"No spread on a single split, nothing is random: {joined(same)}.")
    return [*notes, *summary.notes]


def _failures(summary: Summary) -> list[str]:
    """Return a sentence for each reason that a method failed for."""
    notes = []
    for row in summary.rows:
        runs_by_reason: dict[str, list[int]] = {}
        for run, error, reason in row.failures:
            runs_by_reason.setdefault(f"{error}: {reason}", []).append(run + 1)
        for reason, runs in runs_by_reason.items():
            which = f"run {runs[0]}" if len(runs) == 1 else f"runs {joined(list(map(str, runs)))}"
            notes.append(f"{row.title} failed in {which}: {' '.join(reason.split())}")
    if notes:
        notes.append("What failed is tried again when the command is started again.")
    return notes


def columns_of(summary: Summary, *, every: bool = False) -> dict[str, list[str]]:
    """Return the cells of the table by column: percent, mean ± standard deviation.

    Args:
        summary: What was found.
        every: Every metric, not only those that say most; of Hits@k then the largest k that the
            test links allow.
    """
    rows, differences = summary.rows, [row.difference for row in summary.rows]
    measured = [name for name in METRIC_NAMES if any(name in row.metrics for row in rows)]
    hits = {name for name in METRIC_NAMES if name.startswith("hits@")}
    largest = max(hits.intersection(measured), key=lambda name: int(name[5:]), default=None)
    few = {largest, summary.metric} | (METRIC_NAMES.keys() - {*hits, *_FOR_PAGES})
    shown = [name for name in measured if every or name in few]
    columns = {"method": [row.title for row in rows]}
    for name in shown:
        columns[METRIC_NAMES[name]] = [spread_words(row.metrics.get(name)) for row in rows]
    if any(differences):
        columns[f"{METRIC_NAMES[summary.metric]} vs {summary.reference_title}"] = [
            NOTHING if found is None else f"{100 * found.mean:+.2f}" for found in differences
        ]
        columns["95 % interval"] = [interval_words(found) for found in differences]
        columns["p"] = [p_words(found) for found in differences]
    columns["seconds"] = [NOTHING if r.seconds is None else _seconds(r.seconds) for r in rows]
    columns["parameters"] = [NOTHING if r.parameters is None else f"{r.parameters:,}" for r in rows]
    columns["runs"] = [f"{row.runs}/{summary.plan.runs}" for row in rows]
    columns["settings"] = [row.source or NOTHING for row in rows]
    return columns


def degree_columns_of(summary: Summary) -> dict[str, list[str]]:
    """Return AUC by the smaller training degree of a pair's ends, by column."""
    rows = summary.rows
    columns = {"method": [row.title for row in rows]}
    for place, part in enumerate(summary.strata):
        columns[f"degree {part.words}"] = [spread_words(row.by_degree[place].auc) for row in rows]
    return columns


def best_rows(summary: Summary, metric: str) -> frozenset[int]:
    """Return the places of the rows whose mean looks like the best; empty if there is one row."""
    found = ((place, row.metrics.get(metric)) for place, row in enumerate(summary.rows))
    shown = {place: f"{100 * spread.mean:.2f}" for place, spread in found if spread}
    best = max(shown.values(), key=float, default="")
    return frozenset(place for place, mean in shown.items() if mean == best and len(shown) > 1)


def degree_words(summary: Summary) -> str:
    """Say which pairs each stratum holds, and how many."""
    row = next((row for row in summary.rows if row.runs), None)
    if row is None:
        return ""
    counts = "; ".join(
        f"{part.words}: {cell.links:,.0f} links, {cell.others:,.0f} unlinked pairs"
        for part, cell in zip(summary.strata, row.by_degree, strict=True)
    )
    return (
        f"AUC among test pairs whose end with fewer training links has that many of them; both "
        f"links and unlinked pairs are of the same degrees. Bounds divide the test links of the "
        f"first split into thirds. In a run on average: {counts}."
    )


def spread_words(spread: Spread | None) -> str:
    """Return fractions in percent, mean ± standard deviation.

    Example:
        >>> spread_words(Spread(2, 0.96414, 0.00711, 0.9, 1.0))
        '96.41 ± 0.71'
    """
    if spread is None:
        return NOTHING
    return mean_words(100 * spread.mean, None if spread.sd is None else 100 * spread.sd)


def interval_words(found: Spread | None) -> str:
    """Return an interval of differences in percentage points."""
    if found is None or found.low is None or found.high is None:
        return NOTHING
    return f"{100 * found.low:+.2f} to {100 * found.high:+.2f}"


def _seconds(seconds: float) -> str:
    """Return a time with about three digits."""
    digits = 2 if seconds < 10 else 1 if seconds < 100 else 0
    return f"{seconds:,.{digits}f}"


def as_table(summary: Summary, *, by_degree: bool, width: int | None = None) -> str:
    """Return the table with aligned columns, and below it what has to be known.

    Args:
        summary: What was found.
        by_degree: Also AUC by degree.
        width: Characters in a line; columns that do not fit go below. None for no limit.
    """
    blocks = _blocks(columns_of(summary), width)
    if by_degree:
        blocks += _blocks(degree_columns_of(summary), width)
    line = max(width or 100, _NARROWEST)
    texts = ["\n".join(textwrap.wrap(text, line)) for text in _texts(summary, by_degree)]
    return "\n\n".join([*blocks, *texts]) + "\n"


def as_markdown(summary: Summary, *, by_degree: bool) -> str:
    """Return the table in Markdown, the best mean of each metric in bold."""
    columns = columns_of(summary, every=True)
    for key, name in METRIC_NAMES.items():
        for place in best_rows(summary, key):
            columns[name][place] = f"**{columns[name][place]}**"
    parts: list[str] = []
    for own in (columns, *([degree_columns_of(summary)] if by_degree else [])):
        numbers = own.keys() - {*WORDY_COLUMNS}
        parts.append(markdown_table([*own], zip(*own.values(), strict=True), numbers=numbers))
    return "\n\n".join([*parts, *_texts(summary, by_degree)]) + "\n"


def as_csv(summary: Summary, *, by_degree: bool) -> str:
    """Return a row per method with every number in full, as fractions."""
    rows = [_numbers(row, summary, by_degree) for row in summary.rows]
    return csv_text([*rows[0]], ([*row.values()] for row in rows))


def as_json(summary: Summary, *, by_degree: bool) -> str:  # noqa: ARG001
    """Return all that is known; AUC by degree is always among it."""
    found = asdict(summary) | {"protocol": protocol_words(summary), "test": claim_words(summary)}
    found |= {"verdict": verdict(summary), "footnotes": footnotes(summary)}
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


WRITERS: Mapping[str, Callable[..., str]] = {
    "table": as_table,
    "markdown": as_markdown,
    "csv": as_csv,
    "json": as_json,
}
"""Who writes each format."""


def _texts(summary: Summary, by_degree: bool) -> list[str]:
    """Return the sentences below the table."""
    texts = [
        verdict(summary),
        "Percent, mean ± standard deviation over runs. " + protocol_words(summary),
        claim_words(summary),
        degree_words(summary) if by_degree else "",
        *footnotes(summary),
    ]
    return [text for text in texts if text]


def _blocks(columns: Mapping[str, Sequence[str]], width: int | None) -> list[str]:
    """Return aligned columns, in as many blocks as the width asks for; each begins alike."""
    lined: list[list[str]] = []
    for name, cells in columns.items():
        widest = max(map(len, (name, *cells)))
        aligned = str.ljust if name in WORDY_COLUMNS else str.rjust
        lined.append([aligned(cell, widest) for cell in (name, *cells)])
    first, *rest = lined
    blocks = [[first]]
    for column in rest:
        used = sum(len(one[0]) + len(_GAP) for one in blocks[-1])
        if width is not None and used + len(column[0]) > width and len(blocks[-1]) > 1:
            blocks.append([first])
        blocks[-1].append(column)
    lines = [[_GAP.join(row).rstrip() for row in zip(*block, strict=True)] for block in blocks]
    return ["\n".join(own) for own in lines]


def _numbers(row: Row, summary: Summary, by_degree: bool) -> dict[str, Any]:
    """Return a row's numbers by column; the same columns for every row."""
    about = {"method": row.method, "title": row.title, "settings": row.source, "runs": row.runs}
    numbers: dict[str, Any] = {**about}
    for key in METRIC_NAMES:
        spread = row.metrics.get(key)
        numbers |= {key: spread and spread.mean, f"{key}_sd": spread and spread.sd}
    names = {"difference": "mean", "difference_low": "low", "difference_high": "high"}
    names |= {"p": "p", "adjusted_p": "adjusted_p"}
    numbers |= {"metric": summary.metric, "against": row.against}
    numbers |= {key: getattr(row.difference, name, None) for key, name in names.items()}
    numbers |= {name: getattr(row, name) for name in ("seconds", "parameters", "caps")}
    numbers["failed"] = "; ".join(f"{error}: {reason}" for _, error, reason in row.failures)
    if by_degree:
        for part, cell in zip(summary.strata, row.by_degree, strict=True):
            numbers[f"auc, degree {part.words}"] = cell.auc and cell.auc.mean
    return numbers
