"""Node features: one path from tables and one from matrices to a row of numbers for every node."""

from __future__ import annotations

import decimal
import itertools
import json
import math
import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from pyarrow import compute
from torch import Tensor

from cgcl.errors import ConfigError, FeatureError, GraphFormatError
from cgcl.graph.features import coalesced, compact, extremes
from cgcl.readers.regular_file import names_of_rows, told
from cgcl.readers.tables import Table, encoded, is_number, plain, refuse_twice
from cgcl.wording import counted, listed, shown

MAX_CATEGORIES = 10_000
MAX_WORDS = 100_000
# A column with more values than this, most of them once, names its nodes and does not group them.
_FEW = 100
_LARGEST = float(np.finfo(np.float32).max)
# What Arrow reads as a number, blanks around it removed.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|infinity)", re.I)


@dataclass(frozen=True)
class FeatureTable:
    """The features of all nodes, and with them the node set."""

    names: tuple[str, ...]
    """Every node of the source, sorted by code points: one without links belongs to the graph."""
    x: Tensor
    """Float32 [n, d] in the order of `names`, coalesced sparse COO or dense."""
    notes: tuple[str, ...]
    """What is worth knowing about them, a sentence each."""
    feature_names: tuple[str, ...] = ()
    """What each feature is called; empty if they come from a matrix."""


@dataclass(frozen=True)
class FeatureOptions:
    """How features are written, and which columns hold text."""

    separator: str | None = None
    """The character between columns of text; None chooses by the file's suffix."""
    header: bool = True
    """Whether a table of text begins with column names; without, columns are called 1, 2, ..."""
    one_hot: tuple[str, ...] = ()
    """Columns with categories."""
    words: str | None = None
    """The column with words."""

    @property
    def text(self) -> dict[str, bool]:
        """Whether a column of text holds words; columns that are not in it must hold numbers."""
        words = {} if self.words is None else {self.words: True}
        return dict.fromkeys(self.one_hot, False) | words

    def refuse_text(self) -> None:
        """Refuse columns of text for a matrix, which has none.

        Raises:
            ConfigError: A column is named.
        """
        if self.text:
            raise ConfigError(
                "A matrix of features has numbers only, no columns of text.\n"
                "Leave out `one_hot` and `words`, or give a table."
            )

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
        for wanted, is_words in sorted(self.text.items()):
            flag = "`words`" if is_words else "`one_hot`"
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


def features_of_table(
    table: Table, options: FeatureOptions, linked: Collection[str]
) -> FeatureTable:
    """Return the features of a table: numbers first, then categories, then words.

    The first column names the nodes, or the index of a pandas frame that has one of its own. Text
    makes sparse features.

    Args:
        table: The table.
        options: Which columns hold text; all others must hold numbers.
        linked: The nodes that have links; each needs a row.

    Raises:
        GraphFormatError: A node has no name, there are no features, or they cannot be read.
        FeatureError: A cell is not a finite number, there are too many categories or words, a node
            has two rows, or a linked node has none.
        ConfigError: The columns make no sense.
        ResourceError: The numbers do not fit into memory.
    """
    refuse_twice(table.place, table.columns)
    wanted = [name for name in table.columns[1:] if name not in options.text]
    data = table.read(table.columns, wanted)
    columns, rows = index_first(table.place, table.columns, data), data.num_rows
    if len(columns) < 2 or rows == 0:
        raise GraphFormatError(
            f"{table.place} has {counted(len(columns), 'column')} and {rows:,} rows, expected a "
            f"column of node names, at least one feature, and a row per node."
        )
    options.check(table.place, columns)
    nodes = encoded(table, data, columns[:1], "Put the column of names first.")
    names: list[str] = nodes.distinct.take(pa.array(nodes.codes)).to_pylist()
    numeric = [name for name in columns[1:] if name not in options.text]
    numbers = torch.from_numpy(number_columns(table, data, numeric, names))
    if not options.text:
        return _checked(names, numbers, table.place, linked, tuple(numeric))
    parts, labels, notes = [numbers.to_sparse_coo()] if numeric else [], [*numeric], list[str]()
    for column, is_words in options.text.items():
        x, values, empty = _indicators(_texts(table, data, column), is_words)
        (_check_words if is_words else _check_categories)(table.place, column, len(values), rows)
        parts.append(x)
        labels += [f"{column}{':' if is_words else '='}{value}" for value in values]
        if empty:
            one, many = ("has", "have") if is_words else ("belongs to", "belong to")
            what = "no words" if is_words else "no category"
            cells = counted(
                empty, f"empty cell, which {one} {what}", f"empty cells, which {many} {what}"
            )
            notes.append(f"Column '{shown(column)}': {cells}.")
    x = torch.cat(parts, dim=1).coalesce()
    return _checked(names, x, table.place, linked, tuple(labels), notes)


