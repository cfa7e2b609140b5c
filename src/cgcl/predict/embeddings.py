"""Node embeddings for other tools: Parquet, NPZ or CSV, written batch by batch."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO, Literal

import numpy as np
import numpy.typing as npt
import torch

from cgcl.errors import ConfigError, GraphContentError, ModelFileError
from cgcl.files import writing_atomically
from cgcl.graph.wording import shown
from cgcl.methods.method import PairScorer
from cgcl.methods.scoring import EmbeddingScorer

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EmbeddingFormat", "csv_blocks", "embeddings_of", "write_embeddings"]

EmbeddingFormat = Literal["parquet", "npz", "csv"]
Embeddings = npt.NDArray[np.float32]

_BLOCK = 2**14
_EPOCH = (1980, 1, 1, 0, 0, 0)  # what zip calls the beginning; equal content gives equal files


def embeddings_of(scorer: PairScorer, title: str) -> Embeddings:
    """Return the embedding of every node, in node order, [n, d_v].

    What a method decodes links from. Where it scores by inner products they are scaled such that
    these are the scores, but for a term of each end: see `InnerProductScorer.embeddings`.

    Args:
        scorer: A trained method with the links it looks at.
        title: What the method is called.

    Raises:
        ConfigError: The method scores pairs without embedding nodes.
        ModelFileError: The network gives numbers that are not finite.
    """
    if not isinstance(scorer, EmbeddingScorer):
        raise ConfigError(
            f"{title} scores pairs as a whole and has no embedding of a node.\n"
            f"Train a method that embeds nodes, such as `method=cgcl`."
        )
    z = scorer.embeddings.cpu()
    if not torch.isfinite(z).all():
        raise ModelFileError(
            "The model gives embeddings that are not finite numbers.\n"
            "Train again with a lower `lr`, and look for very large feature values."
        )
    return z.numpy()


def write_embeddings(
    path: Path, names: Sequence[str], z: Embeddings, kind: EmbeddingFormat
) -> None:
    """Write embeddings to a file, whole or not at all; a file that is there is replaced.

    - parquet: the columns `node` and `embedding`, a list of fixed length.
    - npz: the arrays `names` (text, no objects) and `embeddings`.
    - csv: the columns `node`, `z0`, `z1` and so on, with as many digits as bring every number back.

    Args:
        path: The file.
        names: A name per node.
        z: An embedding per node, float32 [n, d_v].
        kind: The format.

    Raises:
        GraphContentError: NPZ cannot hold a name.
        ResourceError: The disk is full or the folder cannot be written.
    """
    if kind == "npz":
        _check_text(names)
    with writing_atomically(path) as file:
        if kind == "parquet":
            _write_parquet(file, names, z)
        elif kind == "npz":
            _write_npz(file, names, z)
        else:
            for text in csv_blocks(names, z):
                file.write(text.encode())


def csv_blocks(names: Sequence[str], z: Embeddings) -> Iterator[str]:
    """Yield the embeddings as CSV, piece by piece: the header, then some thousand rows each.

    Example:
        >>> print("".join(csv_blocks(["a,b"], np.array([[0.1, -1]], np.float32))), end="")
        node,z0,z1
        "a,b",0.1,-1
    """
    import pyarrow as pa
    from pyarrow import csv

    columns = ["node", *(f"z{number}" for number in range(z.shape[1]))]
    yield ",".join(columns) + "\n"
    options = csv.WriteOptions(include_header=False)
    for part, rows in _blocks(names, z):
        arrays = [pa.array(part, pa.string()), *(pa.array(column) for column in rows.T)]
        stream = pa.BufferOutputStream()
        csv.write_csv(pa.table(arrays, names=columns), stream, options)
        yield stream.getvalue().to_pybytes().decode()


def _blocks(names: Sequence[str], z: Embeddings) -> Iterator[tuple[Sequence[str], Embeddings]]:
    for start in range(0, len(names), _BLOCK):
        yield names[start : start + _BLOCK], z[start : start + _BLOCK]


def _write_parquet(file: BinaryIO, names: Sequence[str], z: Embeddings) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    vector = pa.list_(pa.float32(), z.shape[1])
    schema = pa.schema([("node", pa.string()), ("embedding", vector)])
    # Embeddings hardly repeat: a dictionary would only cost time.
    with pq.ParquetWriter(file, schema, compression="zstd", use_dictionary=False) as writer:
        for part, rows in _blocks(names, z):
            writer.write_batch(_batch(schema, part, rows))


def _batch(schema: pa.Schema, names: Sequence[str], rows: Embeddings) -> pa.RecordBatch:
    import pyarrow as pa

    numbers = pa.array(rows.reshape(-1))
    vectors = pa.FixedSizeListArray.from_arrays(numbers, type=schema.field("embedding").type)
    return pa.record_batch([pa.array(names, pa.string()), vectors], schema=schema)


def _check_text(names: Sequence[str]) -> None:
    for name in names:
        if name.endswith("\0"):
            raise GraphContentError(
                f"NPZ drops the NUL at the end of the name '{shown(name)}'.\n"
                f"Choose another format: `format=parquet`"
            )


def _write_npz(file: BinaryIO, names: Sequence[str], z: Embeddings) -> None:
    width = max((len(name) for name in names), default=1)
    text = np.dtype(f"<U{width}")
    with zipfile.ZipFile(file, "w") as archive:
        # Names are padded to the longest one; packing takes the padding away again.
        with _member(archive, "names", text, (len(names),), zipfile.ZIP_DEFLATED) as member:
            for part, _ in _blocks(names, z):
                member.write(np.array(part, dtype=text).tobytes())
        with _member(archive, "embeddings", np.dtype("<f4"), z.shape, zipfile.ZIP_STORED) as member:
            for _, rows in _blocks(names, z):
                member.write(rows.astype("<f4").tobytes())


def _member(
    archive: zipfile.ZipFile, name: str, kind: np.dtype, shape: tuple[int, ...], packing: int
) -> IO[bytes]:
    """Open an array of the archive to write, its header already there."""
    info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
    info.compress_type = packing
    member = archive.open(info, "w", force_zip64=True)
    header = {"descr": kind.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(member, header)
    return member
