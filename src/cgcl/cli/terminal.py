"""What a person sees while waiting: on stderr, so that stdout carries only the answer."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import textwrap
import threading
import time
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from cgcl.train.trainer import EpochRecord

__all__ = ["StepLine", "TrainingLine", "forget", "say", "say_fact"]

_INDENT = 14
# Nobody asks about a step that takes less, in seconds.
_PATIENCE = 2.0


def say(text: str) -> None:
    """Print a message for the person at the terminal.

    If nobody listens any more, because a pipe was closed, that must not end what is being told.
    """
    try:
        print(text, file=sys.stderr, flush=True)  # noqa: T201
    except OSError:
        forget(sys.stderr)


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
    if sys.stderr.isatty():
        width = max(shutil.get_terminal_size().columns - _INDENT, 20)
        text = f"\n{'':<{_INDENT}}".join(textwrap.wrap(text, width, break_on_hyphens=False))
    say(f"  {what:<{_INDENT - 3}} {text}")


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
        self._task: TaskID | None = None

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
        self._task = self._progress.add_task(
            "Training", total=self._epochs, completed=epoch, status=""
        )

    def show(self, record: EpochRecord) -> None:
        """Show an epoch that has just ended."""
        if record.val is not None:
            names = {"node_mrr": "node MRR", "auc": "AUC", "ap": "AP"}
            shown = [f"{names[m]} {record.val[m]:.4f}" for m in names if m in record.val]
            self._val = f"  val {'  '.join(shown[:1] if self._is_narrow else shown)}"
        loss = sum(record.losses) / max(len(record.losses), 1)
        if self._progress is not None and self._task is not None:
            status = f"loss {loss:.4f}{self._val}"
            self._progress.update(self._task, completed=record.epoch, status=status)
        elif record.val is not None and not self._quiet:
            say_fact("Training", f"epoch {record.epoch}/{self._epochs}  loss {loss:.4f}{self._val}")

    def stop(self) -> None:
        """Clear the live line."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class StepLine:
    """Steps after training: one that takes longer than two seconds is named, and how far it is."""

    def __init__(self, quiet: bool = False) -> None:
        """Prepare to show progress, or nothing."""
        self._quiet = quiet
        self._step, self._told = ("", 0, 0), 0.0
        self._timer: threading.Timer | None = None

    def __enter__(self) -> StepLine:
        """Begin."""
        return self

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
        share = f", {100 * done // total} %" if done else ""
        if sys.stderr.isatty():
            with contextlib.suppress(OSError):
                sys.stderr.write(f"\r\x1b[K  {name}{share}")
                sys.stderr.flush()
        else:
            say_fact("Then", f"{name}{share}")

    def stop(self) -> None:
        """Clear the live line."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._told and sys.stderr.isatty():
            with contextlib.suppress(OSError):
                sys.stderr.write("\r\x1b[K")
        self._told = 0.0
