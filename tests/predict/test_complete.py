from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cgcl.errors import ConfigError, GraphContentError
from cgcl.graph import Graph
from cgcl.predict.complete import write_completed
from cgcl.predict.links import Links

AWKWARD = ["<script>", "=cmd()", "../../x", 'a"b', "a&b", "line\nbreak", "\U0001f98a", "NA"]


def graph_of(names: list[str]) -> Graph:
    return Graph.from_pairs("known -- graph", names, torch.tensor([[0, 1], [1, 2]]))


def new_links(names: list[str]) -> list[Links]:
    return [
        Links((names[0],), (names[3],), np.float32([0.75]), np.array([0.5])),
        Links((names[1],), (names[3],), np.float32([0.25])),
    ]


def rows(path: Path) -> list[dict[str, object]]:
    if path.suffix == ".graphml":
        found = nx.read_graphml(path)
        return [{"source": a, "target": b, **data} for a, b, data in found.edges(data=True)]
    if path.suffix == ".csv":
        options = pyarrow.csv.ConvertOptions(
            column_types={"source": pyarrow.string(), "target": pyarrow.string()}
        )
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        table = pyarrow.csv.read_csv(path, parse_options=parse, convert_options=options)
        return table.to_pylist()
    return pyarrow.parquet.read_table(path).to_pylist()


@pytest.mark.parametrize("suffix", [".graphml", ".csv", ".parquet"])
def test_known_and_new_links_come_out_together_and_can_be_told_apart(tmp_path, suffix) -> None:
    path = tmp_path / f"graph{suffix}"
    assert write_completed(path, graph_of(AWKWARD), new_links(AWKWARD)) == 2
    found = {
        frozenset((str(row["source"]), str(row["target"]))): (
            row["known"],
            row.get("probability"),
            row.get("score"),
        )
        for row in rows(path)
    }
    assert found == {
        frozenset(AWKWARD[0:2]): (True, None, None),
        frozenset(AWKWARD[1:3]): (True, None, None),
        frozenset((AWKWARD[0], AWKWARD[3])): (False, 0.5, 0.75),
        frozenset((AWKWARD[1], AWKWARD[3])): (False, None, 0.25),
    }
    assert list(tmp_path.iterdir()) == [path]


def test_graphml_keeps_nodes_without_links(tmp_path) -> None:
    write_completed(tmp_path / "g.graphml", graph_of(AWKWARD), [])
    assert set(nx.read_graphml(tmp_path / "g.graphml").nodes) == set(AWKWARD)


XML = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")


@given(st.lists(st.text(XML, min_size=1, max_size=5), min_size=4, max_size=6, unique=True))
def test_names_survive_graphml(tmp_path_factory, names) -> None:
    path = tmp_path_factory.mktemp("g") / "g.graphml"
    write_completed(path, graph_of(names), new_links(names))
    assert set(nx.read_graphml(path).nodes) == set(names)


def test_a_name_that_xml_cannot_write_is_refused_before_anything_is_written(tmp_path) -> None:
    with pytest.raises(GraphContentError, match=r"control character.*\n.*\.csv or \.parquet"):
        write_completed(tmp_path / "g.graphml", graph_of(["a\x01", "b", "c"]), [])
    assert list(tmp_path.iterdir()) == []


def test_another_suffix_is_refused_with_those_that_work(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"\.graphml, \.csv, \.parquet"):
        write_completed(tmp_path / "g.gml", graph_of(AWKWARD), [])


def test_a_failure_while_links_arrive_leaves_the_old_file(tmp_path) -> None:
    path = tmp_path / "g.csv"
    path.write_text("old")

    def failing():
        yield new_links(AWKWARD)[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write_completed(path, graph_of(AWKWARD), failing())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
