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
    from cgcl.predict.formats import WRITERS

    with _opened(out) as stream, WRITERS[form](stream, excel=excel) as writer:
        for links in blocks:
            writer.write(links)


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
    from rich.table import Table
    from rich.text import Text

    from cgcl.predict.links import INTERVAL

    table = Table(box=None, pad_edge=False)
    because: list[list[str]] = []
    names: list[str] = []
    for links in blocks:
        columns = links.to_dict()
        for end in INTERVAL:
            columns.pop(end, None)
        reasons = _reasons(links, columns.pop("because", None))
        if not table.columns:
            for number, name in enumerate(columns):
                justify: Literal["left", "right"] = "left" if number < 2 else "right"
                table.add_column(_HEADS.get(name, name), justify=justify, overflow="fold")
        if len(names) + len(links) > _MOST_ROWS:
            raise ConfigError(
                f"The answer has more than {_MOST_ROWS:,} links, too many for a table.\n"
                f"Add --format csv, json or parquet, which take any number, or ask for --top N."
            )
        # Text, because a name such as "[red]" is a name and not markup.
        for row in zip(*map(_cells, columns.values()), strict=True):
            table.add_row(*map(Text, row))
            names.append(f"{row[0]} - {row[1]}")
        because += reasons
    if not table.columns:
        return ""
    # A terminal has a width; a file or a pipe takes whatever comes.
    console = Console(width=None if sys.stdout.isatty() else _ENDLESS)
    with console.capture() as captured:
        console.print(table)
    text = captured.get()
    for pair, reason in zip(names, because, strict=True):
        if reason:
            lines = [
                line
                for part in reason
                for line in textwrap.wrap(part, console.width - 2, break_on_hyphens=False)
            ]
            text += "\n".join(["", pair, *(f"  {line}" for line in lines), ""])
    return text


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
    from cgcl.predict.digits import decimals, told_apart

    if any(isinstance(cell, float) for cell in column):
        return told_apart(column, decimals)
    return ["" if cell is None else printable(str(cell)) for cell in column]


def printable(name: str) -> str:
    """Return a name without characters that would move the cursor or colour the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)
