"""`cgcl train`."""

from __future__ import annotations

import shlex
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from cgcl.cli.settings import FLAT, explicit_settings
from cgcl.cli.terminal import TrainingLine, say, say_fact
from cgcl.errors import ConfigError
from cgcl.train.config import ModelConfig, Resources, TrainConfig, describe_difference, pick

if TYPE_CHECKING:
    from cgcl.train.run import Run

__all__ = ["train"]

_CHANCE = 0.55


def train(
    graph: str = "cora",
    *,
    features: Path | None = None,
    source: str = "source",
    target: str = "target",
    separator: str | None = None,
    header: bool = True,
    data_root: Annotated[Path | None, Parameter(env_var="CGCL_DATA")] = None,
    preset: Literal["quick", "paper"] = "quick",  # noqa: ARG001, read by settings_preset
    model: Annotated[ModelConfig, FLAT] = ModelConfig(),  # noqa: B008
    training: Annotated[TrainConfig, FLAT] = TrainConfig(),  # noqa: B008
    resources: Annotated[Resources, FLAT] = Resources(),  # noqa: B008
    out: Path = Path("runs"),
    resume: Path | None = None,
    config: Path | None = None,  # noqa: ARG001, read by settings_file
    quiet: bool = False,
) -> int:
    """Learn from the links of a graph and test the result on links that were held out.

    Writes a run folder and prints its path.

    Args:
        graph: A data set (cora, citeseer, pubmed, photo, computers) or a CSV file of links.
        features: A CSV file of node features: the first column names the node.
        source: The column with one end of each link.
        target: The column with the other end.
        separator: What separates the columns; a comma, or a tab in .tsv files, if not given.
        header: Whether the first row of the links holds column names.
        data_root: Where data sets lie, or are downloaded to [env var: CGCL_DATA].
        preset: Settings that other options can override. quick takes seconds on two cores;
            paper is what the authors ran (hidden 512, lr 0.005, 800 epochs, directed views).
        model: The network.
        training: The training.
        resources: The machine.
        out: The folder to make the run folder in.
        resume: A run folder to go on with, instead of starting a new run.
        config: A TOML file of settings; cgcl.toml in the current folder if not given.
        quiet: Say nothing but errors.
    """
    if resume is not None:
        run = _resume(resume, model, training, resources)
    else:
        from cgcl.graph import read
        from cgcl.train.start import start_run

        read_graph = read(
            graph,
            features=features,
            source=source,
            target=target,
            separator=separator,
            header=header,
            data_root=data_root,
        )
        reading = {
            "features": features,
            "source": source if source != "source" else None,
            "target": target if target != "target" else None,
            "separator": separator,
        }
        command = _command(graph, reading, header, model, training)
        run = start_run(read_graph, model, training, resources, out, command)
    with run.folder:
        return _train(run, quiet)


def _resume(path: Path, model: ModelConfig, training: TrainConfig, resources: Resources) -> Run:
    """Open a run, refusing settings that would make it another one."""
    from cgcl.train.run_folder import read_run
    from cgcl.train.start import read_settings, resume_run

    about = read_run(path)
    given = explicit_settings()
    for asked in (model, training):
        difference = describe_difference(about["config"], asked, given)
        if difference:
            raise ConfigError(
                f"{difference}\nA run keeps its settings: start a new one, or resume without them."
            )
    if "graph" in given:
        raise ConfigError(
            f"A resumed run keeps its graph, '{about['graph']['title']}'.\n"
            f"Write only: cgcl train --resume {path}"
        )
    kept = asdict(read_settings(Resources, about))
    changed = {name: value for name, value in asdict(resources).items() if name in given}
    return resume_run(path, pick(Resources, {**kept, **changed}))


def _train(run: Run, quiet: bool) -> int:
    path = run.folder.path
    _tell_beginning(run, quiet)
    if run.is_finished and not quiet:
        say_fact("Finished", f"after {run.about['epochs']} epochs; there is nothing left to train")
    if not run.is_finished:
        line = TrainingLine(run.config.epochs, quiet)

        def on_start(epoch: int, warning: str | None) -> None:
            if warning:
                say(f"Warning: {warning}")
            if epoch and not quiet:
                say_fact("Resuming", f"after epoch {epoch}")
            line.start(epoch)

        try:
            request = run.train(on_start, line.show)
        finally:
            line.stop()
        if request.is_set() and run.about["status"] == "interrupted":
            stopped = run.about["stopped"]["message"]
            say(f"{stopped} Continue with: cgcl train --resume {shlex.quote(str(path))}")
            return request.exit_code
    _tell_result(run, quiet)
    print(path)  # noqa: T201
    return 0


def _tell_beginning(run: Run, quiet: bool) -> None:
    if quiet:
        return
    graph, split, config = run.graph, run.split.sizes, run.config
    sparse = ", kept sparse" if graph.x is not None and graph.x.is_sparse else ""
    say_fact(
        "Graph",
        f"{graph.title}: {graph.num_nodes:,} nodes, {graph.num_edges:,} links, "
        f"{graph.num_features:,} features ({graph.num_nonzeros:,} nonzeros{sparse})",
    )
    for note in graph.notes:
        say_fact("", note)
    say_fact(
        "Split",
        f"{split['train']:,} links to learn from, {split['val']:,} to choose the epoch by, "
        f"{split['test']:,} to test on (seed {config.seed})",
    )
    say_fact(
        "Model",
        f"CGCL, width {run.model_config.hidden}, {config.views} views, {config.epochs} epochs, "
        f"lr {config.lr}",
    )


def _tell_result(run: Run, quiet: bool) -> None:
    from cgcl.report.write import write_report

    about, path = run.about, run.folder.path
    page = write_report(path)
    if about["stopped"]:
        say(f"Warning: {about['stopped']['message']}")
    if about["val"] and about["val"]["auc"] < _CHANCE:
        say(
            f"Warning: The model learned nothing: its best validation AUC, "
            f"{about['val']['auc']:.3f}, is no better than chance.\n"
            f"Try another --lr or more --epochs; are the features related to the links?"
        )
    if quiet:
        return
    if about["val"]:
        say_fact(
            "Validation",
            f"AUC {about['val']['auc']:.4f}   AP {about['val']['ap']:.4f}"
            f"   at epoch {about['best_epoch']}, the best of {about['epochs']}",
        )
    else:
        say_fact("Kept", f"the last epoch, {about['best_epoch']}: there are no validation links")
    if about["test"]:
        say_fact(
            "Test",
            f"AUC {about['test']['auc']:.4f}   AP {about['test']['ap']:.4f}   "
            f"Hits@100 {about['test']['hits@100']:.4f}   MRR {about['test']['mrr']:.4f}",
        )
    say_fact("Time", f"{about['seconds']:.1f} s on {about['device']}, {about['threads']} threads")
    say_fact("Report", str(page))
    say_fact("Next", f"cgcl predict {shlex.quote(str(path))} --top 20")


def _command(
    graph: str,
    reading: dict[str, str | Path | None],
    header: bool,
    model: ModelConfig,
    training: TrainConfig,
) -> str:
    """Return the shortest command that repeats a run, whatever file or preset it came from."""
    words = ["cgcl", "train", graph]
    for name, value in reading.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    if not header:
        words.append("--no-header")
    for settings in (model, training):
        for field in fields(settings):
            value = getattr(settings, field.name)
            if value != field.default:
                words += [f"--{field.name.replace('_', '-')}", str(value)]
    return shlex.join(words)
