"""Links, completed graphs and embeddings as files."""

import csv
import io
import json
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cgcl.errors import ConfigError, GraphContentError
from cgcl.graph import Graph
from cgcl.predict import Links
from cgcl.predict import writers as module
from cgcl.predict.writers import csv_blocks, write_completed, write_embeddings, write_links
from cgcl.readers.npz import read_npz_arrays

ANY_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def make(names: list[tuple[str, str]], *, calibrated: bool = True) -> Links:
    scores = np.linspace(0.9, 0.1, len(names), dtype=np.float32)
    return Links(
        tuple(a for a, _ in names),
        tuple(b for _, b in names),
        scores,
        scores.astype(np.float64) / 2 if calibrated else None,
        {"shared_neighbours": list(range(len(names))), "distance": [None] * len(names)},
    )


def written(kind: str, blocks: list[Links], *, excel: bool = False) -> bytes:
    stream = io.BytesIO()
    write_links(stream, blocks, kind, excel=excel)
    return stream.getvalue()


def parsed(kind: str, content: bytes) -> list[dict[str, object]]:
    if kind == "csv":
        return list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    if kind == "json":
        return json.loads(content)
    return pq.read_table(io.BytesIO(content)).to_pylist()


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
@given(st.lists(st.lists(st.tuples(ANY_NAMES, ANY_NAMES), max_size=4), max_size=4))
def test_names_survive_every_format_in_any_number_of_blocks(kind, blocks) -> None:
    links = [make(block) for block in blocks]
    rows = parsed(kind, written(kind, links))
    assert [(row["source"], row["target"]) for row in rows] == [p for b in blocks for p in b]


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_every_format_has_the_same_columns_empty_where_nothing_is_known(kind: str) -> None:
    row = parsed(kind, written(kind, [make([("a", "b")])]))[0]
    columns = ["source", "target", "probability", "score", "shared_neighbours", "distance"]
    assert list(row) == columns
    assert float(str(row["probability"])) == pytest.approx(0.45)
    assert float(str(row["score"])) == pytest.approx(0.9)
    assert int(str(row["shared_neighbours"])) == 0
    bare = parsed(kind, written(kind, [make([("a", "b")], calibrated=False)]))[0]
    assert bare["probability"] == bare["distance"] == ("" if kind == "csv" else None)
    assert parsed(kind, written(kind, [make([])])) == parsed(kind, written(kind, [])) == []
    assert written("csv", []) == b"source,target,probability,score\n"


def test_formulas_are_disarmed_only_when_asked() -> None:
    links = [make([("=cmd()", "+1"), ("-a", "@b")])]
    plain = parsed("csv", written("csv", links))
    assert [row["source"] for row in plain] == ["=cmd()", "-a"]
    for row, guarded in zip(plain, parsed("csv", written("csv", links, excel=True)), strict=True):
        assert guarded == {**row, "source": f"'{row['source']}", "target": f"'{row['target']}"}


def failing():
    yield make([("a", "b")])
    raise RuntimeError("no more")


def test_a_failed_answer_is_not_finished() -> None:
    stream = io.BytesIO()
    with pytest.raises(RuntimeError):
        write_links(stream, failing(), "json")
    with pytest.raises(json.JSONDecodeError):
        json.loads(stream.getvalue())


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
        options = pyarrow.csv.ConvertOptions(column_types={"source": "string", "target": "string"})
        parse = pyarrow.csv.ParseOptions(newlines_in_values=True)
        return pyarrow.csv.read_csv(path, None, parse, options).to_pylist()
    return pq.read_table(path).to_pylist()


