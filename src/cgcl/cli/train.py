"""`cgcl train`."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from cgcl.cli.settings import (
    FLAT,
    HeldOut,
    MethodOptions,
    Preset,
    Reading,
    check_folder_name,
    flag_of,
    flags_of,
    given_settings,
)
from cgcl.cli.terminal import StepLine, TrainingLine, print_path, say, say_fact, tell_graph
from cgcl.errors import ConfigError
from cgcl.methods.settings import CGCLSettings, RankSettings
from cgcl.methods.table import DEFAULT_METHOD, PAPER_METHOD, method_named
from cgcl.train.config import Resources, SplitConfig

if TYPE_CHECKING:
    from cgcl.predict.baselines import Compared
    from cgcl.train.config import RunConfig
    from cgcl.train.run import Run

_OF_NETWORK = Parameter(
    name=FLAT.name,
    group=Group(
        "The network and its training",
        help=(
            "Each holds for every method that has a setting of its name; the rest of a method's "
            "settings go through --set. Defaults shown are those of --method cgcl. What is not "
            "given, cgcl-rank chooses for the graph; any other method has defaults of its own: "
            "cgcl methods NAME."
        ),
    ),
)


def train(
    graph: str = "cora",
    *,
    method: str | None = None,
    reading: Annotated[Reading, FLAT] = Reading(),  # noqa: B008
    test_edges: Path | None = None,
    val_edges: Path | None = None,
    preset: Preset = "quick",
    settings: Annotated[CGCLSettings, _OF_NETWORK] = CGCLSettings(),  # noqa: B008
    more: Annotated[dict[str, str] | None, Parameter(name="--set")] = None,
    shares: Annotated[SplitConfig, FLAT] = SplitConfig(),  # noqa: B008
    resources: Annotated[Resources, FLAT] = Resources(),  # noqa: B008
    out: Path = Path("runs"),
    resume: Path | None = None,
    config: Path | None = None,  # noqa: ARG001, read by settings_file
    compare: bool | None = None,
    quiet: bool = False,
) -> int:
    """Learn from the links of a graph and test the result on links that were held out.

    Writes a run folder and prints its path. Equations are those of the paper "Cross-View Graph
    Consistency Learning for Invariant Graph Representations".

    Args:
        graph: A data set (cora, citeseer, pubmed, photo, computers), or a file of links: CSV, TSV,
            an edge list (.txt, .edges), Parquet, GraphML, GEXF or NPZ.
        method: cgcl-rank (this project's own, for the top of the list; taken if none is named),
            cgcl (the paper's model; taken for --preset paper), graphsage, vgae, seal, s3grl,
            s2gae, maskgae, ncn, gcn, mlp, or a heuristic: common-neighbours, adamic-adar,
            resource-allocation, preferential-attachment, katz, pagerank, three-step-paths,
            item-cosine. `cgcl methods` says what each is, `cgcl methods NAME` what it can be told.
        reading: The files.
        test_edges: A file with the links to test on, instead of drawing them. They may be in the
            graph's file or not; either way they are not learned from.
        val_edges: A file with the links to choose the epoch by; goes with --test-edges.
        preset: Settings that other options can override. quick is fit for two cores;
            paper follows the authors' code (hidden 512, lr 0.005, 800 epochs, directed views), and
            for another method its authors' settings; best is cgcl-rank's for all the accuracy
            that there is.
        settings: The network and its training.
        more: Any setting of the method by name, such as --set.hops 2.
        shares: What is held out.
        resources: The machine.
        out: The folder to make the run folder in.
        resume: A run folder to go on with, instead of starting a new run.
        config: A TOML file of settings; cgcl.toml in the current folder if not given.
        compare: Set the result beside common neighbours, Adamic-Adar and a network that sees
            features only; by default if that takes seconds.
        quiet: Print nothing but the run folder, warnings and errors.
    """
    _import_torch()
    named = PAPER_METHOD if preset == "paper" else DEFAULT_METHOD
    told = MethodOptions(method or named, preset, settings, shares, more or {})
    asked = (graph, reading, HeldOut(test_edges, val_edges), told, resources)
    if is_follower():
        return _follow(*asked)
    if (run := _begun_before(out)) is None:
        run = _start(*asked, out) if resume is None else _resume(resume, told, resources)
    with run.folder:
        return _train(run, compare, quiet)


def is_follower() -> bool:
    """Whether torchrun has started this process beside a first one, which writes everything."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and int(os.environ.get("RANK", "0")) > 0


def _follow(
    graph: str, reading: Reading, held_out: HeldOut, told: MethodOptions, resources: Resources
) -> int:
    """Train with the first process until it says that there is no more to train."""
    from cgcl.split import random_split
    from cgcl.train.fit import fit

    found, split = held_out.read(graph, reading, told.shares)
    recipe = told.recipe(found)
    own = recipe.split
    fit(found, split or random_split(found, own.val, own.test, own.seed), recipe, resources)
    return 0


def _marker(out: Path) -> Path | None:
    """Return where processes that torchrun starts again find the run that they had begun."""
    run_id = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return out / f".torchrun-{hashlib.sha256(run_id.encode()).hexdigest()[:16]}" if run_id else None


def _begun_before(out: Path) -> Run | None:
    from cgcl.train.run import resume_run

    marker = _marker(out)
    is_again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    if marker is None or not is_again or not marker.exists():
        return None
    return resume_run(out / marker.read_text(encoding="utf-8"))


def _remember(out: Path, run: Path) -> None:
    from cgcl.files import write_atomically

    if (marker := _marker(out)) is not None:
        write_atomically(marker, run.name.encode())


def _import_torch() -> None:
    """Import torch without looking for garbage among its objects, now or when the process ends.

    They are some hundred thousand and all stay: each look takes as long as an epoch or more.
    """
    if "torch" in sys.modules or not gc.isenabled():
        return
    gc.disable()
    try:
        import torch  # noqa: F401

        gc.freeze()
    finally:
        gc.enable()


def _start(
    graph: str,
    reading: Reading,
    held_out: HeldOut,
    told: MethodOptions,
    resources: Resources,
    out: Path,
) -> Run:
    """Read the graph and begin a run in a folder of its own."""
    from cgcl.train.run import start_run

    check_folder_name(out)
    method_named(told.method)  # refused at once if there is none, before anything is read
    if resources.track_consistency and told.method != PAPER_METHOD:
        raise ConfigError(
            f"--track-consistency logs terms of the paper's model; this is {told.method}. "
            f"Add --method {PAPER_METHOD}."
        )
    found, split = held_out.read(graph, reading, told.shares)
    recipe = told.recipe(found)
    words = [*flags_of(reading), *held_out.words()]
    command = _command(graph, words, recipe, resources)
    run = start_run(found, recipe, resources, out, command, split)
    _remember(out, run.folder.path)
    return run


def _resume(path: Path, told: MethodOptions, resources: Resources) -> Run:
    """Open a run, refusing flags that would make it another one."""
    from cgcl.train.run import resume_run
    from cgcl.train.run_folder import read_run

    about, by_flag = read_run(path), given_settings(by_flag=True)
    started = about["config"]
    asked = {**asdict(told.settings), **asdict(told.shares)}
    for name in asked:
        if name in by_flag & started.keys() and started[name] != asked[name]:
            raise ConfigError(
                f"This run was started with {name}={started[name]}; you asked for {asked[name]}.\n"
                f"A run keeps its settings: start a new one, or resume without them."
            )
    own = (asked.keys() & started.keys()) | asdict(resources).keys()
    others = sorted(by_flag - own - {"resume", "quiet", "config", "compare", "set"})
    foreign = ["GRAPH" if name == "graph" else flag_of(name) for name in others]
    foreign += [f"--set.{name}" for name in told.more if "set" in by_flag]
    if foreign:
        raise ConfigError(
            f"A resumed run keeps its graph, '{about['graph']['title']}', and its settings; it "
            f"takes no {', '.join(foreign)}.\n"
            f"Write only: cgcl train --resume {shlex.quote(str(path))}"
        )
    return resume_run(
        path, {name: v for name, v in asdict(resources).items() if name in given_settings()}
    )


def _train(run: Run, compare: bool | None, quiet: bool) -> int:
    from cgcl.files import remove_leftovers
    from cgcl.report.page import write_report
    from cgcl.report.results import read_results
    from cgcl.train.signals import stop_on_signals

    path = run.folder.path
    name = shlex.quote(str(path))
    begun = time.monotonic() - run.about["seconds"]
    line = TrainingLine(run.recipe.epochs, quiet)
    with StepLine(quiet) as steps, stop_on_signals() as request:

        def on_start(epoch: int, warnings: Sequence[str]) -> None:
            for warning in warnings:
                say(f"Warning: {warning}")
            if epoch and not quiet:
                say_fact("Resuming", f"after epoch {epoch}")
            line.start(epoch)

        def farewell() -> None:
            remove_leftovers(path)
            with contextlib.suppress(RuntimeError):  # in the middle of a print of its own
                steps.stop()
            say(
                f"Stopped. The trained model is kept in {name}. What is left, from the test to "
                f"the page: cgcl report {name}"
            )

        def on_trained() -> None:
            line.stop()
            request.end_at_once(farewell)

        if not quiet:
            _tell_beginning(run)
        if run.is_finished:
            if not quiet:
                epochs = run.about["epochs"]
                say_fact("Finished", f"after {epochs} epochs; there is nothing left to train")
            on_trained()
        else:
            try:
                run.train(on_start, line.show, on_trained, request.is_set, steps.show)
            finally:
                line.stop()
            if run.about["status"] == "interrupted":
                stopped = run.about["stopped"]["message"]
                say(f"{stopped} Continue with: cgcl train --resume {name}")
                return request.exit_code
        results = read_results(path, compare=compare, progress=steps.show)
        page = write_report(path, results)
    _warn(run)
    if not quiet:
        _tell_result(run, page, results.comparison, time.monotonic() - begun)
    if (marker := _marker(path.parent)) is not None:  # nothing is left to go on with
        marker.unlink(missing_ok=True)
    print_path(path)
    return 0


def _tell_beginning(run: Run) -> None:
    graph, split, recipe = run.graph, run.split.sizes, run.recipe
    sparse = ", kept sparse" if graph.is_sparse else ""
    values = f"{graph.num_nonzeros:,} nonzeros{sparse}"
    tell_graph(graph, f", {graph.num_features:,} features ({values})")
    say_fact(
        "Split",
        f"{split['train']:,} links to learn from, {split['val']:,} to choose the epoch by, "
        f"{split['test']:,} to test on (seed {recipe.split.seed})",
    )
    say_fact("Model", _in_words(recipe))
    say_fact("Run", str(run.folder.path))


def _warn(run: Run) -> None:
    from cgcl.train.trainer import learned_nothing

    stopped = run.about["stopped"]
    if stopped:
        is_asked_for = stopped["reason"] == "no better epoch"
        say(stopped["message"] if is_asked_for else f"Warning: {stopped['message']}")
    if warning := learned_nothing(run.about["val"]):
        say(f"Warning: {warning}")


def _tell_result(run: Run, page: Path, found: Compared | None, seconds: float) -> None:
    from cgcl.metrics.table import in_order, metric_title
    from cgcl.report.words import ahead_at_top
    from cgcl.wording import counted

    about, path = run.about, run.folder.path
    val, test = about["val"], about["test"]
    if found is not None and (ahead := ahead_at_top(found)):
        say_fact("Ahead", ahead)  # before any AUC: it is what a reader of suggestions meets
    if test:
        _tell_test(test, about.get("test_sampled"), about["split"]["test"])
    if val:
        epoch = f"   at epoch {about['best_epoch']}, the best of {about['epochs']}"
        figures = "   ".join(f"{metric_title(k)} {v:.4f}" for k, v in in_order(val).items())
        say_fact("Validation", f"{figures}{epoch if run.recipe.epochs else ''}")
    elif run.recipe.epochs:
        say_fact("Kept", f"the last epoch, {about['best_epoch']}: there are no validation links")
    for place, one in enumerate(found.results[1:] if found is not None else ()):
        figures = [f"{metric_title(k)} {v:.4f}" for k, v in one["metrics"].items() if v is not None]
        say_fact("" if place else "Beside", f"{one['method']}: {'   '.join(figures)}")
    threads = counted(about["threads"], "thread")
    say_fact("Time", f"{seconds:.1f} s on {about['device']}, {threads}")
    say_fact("Report", str(page))
    say_fact("Next", f"cgcl predict {shlex.quote(str(path))} --top 20")


def _tell_test(test: dict[str, float], sampled: dict[str, Any] | None, links: int) -> None:
    """Say where test links stand in what a person reads, then how they fare against others."""
    from cgcl.metrics.table import METRICS

    errors = sampled["se"] if sampled else {}
    told: dict[bool, list[str]] = {True: [], False: []}
    for name, metric in METRICS.items():
        if name in test and metric.is_told and links >= metric.least_links:
            error = f" ± {errors[name]:.4f}" if name in errors else ""
            told[metric.is_at_top].append(f"{metric.title} {test[name]:.4f}{error}")
    label = "Test"
    if told[True]:
        some = f"   on {sampled['links']:,} of {links:,} test links" if sampled else ""
        say_fact(label, "   ".join(told[True]) + some)
        label = ""
    say_fact(label, "   ".join(told[False]) + f"   against {links:,} unlinked pairs")


def _in_words(recipe: RunConfig) -> str:
    settings = recipe.settings
    if isinstance(settings, CGCLSettings):
        return (
            f"CGCL, width {settings.hidden}, {settings.views} views, {settings.epochs} epochs, "
            f"lr {settings.lr}"
        )
    if isinstance(settings, RankSettings):
        layers = "1 layer" if settings.layers == 1 else f"{settings.layers} layers"
        rows = f", {settings.sampled:,} rows a step" if settings.sampled else ""
        return (
            f"CGCL-rank, preset {settings.preset}: width {settings.hidden}, {layers}, "
            f"{settings.epochs} epochs, lr {settings.lr}{rows}"
        )
    told = ", ".join(f"{name} {value}" for name, value in asdict(settings).items())
    return f"{recipe.method.title}{': ' if told else ''}{told}"


def _command(graph: str, reading: list[str], recipe: RunConfig, resources: Resources) -> str:
    """Return a command that repeats a run, whatever file or preset its settings came from."""
    # Always named: what is taken where none is may change.
    words = ["cgcl", "train", graph, *reading, "--method", recipe.name]
    own = {field.name for field in fields(CGCLSettings)}
    for field in fields(recipe.settings):
        value = getattr(recipe.settings, field.name)
        # What a rule chooses today it might choose otherwise tomorrow.
        if value != field.default or field.name in recipe.method.ruled:
            flag = flag_of(field.name) if field.name in own else f"--set.{field.name}"
            words += [flag, str(value)]
    # The number of threads decides the last bits.
    words += [*flags_of(recipe.split), "--threads", str(resources.num_threads)]
    return shlex.join(words)
