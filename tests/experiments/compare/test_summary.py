"""From results to rows and words, with numbers worked out by hand.

Nine test links against nine unlinked pairs: a method that wins w of them has an AUC of w / 9.
The two cliques have 91 links: 9 to test on, 4 to choose by, 78 to learn from.
"""

import csv
import io
import math
import re
from dataclasses import replace

import pytest

from cgcl.errors import TrainingError
from cgcl.experiments.comparison import TunedSettings
from cgcl.experiments.statistics import Difference
from cgcl.experiments.summary import (
    NOTHING,
    as_csv,
    as_markdown,
    as_table,
    best_rows,
    claim_words,
    footnotes,
    p_words,
    protocol_words,
    summarise,
    verdict,
)
from cgcl.train.top_of_list import RankingMetrics

WINS = {"cgcl": [6, 7, 8], "mlp": [3, 5, 4]}


@pytest.fixture
def summarised(opened, scripted, cpu):
    def build(wins=WINS, *, metric="auc", cost=1e15, **plan):
        comparison = opened(list(wins), **plan)
        comparison.run(cpu, train=scripted(wins, cost))
        return summarise(comparison, metric)

    return build


@pytest.fixture
def plain(summarised):
    return summarised()


def test_mean_and_spread_by_hand(plain):
    ours, other = plain.rows
    assert ours.metrics["auc"].mean == pytest.approx(7 / 9)
    assert ours.metrics["auc"].sd == pytest.approx(1 / 9)
    assert other.metrics["auc"].mean == pytest.approx(4 / 9)
    assert (ours.runs, ours.parameters) == (3, 7)
    assert ours.seconds == pytest.approx(1.5, abs=0.1)
    # Fewer than ten unlinked pairs: Hits@10 would say nothing.
    assert list(ours.metrics) == ["auc", "ap", "mrr"]


def test_the_top_of_the_list_comes_first_and_decides(summarised):
    """A link that wins has rank 1, one that loses comes after every other pair of its ends."""
    summary = summarised({"cgcl": [9, 9, 9], "mlp": [0, 0, 9]}, metric=None, cost=1.0)
    assert summary.metric == "node_mrr"
    ours, other = summary.rows
    assert list(ours.metrics) == ["node_mrr", "node_hits@10", "pair_ap", "auc", "ap", "mrr"]
    assert ours.metrics["node_mrr"].mean == 1
    assert 1 / 3 < other.metrics["node_mrr"].mean < 0.5
    assert other.difference.mean == pytest.approx(other.metrics["node_mrr"].mean - 1)
    text = as_table(summary, by_degree=False)
    assert text.splitlines()[0].split()[:5] == ["method", "node", "MRR", "AUC", "AP"]
    assert "node MRR vs CGCL" in text
    assert "AP of all pairs" in as_markdown(summary, by_degree=False)


def test_results_from_before_a_metric_are_compared_by_what_all_have(summarised):
    summarised()
    one_more = {"cgcl": [9], "mlp": [9]}
    summary = summarised(one_more, metric=None, cost=1.0, runs=4)
    assert summary.metric == "auc"
    assert all(list(row.metrics) == ["auc", "ap", "mrr"] for row in summary.rows)
    asked = summarised(one_more, metric="node_mrr", runs=4)
    assert asked.rows[1].difference.runs == 1


def test_the_difference_by_hand(plain):
    """Differences -3/9, -2/9, -4/9, over splits of 9 test links to 78."""
    assert plain.rows[0].difference is None
    found, against = plain.rows[1].difference, plain.rows[1].against
    assert against == "CGCL"
    assert found.mean == pytest.approx(-3 / 9)
    assert found.t == pytest.approx(-3 / math.sqrt(1 / 3 + 9 / 78))
    assert found.adjusted_p == found.p  # one comparison needs no correction


def test_on_one_split_the_test_is_the_ordinary_one(summarised):
    summary = summarised(protocol="paper")
    assert summary.overlap == 0
    assert summary.rows[1].difference.t == pytest.approx(-3 * math.sqrt(3))


