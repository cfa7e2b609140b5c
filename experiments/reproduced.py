"""The parts of docs/results.md and the files beside it, from the runs of `cgcl reproduce`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from cgcl.experiments import tables
from cgcl.experiments.reproduction import CHOSEN_HEAD, RUNS, index, read_records, records_of
from cgcl.experiments.study import NAMES
from cgcl.experiments.tables import toml_text as chosen_toml
from reproduce import figure_of, page
from reproduce.claims import claims_markdown, summary
from reproduce.figures import rendered

__all__ = ["FILES", "TABLES"]

RESULTS = Path(__file__).parent / "results" / "reproduce" / RUNS
_FIGURES = {
    "fig2": "AUC and AP on Cora over r, a line for each d_v",
    "fig3": "AUC and AP on Computers over r, a line for each d_v",
    "fig4": "Loss, validation AUC and consistency over the epochs",
}


@cache
def reproduced() -> page.Reproduced:
    """Return the committed runs."""
    records = read_records(RESULTS)
    if len(records) != len(RESULTS.read_bytes().splitlines()):
        raise SystemExit(f"{RESULTS.name} has damaged lines")
    return page.Reproduced(index(records))


def figure_block(name: str) -> str:
    """Return a figure if all of its runs are there, else how many are missing."""
    missing, every = reproduced().missing(name)
    if missing:
        return f"Not run yet: {every - missing} of {every} runs are there."
    return f"![{_FIGURES[name]}](images/{name}.svg)"


def figure_svg(name: str) -> str:
    """Return a figure as SVG."""
    experiment, places = reproduced().places(name)
    figure = figure_of(experiment, records_of(places, reproduced().found))
    return rendered(figure, "svg", name).decode()


def _files() -> dict[str, Callable[[], str]]:
    files: dict[str, Callable[[], str]] = {
        "experiments/reproduce/chosen.toml": lambda: chosen_toml(reproduced().chosen, CHOSEN_HEAD),
        "docs/results/table1.csv": lambda: tables.csv(reproduced().table("table1")),
        "docs/results/table1.tex": lambda: tables.latex(reproduced().table("table1")),
        "docs/results/table2.csv": lambda: tables.csv(reproduced().table("table2")),
        "docs/results/table2.tex": lambda: tables.latex(reproduced().table("table2")),
    }
    for name in _FIGURES:
        if not reproduced().missing(name)[0]:
            files[f"docs/images/{name}.svg"] = lambda name=name: figure_svg(name)
    return files


TABLES: dict[str, Callable[[], str]] = {
    "reproduced-summary": lambda: summary(reproduced(), NAMES),
    "reproduced-repeats": lambda: page.repeats(reproduced()),
    "reproduced-progress": lambda: page.progress(reproduced(), NAMES),
    "reproduced-choices": lambda: page.choices(reproduced()),
    "reproduced-level": lambda: page.level(reproduced()),
    "reproduced-table1": lambda: page.table(reproduced(), "table1"),
    "reproduced-table2": lambda: page.table(reproduced(), "table2"),
    "reproduced-fig2": lambda: figure_block("fig2"),
    "reproduced-fig3": lambda: figure_block("fig3"),
    "reproduced-fig4": lambda: figure_block("fig4"),
    "reproduced-claims": lambda: claims_markdown(reproduced()),
    "reproduced-contradictions": lambda: page.contradictions(reproduced()),
    "reproduced-others": lambda: page.level_of_others(reproduced()),
    "reproduced-unfinished": lambda: page.unfinished(reproduced()),
    "reproduced-budget": lambda: page.budget(reproduced()),
    "reproduced-devices": lambda: page.devices(reproduced()),
}
FILES = _files()
