"""Tables of text: one row a line, cells between separators; and edge lists, which are less strict.

Arrow reads the cells, because it is fast and strict. Python's own reader is slower but knows its
line numbers, so it reads the header, checks quotes, and finds the line that an error names.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyarrow import csv as arrow_csv

from cgcl.errors import ConfigError, GraphFormatError
from cgcl.memory import require_readable
from cgcl.readers.edge_table import EdgeTable, LinkOptions
from cgcl.readers.regular_file import MAX_LINE_BYTES, read_text
from cgcl.readers.tables import MAX_COLUMNS, NO_HEADER, Table, check_memory, links_of, refuse_twice
from cgcl.wording import counted, listed, shown

# What each row of links takes at worst while it is read, but for names; measured by
# benchmarks/reading.py.
_ROW_BYTES = 150
_SEPARATORS = {";": "';'", "\t": "'\\t'", "|": "'|'", ",": "','", " ": "' '"}
_AFTER_QUOTE = re.compile(r'(?:^|[,;\t|])"(?:[^"]|"")*"([,;\t|])')
_ANYTHING = re.compile(rb"[^\r\n]")
_LINE_END = re.compile(rb"\r\n|\r|\n")

_TWO_NAMES = "two node names"

_COMMENT = re.compile(rb"^[ \t]*[#%][^\r\n]*", re.MULTILINE)
# What networkx writes behind the names: a dictionary.
_DICTIONARY = re.compile(rb"[ \t]*\{[^\r\n]*\}[ \t]*(?=\r|\n|\Z)")
_FIRST_LINE = re.compile(rb"\S[^\r\n]*")
_OUTER_BLANKS = re.compile(rb"^[ \t]+|[ \t]+(?=\r|\n|\Z)", re.MULTILINE)
_BLANKS = re.compile(rb"[ \t]+")
_QUOTED_OR_BLANKS = re.compile(rb'("(?:[^"\r\n]|"")*")|[ \t]+')


def read_text_links(path: Path, options: LinkOptions) -> EdgeTable:
    """Read the links of a CSV or TSV file. Names stay the strings they are.

    Args:
        path: The file.
        options: A separator of None means a tab for .tsv and .tab files, a comma for all others.
            Without a header the first two columns count, and columns are called 1, 2, ...

    Raises:
        GraphFormatError: The file is not a table of links; the message says where and why.
        ConfigError: The separator or the column names make no sense.
    """
    file = open_table(path, options.separator, header=options.header is not False)
    return links_of(file, options)


def read_edge_list(path: Path, options: LinkOptions) -> EdgeTable:
    """Read the links of an edge list, which is less strict than a table.

    Lines that begin with # or % are comments (a node name that begins so needs a .csv file).

    Args:
        path: The file.
        options: With a separator of None the first line that is no comment tells: a tab, a comma or
            a semicolon in it, in this order, else runs of blanks. A header of None means one if the
            first line holds both column names.

    Raises:
        GraphFormatError: The file is not a list of links; the message says where and why.
        ConfigError: The separator or the column names make no sense.
    """
    content, left_out = without_comments(read_text(path))
    return links_of(edge_list(path.name, content, options), options, comment_notes(*left_out))


def edge_list(
    place: str,
    content: bytes,
    options: LinkOptions,
    after: DelimitedFile | None = None,
    before: int = 0,
) -> DelimitedFile:
    """Return the table that an edge list is.

    Args:
        place: What messages call the file.
        content: Lines that are no comments.
        options: See `read_edge_list`.
        after: What was read of the same file before, if these are further lines.
        before: How many lines of the file come before these.

    Raises:
        GraphFormatError: It has no row, one column, or broken quotes.
        ConfigError: The separator makes no sense.
    """
    separator = None if options.separator is None else _checked_separator(options.separator)
    first = _FIRST_LINE.search(content)
    text = first[0].strip() if first else b""
    found = separator or next((mark for mark in "\t,;" if mark.encode() in text), " ")
    found = after.separator if after else found
    if found == " ":
        content = _OUTER_BLANKS.sub(b"", content)
        if b'"' in content:
            content = _QUOTED_OR_BLANKS.sub(_quoted_or_blank, content)
        elif b"  " in content or b"\t" in content:
            content = _BLANKS.sub(b" ", content)
    # Line breaks are never touched: line numbers in messages stay those of the file.
    is_named = options.header is None and options.ends != ("source", "target")
    header = True if is_named else options.header
    return DelimitedFile(
        place, content, found, header=header, ends=options.ends, after=after, before=before
    )


def open_table(
    path: Path, separator: str | None, *, header: bool, needed: str = _TWO_NAMES
) -> DelimitedFile:
    """Read a CSV or TSV file and its first row.

    Args:
        path: The file, UTF-8, with or without a byte order mark.
        separator: The character between cells; None means a tab for .tsv and .tab files and a
            comma for all others.
        header: Whether the first row holds column names.
        needed: What each row needs at least, two things in words.

    Raises:
        GraphFormatError: It is not a readable text table with at least one row of values.
        ConfigError: The separator is not one plain character.
    """
    chosen = separator_of(path, separator)
    return DelimitedFile(path.name, read_text(path), chosen, header=header, needed=needed)


def separator_of(path: Path, separator: str | None) -> str:
    """Return the separator of a table: as the user says, or as the file's suffix does.

    Raises:
        ConfigError: It is not one plain character.
    """
    by_suffix = "\t" if path.suffix.lower() in (".tsv", ".tab") else ","
    return by_suffix if separator is None else _checked_separator(separator)


def _quoted_or_blank(found: re.Match[bytes]) -> bytes:
    return found[1] or b" "


def without_comments(content: bytes) -> tuple[bytes, tuple[int, int]]:
    """Return lines with comments emptied, and how many comments and dictionaries were left out."""
    comments = dictionaries = 0
    if b"#" in content or b"%" in content:
        # A carriage return alone also ends a line; re's ^ knows only the line feed.
        if b"\r" in content.replace(b"\r\n", b""):
            content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        content, comments = _COMMENT.subn(b"", content)
    if b"{" in content:
        content, dictionaries = _DICTIONARY.subn(b"", content)
    return content, (comments, dictionaries)


def comment_notes(comments: int, dictionaries: int) -> tuple[str, ...]:
    """Return notes about what an edge list has besides links."""
    lines = counted(comments, "line that begins", "lines that begin")
    notes = (f"{lines} with # or % skipped.",) if comments else ()
    if not dictionaries:
        return notes
    return (*notes, "Attributes in {...} ignored: only the two ends of each link are used.")


def _checked_separator(separator: str) -> str:
    """Return the character that a user means."""
    if separator == "\\t":  # what a shell passes on for --separator '\t'
        return "\t"
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise ConfigError(
            f"The separator {separator!r} is not one plain character.\n"
            f"Use one such as ',' ';' '|' or '\\t' for a tab."
        )
    return separator


class _Row(NamedTuple):
    """One row as Python's reader sees it."""

    line: int
    """Number of its first line in the file, from 1."""
    last_line: int
    """Number of its last line: larger when a quoted cell holds a line break."""
    cells: list[str]
    """The cells, quotes removed."""
    text: str
    """The line as it stands in the file."""


