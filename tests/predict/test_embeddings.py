from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cgcl.errors import ConfigError, GraphContentError, ModelFileError, ResourceError
from cgcl.graph import Graph
from cgcl.methods.cgcl import CrossViewLearner
from cgcl.methods.heuristics import CommonNeighbours
from cgcl.methods.method import Known
from cgcl.methods.settings import CGCLSettings
from cgcl.model import symmetric
from cgcl.predict import LinkPredictor
from cgcl.predict import embeddings as module
from cgcl.predict.embeddings import csv_blocks, embeddings_of, write_embeddings
from cgcl.readers.npz import read_npz_arrays

NAMES = ("NA", "007", "1e3", "é", "a,b", 'say "hi"', "two\nlines", "=cmd()", " ", "\N{FIRE}")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK", 3)


def numbers(rows: int, columns: int = 4) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float32)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    st.lists(names, unique=True, max_size=8).flatmap(
        lambda found: st.tuples(
            st.just(found), arrays.arrays(np.float32, (len(found), 3), elements=finite)
        )
    )
)
@settings(max_examples=60, deadline=None)
def test_csv_gives_back_every_name_and_every_bit(drawn: tuple[list[str], np.ndarray]) -> None:
    found, z = drawn
    text = "".join(csv_blocks(found, z))
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    assert header == ["node", "z0", "z1", "z2"]
    assert [row[0] for row in rows] == found
    again = np.array([row[1:] for row in rows], dtype=np.float32).reshape(z.shape)
    assert np.array_equal(again, z)


@pytest.mark.parametrize("count", [0, 1, 3, 10])
def test_parquet_holds_a_vector_of_fixed_length_beside_each_name(tmp_path, count: int) -> None:
    z = numbers(count)
    write_embeddings(tmp_path / "z.parquet", NAMES[:count], z, "parquet")
    table = pq.read_table(tmp_path / "z.parquet")
    assert table.schema.field("node").type == pa.string()
    assert table.schema.field("embedding").type == pa.list_(pa.float32(), 4)
    assert table.column("node").to_pylist() == list(NAMES[:count])
    flat = table.column("embedding").combine_chunks().flatten().to_numpy()
    assert np.array_equal(flat.reshape(count, 4), z)


@pytest.mark.parametrize("count", [0, 1, 3, 10])
def test_npz_holds_plain_text_and_numbers(tmp_path: Path, count: int) -> None:
    z = numbers(count)
    write_embeddings(tmp_path / "z.npz", NAMES[:count], z, "npz")
    with zipfile.ZipFile(tmp_path / "z.npz") as archive:
        assert archive.namelist() == ["names.npy", "embeddings.npy"]
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
    write_embeddings(tmp_path / "z.parquet", ["a\0"], numbers(1), "parquet")
    assert pq.read_table(tmp_path / "z.parquet").column("node").to_pylist() == ["a\0"]


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


@pytest.mark.parametrize("kind", ["parquet", "npz", "csv"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, kind, monkeypatch) -> None:
    path = tmp_path / f"z.{kind}"
    path.write_text("old")

    def broken(names, z):
        yield names[:3], z[:3]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_blocks", broken)
    with pytest.raises(ResourceError, match="No space left"):
        write_embeddings(path, NAMES, numbers(10), kind)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def toy() -> Graph:
    return Graph.from_pairs("toy", "abcd", torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.eye(4))


def learner_of(num_features: int = 4) -> CrossViewLearner:
    return CrossViewLearner(num_features, CGCLSettings(hidden=6))


def test_embeddings_are_what_the_encoder_gives_for_the_links_asked_for() -> None:
    graph, model = toy(), learner_of()
    for known in (graph.edges, torch.tensor([[0], [1]])):
        model.eval()
        expected = model.encode(graph.x, symmetric(known)).detach().numpy()
        model.train()
        scorer = model.scorer(Known(4, known, graph.x))
        found = embeddings_of(scorer, "CGCL")
        assert model.training
        assert found.dtype == np.float32
        assert np.array_equal(found, expected)


def test_a_predictor_embeds_all_known_links_or_those_it_is_given(two_cliques: Graph) -> None:
    predictor = LinkPredictor("cgcl", hidden=6, epochs=2, threads=1).fit(two_cliques)
    some = predictor.split_.train
    model = predictor.model_.eval()
    for links, known in ((None, two_cliques.edges), (some, some), (some[:, :1], some[:, :1])):
        with torch.no_grad():
            expected = model.encode(predictor.graph_.x, symmetric(known)).numpy()
        assert np.array_equal(predictor.embeddings(links), expected)


def test_a_broken_model_is_not_passed_on() -> None:
    model = learner_of()
    with torch.no_grad():
        model.encode.bias[0] = torch.nan
    with pytest.raises(ModelFileError, match="embeddings that are not finite"):
        embeddings_of(model.scorer(Known(4, toy().edges, toy().x)), "CGCL")


def test_a_method_without_embeddings_is_refused_by_its_title() -> None:
    with pytest.raises(ConfigError) as error:
        embeddings_of(CommonNeighbours(toy().edges, 4), "Common neighbours")
    assert str(error.value) == (
        "Common neighbours scores pairs as a whole and has no embedding of a node.\n"
        "Train a method that embeds nodes, such as `method=cgcl`."
    )
