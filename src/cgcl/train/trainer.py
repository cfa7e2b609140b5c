"""The training of one model: epochs, looks, the best epoch, reasons to stop, the whole state."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from cgcl.errors import ModelFileError, TrainingError
from cgcl.graph.features import Structure
from cgcl.methods.method import Epoch, Learner, PairScorer, TrainingGraph
from cgcl.methods.scoring import EmbeddingScorer
from cgcl.methods.settings import TrainedSettings
from cgcl.metrics import auc, average_precision, hits_at, link_metrics
from cgcl.seeds import seeded
from cgcl.split import Split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.engines import Moments, engine_for
from cgcl.train.ranks import any_rank, from_first
from cgcl.train.top_of_list import BUDGET, DEAR, Progress, ranking_metrics, scored_once, silent
from cgcl.wording import listed

CHANCE_AUC = 0.55
"""A validation AUC below this is no better than guessing."""
# Above this the model has learned something, if the validation links are many enough to tell.
_LEARNED = 0.65
_LONGER = "Lower `lr` to train longer."
# One bad look can be bad luck.
_LOOKS_AT_CHANCE = 3
LOOK_LINKS = 1000
"""A look at where validation links stand among all nodes takes no more links than this."""
_LOOK_BUDGET = BUDGET / 20
_HITS = 100
# Up to so many steps an epoch, such as one per view, each loss is worth a line of its own.
_FEW_STEPS = 2

StopReason = Literal[
    "signal", "time limit", "collapse", "loss is not finite", "no better epoch", "error"
]
RESUMABLE: tuple[StopReason, ...] = ("signal", "time limit", "error")
"""After these a run can go on; after the others its best epoch is the result."""


@dataclass(frozen=True)
class Stopped:
    """Why training ended before its last epoch."""

    reason: StopReason
    epoch: int
    message: str


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
        return {name: value for name, value in asdict(self).items() if value is not None}


class ValidationScores(NamedTuple):
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


def build_learner(num_features: int, recipe: RunConfig) -> Learner:
    """Create a method's weights; they follow from the recipe's seed alone."""
    with seeded(recipe.split.seed, "weights"):
        return recipe.method.build(num_features, recipe.settings)


class Trainer:
    """Trains one method on the training links of a split and remembers its best epoch."""

    def __init__(
        self,
        x: Tensor | Structure | None,
        split: Split,
        recipe: RunConfig,
        device: torch.device,
        resources: Resources | None = None,
    ) -> None:
        """Create the weights and what changes them; nothing is trained yet.

        Args:
            x: Node features, [n, d], dense or coalesced sparse COO, or how they are made of links;
                None if the method needs none.
            split: The links to learn from and to choose the epoch by.
            recipe: The method and its settings.
            device: Where to compute.
            resources: How to compute, and what to track; the fastest way if None.
        """
        self.split, self.recipe, self._device = split, recipe, device
        resources = resources or Resources()
        self._track = resources.track_consistency
        self.known = TrainingGraph.on(device, split.num_nodes, split.train, x, split.sides)
        self.learner = build_learner(self.known.num_features, recipe).to(device)
        self.engine = engine_for(self.learner, self.known, recipe, resources)
        self.epoch = 0
        self.history: list[dict[str, Any]] = []
        """The records of the epochs that this trainer has run."""
        self.best_epoch = 0
        self.best_val: dict[str, float] | None = None
        self.best_weights: dict[str, Tensor] | None = None
        self.stopped: Stopped | None = None
        """Why there are no more epochs, if the last one was not reached."""
        self.is_finite = True
        """Whether losses, weights and scores have been finite numbers so far."""
        self.sampled: dict[str, Any] | None = None
        """Where `measure` looked at some test links only: how many, and the standard errors."""
        self.tested: PairScorer | None = None
        """What `measure` scored the test links with."""
        self._looks_at_chance = 0
        self._is_started = False

    @property
    def epochs(self) -> int:
        """How many epochs there are in all; 0 if there is nothing to train."""
        return self.recipe.epochs

    @property
    def was_asked_to_stop(self) -> bool:
        """Whether nobody waits for more."""
        return self.stopped is not None and self.stopped.reason == "signal"

    @property
    def is_going(self) -> bool:
        """Whether there are epochs left to run."""
        return self.stopped is None and self.epoch < self.epochs

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
            raise TrainingError(f"{self.recipe.name} has nothing to train.")
        count = min(self.epochs_to_look, self.engine.epochs_at_once, most or self.epochs)
        return self.record_epochs(self.wait() or self.engine.run(self.epoch + 1, count))

    def start(self) -> None:
        """Let an engine that can compute by itself begin what `run_epochs` will return."""
        engine: Any = self.engine
        if hasattr(engine, "start"):
            engine.start(self.epoch + 1, min(self.epochs_to_look, engine.epochs_at_once))
            self._is_started = True

    def wait(self) -> list[list[float]]:
        """Wait for what was started and return its losses, none if nothing was."""
        engine: Any = self.engine
        was_started, self._is_started = self._is_started, False
        return engine.finish() if was_started else []

    def settle(
        self,
        records: Sequence[EpochRecord],
        should_stop: Callable[[], bool],
        on_epoch: Callable[[EpochRecord], None] = lambda _: None,
        deadline: float = math.inf,
    ) -> None:
        """Tell about epochs that were run and find out whether to go on; see `train`.

        Raises:
            TrainingError: The loss is not finite before a first evaluation: nothing is worth
                keeping.
        """
        for record in records if self.is_finite else records[:-1]:
            self.history.append(record.to_json())
            on_epoch(record)
        where = f"epoch {self.epoch} (lr {getattr(self.recipe.settings, 'lr', None)})"
        kept = f"Training was stopped; the best epoch, {self.best_epoch}, is kept."
        if not self.is_finite:
            found = f"The loss became NaN or infinite at {where}."
            if self.best_weights is None:
                raise TrainingError(
                    f"{found} No epoch before it was measured, so there is nothing to keep.\n"
                    f"Lower `lr`, and look for very large feature values."
                )
            self._stop("loss is not finite", f"{found} {kept} {_LONGER}")
        elif self._looks_at_chance >= _LOOKS_AT_CHANCE:
            best = (self.best_val or {"auc": math.nan})["auc"]
            found = f"The model collapsed: validation AUC fell from {best:.3f} back to chance by"
            self._stop("collapse", f"{found} {where}. {kept} {_LONGER}")
        elif self.is_going and self._lost_patience:
            found = f"No epoch after {self.best_epoch} was better; training ended at {self.epoch}"
            self._stop("no better epoch", f"{found} of {self.epochs}.")
        elif self.is_going and any_rank(should_stop()):
            self._stop("signal", f"Stopped at epoch {self.epoch}.")
        elif self.is_going and any_rank(time.monotonic() >= deadline):
            self._stop(
                "time limit",
                f"The time limit was reached at epoch {self.epoch} of {self.epochs}; the best "
                f"epoch so far is kept, and the run can be resumed.",
            )

    @property
    def _lost_patience(self) -> bool:
        """Whether the best epoch is further back than anyone wants to wait for a better one.

        Asked at looks alone: how many epochs lie between two questions depends on the engine.
        """
        settings = self.recipe.settings
        if not isinstance(settings, TrainedSettings) or not self.split.val.shape[1]:
            return False
        is_look = self.epoch % settings.evaluate_every == 0
        return is_look and 0 < settings.patience <= self.epoch - self.best_epoch

    def _stop(self, reason: StopReason, message: str) -> None:
        self.stopped = Stopped(reason, self.epoch, message)

    @property
    def epochs_to_look(self) -> int:
        """How many epochs are left until the validation links are looked at."""
        settings = self.recipe.settings
        if not isinstance(settings, TrainedSettings):
            return 0
        next_look = settings.evaluate_every - self.epoch % settings.evaluate_every
        return min(next_look, max(settings.epochs - self.epoch, 1))

    def record_epochs(
        self, losses: list[list[float]], seen: ValidationScores | None = None
    ) -> list[EpochRecord]:
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
            # The losses, or the mean of many.
            told = of_epoch if len(of_epoch) <= _FEW_STEPS else [sum(of_epoch) / len(of_epoch)]
            records.append(EpochRecord(self.epoch, told))
            if not self.is_finite:
                return records
        if is_time:
            val, figures = self._look(seen), None
            if self._track and self.is_finite:
                epoch = Epoch(self.epoch, self.recipe.split.seed)
                figures = self.learner.track(self.known, epoch)
            records[-1] = replace(records[-1], val=val, consistency=figures)
        return records

    def keep_best(self) -> None:
        """Go back to the weights of the best epoch.

        A run that was cut short before its first look, or that keeps its last epoch for want of
        validation links, looks now; so does a method that has nothing to train.

        Raises:
            TrainingError: No epoch gave finite scores.
        """
        keeps_last = self.split.val.shape[1] == 0
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

        Raises:
            TrainingError: Scores are not finite.
        """
        split = self.split
        if split.test.shape[1] == 0:
            return None
        scorer = self.tested = scored_once(self.learner.scorer(self.known))
        scores = scorer.logits(split.test), scorer.logits(split.test_negatives)
        if not all(torch.isfinite(side).all() for side in scores):
            raise TrainingError(
                "The trained model gives test pairs scores that are no finite numbers.\n"
                "Train again, with a smaller `lr` if that does not help."
            )
        found: dict[str, float] = {}
        if top_of_list:
            seed = self.recipe.split.seed
            budget = BUDGET / 2 if scorer.cost_per_pair > DEAR else BUDGET
            top = ranking_metrics(scorer, split, budget=budget, seed=seed, progress=progress)
            found, self.sampled = top.metrics, top.sampling
        return found | link_metrics(*scores)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return all that is needed to go on from here: tensors, and numbers for JSON.

        No generator is part of it: draws follow from seed and epoch.
        """
        tensors = {f"model.{name}": value for name, value in self.learner.state_dict().items()}
        best = self.best_weights or {}
        tensors |= {f"best.{name}": value for name, value in best.items()}
        if self.engine is not None:
            for index, moments in self.engine.optimizer.moments().items():
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
        """Take over a state that `state` returned.

        Raises:
            ModelFileError: It is the state of something else.
        """
        self._require_own(tensors, has_best=numbers["has_best"])
        self.learner.load_state_dict(_under("model.", tensors))
        best = {k: v.to(self._device) for k, v in _under("best.", tensors).items()}
        self.best_weights = best if numbers["has_best"] else None
        moments: Moments = {}
        for name, value in _under("adam.", tensors).items():
            index, moment = name.split(".")
            moments.setdefault(int(index), {})[moment] = value
        if self.engine is not None:
            self.engine.optimizer.restore(moments)
        self.epoch, self.best_epoch = numbers["epoch"], numbers["best_epoch"]
        self.best_val = numbers["best_val"]
        self._looks_at_chance = numbers["looks_at_chance"]

    def _require_own(self, tensors: Mapping[str, Tensor], *, has_best: bool) -> None:
        """Refuse tensors that are not those of these weights and of their optimizer."""
        learner, parts = self.learner, ("model", "best") if has_best else ("model",)
        weights = learner.state_dict().items()
        expected = {f"{part}.{name}": own for part in parts for name, own in weights}
        for index, own in enumerate(learner.parameters()):
            memory = {"step": torch.empty(()), "exp_avg": own, "exp_avg_sq": own}
            named = {f"adam.{index}.{name}": value for name, value in memory.items()}
            if named.keys() & tensors.keys():  # it was stepped
                expected |= named
        for part, name in product(parts, learner.added):
            if f"{part}.{name}" not in tensors:
                del expected[f"{part}.{name}"]
        found, wanted = (
            {name: (own.shape, own.dtype) for name, own in some.items()}
            for some in (tensors, expected)
        )
        wrong = sorted({name for name, _ in found.items() ^ wanted.items()})
        if wrong:
            raise ModelFileError(
                f"The checkpoint does not fit its run: {listed(wrong)} missing or of another kind."
                f"\nDelete it to start this run again from its first epoch."
            )

    def _look(self, seen: ValidationScores | None = None) -> dict[str, float] | None:
        """Measure on the validation links and keep the weights if they are the best so far."""
        self.is_finite, val = from_first(lambda: self._measured(seen))
        if not self.is_finite:
            return None
        if val is not None:
            best = (self.best_val or val)["auc"]
            at_chance = best > self._learned_auc and val["auc"] < CHANCE_AUC
            self._looks_at_chance = self._looks_at_chance + 1 if at_chance else 0
        # Without validation links the last epoch is kept.
        if val is None or self.best_val is None or _chosen_by(val) > _chosen_by(self.best_val):
            self.best_epoch, self.best_val = self.epoch, val
            self.best_weights = {k: v.clone() for k, v in self.learner.state_dict().items()}
        return val

    def _measured(self, seen: ValidationScores | None) -> tuple[bool, dict[str, float] | None]:
        """Return whether all is finite, and the validation metrics if there are such links."""
        seen = seen or self._score()
        positive, negative = seen.positive, seen.negative
        if not (seen.is_finite and positive.numel()):
            return seen.is_finite, None
        val = {"auc": auc(positive, negative), "ap": average_precision(positive, negative)}
        return True, val | self._chosen_by_more(seen)

    def _chosen_by_more(self, seen: ValidationScores) -> dict[str, float]:
        """Return what else than AUC the epoch is chosen by, if that is asked for."""
        choose_by = getattr(self.recipe.settings, "choose_by", "auc")
        if choose_by == "node_mrr":
            # At every look the same links are asked for.
            scorer, seed = seen.scorer or self.learner.scorer(self.known), self.recipe.split.seed
            found = ranking_metrics(
                scorer, self.split, "val", budget=_LOOK_BUDGET, most_links=LOOK_LINKS, seed=seed
            )
            return {name: value for name, value in found.metrics.items() if name == choose_by}
        if choose_by == "hits@100" and seen.negative.numel() >= _HITS:
            return {choose_by: hits_at(_HITS, seen.positive, seen.negative)}
        return {}

    def _score(self) -> ValidationScores:
        """Return what the validation links and their counter-examples score."""
        split = self.split
        scorer = self.learner.scorer(self.known)
        positive, negative = scorer.logits(split.val), scorer.logits(split.val_negatives)
        numbers = [*self.learner.state_dict().values(), positive, negative]
        if isinstance(scorer, EmbeddingScorer):
            numbers.append(scorer.z)
        is_finite = all(bool(torch.isfinite(tensor).all()) for tensor in numbers)
        return ValidationScores(positive, negative, is_finite, scorer)

    @property
    def _learned_auc(self) -> float:
        """The AUC above which the model has surely learned something.

        Guessing gives 0.5 with a standard error of about sqrt(1 / 6p) on p links and as many
        unlinked pairs; on a handful of links no AUC is sure enough to speak of a collapse.
        """
        return max(_LEARNED, 0.5 + 4 * math.sqrt(1 / (6 * max(self.split.val.shape[1], 1))))


def _chosen_by(val: dict[str, float]) -> tuple[float, float]:
    """Return the figure that says which epoch is best, and one for where it is equal."""
    if "hits@100" in val:
        return val["hits@100"], val["auc"]
    return val.get("node_mrr", val["auc"]), 0.0


def train(
    trainer: Trainer,
    *,
    on_epoch: Callable[[EpochRecord], None] = lambda _: None,
    should_stop: Callable[[], bool] = lambda: False,
    time_limit_s: float = math.inf,
) -> Stopped | None:
    """Run the remaining epochs; return why training ended early, if it did.

    Args:
        trainer: What to train; it also remembers the best epoch.
        on_epoch: Called after every epoch, before anything else is decided.
        should_stop: Asked after every epoch; True ends training as if by a signal.
        time_limit_s: End after the first epoch that passes this many seconds.

    Raises:
        TrainingError: The loss is not finite before a first evaluation: nothing is worth keeping.
    """
    deadline = time.monotonic() + time_limit_s
    while trainer.is_going:
        trainer.settle(trainer.run_epochs(), should_stop, on_epoch, deadline)
    return trainer.stopped


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
