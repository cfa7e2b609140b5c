"""Fig. 2 and 3: how AUC and AP depend on the width d_v and the learning rate r."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cgcl.reproduce.figures import (
    COLOURS,
    INK,
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

__all__ = ["Published", "sensitivity_figure"]

Published = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]
"""By graph, percent of test links and metric: mean and deviation in percent."""

_METRICS = {"auc": "AUC", "ap": "AP"}
_MARKERS = "osD^vP"
_WIDTH, _ROW_HEIGHT, _LEGEND_HEIGHT = 7.2, 2.45, 0.6
_DODGE = 0.07
_PERCENT = 100


class _Cell(NamedTuple):
    """What tells one point from another."""

    graph: str
    test: int
    hidden: int
    lr: float


_Cells = Mapping[_Cell, Sequence[Mapping[str, float]]]


class _Axis(NamedTuple):
    """The values that stand side by side; the same in all panels."""

    widths: list[int]
    rates: list[float]


def sensitivity_figure(records: Iterable[Record], published: Published | None = None) -> Figure:
    """Draw AUC and AP on test links over r, a line for each d_v.

    A panel is a graph, a share of test links and a metric. A cell without runs leaves a gap.

    Args:
        records: CGCL's runs, each once, in any order. Runs on one graph differ in d_v, r, seed and
            split alone.
        published: What the paper has for CGCL, such as its Table I.

    Raises:
        ConfigError: matplotlib is not installed.
        ValueError: Runs on one graph differ in other settings, so that a mean would mix them.
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
        height = _ROW_HEIGHT * len(rows) + _LEGEND_HEIGHT
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
        _draw_legend(figure, cells, axis, is_published=not first.keys().isdisjoint(published or {}))
        return lay_out(figure)


def _cells_of(records: Iterable[Record]) -> _Cells:
    """Return the test metrics of every cell's runs."""
    cells: dict[_Cell, list[Mapping[str, float]]] = {}
    others: dict[str, dict[str, Any]] = {}
    for record in records:
        if record.metrics is None:
            continue
        # Records may be older than a setting; by default it changes nothing.
        named = differing(record.method, record.settings)
        rest = {key: own for key, own in named.items() if key not in ("hidden", "lr")}
        if rest != others.setdefault(record.graph, rest):
            raise ValueError(f"Runs on {record.graph} differ in more than d_v and r.")
        cell = _Cell(record.graph, record.test, record.settings["hidden"], record.settings["lr"])
        cells.setdefault(cell, []).append(record.metrics)
    return cells


def _draw_lines(axes: Axes, cells: _Cells, axis: _Axis, graph: str, test: int, metric: str) -> None:
    """Draw a line for each width, side by side so that their deviations can be told apart."""
    for place, width in enumerate(axis.widths):
        values = [
            [
                _PERCENT * metrics[metric]
                for metrics in cells.get(_Cell(graph, test, width, rate), ())
            ]
            for rate in axis.rates
        ]
        shift = (place - (len(axis.widths) - 1) / 2) * _DODGE
        axes.errorbar(
            [number + shift for number in range(len(axis.rates))],
            [statistics.fmean(own) if own else math.nan for own in values],
            yerr=[statistics.stdev(own) if len(own) > 1 else math.nan for own in values],
            elinewidth=1,
            capsize=2,
            **_line_style(place),
        )
    axes.set_xticks(range(len(axis.rates)), [f"{rate:g}" for rate in axis.rates])
    axes.set_xlim(-0.4, len(axis.rates) - 0.6)


def _line_style(place: int) -> dict[str, Any]:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "markersize": 4.5,
    }


def _draw_legend(figure: Figure, cells: _Cells, axis: _Axis, *, is_published: bool) -> None:
    handles = [
        key_line(f"$d_v$ = {width}", **_line_style(place))
        for place, width in enumerate(axis.widths)
    ]
    if is_published:
        handles.append(key_line("published (Table I)", color=INK, linestyle=":", linewidth=1.3))
    runs = sorted({len(own) for own in cells.values()})
    if runs[-1] == 1:
        title = "One run"
    else:
        count = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        title = f"Mean and standard deviation over {count} runs"
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), title=title)
