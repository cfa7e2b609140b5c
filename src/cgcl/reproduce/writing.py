"""Tables and figures of an experiment, written from its runs."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from csv import writer
from pathlib import Path
from typing import TYPE_CHECKING

from cgcl.files import make_folder, write_atomically
from cgcl.reproduce import tables
from cgcl.reproduce.cells import Table, cut_note, table_of
from cgcl.reproduce.chosen import choose, chosen_toml
from cgcl.reproduce.claims import claims_markdown
from cgcl.reproduce.convergence import convergence_figure
from cgcl.reproduce.described import Experiment, read_data
from cgcl.reproduce.figures import write_figure
from cgcl.reproduce.job import Asked, Chosen, Job, Place, jobs_of
from cgcl.reproduce.measures import EMBEDDINGS, TRACE
from cgcl.reproduce.page import Reproduced
from cgcl.reproduce.record import Record
from cgcl.reproduce.records import records_of
from cgcl.reproduce.sensitivity import sensitivity_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "CHOSEN_HEAD",
    "figure_of",
    "known_places",
    "measured_csv",
    "write_figures",
    "write_tables",
    "write_verdicts",
]

CHOSEN_HEAD = (
    "The best AUC on the validation links of a method's grid on a graph, and of how many runs.",
    "Written from the runs of `cgcl reproduce grid`; nothing here is typed.",
)

Places = Mapping[Place, Sequence[Job]]
Found = Mapping[str, Record]


def known_places(asked: Places, whole: Places, found: Found) -> dict[Place, list[Job]]:
    """Return the runs that are asked for, and those of the experiment that are there besides.

    So the table of one part of an experiment does not take away what another part's has.

    Args:
        asked: The runs that are asked for by their place.
        whole: All runs of the experiment.
        found: What came out, by key.
    """
    known: dict[Place, list[Job]] = {}
    for place, jobs in whole.items():
        wanted = {job.key for job in asked.get(place, ())}
        own = [job for job in jobs if job.key in wanted or job.key in found]
        if own:
            known[place] = own
    return known


def write_tables(
    experiment: Experiment,
    places: Places,
    found: Found,
    folder: Path,
    chosen: Chosen,
    epochs: int | None = None,
) -> list[Path]:
    """Write what an experiment found as Markdown, CSV and LaTeX; return the files.

    Trainings that were cut short have files of their own, whose names tell.

    Args:
        experiment: What was run.
        places: Its runs by their place.
        found: What came out, by key.
        folder: Where to write.
        chosen: The settings of each graph that runs were made with.
        epochs: What trainings were cut to, if they were.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    make_folder(folder)
    table = table_of(experiment, places, found, read_data("paper"), epochs)
    written: list[Path] = []
    for name, text in _texts(table, places, found):
        path = folder / name
        write_atomically(path, text.encode())
        written.append(path)
    # Claims are judged by trainings as long as described, whatever is asked for.
    if experiment.name == "claims" and epochs is None:
        written.append(write_verdicts(found, folder, chosen))
    return written


def write_verdicts(found: Found, folder: Path, chosen: Chosen) -> Path:
    """Write what became of each claim; return the file.

    Args:
        found: What came out of all experiments, by key.
        folder: Where to write.
        chosen: The settings of each graph that runs were made with.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    path = folder / "verdicts.md"
    write_atomically(path, claims_markdown(Reproduced(found, chosen)).encode())
    return path


def _texts(table: Table, places: Places, found: Found) -> Iterator[tuple[str, str]]:
    """Yield the name and the content of each file."""
    name, records = table.experiment.name, records_of(places, found)
    stem = _file_name(name, table.epochs)
    yield f"{stem}.csv", tables.csv(table)
    if name == "grid":
        # A grid of which only some runs are asked for and there must not pass for a whole one.
        whole = jobs_of(table.experiment, Asked(epochs=table.epochs), {})
        head = [line for line in (*CHOSEN_HEAD, cut_note(table.epochs)) if line]
        yield (
            f"{_file_name('chosen', table.epochs)}.toml",
            chosen_toml(choose(table.experiment, whole, found), head),
        )
    elif not name.startswith("fig"):
        yield f"{stem}.md", tables.markdown(table)
        yield f"{stem}.tex", tables.latex(table)
    for measure in (TRACE, EMBEDDINGS):
        if any(measure in row.measures for row in table.experiment.rows) and any(
            measure in record.measured for record in records
        ):
            yield f"{stem}-{measure}.csv", measured_csv(records, measure, table.epochs)


def _file_name(name: str, epochs: int | None) -> str:
    return name if epochs is None else f"{name}-{epochs}-epochs"


def write_figures(
    experiment: Experiment, places: Places, found: Found, folder: Path, epochs: int | None = None
) -> list[Path]:
    """Draw an experiment that is a figure of the paper; return the files, none for a table.

    Args:
        experiment: What was run.
        places: Its runs by their place.
        found: What came out, by key.
        folder: Where to write.
        epochs: What trainings were cut to, if they were; the files' names tell.

    Raises:
        ConfigError: What draws is not installed.
        ResourceError: The disk is full or the folder cannot be written.
    """
    if not experiment.name.startswith("fig"):
        return []
    figure = figure_of(experiment, places, found, epochs)
    return write_figure(figure, folder, _file_name(experiment.name, epochs))


def figure_of(
    experiment: Experiment, places: Places, found: Found, epochs: int | None = None
) -> Figure:
    """Draw an experiment that is a figure of the paper.

    Args:
        experiment: What was run.
        places: Its runs by their place.
        found: What came out, by key.
        epochs: What trainings were cut to, if they were.

    Raises:
        ConfigError: What draws is not installed.
    """
    records = records_of(places, found)
    if TRACE in {measure for row in experiment.rows for measure in row.measures}:
        return convergence_figure(records, cut_note(epochs))
    return sensitivity_figure(records, read_data("paper")["table1"]["cgcl"], cut_note(epochs))


def measured_csv(records: Sequence[Record], measure: str, epochs: int | None = None) -> str:
    """Return what was measured besides accuracy: a line for each run, or for each of its looks.

    Args:
        records: The runs.
        measure: Which measure.
        epochs: What trainings were cut to, if they were.
    """
    file = io.StringIO()
    lines = writer(file, lineterminator="\n")
    # `views` is also one of the terms of Eq. 10.
    head = ("graph", "test", "view_kind", "split_seed", "seed", "cut_to_epochs")
    columns: list[str] = []
    for record in records:
        measured = record.measured.get(measure)
        if measured is None:
            continue
        if not columns:
            columns = list(measured)
            lines.writerow([*head, *columns])
        about = [
            record.graph,
            record.test,
            record.settings.get("views", ""),
            record.split_seed,
            record.seed,
            epochs or "",
        ]
        values = [measured[column] for column in columns]
        rows = zip(*values, strict=True) if isinstance(values[0], list) else [values]
        for row in rows:
            lines.writerow([*about, *row])
    return file.getvalue()
