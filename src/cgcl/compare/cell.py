"""One method on one split: train it, test it, write down how it went."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import torch

from cgcl.compare.contenders import Contender
from cgcl.compare.listener import Listener
from cgcl.compare.result import Result, key_of
from cgcl.compare.strata import Strata
from cgcl.graph import Graph
from cgcl.metrics import link_metrics
from cgcl.split import Split
from cgcl.train.config import Resources
from cgcl.train.execution import computing_with, machine, resolve_device, versions
from cgcl.train.once import Trained, TrainOnce
from cgcl.train.top_of_list import ranking_metrics

__all__ = ["Cell", "measure"]

_LONGEST_REASON = 1000


@dataclass(frozen=True)
class Cell:
    """A method in one run: what has to be measured."""

    run: int
    """The number of the run, from 0."""
    contender: Contender
    split_seed: int
    split: str
    """The split's fingerprint."""
    init_seed: int | None
    """Seed of the first weights; None if there are none."""

    @property
    def key(self) -> str:
        """Equal to that of the result that answers it."""
        return key_of(self.contender.name, self.contender.settings, self.split, self.init_seed)


def measure(
    cell: Cell,
    graph: Graph,
    split: Split,
    strata: Strata,
    resources: Resources,
    listener: Listener,
    train: TrainOnce,
) -> Result | None:
    """Train and test one method; None if it was stopped on the way.

    Whatever goes wrong inside becomes a result that says so.

    Args:
        cell: The method and the run.
        graph: What is learned from.
        split: The split of the run.
        strata: How pairs are divided by degree.
        resources: Where and how long to compute.
        listener: Told about every epoch.
        train: What trains.

    Raises:
        ResourceError: There is no such device, which concerns every method.
    """
    device = resolve_device(resources)
    common: dict[str, Any] = {
        "method": cell.contender.name,
        "settings": cell.contender.settings,
        "split_seed": cell.split_seed,
        "split": cell.split,
        "init_seed": cell.init_seed,
        "caps": cell.contender.recipe.settings.caps,
        "time_limit": resources.time_limit,
        "versions": versions(),
        **machine(resources, device),
    }
    try:
        trained = train(
            graph,
            split,
            cell.contender.with_seed(cell.init_seed or 0),
            resources,
            on_epoch=lambda record: listener.epoch_ends(cell, record),
            should_stop=listener.should_stop,
            measure_test=False,
        )
        if trained.stopped is not None and trained.stopped.reason == "signal":
            return None
        with computing_with(resources):
            return Result(**common, **_tested(trained, split, strata), ended=_now())
    # Another method must not pay for what goes wrong in this one, whatever it is.
    except Exception as error:
        reason = str(error)[:_LONGEST_REASON] or "The error says nothing more."
        failure = {"error": _kind(error), "reason": reason}
    if device.type == "cuda":
        torch.cuda.empty_cache()
    return Result(**common, failure=failure, ended=_now())


def _tested(trained: Trained, split: Split, strata: Strata) -> dict[str, Any]:
    """Return what there is to say about a trained method, test included."""
    begun = time.perf_counter()
    scorer = trained.scorer(split.train)
    positive, negative = scorer.logits(split.test), scorer.logits(split.test_negatives)
    seconds = time.perf_counter() - begun
    top = ranking_metrics(scorer, split)
    return {
        "val": trained.val,
        "test": top.metrics | link_metrics(positive, negative),
        "test_sampled": top.sampling,
        "by_degree": strata.measure(split, positive, negative),
        "epochs": len(trained.history),
        "best_epoch": trained.best_epoch,
        "train_seconds": trained.seconds,
        "test_seconds": seconds,
        "parameters": trained.parameters,
        "stopped": None if trained.stopped is None else asdict(trained.stopped),
    }


def _kind(error: Exception) -> str:
    """Return what kind of error it is; running out of memory has many names."""
    says_so = any(sign in str(error) for sign in ("can't allocate memory", "out of memory"))
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and says_so):
        return "out of memory"
    return type(error).__name__


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
