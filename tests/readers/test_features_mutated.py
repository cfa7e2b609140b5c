"""Whatever the bytes, only the package's own errors escape from the readers of features."""

import io

import numpy as np
import pyarrow as pa
import pytest
import scipy.io
import scipy.sparse
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from cgcl.errors import CGCLError
from cgcl.readers.formats import read_features

SETTINGS = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
OPTIONS = {"one_hot": ["colour"], "words": "text"}
TABLE = {
    "node": [f"n{k}" for k in range(12)],
    "a": [float(k) for k in range(12)],
    "colour": ["red", "blue", None] * 4,
    "text": ["one two", "two", "three one"] * 4,
}


def packed(kind):
    matrix = scipy.sparse.random_array((12, 9), density=0.2, rng=np.random.default_rng(0))
    buffer = io.BytesIO()
    if kind == "npz":
        scipy.sparse.save_npz(buffer, matrix.tocsr(), compressed=False)
    elif kind == "mtx":
        scipy.io.mmwrite(buffer, matrix)
    elif kind == "parquet":
        parquet.write_table(pa.table(TABLE), buffer)
    else:
        rows = [
            ",".join(TABLE),
            *(",".join(map(str, row)) for row in zip(*TABLE.values(), strict=True)),
        ]
        return "\n".join(rows).encode()
    return buffer.getvalue()


def only_our_errors(path, content):
    path.write_bytes(content)
    try:
        found = read_features(path, [], **(OPTIONS if path.suffix in (".csv", ".parquet") else {}))
    except CGCLError:
        return
    values = found.x.values() if found.x.is_sparse else found.x
    assert torch.isfinite(values).all()
    assert found.x.shape[0] == len(found.names)
    assert list(found.names) == sorted(set(found.names))


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "mtx"])
@SETTINGS
@given(data=st.data())
def test_mutated_files_are_read_or_refused(tmp_path, kind, data):
    content = bytearray(packed(kind))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(content), len(content) // 2, len(content) - 3]))
    only_our_errors(tmp_path / f"x.{kind}", bytes(content[:cut]))


@pytest.mark.parametrize("kind", ["csv", "parquet", "npz", "mtx"])
@SETTINGS
@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path, kind, content):
    only_our_errors(tmp_path / f"x.{kind}", content)


@SETTINGS
@given(
    body=st.text(alphabet="0123456789 .-+eE%\n\t", max_size=60),
    field=st.sampled_from(["real", "integer", "pattern"]),
    layout=st.sampled_from(["coordinate", "array"]),
)
def test_any_matrix_market_body_is_read_or_refused(tmp_path, body, field, layout):
    text = f"%%MatrixMarket matrix {layout} {field} general\n{body}"
    only_our_errors(tmp_path / "x.mtx", text.encode())


@SETTINGS
@given(text=st.text(alphabet='node,a0123 .-e"\n\té', max_size=80))
def test_any_text_is_read_or_refused_as_a_table(tmp_path, text):
    only_our_errors(tmp_path / "x.txt", text.encode())


@SETTINGS
@given(
    cells=st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8), min_size=1, max_size=8
    )
)
def test_words_are_those_between_blanks(cells):
    table = pa.table({"node": [str(k) for k in range(len(cells))], "t": cells})
    vocabulary = sorted({word for cell in cells for word in cell.split()})
    if not vocabulary:
        with pytest.raises(CGCLError, match="has a word"):
            read_features(table, [], words="t")
        return
    found = read_features(table, [], words="t")
    assert found.feature_names == tuple(f"t:{word}" for word in vocabulary)
    x = found.x.to_dense()
    for row, cell in enumerate(cells):
        has = {vocabulary[k] for k in x[row].nonzero().flatten().tolist()}
        assert has == set(cell.split())
    assert set(x.flatten().tolist()) <= {0.0, 1.0}
