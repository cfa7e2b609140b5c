"""Which links are held out, and what else `cgcl train` makes of a file."""

from __future__ import annotations

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


def test_it_makes_no_difference_whether_held_out_links_are_in_the_graphs_file(train, links) -> None:
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


def test_without_a_file_for_validation_a_share_of_the_rest_is_drawn(train, links) -> None:
    write("g.csv", links)
    write("test.csv", links[:8])
    runs = [
        train("g.csv", "--test-edges", "test.csv", "--val", share, "--seed", seed)
        for share, seed in (("0.1", "0"), ("0.1", "1"), ("0", "0"))
    ]
    splits = [load(run)[1] for run in runs]
    graph = load(runs[0])[0]
    for split in splits:
        assert named(graph, split.test) == unordered(links[:8])
        assert not named(graph, split.train) & unordered(links[:8])
    assert [split.val.shape[1] for split in splits] == [int(0.1 * (len(links) - 8))] * 2 + [0]
    assert named(graph, splits[0].val) != named(graph, splits[1].val)


def test_direction_and_repetition_of_held_out_links_do_not_matter(cli, train, links) -> None:
    write("g.csv", links)
    write("test.csv", links[:8])
    rows = [*((b, a) for a, b in links[:8]), links[0], ("NA", "NA")]
    write("untidy.csv", rows)
    tidy = train("g.csv", "--test-edges", "test.csv", "--val", "0.1")
    untidy = train("g.csv", "--test-edges", "untidy.csv", "--val", "0.1")
    assert load(tidy)[1].fingerprint == load(untidy)[1].fingerprint
    notes = about(untidy)["graph"]["notes"]
    assert "1 repeated link merged among the test links." in notes
    assert "1 self-link dropped among the test links." in notes


def test_held_out_links_are_read_like_the_graph(train, links) -> None:
    write("g.csv", links, "from,to")
    write("test.csv", links[:8], "from,to")
    run = train("g.csv", "--source", "from", "--target", "to", "--test-edges", "test.csv")
    graph, split = load(run)
    assert named(graph, split.test) == unordered(links[:8])


def test_a_node_that_only_held_out_links_know_is_a_node(train, links) -> None:
    write("g.csv", links)
    write("test.csv", [("newcomer", "007"), *links[:7]])
    graph, split = load(train("g.csv", "--test-edges", "test.csv", "--val", "0.1"))
    assert frozenset(("newcomer", "007")) in named(graph, split.test)
    assert "newcomer" in graph.names


@pytest.mark.parametrize(
    ("flags", "code", "text"),
    [
        (["--val-edges", "val.csv"], 2, "--val-edges goes with --test-edges"),
        (["--time", "year", "--test-edges", "test.csv"], 2, "--time and --test-edges both say"),
        (["--test-edges", "none.csv"], 1, "none.csv"),
        (["--test-edges", "few.csv"], 1, "There are 2 test links; at least 5 are needed"),
        (["--test-edges", "test.csv", "--val-edges", "both.csv"], 1, "1 link is both for valid"),
        (["--test-edges", "test.csv", "--val-edges", "loop.csv"], 1, "There are 0 validation"),
        (["--test-edges", "g.csv"], 1, "are left beside the test"),
        (["--test-edges", "g.csv", "--val", "0"], 1, "so 0 would be left to learn from"),
        (["--test-edges", "other.csv"], 1, "other.csv"),
    ],
)
def test_a_split_that_cannot_be_is_refused_and_no_run_is_begun(
    cli, links, flags, code: int, text: str
) -> None:
    write("g.csv", links)
    write("test.csv", links[:8])
    write("val.csv", links[8:12])
    write("few.csv", links[:2])
    write("both.csv", [links[3], *links[8:10]])
    write("loop.csv", [("NA", "NA")])
    write("other.csv", links[:8], "from,to")
    result = cli("train", "g.csv", *flags, *QUICK)
    assert (result.code, result.out) == (code, "")
    assert text in result.err
    assert not Path("runs").exists()


