"""Tables of text: one row a line, cells between separators.

Arrow reads the cells, because it is fast and strict. Python's own reader is slower but knows its
line numbers, so it reads the header, checks quotes, and finds the line that an error names.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.graph.wording import listed, shown
from cgcl.readers.regular_file import check_text, read_bytes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_COLUMNS", "DelimitedFile", "Row", "checked_separator", "read_bytes"]

MAX_COLUMNS = 100_000
# A row must fit into one block: far more than names need, and enough for 100,000 numbers.
_BLOCK_BYTES = 1 << 24
_TAB_SUFFIXES = frozenset({".tsv", ".tab"})
_LIKELY = (";", "\t", "|")
_AFTER_QUOTE = re.compile(r'(?:^|[,;\t|])"(?:[^"]|"")*"([,;\t|])')
_ANYTHING = re.compile(rb"[^\r\n]")
_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True)
class Row:
    """One row as Python's reader sees it."""

    line: int
    """Number of its first line in the file, from 1."""
    last_line: int
    """Number of its last line: larger when a quoted cell holds a line break."""
    cells: list[str]
    """The cells, quotes removed."""
    text: str
    """The line as it stands in the file."""


@dataclass(frozen=True)
class DelimitedFile:
    """A CSV or TSV file that was opened and whose first row was understood."""

    file: str
    """The file's name, for messages."""
    content: bytes
    """The whole file: UTF-8 without NUL bytes."""
    separator: str
    """The character between cells."""
    is_quoted: bool
    """Whether any quote character occurs."""
    header: tuple[str, ...] | None
    """The column names, or None if the file has no header line."""
    num_columns: int
    """Cells in every row."""
    body_start: int
    """Where the first row of values begins, in bytes."""

    @classmethod
    def open(
        cls, path: Path, *, separator: str | None = None, header: bool = True
    ) -> DelimitedFile:
        """Read the file and its first row.

        Args:
            path: A CSV or TSV file, UTF-8, with or without a byte order mark.
            separator: The character between cells; None means a tab for .tsv and .tab files and a
                comma for all others.
            header: Whether the first row holds column names.

        Raises:
            GraphFormatError: It is not a readable text table with at least one row of values.
            ConfigError: The separator is not one plain character.
        """
        chosen = checked_separator(separator) if separator is not None else _by_suffix(path)
        content = read_bytes(path)
        check_text(path.name, content)
        return cls.from_content(path.name, content, separator=chosen, header=header)

    @classmethod
    def from_content(
        cls, file: str, content: bytes, *, separator: str, header: bool
    ) -> DelimitedFile:
        """Understand the first row of a table that is in memory.

        Args:
            file: What messages call it.
            content: The whole table, UTF-8 without NUL bytes.
            separator: The character between cells.
            header: Whether the first row holds column names.

        Raises:
            GraphFormatError: It has no row of values, too many columns, or broken quotes.
        """
        draft = cls(file, content, separator, b'"' in content, None, 0, 0)
        first = next(draft.rows(), None)
        if first is None:
            raise GraphFormatError(
                f"{file} is empty.\n"
                f"Expected a table with a header line and one row per line, such as:\n"
                f"source,target\nAnna,Bob"
            )
        if len(first.cells) > MAX_COLUMNS:
            raise GraphFormatError(
                f"{file}, line {first.line}: {len(first.cells):,} columns.\n"
                f"At most {MAX_COLUMNS:,} are read. Is the separator {separator!r} right? "
                f"If not, use `separator`."
            )
        body_start = _end_of_line(content, first.last_line) if header else _start(content)
        if header and not _ANYTHING.search(content, body_start):
            raise GraphFormatError(
                f"{file} has a header line but no rows: {shown(first.text.strip())}\n"
                f"Add rows below it. If that line is a row itself, add `header=False`."
            )
        has_quotes = content.find(b'"', body_start) >= 0
        if has_quotes and not _has_plain_quotes(content, body_start, separator):
            draft.check_quotes()
        return cls(
            file=file,
            content=content,
            separator=separator,
            is_quoted=draft.is_quoted,
            header=_checked_header(file, first.cells) if header else None,
            num_columns=len(first.cells),
            body_start=body_start,
        )

    def column_label(self, column: int) -> str:
        """Return how messages call a column: its name in quotes, or its number from 1."""
        return f"'{shown(self.header[column])}'" if self.header else str(column + 1)

    def read_columns(self, types: Mapping[int, pa.DataType]) -> pa.Table | None:
        """Read some columns with Arrow.

        Args:
            types: The Arrow type of each wanted column, by its number from 0. Strings stay as they
                are ("NA", "007"); an empty cell of another type is null.

        Returns:
            The columns, named "0", "1", ... after their numbers; None if a cell is not of its type.

        Raises:
            GraphFormatError: A row has too few or too many cells, or is too long.
        """
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        body = pa.py_buffer(self.content).slice(self.body_start)
        has_quotes = self.content.find(b'"', self.body_start) >= 0
        try:
            return arrow_csv.read_csv(
                pa.BufferReader(body),
                read_options=arrow_csv.ReadOptions(
                    column_names=[str(column) for column in range(self.num_columns)],
                    block_size=_BLOCK_BYTES,
                    # After an error, reader threads may outlive the interpreter and abort it.
                    use_threads=False,
                ),
                parse_options=arrow_csv.ParseOptions(
                    delimiter=self.separator,
                    quote_char='"' if has_quotes else False,
                    newlines_in_values=has_quotes,
                ),
                convert_options=arrow_csv.ConvertOptions(
                    column_types={str(column): kind for column, kind in types.items()},
                    include_columns=[str(column) for column in types],
                    null_values=[""],
                    strings_can_be_null=False,
                    check_utf8=False,  # checked when the file was opened
                ),
            )
        except pa.ArrowInvalid as error:
            if "conversion error" in str(error):
                return None
            self._refuse_ragged_row()
            raise GraphFormatError(
                f"{self.file} cannot be read as a table: {shown(str(error), 200)}\n"
                f"Check that every row has {self.num_columns} cells."
            ) from error

    def rows(self) -> Iterator[Row]:
        """Yield the rows that are not empty, the header included, with their line numbers.

        Raises:
            GraphFormatError: A quote is not closed, or text follows a closing quote.
        """
        pending: list[str] = []

        def remembered() -> Iterator[str]:
            for line in self._lines():
                pending.append(line)
                yield line

        reader = self._reader(remembered())
        line = 1
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise self._row_error(line, pending[0], str(error)) from error
            if cells:
                yield Row(line, reader.line_num, cells, "".join(pending).rstrip("\r\n"))
            pending.clear()
            line = reader.line_num + 1

    def row_of_values(self, index: int) -> Row | None:
        """Return the row of values with this number, from 0, header not counted."""
        wanted = index + (1 if self.header is not None else 0)
        return next((row for number, row in enumerate(self.rows()) if number == wanted), None)

    def check_quotes(self) -> None:
        """Refuse quotes that Arrow would accept and read as something nobody meant.

        Raises:
            GraphFormatError: A quote is not closed, or text follows a closing quote.
        """
        try:
            deque(self._reader(self._lines()), maxlen=0)
        except csv.Error:
            deque(self.rows(), maxlen=0)  # the same again, with line numbers

    def _lines(self) -> Iterator[str]:
        return io.TextIOWrapper(io.BytesIO(self.content), encoding="utf-8-sig", newline="")

    def _reader(self, lines: Iterator[str]) -> Any:  # noqa: ANN401 (csv does not export its type)
        quoting: Any = csv.QUOTE_MINIMAL if self.is_quoted else csv.QUOTE_NONE
        return csv.reader(lines, delimiter=self.separator, quoting=quoting, strict=True)

    def _refuse_ragged_row(self) -> None:
        for row in self.rows():
            found = len(row.cells)
            if found != self.num_columns:
                expected = (
                    f"({listed(self.header, 4, quoted=False)})" if self.header else "as in line 1"
                )
                raise GraphFormatError(
                    f"{self.file}, line {row.line}: {found:,} column{'' if found == 1 else 's'}, "
                    f"expected {self.num_columns:,} {expected}.\n"
                    f"  {row.line} | {shown(row.text)}\n"
                    f"{self._ragged_remedy(row)}"
                )

    def _ragged_remedy(self, row: Row) -> str:
        if len(row.cells) > self.num_columns:
            return f"If a cell contains '{shown(self.separator)}' itself, quote it: \"...\"."
        for other in _LIKELY:
            if other != self.separator and row.text.count(other) == self.num_columns - 1:
                return (
                    f"This row has '{shown(other)}' where the others have "
                    f"'{shown(self.separator)}'. Use one separator in the whole file."
                )
        if self.header in (("source", "target"), ("target", "source")):
            other = ";" if self.separator != ";" else ","
            return (
                f"Each row needs two node names. "
                f"If your columns are separated by '{other}' use `separator='{other}'`."
            )
        return (
            f"Each row needs {self.num_columns:,} cells "
            f"with '{shown(self.separator)}' between them."
        )

    def _row_error(self, line: int, text: str, problem: str) -> GraphFormatError:
        place = f"{self.file}, line {line}"
        quoted = f"  {line} | {shown(text.rstrip())}\n"
        if "unexpected end" in problem:
            return GraphFormatError(
                f'{place}: a quote (") is opened here and never closed.\n{quoted}'
                f'Close it, or write a quote inside a quoted name twice: "".'
            )
        if "field limit" in problem:
            return GraphFormatError(
                f"{place}: a cell of more than {csv.field_size_limit():,} characters.\n{quoted}"
                f"Look for a missing line break or a quote that is not closed."
            )
        other = _AFTER_QUOTE.search(text)
        if other and other[1] != self.separator:
            return GraphFormatError(
                f"{place}: '{shown(other[1])}' follows a closing quote (\"), "
                f"but the separator is '{shown(self.separator)}'.\n{quoted}"
                f"If your columns are separated by '{shown(other[1])}' "
                f"use `separator='{shown(other[1])}'`."
            )
        return GraphFormatError(
            f'{place}: text follows a closing quote (").\n{quoted}'
            f'Put the whole cell in quotes and write a quote inside it twice: "".'
        )


