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

from cgcl.errors import ConfigError, FeatureError, GraphFormatError, ResourceError
from cgcl.graph.features import compact, same_for_every_node
from cgcl.graph.wording import listed, shown
from cgcl.readers.regular_file import names_of_rows
from cgcl.readers.tables import Table, encoded, is_number, parquet_table, plain, refuse_twice
from cgcl.readers.text import open_table

MAX_CATEGORIES = 10_000
MAX_WORDS = 100_000
# A column with more values than this, most of them once, names its nodes and does not group them.
_FEW = 100
_LARGEST = float(np.finfo(np.float32).max)
# A table of numbers is held by Arrow, as one array, and once more in the order of the names.
_COPIES = 3
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
    def text(self) -> frozenset[str]:
        """The names of all columns of text; all others must hold numbers."""
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
        for wanted in sorted(self.text):
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


def read_text_features(path: Path, options: FeatureOptions) -> Table:
    """Read a table of text with a row per node; its first column names the nodes.

    Raises:
        GraphFormatError: The file is not a table.
        ConfigError: The separator or the columns make no sense.
        ResourceError: The numbers do not fit into memory.
    """
    file = open_table(path, options.separator, header=options.header)
    if len(file.columns) < 2:
        raise GraphFormatError(
            f"{file.place} has 1 column, expected a node name and at least one feature.\n"
            f"If the columns are separated by another character, use `separator`."
        )
    options.check(file.place, file.columns)
    numeric = [name for name in file.columns[1:] if name not in options.text]
    check_memory(file.place, file.most_rows(), len(numeric))
    return file.table(file.columns, frozenset(numeric))


def read_parquet_features(path: Path, options: FeatureOptions) -> Table:
    """Read a Parquet file with a row per node; its first column, or its index, names the nodes.

    Raises:
        GraphFormatError: It is not a Parquet file, or unpacks to too much.
        ResourceError: The numbers do not fit into memory.
    """

    def choose(place: str, columns: Sequence[str], rows: int) -> Sequence[str]:
        refuse_twice(place, columns)
        check_memory(place, rows, len(columns) - len(options.text))
        return columns

    return parquet_table(path, choose)


def features_of_table(
    table: Table, options: FeatureOptions, linked: Collection[str]
) -> FeatureTable:
    """Return the features of a table: numbers first, then categories, then words.

    The first column names the nodes, or the index of a pandas frame that has one of its own. Text
    makes sparse features.

    Args:
        table: All its columns.
        options: Which columns hold text; all others must hold numbers.
        linked: The nodes that have links; each needs a row.

    Raises:
        GraphFormatError: A node has no name, or there are no features.
        FeatureError: A cell is not a finite number, there are too many categories or words, a node
            has two rows, or a linked node has none.
        ConfigError: The columns make no sense.
    """
    columns, rows = _index_first(table), table.data.num_rows
    if len(columns) < 2 or rows == 0:
        raise GraphFormatError(
            f"{table.place} has {len(columns)} column{'' if len(columns) == 1 else 's'} and "
            f"{rows:,} rows, expected a column of node names, at least one feature, and a row per "
            f"node."
        )
    refuse_twice(table.place, columns)
    options.check(table.place, columns)
    nodes = encoded(table, columns[:1], "Put the column of names first.")
    names: list[str] = nodes.distinct.take(pa.array(nodes.codes)).to_pylist()
    numeric = [name for name in columns[1:] if name not in options.text]
    numbers = torch.from_numpy(_numbers(table, numeric, names))
    if not options.text:
        return _checked(names, numbers, table.place, linked, tuple(numeric), [])
    parts, labels, notes = [numbers.to_sparse_coo()] if numeric else [], [*numeric], list[str]()
    for column in options.one_hot:
        x, categories, empty = _indicators(_texts(table, column))
        _check_categories(table, column, len(categories))
        parts.append(x)
        labels += [f"{column}={category}" for category in categories]
        notes += _empty_note(column, empty, "belong", "to no category")
    if options.words is not None:
        x, words, empty = _indicators(_texts(table, options.words), are_words=True)
        _check_words(table, options.words, len(words))
        parts.append(x)
        labels += [f"{options.words}:{word}" for word in words]
        notes += _empty_note(options.words, empty, "have", "no words")
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
            f"to {len(names) - 1}.\n{len(others):,} node{'' if len(others) == 1 else 's'} with "
            f"links {'is' if len(others) == 1 else 'are'} called otherwise: {listed(others)}.\n"
            f"Give a text file with the node of each row, one name per line: `row_names=FILE`"
        )
    return _checked(names, x, place, linked, (), [])


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

    needed, free = _COPIES * 4 * rows * columns, free_memory()
    if needed > free:
        raise ResourceError(
            f"{place} has {rows:,} rows of {columns:,} numbers, about {needed / 1e9:,.1f} GB while "
            f"it is read; {free / 1e9:,.1f} GB is free.\n"
            f"If most numbers are zero, save them as a sparse matrix: .npz (scipy.sparse.save_npz) "
            f"or .mtx."
        )


