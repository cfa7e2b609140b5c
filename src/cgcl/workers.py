"""Workers: threads of one thread each, which take blocks of work and never wait for each other.

Torch's own threads meet at the end of every operation and spin until all are there. Beside other
busy processes one of them is often not running, and the others spin for as long as that lasts.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock

import torch

_LOCK = Lock()
_workers_at_work, _default_threads = 0, 1


@contextmanager
def workers() -> Iterator[ThreadPoolExecutor]:
    """Start as many workers as torch may use threads."""
    with (
        default_threads_kept(),
        ThreadPoolExecutor(torch.get_num_threads(), "cgcl", torch.set_num_threads, (1,)) as pool,
    ):
        yield pool


@contextmanager
def default_threads_kept() -> Iterator[None]:
    """Put back how many threads torch gives to a new thread, when the last of these has ended.

    What a worker sets for itself is also what every thread gets that is started after it.
    """
    global _workers_at_work, _default_threads
    with _LOCK:
        if _workers_at_work == 0:
            _default_threads = torch.get_num_threads()
        _workers_at_work += 1
    try:
        yield
    finally:
        with _LOCK:
            _workers_at_work -= 1
            if _workers_at_work == 0:
                torch.set_num_threads(_default_threads)
