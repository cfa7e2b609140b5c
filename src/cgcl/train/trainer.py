"""The training of one model: epochs, evaluations, the best epoch, and the state of it all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cgcl.errors import TrainingError
from cgcl.metrics import auc, average_precision, consistency_terms
from cgcl.model import CGCL, View, symmetric
from cgcl.seeds import stream
from cgcl.split import Split
from cgcl.train.config import ModelConfig, TrainConfig
from cgcl.train.draws import Draw, Drawer
from cgcl.train.scoring import decode_pairs, embed, measure_test_links

__all__ = ["CHANCE_AUC", "EpochRecord", "Trainer", "build_model", "learned_nothing"]

CHANCE_AUC = 0.55
"""A validation AUC below this is no better than guessing."""
# Above this the model has learned something, if the validation links are many enough to tell.
_LEARNED = 0.65
# One bad look can be bad luck.
_LOOKS_AT_CHANCE = 3


@dataclass(frozen=True)
class EpochRecord:
    """What happened in one epoch."""

    epoch: int
    losses: list[float]
    """The loss of each turn, L_1 and L_2."""
    val: dict[str, float] | None = None
    """Validation AUC and AP, at epochs where they were measured."""
    consistency: dict[str, float] | None = None
    """The terms of Eq. 10-11, if they are tracked."""

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


def build_model(in_channels: int, config: ModelConfig, seed: int) -> CGCL:
    """Create the network with weights that follow from `seed` alone."""
    # Torch's layers draw from the global generator when they are built; put it back after.
    with torch.random.fork_rng(devices=[]):
        model = CGCL(
            in_channels,
            config.hidden,
            input_dropout=config.input_dropout,
            decoder_dropout=config.decoder_dropout,
            product=config.product,
            last_layer=config.last_layer,
            targets=config.targets,
        )
    model.reset_parameters(stream(seed, "weights"))
    return model


class Trainer:
    """Trains one model on the training links of a split and remembers its best epoch."""

    def __init__(
        self,
        x: Tensor,
        split: Split,
        model_config: ModelConfig,
        config: TrainConfig,
        device: torch.device,
        *,
        track_consistency: bool = False,
    ) -> None:
        """Create model and optimizer; nothing is trained yet.

        Args:
            x: Node features, [n, d], dense or coalesced sparse COO.
            split: The links to learn from and to choose the epoch by.
            model_config: The network.
            config: The training.
            device: Where to compute.
            track_consistency: Whether to measure the terms of Eq. 10-11 at every evaluation.
        """
        self._x = x.to(device)
        self._split = split
        self._config = config
        self._device = device
        self._track_consistency = track_consistency
        self._links = split.train.to(device)
        self._drawer = Drawer(self._links, split.num_nodes, config, split.sides)
        self.model = build_model(x.shape[1], model_config, config.seed).to(device)
        self.optimizer = torch.optim.Adam(
            self.model.parameters(), lr=config.lr, weight_decay=config.weight_decay
        )
        self.epoch = 0
        self.best_epoch = 0
        self.best_val: dict[str, float] | None = None
        self.best_weights: dict[str, Tensor] = {}
        self.is_finite = True
        """Whether losses, weights and scores have been finite numbers so far."""
        self._looks_at_chance = 0

    def run_epoch(self) -> EpochRecord:
        """Run the next epoch, look at the validation links if it is time, keep the best.

        Raises:
            SplitError: There are no counter-examples to draw.
        """
        self.epoch += 1
        draw = self._drawer.draw(self.epoch)
        losses = self._optimize(draw)
        self.is_finite = all(map(math.isfinite, losses))
        is_time = self.epoch % self._config.evaluate_every == 0 or self.epoch == self._config.epochs
        if not (self.is_finite and is_time):
            return EpochRecord(self.epoch, losses)
        val = self._look()
        tracked = self._track_consistency and self.is_finite
        return EpochRecord(self.epoch, losses, val, self._consistency(draw) if tracked else None)

    def finish(self) -> dict[str, float] | None:
        """Go back to the weights of the best epoch and return the metrics on the test links.

        A run that was cut short before its first look, or that keeps its last epoch for want of
        validation links, looks now.

        Raises:
            TrainingError: No epoch gave finite scores.
        """
        keeps_last = self._split.val.shape[1] == 0
        if not self.best_weights or (keeps_last and self.is_finite):
            self._look()
        if not self.best_weights:
            raise TrainingError(
                f"The model's scores are not finite at epoch {self.epoch}, so there is nothing to "
                f"keep.\nLower --lr, and look for very large feature values."
            )
        self.model.load_state_dict(self.best_weights)
        return measure_test_links(self.model, self._x, self._split)

    @property
    def has_collapsed(self) -> bool:
        """Whether validation AUC had risen above chance and has fallen back to it for good."""
        return self._looks_at_chance >= _LOOKS_AT_CHANCE

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return all that is needed to go on from here: tensors, and numbers for JSON.

        No generator is part of it: draws follow from seed and epoch.
        """
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in self.best_weights.items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam.{index}.{name}": value for name, value in moments.items()}
        numbers = {
            "epoch": self.epoch,
            "best_epoch": self.best_epoch,
            "best_val": self.best_val,
            "looks_at_chance": self._looks_at_chance,
        }
        return tensors, numbers

    def restore(self, tensors: dict[str, Tensor], numbers: dict[str, Any]) -> None:
        """Take over a state that `state` returned."""
        self.model.load_state_dict(_under("model.", tensors))
        self.best_weights = {k: v.to(self._device) for k, v in _under("best.", tensors).items()}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _under("adam.", tensors).items():
            index, moment = name.split(".")
            moments.setdefault(int(index), {})[moment] = value
        self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": moments})
        self.epoch, self.best_epoch = numbers["epoch"], numbers["best_epoch"]
        self.best_val = numbers["best_val"]
        self._looks_at_chance = numbers["looks_at_chance"]

    def _optimize(self, draw: Draw) -> list[float]:
        """Take one optimizer step per view (Algorithm 1, lines 3-10)."""
        coins = stream(self._config.seed, "dropout", self.epoch, self._device)
        losses: list[float] = []
        self.model.train()
        for loss in self.model.losses(self._x, draw.views, draw.negatives, coins):
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    def _look(self) -> dict[str, float] | None:
        """Measure on the validation links and keep the weights if they are the best so far."""
        split = self._split
        z = embed(self.model, self._x, symmetric(self._links))
        positive = decode_pairs(self.model, z, split.val)
        negative = decode_pairs(self.model, z, split.val_negatives)
        numbers = [*self.model.state_dict().values(), z, positive, negative]
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
            self.best_weights = {k: v.clone() for k, v in self.model.state_dict().items()}
        return val

    @property
    def _learned_auc(self) -> float:
        """The AUC above which the model has surely learned something.

        Guessing gives 0.5 with a standard error of about sqrt(1 / 6p) on p links and as many
        unlinked pairs; on a handful of links no AUC is sure enough to speak of a collapse.
        """
        return max(_LEARNED, 0.5 + 4 * math.sqrt(1 / (6 * max(self._split.val.shape[1], 1))))

    def _consistency(self, draw: Draw) -> dict[str, float]:
        """Measure Eq. 10-11 over all pairs that this epoch scored."""
        view_1, view_2 = draw.views.view_1, draw.views.view_2
        pairs = torch.cat([self._links, *draw.negatives], dim=1).cpu()
        entries = [_contains(view, pairs, self._split.num_nodes) for view in (view_1, view_2)]
        reconstructions = [
            torch.sigmoid(
                decode_pairs(self.model, embed(self.model, self._x, seen.edge_index), pairs)
            )
            for seen in (view_2, view_1)  # A~_1 is reconstructed from A_2   (Eq. 4)
        ]
        return consistency_terms(*entries, *reconstructions)


def _contains(view: View, pairs: Tensor, num_nodes: int) -> Tensor:
    """Return 1.0 where a pair is a link of the view, else 0.0."""
    low, high = view.edge_index.min(dim=0).values, view.edge_index.max(dim=0).values
    links = (low * num_nodes + high).cpu()
    return torch.isin(pairs[0] * num_nodes + pairs[1], links).float()


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
