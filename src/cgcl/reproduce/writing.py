"""Tables and figures of an experiment, written from its runs."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from csv import writer
from pathlib import Path
from typing import TYPE_CHECKING

from cgcl.files import make_folder, write_atomically
from cgcl.reproduce import tables
from cgcl.reproduce.cells import Table, table_of
from cgcl.reproduce.chosen import choose, chosen_toml
from cgcl.reproduce.claims import claims_markdown
from cgcl.reproduce.convergence import convergence_figure
from cgcl.reproduce.described import Experiment, read_data
from cgcl.reproduce.figures import write_figure
from cgcl.reproduce.job import Chosen, Job, Place
from cgcl.reproduce.measures import EMBEDDINGS, TRACE
from cgcl.reproduce.page import Reproduced
from cgcl.reproduce.record import Record
from cgcl.reproduce.sensitivity import sensitivity_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "CHOSEN_HEAD",
    "figure_of",
    "measured_csv",
    "records_of",
    "write_figures",
    "write_tables",
]

CHOSEN_HEAD = (
    "The best AUC on the validation links of each graph's grid, and of how many runs.",
    "Written from the runs of `cgcl reproduce grid`; nothing here is typed.",
)

Places = Mapping[Place, Sequence[Job]]
Found = Mapping[str, Record]


def records_of(places: Places, found: Found) -> list[Record]:
    """Return the finished runs of an experiment, each once, in its own order."""
    keys = dict.fromkeys(job.key for jobs in places.values() for job in jobs)
    return [found[key] for key in keys if key in found]


def write_tables(
    experiment: Experiment,
    places: Places,
    found: Found,
    folder: Path,
    chosen: Chosen,
    notes: Sequence[str] = (),
) -> list[Path]:
    """Write what an experiment found as Markdown, CSV and LaTeX; return the files.

    Args:
        experiment: What was run.
        places: Its runs by their place.
        found: What came out, by key.
        folder: Where to write.
        chosen: The settings of each graph that runs were made with.
        notes: What else the reader should know.

    Raises:
        ResourceError: The disk is full or the folder cannot be written.
    """
    make_folder(folder)
    table = table_of(experiment, places, found, read_data("paper"))
    written: list[Path] = []
    texts = [*_texts(experiment, table, places, found, notes)]
    if experiment.name == "claims":
        texts.append(("verdicts.md", claims_markdown(Reproduced(found, chosen))))
    for name, text in texts:
        path = folder / name
        write_atomically(path, text.encode())
        written.append(path)
    return written


def _texts(
    experiment: Experiment, table: Table, places: Places, found: Found, notes: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the name and the content of each file."""
    name, records = experiment.name, records_of(places, found)
    yield f"{name}.csv", tables.csv(table)
    if name == "grid":
        yield "chosen.toml", chosen_toml(choose(places, found), CHOSEN_HEAD)
    elif not name.startswith("fig"):
        yield f"{name}.md", tables.markdown(table, notes=notes)
        yield f"{name}.tex", tables.latex(table, notes=notes)
    for measure in (TRACE, EMBEDDINGS):
        if any(measure in record.measured for record in records):
            yield f"{name}-{measure}.csv", measured_csv(records, measure)


def write_figures(experiment: Experiment, places: Places, found: Found, folder: Path) -> list[Path]:
    """Draw an experiment that is a figure of the paper; return the files, none for a table.

    Raises:
        ConfigError: What draws is not installed.
        ResourceError: The disk is full or the folder cannot be written.
    """
    if not experiment.name.startswith("fig"):
        return []
    return write_figure(figure_of(experiment, places, found), folder, experiment.name)


def figure_of(experiment: Experiment, places: Places, found: Found) -> Figure:
    """Draw an experiment that is a figure of the paper.

    Raises:
        ConfigError: What draws is not installed.
    """
    records = records_of(places, found)
    if TRACE in {measure for row in experiment.rows for measure in row.measures}:
        return convergence_figure(records)
    return sensitivity_figure(records, read_data("paper")["table1"]["cgcl"])


def measured_csv(records: Sequence[Record], measure: str) -> str:
    """Return what was measured besides accuracy: a line for each run, or for each of its looks."""
    file = io.StringIO()
    lines = writer(file, lineterminator="\n")
    # `views` is also one of the terms of Eq. 10.
    head = ("graph", "test", "view_kind", "split_seed", "seed")
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
        ]
        values = [measured[column] for column in columns]
        rows = zip(*values, strict=True) if isinstance(values[0], list) else [values]
        for row in rows:
            lines.writerow([*about, *row])
    return file.getvalue()
