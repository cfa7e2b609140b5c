import contextlib
import hashlib
import warnings

import pytest

from cgcl.errors import CGCLError, GraphFormatError
from cgcl.readers.planetoid import PARTS, read_planetoid, unpickle_restricted


def touching(path, module=b"builtins", *, modern=False):
    """Return a pickle that would make a file, in the oldest notation or in today's."""
    call = b"(V%b\nVw\ntR." % bytes(path)
    if modern:
        return b"\x80\x04\x8c" + bytes([len(module)]) + module + b"\x8c\x04open\x93" + call
    return b"c" + module + b"\nopen\n" + call


def test_the_payload_of_these_tests_would_work(tmp_path):
    # Otherwise the tests below would pass because nothing could have happened.
    import numpy as np

    raw = tmp_path / "armed.npy"
    header = np.lib.format.magic(1, 0)
    text = b"{'descr': '|O', 'fortran_order': False, 'shape': (), }".ljust(117) + b"\n"
    raw.write_bytes(
        header + len(text).to_bytes(2, "little") + text + touching(tmp_path / "touched")
    )
    with raw.open("rb") as file, contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.read_array(file, allow_pickle=True)
    assert (tmp_path / "touched").exists()


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("module", [b"builtins", b"__builtin__", b"io"])
def test_a_foreign_name_in_a_pickle_is_refused_and_never_run(tmp_path, module, modern):
    touched = tmp_path / "touched"
    with pytest.raises(
        GraphFormatError, match=r"names \w+\.open, which no Planetoid file contains"
    ):
        unpickle_restricted(touching(touched, module, modern=modern), "ind.cora.x")
    assert not touched.exists()


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_file_with_another_digest_is_not_opened_and_one_pinned_by_mistake_not_run(
    tmp_path, is_pinned
):
    touched = tmp_path / "touched"
    content = touching(touched)
    digest = hashlib.sha256(content).hexdigest() if is_pinned else "0" * 64
    files = [f"ind.toy.{part}" for part in PARTS]
    for file in files:
        (tmp_path / file).write_bytes(content)
    refused = (
        "It was not run" if is_pinned else r"ind\.toy\.allx is not the published file: SHA-256"
    )
    with pytest.raises(GraphFormatError, match=refused):
        read_planetoid(tmp_path, "toy", dict.fromkeys(files, digest))
    assert not touched.exists()


@pytest.mark.parametrize(
    "content", [b"", b"\x80", b"hello", b"(lp0\n", b"cos\nsystem\n.", b"P1\n."]
)
def test_broken_pickles_give_our_error(content):
    with pytest.raises(CGCLError):
        unpickle_restricted(content, "ind.toy.x")