# --- Columns of numbers ---


def _index_first(table: Table) -> list[str]:
    """Put the index of a pandas frame, which Arrow lists last, where the names are expected."""
    about = (table.data.schema.metadata or {}).get(b"pandas", b"{}")
    index = json.loads(about).get("index_columns", [])
    named = [name for name in index if isinstance(name, str) and name in table.columns]
    if len(named) != 1:
        return list(table.columns)
    return [*named, *(name for name in table.columns if name != named[0])]


def _numbers(table: Table, columns: Sequence[str], names: list[str]) -> np.ndarray:
    """Return columns as float32 [n, k], all finite."""
    found = np.empty((table.data.num_rows, len(columns)), dtype=np.float32)
    for place, name in enumerate(columns):
        cells = plain(table.data.column(name))
        if pa.types.is_boolean(cells.type):
            cells = cells.cast(pa.uint8())
        if not (is_number(cells.type) or pa.types.is_decimal(cells.type)):
            raise _cell_error(table, columns, names)
        values = cells.cast(pa.float64(), safe=False).to_numpy()  # null becomes NaN
        if not (np.abs(values) <= _LARGEST).all():
            raise _cell_error(table, columns, names)
        found[:, place] = values
    return found


def _cell_error(table: Table, columns: Sequence[str], names: list[str]) -> FeatureError:
    """Describe the first cell that is no finite number."""
    written = table.as_written()
    for name in columns:
        cells = plain(written.data.column(name)).to_pylist()
        problems = [_problem(cell, is_text=written is not table) for cell in cells]
        row = next((row for row, problem in enumerate(problems) if problem), None)
        if row is not None:
            more = len(problems) - problems.count(None) - 1
            return _bad_cell(table, name, names[row], problems[row] or "", more)
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


def _bad_cell(table: Table, column: str, name: str, problem: str, more: int) -> FeatureError:
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
    others = f" (and {more:,} more node{'' if more == 1 else 's'})" if more else ""
    return FeatureError(
        f"{table.place}: feature {table.label(column)} of node '{shown(name)}' {problem}{others}.\n"
        f"{remedy}"
    )


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


def _texts(table: Table, column: str) -> pa.Array:
    cells = plain(table.data.column(column))
    try:
        texts = cells.cast(pa.large_string())
        texts.validate(full=True)  # Parquet does not promise UTF-8
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FeatureError(
            f"{table.place}: column '{shown(column)}' holds {shown(str(cells.type))}, which cannot "
            f"be read as text.\nTurn it into text first, or delete the column."
        ) from error
    return texts.fill_null("").combine_chunks()


