"""A run: train from the last checkpoint to the end, test the best epoch, write it all down."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from cgcl.errors import CGCLError, ResourceError
from cgcl.graph import Graph
from cgcl.graph.features import features_of
from cgcl.split import Split
from cgcl.train.calibrating import calibrate
from cgcl.train.checkpoint import recover_checkpoint, write_checkpoint
from cgcl.train.config import Resources
from cgcl.train.execution import computing_with, machine, resolve_device, versions
from cgcl.train.history import HistoryFile
from cgcl.train.loop import RESUMABLE, Stopped, train
from cgcl.train.model_file import MODEL, describe_model, write_model
from cgcl.train.once import known_of
from cgcl.train.recipe import Recipe
from cgcl.train.run_folder import RunFolder
from cgcl.train.signals import StopRequest, stop_on_signals
from cgcl.train.top_of_list import Progress, silent
from cgcl.train.trainer import EpochRecord, Trainer

__all__ = ["Run"]


@dataclass
class Run:
    """A run that is about to be trained: everything read, nothing computed yet."""

    folder: RunFolder
    graph: Graph
    split: Split
    recipe: Recipe
    resources: Resources
    about: dict[str, Any]
    """What `run.json` says."""

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to train."""
        stopped = self.about["stopped"]
        may_go_on = stopped is not None and stopped.get("reason") in RESUMABLE
        return self.about["status"] == "finished" and not may_go_on

    def train(
        self,
        on_start: Callable[[int, Sequence[str]], None] = lambda _epoch, _warnings: None,
        on_epoch: Callable[[EpochRecord], None] = lambda _: None,
        progress: Progress = silent,
    ) -> StopRequest:
        """Train from the last checkpoint, or from the start, to the end; write everything down.

        Args:
            on_start: Told the epoch that training goes on from, and what to be warned of.
            on_epoch: Told about every epoch.
            progress: Told about every step after the last epoch.

        Returns:
            Whether a signal stopped the run. If not, it is finished.

        Raises:
            TrainingError: The loss is not finite before anything was learned.
            ModelFileError: The checkpoint is damaged or belongs to another run.
            ResourceError: There is no such device, or no space left.
        """
        device = resolve_device(self.resources)
        with computing_with(self.resources), stop_on_signals() as request:
            trainer = Trainer(
                features_of(self.graph) if self.recipe.method.needs_features else None,
                self.split,
                self.recipe,
                device,
                track=self.resources.track_consistency,
                resources=self.resources,
            )
            warnings = [*self._restore(trainer), *self._note_beginning(trainer, device)]
            started = time.monotonic()
            try:
                with contextlib.closing(HistoryFile(self.folder.path, trainer.epoch)) as history:
                    on_start(trainer.epoch, [*warnings, *_lost(history)])
                    stopped = self._loop(trainer, history, request, on_epoch)
                self.about["seconds"] += time.monotonic() - started
                self._conclude(trainer, stopped, progress)
            except CGCLError as error:
                self._note_failure(trainer, error)
                raise
        return request

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree on to be one of this run."""
        return {
            **self.recipe.to_json(),
            "graph": self.graph.fingerprint,
            "split": self.split.fingerprint,
        }

    def _restore(self, trainer: Trainer) -> list[str]:
        found = recover_checkpoint(self.folder.path, self._identity())
        if found is None:
            return []
        tensors, numbers, warning = found
        trainer.restore(tensors, numbers)
        return [warning] if warning else []

    def _note_beginning(self, trainer: Trainer, device: torch.device) -> list[str]:
        """Write down that the run is running, and where; warn if it was somewhere else before."""
        here, machines = machine(self.resources, device), self.about["machines"]
        here["engine"] = trainer.engine.name if trainer.engine else None
        before = {key: machines[-1].get(key) for key in here} if machines else here
        if not machines or before != here:
            machines.append({"from_epoch": trainer.epoch + 1, **here})
        # What a time-limited part of the run was worth says nothing about where it goes from here.
        self.about |= {"status": "running", "stopped": None, "test": None}
        self.about |= {"versions": versions(), **here}
        self.folder.write_run(self.about)
        if trainer.epoch == 0 or before == here:
            return []
        return [
            f"Until epoch {trainer.epoch} this run used {_in_words(before)}, now it uses "
            f"{_in_words(here)}: from here on, bits may differ."
        ]

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
            on_epoch=note,
            should_stop=request.is_set,
            time_limit_s=self.resources.time_limit_s,
        )
        if stopped is None or stopped.reason in RESUMABLE:
            self._checkpoint(trainer, history)
        return stopped

    def _checkpoint(self, trainer: Trainer, history: HistoryFile) -> None:
        history.sync()
        write_checkpoint(self.folder.path, *trainer.state(), self._identity())

    def _conclude(self, trainer: Trainer, stopped: Stopped | None, progress: Progress) -> None:
        """Test the best epoch and write the model and the results."""
        self.about["stopped"] = asdict(stopped) if stopped else None
        if stopped is not None and stopped.reason == "signal":
            self._note_progress(trainer, "interrupted")
            return
        test, learner = trainer.finish(progress), trainer.learner
        calibration = calibrate(
            lambda links: learner.scorer(known_of(self.graph, links, learner)),
            self.split,
            seed=self.recipe.split.seed,
            scorer=trainer.tested,
            progress=progress,
        )
        self.about |= {"test": test, "test_sampled": trainer.sampled}
        about = describe_model(
            self.graph,
            self.split,
            trainer.best_epoch,
            trainer.best_val,
            test,
            calibration,
            trainer.sampled,
        )
        count = trainer.known.num_features
        write_model(self.folder.path / MODEL, learner, count, self.recipe, about)
        self._note_progress(trainer, "finished")

    def _note_failure(self, trainer: Trainer, error: CGCLError) -> None:
        self.about["stopped"] = asdict(Stopped("error", trainer.epoch, str(error)))
        with contextlib.suppress(ResourceError):  # a full disk may be the failure itself
            self._note_progress(trainer, "failed")

    def _note_progress(self, trainer: Trainer, status: str) -> None:
        self.about |= {
            "status": status,
            "epochs": trainer.epoch,
            "best_epoch": trainer.best_epoch or None,
            "val": trainer.best_val,
        }
        self.folder.write_run(self.about)


def _lost(history: HistoryFile) -> list[str]:
    if history.lost_epochs == 0:
        return []
    return [
        f"metrics.jsonl was damaged: the records of {history.lost_epochs} earlier epochs are lost. "
        f"The model is not affected."
    ]


def _in_words(machine: dict[str, Any]) -> str:
    engine = f", {machine['engine']} engine" if machine["engine"] else ""
    return f"{machine['device']} with {machine['threads']} thread(s){engine}"
