"""A metric is a line of the table: it appears wherever metrics do."""

import json
import re
import subprocess
import sys
from itertools import combinations

from cgcl.metrics import METRICS

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


def test_every_metric_says_what_it_means():
    assert all(metric.meaning.endswith(".") and metric.title for metric in METRICS.values())
