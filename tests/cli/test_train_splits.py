"""Which links are held out, and what else `cgcl train` makes of a file."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch

from cgcl.graph import Graph
from cgcl.graph.graph import read_stored_graph
from cgcl.split import Split
from cgcl.split.split import read_split

QUICK = ["--epochs", "4", "--hidden", "4", "--threads", "1"]
NAMES = ["007", "NA", "1e3", "é", "a b", *(f"n{number:02d}" for number in range(11))]
Pair = tuple[str, str]


@pytest.fixture
def links(tmp_path: Path) -> list[Pair]:
    rng = np.random.default_rng(0)
    group = np.arange(16) % 2
    chance = np.where(group[:, None] == group[None, :], 0.8, 0.2)
    found = np.argwhere(np.triu(rng.random((16, 16)) < chance, 1))
    return [(NAMES[a], NAMES[b]) for a, b in found]


@pytest.fixture
def train(cli):
    def trained(*arguments: str | Path) -> Path:
        result = cli("train", *arguments, *QUICK)
        assert result.code == 0, result.err
        return Path(result.out.strip())

    return trained


def write(path: str, rows: list[tuple], header: str = "source,target") -> Path:
    file = Path(path)
    file.parent.mkdir(exist_ok=True)
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    file.write_text(f"{header}\n{text}", encoding="utf-8")
    return file


def load(run: Path) -> tuple[Graph, Split]:
    return read_stored_graph(run / "graph.safetensors"), read_split(run / "split.safetensors")


def about(run: Path) -> dict:
    return json.loads((run / "run.json").read_text())


def named(graph: Graph, pairs: torch.Tensor) -> set[frozenset[str]]:
    return {frozenset((graph.names[a], graph.names[b])) for a, b in pairs.T.tolist()}


def unordered(pairs: list[Pair]) -> set[frozenset[str]]:
    return {frozenset(pair) for pair in pairs}


def test_held_out_links_may_be_in_the_graphs_file_and_the_run_goes_on(cli, train, links) -> None:
    write("test.csv", links[:8])
    write("val.csv", links[8:12])
    write("whole/g.csv", links)
    write("rest/g.csv", links[12:])
    held_out = ["--test-edges", "test.csv", "--val-edges", "val.csv"]
    whole, rest = train("whole/g.csv", *held_out), train("rest/g.csv", *held_out)
    for name in ("model.safetensors", "split.safetensors", "metrics.jsonl"):
        assert (whole / name).read_bytes() == (rest / name).read_bytes(), name
    assert about(whole)["test"] == about(rest)["test"]
    graph, split = load(rest)
    assert named(graph, graph.edges) == unordered(links)
    assert named(graph, split.test) == unordered(links[:8])
    assert named(graph, split.val) == unordered(links[8:12])
    assert named(graph, split.train) == unordered(links[12:])
    # Stopped within its first epoch, a run goes on to the same bits: its folder holds all it needs.
    part = cli("train", "rest/g.csv", *held_out, *QUICK, "--time-limit", "0.000001s")
    stopped = Path(part.out.strip())
    assert about(stopped)["epochs"] < 4
    Path("test.csv").unlink()
    assert cli("train", "--resume", stopped, "--time-limit", "1h", "--no-compare").code == 0
    assert about(stopped)["epochs"] == 4
    for name in ("metrics.jsonl", "split.safetensors", "graph.safetensors"):
        assert (stopped / name).read_bytes() == (rest / name).read_bytes(), name
    assert about(stopped)["test"] == about(rest)["test"]


def test_held_out_links_are_read_like_the_graph_and_may_be_untidy_and_of_new_nodes(train, links):
    columns = ["--source", "from", "--target", "to"]
    write("g.csv", links, "from,to")
    held_out = [*((b, a) for a, b in links[:8]), links[0], ("NA", "NA"), ("newcomer", "007")]
    write("untidy.csv", held_out, "from,to")
    run = train("g.csv", *columns, "--test-edges", "untidy.csv", "--val", "0.1")
    graph, split = load(run)
    assert named(graph, split.test) == unordered([*links[:8], ("newcomer", "007")])
    assert not named(graph, split.train) & unordered(links[:8])
    assert split.val.shape[1] == int(0.1 * (len(links) - 8))
    notes = about(run)["graph"]["notes"]
    assert "1 repeated link merged among the test links." in notes
    assert "1 self-link dropped among the test links." in notes


@pytest.fixture
def visits() -> list[Pair]:
    """Who was where: six people, five places."""
    return [(f"p{a}", f"q{b}") for a in range(6) for b in range(5) if (a * 7 + b * 3) % 4 != 1]


def test_comparing_is_done_when_cheap_when_asked_and_not_when_not(train, links, monkeypatch):
    write("g.csv", links)
    usual, never = train("g.csv"), train("g.csv", "--no-compare")
    monkeypatch.setattr("cgcl.predict.baselines.BUDGET", 1e6)
    large, asked = train("g.csv"), train("g.csv", "--compare")
    files = [run / "comparison.json" for run in (usual, never, large, asked)]
    assert [file.exists() for file in files] == [True, False, True, True]
    found = [json.loads(file.read_text()) for file in files if file.exists()]
    assert [one["thorough"] for one in found] == [False, False, True]
    formulas = {"Common neighbours", "Adamic-Adar", "Resource allocation"}
    for one in found:
        assert formulas <= {result["method"] for result in one["results"]}
        assert all("node_mrr" in result["metrics"] for result in one["results"])
    for run in (usual, never, asked):
        page = (run / "report.html").read_text()
        assert ("Beside simple methods" in page) == (run != never)
    assert (asked / "model.safetensors").read_bytes() == (never / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        [
            "--time", "when", "--directed", "error", "--bipartite", "yes", "--features",
            "nodes.csv", "--feature-separator", "|", "--one-hot", "kind", "--words=-text",
            "--test", "0.25", "--val", "0.1", "--seed", "3", "--method", "cgcl", "--views",
            "shared", "--hidden", "4", "--epochs", "4",
        ],
        ["--method", "katz", "--set.beta", "0.1", "--set.length", "3", "--test", "0.25"],
        ["--test-edges", "the test.csv", "--val-edges", "val.csv", "--epochs", "2"],
    ],
)  # fmt: skip
def test_the_command_of_a_run_repeats_it_with_all_that_was_said(cli, visits, options) -> None:
    rows = [f"{a};{b};{1950 + i}" for i, (a, b) in enumerate(visits)]
    for path, part in (("my graph.txt", rows), ("the test.csv", rows[:5]), ("val.csv", rows[5:6])):
        Path(path).write_text("who -x;where;when\n" + "\n".join(part) + "\n")
    names = sorted({name for pair in visits for name in pair})
    kinds = "".join(f"{n}|{'ab'[i % 2]}|word{i % 3} x|1.5\n" for i, n in enumerate(names))
    Path("nodes.csv").write_text("name|kind|-text|size\n" + kinds)
    columns = ["--source", "who -x", "--target", "where", "--separator", ";", "--header"]
    first = cli("train", "my graph.txt", *columns, *options, "--threads", "1", "--no-compare")
    assert first.code == 0, first.err
    command = about(Path(first.out.strip()))["command"]
    assert command.startswith("cgcl train 'my graph.txt' --source 'who -x' --target where ")
    again = cli(*shlex.split(command)[1:])
    assert (again.code, again.out == first.out) == (0, False), again.err
    one, other = Path(first.out.strip()), Path(again.out.strip())
    for name in ("model.safetensors", "split.safetensors", "graph.safetensors", "metrics.jsonl"):
        assert (other / name).read_bytes() == (one / name).read_bytes(), name
    for key in ("command", "config", "test"):
        assert about(other)[key] == about(one)[key], key
