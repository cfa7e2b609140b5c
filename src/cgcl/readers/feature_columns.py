"""Columns of a feature table, whatever file they come from: numbers, categories, words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from cgcl.errors import ConfigError, FeatureError, ResourceError
from cgcl.graph.wording import listed, shown
from cgcl.readers.one_hot import one_hot
from cgcl.readers.words import bag_of_words

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FeatureColumns", "TextColumns", "bad_cell", "check_memory", "problem_of_number"]

_LARGEST = float(np.finfo(np.float32).max)
# A table of numbers is held by Arrow, as one array, and once more in the order of the names.
_COPIES = 3


@dataclass(frozen=True)
class TextColumns:
    """Which columns hold text, and how it becomes numbers."""

    one_hot: tuple[str, ...] = ()
    """Columns with categories."""
    words: str | None = None
    """The column with words."""

    @property
    def all(self) -> frozenset[str]:
        """The names of all these columns."""
        return frozenset(self.one_hot if self.words is None else (*self.one_hot, self.words))

    def check(self, place: str, columns: Sequence[str]) -> None:
        """Refuse columns that are not there or cannot be meant.

        Args:
            place: What messages call the table.
            columns: All columns; the first one holds the names of the nodes.

        Raises:
            ConfigError: A column is missing, is asked for twice, or names the nodes.
        """
        if self.words is not None and self.words in self.one_hot:
            raise ConfigError(
                f"Column '{shown(self.words)}' cannot be both categories and words.\n"
                f"Choose one of `one_hot` and `words` for it."
            )
        for wanted in sorted(self.all):
            flag = "`words`" if wanted == self.words else "`one_hot`"
            if wanted == columns[0]:
                raise ConfigError(
                    f"{flag} {shown(wanted)}: the first column of {place} names the nodes, it is "
                    f"no feature.\nChoose another column."
                )
            if wanted not in columns:
                raise ConfigError(
                    f"{place} has no column '{shown(wanted)}' for {flag}. "
                    f"Columns found: {listed(columns, 10, quoted=False)}."
                )


@dataclass(frozen=True)
class FeatureColumns:
    """A table of features, one row per node, in the order of its source."""

    place: str
    """What messages call the table."""
    names: list[str]
    """The node of each row."""
    numbers: np.ndarray
    """The columns of numbers, float32 [n, k], all finite."""
    labels: tuple[str, ...]
    """What those are called."""
    texts: Mapping[str, pa.ChunkedArray]
    """The other columns as text, by what they are called."""

    def to_features(self, text: TextColumns) -> tuple[Tensor, tuple[str, ...], list[str]]:
        """Return the features [n, d], what they are called, and notes.

        Numbers come first, then categories, then words. Text makes sparse features.

        Raises:
            FeatureError: There are too many categories or words.
        """
        numbers = torch.from_numpy(self.numbers)
        if not self.texts:
            return numbers, self.labels, []
        parts: list[Tensor] = [numbers.to_sparse_coo()] if self.labels else []
        names = list(self.labels)
        notes: list[str] = []
        for label in text.one_hot:
            x, made, empty = one_hot(self.texts[label], label, self.place)
            parts.append(x)
            names += made
            notes += _empty_note(label, empty, "belong", "to no category")
        if text.words is not None:
            x, made, empty = bag_of_words(self.texts[text.words], text.words, self.place)
            parts.append(x)
            names += made
            notes += _empty_note(text.words, empty, "have", "no words")
        return torch.cat(parts, dim=1).coalesce(), tuple(names), notes


def _empty_note(label: str, empty: int, verb: str, what: str) -> list[str]:
    if empty == 0:
        return []
    verb = {"belong": "belongs", "have": "has"}[verb] if empty == 1 else verb
    cells = "1 empty cell" if empty == 1 else f"{empty:,} empty cells"
    return [f"Column '{shown(label)}': {cells}, which {verb} {what}."]


def problem_of_number(value: float | None, text: str) -> str | None:
    """Return what is wrong with a number as the end of a sentence, or None.

    Args:
        value: The number; None if there is none.
        text: How it is written.
    """
    if value is None:
        return "is empty"
    if not np.isfinite(value):
        return f"is '{shown(text)}', not a finite number"
    if abs(value) > _LARGEST:
        return f"is '{shown(text)}', too large for a 32-bit number"
    return None


def bad_cell(
    place: str, column: str, label: str, name: str, problem: str, more: int
) -> FeatureError:
    """Return the error for a cell that is no number.

    Args:
        place: What messages call the table.
        column: What the column is called, as an option would name it.
        label: The same as messages show it.
        name: The node.
        problem: What is wrong, such as "is empty".
        more: How many more cells of the column are wrong.
    """
    others = f" (and {more:,} more node{'' if more == 1 else 's'})" if more else ""
    quoted = shown(shlex.quote(column))
    if problem == "is empty":
        remedy = "Fill the gaps or delete the column: every node needs every feature."
    elif problem.endswith("not a number"):
        remedy = (
            f"If the column holds categories, add `one_hot={quoted}`; if it holds words with "
            f"blanks between\nthem, add `words={quoted}`. Otherwise delete the column."
        )
    else:
        remedy = "Every feature must be a finite number: replace the value, or delete the column."
    return FeatureError(
        f"{place}: feature {label} of node '{shown(name)}' {problem}{others}.\n{remedy}"
    )


def check_memory(place: str, rows: int, columns: int) -> None:
    """Refuse a table of numbers that does not fit into memory, before it is read.

    Args:
        place: What messages call the table.
        rows: Number of nodes.
        columns: Number of features.

    Raises:
        ResourceError: It would not fit.
    """
    from cgcl.memory import free_memory

    needed = _COPIES * 4 * rows * columns
    free = free_memory()
    if needed > free:
        raise ResourceError(
            f"{place} has {rows:,} rows of {columns:,} numbers, about {needed / 1e9:,.1f} GB while "
            f"it is read; {free / 1e9:,.1f} GB is free.\n"
            f"If most numbers are zero, save them as a sparse matrix: .npz (scipy.sparse.save_npz) "
            f"or .mtx."
        )