class DelimitedFile(Table):
    """A CSV or TSV file whose first row was understood; its messages name and quote lines.

    Args:
        place: What messages call it.
        content: The whole table, UTF-8 without NUL bytes.
        separator: The character between cells.
        header: Whether the first row holds column names; None means it does if it holds `ends`.
        ends: The columns with the ends of links.
        needed: What each row needs at least, two things in words.
        after: The rows of the same file that were read before, if these are further ones.
        before: How many lines of the file come before these.

    Raises:
        GraphFormatError: It has no row of values, one column or too many, or broken quotes.
    """

    is_text = True

    def __init__(
        self,
        place: str,
        content: bytes,
        separator: str,
        *,
        header: bool | None,
        ends: Sequence[str] = (),
        needed: str = _TWO_NAMES,
        after: DelimitedFile | None = None,
        before: int = 0,
    ) -> None:
        self.place, self.content, self.separator = place, content, separator
        self._start, self._before, self._has_head = 0, before, False
        if after is not None:
            self.columns, self.has_header = after.columns, after.has_header
            self._check_quotes()
            return
        first = next(self.rows(), None)
        if first is None:
            raise GraphFormatError(
                f"{place} is empty.\n"
                f"Expected a table with a header line and one row per line, such as:\n"
                f"source,target\nAnna,Bob"
            )
        if len(first.cells) > MAX_COLUMNS:
            raise GraphFormatError(
                f"{place}, line {first.line}: {len(first.cells):,} columns.\n"
                f"At most {MAX_COLUMNS:,} are read. Is the separator {separator!r} right? "
                f"If not, use `separator`."
            )
        self.has_header = all(end in first.cells for end in ends) if header is None else header
        self.columns = tuple(str(number + 1) for number in range(len(first.cells)))
        if self.has_header:
            self._take_header(first)
        self._check_quotes()
        if len(self.columns) < 2:
            raise self._one_column_error(first, needed)

    def at(self, row: int) -> tuple[str, str]:
        """Return where a row is, and the line as it stands in the file."""
        wanted = row + self._has_head
        found = next((r for number, r in enumerate(self.rows()) if number == wanted), None)
        if found is None:
            return self.place, ""
        return f"{self.place}, line {found.line}", f"  {found.line} | {shown(found.text)}\n"

    def _check_quotes(self) -> None:
        self._has_quoted_rows = self.content.find(b'"', self._start) >= 0
        if self._has_quoted_rows and not _has_plain_quotes(self.content, self.separator):
            deque(self.rows(), maxlen=0)  # refuses what Arrow would read as nobody meant it

    def _take_header(self, first: _Row) -> None:
        self._has_head = True
        breaks = _LINE_END.finditer(self.content)
        last = next(
            (b for line, b in enumerate(breaks, start=1 + self._before) if line == first.last_line),
            None,
        )
        self._start = last.end() if last else len(self.content)
        if not _ANYTHING.search(self.content, self._start):
            raise GraphFormatError(
                f"{self.place} has a header line but no rows: {shown(first.text.strip())}\n"
                f"Add rows below it. If that line is a row itself, add `header=False`."
            )
        refuse_twice(self.place, first.cells, advice=f" {NO_HEADER}")
        self.columns = tuple(first.cells)

    def read(self, columns: Sequence[str], numbers: Collection[str] = ()) -> pa.Table:
        """Read some columns with Arrow.

        Args:
            columns: What they are called. Strings stay as they are ("NA", "007").
            numbers: Those of them that hold numbers of 32 bits, an empty cell being null; if any
                cell of them is no number, all columns are read as strings.

        Raises:
            GraphFormatError: A row has too few or too many cells, or is too long.
            ResourceError: The numbers do not fit into memory.
        """
        rows = max(self.content.count(end, self._start) for end in (b"\n", b"\r")) + 1
        require_readable(self.place, 2 * len(self.content) + rows * _ROW_BYTES)
        check_memory(self.place, rows, len(numbers))
        kinds = {name: pa.float32() if name in numbers else pa.string() for name in columns}
        try:
            return self._read(kinds)
        except pa.ArrowInvalid as error:
            if numbers and "conversion error" in str(error):
                return self.read(columns)
            self._refuse_ragged_row()
            raise GraphFormatError(
                f"{self.place} cannot be read as a table: {shown(str(error), 200)}\n"
                f"Check that every row has {len(self.columns)} cells."
            ) from error

    def _read(self, kinds: dict[str, pa.DataType]) -> pa.Table:
        return arrow_csv.read_csv(
            pa.BufferReader(pa.py_buffer(self.content).slice(self._start)),
            read_options=arrow_csv.ReadOptions(
                column_names=list(self.columns),
                block_size=MAX_LINE_BYTES,  # a row must fit into one
                # After an error, reader threads may outlive the interpreter and abort it.
                use_threads=False,
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.separator,
                quote_char='"' if self._has_quoted_rows else False,
                newlines_in_values=self._has_quoted_rows,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=kinds,
                include_columns=list(kinds),
                null_values=[""],
                strings_can_be_null=False,
                check_utf8=False,  # checked when the file was opened
            ),
        )

    def rows(self) -> Iterator[_Row]:
        """Yield the rows that are not empty, the header included, with their line numbers.

        Raises:
            GraphFormatError: A quote is not closed, or text follows a closing quote.
        """
        pending: list[str] = []
        content = io.TextIOWrapper(io.BytesIO(self.content), encoding="utf-8", newline="")

        def remembered() -> Iterator[str]:
            for line in content:
                pending.append(line)
                yield line

        quoting: Any = csv.QUOTE_MINIMAL if b'"' in self.content else csv.QUOTE_NONE
        reader = csv.reader(remembered(), delimiter=self.separator, quoting=quoting, strict=True)
        line = 1 + self._before
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise self._row_error(line, pending[0], str(error)) from error
            if cells:
                yield _Row(
                    line, self._before + reader.line_num, cells, "".join(pending).rstrip("\r\n")
                )
            pending.clear()
            line = self._before + reader.line_num + 1

    def _one_column_error(self, first: _Row, needed: str) -> GraphFormatError:
        other = next((s for s in _SEPARATORS if s != self.separator and s in first.text), None)
        remedy = (
            f"If they are separated by {_SEPARATORS[other]} use `separator={_SEPARATORS[other]}`."
            if other
            else "with ',' between them (a tab in .tsv files)."
        )
        return GraphFormatError(
            f"{self.place}, line {first.line}: 1 column, expected at least 2.\n"
            f"  {first.line} | {shown(first.text)}\n"
            f"Each row needs {needed}{'. ' if other else ', '}{remedy}"
        )

    def _refuse_ragged_row(self) -> None:
        wanted, own = len(self.columns), shown(self.separator)
        row = next((row for row in self.rows() if len(row.cells) != wanted), None)
        if row is None:
            return
        others = [
            mark for mark in ";\t|" if row.text.count(mark) == wanted - 1 and mark != self.separator
        ]
        remedy = f"Each row needs {wanted:,} cells with '{own}' between them."
        if len(row.cells) > wanted:
            remedy = f"If a cell contains '{own}' itself, quote it: \"...\"."
        elif others:
            remedy = (
                f"This row has '{shown(others[0])}' where the others have '{own}'. "
                f"Use one separator in the whole file."
            )
        elif sorted(self.columns) == ["source", "target"]:
            other = ";" if self.separator != ";" else ","
            remedy = (
                f"Each row needs two node names. "
                f"If your columns are separated by '{other}' use `separator='{other}'`."
            )
        names = f"({listed(self.columns, 4, quoted=False)})" if self.has_header else "as in line 1"
        raise GraphFormatError(
            f"{self.place}, line {row.line}: {counted(len(row.cells), 'column')}, "
            f"expected {wanted:,} {names}.\n  {row.line} | {shown(row.text)}\n{remedy}"
        )

    def _row_error(self, line: int, text: str, problem: str) -> GraphFormatError:
        other = _AFTER_QUOTE.search(text)
        if "unexpected end" in problem:
            what = 'a quote (") is opened here and never closed.'
            remedy = 'Close it, or write a quote inside a quoted name twice: "".'
        elif "field limit" in problem:
            what = f"a cell of more than {csv.field_size_limit():,} characters."
            remedy = "Look for a missing line break or a quote that is not closed."
        elif other and other[1] != self.separator:
            found, own = shown(other[1]), shown(self.separator)
            what = f"'{found}' follows a closing quote (\"), but the separator is '{own}'."
            remedy = f"If your columns are separated by '{found}' use `separator='{found}'`."
        else:
            what = 'text follows a closing quote (").'
            remedy = 'Put the whole cell in quotes and write a quote inside it twice: "".'
        return GraphFormatError(
            f"{self.place}, line {line}: {what}\n  {line} | {shown(text.rstrip())}\n{remedy}"
        )


def _has_plain_quotes(content: bytes, separator: str) -> bool:
    """Return whether every quote surely opens a cell, closes one, or is written twice in one.

    This is quick and may say no to a table that is fine; it never says yes to one that is not.
    """
    border = rb"[^\r\n" + re.escape(separator.encode()) + rb"]"
    cell = rb'(?<!%b)"[^"]*+(?:""[^"]*+)*+"(?!%b)' % (border, border)
    return re.fullmatch(rb'(?:[^"]*+%b)*+[^"]*+' % cell, content) is not None
