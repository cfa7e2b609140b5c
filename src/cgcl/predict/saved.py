"""A fitted predictor on disk: one folder with weights, names, links, split and calibration."""

from __future__ import annotations

from pathlib import Path

from cgcl.errors import ModelFileError, RunFolderError
from cgcl.files import make_folder
from cgcl.graph.graph import read_stored_graph, write_graph
from cgcl.metrics.calibration import Calibration
from cgcl.split.split import read_split, write_split
from cgcl.train.fit import Fitted
from cgcl.train.run_folder import (
    GRAPH,
    MODEL,
    RUN,
    SPLIT,
    read_history,
    read_model,
    read_run,
    write_history,
    write_model,
)


def write_fitted(folder: Path, fitted: Fitted) -> None:
    """Write what a predictor learned to a folder.

    Raises:
        ResourceError: The folder cannot be written.
    """
    make_folder(folder)
    # The model goes first and comes last, so that a folder with one is complete.
    (folder / MODEL).unlink(missing_ok=True)
    write_graph(folder / GRAPH, fitted.graph)
    write_split(folder / SPLIT, fitted.split)
    write_history(folder, fitted.history)
    write_model(folder / MODEL, fitted)


def read_fitted(folder: Path) -> Fitted:
    """Return what `write_fitted`, or `cgcl train`, wrote to a folder.

    Raises:
        RunFolderError: The folder holds no model; the message says what it is instead.
        ModelFileError: A file is missing, damaged, foreign or does not belong to the others.
    """
    _require_model(folder)
    learner, recipe, about = read_model(folder / MODEL)
    graph, split = read_stored_graph(folder / GRAPH), read_split(folder / SPLIT)
    for what, found, file in (("graph", graph, GRAPH), ("split", split, SPLIT)):
        if about.get(what) != found.fingerprint:
            raise ModelFileError(
                f"{folder / MODEL} was trained on another {what} than {file} beside it holds. "
                f"Put the files of one run back together."
            )
    calibration = about.get("calibration")
    return Fitted(
        graph=graph,
        split=split,
        learner=learner,
        recipe=recipe,
        calibration=None if calibration is None else Calibration.from_json(calibration),
        history=read_history(folder),
        best_epoch=about["best_epoch"],
        val=about["val"],
        test=about["test"],
        test_sampled=about.get("test_sampled"),
    )


def _require_model(path: Path) -> None:
    """Refuse a folder without a model, saying what it is instead."""
    if (path / MODEL).exists():
        return
    if not path.is_dir():
        what = "is a file, not a run folder" if path.exists() else "does not exist"
        raise RunFolderError(f"{path} {what}. Name a run folder, as cgcl train prints it.")
    if not (path / RUN).exists():
        raise RunFolderError(
            f"{path} is not a run folder: it holds neither {MODEL} nor {RUN}.\n"
            f"Name a run folder, as cgcl train prints it."
        )
    run = read_run(path)
    raise RunFolderError(
        f"The run in {path} has no model yet: its status is '{run['status']}', after epoch "
        f"{run['epochs']} of {run['config'].get('epochs')}.\n"
        f"Let it finish, or go on with it: cgcl train --resume {path}"
    )
