"""The whole way on five graphs of different kinds: inspect, train, predict."""

import csv
import json
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
import pyarrow.parquet
import pytest

from cgcl.cli.main import main

TRAIN = ["--epochs", "20", "--hidden", "8", "--threads", "1", "--no-compare"]
Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Example:
    """One graph: how to read it, what it holds, and what should be said about it."""

    file: str
    options: tuple[str, ...]
    links: Callable[[Path], Pairs]
    notes: tuple[str, ...]
    features: bool


def from_graphml(path: Path) -> Pairs:
    return [(str(a), str(b)) for a, b in nx.read_graphml(path).edges]


def from_csv(path: Path) -> Pairs:
    with path.open(newline="", encoding="utf-8") as file:
        return [(a, b) for a, b in list(csv.reader(file))[1:]]


def from_lines(path: Path) -> Pairs:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(a, b) for a, b in (line.split(" ") for line in lines if line[0] not in "#%")]


def from_parquet(path: Path) -> Pairs:
    table = pyarrow.parquet.read_table(path)
    return [(str(row["from"]), str(row["to"])) for row in table.to_pylist()]


MADE = "structural features were made from the links to learn from"
EXAMPLES = {
    "novel": Example(
        "novel.graphml", (), from_graphml, ("Link attribute 'weight' ignored", MADE), False
    ),
    "clubs": Example(
        "clubs.csv",
        ("--source", "woman", "--target", "event"),
        from_csv,
        ("Bipartite: 18 nodes in 'woman', 14 in 'event'", MADE),
        False,
    ),
    "papers": Example(
        "papers.graphml",
        ("--features", "papers-nodes.csv", "--one-hot", "kind", "--words", "abstract",
         "--time", "date"),
        from_graphml,
        ("Direction dropped: links are treated as undirected.", "Tested on the 190 newest links",
         "1 feature with values beyond 10 scaled"),
        True,
    ),
    "names": Example(
        "names.edges", (), from_lines, ("2 lines that begin with # or % skipped.", MADE), False
    ),
    "parcels": Example(
        "parcels.parquet",
        ("--source", "from", "--target", "to", "--features", "parcels-features.mtx",
         "--row-names", "parcels-rows.txt"),
        from_parquet,
        ("Column 'weight' ignored: only the two ends of each link are used.",),
        True,
    ),
}  # fmt: skip


def write_graphs(project: Path, folder: Path) -> Path:
    runpy.run_path(str(project / "examples/make_graphs.py"))["write_graphs"](folder)
    return folder


@pytest.fixture(scope="module")
def graphs(project: Path, tmp_path_factory) -> Path:
    """All five, written once."""
    return write_graphs(project, tmp_path_factory.mktemp("graphs"))


@pytest.fixture
def run(graphs: Path, monkeypatch, capsys) -> Callable[..., tuple[str, str]]:
    """Run a command beside the graphs; return what it printed and what it told."""
    monkeypatch.chdir(graphs)

    def cgcl(*arguments: str) -> tuple[str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        out, err = capsys.readouterr()
        assert stopped.value.code == 0, err
        return out, err

    return cgcl


@pytest.mark.parametrize("name", EXAMPLES)
def test_three_commands_lead_from_a_file_to_new_links(
    run, graphs: Path, tmp_path: Path, name: str
) -> None:
    example = EXAMPLES[name]
    inspected, _ = run("inspect", example.file, *example.options)
    folder, told = run("train", example.file, *example.options, *TRAIN, "--out", str(tmp_path))
    answer, _ = run("predict", folder.strip(), "--top", "20", "--format", "json")

    links = example.links(graphs / example.file)
    known = {frozenset(pair) for pair in links}
    names = {one for pair in known for one in pair}
    size = f"{name}: {len(names)} nodes, {len(known):,} links"
    for fact in (*example.notes, size):
        assert fact in told
        assert fact in inspected
    found = json.loads(answer)
    pairs = {frozenset((link["source"], link["target"])) for link in found}
    assert len(found) == len(pairs) == 20
    assert not pairs & known
    for link in found:
        assert {link["source"], link["target"]} <= names
        assert 0 < link["probability"] < 1
        assert ("common_features" in link) == example.features
    if name == "clubs":  # two kinds of nodes: suggestions go across
        women, events = ({pair[end] for pair in links} for end in (0, 1))
        assert all(link["source"] in women and link["target"] in events for link in found)


def test_the_same_call_writes_the_same_bytes(graphs: Path, project: Path, tmp_path) -> None:
    again = write_graphs(project, tmp_path / "again")
    first, second = ({p.name: p.read_bytes() for p in f.iterdir()} for f in (graphs, again))
    assert len(first) == 8
    assert first == second
