"""How figures look, and how they become files. matplotlib is imported when one is drawn."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgcl.errors import ConfigError
from cgcl.files import make_folder, write_atomically
from cgcl.readers import DATASETS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

__all__ = [
    "COLOURS",
    "INK",
    "LINE_HEIGHT",
    "NOTE",
    "drawing",
    "empty_figure",
    "graph_title",
    "in_paper_order",
    "key_line",
    "lay_out",
    "rendered",
    "write_figure",
]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Told apart with any colour vision (Okabe and Ito, 2008)."""
INK = "#1c2430"
NOTE = "#5d6876"
"""For what is there to compare with, such as a bound or a published value."""
LINE_HEIGHT = 0.18
"""Inches for a line of words."""
_DPI = 200
_STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "mathtext.fontset": "dejavusans",
    "lines.linewidth": 1.4,
    "axes.edgecolor": NOTE,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#e1e4e8",
    "grid.linewidth": 0.7,
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "savefig.facecolor": "white",
    # Letters as shapes: the layout was measured with this font, and the formulas need its signs; a
    # reader's machine with other fonts would move labels into each other.
    "svg.fonttype": "path",
    # Names inside an SVG file are drawn at random unless this is given.
    "svg.hashsalt": "cgcl",
}


# Neither the time nor the version of matplotlib belongs to the content.
_ABOUT: dict[str, dict[str, str | None]] = {
    "svg": {"Date": None, "Creator": "cgcl"},
    "png": {"Software": "cgcl"},
}


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """Draw in one style, whatever the user's own settings of matplotlib are.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        from matplotlib import style
    except ImportError as error:
        raise ConfigError('Figures need matplotlib: pip install "cgcl[figures]"') from error
    with style.context(_STYLE, after_reset=True):
        yield


def write_figure(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as SVG and PNG; the same figure gives the same bytes.

    Args:
        figure: What to write.
        folder: Where to; it is created if it is not there.
        name: The files' name without its end.

    Returns:
        The files.

    Raises:
        ConfigError: matplotlib is not installed.
        ResourceError: The folder cannot be written.
    """
    make_folder(folder)
    paths: list[Path] = []
    for kind in _ABOUT:
        paths.append(folder / f"{name}.{kind}")
        write_atomically(paths[-1], rendered(figure, kind, name))
    return paths


def rendered(figure: Figure, kind: str, name: str) -> bytes:
    """Return a figure as `svg` or `png`; the same figure gives the same bytes.

    Raises:
        ConfigError: matplotlib is not installed.
    """
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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 1.2))
    figure.text(0.5, 0.5, sentence, ha="center", va="center", color=NOTE)
    return figure


def key_line(label: str, **style: Any) -> Line2D:  # noqa: ANN401
    """Return a line for a legend alone; to be called while `drawing`."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **style)


def in_paper_order(graphs: Iterable[str]) -> list[str]:
    """Return each graph once: those of the paper in its order, then others by name."""
    own = set(graphs)
    return [name for name in DATASETS if name in own] + sorted(own - DATASETS.keys())


def graph_title(name: str) -> str:
    """Return a graph's name as the paper writes it."""
    # Cora comes with the package and has no folder that would tell.
    return (DATASETS[name].folder or name.capitalize()) if name in DATASETS else name
