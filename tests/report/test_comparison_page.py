"""The page of a comparison: complete, self-contained, safe, and honest about what is missing."""

import re
from dataclasses import replace

import pytest

from cgcl.experiments import Plan
from cgcl.experiments.comparison import Stratum
from cgcl.experiments.statistics import paired_difference, spread_of
from cgcl.experiments.summary import DegreeCell, Row, Summary
from cgcl.report.comparison_page import write_comparison

SECTIONS = ["table", "chart", "degree", "protocol", "settings", "machine", "reproduce"]
NASTY = "<script>alert(1)</script>\u202e{{ 7 * 7 }}\" onload='x'"


def row(method, title, values, reference=None, **changes):
    """A row with these AUCs, one per run."""
    overlap = 527 / 4488
    spread = spread_of(values, overlap) if values else None
    names = ("auc", "ap", "hits@10", "hits@50", "hits@100", "mrr")
    found = Row(
        method=method,
        title=title,
        source="authors",
        is_tuned=False,
        settings={"lr": 0.01, "epochs": 200},
        caps="",
        runs=len(values),
        metrics=dict.fromkeys(names, spread) if values else {},
        seconds=12.3 if values else None,
        parameters=191_937 if values else None,
        difference=None,
        against=None,
        by_degree=(DegreeCell(spread, 180.0, 230.0), DegreeCell(None, 347.0, 0.0)),
        failures=(),
        stopped=(),
    )
    if reference and values:
        difference = paired_difference(values, reference[: len(values)], overlap)
        difference = replace(difference, adjusted_p=difference.p)
        found = replace(found, difference=difference, against="CGCL")
    return replace(found, **changes)


OURS = [0.96, 0.97, 0.965]


@pytest.fixture
def summary():
    reason = "Lower --lr, and look for very large feature values."
    return Summary(
        graph={
            "title": "cora",
            "nodes": 2708,
            "links": 5278,
            "features": 1433,
            "fingerprint": "9f2c41d07be8a6553190",
        },
        plan=Plan(runs=3),
        sizes={"train": 4488, "val": 263, "test": 527},
        metric="auc",
        rows=(
            row("cgcl", "CGCL", OURS),
            row("vgae", "VGAE", [0.90, 0.93, 0.92], OURS),
            row(
                "seal",
                "SEAL",
                [0.95, 0.97],
                OURS,
                caps="1 hop, width 32",
                failures=((2, "TrainingError", reason),),
            ),
            row("adamic-adar", "Adamic-Adar", [0.72, 0.715, 0.73], OURS, settings={}, source=""),
            row("ncn", "NCN", [], failures=[(run, "out of memory", "No.") for run in range(3)]),
        ),
        strata=(Stratum(0, 2), Stratum(3, None)),
        machines=("cpu, 2 threads",),
        versions=({"cgcl": "0.1.0", "torch": "2.13.0"},),
        notes=("Katz is left out.",),
    )


@pytest.fixture
def render(tmp_path):
    def page(summary, **options):
        return write_comparison(tmp_path, summary, **options).read_text(encoding="utf-8")

    return page


@pytest.fixture
def page(summary, render):
    return render(summary, by_degree=True, command="cgcl compare cora --runs 3")


def test_the_page_is_whole_needs_nothing_else_and_runs_nothing(page, parse):
    assert re.findall(r'<section id="(\w+)">', page) == SECTIONS
    document = parse(page)
    document.check_that_it_is_whole_and_needs_nothing_else()
    assert document.tags.count("svg") == 1
    assert "script" not in document.tags
    assert "default-src 'none'; style-src 'unsafe-inline'\"" in page


def test_the_page_says_what_a_reader_wants_to_know(page, parse):
    text = parse(page).text
    for fact in (
        "2,708 nodes, 5,278 links, 1,433 features. 5 methods, 3 runs each.",
        "CGCL 96.50 ± 0.50",
        "91.67 ± 1.53",
        "-4.83",
        "SEAL: 1 hop, width 32.",
        "SEAL failed in run 3: TrainingError: Lower --lr, and look for very large feature values.",
        "NCN failed in runs 1, 2 and 3: out of memory: No.",
        "Katz is left out.",
        "Not every run has a result",
        "on cpu, 2 threads",
        "Mean AUC with 95 % interval; bars begin at 50 %, what guessing reaches",
        "degree 0 to 2",
        "4,488 links to learn from, 263 to choose the epoch by, 527 to test on",
        "variance factor 1/k + 527/4,488",
        "VGAE: authors",
        "lr 0.01",
        "Nothing to set: Adamic-Adar.",
        "torch 2.13.0",
        "cgcl compare cora --runs 3",
    ):
        assert fact in text, fact


def test_what_is_missing_and_where_it_was_computed_are_told_only_if_it_matters(
    summary, render, parse
):
    whole = replace(summary, rows=(summary.rows[0], summary.rows[1]))
    text = parse(render(whole)).text
    assert "Not every run" not in text
    assert "Not all of it" not in text
    moved = replace(summary, machines=("cpu, 2 threads", "NVIDIA H200, 4 threads"))
    assert "Times do not compare" in parse(render(moved)).text


def test_the_best_is_bold_and_ours_is_marked(page):
    assert page.count("<strong>96.50 ± 0.50</strong>") == 6
    assert page.count('class="ours"') == 3


def test_words_from_files_are_text_and_never_markup(summary, render, parse):
    graph = {**summary.graph, "title": NASTY}
    failed = replace(summary.rows[1], title=NASTY, failures=((0, "Error", NASTY),), caps=NASTY)
    nasty = replace(
        summary,
        graph=graph,
        rows=(summary.rows[0], failed),
        notes=(NASTY,),
        machines=(NASTY,),
        versions=({NASTY: NASTY},),
    )
    document = parse(render(nasty, by_degree=True, command=NASTY))
    document.check_that_it_is_whole_and_needs_nothing_else()
    assert "script" not in document.tags
    assert "<script>alert(1)</script>" in document.text
    assert "49" not in re.findall(r"\{\{ 7 \* 7 \}\}|\b49\b", document.text)


def test_before_any_result_there_is_a_page_too(summary, render, parse):
    empty = replace(summary, rows=(row("cgcl", "CGCL", []),), machines=(), versions=(), notes=())
    text = parse(render(empty, by_degree=True)).text
    assert "Nothing was measured." in text
    assert "CGCL: 0 runs of 3 so far." in text


def test_one_run_has_bars_without_intervals_and_no_claims(summary, render, parse):
    rows = (row("cgcl", "CGCL", [0.96]), row("vgae", "VGAE", [0.45], [0.96]))
    page = render(replace(summary, plan=Plan(runs=1), rows=rows))
    assert "The column of p decides" not in page
    assert "±" not in parse(page).text.replace("mean ± standard deviation", "")
    assert parse(page).tags.count("svg") == 1


def test_bars_of_ranking_metrics_begin_at_nothing(summary, render, parse):
    text = parse(render(replace(summary, metric="mrr"))).text
    assert "Mean MRR with 95 % interval" in text
    assert "guessing reaches" not in text


def test_the_page_is_written_beside_the_results(summary, render, tmp_path):
    page = render(summary, command="cgcl compare \udcff.csv")
    assert page == (tmp_path / "comparison.html").read_text(encoding="utf-8")
    assert "cgcl compare ?.csv" in page
    plain = render(summary)
    assert plain == render(summary)
    assert 'id="degree"' not in plain
    assert 'href="#degree"' not in plain
