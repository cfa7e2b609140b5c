"""Features from matrices: .npz, .mtx, numpy, scipy, torch."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse
import torch

from cgcl.errors import ConfigError, FeatureError, GraphFormatError
from cgcl.readers.formats import read_features

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


REAL = "%%MatrixMarket matrix coordinate real general\n"
ARRAY = "%%MatrixMarket matrix array real general\n"
PATTERN = "%%MatrixMarket matrix coordinate pattern general\n"
MARKET = [
    (REAL + "% hi\n\n2 3 2\n1 2 0.5\n2 3 -1e1\n", [[0, 0.5, 0], [0, 0, -10]]),
    (REAL + "2 3 2\n1 2 1\n1 2 2\n", [[0, 3, 0], [0, 0, 0]]),  # listed twice
    (
        "%%matrixmarket MATRIX Coordinate integer general\n2 3 2\n1 2 3\n2 3 4\n",
        [[0, 3, 0], [0, 0, 4]],
    ),
    (PATTERN + "2 3 2\n1 2\n2 3\n", [[0, 1, 0], [0, 0, 1]]),
    (ARRAY + "2 3\n1\n2\n3\n4\n5\n6\n", [[1, 3, 5], [2, 4, 6]]),
]


@pytest.mark.parametrize(("text", "expected"), MARKET)
def test_matrix_market_files_are_read(write, text, expected):
    assert read_features(write("x.mtx", text), []).x.to_dense().tolist() == expected


BAD_MARKET = [
    ("2 3 1\n1 1 1\n", "x.mtx, line 1: expected '%%MatrixMarket matrix coordinate"),
    *(
        (
            f"%%MatrixMarket matrix {kind}\n1 1 1\n1 1 1\n",
            f"a matrix that is '{kind}' is not read as",
        )
        for kind in (
            "coordinate real symmetric",
            "coordinate complex general",
            "array pattern general",
        )
    ),
    (REAL + "% only\n", "the line with the matrix's size is missing or wrong, found ''"),
    (REAL + "2 -3 1\n", "size is missing or wrong, found '2 -3 1'"),
    (REAL + "99999999999 3 1\n1 1 1\n", "is a matrix of 99,999,999,999 rows and 3 columns"),
    (REAL + "9 9 999999999999\n1 1 1\n", r"claims 999,999,999,999 entries but has \d+ characters"),
    (ARRAY + "9999999 99999\n1\n", "claims 999,989,900,001 entries but has"),
    (REAL + "2 3 1\n3 1 1.0\n", "an entry outside its 2 rows and 3 columns, which count from 1"),
    (REAL + "2 3 2\n1 1 1.0\n", "claims 2 entries of 3 numbers each, found 3 numbers"),
    (REAL + "2 3 1\n1 1 abc\n", "x.mtx is damaged: could not convert string 'abc'"),
    (REAL + "2 3 1\n1.5 1 1\n", "has an entry outside"),
    (PATTERN + "2 3 1\n0 1\n", "has an entry outside"),
]


@pytest.mark.parametrize(("text", "message"), BAD_MARKET)
def test_damaged_matrix_market_files_are_refused(write, text, message):
    with pytest.raises(GraphFormatError, match=message):
        read_features(write("x.mtx", text), [])


def csr(**changes):
    good = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 3]),
        "indptr": np.array([0, 1, 2]),
        "indices": np.array([0, 2]),
        "data": np.array([1.0, 2.0]),
    }
    return {**good, **changes}


BAD_NPZ = [
    (csr(format=np.array(b"dia")), GraphFormatError, "of the format 'dia'"),
    (csr(shape=np.array([2, 3, 4])), GraphFormatError, r"shape \[2, 3, 4\]"),
    (csr(shape=np.array([2.5, 3])), GraphFormatError, r"shape \[2\.5, 3\.0\]"),
    (csr(shape=np.array([2, 0])), GraphFormatError, "2 rows and 0 columns"),
    (csr(shape=np.array([10**12, 3])), GraphFormatError, "1,000,000,000,000 rows"),
    (csr(indptr=np.array([0, 2])), GraphFormatError, "do not describe a matrix"),
    (csr(indptr=np.array([0, 3, 2])), GraphFormatError, "do not describe"),
    (csr(indptr=np.array([0, 1, 10**15])), GraphFormatError, "do not describe"),
    (csr(indices=np.array([0, 3])), GraphFormatError, "do not describe"),
    (csr(indices=np.array([0, -1])), GraphFormatError, "do not describe"),
    (csr(indices=np.array([0.0, 1.5])), GraphFormatError, "do not describe"),
    (csr(data=np.array([1.0])), GraphFormatError, "do not describe"),
    (csr(data=np.array(["1", "x"])), FeatureError, "expected real numbers"),
    (csr(data=np.array([1j, 1])), FeatureError, "type complex128, expected real"),
    (
        csr(data=np.array([1.0, np.nan])),
        FeatureError,
        r"x\.npz: feature 3 of node '1' is 'nan', not a finite number\.\nEvery feature must",
    ),
    (csr(data=np.array([1e39, 1])), FeatureError, "feature 1 of node '0' is 'inf'"),
    ({"x": np.ones(3)}, GraphFormatError, "has no array 'format'"),
]


@pytest.mark.parametrize(("arrays", "kind", "message"), BAD_NPZ)
def test_damaged_archives_are_refused(tmp_path, arrays, kind, message):
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(kind, match=message):
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


def test_names_of_rows_come_from_a_file(write):
    names = write("names.txt", "\ufeffd\r\nc c\nÄ,1\r0\n".encode())
    found = read_features(DENSE, ["d"], row_names=names)
    assert found.names == ("0", "c c", "d", "Ä,1")
    assert np.array_equal(found.x.to_dense().numpy(), DENSE[[3, 1, 0, 2]])
    assert read_features(DENSE, [], row_names=str(names)).names == found.names


ONE_A_LINE = "\nWrite one name a line, of up to 1,000 characters."
BAD_ROW_NAMES = [
    (
        "a\nb\n",
        "features (ndarray) has 4 rows, but names.txt has 2 names.\n"
        "Give one name per row, in the order of the rows.",
    ),
    ("a\n\nc\nd\n", f"names.txt, line 2: an empty line.{ONE_A_LINE}"),
    ("a" * 1001, f"names.txt, line 1: a name of 1,001 characters, '{'a' * 39}…'.{ONE_A_LINE}"),
    (
        "a\nb\na\nd\n",
        "features (ndarray): more than one row for node 'a'.\nKeep one row per node; 1 too many.",
    ),
    (
        "a\nb\nc\nd\n",
        "features (ndarray) has no row for 1 node with links: 'Zoe'.\n"
        "Add a row for each, or leave their links out.",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD_ROW_NAMES)
def test_names_that_do_not_fit_are_refused(write, text, message):
    with pytest.raises((FeatureError, GraphFormatError)) as caught:
        read_features(DENSE, ["Zoe"], row_names=write("names.txt", text))
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