def test_a_formula_on_one_split_has_no_spread_and_is_compared_all_the_same(summarised):
    wins = {"cgcl": [6, 7, 8], "adamic-adar": [2], "common-neighbours": [3]}
    summary = summarised(wins, protocol="paper")
    row = summary.rows[1]
    assert (row.runs, row.metrics["auc"].sd) == (3, 0)
    assert row.difference.mean == pytest.approx(-5 / 9)
    assert row.difference.p is not None
    note = "No spread on a single split, nothing is random: Adamic-Adar and Common neighbours."
    assert note in footnotes(summary)


def test_only_common_runs_are_compared(summarised):
    failed = TrainingError("The loss is not finite.")
    summary = summarised({**WINS, "cgcl": [6, failed, 8]})
    ours, other = summary.rows
    assert (ours.runs, other.runs) == (2, 3)
    assert other.difference.runs == 2
    assert other.difference.mean == pytest.approx((-3 - 4) / 18)
    assert not summary.is_complete
    told = [row["failed"] for row in csv.DictReader(io.StringIO(as_csv(summary, by_degree=False)))]
    assert told == ["TrainingError: The loss is not finite.", ""]
    assert footnotes(summary) == [
        "CGCL failed in run 2: TrainingError: The loss is not finite.",
        "What failed is tried again when the command is started again.",
    ]


def test_one_common_run_has_no_p_value_and_without_cgcl_there_is_no_difference(summarised):
    summary = summarised({"cgcl": [6], "mlp": [3]}, runs=1)
    assert summary.rows[1].difference.p is None
    assert p_words(summary.rows[1].difference) == NOTHING
    assert claim_words(summary) == verdict(summary) == ""
    without = summarised({"mlp": [3, 5, 4], "adamic-adar": [5, 5, 5]}, out="other")
    assert all(row.difference is None for row in without.rows)
    assert "vs CGCL" not in as_table(without, by_degree=False)


def test_tuned_methods_are_set_against_tuned_cgcl(summarised):
    tuned = dict.fromkeys(("cgcl", "mlp"), TunedSettings({"hidden": 16}, 20))
    # In the order of work: cgcl, cgcl tuned, mlp, mlp tuned.
    summary = summarised({"cgcl": [6, 9] * 3, "mlp": [3, 4] * 3}, tuned=tuned)
    against = [None, None, "CGCL", "CGCL tuned"]
    assert [row.against for row in summary.rows] == against
    assert [row.is_tuned for row in summary.rows] == [False, True] * 2
    assert summary.rows[2].difference.mean == pytest.approx(-3 / 9)
    assert summary.rows[3].difference.mean == pytest.approx(-5 / 9)
    assert any(note.startswith("Tuned settings were chosen by") for note in footnotes(summary))


def test_what_holds_for_a_row_alone_is_told_below(plain):
    ours, other = plain.rows
    row = replace(other, caps="1 hop", stopped=("time limit", "time limit", "collapse"))
    assert footnotes(replace(plain, rows=(replace(ours, sampled=4), row))) == [
        "Features only (MLP): 1 hop.",
        "CGCL: node MRR and node Hits@10 on 4 of 9 test links, drawn at random in each run, "
        "because all of them would take too long.",
        "Features only (MLP): the time limit ended training early in 2 of 3 runs; the best epoch "
        "counts.",
        "Features only (MLP): training fell back to guessing and was stopped in 1 of 3 runs; the "
        "best epoch counts.",
    ]


def test_a_row_says_on_how_few_links_its_runs_were_ranked(summarised, monkeypatch):
    links = iter([6, None, 4, 9, 9, 9])

    def some(*_):
        return RankingMetrics({"node_mrr": 0.5, "node_hits@10": 0.5}, next(links))

    monkeypatch.setattr("cgcl.experiments.comparison.ranking_metrics", some)
    summary = summarised({"cgcl": [6, 7, 8], "mlp": [3, 5, 4]})
    assert {row.sampled for row in summary.rows} == {4, 9}


