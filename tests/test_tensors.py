import zipfile
from dataclasses import dataclass

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cgcl.errors import CGCLError, ModelFileError
from cgcl.memory import is_out_of_memory
from cgcl.tensors import read_tensors, with_own_tensors, write_tensors

KIND = "cgcl test 1"
TENSORS = {"a": torch.arange(12.0).reshape(3, 4), "b": torch.tensor([1, 2], dtype=torch.int64)}


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "file.safetensors"
    write_tensors(path, KIND, TENSORS, {"x": 1, "name": "ü"})
    return path


@dataclass
class Held:
    tensor: torch.Tensor
    name: str


def test_a_record_with_tensors_of_its_own_is_not_written_to_by_others() -> None:
    held = Held(torch.zeros(2), "x")
    own = with_own_tensors(held)
    held.tensor.fill_(1)
    assert (own.tensor.tolist(), own.name) == ([0, 0], "x")


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory."), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("out of order"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_says_that_memory_ran_out(error: Exception, is_it: bool) -> None:
    assert is_out_of_memory(error) == is_it


def test_what_is_written_is_read_back(written) -> None:
    tensors, about = read_tensors(written, KIND)
    assert about == {"x": 1, "name": "ü"}
    assert set(tensors) == {"a", "b"}
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)


def test_what_is_missing_or_somebody_elses_or_of_another_kind_is_refused(tmp_path, written):
    safetensors.torch.save_file({"a": torch.ones(2)}, tmp_path / "f")
    for path, kind, told in (
        (written, "cgcl model 1", "holds 'cgcl test 1', expected 'cgcl model 1'"),
        (tmp_path / "nothing", KIND, "does not exist"),
        (tmp_path, KIND, "is not a regular file"),
        (tmp_path / "f", KIND, "but not one of cgcl's"),
    ):
        with pytest.raises(ModelFileError, match=told):
            read_tensors(path, kind)


def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path) -> None:
    """640 is 0x0280: the file begins with the two bytes of a pickle of protocol 2."""
    write_tensors(tmp_path / "f", KIND, TENSORS, {"padding": ""})
    length = int.from_bytes((tmp_path / "f").read_bytes()[:8], "little")
    write_tensors(tmp_path / "f", KIND, TENSORS, {"padding": "x" * (640 - length)})
    assert (tmp_path / "f").read_bytes()[:2] == b"\x80\x02"
    assert set(read_tensors(tmp_path / "f", KIND)[0]) == {"a", "b"}


class Payload:
    """What a malicious pickle would do, made harmless: it touches a file."""

    def __init__(self, target) -> None:
        self.target = str(target)

    def __reduce__(self):
        return open, (self.target, "w")


def test_a_pickle_is_named_and_never_run(tmp_path) -> None:
    import pickle  # noqa: TID251

    target = tmp_path / "touched"
    (tmp_path / "plain").write_bytes(pickle.dumps(Payload(target)))
    torch.save(Payload(target), tmp_path / "torch")  # noqa: TID251
    for name in ("plain", "torch"):
        with pytest.raises(ModelFileError) as error:
            read_tensors(tmp_path / name, KIND)
        assert str(error.value) == (
            f"{name} is not a CGCL model (found 'pickle' data). Models from other tools cannot be "
            f"opened,\nand pickle files are never opened because they can run code."
        )
    assert zipfile.is_zipfile(tmp_path / "torch")
    assert not target.exists()


def test_every_truncation_is_refused(written) -> None:
    content = written.read_bytes()
    for size in range(len(content)):
        written.write_bytes(content[:size])
        with pytest.raises(ModelFileError):
            read_tensors(written, KIND)


def test_every_flipped_bit_is_refused(written) -> None:
    content = written.read_bytes()
    for position in range(len(content)):
        for bit in (0, 3, 7):
            changed = bytearray(content)
            changed[position] ^= 1 << bit
            written.write_bytes(changed)
            with pytest.raises(ModelFileError):
                read_tensors(written, KIND)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_arbitrary_bytes_raise_only_our_errors(tmp_path_factory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "file"
    path.write_bytes(content)
    with pytest.raises(CGCLError):
        read_tensors(path, KIND)
