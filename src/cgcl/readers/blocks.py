"""Tables larger than memory, some rows at a time, each block read as a whole file is.

A block of text is cut where a row ends, so whatever `text.py` accepts or refuses of a file, and the
line that it names, is the same here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from cgcl.errors import GraphFormatError
from cgcl.readers.edge_table import LinkOptions
from cgcl.readers.regular_file import checked_text, line_at, opened
from cgcl.readers.tables import Table, parquet_blocks
from cgcl.readers.text import (
    DelimitedFile,
    comment_notes,
    edge_list,
    separator_of,
    without_comments,
)
from cgcl.wording import shown

BLOCK_BYTES = 1 << 25
"""How much text is read at once: more than the longest line that is read."""
_PARQUET, _TABLES = (".parquet", ".pq"), (".csv", ".tsv", ".tab", "")
_LISTS = (".txt", ".edges", ".edgelist")
_ROW, _WORD = re.compile(rb"[^\r\n]"), re.compile(rb"\S")

Choose = Callable[[Table], tuple[Sequence[str], Collection[str]]]
"""Looks at the beginning of a table and returns which columns to read, and which hold numbers."""


def parts_of(path: Path) -> list[Path]:
    """Return the files of a folder in the order of their names, or the one file.

    Files that begin with a dot or an underscore are not the user's own, as Spark has it.

    Raises:
        GraphFormatError: There are none, or they are of several kinds.
    """
    if not path.is_dir():
        return [path]
    parts = sorted(p for p in path.iterdir() if not p.is_dir() and p.name[0] not in "._")
    kinds = sorted({part.suffix.lower() for part in parts})
    if len(kinds) != 1:
        found = f"files of several kinds ({' '.join(kinds)})" if kinds else "no files"
        raise GraphFormatError(
            f"{path} holds {found}, expected the parts of one table.\n"
            f"Put nothing but the parts into a folder, all CSV or all Parquet."
        )
    return parts


def has_blocks(path: Path) -> bool:
    """Say whether links are read from files of this kind in blocks."""
    return path.suffix.lower() in (*_PARQUET, *_TABLES, *_LISTS)


def table_blocks(
    path: Path,
    options: LinkOptions,
    choose: Choose,
    notes: list[str],
    *,
    lists: bool = True,
    needed: str = "two node names",
) -> Iterator[tuple[Table, pa.Table]]:
    """Yield the rows of a table in blocks: what each is part of, and the columns that were chosen.

    Args:
        path: CSV, TSV, an edge list, or Parquet.
        options: How text is written.
        choose: Is asked once.
        notes: Receives what is worth knowing, when all is read.
        lists: Whether a .txt file is an edge list, in which comments are left out.
        needed: What each row needs at least, two things in words.

    Raises:
        GraphFormatError: It is not such a table; the message says where and why.
        ConfigError: The options make no sense.
        ResourceError: A block does not fit into memory.
    """
    suffix = path.suffix.lower()
    if suffix in _PARQUET:
        yield from parquet_blocks(path, choose, BLOCK_BYTES)
        return
    is_list = lists and suffix in _LISTS
    if not is_list and suffix not in (*_TABLES, ".txt"):
        raise GraphFormatError(
            f"{shown(path.name)}: no store is made of files of the kind '{shown(suffix)}'.\n"
            f"Save it as CSV, as Parquet or as an edge list, or read it as a whole."
        )
    first: DelimitedFile | None = None
    wanted: tuple[Sequence[str], Collection[str]] = ((), ())
    left_out = [0, 0]
    for content, before in _line_blocks(path):
        content = checked_text(path.name, content, before)
        if is_list:
            content, found = without_comments(content)
            left_out = [a + b for a, b in zip(left_out, found, strict=True)]
        if (is_list or first) and not (_WORD if is_list else _ROW).search(content):
            continue
        table = _table(path, content, options, needed, first, before, is_list=is_list)
        if first is None:
            first, wanted = table, choose(table)
        yield table, table.read(*wanted)
    if first is None:  # nothing but comments, which is refused as an empty file is
        _table(path, b"", options, needed, None, 0, is_list=is_list)
    notes += comment_notes(*left_out)


def _table(
    path: Path,
    content: bytes,
    options: LinkOptions,
    needed: str,
    first: DelimitedFile | None,
    before: int,
    *,
    is_list: bool,
) -> DelimitedFile:
    if is_list:
        return edge_list(path.name, content, options, first, before)
    return DelimitedFile(
        path.name,
        content,
        separator_of(path, options.separator),
        header=options.header is not False,
        needed=needed,
        after=first,
        before=before,
    )


def _line_blocks(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield a file in blocks of whole rows, and how many lines come before each."""
    rest, before = b"", 0
    with opened(path) as file:
        while True:
            size = max(BLOCK_BYTES - len(rest), BLOCK_BYTES // 8)
            more = file.read(size)
            content = rest + more
            if not content:
                return
            cut = len(content) if len(more) < size else _end_of_rows(content)
            if cut:
                yield content[:cut], before
                before += line_at(content, cut) - 1
            rest = content[cut:]


def _end_of_rows(content: bytes) -> int:
    """Return how many bytes are whole rows, all of them if there is no telling.

    A row that is cut all the same is refused by whoever reads it: its quote is not closed.
    """
    last = _after_break(content, len(content) - content.endswith(b"\r"))
    if content.count(b'"', 0, last) % 2:  # the last quote opens a cell that goes on
        quote = content.rfind(b'"', 0, last)
        last = _after_break(content, quote) or last
    return last or (len(content) if len(content) > BLOCK_BYTES else 0)


def _after_break(content: bytes, end: int) -> int:
    return max(content.rfind(b"\n", 0, end), content.rfind(b"\r", 0, end)) + 1