def features_of_matrix(
    x: Tensor, place: str, row_names: Path | Sequence[str] | None, linked: Collection[str]
) -> FeatureTable:
    """Return the features of a matrix: row k is that of the k-th name, or of the node called k.

    Args:
        x: Float32 [n, d], dense or coalesced sparse COO.
        place: What messages call it.
        row_names: A text file with one node name per line, or the names.
        linked: The nodes that have links; each needs a row.

    Raises:
        GraphFormatError: The file of names is none.
        FeatureError: A number is not finite, a node has two rows, or a linked node has none.
    """
    names = names_of_rows(row_names, x.shape[0], place)
    _check_finite(x, names, place)
    others = sorted(set(linked).difference(names)) if row_names is None else []
    if others:
        raise FeatureError(
            f"{place} has {len(names):,} rows without names, so they belong to the nodes called 0 "
            f"to {len(names) - 1}.\n"
            f"{counted(len(others), 'node with links is', 'nodes with links are')} called "
            f"otherwise: {listed(others)}.\n"
            f"Give a text file with the node of each row, one name per line: `row_names=FILE`"
        )
    return _checked(names, x, place, linked)


# --- Columns of numbers ---


def index_first(place: str, columns: Sequence[str], data: pa.Table) -> list[str]:
    """Put the index of a pandas frame, which Arrow lists last, where the names are expected."""
    about = (data.schema.metadata or {}).get(b"pandas", b"{}")
    with told(f"{place}: what pandas wrote about the columns is damaged", "Write it again."):
        index = json.loads(about).get("index_columns", [])
        named = [name for name in index if isinstance(name, str) and name in columns]
    if len(named) != 1:
        return list(columns)
    return [*named, *(name for name in columns if name != named[0])]


def number_columns(
    table: Table, data: pa.Table, columns: Sequence[str], names: Sequence[str]
) -> np.ndarray:
    """Return columns as float32 [n, k], all finite."""
    found = np.empty((data.num_rows, len(columns)), dtype=np.float32)
    for place, name in enumerate(columns):
        cells = plain(data.column(name))
        if pa.types.is_boolean(cells.type):
            cells = cells.cast(pa.uint8())
        if not (is_number(cells.type) or pa.types.is_decimal(cells.type)):
            raise _cell_error(table, columns, names)
        values = cells.cast(pa.float64(), safe=False).to_numpy()  # null becomes NaN
        if not (np.abs(values) <= _LARGEST).all():
            raise _cell_error(table, columns, names)
        found[:, place] = values
    return found


def _cell_error(table: Table, columns: Sequence[str], names: Sequence[str]) -> FeatureError:
    """Describe the first cell that is no finite number."""
    for name in columns:
        cells = plain(table.read([name]).column(name)).to_pylist()
        problems = [_problem(cell, is_text=table.is_text) for cell in cells]
        bad = [row for row, problem in enumerate(problems) if problem]
        if bad:
            problem, quoted = problems[bad[0]] or "", shown(shlex.quote(name))
            more = f" (and {counted(len(bad) - 1, 'more node')})" if len(bad) > 1 else ""
            remedy = (
                "Every feature must be a finite number: replace the value, or delete the column."
            )
            if problem == "is empty":
                remedy = "Fill the gaps or delete the column: every node needs every feature."
            elif problem.endswith("not a number"):
                remedy = (
                    f"If the column holds categories, add `one_hot={quoted}`; if it holds words "
                    f"with blanks between\nthem, add `words={quoted}`. Otherwise delete the column."
                )
            return FeatureError(
                f"{table.place}: feature {table.label(name)} of node '{shown(names[bad[0]])}' "
                f"{problem}{more}.\n{remedy}"
            )
    return FeatureError(f"{table.place}: some cell is not a number. Every feature must be one.")


def _problem(cell: object, *, is_text: bool) -> str | None:
    """Return what is wrong with a number as the end of a sentence, or None."""
    written = str(cell).strip(" \t")
    if cell is None or (is_text and not written):
        return "is empty"
    if is_text and _NUMBER.fullmatch(written):
        cell = float(written)
    if not isinstance(cell, (int, float, decimal.Decimal)):
        return f"is '{shown(written)}', not a number"
    if not math.isfinite(cell):
        return f"is '{shown(written)}', not a finite number"
    if abs(cell) > _LARGEST:
        return f"is '{shown(written)}', too large for a 32-bit number"
    return None


def _check_finite(x: Tensor, names: Sequence[str], place: str) -> None:
    values = x.values() if x.is_sparse else x
    bad = (~torch.isfinite(values)).nonzero()
    if len(bad) == 0:
        return
    row, column = x.indices()[:, int(bad[0])].tolist() if x.is_sparse else bad[0].tolist()
    value = float(values[tuple(bad[0].tolist())])
    more = f" (and {len(bad) - 1:,} more)" if len(bad) > 1 else ""
    raise FeatureError(
        f"{place}: feature {column + 1:,} of node '{shown(names[row])}' "
        f"{_problem(value, is_text=False)}{more}.\n"
        f"Every feature must be a finite number of 32 bits, below 3.4e38."
    )


# --- Columns of text ---


def _texts(table: Table, data: pa.Table, column: str) -> pa.Array:
    cells = plain(data.column(column))
    try:
        texts = cells.cast(pa.large_string())
        texts.validate(full=True)  # Parquet does not promise UTF-8
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FeatureError(
            f"{table.place}: column '{shown(column)}' holds {shown(str(cells.type))}, which cannot "
            f"be read as text.\nTurn it into text first, or delete the column."
        ) from error
    return texts.fill_null("").combine_chunks()


