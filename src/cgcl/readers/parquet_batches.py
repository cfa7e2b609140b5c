"""Parquet files unpacked batch by batch, as much as is accepted and no more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cgcl.errors import CGCLError, GraphFormatError, ResourceError
from cgcl.graph.wording import shown

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

__all__ = ["damage_told", "read_batches", "size_error"]

_BATCH_ROWS = 1 << 16


@contextlib.contextmanager
def damage_told(file: str) -> Iterator[None]:
    """Turn whatever a damaged Parquet file brings about into an error of ours.

    Raises:
        GraphFormatError: The file is damaged, or no Parquet file.
        ResourceError: It does not fit into memory.
    """
    try:
        yield
    except CGCLError:
        raise
    except MemoryError as error:
        raise ResourceError(f"{file} does not fit into memory.") from error
    except Exception as error:  # damaged bytes reach Arrow in many ways
        raise GraphFormatError(
            f"{file} is damaged or not a Parquet file: {shown(str(error), 120)}\nWrite it again."
        ) from error


def read_batches(
    file: str,
    reader: parquet.ParquetFile,
    max_bytes: int,
    remedy: str,
    columns: list[str] | None = None,
) -> pa.Table:
    """Return the rows of a Parquet file.

    Args:
        file: Its name, for messages.
        reader: The file.
        max_bytes: Most that the columns may take in memory.
        remedy: What to do about a file that is larger.
        columns: Which columns; all if None.

    Raises:
        GraphFormatError: It unpacks to more than `max_bytes`, whatever its footer said.
    """
    import pyarrow as pa

    batches: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in reader.iter_batches(_BATCH_ROWS, columns=columns, use_threads=False):
        batches.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if size > max_bytes:  # the footer lied
            raise size_error(file, rows, size, max_bytes, remedy)
    table: pa.Table = (
        pa.Table.from_batches(batches) if batches else reader.schema_arrow.empty_table()
    )
    table.validate(full=True)  # a damaged file may point outside its dictionary
    return table


def size_error(file: str, rows: int, size: int, max_bytes: int, remedy: str) -> GraphFormatError:
    """Return the error about a file that is too large."""
    return GraphFormatError(
        f"{file} unpacks to {rows:,} rows and {size / 1e9:,.1f} GB, at most "
        f"{max_bytes / 1e9:,.1f} GB is accepted.\n{remedy}"
    )
