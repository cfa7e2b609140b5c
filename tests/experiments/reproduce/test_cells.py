"""Cells of tables from hand-made runs, against numbers worked out by hand."""

import math
from dataclasses import asdict

import pytest

from cgcl.experiments.statistics import holm, paired_difference
from cgcl.experiments.study import CellId, Selection, family, jobs_of
from cgcl.experiments.tables import METRICS, has_collapsed, table_of

from .conftest import record_of, row, toy

PAPER = {
    "toy": {"cgcl": {"cora": {"10": {"auc": [97.00, 0.15], "ap": [97.34, 0.11]}}}},
    "datasets": {"cora": {"title": "Cora"}},
}


def filled(of, scores):
    """Return the jobs, and records of those whose place has a score for the run."""
    jobs = jobs_of(of, Selection(), {})
    made = [
        record_of(job, auc)
        for place, own in jobs.items()
        for job, auc in zip(own, scores.get(place, ()), strict=False)
        if auc is not None
    ]
    return jobs, {one.key: one for one in made}


def only(found, **wanted):
    [one] = [
        one
        for one in found
        if {"metric": one.metric, **asdict(one.place)}.items() >= wanted.items()
    ]
    return one


HERE = {"row": "cgcl", "graph": "cora", "test": 10, "protocol": "paper", "metric": "auc"}


def test_mean_deviation_and_difference_by_hand():
    """96.5, 97.0, 97.2: the mean is 96.9, squares of 0.4, 0.1, 0.3 make 0.26, over 2 is 0.13."""
    of, place = toy(), CellId("cgcl", "cora", 10, "paper")

    def cell(values, printed=97.00):
        paper = {"toy": {"cgcl": {"cora": {"10": {"auc": [printed, 0.15]}}}}}
        return only(table_of(of, *filled(of, {place: values}), paper).cells, **HERE)

    found = cell([0.965, 0.97, 0.972])
    assert found.values == pytest.approx((96.5, 97.0, 97.2))
    assert found.asked == 3
    assert found.mean == pytest.approx(96.9)
    assert found.sd == pytest.approx(math.sqrt(0.13))
    assert found.published == (97.00, 0.15)
    assert found.difference == -0.1
    # 97.125 is printed as 97.12: 0.01 below 97.13, although half of that is true.
    found = cell([0.97125], 97.13)
    assert (f"{found.mean:.2f}", found.difference, found.sd) == ("97.12", -0.01, None)


def test_what_a_method_leaves_out_and_what_is_set_for_a_graph():
    seal = row("seal", on={"photo": {"settings": {"share": 0.5, "epochs": 7}, "runs": 2}})
    of = toy(seal)
    scores = {CellId("seal", graph, 10, "paper"): [0.9] * 3 for graph in of.graphs}
    found = table_of(of, *filled(of, scores), PAPER)
    cells = [only(found.cells, **{**HERE, "row": "seal", "graph": graph}) for graph in of.graphs]
    assert "hops" in cells[0].caps
    assert "50 % of the training links" not in cells[0].caps
    assert cells[0].left_out == cells[0].caps
    assert "50 % of the training links" in cells[1].caps
    # The share is told by the caps already.
    assert cells[1].left_out.endswith("; on this graph epochs = 7")
    assert [cell.asked for cell in cells] == [3, 2]
    assert found.runs == 3
    # What was chosen for one graph alone is told there, too.
    of = toy(row("vgae", on={"photo": {"settings": {"epochs": 7}, "chosen": ["lr"]}}))
    chosen = {f"vgae-photo-{test}": {"lr": 0.25} for test in of.test}
    found = table_of(of, jobs_of(of, Selection(), chosen), {}, PAPER)
    told = {cell.place.graph: cell.here for cell in found.cells}
    assert told == {"cora": "", "photo": "epochs = 7, lr = 0.25"}


def test_runs_that_failed_or_ended_early_are_counted():
    of = toy()
    jobs = jobs_of(of, Selection(), {})
    one, two, three = jobs[CellId("cgcl", "cora", 10, "paper")]
    made = [record_of(one, 0.9, stopped="time limit"), record_of(two, 0.8)]
    made.append(record_of(three, 0.0, metrics=None, failure="MemoryError"))
    cell = only(table_of(of, jobs, {each.key: each for each in made}, PAPER).cells, **HERE)
    assert cell.values == pytest.approx((90, 80))
    assert (cell.stopped, cell.failed, cell.asked) == (("time limit",), 1, 3)


