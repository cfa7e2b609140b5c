"""Tables of text: one row a line, cells between separators.

Arrow reads the cells, because it is fast and strict. Python's own reader is slower but knows its
line numbers, so it reads the header, checks quotes, and finds the line that an error names.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import stat
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgcl.errors import ConfigError, GraphFormatError, ResourceError
from cgcl.graph.wording import listed, shown

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_COLUMNS", "DelimitedFile", "Row", "read_bytes"]

MAX_COLUMNS = 100_000
# A row must fit into one block: far more than names need, and enough for 100,000 numbers.
_BLOCK_BYTES = 1 << 24
_TAB_SUFFIXES = frozenset({".tsv", ".tab"})
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
        chosen = _checked_separator(separator, path)
        content = read_bytes(path)
        _check_text(path.name, content)
        is_quoted = b'"' in content
        draft = cls(path.name, content, chosen, is_quoted, None, 0, 0)
        first = next(draft.rows(), None)
        if first is None:
            raise GraphFormatError(
                f"{path.name} is empty.\n"
                f"Expected a table with a header line and one row per line, such as:\n"
                f"source,target\nAnna,Bob"
            )
        if len(first.cells) > MAX_COLUMNS:
            raise GraphFormatError(
                f"{path.name}, line {first.line}: {len(first.cells):,} columns.\n"
                f"At most {MAX_COLUMNS:,} are read. Is the separator {chosen!r} right? "
                f"If not, use --separator."
            )
        body_start = _end_of_line(content, first.last_line) if header else _start(content)
        if header and not _ANYTHING.search(content, body_start):
            raise GraphFormatError(
                f"{path.name} has a header line but no rows: {shown(first.text.strip())}\n"
                f"Add rows below it. If that line is a row itself, add --no-header."
            )
        if is_quoted:
            draft.check_quotes()
        return cls(
            file=path.name,
            content=content,
            separator=chosen,
            is_quoted=is_quoted,
            header=_checked_header(path.name, first.cells) if header else None,
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
                    quote_char='"' if self.is_quoted else False,
                    newlines_in_values=self.is_quoted,
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
        other = next((s for s in ";\t|, " if s != self.separator and s in row.text), None)
        if other is None:
            other = ";" if self.separator != ";" else ","
        return (
            "Each row needs two node names. "
            if self.header in (("source", "target"), ("target", "source"))
            else f"Each row needs {self.num_columns:,} cells. "
        ) + f"If your columns are separated by '{shown(other)}' use --separator '{shown(other)}'."

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
        return GraphFormatError(
            f'{place}: text follows a closing quote (").\n{quoted}'
            f'Put the whole cell in quotes and write a quote inside it twice: "".'
        )


def read_bytes(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        GraphFormatError: It does not exist, is a folder, pipe or device, or may not be read.
        ResourceError: It does not fit into memory.
    """
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise GraphFormatError(
                f"{path} is a folder, not a regular file.\nGive the path of a file inside it."
            )
        if not stat.S_ISREG(mode):
            raise GraphFormatError(
                f"{path} is not a regular file but a pipe or a device.\n"
                f"Save the table as a file first."
            )
        return path.read_bytes()
    except FileNotFoundError as error:
        raise GraphFormatError(
            f"No such file: {path}\nCheck the spelling and the folder you are in."
        ) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise GraphFormatError(
            f"Cannot read {shown(str(path), 200)}: {reason}.\nCheck the path and who may read it."
        ) from error
    except MemoryError as error:
        raise ResourceError(
            f"{path.name} does not fit into memory.\nUse a machine with more memory, or fewer rows."
        ) from error


def _checked_separator(separator: str | None, path: Path) -> str:
    if separator is None:
        return "\t" if path.suffix.lower() in _TAB_SUFFIXES else ","
    if separator == "\\t":  # what a shell passes on for --separator '\t'
        return "\t"
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise ConfigError(
            f"The separator {separator!r} is not one plain character.\n"
            f"Use one such as ',' ';' '|' or '\\t' for a tab."
        )
    return separator


def _check_text(file: str, content: bytes) -> None:
    if content.startswith(b"PK\x03\x04"):
        raise GraphFormatError(
            f"{file} is an Excel file or another ZIP archive, whatever its name says.\n"
            f"Open it in a spreadsheet and save it as CSV."
        )
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise GraphFormatError(
            f"{file} is encoded as UTF-16, expected UTF-8.\n"
            f"Save it again as CSV with UTF-8 encoding."
        )
    zero = content.find(b"\0")
    if zero >= 0:
        raise GraphFormatError(
            f"{file}, line {_line_at(content, zero)}: a NUL byte, which no text table contains.\n"
            f"Save the table again as CSV with UTF-8 encoding."
        )
    if content.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    step = 1 << 22
    for start in range(0, len(content), step):
        held = len(decoder.getstate()[0])  # bytes of a character that the last step cut
        try:
            decoder.decode(content[start : start + step], final=start + step >= len(content))
        except UnicodeDecodeError as error:
            position = start - held + error.start
            raise GraphFormatError(
                f"{file}, line {_line_at(content, position)}: byte 0x{content[position]:02x} is "
                f"not UTF-8.\nSave the file with UTF-8 encoding, or convert it: "
                f"iconv -f LATIN1 -t UTF-8 {file}"
            ) from error


def _checked_header(file: str, names: Sequence[str]) -> tuple[str, ...]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise GraphFormatError(
                f"{file} has two columns called '{shown(name)}'. "
                f"Columns found: {listed(names, 10, quoted=False)}.\n"
                f"Give every column a name of its own. "
                f"If the file has no header line, add --no-header."
            )
        seen.add(name)
    return tuple(names)


def _line_at(content: bytes, position: int) -> int:
    """Return the number of the line, from 1, that holds the byte at `position`."""
    breaks = content.count(b"\n", 0, position) + content.count(b"\r", 0, position)
    return breaks - content.count(b"\r\n", 0, position) + 1


def _start(content: bytes) -> int:
    return len(codecs.BOM_UTF8) if content.startswith(codecs.BOM_UTF8) else 0


def _end_of_line(content: bytes, line: int) -> int:
    """Return the position after the line break that ends line number `line`."""
    for number, match in enumerate(_LINE_END.finditer(content), start=1):
        if number == line:
            return match.end()
    return len(content)
