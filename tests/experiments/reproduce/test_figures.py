"""Figures: what is drawn is what was measured, and the same runs give the same files."""

import itertools
import math
import random
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cgcl_paper.figures import convergence_figure, sensitivity_figure, write_figure
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from cgcl.experiments.study import Record
from cgcl.experiments.tables import cut_note
from cgcl.readers import DATASETS

from .conftest import job, record_of

WIDTHS, RATES, SHARES = (512, 256, 128, 64), (0.001, 0.005, 0.01, 0.05), (10, 20)
LOSS, AUC, CONSISTENCY, GAP = range(4)
EPOCHS = list(range(10, 101, 10))


def grid_records(graph: str = "cora", runs: int = 3) -> list[Record]:
    rng = random.Random(1)
    return [
        record_of(
            job(graph=graph, test=test, hidden=width, lr=rate, seed=seed),
            rng.uniform(0.92, 0.97),
            rng.uniform(0.92, 0.97),
        )
        for test, width, rate, seed in itertools.product(SHARES, WIDTHS, RATES, range(runs))
    ]


def traced_records(graphs: tuple[str, ...] = ("cora", "photo")) -> list[Record]:
    rng = random.Random(2)
    about = {"views": -0.34, "reconstructions": -0.29, "view_1": -0.26, "view_2": -0.26}
    about |= {"gap": 0.02, "loss": 0.3, "val_auc": 0.95}

    def trace() -> dict:
        columns = {name: [at + rng.random() / 50 for _ in EPOCHS] for name, at in about.items()}
        return {"epoch": EPOCHS, **columns}

    return [
        record_of(job(graph=graph, test=test), best_epoch=50, measured={"trace": trace()})
        for graph in graphs
        for test in SHARES
    ]


def panel(figure: Figure, words: str, label: str) -> Axes:
    """Return the panel with this title at the left and this label of its values."""
    named = [own for own in figure.axes if own.get_title(loc="left").endswith(words)]
    (found,) = (own for own in named if own.get_ylabel() == label)
    return found


def written(figure: Figure, folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in write_figure(figure, folder, "figure")]


def test_missing_cells_and_failed_runs_are_gaps():
    def cell(record: Record) -> tuple:
        return record.test, record.settings["hidden"], record.settings["lr"]

    records = [
        replace(own, metrics=None, failure="no") if cell(own) == (20, 256, 0.005) else own
        for own in grid_records()
        if cell(own)[1:] != (64, 0.05)
    ]
    axes = panel(sensitivity_figure(records), "Cora, 20 % test links", "AP (%)")
    gaps = [[math.isnan(y) for y in bars[0].get_ydata()] for bars in axes.containers]
    assert gaps[1] == [False, True, False, False]
    assert gaps[3] == [False, False, False, True]
    assert not any(gaps[0])
    assert len(sensitivity_figure([own for own in records if own.test == 10]).axes) == 2


def test_runs_with_other_settings_are_not_mixed_but_shares_of_test_links_may_differ():
    records = grid_records()
    other = [replace(x, settings={**x.settings, "input_dropout": 0.2}) for x in records]
    with pytest.raises(ValueError, match="cora with 10 % test links differ"):
        sensitivity_figure([*records, other[0]])
    both = [new if new.test == 20 else old for old, new in zip(records, other, strict=True)]
    assert len(sensitivity_figure(both).axes) == 4


@pytest.mark.parametrize(
    ("draw", "records"),
    [(sensitivity_figure, grid_records()), (convergence_figure, traced_records())],
    ids=["sensitivity", "convergence"],
)
def test_the_same_runs_in_any_order_give_the_same_files(draw, records, tmp_path):
    shuffled = random.Random(3).sample(records, len(records))
    first = draw(records)
    once = written(first, tmp_path / "a")
    assert written(first, tmp_path / "a") == once
    assert written(draw(shuffled), tmp_path / "b") == once
    svg, png = once
    assert png.startswith(b"\x89PNG")
    ElementTree.fromstring(svg)
    assert not re.search(rb"<dc:date>|Matplotlib v", svg)


def shown_words(figure: Figure) -> list[Text]:
    """Return what is written; ticks outside of a panel have labels that are never drawn."""
    hidden = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for place, tick in zip(axis.get_majorticklocs(), axis.get_major_ticks(), strict=True):
            hidden |= set() if low <= place <= high else {tick.label1, tick.label2}
    words = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    return [text for text in words if text not in hidden]


@pytest.mark.parametrize(
    ("draw", "records"),
    [
        (sensitivity_figure, [*grid_records(), *grid_records("computers")]),
        (sensitivity_figure, [replace(own, stopped="collapse") for own in grid_records()]),
        (convergence_figure, traced_records(tuple(DATASETS))),
    ],
    ids=["sensitivity", "collapsed", "convergence"],
)
@pytest.mark.parametrize("note", ["", cut_note(1_000_000)], ids=["whole", "cut"])
def test_words_are_large_enough_and_do_not_overlap(draw, records, note):
    figure = draw(records, note=note)
    assert figure.legends[0].get_title().get_text().endswith(note)
    figure.draw_without_rendering()
    words = shown_words(figure)
    assert len(words) > 20
    assert min(text.get_fontsize() for text in words) >= 8
    boxes = {text: text.get_window_extent() for text in words}
    for (one, box), (other, beside) in itertools.combinations(boxes.items(), 2):
        assert not box.overlaps(beside), (one, other)
    for box in boxes.values():
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


@pytest.mark.parametrize("draw", [sensitivity_figure, convergence_figure])
def test_nothing_yet_is_said(draw, tmp_path):
    figure = draw([])
    assert "no runs" in figure.texts[0].get_text()
    assert all(written(figure, tmp_path))
