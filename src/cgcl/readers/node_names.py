"""Node names: any text of 1 to 1,000 characters, never converted, sorted by code points."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyarrow import compute

from cgcl.errors import GraphFormatError, ResourceError
from cgcl.memory import require_readable
from cgcl.readers.regular_file import MAX_NAME_LENGTH
from cgcl.wording import shown

# From here on one hash table for all names would not stay in the processor's cache.
_MANY = 1_000_000
_PARTS = 16
_NAME_BYTES = 300
_THREADS = min(4, os.cpu_count() or 1)


@dataclass(frozen=True)
class EncodedNames:
    """Cells of text as numbers into a list of distinct texts."""

    distinct: pa.StringArray
    """Each text once, in any order."""
    codes: np.ndarray
    """The number of every cell's text, int32 or int64 [cells]."""

    def ranked(self) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the texts sorted by code points, and every cell's place among them, int64."""
        require_names(len(self.distinct), 2 * self.distinct.nbytes + 16 * self.codes.size)
        order = _order(self.distinct)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order.to_numpy()] = np.arange(len(order), dtype=np.int32)
        names: pa.StringArray = self.distinct.take(order)
        return tuple(names.to_pylist()), rank[self.codes].astype(np.int64)


def require_names(count: int, more: int = 0) -> None:
    """Refuse so many names, each of which becomes a text of Python's own, if they take too much.

    Args:
        count: How many.
        more: What else they take, in bytes.

    Raises:
        ResourceError: They do.
    """
    remedy = "Fewer nodes take less"
    require_readable(f"{count:,} names", count * _NAME_BYTES + more, remedy=remedy)


def encode_names(chunks: Sequence[pa.StringArray]) -> EncodedNames:
    """Number the distinct texts of many cells.

    Args:
        chunks: Arrays of strings without nulls.

    Raises:
        ResourceError: The distinct names together have more than 2 GB.
    """
    cells: pa.ChunkedArray = pa.chunked_array(chunks, pa.string())
    try:
        if len(cells) < _MANY or cells.nbytes >= 2**31:
            array = cells.dictionary_encode().combine_chunks()
            return EncodedNames(array.dictionary, array.indices.to_numpy())
        return _encode_in_parts(pa.concat_arrays(cells.chunks))
    except pa.ArrowException as error:
        raise ResourceError(
            f"The node names do not fit into memory: {shown(str(error), 120)}.\n"
            f"Use shorter names, such as numbers."
        ) from error


def _encode_in_parts(cells: pa.StringArray) -> EncodedNames:
    """Encode cells with different last bytes apart: small tables, several processors."""
    _, offsets, content = cells.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[1 : len(cells) + 1]
    # An empty cell looks at a byte of its neighbour. That does no harm unless two empty cells
    # look at different bytes: they are refused anyway, whatever their number.
    last = np.frombuffer(content or b"\0", dtype=np.uint8)[np.maximum(ends - 1, 0)] % _PARTS

    def encode(part: int) -> tuple[np.ndarray, pa.DictionaryArray]:
        rows = np.flatnonzero(last == part)
        return rows, cells.take(pa.array(rows)).dictionary_encode()

    codes = np.empty(len(cells), dtype=np.int32)
    distinct: list[pa.StringArray] = []
    used = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for rows, array in pool.map(encode, range(_PARTS)):
            codes[rows] = array.indices.to_numpy() + np.int32(used)
            distinct.append(array.dictionary)
            used += len(array.dictionary)
    return EncodedNames(pa.concat_arrays(distinct), codes)


def _order(texts: pa.StringArray) -> pa.Array:
    """Return the order of code points; many texts are sorted in parts, on several processors."""
    if len(texts) < _MANY // 10:
        return compute.call_function("array_sort_indices", [texts])
    sample = texts.take(pa.array(np.linspace(0, len(texts) - 1, 64).astype(np.int64))).sort()
    part = np.zeros(len(texts), dtype=np.int8)
    for border in (16, 32, 48):
        above = compute.call_function("greater_equal", [texts, sample[border]])
        part += above.to_numpy(zero_copy_only=False)

    def order(number: int) -> pa.Array:
        rows = pa.array(np.flatnonzero(part == number))
        within = compute.call_function("array_sort_indices", [texts.take(rows)])
        return rows.take(within)

    with ThreadPoolExecutor(_THREADS) as pool:
        return pa.concat_arrays(list(pool.map(order, range(4))))


def sorted_names(
    names: Sequence[str], place: str, nodes: Sequence[object] = ()
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return names in the order of code points, and the place of each among them, int64 [n].

    Args:
        names: One name per node, all different.
        place: Where they come from, for messages.
        nodes: What is called so, if it is not the names themselves.

    Raises:
        GraphFormatError: A name is empty, too long or cannot be encoded, or occurs twice.
    """
    bad = next((name for name in names if not 0 < len(name) <= MAX_NAME_LENGTH), None)
    if bad == "":
        raise GraphFormatError(f"{place}: a node has an empty name.\nGive every node a name.")
    if bad is not None:
        raise GraphFormatError(
            f"{place}: a node name of {len(bad):,} characters: '{shown(bad)}'.\n"
            f"Names may have up to {MAX_NAME_LENGTH:,} characters."
        )
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        broken = next(name for name in names if any("\ud800" <= c <= "\udfff" for c in name))
        raise GraphFormatError(
            f"{place}: the node name '{shown(broken)}' holds half a character (a lone surrogate) "
            f"and cannot be written as text.\nRename the node."
        ) from error
    order = sorted(range(len(names)), key=names.__getitem__)
    for both in itertools.pairwise(order):
        if names[both[0]] == names[both[1]]:
            who = " and ".join(shown(repr(nodes[node])) for node in both) if nodes else ""
            raise GraphFormatError(
                f"{place}: {f'the nodes {who} are both' if who else 'two nodes are'} called "
                f"'{shown(names[both[0]])}'.\n"
                f"Every node needs a name of its own: rename one of them."
            )
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return tuple(names[node] for node in order), rank