@pytest.mark.parametrize("kind", ["number", "date"])
def test_the_newest_links_are_the_test_and_the_next_newest_choose(train, links, kind: str) -> None:
    order = np.random.default_rng(1).permutation(len(links))
    times = [1900 + i if kind == "number" else f"{1950 + i}-03-01" for i in order.tolist()]
    rows = [(*pair, time) for pair, time in zip(links, times, strict=True)]
    write("g.csv", rows, "source,target,when")
    run = train("g.csv", "--time", "when", "--test", "0.2", "--val", "0.1")
    graph, split = load(run)
    newest = [links[i] for i in np.argsort(-order)]
    num_test, num_val = int(0.2 * len(links)), int(0.1 * len(links))
    assert named(graph, split.test) == unordered(newest[:num_test])
    assert named(graph, split.val) == unordered(newest[num_test : num_test + num_val])
    last = f"{1900 + len(links) - 1}" if kind == "number" else f"{1950 + len(links) - 1}-03-01"
    assert any(f"to {last}." in note for note in about(run)["graph"]["notes"])


def test_a_column_of_times_that_is_not_there_is_named(cli, links) -> None:
    write("g.csv", links)
    result = cli("train", "g.csv", "--time", "when", *QUICK)
    assert result.code == 1
    assert "'when'" in result.err


@pytest.fixture
def visits() -> list[Pair]:
    """Who was where: six people, five places."""
    return [(f"p{a}", f"q{b}") for a in range(6) for b in range(5) if (a * 7 + b * 3) % 4 != 1]


def test_auto_sees_two_sides_and_no_overrules_it(cli, train, visits) -> None:
    write("g.csv", visits)
    common = ["--test", "0.25", "--val", "0.1"]
    graph, split = load(train("g.csv", *common))
    assert graph.sides is not None
    assert split.sides is not None
    for part in (split.val_negatives, split.test_negatives):
        assert (split.sides[part[0]] != split.sides[part[1]]).all()
    answer = json.loads(cli("predict", "runs/g-1", "--top", "100", "--format", "json").out)
    assert {(row["source"][0], row["target"][0]) for row in answer} == {("p", "q")}
    assert len(answer) == 30 - len(visits)
    graph, split = load(train("g.csv", *common, "--bipartite", "no"))
    assert graph.sides is None
    assert split.sides is None
    answer = json.loads(cli("predict", "runs/g-2", "--top", "100", "--format", "json").out)
    assert len(answer) == 55 - len(visits)


def test_yes_finds_the_sides_where_columns_mix_and_refuses_odd_cycles(
    cli, train, visits, links
) -> None:
    mixed = [pair if i % 2 else pair[::-1] for i, pair in enumerate(visits)]
    write("g.csv", mixed)
    common = ["--test", "0.25", "--val", "0.1"]
    assert load(train("g.csv", *common))[0].sides is None
    graph = load(train("g.csv", *common, "--bipartite", "yes"))[0]
    assert graph.sides is not None
    side = dict(zip(graph.names, graph.sides.tolist(), strict=True))
    assert len({side[name] for name in graph.names if name.startswith("p")}) == 1
    assert side["p0"] != side["q0"]
    write("odd.csv", links)
    result = cli("train", "odd.csv", "--bipartite", "yes", *QUICK)
    assert result.code == 1
    assert "The graph is not bipartite" in result.err


def test_held_out_links_of_a_bipartite_graph_stay_across(train, visits) -> None:
    write("g.csv", visits[6:])
    write("test.csv", visits[:6])
    _, split = load(train("g.csv", "--test-edges", "test.csv", "--val", "0.1"))
    assert split.sides is not None
    assert (split.sides[split.test_negatives[0]] != split.sides[split.test_negatives[1]]).all()


def test_direction_is_dropped_with_a_note_or_refused(cli, train, links) -> None:
    write("g.csv", [*links, links[0][::-1]])
    note = "1 link is listed in both directions"
    assert any(text.startswith(note) for text in about(train("g.csv"))["graph"]["notes"])
    result = cli("train", "g.csv", "--directed", "error", *QUICK)
    assert (result.code, result.out) == (1, "")
    assert "Leave out --directed error to drop the direction." in result.err
    write("plain.csv", links)
    assert load(train("plain.csv", "--directed", "error"))[0].num_edges == len(links)


