"""`cgcl store`, and the other commands on what it makes."""

import json
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from cgcl.errors import TooLargeError
from cgcl.graph import Graph
from cgcl.readers import read

ROWS = [f"n{a:02d},n{b:02d}" for a in range(30) for b in range(a + 1, 30) if a % 3 == b % 3]
TRAIN = ["--epochs", "2", "--hidden", "8", "--threads", "1", "--no-compare"]


@pytest.fixture
def made(cli, tmp_path: Path) -> str:
    """A store of links with features, beside its files."""
    (tmp_path / "links.csv").write_text("source,target\n" + "\n".join(ROWS) + "\nn00,n00\n")
    nodes = "".join(f"n{k:02d},{k % 3},{k / 7:.3f}\n" for k in range(31))
    (tmp_path / "nodes.csv").write_text("node,u,v\n" + nodes)
    result = cli("store", "links.csv", "big", "--features", "nodes.csv", "--max-memory", "1GB")
    assert (result.code, result.out) == (0, "big\n")
    assert result.err == (
        "  Graph       links: 31 nodes, 135 links, 2 features\n"
        "              1 node of nodes.csv without links kept as isolated.\n"
        "              1 self-link dropped.\n"
        "  Next        cgcl train big\n"
    )
    return "big"


def test_a_store_is_inspected_like_its_file(cli, made: str) -> None:
    store = json.loads(cli("inspect", made, "--json").out)
    whole = json.loads(cli("inspect", "links.csv", "--features", "nodes.csv", "--json").out)
    for part in ("title", "survey", "notes", "split"):
        assert store[part] == whole[part]


def test_training_on_a_store_gives_the_same_bits(cli, made: str) -> None:
    store = cli("train", made, *TRAIN)
    whole = cli("train", "links.csv", "--features", "nodes.csv", *TRAIN)
    assert (store.code, whole.code) == (0, 0), store.err
    one, other = (Path(run.out.strip()) for run in (store, whole))
    weights, same = (load_file(run / "model.safetensors") for run in (one, other))
    assert all(weights[name].equal(same[name]) for name in same)
    stored, read_whole = ((run / "graph.safetensors").read_bytes() for run in (one, other))
    assert stored == read_whole
    assert cli("predict", one, "--top", "3").out == cli("predict", other, "--top", "3").out


def test_an_audit_of_a_store_compares_every_byte(cli, made: str) -> None:
    assert cli("audit", made).out.startswith("The store is whole: ")
    assert json.loads(cli("audit", made, "--json").out)["is_whole"] is True
    links = Path(made, "links.npy")
    content = bytearray(links.read_bytes())
    content[-8] ^= 1
    links.write_bytes(content)
    for line in (["audit", made], ["train", made], ["inspect", made]):
        result = cli(*line)
        assert result.code == 1
        assert result.err == (
            "Error: The store big is damaged: links.npy has other bytes than were written: its "
            "checksum differs.\nMake it again from its source: cgcl store\n"
        )


def test_the_same_command_again_is_done_at_once(cli, made: str) -> None:
    again = cli("store", "links.csv", made, "--features", "nodes.csv")
    assert (again.code, again.out) == (0, "big\n")
    assert "It was made before, of the same files." in again.err
    other = cli("store", "nodes.csv", made)
    assert other.code == 2
    assert "big is there already. Choose another folder, or delete it." in other.err
    assert cli("inspect", made, "--source", "u").code == 2


def test_what_cannot_be_stored_is_refused(cli, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "links.csv").write_text("source,target\na\n")
    (tmp_path / "graph.gexf").write_text("<gexf/>")
    for graph, words in (
        ("links.csv", "links.csv, line 2: 1 column, expected 2"),
        ("graph.gexf", "no store is made of files of the kind '.gexf'"),
        ("nowhere.csv", "No such file: nowhere.csv"),
        (".", "expected the parts of one table"),
    ):
        result = cli("store", graph, "s")
        assert (result.code, result.out) == (1, "")
        assert words in result.err
        assert not (tmp_path / "s").exists()
    assert cli("store", "links.csv", "s", "--max-memory", "plenty").code == 2
    monkeypatch.setattr("cgcl.readers.store_build.find_spec", lambda _: None)
    assert "pip install 'cgcl[store]'" in cli("store", "links.csv", "s").err


def test_what_is_too_large_becomes_a_store_by_itself(cli, made: str, monkeypatch) -> None:
    def read_stores(graph: str | Path, **options: object) -> Graph:
        if Path(graph).suffix == ".csv":
            raise TooLargeError("too large")
        return read(graph, **options)

    monkeypatch.setattr("cgcl.readers.read", read_stores)
    line = ["inspect", "links.csv", "--features", "nodes.csv"]
    for _ in range(2):  # the second time it is there
        result = cli(*line)
        assert (result.code, result.out[:49]) == (0, cli("inspect", made).out[:49])
        assert "links.csv takes too much memory as a whole: links.csv.store is" in result.err
    for option in (["--words", "u"], ["--max-memory", "1MB"], ["--one-hot", "v"]):
        result = cli(*line, *option)
        assert (result.code, result.err) == (1, "Error: too large\n")


def test_opening_a_store_needs_no_engine(cli, made: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert read(made).num_edges == 135
