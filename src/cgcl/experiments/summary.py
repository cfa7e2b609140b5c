"""From results to rows: mean and spread of each method, and its difference to one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from cgcl.experiments.comparison import Comparison, MethodSpec, Result, Strata, Stratum
from cgcl.experiments.plan import Metric, Plan
from cgcl.experiments.statistics import Difference, Spread, corrected, paired_difference, spread_of
from cgcl.methods.table import DEFAULT_METHOD, PAPER_METHOD, method_named
from cgcl.metrics.table import METRICS


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
    difference: Difference | None
    """To the reference, as fractions; None for the reference itself, or without common runs."""
    against: str | None
    """The title of the row that it is set against."""
    by_degree: tuple[DegreeCell, ...]
    failures: tuple[tuple[int, str, str], ...]
    """Run, kind of error and reason of every run that failed."""
    stopped: tuple[str, ...]
    """Why trainings ended early, a reason per run that did."""
    sampled: int | None = None
    """How few test links a run looked for among all nodes; None if all of them."""


@dataclass(frozen=True)
class Summary:
    """All that a table or a page of a comparison says."""

    graph: Mapping[str, Any]
    plan: Plan
    sizes: Mapping[str, int]
    """Links in each part of a split."""
    metric: Metric
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
        return _reference([row.method for row in self.rows])

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

    def to_json(self) -> dict[str, Any]:
        """Return all of it as JSON can hold it."""
        return asdict(self)


def summarise(
    comparison: Comparison, metric: Metric | None = None, notes: Sequence[str] = ()
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
    plan, graph = comparison.plan, comparison.graph
    found = comparison.found()
    by_row = [
        {
            cell.run: found[cell.key]
            for cell in comparison.cells
            if cell.spec is spec and cell.key in found
        }
        for spec in comparison.specs
    ]
    results = [result for one in by_row for result in one.values()]
    summary = Summary(
        graph={
            "title": graph.title,
            "nodes": graph.num_nodes,
            "links": graph.num_edges,
            "features": 0 if graph.x is None else graph.num_features,
            "fingerprint": graph.fingerprint,
        },
        plan=plan,
        sizes=comparison.sizes,
        metric=metric or _usual_metric(results),
        rows=(),
        strata=comparison.strata.parts,
        machines=tuple(
            dict.fromkeys(
                f"{one.device}, {one.threads} thread{'' if one.threads == 1 else 's'}"
                for one in results
            )
        ),
        versions=tuple({str(one.versions): one.versions for one in results}.values()),
        notes=tuple(notes),
    )
    rows = [
        _row(spec, one, summary, comparison.strata)
        for spec, one in zip(comparison.specs, by_row, strict=True)
    ]
    return replace(summary, rows=_compared(rows, comparison.specs, by_row, summary))


def _reference(methods: Sequence[str]) -> str | None:
    return next((name for name in (DEFAULT_METHOD, PAPER_METHOD) if name in methods), None)


def _usual_metric(results: Sequence[Result]) -> Metric:
    tests = [one.test for one in results if one.test is not None]
    return "node_mrr" if all("node_mrr" in test for test in tests) else "auc"


def _row(spec: MethodSpec, results: Mapping[int, Result], summary: Summary, strata: Strata) -> Row:
    good = [one for one in results.values() if one.test is not None]
    tests = [one.test for one in good if one.test is not None]
    # What one run has not measured, such as one from before a metric was there, has no mean.
    names = [
        name
        for name, metric in METRICS.items()
        if tests
        and all(name in test for test in tests)
        and summary.sizes["test"] >= metric.least_links
    ]
    return Row(
        method=spec.name,
        title=spec.title,
        source=spec.source,
        is_tuned=spec.is_tuned,
        settings=spec.settings,
        caps=spec.recipe.settings.caps,
        runs=len(good),
        metrics={
            name: spread_of([test[name] for test in tests], summary.overlap) for name in names
        },
        seconds=sum(one.seconds for one in good) / len(good) if good else None,
        parameters=round(sum(one.parameters for one in good) / len(good)) if good else None,
        difference=None,
        against=None,
        by_degree=tuple(_degree_cell(good, part, summary.overlap) for part in strata.parts),
        failures=tuple(
            (run, one.failure["error"], one.failure["reason"])
            for run, one in results.items()
            if one.failure is not None
        ),
        stopped=tuple(one.stopped["reason"] for one in good if one.stopped is not None),
        sampled=min((one.test_sampled["links"] for one in good if one.test_sampled), default=None),
    )


def _degree_cell(results: Sequence[Result], part: Stratum, overlap: float) -> DegreeCell:
    cells = [
        cell
        for one in results
        for cell in one.by_degree or []
        if (cell["low"], cell["high"]) == (part.low, part.high)
    ]
    values = [cell["auc"] for cell in cells if cell["auc"] is not None]
    count = max(len(cells), 1)
    return DegreeCell(
        spread_of(values, overlap) if values else None,
        sum(cell["links"] for cell in cells) / count,
        sum(cell["others"] for cell in cells) / count,
    )


def _compared(
    rows: Sequence[Row],
    specs: Sequence[MethodSpec],
    by_row: Sequence[Mapping[int, Result]],
    summary: Summary,
) -> tuple[Row, ...]:
    """Return the rows with their differences to the reference."""
    reference = _reference([one.name for one in specs])
    ours = {one.is_tuned: place for place, one in enumerate(specs) if one.name == reference}
    done: list[Row] = []
    for row, spec, results in zip(rows, specs, by_row, strict=True):
        place = ours.get(spec.is_tuned, ours.get(False))
        if place is None or spec.name == reference:
            done.append(row)
            continue
        difference = _difference(results, by_row[place], summary)
        done.append(replace(row, difference=difference, against=rows[place].title))
    compared = {place: row.difference for place, row in enumerate(done) if row.difference}
    for place, found in zip(compared, corrected([*compared.values()]), strict=True):
        done[place] = replace(done[place], difference=found)
    return tuple(done)


def _difference(
    results: Mapping[int, Result], reference: Mapping[int, Result], summary: Summary
) -> Difference | None:
    pairs = [
        (one.test[summary.metric], other.test[summary.metric])
        for run, one in results.items()
        if (other := reference.get(run)) is not None
        and one.test is not None
        and other.test is not None
        and summary.metric in one.test.keys() & other.test.keys()
    ]
    if not pairs:
        return None
    return paired_difference([a for a, _ in pairs], [b for _, b in pairs], summary.overlap)