def test_comparing_is_done_when_cheap_when_asked_and_not_when_not(
    train, links, monkeypatch
) -> None:
    write("g.csv", links)
    file = "comparison.json"
    heading = "Beside simple methods"
    usual, never = train("g.csv"), train("g.csv", "--no-compare")
    assert (usual / file).exists()
    assert not (never / file).exists()
    monkeypatch.setattr("cgcl.predict.baselines.BUDGET", 1e6)
    large, asked = train("g.csv"), train("g.csv", "--compare")
    found = [json.loads((run / file).read_text())["results"] for run in (usual, large, asked)]
    assert all("node_mrr" in one["metrics"] for results in found for one in results)
    formulas = {"Common neighbours", "Adamic-Adar", "Resource allocation"}
    assert all(formulas <= {one["method"] for one in results} for results in found)
    assert [json.loads((run / file).read_text())["thorough"] for run in (large, asked)] == [
        False,
        True,
    ]
    shown = [heading in (run / "report.html").read_text() for run in (usual, never, asked)]
    assert shown == [True, False, True]
    assert (asked / "model.safetensors").read_bytes() == (never / "model.safetensors").read_bytes()


def test_a_run_with_a_split_of_ones_own_resumes_to_the_same_bits(cli, train, links) -> None:
    write("g.csv", links)
    write("test.csv", links[:8])
    write("val.csv", links[8:12])
    held_out = ["--test-edges", "test.csv", "--val-edges", "val.csv", "--no-compare"]
    straight = train("g.csv", *held_out)
    # The limit passes within the first epoch.
    part = cli("train", "g.csv", *held_out, *QUICK, "--time-limit", "0.000001s")
    stopped = Path(part.out.strip())
    assert about(stopped)["epochs"] < 4
    Path("test.csv").unlink()  # the folder holds all it needs
    result = cli("train", "--resume", stopped, "--time-limit", "1h", "--no-compare")
    assert result.code == 0, result.err
    assert about(stopped)["epochs"] == 4
    for name in ("metrics.jsonl", "split.safetensors", "graph.safetensors"):
        assert (stopped / name).read_bytes() == (straight / name).read_bytes(), name
    assert about(stopped)["test"] == about(straight)["test"]


@pytest.mark.parametrize("flag", ["--test-edges", "--val-edges", "--time", "--bipartite"])
def test_a_resumed_run_keeps_its_split(cli, train, links, flag: str) -> None:
    write("g.csv", links)
    run = train("g.csv")
    result = cli("train", "--resume", run, flag, "no")
    assert result.code == 2
    assert f"it takes no {flag}." in result.err


def test_the_command_of_a_run_repeats_it_with_all_that_was_said_about_reading(
    train, cli, visits
) -> None:
    rows = [f"{a};{b};{1950 + i}" for i, (a, b) in enumerate(visits)]
    Path("my graph.txt").write_text("who -x;where;when\n" + "\n".join(rows) + "\n")
    names = sorted({name for pair in visits for name in pair})
    kinds = "".join(f"{n}|{'ab'[i % 2]}|word{i % 3} x|1.5\n" for i, n in enumerate(names))
    Path("nodes.csv").write_text("name|kind|-text|size\n" + kinds)
    first = train(
        "my graph.txt", "--source", "who -x", "--target", "where", "--separator", ";", "--header",
        "--time", "when", "--directed", "error", "--bipartite", "yes", "--features", "nodes.csv",
        "--feature-separator", "|", "--one-hot", "kind", "--words=-text", "--test", "0.25",
        "--val", "0.1", "--seed", "3", "--method", "cgcl", "--views", "shared",
    )  # fmt: skip
    command = shlex.split(about(first)["command"])
    assert command[:2] == ["cgcl", "train"]
    again = cli(*command[1:])
    assert again.code == 0, again.err
    second = Path(again.out.strip())
    assert second != first
    for name in ("model.safetensors", "split.safetensors", "graph.safetensors", "metrics.jsonl"):
        assert (second / name).read_bytes() == (first / name).read_bytes(), name
    assert about(second)["command"] == about(first)["command"]


def test_the_command_of_a_run_repeats_a_split_of_ones_own(train, cli, links) -> None:
    write("g.csv", links)
    write("the test.csv", links[:8])
    write("val.csv", links[8:12])
    first = train("g.csv", "--test-edges", "the test.csv", "--val-edges", "val.csv")
    again = cli(*shlex.split(about(first)["command"])[1:])
    assert again.code == 0, again.err
    second = Path(again.out.strip())
    assert (second / "model.safetensors").read_bytes() == (first / "model.safetensors").read_bytes()
    assert load(second)[1].fingerprint == load(first)[1].fingerprint
