"""A metric is a line of the table: it appears wherever metrics do."""

import json
import re
import subprocess
import sys
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

from cgcl.metrics import METRICS, ON_REQUEST, Ranked

ADDED = """
from cgcl.metrics.table import METRICS, Metric
METRICS["third"] = Metric("above third", "Above the third pair.", lambda ranked: ranked.hits_at(3))
METRICS["node_hits@1"] = Metric("node Hits@1", "First.", lambda ranks: ranks <= 1, over="nodes")
from cgcl.cli.main import main
for command in (
    "train g.csv --method adamic-adar --test 0.2",
    "compare g.csv --methods adamic-adar,common-neighbours --runs 2 --test 0.2",
):
    try:
        main(command.split())
    except SystemExit as ended:
        assert ended.code == 0
"""


def test_a_line_of_the_table_adds_a_metric_to_files_terminal_report_and_comparison(tmp_path):
    rows = [f"{a},{b}\n" for a, b in combinations(range(16), 2) if (a * b + a) % 3 == 0]
    (tmp_path / "g.csv").write_text("source,target\n" + "".join(rows))
    command = [sys.executable, "-c", ADDED]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    test = json.loads((tmp_path / "runs/g-1/run.json").read_text())["test"]
    page = (tmp_path / "runs/g-1/report.html").read_text()
    for name, title in (("third", "above third"), ("node_hits@1", "node Hits@1")):
        assert 0 <= test[name] <= 1
        assert f"{title} {test[name]:.4f}" in done.stderr
        assert title in page
        assert title in done.stdout
    assert re.search(r"Above the third pair\.", page)


def test_what_a_run_records_what_the_terminal_tells_and_what_is_asked_for():
    of_pairs = ["precision@100", "precision@1000", "pair_ap"]
    of_links = ["auc", "ap", "hits@10", "hits@50", "hits@100", "mrr"]
    assert list(METRICS) == ["node_mrr", "node_hits@10", *of_pairs, *of_links]
    assert {name for name, one in METRICS.items() if not one.is_told} == {
        "pair_ap", "hits@10", "hits@50",
    }  # fmt: skip
    assert list(ON_REQUEST) == ["heart_mrr", "heart_hits@10", "degree_auc", "degree_ap"]
    for name, one in (METRICS | ON_REQUEST).items():
        over = "pairs" if name in of_pairs else "nodes" if name[:4] in ("node", "hear") else "links"
        assert (one.over, one.is_at_top) == (over, over != "links")
        assert one.least_links == (int(name[5:]) if name.startswith("hits@") else 1)


@pytest.mark.parametrize("k", [10, 50, 100])
def test_hits_are_above_the_kth_highest_of_many(k):
    others = np.arange(200.0)
    for beaten, hit in ((200 - k, 1.0), (199 - k, 0.0)):
        assert METRICS[f"hits@{k}"].function(Ranked([beaten + 0.5], others)) == hit


def test_ranks_become_their_inverse_or_whether_they_are_among_the_best_ten():
    ranks = np.array([[1.0, 10.0], [10.5, 4.0]])
    for table, name in ((METRICS, "node"), (ON_REQUEST, "heart")):
        inverse = table[f"{name}_mrr"].function(ranks)
        assert inverse.tolist() == [[1, 0.1], [1 / 10.5, 0.25]]
        assert table[f"{name}_hits@10"].function(ranks).tolist() == [[True, True], [False, True]]


@pytest.mark.parametrize("k", [100, 1000])
def test_precision_asks_for_so_many_pairs(k):
    asked = SimpleNamespace(precision_at=lambda count: -count)
    assert METRICS[f"precision@{k}"].function(asked) == -k


def test_every_metric_says_what_it_means():
    assert all(metric.meaning.endswith(".") and metric.title for metric in METRICS.values())
