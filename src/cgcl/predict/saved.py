"""A fitted predictor on disk: one folder with weights, names, links, split and calibration."""

from __future__ import annotations

from pathlib import Path

from cgcl.errors import ConfigError, ModelFileError, RunFolderError
from cgcl.files import make_folder
from cgcl.graph.graph import read_stored_graph, write_graph
from cgcl.methods.method import Learner
from cgcl.metrics.calibration import Calibration
from cgcl.split.split import read_split, write_split
from cgcl.tensors import usual_defaults
from cgcl.train.fit import Fitted
from cgcl.train.run_folder import (
    GRAPH,
    MODEL,
    RUN,
    SPLIT,
    model_id,
    read_history,
    read_model,
    read_run,
    write_history,
    write_model,
)
from cgcl.wording import shown


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


@usual_defaults()
def read_fitted(folder: Path) -> Fitted:
    """Return what `write_fitted`, or `cgcl train`, wrote to a folder.

    Raises:
        RunFolderError: The folder holds no model; the message says what it is instead.
        ModelFileError: A file is missing, damaged, foreign or does not belong to the others.
    """
    _require_model(folder)
    learner, recipe, about = read_model(folder / MODEL)
    notes = _require_own(folder, learner)
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
        notes=notes,
    )


def folder_called(folder: object) -> Path:
    """Return the path of a folder, or refuse what names none.

    Raises:
        ConfigError: It is neither text nor a path, or holds a NUL character.
    """
    try:
        path = Path(folder)  # pyrefly: ignore[bad-argument-type]
    except TypeError as error:
        raise ConfigError(
            f"A folder is named by a text or a path, found {type(folder).__name__}."
        ) from error
    if "\0" in str(path):
        raise ConfigError("The name of a folder holds a NUL character. Give another name.")
    return path


def _require_own(folder: Path, learner: Learner) -> tuple[str, ...]:
    """Refuse a model that is not the one its run made; return a note where nobody can tell.

    Raises:
        ModelFileError: It is another one.
    """
    if not (folder / RUN).exists():  # saved from Python
        return ()
    try:
        run = read_run(folder)
    except RunFolderError as error:
        return (f"Nobody can tell whether the model is this run's own. {error}",)
    # In any other state the model is about to be written again.
    if run["status"] not in ("trained", "finished"):
        return ()
    own = run.get("model")
    if own is None:
        return ("This run was made by an earlier version, which did not tell its model by a hash.",)
    if own != model_id(learner):
        raise ModelFileError(
            f"{folder / MODEL} is not the model that this run made, though of the same graph and "
            f"split.\nPut the files of one run back together."
        )
    return ()


def _require_model(path: Path) -> None:
    """Refuse a folder without a model, saying what it is instead."""
    try:
        if (path / MODEL).exists():
            return
    except OSError as error:  # such as a name that is too long
        raise RunFolderError(
            f"Cannot open the folder {shown(str(path), 200)}: {error.strerror}.\n"
            f"Name a run folder, as cgcl train prints it."
        ) from error
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
