"""Fig. 4: how CGCL converges, and what becomes of the consistency of Eq. 10 and 11 meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from cgcl.metrics import CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND
from cgcl.reproduce.figures import (
    COLOURS,
    INK,
    LINE_HEIGHT,
    NOTE,
    drawing,
    empty_figure,
    graph_title,
    in_paper_order,
    key_line,
    lay_out,
)
from cgcl.reproduce.measures import TRACE
from cgcl.reproduce.record import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = ["convergence_figure"]

_TERMS = {
    "views": "$C(A_1, A_2)$",
    "reconstructions": r"$C(\widetilde{A}_1, \widetilde{A}_2)$",
    "view_1": r"$C(A_1, \widetilde{A}_1)$",
    "view_2": r"$C(A_2, \widetilde{A}_2)$",
}
# Two terms that are equal but for chance: the first shows as a rim of the second.
_TERM_WIDTHS = (1.3, 1.3, 3.2, 1.3)
_COLUMNS = (
    "Loss (mean of $L_1$ and $L_2$)",
    "Validation AUC (%)",
    "Consistency $C$",
    "Gap of Eq. 11",
)
_LOSS, _AUC, _CONSISTENCY, _GAP = range(len(_COLUMNS))
_BOUNDS = (CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND)
_STYLES: tuple[Any, ...] = ("-", (0, (2.2, 1.1)), (0, (0.8, 1.2)))
# How much darker a term is drawn, so that dashes show on a line of the same colour.
_SHADES = (1.0, 0.55, 0.3)
_BOUND_STYLE: dict[str, Any] = {"color": NOTE, "linestyle": (0, (7, 3)), "linewidth": 1.2}
_KEPT_STYLE: dict[str, Any] = {"color": INK, "marker": "o", "markerfacecolor": "white"}
_WIDTH, _ROW_HEIGHT, _LEGEND_HEIGHT = 10.5, 1.75, 0.9
_PERCENT = 100


def convergence_figure(records: Iterable[Record], note: str = "") -> Figure:
    """Draw loss, validation AUC, consistency and its gap over the epochs, a row for each graph.

    Args:
        records: CGCL's runs with the measure `TRACE`, each once, in any order; a line for each.
            Others are left out.
        note: A sentence that goes with all of it, such as that trainings were cut short.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    traced = sorted(
        (record for record in records if TRACE in record.measured),
        key=lambda record: (record.graph, record.test, record.split_seed, record.seed, record.key),
    )
    with drawing():
        from matplotlib.figure import Figure

        graphs = in_paper_order(record.graph for record in traced)
        if not graphs:
            return empty_figure("There are no runs with a trace yet.")
        shares = sorted({record.test for record in traced})
        height = _ROW_HEIGHT * len(graphs) + _LEGEND_HEIGHT + (LINE_HEIGHT if note else 0)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        panels = figure.subplots(len(graphs), len(_COLUMNS), squeeze=False, sharex=True)
        for graph, row in zip(graphs, panels, strict=True):
            for record in traced:
                if record.graph == graph:
                    _draw_run(row, record, shares.index(record.test) % len(_STYLES))
            for bound in _BOUNDS:
                row[_CONSISTENCY].axhline(bound, **_BOUND_STYLE)
            row[0].set_ylabel(graph_title(graph), fontweight="bold")
        _set_scales(panels)
        handles = _legend(shares)
        figure.legend(handles=handles, loc="outside lower center", ncols=4, title=note or None)
        return lay_out(figure)


def _draw_run(row: Sequence[Axes], record: Record, share: int) -> None:
    """Draw the lines of a run whose share of test links is the first, second or third."""
    trace = record.measured[TRACE]
    epochs = trace["epoch"]
    auc = [_PERCENT * value for value in trace["val_auc"]]
    plain: dict[str, Any] = {"color": INK, "linestyle": _STYLES[share]}
    row[_LOSS].plot(epochs, trace["loss"], **plain)
    row[_AUC].plot(epochs, auc, **plain)
    if record.best_epoch in epochs:
        best = epochs.index(record.best_epoch)
        row[_AUC].plot(epochs[best], auc[best], **_KEPT_STYLE, markersize=5, zorder=3)
    for number, term in enumerate(_TERMS):
        if term in trace:
            row[_CONSISTENCY].plot(
                epochs,
                trace[term],
                color=_darker(COLOURS[number], _SHADES[share]),
                linestyle=_STYLES[share],
                linewidth=_TERM_WIDTHS[number] if share == 0 else 1.3,
                zorder=2 + 0.1 * share,
            )
    if "gap" in trace:
        row[_GAP].plot(epochs, trace["gap"], **plain)


def _darker(colour: str, share: float) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return red * share, green * share, blue * share


def _set_scales(panels: Any) -> None:  # noqa: ANN401
    """Let graphs be compared, but for AUC, where they differ more than the epochs do."""
    for column in (_LOSS, _CONSISTENCY, _GAP):
        for axes in panels[1:, column]:
            axes.sharey(panels[0, column])
    for column in (_LOSS, _GAP):
        panels[0, column].update_datalim([(0, 0)], updatex=False)
        panels[0, column].autoscale_view()
        panels[0, column].set_ylim(bottom=0)
    for title, axes in zip(_COLUMNS, panels[0], strict=True):
        axes.set_title(title)
    for axes in panels[-1]:
        axes.set_xlabel("Epoch")


def _legend(shares: Sequence[int]) -> list[Line2D]:
    """Return what the lines mean; a legend is filled column by column."""
    terms = [
        key_line(label, color=COLOURS[number], linewidth=_TERM_WIDTHS[number])
        for number, label in enumerate(_TERMS.values())
    ]
    ratios = [
        key_line(f"{share} % test links", color=INK, linestyle=_STYLES[number % len(_STYLES)])
        for number, share in enumerate(shares)
    ]
    bound = key_line("bounds of Theorem 1", **_BOUND_STYLE)
    kept = key_line("kept epoch (best on validation)", **_KEPT_STYLE, linestyle="")
    return [*terms, *ratios, bound, kept]
