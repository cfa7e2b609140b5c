"""A run: what `fit` does, written down in a folder from which it can go on at any moment."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cgcl.errors import CGCLError, ConfigError, ModelFileError, ResourceError, RunFolderError
from cgcl.graph import Graph
from cgcl.graph.graph import read_stored_graph, write_graph
from cgcl.methods.settings import CGCLSettings, RankSettings
from cgcl.settings import pick
from cgcl.split import Split, random_split
from cgcl.split.split import read_split, write_split
from cgcl.train.config import Resources, RunConfig
from cgcl.train.estimate import estimate_graph, require_memory
from cgcl.train.execution import machine, resolve_device, versions
from cgcl.train.fit import Fitted, fit, prepared
from cgcl.train.ranks import require_shareable
from cgcl.train.run_folder import (
    GRAPH,
    MODEL,
    SPLIT,
    HistoryFile,
    RunFolder,
    count_weights,
    model_id,
    read_model,
    read_run,
    recover_checkpoint,
    write_checkpoint,
    write_model,
)
from cgcl.train.top_of_list import Progress, silent
from cgcl.train.trainer import RESUMABLE, EpochRecord, Stopped, Trainer

# Files of a run in units of the weights' size: two checkpoints (weights, best weights, two
# moments each) and the model.
_WEIGHT_COPIES = 9


@dataclass
class Run:
    """A run that is about to be trained: everything read, nothing computed yet."""

    folder: RunFolder
    graph: Graph
    split: Split
    recipe: RunConfig
    resources: Resources
    about: dict[str, Any]
    """What `run.json` says."""
    _trainer: Trainer = field(init=False)
    _history: HistoryFile | None = field(default=None, init=False)
    _begun: float = 0.0
    _last_checkpoint: float = 0.0

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
        on_trained: Callable[[], None] = lambda: None,
        should_stop: Callable[[], bool] = lambda: False,
        progress: Progress = silent,
    ) -> None:
        """Train from the last checkpoint, or from the start, to the end; write everything down.

        If `should_stop` ends it, its status is "interrupted"; otherwise it is "finished".

        Args:
            on_start: Told the epoch that training goes on from, and what to be warned of.
            on_epoch: Told about every epoch.
            on_trained: Told when the trained model is in the folder; `conclude_run` can do the
                rest from there.
            should_stop: Asked after every epoch.
            progress: Told about every step after the last epoch.

        Raises:
            TrainingError: The loss is not finite before anything was learned.
            ModelFileError: The checkpoint is damaged or belongs to another run.
            ResourceError: There is no such device, or no space left.
        """

        def begin(trainer: Trainer) -> None:
            warnings = self._begin(trainer)
            on_start(trainer.epoch, warnings)

        def note(record: EpochRecord) -> None:
            self._note(record)
            on_epoch(record)

        def keep(fitted: Fitted) -> None:
            self._write(fitted, "trained")
            on_trained()

        told = {"on_start": begin, "on_epoch": note, "on_stop": self._end_epochs}
        try:
            self._fit(**told, on_trained=keep, should_stop=should_stop, progress=progress)
        except Exception as error:  # whatever it is, the run is over
            if self.about["status"] == "trained":  # what is left can be done again
                raise
            why = str(error) or type(error).__name__
            with contextlib.suppress(ResourceError):  # a full disk may be the failure itself
                if self._begun:
                    self._note_progress("failed", Stopped("error", self._trainer.epoch, why))
                elif not isinstance(error, CGCLError):  # what is refused leaves all as it is
                    stopped = Stopped("error", self.about["epochs"], why)
                    self._tell("failed", stopped=asdict(stopped))
            raise
        finally:
            if self._history is not None:
                self._history.close()

    def conclude(self, progress: Progress = silent) -> None:
        """Test and calibrate the model in the folder: what is left of a run that was trained.

        Args:
            progress: Told about every step.

        Raises:
            ModelFileError: The model is damaged.
            ResourceError: There is no such device, or no space left.
        """
        self._fit(on_start=self._take_model, progress=progress)

    def _fit(self, **told: Any) -> None:  # noqa: ANN401, callbacks of `fit`
        given = self.graph, self.split, self.recipe, self.resources
        fitted = fit(*given, is_prepared=True, calibrated=True, **told)
        if self.about["status"] == "trained":
            self._write(fitted, "finished")

    def _identity(self) -> dict[str, Any]:
        """What a checkpoint must agree on to be one of this run."""
        return {
            **self.recipe.to_json(),
            "graph": self.graph.fingerprint,
            "split": self.split.fingerprint,
        }

    def _begin(self, trainer: Trainer) -> list[str]:
        """Go on from the last checkpoint, if there is one; return what to be warned of."""
        found = recover_checkpoint(self.folder.path, self._identity())
        warnings: list[str] = []
        if found is not None:
            tensors, numbers, warning = found
            trainer.restore(tensors, numbers)
            warnings += [warning] if warning else []
        warnings += self._note_machine(trainer)
        self._trainer, self._begun = trainer, time.monotonic()
        self._last_checkpoint = self._begun
        self._history = HistoryFile(self.folder.path, trainer.epoch)
        if lost := self._history.lost_epochs:
            warnings.append(
                f"metrics.jsonl was damaged: the records of {lost} earlier epochs are lost. The "
                f"model is not affected."
            )
        return warnings

    def _note_machine(self, trainer: Trainer) -> list[str]:
        """Write down that the run is running, and where; warn if it was somewhere else before."""
        here = machine(self.resources, resolve_device(self.resources))
        here["engine"] = trainer.engine.name if trainer.engine else None
        machines = self.about["machines"]
        before = {key: machines[-1].get(key) for key in here} if machines else here
        if not machines or before != here:
            machines.append({"from_epoch": trainer.epoch + 1, **here})
        # What a time-limited part of the run was worth says nothing about where it goes from here.
        about = dict.fromkeys(("stopped", "test", "model"))
        self._tell("running", versions=versions(self.recipe.name), **about, **here)
        if trainer.epoch == 0 or before == here:
            return []
        return [
            f"Until epoch {trainer.epoch} this run used {_in_words(before)}, now it uses "
            f"{_in_words(here)}: from here on, bits may differ."
        ]

    def _note(self, record: EpochRecord) -> None:
        """Write down an epoch and, if it is time, a checkpoint."""
        assert self._history is not None
        self._history.append(record.to_json())
        if time.monotonic() - self._last_checkpoint >= self.resources.checkpoint_every:
            self._checkpoint()
            self._last_checkpoint = time.monotonic()

    def _checkpoint(self) -> None:
        assert self._history is not None
        self._history.sync()
        write_checkpoint(self.folder.path, *self._trainer.state(), self._identity())

    def _end_epochs(self, trainer: Trainer) -> None:
        """Write down how training ended, so that it can go on if it may."""
        stopped = trainer.stopped
        if stopped is None or stopped.reason in RESUMABLE:
            self._checkpoint()
        self.about["seconds"] += time.monotonic() - self._begun
        self._note_progress("interrupted" if trainer.was_asked_to_stop else "running", stopped)

    def _take_model(self, trainer: Trainer) -> None:
        """Take over the model in the folder; there are no epochs to run."""
        learner, _, about = read_model(self.folder.path / MODEL)
        own = {"graph": self.graph.fingerprint, "split": self.split.fingerprint}
        # Earlier versions did not tell the model by a hash.
        is_own = self.about.get("model") in (None, model_id(learner))
        if not is_own or any(about[name] != value for name, value in own.items()):
            raise ModelFileError(
                f"{self.folder.path / MODEL} is not the model that this run made. "
                f"Put the files of one run back together."
            )
        trainer.engine = None
        trainer.learner.load_state_dict(learner.state_dict())
        trainer.best_weights = {k: v.clone() for k, v in trainer.learner.state_dict().items()}
        trainer.epoch = self.about["epochs"]
        trainer.best_epoch, trainer.best_val = about["best_epoch"], about["val"]
        stopped = self.about["stopped"]
        trainer.stopped = stopped and Stopped(**stopped)

    def _write(self, fitted: Fitted, status: str) -> None:
        """Write the model and what it is worth."""
        write_model(self.folder.path / MODEL, fitted)
        worth = {"val": fitted.val, "test": fitted.test, "test_sampled": fitted.test_sampled}
        own = {"model": model_id(fitted.learner)}
        self._tell(status, best_epoch=fitted.best_epoch or None, **worth, **own)

    def _note_progress(self, status: str, stopped: Stopped | None) -> None:
        trainer = self._trainer
        best = {"best_epoch": trainer.best_epoch or None, "val": trainer.best_val}
        self._tell(status, stopped=stopped and asdict(stopped), epochs=trainer.epoch, **best)

    def _tell(self, status: str, **more: Any) -> None:  # noqa: ANN401, what JSON can hold
        """Let `run.json` say more, or something else."""
        self.about |= {"status": status, **more}
        self.folder.write_run(self.about)


def start_run(
    graph: Graph,
    recipe: RunConfig,
    resources: Resources,
    out: Path,
    command: str,
    split: Split | None = None,
) -> Run:
    """Split the graph and make a run folder that holds all a run needs to begin.

    Args:
        graph: The graph to train on; without features, some are made from the training links if
            the method needs any.
        recipe: The method, its settings and the shares to hold out.
        resources: Where and how long to compute.
        out: The folder to make the run folder in.
        command: How to repeat this run, for the report.
        split: The split of the graph's links; drawn at random if None.

    Raises:
        SplitError: The graph has too few links, or too few unlinked pairs; or the split belongs to
            another graph.
        ResourceError: The folder cannot be written, the device does not exist, or there is not
            enough memory.
    """
    device = resolve_device(resources)
    require_shareable(recipe)
    if split is None:
        split = random_split(graph, recipe.split.val, recipe.split.test, recipe.split.seed)
    graph = prepared(graph, split, recipe)
    if device.type == "cpu" and isinstance(recipe.settings, (CGCLSettings, RankSettings)):
        require_memory(estimate_graph(graph, recipe.settings, recipe.split, resources))
    weights = count_weights(graph.num_features if recipe.method.needs_features else 0, recipe)
    files = 4 * _WEIGHT_COPIES * weights + 24 * graph.num_nonzeros + 32 * graph.num_edges
    folder = RunFolder.create(out, graph.title, needed_bytes=files)
    run = Run(folder, graph, split, recipe, resources, {})
    run.about |= _first_description(run, command, weights)
    try:
        write_graph(folder.path / GRAPH, graph)
        write_split(folder.path / SPLIT, split)
        folder.write_run(run.about)  # last, so that a folder with a run.json is complete
    except BaseException:
        folder.close()
        raise
    return run


def _first_description(run: Run, command: str, weights: int) -> dict[str, Any]:
    """Return what `run.json` says before anything is trained; nothing in it is ever missing."""
    graph = run.graph
    return {
        "format": 1,
        "status": "running",
        "command": command,
        "graph": {
            "title": graph.title,
            "nodes": graph.num_nodes,
            "links": graph.num_edges,
            "features": graph.num_features,
            "feature_nonzeros": graph.num_nonzeros,
            "fingerprint": graph.fingerprint,
            "notes": list(graph.notes),
        },
        "split": run.split.sizes,
        "config": {**run.recipe.to_json(), **asdict(run.resources)},
        "parameters": weights,
        "versions": versions(run.recipe.name),
        **machine(run.resources, resolve_device(run.resources)),
        "engine": None,
        "machines": [],
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": 0.0,
        "epochs": 0,
        "best_epoch": None,
        "val": None,
        "test": None,
        "stopped": None,
        "model": None,
    }


def resume_run(path: Path, changed: Mapping[str, Any] | None = None) -> Run:
    """Open a run folder to go on where it was stopped.

    Args:
        path: The run folder.
        changed: Fields of `Resources` that are to be others from here on.

    Raises:
        RunFolderError: There is no run in the folder, it is damaged, or in use.
        ModelFileError: The graph or the split in the folder is damaged.
    """
    read_run(path)  # before the lock, which would create a file in a folder that is no run
    folder = RunFolder(path)
    try:
        return _open_run(folder, changed or {})
    except BaseException:
        folder.close()
        raise


def conclude_run(path: Path, progress: Progress = silent) -> None:
    """Test and calibrate a run that was stopped after its last epoch; leave any other alone.

    Args:
        path: The run folder.
        progress: Told about every step.

    Raises:
        RunFolderError: There is no run in the folder, it is damaged, or in use.
        ModelFileError: Its files are damaged.
        ResourceError: There is no such device, or no space left.
    """
    if read_run(path)["status"] == "trained":
        run = resume_run(path)
        with run.folder:
            run.conclude(progress)


def _open_run(folder: RunFolder, changed: Mapping[str, Any]) -> Run:
    path, about = folder.path, read_run(folder.path)
    graph, split = read_stored_graph(path / GRAPH), read_split(path / SPLIT)
    if graph.fingerprint != about["graph"]["fingerprint"]:
        raise RunFolderError(
            f"{path} holds another graph than the one its run was started with. Nothing was "
            f"changed. Put the right {GRAPH} back, or train again."
        )
    # As many threads as before, unless told otherwise: their number decides the last bits.
    config = {**about["config"], "threads": about["threads"]}
    if config.get("precision") == "bf16":  # of earlier versions
        config["precision"] = Resources.precision
    try:
        recipe = RunConfig.from_json(config)
        resources = pick(Resources, {**config, **changed})
    except (KeyError, TypeError, ConfigError) as error:
        raise RunFolderError(
            f"The run's settings in run.json are damaged ({error}). Train again with cgcl train."
        ) from error
    about["config"] |= asdict(resources)
    return Run(folder, graph, split, recipe, resources, about)


def _in_words(machine: dict[str, Any]) -> str:
    engine = f", {machine['engine']} engine" if machine["engine"] else ""
    return f"{machine['device']} with {machine['threads']} thread(s){engine}"