def _indicators(texts: pa.Array, *, are_words: bool = False) -> tuple[Tensor, list[str], int]:
    """Return a feature for each text or word that occurs, what they are, and the empty texts.

    Texts are compared as they are written, and come in the order of code points. Words are what
    stands between blanks; a word counts once however often a text repeats it, as in the paper's
    citation graphs. An empty text has no feature: its row stays zero.

    Example:
        >>> x, words, empty = _indicators(pa.array(["b a b", "", "c"]), are_words=True)
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
    x = torch.sparse_coo_tensor(
        torch.from_numpy(np.stack([codes // k, codes % k])),
        torch.ones(len(codes)),
        (count, len(values)),
        check_invariants=True,
        is_coalesced=True,
    )
    return x, values, count - len(np.unique(codes // k))


def _check_categories(table: Table, column: str, categories: int) -> None:
    nodes = table.data.num_rows
    if categories == 0:
        raise FeatureError(
            f"{table.place}: column '{shown(column)}' is empty, so it has no categories.\n"
            f"Delete the column, or fill it."
        )
    if categories > MAX_CATEGORIES or (categories > _FEW and 2 * categories > nodes):
        raise FeatureError(
            f"{table.place}: column '{shown(column)}' has {categories:,} different values for "
            f"{nodes:,} nodes, which is an identifier rather than a category.\n"
            f"Group the values (at most {MAX_CATEGORIES:,}, each for two nodes or more on "
            f"average), or delete the column."
        )


def _check_words(table: Table, column: str, words: int) -> None:
    if words == 0:
        raise FeatureError(
            f"{table.place}: no text in column '{shown(column)}' has a word.\n"
            f"Delete the column, or name the one with the words: `words=COLUMN`"
        )
    if words > MAX_WORDS:
        raise FeatureError(
            f"{table.place}: column '{shown(column)}' has {words:,} different words, at most "
            f"{MAX_WORDS:,} are accepted.\nLeave out words that occur in one or two texts only, "
            f"put all into lower case, or remove punctuation."
        )


def _empty_note(label: str, empty: int, verb: str, what: str) -> list[str]:
    if empty == 0:
        return []
    verb = {"belong": "belongs", "have": "has"}[verb] if empty == 1 else verb
    cells = "1 empty cell" if empty == 1 else f"{empty:,} empty cells"
    return [f"Column '{shown(label)}': {cells}, which {verb} {what}."]


# --- Rows and nodes ---


def _checked(
    names: list[str],
    x: Tensor,
    place: str,
    linked: Collection[str],
    feature_names: tuple[str, ...],
    notes: list[str],
) -> FeatureTable:
    """Put the rows in the order of the names, after checking that they are those of the graph."""
    order = sorted(range(len(names)), key=names.__getitem__)
    ordered = tuple(names[row] for row in order)
    _check_unique(place, ordered)
    missing = sorted(set(linked).difference(ordered))
    if missing:
        raise FeatureError(
            f"{place} has no row for {len(missing):,} node{'' if len(missing) == 1 else 's'} "
            f"with links: {listed(missing)}.\n"
            f"Add a row for each, or leave their links out."
        )
    x = compact(x.index_select(0, torch.tensor(order)))
    extra = len(ordered) - len(set(linked))
    if extra:
        plural = "" if extra == 1 else "s"
        isolated = f"{extra:,} node{plural} of {place} without links kept as isolated."
        notes = [isolated, *notes]
    found = (*notes, *_constant_notes(x, feature_names))
    return FeatureTable(ordered, x, found, feature_names)


def _check_unique(place: str, ordered: tuple[str, ...]) -> None:
    twice = [a for a, b in itertools.pairwise(ordered) if a == b]
    if twice:
        raise FeatureError(
            f"{place}: more than one row for node {listed(sorted(set(twice)))}.\n"
            f"Keep one row per node; {len(twice):,} too many."
        )


def _constant_notes(x: Tensor, feature_names: tuple[str, ...]) -> list[str]:
    """Say which features tell no node from another."""
    if x.shape[0] < 2:
        return []
    zero, constant = same_for_every_node(x)
    notes: list[str] = []
    for columns, what in ((constant, "the same"), (zero, "zero")):
        if columns:
            labels = [feature_names[k] if feature_names else str(k + 1) for k in columns]
            which = listed(labels, quoted=bool(feature_names))
            many = f"s {which} are" if len(columns) > 1 else f" {which} is"
            notes.append(f"Feature{many} {what} for every node.")
    return notes
