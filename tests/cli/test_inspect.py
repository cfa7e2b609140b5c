"""`cgcl inspect`: what a graph is like and what it would take, without training."""

import json
import re
from pathlib import Path

import pytest

from cgcl.cli.inspect import inspect


@pytest.fixture(autouse=True)
def same_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the machine's own speed, which differs from one to the next."""
    monkeypatch.setattr("cgcl.train.estimate.measure_speed", lambda _: 1.0)
    monkeypatch.setattr("cgcl.memory.free_memory", lambda: 8_000_000_000)


def facts(text: str) -> dict[str, list[str]]:
    """The lines below each heading."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        heading, rest = line[2:14].strip(), line[14:]
        if heading:
            current = found.setdefault(heading, [])
        current.append(rest)
    return found


def files(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*")}


def test_inspect_tells_about_the_graph_and_writes_nothing(cli, friends: Path) -> None:
    before = files(friends.parent)
    result = cli("inspect", friends, "--features", "nodes.csv", "--threads", "1")
    assert (result.code, result.err) == (0, "")
    found = facts(result.out)
    assert list(found) == [
        "Graph", "Pieces", "Links", "Sides", "Features", "Split", "Training", "Next",
    ]  # fmt: skip
    assert found["Graph"][0] == "friends: 10 nodes, 25 links"
    assert found["Pieces"] == ["all nodes hang together"]
    assert found["Links"] == [
        "5.0 at a node on average, 5 in the middle, at most 5 ('007'); 55.6 % of all possible links"
    ]
    assert found["Sides"] == ["none: any two nodes may be linked"]
    assert found["Features"] == ["2 for each node; 10 entries are not zero, kept dense"]
    assert found["Split"] == [
        "not possible as it is.",
        "The graph has 25 links; a 10 % test set would hold 2 links, which cannot be measured.",
        "Use at least 50 links, or train without a test set: --test 0.",
    ]
    quick, best, paper, machine = found["Training"]
    assert quick == "--preset quick: about 321 MB and 2 s (width 128, 200 epochs)"
    assert re.fullmatch(r"--preset best: about \d+ MB and \d+ s \(width 512, 900 epochs\)", best)
    assert re.fullmatch(
        r"--preset paper: about \d+ MB and \d+ s \(width 512, 800 epochs\)", paper
    )  # fmt: skip
    assert machine == "8.0 GB of memory are free; times are for 1 CPU thread"
    assert found["Next"] == [f"cgcl train {friends} --features nodes.csv"]
    assert files(friends.parent) == before


def test_what_reading_did_is_told(cli) -> None:
    rows = [f"a{i},b{i % 7},3" for i in range(60)] + ["a1,a1,2", "b1,a1,1"]
    Path("odd.csv").write_text("source,target,weight\n" + "\n".join(rows) + "\n")
    found = facts(cli("inspect", "odd.csv").out)
    notes = " ".join(found["Graph"])
    assert "1 self-link dropped" in notes
    assert "merged" in notes
    assert "weight" in notes
    assert found["Features"] == ["none"]
    assert found["Pieces"] == [
        "7 that no link joins; the largest has 10 nodes; no node without a link"
    ]
    assert found["Split"][0] == "51 links to learn from, 3 to choose the epoch by, 6 to test on"
    assert any("of test links have no link to learn from" in line for line in found["Split"])


def test_two_sides_are_recognised_and_followed(cli) -> None:
    rows = [f"user{i},film{j}" for i in range(12) for j in range(12) if (i * j) % 3 == 1]
    Path("films.csv").write_text("source,target\n" + "\n".join(rows) + "\n")
    given = facts(cli("inspect", "films.csv", "--bipartite", "yes").out)
    assert given["Sides"] == [
        "two, with 8 and 8 linked nodes: links, counter-examples and suggestions only go across"
    ]
    assert "--bipartite yes" in given["Next"][0]
    found = facts(cli("inspect", "films.csv", "--bipartite", "no").out)
    assert found["Sides"] == [
        "none given, but all links could go across two sides of 8 and 8 nodes "
        "(this is one way to see it)",
        "If these are two kinds of things, such as people and films, add --bipartite yes",
    ]


def test_the_newest_links_are_the_test_if_there_are_times(cli) -> None:
    rows = [f"n{i},n{i + 1},{i}" for i in range(100)]
    Path("days.csv").write_text("source,target,day\n" + "\n".join(rows) + "\n")
    found = facts(cli("inspect", "days.csv", "--time", "day").out)
    assert found["Split"][1] == "Tested on the 10 newest links, from 90 to 99."
    assert found["Next"] == ["cgcl train days.csv --time day"]


def test_json_holds_the_same(cli) -> None:
    answer = json.loads(cli("inspect", "cora", "--json", "--threads", "3").out)
    assert answer["title"] == "cora"
    assert (answer["survey"]["nodes"], answer["survey"]["components"]) == (2708, 78)
    assert answer["split"]["sizes"] == {"train": 4488, "val": 263, "test": 527}
    assert answer["split"]["problem"] is None
    assert answer["costs"]["threads"] == 3
    assert answer["costs"]["free_bytes"] == 8_000_000_000
    quick, paper = answer["costs"]["presets"]["quick"], answer["costs"]["presets"]["paper"]
    assert sum(quick["memory_parts"].values()) == quick["memory_bytes"] < paper["memory_bytes"]
    assert 1 < quick["seconds"] < paper["seconds"]


def test_too_little_memory_is_pointed_out(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cgcl.memory.free_memory", lambda: 100_000_000)
    quick, best, paper, _ = facts(cli("inspect", "cora").out)["Training"]
    assert quick.endswith("(width 128, 200 epochs); does not fit into memory")
    assert best.endswith("(width 512, 500 epochs); does not fit into memory")
    assert paper.endswith("(width 512, 800 epochs); does not fit into memory")


def test_long_lines_are_wrapped_on_a_terminal(cli, capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    inspect("cora")
    lines = capsys.readouterr().out.splitlines()
    assert all(len(line) <= 60 for line in lines)
    start = next(n for n, line in enumerate(lines) if line.startswith("  Links  "))
    assert lines[start + 1].startswith(" " * 14)
    told = " ".join(line.strip() for line in lines[start : start + 3])
    assert "at most 168 ('35'); 0.144 % of all possible links" in told
