"""One trial run: train with the test links out of reach, and make a record of what happened."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from cgcl.errors import CGCLError
from cgcl.graph import Graph
from cgcl.split import Split
from cgcl.train.config import Resources
from cgcl.train.once import Trained, TrainOnce
from cgcl.train.recipe import Recipe
from cgcl.train.trainer import EpochRecord
from cgcl.tune.trial import Proposal, Trial

__all__ = ["Attempts", "without_test_links"]

_NO_MEMORY = ("can't allocate memory", "out of memory")


def without_test_links(graph: Graph, split: Split) -> tuple[Graph, Split]:
    """Return graph and split as if the test links did not exist.

    What is trained on these cannot look at them, whatever it does.
    """
    links = torch.cat([split.train, split.val], dim=1)
    order = (links[0] * graph.num_nodes + links[1]).argsort()
    none = split.test.new_empty(2, 0)
    return (
        replace(graph, edges=links.index_select(1, order), times=None),
        replace(split, test=none, test_negatives=none),
    )


@dataclass(frozen=True, eq=False)
class Attempts:
    """Everything that the trials of one search have in common."""

    graph: Graph
    split: Split
    method: str
    shared: Mapping[str, Any]
    """The seed, and what else a recipe holds beside the method's settings."""
    resources: Resources
    train: TrainOnce
    on_epoch: Callable[[EpochRecord], None]
    should_stop: Callable[[], bool]

    def run(self, number: int, proposal: Proposal) -> Trial | None:
        """Return the trial, failed or not; None if it was stopped before its end.

        Args:
            number: The number of the trial.
            proposal: Its settings.
        """
        start = time.perf_counter()
        empty = Trial(number, proposal.origin, proposal.settings)
        try:
            recipe = Recipe.of(self.method, {**proposal.settings, **self.shared})
            trained = self.train(
                self.graph,
                self.split,
                recipe,
                self.resources,
                on_epoch=self.on_epoch,
                should_stop=self.should_stop,
                measure_test=False,
            )
        except CGCLError as error:
            failure = str(error)
        except (MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            failure = "There is not enough memory for these settings."
        else:
            if trained.stopped is not None and trained.stopped.reason == "signal":
                return None
            return _result(replace(empty, seconds=time.perf_counter() - start), trained, recipe)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()  # so that the next, smaller trial finds room
        seconds = time.perf_counter() - start
        return replace(empty, seconds=seconds, failure=" ".join(failure.split()))


def _result(trial: Trial, trained: Trained, recipe: Recipe) -> Trial:
    stopped, val = trained.stopped, trained.val
    if stopped is not None and stopped.reason == "loss is not finite":
        return replace(trial, failure=" ".join(stopped.message.split()))
    if val is None:
        return replace(trial, failure="Nothing was measured on the validation links.")
    if "node_mrr" not in val and getattr(recipe.settings, "choose_by", "") == "node_mrr":
        return replace(trial, failure="Node MRR takes too long to measure on this graph.")
    found = replace(trial, best_epoch=trained.best_epoch, node_mrr=val.get("node_mrr"))
    return replace(found, auc=float(val["auc"]), ap=float(val["ap"]))


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(sign in str(error) for sign in _NO_MEMORY)
