"""Ctrl-C and SIGTERM as a polite request to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["StopRequest", "stop_on_signals"]


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


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn the first SIGINT or SIGTERM into a request; a second one acts at once.

    Outside the main thread, where signals cannot be caught, the request is never set.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        request.signal_number = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
