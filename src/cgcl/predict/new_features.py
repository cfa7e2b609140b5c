"""Features of nodes that joined after training, from a table like the one trained with."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import torch
from torch import Tensor

from cgcl.errors import FeatureError
from cgcl.graph import Graph
from cgcl.graph.structure import has_structural_features
from cgcl.graph.wording import listed, shown
from cgcl.readers.features import read_features

__all__ = ["read_new_features"]


def read_new_features(
    graph: Graph,
    path: Path,
    names: Collection[str],
    *,
    separator: str | None = None,
    header: bool = True,
    one_hot: Sequence[str] = (),
    words: str | None = None,
) -> tuple[list[str], Tensor, tuple[str, ...]]:
    """Read the features of new nodes into the columns that the graph was trained with.

    A category or a word that was not there in training is left out, with a note; one that is not
    there now counts as zero. Every column of numbers must be there, and no other.

    Args:
        graph: The graph that knows what its features are called.
        path: A table whose first column names the node.
        names: New nodes that have links; each needs a row. The table may name others.
        separator: The character between columns.
        header: Whether the table begins with column names.
        one_hot: Columns with categories, as in training.
        words: The column with words, as in training.

    Returns:
        The names of all new nodes in order, their features, dense [k, d], and notes.

    Raises:
        FeatureError: A row or a column is missing, or is not known.
        GraphFormatError: The file is not a table.
    """
    if has_structural_features(graph):
        raise FeatureError(
            f"'{shown(graph.title)}' was trained without features, so new nodes need none.\n"
            f"Leave out `new_features`."
        )
    table = read_features(
        path, names, separator=separator, header=header, one_hot=one_hot, words=words
    )
    taken = [name for name in table.names if name in graph.node_of]
    if taken:
        raise FeatureError(
            f"{path.name} has rows of nodes that are known already: {listed(taken)}.\n"
            f"Keep the rows of new nodes only."
        )
    marks = tuple([f"{column}=" for column in one_hot] + ([f"{words}:"] if words else []))
    x, notes = _aligned(graph, path.name, table.feature_names, table.x.to_dense(), marks)
    return list(table.names), x, notes


def _aligned(
    graph: Graph, file: str, columns: Sequence[str], values: Tensor, marks: tuple[str, ...]
) -> tuple[Tensor, tuple[str, ...]]:
    """Put each column where the graph has it.

    Args:
        graph: Knows the order.
        file: For messages.
        columns: What the columns of `values` are called.
        values: Dense, [k, columns].
        marks: How the names of features begin that need not be on both sides.
    """
    wanted = graph.feature_names
    if not wanted or not columns:
        if values.shape[1] != graph.num_features:
            raise FeatureError(
                f"{file} has {values.shape[1]:,} features; '{shown(graph.title)}' was trained with "
                f"{graph.num_features:,}.\nGive the same columns in the same order."
            )
        return values, ()
    place = {name: number for number, name in enumerate(wanted)}
    here = set(columns)
    missing = [name for name in wanted if name not in here and not name.startswith(marks)]
    unknown = [name for name in columns if name not in place]
    strange = [name for name in unknown if not name.startswith(marks)]
    for wrong, what, remedy in (
        (missing, "lacks", "Give every column that was trained with, `one_hot` and `words` alike"),
        (strange, "has, but training had not,", "Leave them out, or correct the names"),
    ):
        if wrong:
            raise FeatureError(
                f"{file} {what} {len(wrong):,} feature{'' if len(wrong) == 1 else 's'}: "
                f"{listed(wrong)}.\n{remedy}."
            )
    x = torch.zeros(values.shape[0], len(wanted))
    for number, name in enumerate(columns):
        if name in place:
            x[:, place[name]] = values[:, number]
    if not unknown:
        return x, ()
    return x, (f"{len(unknown):,} values not seen in training left out: {listed(unknown)}.",)
