"""Features from matrices: .npz, .mtx, numpy, scipy, torch."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import torch

from cgcl.errors import ConfigError, FeatureError, GraphFormatError
from cgcl.readers.features import read_features

DENSE = np.zeros((4, 6), dtype=np.float32)
DENSE[[0, 1, 3], [5, 2, 0]] = [7, 1.5, -2]
NAMES = ["d", "c", "b", "a"]


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_a_saved_matrix_is_read_and_stays_sparse(tmp_path, kind):
    path = tmp_path / "x.npz"
    scipy.sparse.save_npz(path, scipy.sparse.coo_array(DENSE).asformat(kind))
    found = read_features(path, ["0", "3"])
    assert found.names == ("0", "1", "2", "3")
    assert found.x.is_sparse
    assert np.array_equal(found.x.to_dense().numpy(), DENSE)
    assert found.feature_names == ()
    assert found.notes == (
        "2 nodes of x.npz without links kept as isolated.",
        "Features 2, 4, 5 are zero for every node.",
    )


def write_mtx(tmp_path, text):
    path = tmp_path / "x.mtx"
    path.write_text(text)
    return path


MARKET = {
    "real": "%%MatrixMarket matrix coordinate real general\n% hi\n\n2 3 2\n1 2 0.5\n2 3 -1e1\n",
    "integer": "%%matrixmarket MATRIX Coordinate integer general\n2 3 2\n1 2 3\n2 3 4\n",
    "pattern": "%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 2\n2 3\n",
    "array": "%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6\n",
    "twice": "%%MatrixMarket matrix coordinate real general\n2 3 2\n1 2 1\n1 2 2\n",
}


@pytest.mark.parametrize("case", MARKET)
def test_matrix_market_files_are_read(tmp_path, case):
    found = read_features(write_mtx(tmp_path, MARKET[case]), ["0", "1"])
    expected = {
        "real": [[0, 0.5, 0], [0, 0, -10]],
        "integer": [[0, 3, 0], [0, 0, 4]],
        "pattern": [[0, 1, 0], [0, 0, 1]],
        "array": [[1, 3, 5], [2, 4, 6]],
        "twice": [[0, 3, 0], [0, 0, 0]],
    }
    assert found.x.to_dense().tolist() == expected[case]


def test_what_scipy_writes_is_read_back(tmp_path):
    scipy.io.mmwrite(tmp_path / "x.mtx", scipy.sparse.csr_array(DENSE))
    found = read_features(tmp_path / "x.mtx", [])
    assert found.x.is_sparse
    assert np.array_equal(found.x.to_dense().numpy(), DENSE)


BAD_MARKET = {
    "no header": ("2 3 1\n1 1 1\n", "x.mtx, line 1: expected '%%MatrixMarket matrix coordinate"),
    "empty": ("", "x.mtx, line 1: expected '%%MatrixMarket"),
    "symmetric": (
        "%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 1 1\n",
        "a matrix that is 'coordinate real symmetric' is not read as features",
    ),
    "complex": (
        "%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1 0\n",
        "a matrix that is 'coordinate complex general' is not read",
    ),
    "no size": (
        "%%MatrixMarket matrix coordinate real general\n% only\n",
        "the line with the matrix's size is missing or wrong, found ''",
    ),
    "bad size": (
        "%%MatrixMarket matrix coordinate real general\n2 -3 1\n",
        "size is missing or wrong, found '2 -3 1'",
    ),
    "two sizes": (
        "%%MatrixMarket matrix coordinate real general\n2 3\n1 1 1\n",
        "size is missing or wrong, found '2 3'",
    ),
    "too many rows": (
        "%%MatrixMarket matrix coordinate real general\n99999999999 3 1\n1 1 1\n",
        "is a matrix of 99,999,999,999 rows and 3 columns",
    ),
    "a bomb": (
        "%%MatrixMarket matrix coordinate real general\n9 9 999999999999\n1 1 1\n",
        r"claims 999,999,999,999 entries but has \d+ characters only",
    ),
    "a dense bomb": (
        "%%MatrixMarket matrix array real general\n9999999 99999\n1\n",
        "claims 999,989,900,001 entries but has",
    ),
    "outside": (
        "%%MatrixMarket matrix coordinate real general\n2 3 1\n3 1 1.0\n",
        "has an entry outside its 2 rows and 3 columns, which count from 1",
    ),
    "cut off": (
        "%%MatrixMarket matrix coordinate real general\n2 3 2\n1 1 1.0\n",
        "claims 2 entries of 3 numbers each, found 3 numbers",
    ),
    "no number": (
        "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 abc\n",
        "x.mtx is damaged: text among the numbers",
    ),
    "almost a number": (
        "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1e\n",
        "x.mtx is damaged: could not convert",
    ),
    "half an index": (
        "%%MatrixMarket matrix coordinate real general\n2 3 1\n1.5 1 1\n",
        "has an entry outside",
    ),
    "no index": (
        "%%MatrixMarket matrix coordinate real general\n2 3 1\nnan 1 1\n",
        "has an entry outside",
    ),
    "counted from 0": (
        "%%MatrixMarket matrix coordinate pattern general\n2 3 1\n0 1\n",
        "has an entry outside",
    ),
    "a full pattern": (
        "%%MatrixMarket matrix array pattern general\n1 1\n1\n",
        "a matrix that is 'array pattern general' is not read",
    ),
}


@pytest.mark.parametrize("case", BAD_MARKET)
def test_damaged_matrix_market_files_are_refused(tmp_path, case):
    text, message = BAD_MARKET[case]
    with pytest.raises(GraphFormatError, match=message):
        read_features(write_mtx(tmp_path, text), [])


def csr(**changes):
    good = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 3]),
        "indptr": np.array([0, 1, 2]),
        "indices": np.array([0, 2]),
        "data": np.array([1.0, 2.0]),
    }
    return {**good, **changes}


BAD_NPZ = {
    "another format": (csr(format=np.array(b"dia")), GraphFormatError, "of the format 'dia'"),
    "three dimensions": (csr(shape=np.array([2, 3, 4])), GraphFormatError, r"shape \[2, 3, 4\]"),
    "half a row": (csr(shape=np.array([2.5, 3])), GraphFormatError, r"shape \[2\.5, 3\.0\]"),
    "no columns": (csr(shape=np.array([2, 0])), GraphFormatError, "2 rows and 0 columns"),
    "huge": (csr(shape=np.array([10**12, 3])), GraphFormatError, "1,000,000,000,000 rows"),
    "starts missing": (csr(indptr=np.array([0, 2])), GraphFormatError, "do not describe a matrix"),
    "starts go back": (csr(indptr=np.array([0, 3, 2])), GraphFormatError, "do not describe"),
    "starts lie": (csr(indptr=np.array([0, 1, 10**15])), GraphFormatError, "do not describe"),
    "column outside": (csr(indices=np.array([0, 3])), GraphFormatError, "do not describe"),
    "negative column": (csr(indices=np.array([0, -1])), GraphFormatError, "do not describe"),
    "columns with commas": (csr(indices=np.array([0.0, 1.5])), GraphFormatError, "do not describe"),
    "values missing": (csr(data=np.array([1.0])), GraphFormatError, "do not describe"),
    "text": (csr(data=np.array(["1", "x"])), FeatureError, "expected real numbers"),
    "complex": (csr(data=np.array([1j, 1])), FeatureError, "type complex128, expected real"),
    "NaN": (
        csr(data=np.array([1.0, np.nan])),
        FeatureError,
        r"x\.npz: feature 3 of node '1' is 'nan', not a finite number\.\nEvery feature must",
    ),
    "too large": (csr(data=np.array([1e39, 1])), FeatureError, "feature 1 of node '0' is 'inf'"),
    "something else": ({"x": np.ones(3)}, GraphFormatError, "has no array 'format'"),
}


@pytest.mark.parametrize("case", BAD_NPZ)
def test_damaged_archives_are_refused(tmp_path, case):
    arrays, kind, message = BAD_NPZ[case]
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(kind, match=message):
        read_features(tmp_path / "x.npz", [])


def test_an_array_of_python_objects_is_never_opened(tmp_path):
    np.savez(tmp_path / "x.npz", **csr(data=np.array([object(), 1], dtype=object)))
    with pytest.raises(GraphFormatError, match="holds Python objects"):
        read_features(tmp_path / "x.npz", [])


@pytest.mark.parametrize(
    "matrix",
    [
        DENSE,
        DENSE.astype(np.float64),
        scipy.sparse.csr_array(DENSE),
        scipy.sparse.csc_matrix(DENSE),
        torch.from_numpy(DENSE),
        torch.from_numpy(DENSE).to_sparse_coo(),
        torch.from_numpy(DENSE).bfloat16(),
    ],
    ids=["numpy", "double", "csr", "csc", "torch", "sparse torch", "bfloat16"],
)
def test_matrices_in_memory_are_read_with_the_names_of_their_rows(matrix):
    found = read_features(matrix, ["a"], row_names=NAMES)
    assert found.names == ("a", "b", "c", "d")
    assert found.x.is_sparse
    assert np.array_equal(found.x.to_dense().numpy(), DENSE[::-1])


def test_a_matrix_in_memory_is_not_changed_and_not_shared():
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
    found = read_features(matrix, [])
    matrix[:] = 0
    assert found.x.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("matrix", "kind", "message"),
    [
        (np.ones(3), FeatureError, r"has the shape \[3\], expected two dimensions"),
        (torch.ones(2, 2, 2), FeatureError, r"has the shape \[2, 2, 2\]"),
        (torch.ones(2, 2, 2).to_sparse_coo(), FeatureError, r"has the shape \[2, 2, 2\]"),
        (np.array([["a"]]), FeatureError, "type <U1, expected real numbers"),
        (np.ones((0, 3)), GraphFormatError, "0 rows and 3 columns"),
        (np.array([[1.0, np.inf]]), FeatureError, "feature 2 of node '0' is 'inf'"),
        ([[1, 2]], FeatureError, "Features of the type list are not read"),
        (None, FeatureError, "Features of the type NoneType are not read"),
    ],
)
def test_objects_that_are_no_matrix_of_numbers_are_refused(matrix, kind, message):
    with pytest.raises(kind, match=message):
        read_features(matrix, [])


def test_names_of_rows_come_from_a_file(tmp_path):
    names = tmp_path / "names.txt"
    names.write_bytes("\ufeffd\r\nc c\nÄ,1\r0\n".encode())
    found = read_features(DENSE, ["d"], row_names=names)
    assert found.names == ("0", "c c", "d", "Ä,1")
    assert np.array_equal(found.x.to_dense().numpy(), DENSE[[3, 1, 0, 2]])
    assert read_features(DENSE, [], row_names=str(names)).names == found.names


BAD_ROW_NAMES = {
    "too few": (
        "a\nb\n",
        FeatureError,
        "features (ndarray) has 4 rows, but names.txt has 2 names.\n"
        "Give one name per row, in the order of the rows.",
    ),
    "an empty line": (
        "a\n\nc\nd\n",
        GraphFormatError,
        "names.txt, line 2: an empty line, expected one node name per line of up to 1,000 "
        "characters.",
    ),
    "too long": (
        "a" * 1001,
        GraphFormatError,
        "names.txt, line 1: a node name of 1,001 characters, expected one node name per line of "
        "up to 1,000 characters.",
    ),
    "twice": (
        "a\nb\na\nd\n",
        FeatureError,
        "features (ndarray): more than one row for node 'a'.\nKeep one row per node; 1 too many.",
    ),
    "another node": (
        "a\nb\nc\nd\n",
        FeatureError,
        "features (ndarray) has no row for 1 node with links: 'Zoe'.\n"
        "Add a row for each, or leave their links out.",
    ),
}


@pytest.mark.parametrize("case", BAD_ROW_NAMES)
def test_names_that_do_not_fit_are_refused(tmp_path, case):
    text, kind, message = BAD_ROW_NAMES[case]
    path = tmp_path / "names.txt"
    path.write_text(text)
    with pytest.raises(kind) as caught:
        read_features(DENSE, ["Zoe"], row_names=path)
    assert str(caught.value) == message


def test_rows_without_names_need_nodes_called_by_number():
    with pytest.raises(FeatureError) as caught:
        read_features(DENSE, ["0", "Anna", "4", "03"])
    assert str(caught.value) == (
        "features (ndarray) has 4 rows without names, so they belong to the nodes called 0 to "
        "3.\n3 nodes with links are called otherwise: '03', '4', 'Anna'.\n"
        "Give a text file with the node of each row, one name per line: `row_names=FILE`"
    )
    with pytest.raises(FeatureError, match=r"Row 1 of features \(ndarray\) is called 7"):
        read_features(DENSE, [], row_names=["a", 7, "c", "d"])


def test_a_matrix_has_no_columns_of_text():
    with pytest.raises(ConfigError, match="A matrix of features has numbers only"):
        read_features(DENSE, [], words="text")


def test_a_long_matrix_market_file_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("cgcl.readers.matrix_market._BLOCK_BYTES", 16)
    matrix = scipy.sparse.random_array((30, 20), density=0.1, rng=np.random.default_rng(0))
    scipy.io.mmwrite(tmp_path / "x.mtx", matrix)
    found = read_features(tmp_path / "x.mtx", [], row_names=[f"{k:02d}" for k in range(30)])
    assert np.array_equal(found.x.to_dense().numpy(), matrix.toarray().astype(np.float32))


def test_a_full_column_of_a_sparse_matrix_is_constant_only_if_its_values_are():
    matrix = np.zeros((4, 12), dtype=np.float32)
    matrix[:, 0], matrix[:, 1], matrix[0, 2:] = [1, 2, 3, 4], 5, 1
    found = read_features(scipy.sparse.csr_array(matrix), [], row_names=NAMES)
    assert not found.x.is_sparse
    matrix[0, 2:] = 0
    matrix[0, 3] = -1
    found = read_features(scipy.sparse.csr_array(matrix), ["a", "b", "c", "d"], row_names=NAMES)
    assert found.x.is_sparse
    assert found.notes == (
        "Feature 2 is the same for every node.",
        "Features 3, 5, 6, 7, 8 and 4 more are zero for every node.",
    )