def test_the_protocol_in_words(plain, summarised):
    assert protocol_words(plain) == (
        "3 random splits of the links (seeds 0 to 2); a split's seed is also that of the first "
        "weights. 78 links to learn from, 4 to choose the epoch by, 9 to test on against as many "
        "unlinked pairs: the same for every method."
    )
    assert "variance factor 1/k + 9/78 for k splits" in claim_words(plain)
    paper = summarised(protocol="paper", out="paper")
    assert protocol_words(paper).startswith(
        "One random split of the links (seed 10), 3 initialisations (seeds 0 to 2), as in the paper"
    )
    assert "It says nothing about other splits" in claim_words(paper)


def test_the_verdict_names_who_differs(plain):
    def row(title, mean, p):
        found = Difference(3, mean, 0.01, mean - 0.1, mean + 0.1, 1.0, p, p)
        return replace(plain.rows[1], title=title, difference=found)

    rows = (plain.rows[0], row("A", 0.1, 0.01), row("B", -0.1, 0.04), row("C", 0.1, 0.06))
    words = {0.0004: "<0.001", 0.0312: "0.031", 1.0: "1.000", None: NOTHING}
    assert {p: p_words(row("", 0.1, p).difference) for p in words} == words
    assert verdict(replace(plain, rows=rows)) == (
        "By AUC, A did better than CGCL and B did worse than CGCL by more than chance. "
        "C cannot be told from CGCL."
    )
    assert verdict(replace(plain, rows=(plain.rows[0], row("C", 0.1, 0.05)))) == (
        "By AUC, C cannot be told from CGCL."
    )


def test_the_table_in_percent_has_more_blocks_where_it_is_narrow_and_loses_nothing(plain):
    wide, narrow = (as_table(plain, by_degree=True, width=width) for width in (None, 60))
    lines = wide.splitlines()
    assert " ".join(lines[0].split()) == (
        "method AUC AP MRR AUC vs CGCL 95 % interval p seconds parameters runs settings"
    )
    assert "77.78 ± 11.11" in lines[1]
    assert re.search(r"44\.44 ± 11\.11 .* -33\.33 ", lines[2])
    assert lines[4].split()[:2] == ["method", "degree"]
    assert max(map(len, narrow.splitlines())) <= 60
    for cell in ("77.78 ± 11.11", "-33.33", "AUC vs CGCL", "parameters", "3/3", "authors"):
        assert cell in wide
        assert cell in narrow
    assert narrow.count("Features only (MLP)  ") > wide.count("Features only (MLP)  ")


def test_markdown_has_the_best_in_bold_and_equal_means_share_the_first_place(plain):
    lines = as_markdown(plain, by_degree=True).splitlines()
    assert lines[0].startswith("| method | AUC | AP | MRR | AUC vs CGCL |")
    assert lines[1].startswith("| --- | ---: |")
    assert lines[2].startswith("| CGCL | **77.78 ± 11.11** |")
    assert lines[3].startswith("| Features only (MLP) | 44.44 ± 11.11 |")
    assert len({line.count("|") for line in lines[:4]}) == 1
    ours, other = plain.rows
    assert best_rows(replace(plain, rows=(ours, ours, other)), "auc") == {0, 1}
    assert best_rows(replace(plain, rows=(ours,)), "auc") == frozenset()
    # As numbers: as words 9.50 comes after 10.00.
    means = [
        replace(ours, metrics={"auc": replace(ours.metrics["auc"], mean=mean)})
        for mean in (0.1, 0.095)
    ]
    assert best_rows(replace(plain, rows=tuple(means)), "auc") == {0}


def test_csv_has_every_number_in_full(plain):
    ours, other = csv.DictReader(io.StringIO(as_csv(plain, by_degree=True)))
    assert (ours["method"], other["method"]) == ("cgcl", "mlp")
    found = plain.rows[1]
    numbers = [found.metrics["auc"].mean, found.difference.mean, found.difference.adjusted_p]
    assert [float(other[name]) for name in ("auc", "difference", "adjusted_p")] == numbers
    assert (ours["difference"], ours["hits@100"]) == ("", "")
    assert any(name.startswith("auc, degree") for name in ours)
