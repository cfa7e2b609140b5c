"""`cgcl reproduce`."""

from __future__ import annotations

import itertools
import shlex
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cgcl.cli.settings import FLAT, OnMachine
from cgcl.cli.terminal import say, say_fact
from cgcl.errors import ConfigError

if TYPE_CHECKING:
    from cgcl.experiments.reproduction import Findings, Places, Records
    from cgcl.experiments.study import Experiment, Job, Record, Selection
    from cgcl.experiments.tables import Cell
    from cgcl.train.signals import StopRequest

What = Literal["table1", "table2", "fig2", "fig3", "fig4", "claims", "grid", "all"]
_FAILED = 1
_GRID = "grid"
_TABLES = ("table1", "table2", "claims")
_PERCENT = 100


@dataclass(frozen=True)
class Options(OnMachine):
    """Which part of it is run, and where.

    Args:
        dataset: Which graphs, with commas: cora,pubmed. All of the experiment by default.
        methods: Which methods, with commas: cgcl,vgae. All of the experiment by default.
        ratio: Percent of the links to test on, 10 or 20. Both by default, if it has both.
        runs: At most so many runs of each cell.
        epochs: Train so long, whatever is described: for a quick look, in files named after it.
        protocol: paper takes one split for all runs, splits one for each. All of the experiment by
            default.
        chosen: The chosen.toml of another grid. What it does not name comes with cgcl; a grid in
            the folder is not asked.
        data_root: The folder of the data sets; CGCL_DATA if not given. Cora comes with cgcl.
        device: auto, cpu, cuda or cuda:N.
        threads: CPU threads; 0 takes the cores, at most 4.
        out: The folder for runs, tables and figures.
        quiet: Print nothing but the files, warnings and errors.
    """

    dataset: str | None = None
    methods: str | None = None
    ratio: str | None = None
    runs: int | None = None
    epochs: int | None = None
    protocol: Literal["paper", "splits"] | None = None
    chosen: Path | None = None
    data_root: Path | None = None
    device: str = "auto"
    threads: int = 0
    out: Path = Path("runs/reproduce")
    quiet: bool = False

    @property
    def part(self) -> Selection:
        """Which part of an experiment is wanted."""
        from cgcl.experiments.study import Selection

        graphs, methods, shares = map(_listed, (self.dataset, self.methods, self.ratio))
        if shares is not None and not all(share.isdecimal() for share in shares):
            raise ConfigError(f"ratio is {self.ratio!r}; give percents, such as 10 or 10,20.")
        test = None if shares is None else tuple(map(int, shares))
        protocols = None if self.protocol is None else (self.protocol,)
        return Selection(graphs, methods, test, protocols, self.runs, self.epochs)

    @property
    def choices(self) -> dict[str, Any]:
        """The settings that were chosen for each graph; a grid in the folder has the last word."""
        from cgcl.experiments import reproduction, study

        shipped = study.read_data("chosen")
        if self.chosen is not None:
            return {**shipped, **_own_choices(self.chosen)}
        try:
            records = reproduction.read_records(self.out / reproduction.RUNS)
        except OSError:  # told when the folder is opened
            return shipped
        return {**shipped, **study.chosen_by_grid(reproduction.index(records), self.epochs)}


