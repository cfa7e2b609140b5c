"""Whatever the bytes, only errors of ours escape from the readers of links and of features."""

import io
import random

import networkx as nx
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
from cgcl.readers import read
from cgcl.readers.formats import read_features

fuzzed = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
GRAPH = nx.Graph()
GRAPH.add_edge("a", "é", weight=1.5, when="2024-01-01")
GRAPH.add_node("b", age=3, ok=True)
INDEX = {"edge_index": np.array([[0, 1], [1, 2]]), "names": np.array(["a", "b", "c"])}
PATH = scipy.sparse.csr_array(([1, 1, 1, 1], ([0, 1, 1, 2], [1, 0, 2, 1])), (4, 4))
ADJACENCY = {"data": PATH.data, "indices": PATH.indices, "indptr": PATH.indptr, "shape": (4, 4)}
MATRIX = scipy.sparse.random_array((12, 9), density=0.2, rng=np.random.default_rng(0))
NODES = {
    "node": [f"n{k}" for k in range(12)],
    "a": [float(k) for k in range(12)],
    "colour": ["red", "blue", None] * 4,
    "text": ["one two", "two", "three one"] * 4,
}


def written(write, *parts, **named):
    """Return what a function writes to a file; it takes the file first, or behind the first."""
    buffer = io.BytesIO()
    write(*(buffer if part is io else part for part in parts), **named)
    return buffer.getvalue()


def rows(columns, separator=","):
    lines = [list(columns), *map(list, zip(*columns.values(), strict=True))]
    return "\n".join(separator.join(map(str, line)) for line in lines).encode()


LINKS = {"source": ["a", "b", "é"] * 20, "target": ["b", "c", "d"] * 20}
LINK_FILES = {
    "a.csv": rows(LINKS),
    "quoted.csv": rows({"source": ['"a"', '"b ""c"""'], "target": ["x", '"y,z"']}),
    "a.edges": b"# x\n" + rows(LINKS, " ") + b" {'w': 1}\n",
    "a.parquet": written(parquet.write_table, pa.table(LINKS), io),
    "a.graphml": written(nx.write_graphml_xml, GRAPH, io),
    "a.gexf": written(nx.write_gexf, GRAPH, io),
    "a.npz": written(np.savez, io, **INDEX, x=np.eye(3, dtype=np.float32)),
    "packed.npz": written(np.savez_compressed, io, **INDEX),
    "adjacency.npz": written(np.savez, io, **{f"adj_{k}": part for k, part in ADJACENCY.items()}),
}
FEATURE_FILES = {
    "x.csv": rows(NODES),
    "x.parquet": written(parquet.write_table, pa.table(NODES), io),
    "x.npz": written(scipy.sparse.save_npz, io, MATRIX.tocsr(), compressed=False),
    "x.mtx": written(scipy.io.mmwrite, io, MATRIX),
}


def mutated(content, count):
    """Yield the content with one to four other bytes, and one time of five cut short."""
    chance = random.Random(0)
    for _ in range(count):
        changed = bytearray(content)
        for _ in range(chance.randint(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        yield bytes(changed[: chance.randint(1, len(changed)) if chance.random() < 0.2 else None])


def is_refused(path, content, **options):
    path.write_bytes(content)
    message = ""
    try:
        read(path, **options)
    except CGCLError as error:
        message = str(error)
    assert message.count("\n") < 4
    return bool(message)


def are_refused(path, content):
    path.write_bytes(content)
    has_text = path.suffix in (".csv", ".parquet")
    try:
        found = read_features(
            path, [], **({"one_hot": ["colour"], "words": "text"} if has_text else {})
        )
    except CGCLError:
        return True
    values = found.x.values() if found.x.is_sparse else found.x
    assert torch.isfinite(values).all()
    assert found.x.shape[0] == len(found.names)
    assert list(found.names) == sorted(set(found.names))
    return False


@pytest.mark.parametrize("name", LINK_FILES)
def test_mutated_files_give_a_graph_or_our_error(tmp_path, name):
    assert not is_refused(tmp_path / name, LINK_FILES[name])
    found = [is_refused(tmp_path / name, content) for content in mutated(LINK_FILES[name], 250)]
    assert sum(found) > 25


@pytest.mark.parametrize("name", FEATURE_FILES)
def test_mutated_features_are_read_or_refused(tmp_path, name):
    assert not are_refused(tmp_path / name, FEATURE_FILES[name])
    found = [are_refused(tmp_path / name, content) for content in mutated(FEATURE_FILES[name], 250)]
    assert sum(found) > 25


ALPHABETS = {
    ".csv": 'ab,"\r\n;é',
    ".edges": 'ab #%{}"\n\r\t,;',
    ".parquet": "PAR1\0",
    ".graphml": "<>/a=\"' &;!?",
    ".gexf": "<>/a=\"' &;!?",
    ".npz": "PK\x03\x04",
    ".mtx": "0123456789 .-+eE%\n\t",
}


@pytest.mark.parametrize("suffix", ALPHABETS)
@fuzzed
@given(data=st.data())
def test_arbitrary_content_is_read_or_refused(tmp_path, suffix, data):
    text = st.text(ALPHABETS[suffix], max_size=60).map(str.encode)
    content = data.draw(st.binary(max_size=200) | text)
    if suffix != ".mtx":
        is_text = suffix in (".csv", ".edges")
        is_fine = not is_refused(tmp_path / f"a{suffix}", content)
        assert is_text or not is_fine
        is_refused(tmp_path / f"a{suffix}", content, header=False)
    if suffix in (".csv", ".parquet", ".npz", ".mtx"):
        are_refused(tmp_path / f"x{suffix}", content)
    for field, layout in (("real", "coordinate"), ("pattern", "coordinate"), ("real", "array")):
        head = f"%%MatrixMarket matrix {layout} {field} general\n".encode()
        are_refused(tmp_path / "x.mtx", head + content)