def _indicators(texts: pa.Array, are_words: bool) -> tuple[Tensor, list[str], int]:
    """Return a feature for each text or word that occurs, what they are, and the empty texts.

    Texts are compared as they are written, and come in the order of code points. Words are what
    stands between blanks; a word counts once however often a text repeats it, as in the paper's
    citation graphs. An empty text has no feature: its row stays zero.

    Example:
        >>> x, words, empty = _indicators(pa.array(["b a b", "", "c"]), True)
        >>> words, empty
        (['a', 'b', 'c'], 1)
        >>> x.to_dense().tolist()
        [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    count = len(texts)
    rows = np.arange(count)
    if are_words:
        lists = compute.call_function("utf8_split_whitespace", [texts])
        rows = compute.call_function("list_parent_indices", [lists]).to_numpy()
        texts = compute.call_function("list_flatten", [lists])
    coded = texts.dictionary_encode()
    distinct: list[str] = coded.dictionary.to_pylist()
    values = sorted(text for text in distinct if text)
    number = {text: place for place, text in enumerate(values)}
    place_of = np.array([number.get(text, -1) for text in distinct], dtype=np.int64)
    columns = place_of[coded.indices.to_numpy()]
    is_kept = columns >= 0
    k = max(len(values), 1)
    codes = np.unique(rows[is_kept] * k + columns[is_kept])
    places = torch.from_numpy(np.stack([codes // k, codes % k]))
    x = coalesced(places, torch.ones(len(codes)), (count, len(values)))
    return x, values, count - len(np.unique(codes // k))


def _check_categories(place: str, column: str, categories: int, nodes: int) -> None:
    if categories == 0:
        raise FeatureError(
            f"{place}: column '{shown(column)}' is empty, so it has no categories.\n"
            f"Delete the column, or fill it."
        )
    if categories > MAX_CATEGORIES or (categories > _FEW and 2 * categories > nodes):
        raise FeatureError(
            f"{place}: column '{shown(column)}' has {categories:,} different values for "
            f"{nodes:,} nodes, which is an identifier rather than a category.\n"
            f"Group the values (at most {MAX_CATEGORIES:,}, each for two nodes or more on "
            f"average), or delete the column."
        )


def _check_words(place: str, column: str, words: int, _: int) -> None:
    if words == 0:
        raise FeatureError(
            f"{place}: no text in column '{shown(column)}' has a word.\n"
            f"Delete the column, or name the one with the words: `words=COLUMN`"
        )
    if words > MAX_WORDS:
        raise FeatureError(
            f"{place}: column '{shown(column)}' has {words:,} different words, at most "
            f"{MAX_WORDS:,} are accepted.\nLeave out words that occur in one or two texts only, "
            f"put all into lower case, or remove punctuation."
        )


# --- Rows and nodes ---


def _checked(
    names: list[str],
    x: Tensor,
    place: str,
    linked: Collection[str],
    feature_names: tuple[str, ...] = (),
    notes: Sequence[str] = (),
) -> FeatureTable:
    """Put the rows in the order of the names, after checking that they are those of the graph."""
    order = sorted(range(len(names)), key=names.__getitem__)
    ordered = tuple(names[row] for row in order)
    twice = [a for a, b in itertools.pairwise(ordered) if a == b]
    if twice:
        raise FeatureError(
            f"{place}: more than one row for node {listed(sorted(set(twice)))}.\n"
            f"Keep one row per node; {len(twice):,} too many."
        )
    missing = sorted(set(linked).difference(ordered))
    if missing:
        raise FeatureError(
            f"{place} has no row for {counted(len(missing), 'node')} with links: "
            f"{listed(missing)}.\nAdd a row for each, or leave their links out."
        )
    x = compact(x.index_select(0, torch.tensor(order)))
    extra = len(ordered) - len(set(linked))
    if extra:
        isolated = f"{counted(extra, 'node')} of {place} without links kept as isolated."
        notes = [isolated, *notes]
    constant = constant_notes(*extremes(x), feature_names) if len(ordered) > 1 else []
    found = (*notes, *constant)
    return FeatureTable(ordered, x, found, feature_names)


def constant_notes(low: Tensor, high: Tensor, feature_names: Sequence[str]) -> list[str]:
    """Say which features tell no node from another.

    Args:
        low: The smallest value of each feature, [d].
        high: The largest one.
        feature_names: What each feature is called; empty if they have no names.
    """
    constant = low == high
    notes: list[str] = []
    for which, what in ((constant & (low != 0), "the same"), (constant & (low == 0), "zero")):
        if columns := which.nonzero().flatten().tolist():
            labels = [feature_names[k] if feature_names else str(k + 1) for k in columns]
            called = listed(labels, quoted=bool(feature_names))
            many = f"s {called} are" if len(columns) > 1 else f" {called} is"
            notes.append(f"Feature{many} {what} for every node.")
    return notes
