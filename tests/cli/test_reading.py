"""The options that say how a graph is read: all of them arrive, and a command repeats them."""

import shlex
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Annotated

import pytest
import torch
from cyclopts import App
from hypothesis import example, given
from hypothesis import strategies as st

from cgcl.cli.settings import FLAT, OPTIONS, Reading, flags_of
from cgcl.graph import Graph
from cgcl.testing.graphs import links_graph

app = App(default_parameter=OPTIONS)


@app.command
def echo(graph: str = "cora", *, reading: Annotated[Reading, FLAT] = Reading()) -> Reading:  # noqa: B008
    return reading


@pytest.fixture(autouse=True, scope="module")
def no_data_folder() -> Iterator[None]:
    """Whoever runs this may have named one, which is an option as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CGCL_DATA", raising=False)
        yield


def parsed(words: list[str]) -> Reading:
    return app(["echo", "graph.csv", *words], result_action="return_value", exit_on_error=False)


# Whatever a shell can pass on: no NUL, no half characters.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
paths = st.builds(Path, texts.filter(bool))
OTHERS: dict[str, st.SearchStrategy] = {
    "source": st.none() | texts,
    "target": st.none() | texts,
    "separator": st.none() | texts,
    "header": st.none() | st.booleans(),
    "time": st.none() | texts,
    "directed": st.sampled_from(["drop", "error"]),
    "bipartite": st.sampled_from(["auto", "yes", "no", "columns"]),
    "features": st.none() | paths,
    "feature_separator": st.none() | texts,
    "one_hot": st.lists(texts, max_size=3).map(tuple),
    "words": st.none() | texts,
    "row_names": st.none() | paths,
    "max_memory": st.none() | texts,
    "data_root": st.none() | paths,
}


def test_every_option_takes_part_below() -> None:
    assert set(OTHERS) == {field.name for field in fields(Reading)}
    assert flags_of(Reading()) == []


@given(st.builds(Reading, **OTHERS))
@example(Reading(source="-x", separator="-", one_hot=("--target", "b"), features=Path("-f.csv")))
@example(Reading(header=False))
@example(Reading(header=True, one_hot=("a b", "[1, 2]", '{"a": 1}')))
@example(Reading(separator="\t", time="None", words=""))
def test_a_command_says_all_that_differs_from_the_defaults(reading) -> None:
    assert parsed(shlex.split(shlex.join(flags_of(reading)))) == reading


@pytest.mark.parametrize("command", ["inspect", "train"])
def test_every_command_that_reads_a_graph_passes_all_options_on(cli, monkeypatch, command) -> None:
    seen = []

    def read(graph: str, **options: object) -> Graph:
        seen.append(options)
        return links_graph([(i, (i + 1) % 12) for i in range(12)], 12, torch.eye(12))

    monkeypatch.setattr("cgcl.readers.read", read)
    # A time splits by itself; without it the commands go on with a random split.
    more = {"words": "text", "features": Path("nodes.csv"), "data_root": Path("sets")}
    reading = Reading("from", "to", ";", False, None, "error", "yes", one_hot=("a", "b"), **more)
    training = ["--epochs", "1", "--test", "0", "--val", "0.1", "--hidden", "2", "--no-compare"]
    more = training if command == "train" else []
    result = cli(command, "graph.csv", *flags_of(reading), *more)
    assert result.code == 0, result.err
    assert vars(reading).items() <= seen[0].items()


def test_the_columns_of_further_files_are_read_in_the_same_way(tmp_path) -> None:
    file = tmp_path / "more.csv"
    file.write_text("x;a;b\n1;Anna;Bob\n2;Bob;NA\n")
    table = Reading(source="a", target="b", separator=";").read_links(file)
    pairs = [(table.names[a], table.names[b]) for a, b in table.pairs.T.tolist()]
    assert pairs == [("Anna", "Bob"), ("Bob", "NA")]
    file.write_text("Anna;Bob\nBob;NA\n")
    table = Reading(header=False, separator=";").read_links(file)
    assert table.pairs.shape == (2, 2)
