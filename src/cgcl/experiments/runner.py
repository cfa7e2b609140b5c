"""What is missing is made, and each result kept before the next begins: in order, or side by side.

`compare`, `tune`, `reproduce` and the scripts under experiments/ all go through here.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import Any, Protocol, TypeVar


class _Keyed(Protocol):
    @property
    def key(self) -> str:
        """Equal for jobs that the same result answers."""
        ...


J = TypeVar("J")
K = TypeVar("K", bound=_Keyed)
R = TypeVar("R")


def pending(jobs: Iterable[K], done: Container[str]) -> list[K]:
    """Return the jobs without a result, each once, in their order."""
    left: dict[str, K] = {}
    for job in jobs:
        if job.key not in done:
            left.setdefault(job.key, job)
    return [*left.values()]


def run_in_order(
    batches: Iterable[Sequence[J]],
    work: Callable[[Sequence[J]], Sequence[R] | None],
    keep: Callable[[J, R], None],
    should_stop: Callable[[], bool],
) -> bool:
    """Make the results of each batch and keep them; tell whether it came to the end.

    Args:
        batches: Jobs that are made together. Asked for one at a time, so that a batch may depend
            on the results before it.
        work: Returns a result for each job of a batch; None if it was stopped on the way.
        keep: Writes a result down.
        should_stop: Asked before each batch.
    """
    for batch in batches:
        if should_stop():
            return False
        results = work(batch)
        if results is None:
            return False
        for job, result in zip(batch, results, strict=True):
            keep(job, result)
    return True


def run_side_by_side(
    jobs: Iterable[J],
    work: Callable[[J, dict[str, Any]], R | None],
    where: dict[str, Any],
    workers: int,
    deadline: float,
    tell: Callable[[str], None],
    *,
    is_fresh: bool = True,
) -> Iterator[R]:
    """Yield results as they come; nothing new is begun after the deadline.

    A job that dies is tried once more: its neighbour on the device may have been the culprit.

    Args:
        jobs: What is missing.
        work: Makes a result, in another process; None if there is nothing to keep.
        where: What every call of `work` is told besides its job.
        workers: How many at once.
        deadline: As `time.time` counts.
        tell: Told what died.
        is_fresh: Every job has a process of its own: one that breaks its device breaks no other.
    """
    spawn = multiprocessing.get_context("spawn")
    waiting, tried = deque(jobs), Counter[int]()
    most = 1 if is_fresh else None
    with ProcessPoolExecutor(workers, mp_context=spawn, max_tasks_per_child=most) as pool:
        running: dict[Future[R | None], J] = {}
        while True:
            while waiting and len(running) < workers and time.time() < deadline:
                job = waiting.popleft()
                running[pool.submit(work, job, where)] = job
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job, error = running.pop(future), future.exception()
                if error is None:
                    result = future.result()
                    if result is not None:
                        yield result
                    continue
                tell(f"{job}: {error!r}"[:300])
                tried[id(job)] += 1
                if tried[id(job)] < 2:
                    waiting.append(job)


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether an error says that memory ran out, on whichever device."""
    says_so = any(sign in str(error) for sign in ("can't allocate memory", "out of memory"))
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and says_so)
