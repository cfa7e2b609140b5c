"""Fig. 2 to 4 of the paper, drawn from runs by matplotlib, which need not be installed."""

from __future__ import annotations

import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FormatStrFormatter
from numpy.typing import NDArray

from cgcl.experiments.reproduction import TRACE
from cgcl.experiments.study import Experiment, Record, differing, graph_titles, read_data
from cgcl.experiments.tables import METRICS, has_collapsed
from cgcl.files import make_folder, write_atomically
from cgcl.metrics import CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Told apart with any colour vision (Okabe and Ito, 2008)."""
INK = "#1c2430"
NOTE = "#5d6876"
"""For what is there to compare with, such as a bound or a published value."""
LINE_HEIGHT = 0.18
"""Inches for a line of words."""
_DPI = 200
_STYLE = Path(__file__).with_name("figures.mplstyle")
# Neither the time nor the version of matplotlib belongs to the content.
_ABOUT: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": "cgcl"},
    "png": {"Software": "cgcl"},
}


# One style, whatever the user's own settings of matplotlib are.
drawing = partial(style.context, _STYLE, after_reset=True)


def figure_of(experiment: Experiment, records: Sequence[Record], note: str = "") -> Figure:
    """Draw an experiment that is a figure of the paper.

    Args:
        experiment: What was run.
        records: What came out.
        note: A sentence that goes with all of it, such as that trainings were cut short.
    """
    is_traced = TRACE in {measure for row in experiment.rows for measure in row.measures}
    return (convergence_figure if is_traced else sensitivity_figure)(records, note)


def write_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as SVG and PNG; the same figure gives the same bytes.

    Args:
        figure: What to write.
        folder: Where to; it is created if it is not there.
        name: The files' name without its end.

    Returns:
        The files.

    Raises:
        ResourceError: The folder cannot be written.
    """
    make_folder(folder)
    paths = [folder / f"{name}.{kind}" for kind in _ABOUT]
    for path in paths:
        write_atomically(path, rendered(figure, path.suffix[1:], name))
    return paths


def rendered(figure: Figure, kind: str, name: str) -> bytes:
    """Return a figure as `svg` or `png`; the same figure gives the same bytes."""
    content = io.BytesIO()
    with drawing():
        about = {"Title": name, **_ABOUT[kind]}
        figure.savefig(content, format=kind, dpi=_DPI, metadata=about)
    return content.getvalue()


