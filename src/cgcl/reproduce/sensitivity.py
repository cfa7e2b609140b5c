"""Fig. 2 and 3: how AUC and AP depend on the width d_v and the learning rate r."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cgcl.reproduce.cells import has_collapsed
from cgcl.reproduce.figures import (
    COLOURS,
    INK,
    LINE_HEIGHT,
    drawing,
    empty_figure,
    graph_title,
    in_paper_order,
    key_line,
    lay_out,
)
from cgcl.reproduce.job import differing
from cgcl.reproduce.record import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["Published", "sensitivity_figure"]

Published = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""By graph, percent of test links and metric: mean and deviation in percent."""

_METRICS = {"auc": "AUC", "ap": "AP"}
_MARKERS = "osD^vP"
_WIDTH, _ROW_HEIGHT, _LEGEND_HEIGHT = 7.2, 2.45, 0.6
_DODGE = 0.11
_HOLLOW: dict[str, Any] = {
    "linestyle": "",
    "markerfacecolor": "white",
    "markeredgewidth": 1.3,
    "markersize": 6,
    "zorder": 3,
}
_COLLAPSED = (
    "Hollow: at least one of these runs collapsed; it counts, with its best epoch.\n"
    "Collapsed: training broke off, or AUC on validation links never rose above chance."
)
_PERCENT = 100
# One percentage point is much near the top and little near chance, and both are to be seen.
_TICKS = (50, 70, 80, 85, 90, 93, 95, 96, 97, 98, 98.5, 99, 99.5, 100)
_ABOVE_ALL = 100.5


class _Cell(NamedTuple):
    """What tells one point from another."""

    graph: str
    test: int
    hidden: int
    lr: float


class _Run(NamedTuple):
    """What came out of a run."""

    metrics: Mapping[str, float]
    """On the test links, as fractions."""
    has_collapsed: bool


_Cells = Mapping[_Cell, Sequence[_Run]]


class _Axis(NamedTuple):
    """The values that stand side by side; the same in all panels."""

    widths: list[int]
    rates: list[float]


def sensitivity_figure(
    records: Iterable[Record], published: Published | None = None, note: str = ""
) -> Figure:
    """Draw AUC and AP on test links over r, a line for each d_v.

    A panel is a graph, a share of test links and a metric; its scale is stretched towards the top.
    Lines join means, whiskers go from the lowest run to the highest. A cell without runs leaves a
    gap, one with a run that collapsed has a hollow mark.

    Args:
        records: CGCL's runs, each once, in any order. Runs on one graph and share of test links
            differ in d_v, r, seed and split alone.
        published: What the paper has for CGCL, such as its Table I.
        note: A sentence that goes with all of it, such as that trainings were cut short.

    Raises:
        ConfigError: matplotlib is not installed.
        ValueError: Such runs differ in other settings, so that a mean would mix them.
    """
    cells = _cells_of(records)
    with drawing():
        from matplotlib.figure import Figure

        rows = [
            (graph, test)
            for graph in in_paper_order(cell.graph for cell in cells)
            for test in sorted({cell.test for cell in cells if cell.graph == graph})
        ]
        if not rows:
            return empty_figure("There are no runs over d_v and r yet.")
        axis = _Axis(
            sorted({cell.hidden for cell in cells}, reverse=True),
            sorted({cell.lr for cell in cells}),
        )
        words = _words(cells, note)
        height = _ROW_HEIGHT * len(rows) + _LEGEND_HEIGHT + LINE_HEIGHT * words.count("\n")
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        panels = figure.subplots(len(rows), len(_METRICS), squeeze=False)
        first: dict[str, Axes] = {}
        for number, ((graph, test), metric) in enumerate(
            (row, metric) for row in rows for metric in _METRICS
        ):
            axes = panels.flat[number]
            axes.sharey(first.setdefault(graph, axes))
            _draw_lines(axes, cells, axis, graph, test, metric)
            there = (published or {}).get(graph, {}).get(str(test), {}).get(metric)
            if there is not None:
                axes.axhline(there[0], color=INK, linestyle=":", linewidth=1.3, zorder=1)
            letter = f"({chr(ord('a') + number)}) "
            axes.set_title(f"{letter}{graph_title(graph)}, {test} % test links", loc="left")
            axes.set_ylabel(f"{_METRICS[metric]} (%)")
        for axes in panels[-1]:
            axes.set_xlabel("Learning rate $r$")
        _draw_legend(figure, axis, words, is_published=not first.keys().isdisjoint(published or {}))
        return lay_out(figure)


