"""What a person sees: answers on stdout, and on stderr all that is told while waiting."""

from __future__ import annotations

import contextlib
import operator
import os
import re
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO, TypeVar

from cgcl.errors import ConfigError
from cgcl.report.words import with_flags

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from cgcl.graph import Graph
    from cgcl.predict import LinkPredictor, Links
    from cgcl.predict.links import Link
    from cgcl.train.trainer import EpochRecord

Format = Literal["table", "csv", "json", "parquet"]
Named = TypeVar("Named", bound=str)
_BY_SUFFIX: dict[str, Format] = {".csv": "csv", ".json": "json", ".parquet": "parquet"}
# Short, because the table has to fit into 80 columns.
_HEADS = {"shared_neighbours": "shared", "common_features": "common"}
_MOST_ROWS = 10_000
_ENDLESS = 100_000
_INDENT = 14
# Nobody asks about a step that takes less, in seconds.
_PATIENCE = 2.0
# What a terminal obeys instead of showing it, but for line breaks and tabs.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    r"""Return text whose control characters, such as those of a file's name, are written out.

    Example:
        >>> plain("a\x1b[31m.csv")
        'a\\x1b[31m.csv'
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def print_path(path: Path) -> None:
    """Print where an answer lies: as it is for a program, for a person as `plain` has it."""
    print(plain(str(path)) if sys.stdout.isatty() else path)  # noqa: T201


def loaded(run: Path, device: str, threads: int) -> LinkPredictor:
    """Return the predictor in a folder, and tell what is not known of it for sure."""
    from cgcl.predict import LinkPredictor

    predictor = LinkPredictor.load(run, device).set_params(threads=threads)
    for note in predictor.notes_:
        say_fact("Note", note)
    return predictor