def _listed(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    # Tables print names with capitals, and what is read there will be typed here.
    parts = tuple(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    if not parts:
        raise ConfigError(f"{text!r} names nothing; give names with commas, such as cora,pubmed.")
    return parts


def _own_choices(file: Path) -> dict[str, Any]:
    what = "what cgcl reproduce grid writes"
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read as {what}: {error}.") from error
    if not all(isinstance(own, dict) for own in found.values()):
        raise ConfigError(f"{file} is not {what}: a table for each choice.")
    return found


def reproduce(
    what: What,
    *,
    asked: Annotated[Options, FLAT] = Options(),  # noqa: B008
) -> int:
    """Run an experiment of the paper, and set what comes out beside the published numbers.

    Writes every run as soon as it is there, then tables (Markdown, CSV, LaTeX) and figures (SVG,
    PNG), of this part and what else of the experiment is there. Interrupted, the same command goes
    on where it stopped; runs that experiments have in common are made once. A run that fails is
    shown as failed, stops nothing, and is tried again next time.

    Args:
        what: A table or figure of the paper, claims for what it says in words, grid for the choice
            of settings on validation links, or all.
        asked: Which part of it is run, and where.
    """
    from cgcl.experiments.reproduction import Records, write_verdicts
    from cgcl.experiments.study import NAMES, having, jobs_of, read_experiment
    from cgcl.train.signals import stop_on_signals

    if any(number is not None and number < 1 for number in (asked.runs, asked.epochs)):
        raise ConfigError("--runs and --epochs must be at least 1.")
    _ = asked.resources  # refused at once if there is no such device
    part = asked.part
    experiments = [read_experiment(name) for name in (NAMES if what == "all" else (what,))]
    experiments, chosen = having(experiments, part), asked.choices
    names = [own.name for own in experiments]
    if _GRID not in names:  # what cannot be run is told before anything is
        for own in experiments:
            jobs_of(own, part, chosen)
    is_complete = True
    with Records(asked.out) as records, stop_on_signals() as request:
        if records.damaged_lines:
            told = f"Warning: {records.damaged_lines} damaged lines are ignored; what they held is"
            say(f"{told} made again when it is asked for.")
        for own in experiments:
            keys, is_at_end = _one(own, records, chosen, asked, request)
            if not is_at_end:
                say(f"Stopped: {_done(keys, records)}. Go on with: {shlex.join(sys.argv)}")
                return request.exit_code
            is_complete &= keys <= records.found.keys()
        if "claims" in names and what == "all" and asked.epochs is None:
            # Claims are judged by what came after them, too.
            write_verdicts(records.found, records.path, chosen)
    return 0 if is_complete else _FAILED


def _one(
    experiment: Experiment,
    records: Records,
    chosen: dict[str, Any],
    asked: Options,
    request: StopRequest,
) -> tuple[set[str], bool]:
    """Make the runs of an experiment that are missing, and write what is known of it.

    Adds to `chosen` what a grid chooses. Returns the keys of its runs, and whether it came to the
    end.
    """
    import cgcl
    from cgcl.experiments.reproduction import Findings, known_places, pending_jobs, run_jobs
    from cgcl.experiments.study import Selection, chosen_by_grid, jobs_of

    places = jobs_of(experiment, asked.part, chosen)
    whole = jobs_of(experiment, Selection(epochs=asked.epochs), chosen, only_chosen=True)
    jobs = [job for own in places.values() for job in own]
    keys = {job.key for job in jobs}
    if not asked.quiet:
        say_fact("Experiment", experiment.title)
        say_fact("Runs", f"{_done(keys, records)}; folder {records.path}")
    told = _story(places, len(pending_jobs(jobs, records)), asked.quiet)
    read = partial(cgcl.read, data_root=asked.data_root)
    is_at_end = run_jobs(jobs, records, read, asked.resources, told, request.is_set)
    if experiment.name == _GRID:
        # What follows takes what was just chosen.
        chosen |= chosen_by_grid(records.found, asked.epochs)
    found = Findings(experiment, places, records.found, chosen, asked.epochs)
    if not asked.quiet:
        _tell(found)
    _write(replace(found, places=known_places(places, whole, records.found)), records.path)
    return keys, is_at_end


def _write(found: Findings, folder: Path) -> None:
    """Write tables and figures, and print their names."""
    written = found.write_tables(folder)
    try:
        written += found.write_figures(folder)
    except ConfigError as error:
        say(f"Warning: {error}")
    for path in written:
        sys.stdout.write(f"{path}\n")


def _tell(found: Findings) -> None:
    """Say what came out of each row of a table, beside what the paper prints."""
    from cgcl.experiments.tables import cut_note, mean_words

    def words(cell: Cell) -> str:
        """Return a result as words, such as `AUC 94.70 ± 0.77 (published 97.00)`."""
        paper = "" if cell.published is None else f" (published {cell.published[0]:.2f})"
        return f"{cell.metric.upper()} {mean_words(cell.mean or 0.0, cell.sd)}{paper}"

    # The grid and the figures have more rows than anybody reads.
    if found.experiment.name not in _TABLES:
        return
    cells = found.table.cells
    for place in found.places:
        own = [cell for cell in cells if cell.place == place and cell.mean is not None]
        if own:
            where = f"{place.graph}, {place.test} %, {place.protocol}"
            say_fact("Result", f"{place.row}, {where}: {'   '.join(map(words, own))}")
    if found.epochs is not None:
        say_fact("Note", cut_note(found.epochs))


def _done(keys: set[str], records: Records) -> str:
    return f"{len(keys & records.found.keys()):,} of {len(keys):,} runs are there"


def _story(places: Places, left: int, quiet: bool) -> Callable[[Job, Record], None]:
    """Return what tells the person at the terminal of every run that has ended."""
    rows = {job.key: place.row for place, own in places.items() for job in own}
    numbers = itertools.count(1)

    def tell(job: Job, record: Record) -> None:
        number, row, seed = next(numbers), rows[job.key], job.recipe.split.seed
        where = f"{job.graph}, {job.test} %, split {job.split_seed}, seed {seed}"
        if record.metrics is None:
            say(f"Warning: {row} failed on {where}. {' '.join(record.failure.split())}")
        elif not quiet:
            auc, ap = (_PERCENT * record.metrics[name] for name in ("auc", "ap"))
            told = f"AUC {auc:.2f}   AP {ap:.2f}   {record.seconds:.1f} s"
            say_fact(f"{number}/{left}", f"{row}, {where}: {told}")

    return tell
