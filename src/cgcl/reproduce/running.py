"""Runs are made, one after the other or several at once; what is finished is not made again."""

from __future__ import annotations

import contextlib
import hashlib
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path

import torch

from cgcl import __version__
from cgcl.graph import Graph
from cgcl.methods.settings import CGCLSettings, MethodSettings, TrainedSettings
from cgcl.reproduce.job import Job
from cgcl.reproduce.listener import Listener
from cgcl.reproduce.measures import TRACE, measure
from cgcl.reproduce.record import Record
from cgcl.reproduce.records import Records
from cgcl.split import Split, random_split
from cgcl.train.config import Resources
from cgcl.train.execution import computing_with, machine, resolve_device
from cgcl.train.once import Trained
from cgcl.train.together import train_together

__all__ = ["left_of", "run_jobs"]

_MOST_TOGETHER = 10
_LONGEST_REASON = 500
_DIGITS = 6
_PACKAGES = ("torch", "triton", "numpy")


def left_of(jobs: Sequence[Job], records: Records) -> list[Job]:
    """Return the jobs without a result, each once, in their order.

    One that is also asked for with a measure is left out: that run will stand for both.
    """
    left = {job.key: job for job in jobs if job.key not in records.found}
    measured = {job.plain_key for job in left.values() if job.measures}
    return [job for key, job in left.items() if key not in measured]


def run_jobs(
    jobs: Sequence[Job],
    records: Records,
    read: Callable[[str], Graph],
    resources: Resources,
    listener: Listener | None = None,
) -> bool:
    """Make the runs that are missing; tell whether it came to the end.

    A run that fails is written down as failed, stops nothing, and is tried again next time.

    Args:
        jobs: What is asked for.
        records: Keeps what is found.
        read: Returns a graph by name.
        resources: Where to compute.
        listener: Told how it goes; may ask to stop.

    Raises:
        RunFolderError: The folder holds runs on another graph of that name.
        ResourceError: The folder cannot be written, or there is no such device.
    """
    listener = listener or Listener()
    left = left_of(jobs, records)
    on_gpu = resolve_device(resources).type == "cuda"
    for name, own in groupby(sorted(left, key=_by_graph(left)), key=lambda job: job.graph):
        here = list(own)
        graph = read(name)
        records.require_graph(name, graph.fingerprint)
        splits = _Splits(graph)
        for batch in _batches(here, _MOST_TOGETHER if on_gpu else 1):
            if listener.should_stop():
                return False
            made = _made(batch, graph, splits, resources, listener)
            if made is None:
                return False
            for job, record in zip(batch, made, strict=True):
                records.append(record)
                listener.run_ends(job, record)
    return True


def _by_graph(jobs: Sequence[Job]) -> Callable[[Job], int]:
    """Return what puts the jobs of one graph together, graphs in the order of their first job."""
    order = {name: place for place, name in enumerate(dict.fromkeys(job.graph for job in jobs))}
    return lambda job: order[job.graph]


class _Splits:
    """The splits of one graph, each drawn once."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._drawn: dict[tuple[int, int], Split] = {}

    def of(self, job: Job) -> Split:
        key = (job.test, job.split_seed)
        if key not in self._drawn:
            shares = job.recipe.split
            self._drawn[key] = random_split(self._graph, shares.val, shares.test, job.split_seed)
        return self._drawn[key]


def _batches(jobs: Sequence[Job], most: int) -> Iterator[list[Job]]:
    """Yield jobs that may be trained together: CGCL with another seed, split or learning rate.

    Everything else is trained alone, so that each result is written as soon as it is there.
    """
    alike: dict[object, list[Job]] = {}
    for number, job in enumerate(jobs):
        is_cgcl = isinstance(job.recipe.settings, CGCLSettings)
        alone = None if is_cgcl and most > 1 and TRACE not in job.measures else number
        settings = _without_rate(job.recipe.settings)
        alike.setdefault((job.test, job.recipe.name, settings, alone), []).append(job)
    for same in alike.values():
        for start in range(0, len(same), most):
            yield same[start : start + most]


def _without_rate(settings: MethodSettings) -> MethodSettings:
    return replace(settings, lr=0.01) if isinstance(settings, TrainedSettings) else settings


def _made(
    batch: Sequence[Job], graph: Graph, splits: _Splits, resources: Resources, listener: Listener
) -> list[Record] | None:
    """Return a record for each job; None if it was stopped on the way."""
    drawn = [splits.of(job) for job in batch]
    if any(TRACE in job.measures for job in batch):
        resources = replace(resources, track_consistency=True)
    try:
        trained = train_together(
            graph,
            drawn,
            [job.recipe for job in batch],
            resources,
            should_stop=listener.should_stop,
            top_of_list=False,  # the paper's tables ask for AUC and AP
        )
        if any(own.stopped is not None and own.stopped.reason == "signal" for own in trained):
            return None
        with computing_with(resources):
            return [
                _record(job, graph, split, resources, own)
                for job, split, own in zip(batch, drawn, trained, strict=True)
            ]
    # Other runs must not pay for what goes wrong in this one, whatever it is.
    except Exception as error:
        if resolve_device(resources).type == "cuda":
            torch.cuda.empty_cache()
        if len(batch) > 1:
            return _one_by_one(batch, graph, splits, resources, listener)
        failure = f"{type(error).__name__}: {error}"[:_LONGEST_REASON]
        return [
            _record(job, graph, split, resources, None, failure)
            for job, split in zip(batch, drawn, strict=True)
        ]


def _one_by_one(
    batch: Sequence[Job], graph: Graph, splits: _Splits, resources: Resources, listener: Listener
) -> list[Record] | None:
    """Return what `_made` does, for runs of which one cannot be trained with the others."""
    records: list[Record] = []
    for job in batch:
        made = _made([job], graph, splits, resources, listener)
        if made is None:
            return None
        records += made
    return records


def _record(
    job: Job,
    graph: Graph,
    split: Split,
    resources: Resources,
    trained: Trained | None,
    failure: str = "",
) -> Record:
    blank = Record.of(
        job,
        split=split.fingerprint,
        fingerprint=graph.fingerprint,
        versions=_versions(),
        failure=failure,
        **machine(resources, resolve_device(resources)),
    )
    if trained is None or trained.test is None:
        return blank
    return replace(
        blank,
        val=_rounded(trained.val),
        metrics=_rounded(trained.test),
        measured={name: measure(name, trained, split, job) for name in job.measures},
        epochs=len(trained.history),
        best_epoch=trained.best_epoch,
        parameters=trained.parameters,
        stopped=trained.stopped.reason if trained.stopped else None,
        seconds=round(trained.seconds, 2),
    )


def _rounded(values: dict[str, float] | None) -> dict[str, float] | None:
    return None if values is None else {name: round(own, _DIGITS) for name, own in values.items()}


@cache
def _versions() -> dict[str, str]:
    """Return what decides a result besides settings and seeds, the source itself included."""
    found = {"python": platform.python_version(), "cgcl": __version__, "source": _source()}
    for package in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _source() -> str:
    """Return a short hash of the package's own code."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]