def lay_out(figure: Figure) -> Figure:
    """Give everything its place, once: a layout that is made again with each file would drift."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def empty_figure(sentence: str) -> Figure:
    """Return a figure that says why there is nothing to see; to be called while `drawing`."""
    figure = Figure(figsize=(5, 1.2))
    figure.text(0.5, 0.5, sentence, ha="center", va="center", color=NOTE)
    return figure


_TERMS = {
    "views": "$C(A_1, A_2)$",
    "reconstructions": r"$C(\widetilde{A}_1, \widetilde{A}_2)$",
    "view_1": r"$C(A_1, \widetilde{A}_1)$",
    "view_2": r"$C(A_2, \widetilde{A}_2)$",
}
# Two terms that are equal but for chance: the first shows as a rim of the second.
_TERM_WIDTHS = (1.3, 1.3, 3.2, 1.3)
_COLUMNS = ("Loss (mean of $L_1$ and $L_2$)", "Validation AUC (%)", "Consistency $C$")
_COLUMNS += ("Gap of Eq. 11",)
_LOSS, _AUC, _CONSISTENCY, _GAP = range(len(_COLUMNS))
_BOUNDS = (CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND)
_STYLES: tuple[Any, ...] = ("-", (0, (2.2, 1.1)), (0, (0.8, 1.2)))
# How much darker a term is drawn, so that dashes show on a line of the same colour.
_SHADES = (1.0, 0.55, 0.3)
_BOUND_STYLE: dict[str, Any] = {"color": NOTE, "linestyle": (0, (7, 3)), "linewidth": 1.2}
_PUBLISHED_STYLE: dict[str, Any] = {"color": INK, "linestyle": ":", "linewidth": 1.3}
_KEPT_STYLE: dict[str, Any] = {"color": INK, "marker": "o", "markerfacecolor": "white"}
_WIDTH, _ROW_HEIGHT, _LEGEND_HEIGHT = 10.5, 1.75, 0.9
_PERCENT = 100


def convergence_figure(records: Iterable[Record], note: str = "") -> Figure:
    """Draw loss, validation AUC, consistency and its gap over the epochs, a row for each graph.

    Args:
        records: CGCL's runs with the measure `TRACE`, each once, in any order; a line for each.
            Others are left out.
        note: A sentence that goes with all of it, such as that trainings were cut short.
    """
    traced = sorted(
        (record for record in records if TRACE in record.measured),
        key=lambda record: (record.graph, record.test, record.split_seed, record.seed, record.key),
    )
    with drawing():
        there = {record.graph for record in traced}
        graphs = {graph: title for graph, title in graph_titles().items() if graph in there}
        if not graphs:
            return empty_figure("There are no runs with a trace yet.")
        shares = sorted({record.test for record in traced})
        height = _ROW_HEIGHT * len(graphs) + _LEGEND_HEIGHT + (LINE_HEIGHT if note else 0)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        panels = figure.subplots(len(graphs), len(_COLUMNS), squeeze=False, sharex=True)
        for (graph, title), row in zip(graphs.items(), panels, strict=True):
            for record in traced:
                if record.graph == graph:
                    _draw_run(row, record, shares.index(record.test) % len(_STYLES))
            for bound in _BOUNDS:
                row[_CONSISTENCY].axhline(bound, **_BOUND_STYLE)
            row[0].set_ylabel(title, fontweight="bold")
        _set_scales(panels)
        handles = _legend(shares)
        figure.legend(handles=handles, loc="outside lower center", ncols=4, title=note or None)
        return lay_out(figure)


def _draw_run(row: Sequence[Axes], record: Record, share: int) -> None:
    """Draw the lines of a run whose share of test links is the first, second or third."""
    trace = record.measured[TRACE]
    epochs, auc = trace["epoch"], [_PERCENT * value for value in trace["val_auc"]]
    plain: dict[str, Any] = {"color": INK, "linestyle": _STYLES[share]}
    for column, values in {_LOSS: trace["loss"], _AUC: auc, _GAP: trace.get("gap")}.items():
        if values is not None:
            row[column].plot(epochs, values, **plain)
    if record.best_epoch in epochs:
        best = epochs.index(record.best_epoch)
        row[_AUC].plot(epochs[best], auc[best], **_KEPT_STYLE, markersize=5, zorder=3)
    for number, term in enumerate(_TERMS):
        if term in trace:
            about: dict[str, Any] = {"linewidth": _TERM_WIDTHS[number] if share == 0 else 1.3}
            about |= {"linestyle": _STYLES[share], "zorder": 2 + 0.1 * share}
            colour = [part * _SHADES[share] for part in to_rgb(COLOURS[number])]
            row[_CONSISTENCY].plot(epochs, trace[term], color=colour, **about)


def _set_scales(panels: Any) -> None:  # noqa: ANN401
    """Let graphs be compared, but for AUC, where they differ more than the epochs do."""
    for column in (_LOSS, _CONSISTENCY, _GAP):
        first, *others = panels[:, column]
        for axes in others:
            axes.sharey(first)
        if column != _CONSISTENCY:
            first.update_datalim([(0, 0)], updatex=False)
            first.autoscale_view()
            first.set_ylim(bottom=0)
    for title, axes in zip(_COLUMNS, panels[0], strict=True):
        axes.set_title(title)
    for axes in panels[-1]:
        axes.set_xlabel("Epoch")


def _legend(shares: Sequence[int]) -> list[Line2D]:
    """Return what the lines mean; a legend is filled column by column."""
    terms = [
        Line2D([], [], label=label, color=COLOURS[number], linewidth=_TERM_WIDTHS[number])
        for number, label in enumerate(_TERMS.values())
    ]
    ratios = [
        Line2D(
            [],
            [],
            label=f"{share} % test links",
            color=INK,
            linestyle=_STYLES[number % len(_STYLES)],
        )
        for number, share in enumerate(shares)
    ]
    bound = Line2D([], [], label="bounds of Theorem 1", **_BOUND_STYLE)
    kept = Line2D([], [], label="kept epoch (best on validation)", **_KEPT_STYLE, linestyle="")
    return [*terms, *ratios, bound, kept]


_MARKERS = "osD^vP"
_GRID_WIDTH, _GRID_ROW_HEIGHT, _GRID_LEGEND_HEIGHT = 7.2, 2.45, 0.6
_DODGE = 0.11
_HOLLOW: dict[str, Any] = {"linestyle": "", "markerfacecolor": "white", "markersize": 6}
_HOLLOW |= {"markeredgewidth": 1.3, "zorder": 3}
_COLLAPSED = (
    "Hollow: at least one of these runs collapsed; it counts, with its best epoch.\n"
    "Collapsed: training broke off, or AUC on validation links never rose above chance."
)
# One percentage point is much near the top and little near chance, and both are to be seen.
_TICKS = (50, 70, 80, 85, 90, 93, 95, 96, 97, 98, 98.5, 99, 99.5, 100)
_ABOVE_ALL = 100.5

_Cells = Mapping[tuple[str, int, int, float], Sequence[Record]]
"""Runs with metrics by graph, percent of test links, d_v and r."""


def sensitivity_figure(records: Iterable[Record], note: str = "") -> Figure:
    """Draw AUC and AP on test links over r, a line for each d_v, beside what Table I has for CGCL.

    A panel is a graph, a share of test links and a metric; its scale is stretched towards the top.
    Lines join means, whiskers go from the lowest run to the highest. A cell without runs leaves a
    gap, one with a run that collapsed has a hollow mark.

    Args:
        records: CGCL's runs, each once, in any order. Runs on one graph and share of test links
            differ in d_v, r, seed and split alone.
        note: A sentence that goes with all of it, such as that trainings were cut short.

    Raises:
        ValueError: Such runs differ in other settings, so that a mean would mix them.
    """
    cells, published = _cells_of(records), read_data("paper")["table1"]["cgcl"]
    titles = graph_titles()
    with drawing():
        shares = sorted({test for _, test, *_ in cells})
        there = {key[:2] for key in cells}
        rows = [panel for panel in product(titles, shares) if panel in there]
        if not rows:
            return empty_figure("There are no runs over d_v and r yet.")
        # The same in all panels.
        widths = sorted({width for _, _, width, _ in cells}, reverse=True)
        rates = sorted({rate for *_, rate in cells})
        words = _words(cells, note)
        height = _GRID_ROW_HEIGHT * len(rows) + _GRID_LEGEND_HEIGHT
        size = (_GRID_WIDTH, height + LINE_HEIGHT * words.count("\n"))
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(len(rows), len(METRICS), squeeze=False)
        first: dict[str, Axes] = {}
        for number, ((graph, test), metric) in enumerate(product(rows, METRICS)):
            axes = panels.flat[number]
            axes.sharey(first.setdefault(graph, axes))
            lines = [[cells.get((graph, test, w, rate), ()) for rate in rates] for w in widths]
            _draw_lines(axes, lines, rates, metric)
            there = published.get(graph, {}).get(str(test), {}).get(metric)
            if there is not None:
                axes.axhline(there[0], **_PUBLISHED_STYLE, zorder=1)
            letter = f"({chr(ord('a') + number)}) "
            axes.set_title(f"{letter}{titles[graph]}, {test} % test links", loc="left")
            axes.set_ylabel(f"{metric.upper()} (%)")
        for axes in panels[-1]:
            axes.set_xlabel("Learning rate $r$")
        handles = [
            Line2D([], [], label=f"$d_v$ = {own}", **_line_style(n)) for n, own in enumerate(widths)
        ]
        if not first.keys().isdisjoint(published):
            handles.append(Line2D([], [], label="published (Table I)", **_PUBLISHED_STYLE))
        legend = figure.legend(
            handles=handles, loc="outside lower center", ncols=len(handles), title=words
        )
        legend.get_title().set_multialignment("center")
        return lay_out(figure)


def _cells_of(records: Iterable[Record]) -> _Cells:
    """Return every cell's runs."""
    cells: dict[tuple[str, int, int, float], list[Record]] = {}
    others: dict[tuple[str, int], dict[str, Any]] = {}
    for record in records:
        if record.metrics is None:
            continue
        # Records may be older than a setting; by default it changes nothing.
        named = differing(record.method, record.settings)
        rest = {key: own for key, own in named.items() if key not in ("hidden", "lr")}
        # Settings are chosen for each share of test links by itself; a panel has one of them.
        panel = (record.graph, record.test)
        if rest != others.setdefault(panel, rest):
            where = f"{record.graph} with {record.test} % test links"
            raise ValueError(f"Runs on {where} differ in more than d_v and r.")
        cell = (*panel, record.settings["hidden"], record.settings["lr"])
        cells.setdefault(cell, []).append(record)
    return cells


