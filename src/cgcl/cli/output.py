"""Where an answer goes: a table for people, or a stream of bytes for programs."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from cgcl.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from cgcl.predict import Links

__all__ = ["Format", "choose_format", "printable", "write_answer"]

Format = Literal["table", "csv", "json", "parquet"]
_ENDLESS = 100_000
# Short, because the table has to fit into 80 columns.
_HEADS = {"shared_neighbours": "shared", "common_features": "common"}
_MOST_ROWS = 10_000
_BY_SUFFIX: dict[str, Format] = {".csv": "csv", ".json": "json", ".parquet": "parquet"}


def choose_format(asked: Format | None, out: Path | None) -> Format:
    """Return the format that was asked for, or the one that the file's suffix names.

    Raises:
        ConfigError: The suffix names none, or Parquet would go to a terminal.
    """
    if asked is None and out is not None:
        if out.suffix.lower() not in _BY_SUFFIX:
            raise ConfigError(
                f"'{out.name}' does not say in which format to write.\n"
                f"Give it one of the suffixes {', '.join(_BY_SUFFIX)}, or add --format."
            )
        return _BY_SUFFIX[out.suffix.lower()]
    if asked == "parquet" and out is None and sys.stdout.isatty():
        raise ConfigError("Parquet is not text for a terminal. Add --out FILE.parquet, or a pipe.")
    return asked or "table"


def write_answer(
    blocks: Iterable[Links], form: Format, out: Path | None, *, excel: bool = False
) -> None:
    """Write links block by block, to a file or to standard output.

    Raises:
        ResourceError: The file cannot be written; the one that was there before is intact.
    """
    if form == "table":
        text = _table(blocks)
        if out is None:
            sys.stdout.write(text)
        else:
            with _opened(out) as stream:
                stream.write(text.encode())
        return
    from cgcl.predict.writers import write_links

    with _opened(out) as stream:
        write_links(stream, blocks, form, excel=excel)


@contextlib.contextmanager
def _opened(out: Path | None) -> Iterator[BinaryIO]:
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from cgcl.files import writing_atomically

    with writing_atomically(out) as stream:
        yield stream


def _table(blocks: Iterable[Links]) -> str:
    from rich.console import Console

    from cgcl.predict.links import INTERVAL

    heads: list[str] = []
    rows: list[tuple[str, ...]] = []
    because: list[list[str]] = []
    for links in blocks:
        columns = links.to_dict()
        for end in INTERVAL:
            columns.pop(end, None)
        because += _reasons(links, columns.pop("because", None))
        heads = [_HEADS.get(name, name) for name in columns]
        if len(rows) + len(links) > _MOST_ROWS:
            raise ConfigError(
                f"The answer has more than {_MOST_ROWS:,} links, too many for a table.\n"
                f"Add --format csv, json or parquet, which take any number, or ask for --top N."
            )
        rows += zip(*map(_cells, columns.values()), strict=True)
    if not heads:
        return ""
    # A terminal has a width; a file or a pipe takes whatever comes.
    console = Console(width=None if sys.stdout.isatty() else _ENDLESS)
    text = _aligned(console, heads, rows)
    for row, reason in zip(rows, because, strict=True):
        if reason:
            lines = [
                line
                for part in reason
                for line in textwrap.wrap(part, console.width - 2, break_on_hyphens=False)
            ]
            text += "\n".join(["", f"{row[0]} - {row[1]}", *(f"  {line}" for line in lines), ""])
    return text


def _aligned(console: Console, heads: list[str], rows: list[tuple[str, ...]]) -> str:
    """Return two columns of names flush left, numbers flush right; what is too wide is folded."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
    fits = sum(widths) + 2 * (len(widths) - 1) <= console.width
    table = Table(box=None, pad_edge=False)
    for number, (head, width) in enumerate(zip(heads, widths, strict=True)):
        justify: Literal["left", "right"] = "left" if number < 2 else "right"
        table.add_column(head, justify=justify, overflow="fold", min_width=width if fits else None)
    # Text, because a name such as "[red]" is a name and not markup.
    for row in () if fits else rows:
        table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(table)
    if not fits:
        return captured.get()

    # A thousand rows take rich seconds, and these need no folding.
    def line(row: tuple[str, ...]) -> str:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [c + g if i < 2 else g + c for i, (c, g) in enumerate(zip(row, gaps, strict=True))]
        return "  ".join(cells)

    return captured.get() + "".join(f"{line(row)}\n" for row in rows)


def _reasons(links: Links, because: list[str] | None) -> list[list[str]]:
    """Return the paragraphs about each link: how sure its probability is, what speaks for it."""
    if because is None:
        return [[] for _ in links]
    sure = [
        [f"95 % interval of the probability: {link.interval[0]:.2g} to {link.interval[1]:.2g}"]
        if link.interval
        else []
        for link in links
    ]
    return [[*said, printable(reason)] for said, reason in zip(sure, because, strict=True)]


def _cells(column: list[Any]) -> list[str]:
    from cgcl.predict.links import decimals, told_apart

    if any(isinstance(cell, float) for cell in column):
        return told_apart(column, decimals)
    return ["" if cell is None else printable(str(cell)) for cell in column]


def printable(name: str) -> str:
    """Return a name without characters that would move the cursor or colour the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