def five_splits(*others):
    """Return the table of CGCL at 90, 92, 94, 93, 91 and of others on the same splits."""
    names = [f"other {number}" for number in range(len(others))]
    of = toy(
        row("cgcl"),
        *(row(name, "vgae", settings={"lr": 0.1 + n}) for n, name in enumerate(names)),
        runs=5,
    )
    ours = (0.90, 0.92, 0.94, 0.93, 0.91)
    scores = {
        CellId(name, "cora", 10, protocol): values
        for name, values in zip(["cgcl", *names], [ours, *others], strict=True)
        for protocol in of.protocols
    }
    return of, *filled(of, scores)


def test_the_paired_difference_allows_for_the_links_that_splits_share():
    """90, 92, 94, 93, 91 minus the other's; of 100 links 10 are tested on and 85 learned from."""
    found = table_of(*five_splits((0.89, 0.90, 0.91, 0.91, 0.89)), PAPER)
    assert {one.place.protocol for one in found.paired} == {"splits"}
    one = only(found.paired, row="other 0", metric="auc").difference
    expected = paired_difference([1, 2, 3, 2, 2], [0] * 5, 10 / 85)
    numbers = ("mean", "sd", "t", "p", "low", "high")
    assert [getattr(one, name) for name in numbers] == pytest.approx(
        [getattr(expected, name) for name in numbers]
    )
    assert one.adjusted_p == pytest.approx(one.p)


def test_all_comparisons_of_a_table_are_one_family_as_the_file_says():
    """Two rows on two graphs: three tests, for one row is on one graph alone."""
    of = toy(row("cgcl"), row("vgae"), row("seal"), runs=5, test=(10,), protocols=("splits",))
    scores = {
        ("cgcl", "cora"): (0.90, 0.92, 0.94, 0.93, 0.91),
        ("cgcl", "photo"): (0.90, 0.92, 0.94, 0.93, 0.91),
        ("vgae", "cora"): (0.89, 0.90, 0.91, 0.91, 0.89),
        ("vgae", "photo"): (0.91, 0.90, 0.93, 0.94, 0.90),
        ("seal", "photo"): (0.80, 0.81, 0.84, 0.82, 0.81),
    }
    at = {CellId(name, graph, 10, "splits"): own for (name, graph), own in scores.items()}
    assert family().metrics == METRICS
    paired = [own for own in table_of(of, *filled(of, at), PAPER).paired if own.metric == "auc"]
    places = [("vgae", "cora"), ("vgae", "photo"), ("seal", "photo")]
    assert [(own.place.row, own.place.graph) for own in paired] == places
    found = [own.difference for own in paired]
    assert [own.adjusted_p for own in found] == pytest.approx(holm([own.p for own in found]))
    # 90, 92, 94, 93, 91 against 91, 90, 93, 94, 90: behind in two.
    assert [own.lost for own in found] == [0, 2, 0]
    assert [own.sign for own in found] == [1, 0, 1]


def test_only_common_splits_are_compared():
    """The other row has no second run; then its first one is on another split of that seed."""
    of, jobs, records = five_splits((0.89, None, 0.91))
    one = only(table_of(of, jobs, records, PAPER).paired, metric="auc")
    assert (one.difference.runs, one.difference.mean) == (2, pytest.approx(2))  # 1 and 3
    job = jobs[CellId("other 0", "cora", 10, "splits")][0]
    records[job.key] = record_of(job, 0.1, split="drawn otherwise")
    one = only(table_of(of, jobs, records, PAPER).paired, metric="auc")
    assert (one.difference.runs, one.difference.mean) == (1, pytest.approx(3))
    without = {place: own for place, own in jobs.items() if place.row != "cgcl"}
    assert table_of(of, without, records, PAPER).paired == ()


def test_rows_of_one_title_are_told_apart():
    rows = [
        row(f"cgcl lr={rate}", "cgcl", title="CGCL", settings={"lr": rate}) for rate in (0.1, 0.2)
    ]
    of = toy(*rows, row("vgae", title="VGAE"))
    assert table_of(of, {}, {}, PAPER).labels == {
        "cgcl lr=0.1": "CGCL lr=0.1",
        "cgcl lr=0.2": "CGCL lr=0.2",
        "vgae": "VGAE",
    }


@pytest.mark.parametrize(
    ("val", "stopped", "expected"),
    [
        (0.9, None, False),
        (0.9, "collapse", True),
        (0.5, None, True),  # never above chance, so it fell back from nothing
        (None, None, False),
    ],
)
def test_when_a_run_counts_as_collapsed(val, stopped, expected):
    job = next(iter(jobs_of(toy(), Selection(), {}).values()))[0]
    metrics = None if val is None else {"auc": val, "ap": val}
    assert has_collapsed(record_of(job, val=metrics, stopped=stopped)) is expected