def say(text: str) -> None:
    """Print a message for the person at the terminal, settings in it as flags.

    If nobody listens any more, because a pipe was closed, that must not end what is being told.
    """
    words = plain(with_flags(text))
    try:
        print(words, file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        forget(sys.stderr)
    except RuntimeError:  # said by a signal that has come in the middle of a print
        os.write(sys.stderr.fileno(), f"{words}\n".encode())


def forget(stream: TextIO) -> None:
    """Send what a stream still holds, and all that follows, nowhere: its reader has gone.

    What is left in a buffer would otherwise fail once more when Python ends, and spoil its exit
    code.
    """
    with contextlib.suppress(OSError, ValueError):  # a stream of a test has no file behind it
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def say_fact(what: str, text: str) -> None:
    """Print one line of a run's story: a short heading and a sentence.

    On a terminal too narrow for it, the sentence goes on below itself.
    """
    say(fact(what, text, sys.stderr))


def tell_graph(graph: Graph, more: str = "") -> None:
    """Say what was read."""
    about = f"{graph.title}: {graph.num_nodes:,} nodes, {graph.num_edges:,} links{more}"
    for what, text in (("Graph", about), *(("", note) for note in graph.notes)):
        say_fact(what, text)


def fact(what: str, text: str, stream: TextIO) -> str:
    """Return such a line as it is printed to a stream."""
    text = plain(with_flags(text))
    if stream.isatty():
        width = max(shutil.get_terminal_size().columns - _INDENT, 20)
        text = f"\n{'':<{_INDENT}}".join(textwrap.wrap(text, width, break_on_hyphens=False))
    return f"  {what:<{_INDENT - 3}} {text}"


class TrainingLine:
    """The progress of training: one live line on a terminal, a line per evaluation elsewhere."""

    def __init__(self, epochs: int, quiet: bool) -> None:
        """Prepare to show progress.

        Args:
            epochs: The number of epochs in all.
            quiet: Show nothing.
        """
        self._epochs = epochs
        self._quiet = quiet
        self._val = ""
        self._is_narrow = False
        self._progress: Progress | None = None

    def start(self, epoch: int) -> None:
        """Begin at `epoch`."""
        if self._quiet or not sys.stderr.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        # A narrow terminal has no room for a bar beside the numbers.
        bar = [BarColumn(bar_width=24)] if console.width >= 110 else []
        self._is_narrow = console.width < 80
        self._progress = Progress(
            TextColumn("  {task.description:<11}"),
            *bar,
            TextColumn("{task.completed}/{task.total}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[status]}"),
            console=console,
            transient=True,
        )
        self._progress.start()
        self._progress.add_task("Training", total=self._epochs, completed=epoch, status="")

    def show(self, record: EpochRecord) -> None:
        """Show an epoch that has just ended."""
        if record.val is not None:
            names = {"node_mrr": "node MRR", "auc": "AUC", "ap": "AP"}
            shown = [f"{names[m]} {record.val[m]:.4f}" for m in names if m in record.val]
            self._val = f"  val {'  '.join(shown[:1] if self._is_narrow else shown)}"
        loss = sum(record.losses) / max(len(record.losses), 1)
        status = f"loss {loss:.4f}{self._val}"
        if self._progress is not None:
            [task] = self._progress.task_ids
            self._progress.update(task, completed=record.epoch, status=status)
        elif record.val is not None and not self._quiet:
            say_fact("Training", f"epoch {record.epoch}/{self._epochs}  {status}")

    def stop(self) -> None:
        """Clear the live line."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class StepLine(contextlib.AbstractContextManager["StepLine"]):
    """Steps after training: one that takes longer than two seconds is named, and how far it is."""

    def __init__(self, quiet: bool = False) -> None:
        """Prepare to show progress, or nothing."""
        self._quiet = quiet
        self._step, self._told = ("", 0, 0), 0.0
        self._timer: threading.Timer | None = None

    def __exit__(self, *_: object) -> None:
        """Clear the live line."""
        self.stop()

    def show(self, name: str, done: int, total: int) -> None:
        """Take note of how far a step is."""
        is_new, self._step = name != self._step[0], (name, done, total)
        if self._quiet:
            return
        if is_new:
            self.stop()
            # A step that says nothing for long is named all the same.
            self._timer = threading.Timer(_PATIENCE, self._tell)
            self._timer.daemon = True
            self._timer.start()
        elif self._told and time.monotonic() - self._told > (0.1 if sys.stderr.isatty() else 10):
            self._tell()

    def _tell(self) -> None:
        self._told = time.monotonic()
        name, done, total = self._step
        text = f"{name}, {100 * done // total} %" if done else name
        if sys.stderr.isatty():
            _overwrite(f"  {text}")
        else:
            say_fact("Then", text)

    def stop(self) -> None:
        """Clear the live line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._told and sys.stderr.isatty():
            _overwrite("")
        self._told = 0.0


def _overwrite(text: str) -> None:
    """Show a text in place of the live line."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def choose_format(asked: Format | None, out: Path | None) -> Format:
    """Return the format that was asked for, or the one that the file's suffix names.

    Raises:
        ConfigError: The suffix names none, or Parquet would go to a terminal.
    """
    if asked is None and out is not None:
        return by_suffix(out, _BY_SUFFIX)
    if asked == "parquet" and out is None and sys.stdout.isatty():
        raise ConfigError("Parquet is not text for a terminal. Add --out FILE.parquet, or a pipe.")
    return asked or "table"


def by_suffix(out: Path, known: Mapping[str, Named]) -> Named:
    """Return the format that the suffix of a file names.

    Raises:
        ConfigError: It names none of those that are known.
    """
    if out.suffix.lower() not in known:
        raise ConfigError(
            f"'{out.name}' does not say in which format to write.\n"
            f"Give it one of the suffixes {', '.join(known)}, or add --format."
        )
    return known[out.suffix.lower()]


def write_answer(
    blocks: Iterable[Links], form: Format, out: Path | None, *, excel: bool = False
) -> None:
    """Write links block by block, to a file or to standard output.

    Raises:
        ResourceError: The file cannot be written; the one that was there before is intact.
    """
    from cgcl.files import writing_atomically
    from cgcl.predict.writers import write_links

    if form == "table" and out is None:
        sys.stdout.write(_table(blocks))
        return
    screen = contextlib.nullcontext(sys.stdout.buffer)
    with screen if out is None else writing_atomically(out) as stream:
        if form == "table":
            stream.write(_table(blocks).encode())
        else:
            write_links(stream, blocks, form, excel=excel)
        stream.flush()


def _table(blocks: Iterable[Links]) -> str:
    from rich.console import Console

    from cgcl.predict.links import INTERVAL, cells

    # A terminal has a width; a file or a pipe takes whatever comes.
    console = Console(width=None if sys.stdout.isatty() else _ENDLESS)
    heads: list[str] = []
    rows: list[tuple[str, ...]] = []
    told = ""
    for links in blocks:
        columns = {name: own for name, own in links.to_dict().items() if name not in INTERVAL}
        reasons = columns.pop("because", [])
        heads = [_HEADS.get(name, name) for name in columns]
        if len(rows) + len(links) > _MOST_ROWS:
            raise ConfigError(
                f"The answer has more than {_MOST_ROWS:,} links, too many for a table.\n"
                f"Add --format csv, json or parquet, which take any number, or ask for --top N."
            )
        shown = ([_printable(cell) for cell in cells(column)] for column in columns.values())
        rows += zip(*shown, strict=True)
        for link, reason in zip(links if reasons else (), reasons, strict=True):
            told += _reason(link, reason, console.width)
    return _aligned(console, heads, rows) + told if heads else ""


def _reason(link: Link, reason: str, width: int) -> str:
    """Return how sure the probability of a link is, and what speaks for it."""
    told = [_printable(reason)]
    if link.interval is not None:
        low, high = link.interval
        told = [f"95 % interval of the probability: {low:.2g} to {high:.2g}", *told]
    wrapped = (textwrap.wrap(part, width - 2, break_on_hyphens=False) for part in told)
    lines = [f"  {line}" for line in chain.from_iterable(wrapped)]
    head = f"{_printable(link.source)} - {_printable(link.target)}"
    return "\n".join(["", head, *lines, ""])


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
    text = captured.get()
    for row in rows:
        gaps = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = [row[0] + gaps[0], row[1] + gaps[1], *map(operator.add, gaps[2:], row[2:])]
        text += "  ".join(cells) + "\n"
    return text


def _printable(text: str) -> str:
    """Return a text without characters that would move the cursor or colour the terminal."""
    from cgcl.wording import shown

    return shown(text, limit=sys.maxsize)
