"""A run: train from the last checkpoint to the end, test the best epoch, write it all down."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from cgcl.errors import FeatureError
from cgcl.graph import Graph
from cgcl.split import Split
from cgcl.train.checkpoint import read_checkpoint, write_checkpoint
from cgcl.train.config import ModelConfig, Resources, TrainConfig
from cgcl.train.execution import computing_with, resolve_device, versions
from cgcl.train.history import HistoryFile
from cgcl.train.loop import Stopped, train
from cgcl.train.model_file import MODEL, describe_model, write_model
from cgcl.train.run_folder import RunFolder
from cgcl.train.scoring import measure_test_links
from cgcl.train.signals import StopRequest, stop_on_signals
from cgcl.train.trainer import EpochRecord, Trainer

__all__ = ["Run"]


@dataclass
class Run:
    """A run that is about to be trained: everything read, nothing computed yet."""

    folder: RunFolder
    graph: Graph
    split: Split
    model_config: ModelConfig
    config: TrainConfig
    resources: Resources
    about: dict[str, Any]
    """What `run.json` says."""

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to train."""
        stopped = self.about["stopped"] or {}
        return self.about["status"] == "finished" and stopped.get("reason") != "time limit"

    def train(
        self,
        on_start: Callable[[int, str | None], None] = lambda _epoch, _warning: None,
        on_epoch: Callable[[EpochRecord], None] = lambda _: None,
    ) -> StopRequest:
        """Train from the last checkpoint, or from the start, to the end; write everything down.

        Args:
            on_start: Told the epoch that training goes on from, and a warning if there is one.
            on_epoch: Told about every epoch.

        Returns:
            Whether a signal stopped the run. If not, it is finished.

        Raises:
            TrainingError: The loss is not finite before anything was learned.
            ModelFileError: The checkpoint is damaged or belongs to another run.
            ResourceError: There is no such device, or no space left.
        """
        device = resolve_device(self.resources)
        started = time.monotonic()
        with computing_with(self.resources), stop_on_signals() as request:
            trainer = self._trainer(device)
            warning = self._restore(trainer)
            on_start(trainer.epoch, warning)
            self._note_beginning(trainer, device)
            history = HistoryFile(self.folder.path, keep_epochs=trainer.epoch)
            try:
                stopped = self._loop(trainer, history, request, on_epoch)
            finally:
                history.close()
                self.about["seconds"] += time.monotonic() - started
            self._conclude(trainer, stopped, device)
        return request

    @property
    def _x(self) -> Tensor:
        if self.graph.x is None:
            raise FeatureError(f"The graph in {self.folder.path} has no features.")
        return self.graph.x

    def _trainer(self, device: torch.device) -> Trainer:
        return Trainer(
            self._x,
            self.split,
            self.model_config,
            self.config,
            device,
            track_consistency=self.resources.track_consistency,
        )

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree on to be one of this run."""
        return {
            **asdict(self.model_config),
            **asdict(self.config),
            "graph": self.graph.fingerprint,
        }

    def _restore(self, trainer: Trainer) -> str | None:
        found = read_checkpoint(self.folder.path, self._identity())
        if found is None:
            return None
        tensors, numbers, warning = found
        trainer.restore(tensors, numbers)
        return warning

    def _note_beginning(self, trainer: Trainer, device: torch.device) -> None:
        self.about |= {
            "status": "running",
            "parameters": sum(weight.numel() for weight in trainer.model.parameters()),
            "versions": versions(),
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
            "threads": self.resources.num_threads,
        }
        self.folder.write_run(self.about)

    def _loop(
        self,
        trainer: Trainer,
        history: HistoryFile,
        request: StopRequest,
        on_epoch: Callable[[EpochRecord], None],
    ) -> Stopped | None:
        last_checkpoint = time.monotonic()

        def note(record: EpochRecord) -> None:
            nonlocal last_checkpoint
            history.append(record.to_json())
            if time.monotonic() - last_checkpoint >= self.resources.checkpoint_every:
                self._checkpoint(trainer, history)
                last_checkpoint = time.monotonic()
            on_epoch(record)

        stopped = train(
            trainer,
            self.config,
            on_epoch=note,
            should_stop=request.is_set,
            time_limit_s=self.resources.time_limit_s,
        )
        if stopped is None or stopped.reason in ("signal", "time limit"):
            self._checkpoint(trainer, history)
        return stopped

    def _checkpoint(self, trainer: Trainer, history: HistoryFile) -> None:
        history.sync()
        write_checkpoint(self.folder.path, *trainer.state(), self._identity())

    def _conclude(self, trainer: Trainer, stopped: Stopped | None, device: torch.device) -> None:
        """Test the best epoch and write the model and the results."""
        if stopped is not None and stopped.reason == "signal":
            self.about |= {"status": "interrupted", "stopped": asdict(stopped)}
            self.folder.write_run(self.about)
            return
        trainer.look_now()
        model = trainer.model
        model.load_state_dict(trainer.best_weights)
        test = measure_test_links(model, self._x.to(device), self.split)
        write_model(
            self.folder.path / MODEL,
            model,
            self.model_config,
            describe_model(
                self.graph, self.about["config"], trainer.best_epoch, trainer.best_val, test
            ),
        )
        self.about |= {
            "status": "finished",
            "epochs": trainer.epoch,
            "best_epoch": trainer.best_epoch,
            "val": trainer.best_val,
            "test": test,
            "stopped": asdict(stopped) if stopped else None,
        }
        self.folder.write_run(self.about)