@pytest.mark.parametrize("suffix", [".graphml", ".csv", ".parquet"])
def test_known_and_new_links_come_out_together_and_can_be_told_apart(tmp_path, suffix) -> None:
    path = tmp_path / f"graph{suffix}"
    assert write_completed(path, graph_of(AWKWARD), new_links(AWKWARD)) == 2
    columns = ("source", "target", "known", "probability", "score")
    found = [tuple(row.get(name) for name in columns) for row in rows(path)]
    first, second, third, fourth = AWKWARD[:4]
    assert sorted(found, key=str) == sorted(
        [
            (first, second, True, None, None),
            (second, third, True, None, None),
            (first, fourth, False, 0.5, 0.75),
            (second, fourth, False, None, 0.25),
        ],
        key=str,
    )
    assert list(tmp_path.iterdir()) == [path]


XML = st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")


@given(st.lists(st.text(XML, min_size=1, max_size=5), min_size=4, max_size=6, unique=True))
def test_names_survive_graphml(tmp_path_factory, names) -> None:
    path = tmp_path_factory.mktemp("g") / "g.graphml"
    write_completed(path, graph_of(names), new_links(names))
    assert set(nx.read_graphml(path).nodes) == set(names)


def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path) -> None:
    with pytest.raises(GraphContentError, match=r"control character.*\n.*\.csv or \.parquet"):
        write_completed(tmp_path / "g.graphml", graph_of(["a\x01", "b", "c"]), [])
    with pytest.raises(ConfigError, match=r"\.graphml, \.csv, \.parquet"):
        write_completed(tmp_path / "g.gml", graph_of(AWKWARD), [])
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_links_arrive_leaves_the_old_file(tmp_path) -> None:
    path = tmp_path / "g.csv"
    path.write_text("old")
    with pytest.raises(RuntimeError):
        write_completed(path, graph_of(AWKWARD), failing())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


NAMES = ("NA", "007", "1e3", "é", "a,b", 'say "hi"', "two\nlines", "=cmd()", " ", "\N{FIRE}")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS", 3)


def numbers(rows: int, columns: int = 4) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(names, unique=True, max_size=8), arrays.arrays(np.float32, (8, 3), elements=finite))
@settings(max_examples=60, deadline=None)
def test_csv_gives_back_every_name_and_every_bit(found: list[str], z: np.ndarray) -> None:
    z = z[: len(found)]
    text = "".join(csv_blocks(found, z))
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["node", "z0", "z1", "z2"]
    assert [row[0] for row in rows] == found
    again = np.array([row[1:] for row in rows], dtype=np.float32).reshape(z.shape)
    assert np.array_equal(again, z)


@pytest.mark.parametrize("count", [0, 1, 3, 10])
def test_embeddings_come_back_from_parquet_and_npz(tmp_path: Path, count: int) -> None:
    z = numbers(count)
    for kind in ("parquet", "npz"):
        write_embeddings(tmp_path / f"z.{kind}", NAMES[:count], z, kind)
    table = pq.read_table(tmp_path / "z.parquet")
    assert table.schema.field("node").type == pa.string()
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 4)
    assert table.column("node").to_pylist() == list(NAMES[:count])
    flat = table.column("embedding").combine_chunks().flatten().to_numpy()
    assert np.array_equal(flat.reshape(count, 4), z)
    # This reader refuses Python objects.
    found = read_npz_arrays(tmp_path / "z.npz", ["names", "embeddings"])
    assert found["names"].dtype.kind == "U"
    assert found["names"].tolist() == list(NAMES[:count])
    assert found["embeddings"].dtype == np.float32
    assert np.array_equal(found["embeddings"], z)


def test_a_name_that_npz_would_shorten_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphContentError, match=r"NUL at the end of the name 'a\\x00'"):
        write_embeddings(tmp_path / "z.npz", ["a\0"], numbers(1), "npz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["parquet", "npz", "csv"])
def test_equal_embeddings_give_equal_files_and_replace_what_was_there(tmp_path, kind) -> None:
    path = tmp_path / f"z.{kind}"
    path.write_text("old")
    write_embeddings(path, NAMES, numbers(10), kind)
    first = path.read_bytes()
    assert first != b"old"
    # A column or a view of a larger array is no different.
    write_embeddings(path, NAMES, np.asfortranarray(numbers(10)), kind)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]