def checked_separator(separator: str) -> str:
    """Return the character that a user means by `separator`.

    Raises:
        ConfigError: It is not one plain character.
    """
    if separator == "\\t":  # what a shell passes on for --separator '\t'
        return "\t"
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise ConfigError(
            f"The separator {separator!r} is not one plain character.\n"
            f"Use one such as ',' ';' '|' or '\\t' for a tab."
        )
    return separator


def _by_suffix(path: Path) -> str:
    return "\t" if path.suffix.lower() in _TAB_SUFFIXES else ","


def _has_plain_quotes(content: bytes, start: int, separator: str) -> bool:
    """Return whether every quote surely opens a cell, closes one, or is written twice in one.

    This is quick and may say no to a table that is fine; it never says yes to one that is not.
    """
    text = np.frombuffer(content, dtype=np.uint8)[start:]
    quotes = np.flatnonzero(text == ord('"'))
    if len(quotes) % 2:
        return False
    borders = np.zeros(256, dtype=bool)
    borders[[ord(separator), ord("\r"), ord("\n"), ord('"')]] = True
    opening, closing = quotes[::2], quotes[1::2]
    before = text[np.maximum(opening - 1, 0)]
    after = text[np.minimum(closing + 1, len(text) - 1)]
    return bool(
        (borders[before] | (opening == 0)).all()
        and (borders[after] | (closing == len(text) - 1)).all()
    )


def _checked_header(file: str, names: Sequence[str]) -> tuple[str, ...]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GraphFormatError(
                f"{file} has two columns called '{shown(name)}'. "
                f"Columns found: {listed(names, 10, quoted=False)}.\n"
                f"Give every column a name of its own. "
                f"If the file has no header line, add `header=False`."
            )
        seen.add(name)
    return tuple(names)


def _start(content: bytes) -> int:
    return len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0


def _end_of_line(content: bytes, line: int) -> int:
    """Return the position after the line break that ends line number `line`."""
    for number, match in enumerate(_LINE_END.finditer(content), start=1):
        if number == line:
            return match.end()
    return len(content)
