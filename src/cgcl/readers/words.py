"""Words as features: one per word that occurs, 1 where a node's text has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from cgcl.errors import FeatureError
from cgcl.graph.wording import shown

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_WORDS", "bag_of_words"]

MAX_WORDS = 100_000


def bag_of_words(
    cells: pa.ChunkedArray, label: str, place: str, max_words: int = MAX_WORDS
) -> tuple[Tensor, tuple[str, ...], int]:
    """Return a feature per word, sparse [n, words], their names, and the number of empty texts.

    Words are what stands between blanks, as written: "Graph" and "graph" are two words. A word
    counts once however often a text repeats it, as in the paper's citation graphs. Words are in the
    order of code points.

    Args:
        cells: One text per node; null or empty where there is none.
        label: What the column is called.
        place: What messages call the table.
        max_words: The most different words that are accepted.

    Raises:
        FeatureError: There are too many different words, or none.

    Example:
        >>> import pyarrow as pa
        >>> x, names, _ = bag_of_words(pa.chunked_array([["b a b", "", "c"]]), "text", "t.csv")
        >>> names
        ('text:a', 'text:b', 'text:c')
        >>> x.to_dense().tolist()
        [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    number: dict[str, int] = {}
    rows: list[int] = []
    seen: list[int] = []
    empty = 0
    for row, text in enumerate(_texts(cells)):
        words = set(text.split())
        empty += not words
        for word in words:
            rows.append(row)
            seen.append(number.setdefault(word, len(number)))
        if len(number) > max_words:
            raise _too_many(place, label, row + 1, len(cells), max_words)
    if not number:
        raise FeatureError(
            f"{place}: no text in column '{shown(label)}' has a word.\n"
            f"Delete the column, or name the one with the words: `words=COLUMN`"
        )
    vocabulary = sorted(number)
    rank = torch.empty(len(number), dtype=torch.int64)
    rank[torch.tensor([number[word] for word in vocabulary])] = torch.arange(len(number))
    entries = torch.stack([torch.tensor(rows), rank[torch.tensor(seen)]])
    x = torch.sparse_coo_tensor(
        entries, torch.ones(len(rows)), (len(cells), len(number)), check_invariants=True
    )
    return x.coalesce(), tuple(f"{label}:{word}" for word in vocabulary), empty


def _texts(cells: pa.ChunkedArray) -> list[str]:
    texts: list[str] = cells.fill_null("").to_pylist()
    return texts


def _too_many(place: str, label: str, row: int, rows: int, max_words: int) -> FeatureError:
    return FeatureError(
        f"{place}: column '{shown(label)}' has more than {max_words:,} different words in its "
        f"first {row:,} of {rows:,} rows.\n"
        f"Leave out words that occur in one or two texts only, put all into lower case, or remove "
        f"punctuation."
    )
