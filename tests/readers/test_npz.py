import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from cgcl.errors import ConfigError, FeatureError, GraphFormatError, ResourceError
from cgcl.memory import reading_at_most
from cgcl.readers import load_dataset, npz, read
from cgcl.readers.npz import arrays_sha256, npz_array_names, read_npz_arrays


class Touch:
    """Unpickling this would make a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_arrays_come_back_and_other_members_are_not_opened(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, a=np.arange(3), other=np.array([{}], dtype=object))
    assert npz_array_names(path) == ("a", "other")
    assert read_npz_arrays(path, ["a"])["a"].tolist() == [0, 1, 2]


def test_a_pickle_in_an_archive_is_refused_and_never_run(tmp_path):
    path, touched = tmp_path / "a.npz", tmp_path / "touched"
    np.savez(path, a=np.array([Touch(touched)], dtype=object))
    with pytest.raises(GraphFormatError) as caught:
        read_npz_arrays(path, ["a"])
    assert str(caught.value) == (
        "a.npz: array 'a' holds Python objects (a pickle).\n"
        "Pickles are never opened because they can run code. Save plain numbers or text."
    )
    path.write_bytes(b"cbuiltins\nopen\n(V%b\nVw\ntR." % bytes(touched))
    for opening in (npz_array_names, lambda path: read_npz_arrays(path, ["a"])):
        with pytest.raises(GraphFormatError, match=r"damaged or not an \.npz archive"):
            opening(path)
    assert not touched.exists()


def test_an_archive_that_unpacks_to_too_much_is_refused_before_unpacking(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "MAX_MEMBERS", 10)
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, a=np.zeros(10_000_000, dtype=np.int8))
    assert path.stat().st_size < 20_000
    with reading_at_most("1MB"), pytest.raises(ResourceError, match=r"takes up to 120 MB"):
        read_npz_arrays(path, ["a"])
    np.savez(path, **{f"a{n}": np.zeros(1) for n in range(20)})
    with pytest.raises(GraphFormatError, match="has 20 members, at most 10"):
        read_npz_arrays(path, ["a1"])


def test_a_header_that_claims_more_than_its_member_holds_is_refused(tmp_path):
    path, member = tmp_path / "liar.npz", io.BytesIO()
    np.lib.format.write_array_header_1_0(
        member, {"descr": "<f8", "fortran_order": False, "shape": (10**15,)}
    )
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", member.getvalue() + b"12345678")
    with pytest.raises(GraphFormatError, match="claims 8,000,000,000,000,000 bytes but its member"):
        read_npz_arrays(path, ["a"])


def test_the_digest_of_arrays_ignores_width_and_order_of_bytes_but_not_content():
    plain = {"a": np.arange(4, dtype=np.int32), "b": np.ones(2, dtype=np.float32)}
    wide = {"b": np.ones(2, dtype=">f8"), "a": np.arange(4, dtype=">i8")}
    assert arrays_sha256(plain) == arrays_sha256(wide)
    assert arrays_sha256(plain) != arrays_sha256({**plain, "a": np.arange(1, 5)})
    assert arrays_sha256(plain) != arrays_sha256({**plain, "a": np.arange(4).reshape(2, 2)})


def test_an_archive_of_little_but_zeros_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, a=np.zeros(10_000_000, dtype=np.int8))
    assert len(read_npz_arrays(path, ["a"])["a"]) == 10_000_000  # small enough to do no harm
    monkeypatch.setattr(npz, "_HARMLESS_BYTES", 1_000_000)
    with pytest.raises(GraphFormatError, match="to 10,000,128, more than 200 times as many"):
        read_npz_arrays(path, ["a"])
    np.savez(path, a=np.zeros(10_000_000, dtype=np.int8))  # as large as it says
    assert len(read_npz_arrays(path, ["a"])["a"]) == 10_000_000


# --- Graphs in archives ---

SHARED = Path(os.environ.get("CGCL_DATA") or Path(__file__).parents[3] / "shared" / "data")
PATH_GRAPH = scipy.sparse.coo_array(([1, 1, 1, 1], ([0, 1, 1, 2], [1, 0, 2, 1])), (4, 4))


def parts(matrix, prefix):
    found = scipy.sparse.csr_array(matrix)
    arrays = {"data": found.data, "indices": found.indices, "indptr": found.indptr}
    return {f"{prefix}_{key}": value for key, value in {**arrays, "shape": found.shape}.items()}


def test_a_scipy_matrix_is_read_with_its_isolated_nodes(tmp_path):
    scipy.sparse.save_npz(tmp_path / "a.npz", PATH_GRAPH.tocsr())
    graph = read(tmp_path / "a.npz")
    assert (graph.names, graph.edges.tolist()) == (("0", "1", "2", "3"), [[0, 1], [1, 2]])
    assert graph.notes == ()  # both directions are how a matrix says it once


def test_entries_that_are_zero_are_no_links_and_other_values_are_noted():
    matrix = scipy.sparse.coo_array(([2.5, 0.0, 1e-60], ([0, 1, 2], [1, 2, 3])), (4, 4))
    graph = read(matrix)
    assert graph.edges.tolist() == [[0, 2], [1, 3]]
    assert graph.notes == ("The matrix's values ignored: only the two ends of each link are used.",)


def test_the_layout_of_the_amazon_files_brings_features(tmp_path):
    path = tmp_path / "a.npz"
    x = np.array([[0, 2, 0, 0, 0, 0, 0, 0]] * 4)
    np.savez(path, **parts(PATH_GRAPH, "adj"), **parts(x, "attr"), labels=np.arange(4))
    graph = read(path)
    assert graph.edges.tolist() == [[0, 1], [1, 2]]
    assert graph.x.to_dense().tolist() == x.tolist()
    np.savez(path, **parts(PATH_GRAPH, "adj"), **parts(x[:3], "attr"))
    with pytest.raises(FeatureError, match="has 3 rows, expected a row for each of 4 nodes"):
        read(path)


@pytest.mark.skipif(not (SHARED / "Photo" / "raw").is_dir(), reason="the raw files are not here")
def test_an_amazon_file_gives_the_links_of_the_data_set():
    path = SHARED / "Photo" / "raw" / "amazon_electronics_photo.npz"
    assert read(path).edges.equal(load_dataset("photo", SHARED, download=False).edges)


def test_an_edge_index_may_come_with_names_features_and_times(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(
        path,
        edge_index=np.array([[2, 0], [0, 1]]),
        names=np.array(["c", "b", "a", "é"]),
        x=np.eye(4),
        when=np.array(["2024-01-02", "2024-01-01"], dtype="datetime64[s]"),
    )
    graph = read(path, time="when")
    assert graph.names == ("c", "b", "a", "é")  # the order of the rows
    assert graph.edges.tolist() == [[0, 0], [1, 2]]
    assert graph.times.tolist() == [1704067200.0, 1704153600.0]
    assert graph.x.to_dense().tolist() == np.eye(4).tolist()


INDEX = {"edge_index": np.array([[0, 1], [1, 2]])}
MATRIX = {
    "format": np.array("csr"),
    "shape": np.array([3, 3]),
    "data": np.ones(1),
    "indices": np.array([1]),
    "indptr": np.array([0, 1, 1, 1]),
}
BAD = [
    ({"a": np.ones(2), "b": np.ones(2)}, "holds no graph. Arrays found: a, b."),
    ({"adj_data": np.ones(1)}, "holds no graph. Arrays found: adj_data."),
    ({"edge_index": np.ones((2, 3))}, "a.npz: edge_index holds float64, expected whole numbers"),
    ({**INDEX, "names": np.array(["a"])}, "must lie in 0..0, found 0..2"),
    ({**INDEX, "names": np.array(["a", "a", "b"])}, "two nodes are called 'a'"),
    ({**INDEX, "names": np.array(["a", "", "b"])}, "a node has an empty name"),
    ({**INDEX, "names": np.arange(3)}, "Expected a text per node"),
    ({**INDEX, "names": np.array([b"\xe9", b"a", b"b"])}, "not UTF-8"),
    ({**INDEX, "num_nodes": np.array(2)}, "must lie in 0..1, found 0..2"),
    ({"edge_index": np.array([[0], [-1]]), "num_nodes": np.array(2)}, "0..1, found -1..0"),
    ({**INDEX, "num_nodes": np.array(10**12)}, "claims 1,000,000,000,000 nodes"),
    ({**INDEX, "num_nodes": np.array(3), "x": np.eye(2)}, "a.npz: x has 2 rows, expected a row"),
    ({**INDEX, "x": np.array([["a"]] * 3)}, "a.npz: x holds values of the type <U1"),
    (MATRIX | {"shape": np.array([1, 3]), "indptr": np.array([0, 1])}, "has the shape 1 x 3, but"),
    (MATRIX | {"data": np.array([np.nan])}, "holds values that are no finite numbers"),
    ({"edge_index": np.array([{}], dtype=object)}, "holds Python objects (a pickle)"),
]


@pytest.mark.parametrize(("arrays", "message"), BAD)
def test_bad_arrays_are_refused_with_what_is_expected(tmp_path, arrays, message):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    with pytest.raises((FeatureError, GraphFormatError)) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(caught.value).count("\n") < 4


def test_times_must_be_there_and_fit(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, **INDEX, t=np.ones(3))
    with pytest.raises(GraphFormatError, match="has no array 'when' for the times"):
        read(path, time="when")
    scipy.sparse.save_npz(path, PATH_GRAPH)
    with pytest.raises(ConfigError, match="holds a matrix, which has no times"):
        read(path, time="t")
