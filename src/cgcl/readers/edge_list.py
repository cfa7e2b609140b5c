"""Edge lists: two names a line, comments, and any of the usual separators."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cgcl.readers.delimited import DelimitedFile, checked_separator
from cgcl.readers.regular_file import check_text, read_bytes

__all__ = ["EDGE_LIST_SUFFIXES", "open_edge_list"]

EDGE_LIST_SUFFIXES = (".txt", ".edges", ".edgelist")
_COMMENT = re.compile(rb"^[ \t]*[#%][^\r\n]*", re.MULTILINE)
# What networkx writes behind the names: a dictionary.
_DICTIONARY = re.compile(rb"[ \t]*\{[^\r\n]*\}[ \t]*(?=\r|\n|\Z)")
_FIRST_LINE = re.compile(rb"\S[^\r\n]*")
_OUTER_BLANKS = re.compile(rb"^[ \t]+|[ \t]+(?=\r|\n|\Z)", re.MULTILINE)
_BLANKS = re.compile(rb"[ \t]+")
_QUOTED_OR_BLANKS = re.compile(rb'("(?:[^"\r\n]|"")*")|[ \t]+')


@dataclass(frozen=True)
class _Prepared:
    content: bytes
    comments: int
    dictionaries: int


def open_edge_list(
    path: Path, *, separator: str | None, header: bool | None, ends: tuple[str, str]
) -> tuple[DelimitedFile, tuple[str, ...]]:
    """Open an edge list and say what was skipped.

    Lines that begin with # or % are comments (a node name that begins so needs a .csv file). If no
    separator is given, the first line that is no comment tells: a tab, a comma or a semicolon in
    it, in this order, else runs of blanks.

    Args:
        path: The file.
        separator: The character between columns; None finds it, and a blank means runs of blanks.
        header: Whether the first row names the columns; None means it does if it holds both `ends`.
        ends: The names of the two columns with the ends of a link.

    Raises:
        GraphFormatError: It is not a readable text table.
        ConfigError: The separator is not one plain character.
    """
    chosen = None if separator is None else checked_separator(separator)
    content = read_bytes(path)
    check_text(path.name, content)
    prepared = _without_comments(content.removeprefix(b"\xef\xbb\xbf"))
    found = chosen or _sniffed(prepared.content)
    table = _with_single_blanks(prepared.content) if found == " " else prepared.content
    # Line breaks are never touched: line numbers in messages stay those of the file.
    file = DelimitedFile.from_content(path.name, table, separator=found, header=bool(header))
    if header is None:
        first = next(file.rows()).cells
        if all(end in first for end in ends):
            file = DelimitedFile.from_content(path.name, table, separator=found, header=True)
    return file, _notes(prepared)


def _without_comments(content: bytes) -> _Prepared:
    comments = dictionaries = 0
    if b"#" in content or b"%" in content:
        # A carriage return alone also ends a line; re's ^ knows only the line feed.
        if b"\r" in content.replace(b"\r\n", b""):
            content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        content, comments = _COMMENT.subn(b"", content)
    if b"{" in content:
        content, dictionaries = _DICTIONARY.subn(b"", content)
    return _Prepared(content, comments, dictionaries)


def _sniffed(content: bytes) -> str:
    first = _FIRST_LINE.search(content)
    text = first[0].strip() if first else b""
    return next((found for found in "\t,;" if found.encode() in text), " ")


def _with_single_blanks(content: bytes) -> bytes:
    content = _OUTER_BLANKS.sub(b"", content)
    if b'"' in content:
        return _QUOTED_OR_BLANKS.sub(_quoted_or_blank, content)
    return _BLANKS.sub(b" ", content) if b"  " in content or b"\t" in content else content


def _quoted_or_blank(match: re.Match[bytes]) -> bytes:
    return match[1] or b" "


def _notes(prepared: _Prepared) -> tuple[str, ...]:
    notes = []
    if prepared.comments:
        lines = "line that begins" if prepared.comments == 1 else "lines that begin"
        notes.append(f"{prepared.comments:,} {lines} with # or % skipped.")
    if prepared.dictionaries:
        notes.append("Attributes in {...} ignored: only the two ends of each link are used.")
    return tuple(notes)
