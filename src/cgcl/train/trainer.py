"""The training of one model: epochs, evaluations, the best epoch, and the state of it all."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cgcl.errors import TrainingError
from cgcl.graph.structure import Structure
from cgcl.methods.method import Epoch, Known, Learner, PairScorer
from cgcl.methods.scoring import EmbeddingScorer
from cgcl.methods.settings import TrainedSettings
from cgcl.metrics import auc, average_precision, hits_at, link_metrics
from cgcl.seeds import seeded
from cgcl.split import Split
from cgcl.train.config import Resources
from cgcl.train.engines import Moments, engine_for
from cgcl.train.recipe import Recipe
from cgcl.train.top_of_list import BUDGET, DEAR, Progress, ranking_metrics, scored_once, silent

__all__ = [
    "CHANCE_AUC",
    "LOOK_LINKS",
    "EpochRecord",
    "Seen",
    "Trainer",
    "build_learner",
    "learned_nothing",
]

CHANCE_AUC = 0.55
"""A validation AUC below this is no better than guessing."""
# Above this the model has learned something, if the validation links are many enough to tell.
_LEARNED = 0.65
# One bad look can be bad luck.
_LOOKS_AT_CHANCE = 3
LOOK_LINKS = 1000
"""A look at where validation links stand among all nodes takes no more links than this."""
_LOOK_BUDGET = BUDGET / 20
_HITS = 100
# Up to so many steps an epoch, such as one per view, each loss is worth a line of its own.
_FEW_STEPS = 2


@dataclass(frozen=True)
class EpochRecord:
    """What happened in one epoch."""

    epoch: int
    losses: list[float]
    """The loss of each step, such as L_1 and L_2 of CGCL; the mean where an epoch has many."""
    val: dict[str, float] | None = None
    """Validation AUC and AP, at epochs where they were measured, and what the epoch is chosen
    by."""
    consistency: dict[str, float] | None = None
    """The method's own figures if they are tracked, for CGCL the terms of Eq. 10-11."""

    def to_json(self) -> dict[str, Any]:
        """Return the record without what was not measured."""
        record: dict[str, Any] = {"epoch": self.epoch, "losses": self.losses}
        if self.val is not None:
            record["val"] = self.val
        if self.consistency is not None:
            record["consistency"] = self.consistency
        return record


class Seen(NamedTuple):
    """What the validation links score."""

    positive: Tensor
    """Logits of the links, on the CPU."""
    negative: Tensor
    """Logits of their counter-examples, on the CPU."""
    is_finite: bool
    """Whether these, the weights and the embeddings are finite numbers."""
    scorer: PairScorer | None = None
    """What scored them, if it can be asked for more."""


def learned_nothing(val: dict[str, float] | None) -> str | None:
    """Return a warning if the best validation AUC is no better than guessing."""
    if val is None or val["auc"] >= CHANCE_AUC:
        return None
    return (
        f"The model learned nothing: its validation AUC, {val['auc']:.3f}, is no better than "
        f"chance.\nTry another `lr` or more `epochs`. Are the features related to the links? If "
        f"not, try without them."
    )


def build_learner(num_features: int, recipe: Recipe) -> Learner:
    """Create a method's weights; they follow from the recipe's seed alone."""
    with seeded(recipe.split.seed, "weights"):
        return recipe.method.build(num_features, recipe.settings)


