"""Ctrl-C and SIGTERM: a polite request to stop, or the end at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from cgcl.files import remove_unfinished

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """Whether a signal has asked to stop, and which one."""

    signal_number: int | None = None

    def is_set(self) -> bool:
        """Say whether a signal has arrived."""
        return self.signal_number is not None

    @property
    def exit_code(self) -> int:
        """The exit code that shells expect after that signal."""
        return 128 + (self.signal_number or signal.SIGINT)

    def end_at_once(self, farewell: Callable[[], None]) -> None:
        """From here on a signal ends the program at once; so does one that has arrived already.

        For when all that matters is on the disk: no thread is waited for, nothing is cleared away.

        Args:
            farewell: Called before.
        """

        def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
            self.signal_number = number
            try:
                remove_unfinished()
                farewell()
            finally:  # whatever was being printed when the signal came
                os._exit(self.exit_code)

        if threading.current_thread() is threading.main_thread():
            for number in _NUMBERS:
                signal.signal(number, end)
        if self.signal_number is not None:
            end(self.signal_number, None)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn the first SIGINT or SIGTERM into a request; a second one acts at once.

    Outside the main thread, where signals cannot be caught, the request is never set.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in _NUMBERS}

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        request.signal_number = number
        for own, handler in before.items():
            signal.signal(own, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
