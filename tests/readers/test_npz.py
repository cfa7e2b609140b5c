import io
import zipfile

import numpy as np
import pytest

from cgcl.errors import GraphFormatError
from cgcl.readers import npz
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
    with pytest.raises(GraphFormatError, match=r"damaged or not an \.npz archive"):
        read_npz_arrays(path, ["a"])
    assert not touched.exists()


def test_an_archive_that_unpacks_to_too_much_is_refused_before_unpacking(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "MAX_BYTES", 1_000_000)
    monkeypatch.setattr(npz, "MAX_MEMBERS", 10)
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, a=np.zeros(10_000_000, dtype=np.int8))
    assert path.stat().st_size < 20_000
    with pytest.raises(GraphFormatError, match=r"unpacks to 0\.0 GB, at most 0\.0 GB"):
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


def test_the_names_of_arrays_are_listed_without_opening_them(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(3), b=np.array([{}], dtype=object))
    assert npz_array_names(path) == ("a", "b")
    path.write_bytes(b"no archive")
    with pytest.raises(GraphFormatError, match=r"damaged or not an \.npz archive"):
        npz_array_names(path)


def test_an_archive_of_little_but_zeros_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, a=np.zeros(10_000_000, dtype=np.int8))
    assert len(read_npz_arrays(path, ["a"])["a"]) == 10_000_000  # small enough to do no harm
    monkeypatch.setattr(npz, "_HARMLESS_BYTES", 1_000_000)
    with pytest.raises(GraphFormatError, match="to 10,000,128, more than 200 times as many"):
        read_npz_arrays(path, ["a"])
    np.savez(path, a=np.zeros(10_000_000, dtype=np.int8))  # as large as it says
    assert len(read_npz_arrays(path, ["a"])["a"]) == 10_000_000
