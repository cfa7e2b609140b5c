"""Ctrl-C and SIGTERM end the program with a sentence, wherever they come.

An exception would be the usual way. But it passes through whatever runs at that moment, and foreign
code makes something else of it: safetensors tells of a damaged file, a C++ module that is being
imported aborts the process, others go on as if nothing had come.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

from cgcl.files import remove_unfinished

_WORDS = "Interrupted before the end. No file is half-written; the same command begins again.\n"
# Clears a live line, and shows the cursor that a bar of progress hides.
_CLEARED = "\r\x1b[K\x1b[?25h"
_SIGNAL = 128


def end_on_signals() -> dict[signal.Signals, Any]:
    """Let both signals end the program; return what they did before, to be put back.

    One that the caller of the program ignores, as a shell does for what runs in the background,
    stays ignored, and one that is caught outside of Python stays as it is. Outside the main thread
    nothing changes: signals cannot be caught there.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    did = {own: signal.getsignal(own) for own in (signal.SIGINT, signal.SIGTERM)}
    before: dict[signal.Signals, Any] = {
        own: x for own, x in did.items() if x not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, _end)
    return before


def _end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    """Say it, remove what is half-written, and end without waiting for any thread."""
    try:
        remove_unfinished()
        # Not by `print`: the signal may have come in the middle of one.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            words = _CLEARED * sys.stderr.isatty() + _WORDS
            os.write(sys.stderr.fileno(), words.encode())
    finally:
        os._exit(_SIGNAL + number)
