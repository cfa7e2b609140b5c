"""The training of one model: epochs, evaluations, the best epoch, and the state of it all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cgcl.errors import TrainingError
from cgcl.methods.method import Epoch, Known, Learner
from cgcl.methods.scoring import EmbeddingScorer
from cgcl.methods.settings import MethodSettings, TrainedSettings
from cgcl.metrics import auc, average_precision, link_metrics
from cgcl.seeds import seeded
from cgcl.split import Split
from cgcl.train.recipe import Recipe

__all__ = ["CHANCE_AUC", "EpochRecord", "Trainer", "build_learner", "learned_nothing"]

CHANCE_AUC = 0.55
"""A validation AUC below this is no better than guessing."""
# Above this the model has learned something, if the validation links are many enough to tell.
_LEARNED = 0.65
# One bad look can be bad luck.
_LOOKS_AT_CHANCE = 3
# Up to so many steps an epoch, such as one per view, each loss is worth a line of its own.
_FEW_STEPS = 2


@dataclass(frozen=True)
class EpochRecord:
    """What happened in one epoch."""

    epoch: int
    losses: list[float]
    """The loss of each step, such as L_1 and L_2 of CGCL; the mean where an epoch has many."""
    val: dict[str, float] | None = None
    """Validation AUC and AP, at epochs where they were measured."""
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


def learned_nothing(val: dict[str, float] | None) -> str | None:
    """Return a warning if the best validation AUC is no better than guessing."""
    if val is None or val["auc"] >= CHANCE_AUC:
        return None
    return (
        f"The model learned nothing: its best validation AUC, {val['auc']:.3f}, is no better than "
        f"chance.\nTry another --lr or more --epochs. Are the features related to the links? If "
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
        x: Tensor | None,
        split: Split,
        recipe: Recipe,
        device: torch.device,
        *,
        track: bool = False,
    ) -> None:
        """Create weights and optimizer; nothing is trained yet.

        Args:
            x: Node features, [n, d], dense or coalesced sparse COO; None if the method needs none.
            split: The links to learn from and to choose the epoch by.
            recipe: The method and its settings.
            device: Where to compute.
            track: Whether the method's own figures are measured at every evaluation.
        """
        self._split = split
        self._recipe = recipe
        self._device = device
        self._track = track
        self.known = Known(
            split.num_nodes,
            split.train.to(device),
            None if x is None else x.to(device),
            split.sides,
        )
        self.learner = build_learner(0 if x is None else x.shape[1], recipe).to(device)
        self.optimizer = _optimizer(self.learner, recipe.settings)
        self.epoch = 0
        self.best_epoch = 0
        self.best_val: dict[str, float] | None = None
        self.best_weights: dict[str, Tensor] | None = None
        self.is_finite = True
        """Whether losses, weights and scores have been finite numbers so far."""
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
        settings = self._recipe.settings
        if self.optimizer is None or not isinstance(settings, TrainedSettings):
            raise TrainingError(f"{self._recipe.name} has nothing to train.")
        self.epoch += 1
        epoch = Epoch(self.epoch, self._recipe.split.seed)
        with seeded(epoch.seed, "epoch", self.epoch, self._device):
            losses = self._optimize(self.optimizer, epoch, settings.clip)
        self.is_finite = all(map(math.isfinite, losses))
        is_time = self.epoch % settings.evaluate_every == 0 or self.epoch == settings.epochs
        if not (self.is_finite and is_time):
            return EpochRecord(self.epoch, losses)
        val = self._look()
        tracked = self._track and self.is_finite
        figures = self.learner.track(self.known, epoch) if tracked else None
        return EpochRecord(self.epoch, losses, val, figures)

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
                f"keep.\nLower --lr, and look for very large feature values."
            )
        self.learner.load_state_dict(self.best_weights)

    def measure(self) -> dict[str, float] | None:
        """Return all metrics on the test links as fractions, or None if there are none.

        Only the training links are looked at: neither validation nor test links may be seen.
        """
        split = self._split
        if split.test.shape[1] == 0:
            return None
        scorer = self.learner.scorer(self.known)
        return link_metrics(scorer.logits(split.test), scorer.logits(split.test_negatives))

    def finish(self) -> dict[str, float] | None:
        """Go back to the weights of the best epoch and return the metrics on the test links.

        Raises:
            TrainingError: No epoch gave finite scores.
        """
        self.keep_best()
        return self.measure()

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
        if self.optimizer is not None:
            for index, moments in self.optimizer.state_dict()["state"].items():
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
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _under("adam.", tensors).items():
            index, moment = name.split(".")
            moments.setdefault(int(index), {})[moment] = value
        if self.optimizer is not None:
            self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})
        self.epoch, self.best_epoch = numbers["epoch"], numbers["best_epoch"]
        self.best_val = numbers["best_val"]
        self._looks_at_chance = numbers["looks_at_chance"]

    def _optimize(self, optimizer: torch.optim.Optimizer, epoch: Epoch, clip: float) -> list[float]:
        """Take the steps of one epoch and return their losses, or the mean of many."""
        losses: list[Tensor] = []
        self.learner.train()
        for loss in self.learner.steps(self.known, epoch):
            optimizer.zero_grad()
            loss.backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(self.learner.parameters(), clip)
            optimizer.step()
            losses.append(loss.detach())
        found: list[float] = torch.stack(losses).tolist() if losses else []
        return found if len(found) <= _FEW_STEPS else [sum(found) / len(found)]

    def _look(self) -> dict[str, float] | None:
        """Measure on the validation links and keep the weights if they are the best so far."""
        split = self._split
        scorer = self.learner.scorer(self.known)
        positive, negative = scorer.logits(split.val), scorer.logits(split.val_negatives)
        numbers = [*self.learner.state_dict().values(), positive, negative]
        if isinstance(scorer, EmbeddingScorer):
            numbers.append(scorer.z)
        self.is_finite = all(bool(torch.isfinite(tensor).all()) for tensor in numbers)
        if not self.is_finite:
            return None
        val: dict[str, float] | None = None
        if positive.numel():
            val = {"auc": auc(positive, negative), "ap": average_precision(positive, negative)}
            best = (self.best_val or val)["auc"]
            at_chance = best > self._learned_auc and val["auc"] < CHANCE_AUC
            self._looks_at_chance = self._looks_at_chance + 1 if at_chance else 0
        # Without validation links the last epoch is kept.
        if val is None or self.best_val is None or val["auc"] > self.best_val["auc"]:
            self.best_epoch, self.best_val = self.epoch, val
            self.best_weights = {k: v.clone() for k, v in self.learner.state_dict().items()}
        return val

    @property
    def _learned_auc(self) -> float:
        """The AUC above which the model has surely learned something.

        Guessing gives 0.5 with a standard error of about sqrt(1 / 6p) on p links and as many
        unlinked pairs; on a handful of links no AUC is sure enough to speak of a collapse.
        """
        return max(_LEARNED, 0.5 + 4 * math.sqrt(1 / (6 * max(self._split.val.shape[1], 1))))


def _optimizer(learner: Learner, settings: MethodSettings) -> torch.optim.Adam | None:
    if not isinstance(settings, TrainedSettings):
        return None
    return torch.optim.Adam(
        learner.parameters(), lr=settings.lr, weight_decay=settings.weight_decay
    )


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