def _cells_of(records: Iterable[Record]) -> _Cells:
    """Return what came out of every cell's runs."""
    cells: dict[_Cell, list[_Run]] = {}
    others: dict[tuple[str, int], dict[str, Any]] = {}
    for record in records:
        if record.metrics is None:
            continue
        # Records may be older than a setting; by default it changes nothing.
        named = differing(record.method, record.settings)
        rest = {key: own for key, own in named.items() if key not in ("hidden", "lr")}
        # Settings are chosen for each share of test links by itself; a panel has one of them.
        if rest != others.setdefault((record.graph, record.test), rest):
            where = f"{record.graph} with {record.test} % test links"
            raise ValueError(f"Runs on {where} differ in more than d_v and r.")
        cell = _Cell(record.graph, record.test, record.settings["hidden"], record.settings["lr"])
        cells.setdefault(cell, []).append(_Run(record.metrics, has_collapsed(record)))
    return cells


def _draw_lines(axes: Axes, cells: _Cells, axis: _Axis, graph: str, test: int, metric: str) -> None:
    """Draw a line for each width, side by side so that their whiskers can be told apart."""
    from matplotlib.ticker import FixedLocator, FormatStrFormatter

    for place, width in enumerate(axis.widths):
        runs = [cells.get(_Cell(graph, test, width, rate), ()) for rate in axis.rates]
        values = [[_PERCENT * run.metrics[metric] for run in own] for own in runs]
        means = [statistics.fmean(own) if own else math.nan for own in values]
        shift = (place - (len(axis.widths) - 1) / 2) * _DODGE
        across = [number + shift for number in range(len(axis.rates))]
        axes.errorbar(
            across,
            means,
            yerr=_whiskers(values, means),
            elinewidth=1,
            capsize=2,
            **_line_style(place),
        )
        hollow = [number for number, own in enumerate(runs) if _any_collapsed(own)]
        if hollow:
            axes.plot(
                [across[number] for number in hollow],
                [means[number] for number in hollow],
                **{**_line_style(place), **_HOLLOW},
            )
    axes.set_xticks(range(len(axis.rates)), [f"{rate:g}" for rate in axis.rates])
    axes.set_xlim(-0.4, len(axis.rates) - 0.6)
    axes.set_yscale("function", functions=(_stretched, _unstretched))
    # Not set_yticks: it would make room for all of them.
    axes.yaxis.set_major_locator(FixedLocator(_TICKS))
    axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))


def _whiskers(values: Sequence[Sequence[float]], means: Sequence[float]) -> list[list[float]]:
    """Return how far the lowest and the highest run are from the mean of each cell."""
    both = [
        (mean - min(own), max(own) - mean) if len(own) > 1 else (math.nan, math.nan)
        for own, mean in zip(values, means, strict=True)
    ]
    return [list(ends) for ends in zip(*both, strict=True)]


def _stretched(percent: NDArray[np.float64]) -> NDArray[np.float64]:
    return -np.log(np.maximum(_ABOVE_ALL - percent, 1e-3))


def _unstretched(height: NDArray[np.float64]) -> NDArray[np.float64]:
    return _ABOVE_ALL - np.exp(-height)


def _line_style(place: int) -> dict[str, Any]:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "markersize": 4.5,
    }


def _any_collapsed(runs: Iterable[_Run]) -> bool:
    return any(run.has_collapsed for run in runs)


def _words(cells: _Cells, note: str) -> str:
    """Return what a reader must know, a line for each thing."""
    counts = sorted({len(own) for own in cells.values()})
    if counts[-1] == 1:
        lines = ["One run"]
    else:
        count = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        lines = [f"Mean, lowest and highest of {count} runs; the scale is stretched towards 100 %"]
    if any(_any_collapsed(own) for own in cells.values()):
        lines.append(_COLLAPSED)
    return "\n".join([*lines, note]).rstrip()


def _draw_legend(figure: Figure, axis: _Axis, words: str, *, is_published: bool) -> None:
    handles = [
        key_line(f"$d_v$ = {width}", **_line_style(place))
        for place, width in enumerate(axis.widths)
    ]
    if is_published:
        handles.append(key_line("published (Table I)", color=INK, linestyle=":", linewidth=1.3))
    legend = figure.legend(
        handles=handles, loc="outside lower center", ncols=len(handles), title=words
    )
    legend.get_title().set_multialignment("center")