class Trainer:
    """Trains one method on the training links of a split and remembers its best epoch."""

    def __init__(
        self,
        x: Tensor | Structure | None,
        split: Split,
        recipe: Recipe,
        device: torch.device,
        *,
        track: bool = False,
        resources: Resources | None = None,
    ) -> None:
        """Create the weights and what changes them; nothing is trained yet.

        Args:
            x: Node features, [n, d], dense or coalesced sparse COO, or how they are made of links;
                None if the method needs none.
            split: The links to learn from and to choose the epoch by.
            recipe: The method and its settings.
            device: Where to compute.
            track: Whether the method's own figures are measured at every evaluation.
            resources: Says how to compute; the fastest way if None.
        """
        self._split = split
        self._recipe = recipe
        self._device = device
        self._track = track
        self.known = Known.on(device, split.num_nodes, split.train, x, split.sides)
        self.learner = build_learner(self.known.num_features, recipe).to(device)
        resources = resources or Resources()
        self.engine = engine_for(self.learner, self.known, recipe, resources)
        self.epoch = 0
        self.best_epoch = 0
        self.best_val: dict[str, float] | None = None
        self.best_weights: dict[str, Tensor] | None = None
        self.is_finite = True
        """Whether losses, weights and scores have been finite numbers so far."""
        self.sampled: dict[str, Any] | None = None
        """Where `measure` looked at some test links only: how many, and the standard errors."""
        self.tested: PairScorer | None = None
        """What `measure` scored the test links with."""
        self._looks_at_chance = 0

    @property
    def epochs(self) -> int:
        """How many epochs there are in all; 0 if there is nothing to train."""
        return self._recipe.epochs

    @property
    def lr(self) -> float | None:
        """The learning rate, for messages; None if there is nothing to train."""
        settings = self._recipe.settings
        return settings.lr if isinstance(settings, TrainedSettings) else None

    def run_epoch(self) -> EpochRecord:
        """Run the next epoch, look at the validation links if it is time, keep the best.

        Raises:
            SplitError: There are no counter-examples to draw.
        """
        return self.run_epochs(most=1)[0]

    def run_epochs(self, most: int | None = None) -> list[EpochRecord]:
        """Run as many epochs as the engine can at once, but none past the next look.

        Args:
            most: No more than so many.

        Raises:
            SplitError: There are no counter-examples to draw.
        """
        if self.engine is None:
            raise TrainingError(f"{self._recipe.name} has nothing to train.")
        count = min(self.epochs_to_look, self.engine.epochs_at_once, most or self.epochs)
        return self.take(self.engine.run(self.epoch + 1, count))

    @property
    def epochs_to_look(self) -> int:
        """How many epochs are left until the validation links are looked at."""
        settings = self._recipe.settings
        if not isinstance(settings, TrainedSettings):
            return 0
        next_look = settings.evaluate_every - self.epoch % settings.evaluate_every
        return min(next_look, max(settings.epochs - self.epoch, 1))

    def take(self, losses: list[list[float]], seen: Seen | None = None) -> list[EpochRecord]:
        """Note epochs that an engine has run, and look at the validation links if it is time.

        Args:
            losses: Those of each epoch.
            seen: What the validation links score, if someone has looked already.
        """
        is_time = len(losses) == self.epochs_to_look
        records: list[EpochRecord] = []
        for of_epoch in losses:
            self.epoch += 1
            self.is_finite = all(map(math.isfinite, of_epoch))
            records.append(EpochRecord(self.epoch, _worth_a_line(of_epoch)))
            if not self.is_finite:
                return records
        if is_time:
            records[-1] = self._looked(records[-1], seen)
        return records

    def _looked(self, record: EpochRecord, seen: Seen | None) -> EpochRecord:
        """Add to a record what the validation links tell."""
        val = self._look(seen)
        tracked = self._track and self.is_finite
        epoch = Epoch(self.epoch, self._recipe.split.seed)
        figures = self.learner.track(self.known, epoch) if tracked else None
        return replace(record, val=val, consistency=figures)

    def keep_best(self) -> None:
        """Go back to the weights of the best epoch.

        A run that was cut short before its first look, or that keeps its last epoch for want of
        validation links, looks now; so does a method that has nothing to train.

        Raises:
            TrainingError: No epoch gave finite scores.
        """
        keeps_last = self._split.val.shape[1] == 0
        if self.best_weights is None or (keeps_last and self.is_finite):
            self._look()
        if self.best_weights is None:
            raise TrainingError(
                f"The model's scores are not finite at epoch {self.epoch}, so there is nothing to "
                f"keep.\nLower `lr`, and look for very large feature values."
            )
        self.learner.load_state_dict(self.best_weights)

    def measure(
        self, *, top_of_list: bool = True, progress: Progress = silent
    ) -> dict[str, float] | None:
        """Return all metrics on the test links as fractions, or None if there are none.

        Only the training links are looked at: neither validation nor test links may be seen.

        Args:
            top_of_list: Whether to measure where test links stand among all nodes and pairs, too.
            progress: Told how far that is.
        """
        split = self._split
        if split.test.shape[1] == 0:
            return None
        scorer = self.tested = scored_once(self.learner.scorer(self.known))
        found: dict[str, float] = {}
        if top_of_list:
            seed = self._recipe.split.seed
            budget = BUDGET / 2 if scorer.cost_per_pair > DEAR else BUDGET
            top = ranking_metrics(scorer, split, budget=budget, seed=seed, progress=progress)
            found, self.sampled = top.metrics, top.sampling
        return found | link_metrics(scorer.logits(split.test), scorer.logits(split.test_negatives))

    def finish(self, progress: Progress = silent) -> dict[str, float] | None:
        """Go back to the weights of the best epoch and return the metrics on the test links.

        Raises:
            TrainingError: No epoch gave finite scores.
        """
        self.keep_best()
        return self.measure(progress=progress)

    @property
    def has_collapsed(self) -> bool:
        """Whether validation AUC had risen above chance and has fallen back to it for good."""
        return self._looks_at_chance >= _LOOKS_AT_CHANCE

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return all that is needed to go on from here: tensors, and numbers for JSON.

        No generator is part of it: draws follow from seed and epoch.
        """
        tensors = {f"model.{name}": value for name, value in self.learner.state_dict().items()}
        best = self.best_weights or {}
        tensors |= {f"best.{name}": value for name, value in best.items()}
        if self.engine is not None:
            for index, moments in self.engine.moments().items():
                tensors |= {f"adam.{index}.{name}": value for name, value in moments.items()}
        numbers = {
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "best_val": self.best_val,
            "has_best": self.best_weights is not None,
            "looks_at_chance": self._looks_at_chance,
        }
        return tensors, numbers

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Take over a state that `state` returned."""
        self.learner.load_state_dict(_under("model.", tensors))
        best = {k: v.to(self._device) for k, v in _under("best.", tensors).items()}
        self.best_weights = best if numbers["has_best"] else None
        moments: Moments = {}
        for name, value in _under("adam.", tensors).items():
            index, moment = name.split(".")
            moments.setdefault(int(index), {})[moment] = value
        if self.engine is not None:
            self.engine.restore(moments)
        self.epoch, self.best_epoch = numbers["epoch"], numbers["best_epoch"]
        self.best_val = numbers["best_val"]
        self._looks_at_chance = numbers["looks_at_chance"]

    def _look(self, seen: Seen | None = None) -> dict[str, float] | None:
        """Measure on the validation links and keep the weights if they are the best so far."""
        positive, negative, self.is_finite, scorer = seen or self._score()
        if not self.is_finite:
            return None
        val: dict[str, float] | None = None
        if positive.numel():
            val = {"auc": auc(positive, negative), "ap": average_precision(positive, negative)}
            val |= self._top_of_list(scorer) | self._hits(positive, negative)
            best = (self.best_val or val)["auc"]
            at_chance = best > self._learned_auc and val["auc"] < CHANCE_AUC
            self._looks_at_chance = self._looks_at_chance + 1 if at_chance else 0
        # Without validation links the last epoch is kept.
        if val is None or self.best_val is None or _chosen_by(val) > _chosen_by(self.best_val):
            self.best_epoch, self.best_val = self.epoch, val
            self.best_weights = {k: v.clone() for k, v in self.learner.state_dict().items()}
        return val

    def _top_of_list(self, scorer: PairScorer | None) -> dict[str, float]:
        """Return where validation links stand among all nodes, if the epoch is chosen by it.

        At every look the same links are asked for.
        """
        settings = self._recipe.settings
        if not isinstance(settings, TrainedSettings) or settings.choose_by != "node_mrr":
            return {}
        found = ranking_metrics(
            scorer or self.learner.scorer(self.known),
            self._split,
            "val",
            budget=_LOOK_BUDGET,
            most_links=LOOK_LINKS,
            over_pairs=False,
            seed=self._recipe.split.seed,
        )
        return {name: value for name, value in found.metrics.items() if name == "node_mrr"}

    def _hits(self, positive: Tensor, negative: Tensor) -> dict[str, float]:
        """Return the links above the 100th unlinked pair, if the epoch is chosen by them."""
        wanted = getattr(self._recipe.settings, "choose_by", "") == "hits@100"
        if not wanted or negative.numel() < _HITS:
            return {}
        return {"hits@100": hits_at(_HITS, positive, negative)}

    def _score(self) -> Seen:
        """Return what the validation links and their counter-examples score."""
        split = self._split
        scorer = self.learner.scorer(self.known)
        positive, negative = scorer.logits(split.val), scorer.logits(split.val_negatives)
        numbers = [*self.learner.state_dict().values(), positive, negative]
        if isinstance(scorer, EmbeddingScorer):
            numbers.append(scorer.z)
        is_finite = all(bool(torch.isfinite(tensor).all()) for tensor in numbers)
        return Seen(positive, negative, is_finite, scorer)

    @property
    def _learned_auc(self) -> float:
        """The AUC above which the model has surely learned something.

        Guessing gives 0.5 with a standard error of about sqrt(1 / 6p) on p links and as many
        unlinked pairs; on a handful of links no AUC is sure enough to speak of a collapse.
        """
        return max(_LEARNED, 0.5 + 4 * math.sqrt(1 / (6 * max(self._split.val.shape[1], 1))))


def _chosen_by(val: dict[str, float]) -> tuple[float, float]:
    """Return the figure that says which epoch is best, and one for where it is equal."""
    if "hits@100" in val:
        return val["hits@100"], val["auc"]
    return val.get("node_mrr", val["auc"]), 0.0


def _worth_a_line(losses: list[float]) -> list[float]:
    """Return the losses, or the mean of many."""
    return losses if len(losses) <= _FEW_STEPS else [sum(losses) / len(losses)]


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
