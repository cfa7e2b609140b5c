"""Categories as features: one per value that occurs, 1 where a node has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import FeatureError
from cgcl.graph.wording import shown

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_CATEGORIES", "one_hot"]

MAX_CATEGORIES = 10_000
# A column with more values than this, most of them once, names its nodes and does not group them.
_FEW = 100


def one_hot(cells: pa.ChunkedArray, label: str, place: str) -> tuple[Tensor, tuple[str, ...], int]:
    """Return a feature per category, sparse [n, categories], their names, and the empty cells.

    Cells are compared as they are written; categories are in the order of code points. An empty
    cell belongs to no category: its row stays zero.

    Args:
        cells: One text per node; null or empty where there is none.
        label: What the column is called.
        place: What messages call the table.

    Raises:
        FeatureError: There are too many categories, or none.

    Example:
        >>> import pyarrow as pa
        >>> x, names, _ = one_hot(pa.chunked_array([["red", "blue", "red"]]), "colour", "t.csv")
        >>> names
        ('colour=blue', 'colour=red')
        >>> x.to_dense().tolist()
        [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    """
    from pyarrow import compute

    texts = cells.fill_null("")
    distinct = texts.unique().to_pylist()
    categories = sorted(text for text in distinct if text)
    _check_count(len(categories), len(cells), label, place)
    number = {category: k for k, category in enumerate(categories)}
    encoded = texts.dictionary_encode().combine_chunks()
    place_of = np.array([number.get(text, -1) for text in encoded.dictionary.to_pylist()])
    columns = place_of[encoded.indices.to_numpy()]
    rows = np.flatnonzero(columns >= 0)
    x = torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([rows, columns[rows]])),
        torch.ones(len(rows)),
        (len(cells), len(categories)),
        check_invariants=True,
        is_coalesced=True,
    )
    empty = compute.call_function("equal", [texts, ""])
    return x, tuple(f"{label}={category}" for category in categories), int(empty.to_numpy().sum())


def _check_count(categories: int, nodes: int, label: str, place: str) -> None:
    if categories == 0:
        raise FeatureError(
            f"{place}: column '{shown(label)}' is empty, so it has no categories.\n"
            f"Delete the column, or fill it."
        )
    if categories > MAX_CATEGORIES or (categories > _FEW and 2 * categories > nodes):
        raise FeatureError(
            f"{place}: column '{shown(label)}' has {categories:,} different values for "
            f"{nodes:,} nodes, which is an identifier rather than a category.\n"
            f"Group the values (at most {MAX_CATEGORIES:,}, each for two nodes or more on "
            f"average), or delete the column."
        )