def _draw_lines(
    axes: Axes, lines: Sequence[Sequence[Sequence[Record]]], rates: Sequence[float], metric: str
) -> None:
    """Draw a line for each width, side by side so that their whiskers can be told apart."""
    for place, line in enumerate(lines):
        values = [[_PERCENT * (run.metrics or {})[metric] for run in runs] for runs in line]
        means = [statistics.fmean(own) if own else math.nan for own in values]
        shift = (place - (len(lines) - 1) / 2) * _DODGE
        across = [number + shift for number in range(len(rates))]
        # How far the lowest and the highest run are from the mean of each cell.
        cells = [(min(own), max(own)) if len(own) > 1 else (math.nan, math.nan) for own in values]
        whiskers = np.abs(np.transpose(cells) - means)
        axes.errorbar(across, means, whiskers, elinewidth=1, capsize=2, **_line_style(place))
        hollow = [number for number, runs in enumerate(line) if any(map(has_collapsed, runs))]
        if hollow:
            x, y = ([own[number] for number in hollow] for own in (across, means))
            axes.plot(x, y, **{**_line_style(place), **_HOLLOW})
    axes.set_xticks(range(len(rates)), [f"{rate:g}" for rate in rates])
    axes.set_xlim(-0.4, len(rates) - 0.6)
    axes.set_yscale("function", functions=(_stretched, _unstretched))
    # Not set_yticks: it would make room for all of them.
    axes.yaxis.set_major_locator(FixedLocator(_TICKS))
    axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))


def _stretched(percent: NDArray[np.float64]) -> NDArray[np.float64]:
    return -np.log(np.maximum(_ABOVE_ALL - percent, 1e-3))


def _unstretched(height: NDArray[np.float64]) -> NDArray[np.float64]:
    return _ABOVE_ALL - np.exp(-height)


def _line_style(place: int) -> dict[str, Any]:
    return {"color": COLOURS[place % 6], "marker": _MARKERS[place % 6], "markersize": 4.5}


def _words(cells: _Cells, note: str) -> str:
    """Return what a reader must know, a line for each thing."""
    counts = [len(runs) for runs in cells.values()]
    least, most = min(counts), max(counts)
    count = f"{most}" if least == most else f"{least} to {most}"
    lines = [f"Mean, lowest and highest of {count} runs; the scale is stretched towards 100 %"]
    if most == 1:
        lines = ["One run"]
    if any(has_collapsed(run) for runs in cells.values() for run in runs):
        lines.append(_COLLAPSED)
    return "\n".join([*lines, note]).rstrip()
