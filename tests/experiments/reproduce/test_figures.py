"""Figures: what is drawn is what was measured, and the same runs give the same files."""

from __future__ import annotations

import itertools
import math
import random
import re
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cgcl_paper.figures import (
    COLOURS,
    convergence_figure,
    graph_title,
    in_paper_order,
    sensitivity_figure,
    write_figure,
)
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text

from cgcl.errors import ConfigError
from cgcl.experiments.study import Record, Selection, jobs_of, read_data, read_experiment
from cgcl.experiments.tables import cut_note
from cgcl.metrics import CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND
from cgcl.readers import DATASETS

from .conftest import CHOSEN

WIDTHS, RATES, SHARES = (512, 256, 128, 64), (0.001, 0.005, 0.01, 0.05), (10, 20)
LOSS, AUC, CONSISTENCY, GAP = range(4)
EPOCHS = list(range(10, 101, 10))


def a_record(**changes) -> Record:
    blank = {"graph": "cora", "test": 10, "method": "cgcl", "settings": {}, "split_seed": 0}
    blank |= {"split": "", "seed": 0, "fingerprint": "", "device": "cpu", "threads": 1}
    return Record(**{**blank, "versions": {}, **changes})


def grid_records(graph: str = "cora", runs: int = 3) -> list[Record]:
    rng = random.Random(1)
    return [
        a_record(
            graph=graph,
            test=test,
            settings={"hidden": width, "lr": rate, "input_dropout": 0.5},
            seed=seed,
            metrics={"auc": rng.uniform(0.92, 0.97), "ap": rng.uniform(0.92, 0.97)},
        )
        for test, width, rate, seed in itertools.product(SHARES, WIDTHS, RATES, range(runs))
    ]


def traced_records(graphs: tuple[str, ...] = ("cora", "photo")) -> list[Record]:
    rng = random.Random(2)
    terms = {
        "views": -0.34,
        "reconstructions": -0.29,
        "view_1": -0.26,
        "view_2": -0.26,
        "gap": 0.02,
    }

    def trace() -> dict:
        columns = {name: [at + rng.random() / 100 for _ in EPOCHS] for name, at in terms.items()}
        columns["loss"] = [0.3 + rng.random() / 2 for _ in EPOCHS]
        columns["val_auc"] = [0.95 + rng.random() / 50 for _ in EPOCHS]
        return {"epoch": EPOCHS, **columns}

    return [
        a_record(graph=graph, test=test, best_epoch=50, measured={"trace": trace()})
        for graph in graphs
        for test in SHARES
    ]


def panel(figure: Figure, words: str, label: str) -> Axes:
    """Return the panel with this title at the left and this label of its values."""
    named = [own for own in figure.axes if own.get_title(loc="left").endswith(words)]
    (found,) = (own for own in named if own.get_ylabel() == label)
    return found


def mean_of(records: list[Record], test: int, width: int, rate: float, metric: str) -> float:
    return 100 * statistics.fmean(
        record.metrics[metric]
        for record in records
        if record.metrics
        and (record.test, record.settings["hidden"], record.settings["lr"]) == (test, width, rate)
    )


def written(figure: Figure, folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in write_figure(figure, folder, "figure")]


@pytest.mark.parametrize("test", SHARES)
@pytest.mark.parametrize("metric", ["auc", "ap"])
def test_the_lines_are_the_means_over_runs(test, metric):
    records = grid_records()
    axes = panel(sensitivity_figure(records), f"Cora, {test} % test links", f"{metric.upper()} (%)")
    assert len(axes.containers) == len(WIDTHS)
    for number, (width, bars) in enumerate(zip(WIDTHS, axes.containers, strict=True)):
        line = bars[0]
        expected = [mean_of(records, test, width, rate, metric) for rate in RATES]
        assert list(line.get_ydata()) == pytest.approx(expected)
        assert [round(x) for x in line.get_xdata()] == [0, 1, 2, 3]
        assert to_hex(line.get_color()) == COLOURS[number]
    assert [label.get_text() for label in axes.get_xticklabels()] == [f"{r:g}" for r in RATES]


def test_the_whiskers_go_from_the_lowest_run_to_the_highest():
    records = grid_records()
    axes = panel(sensitivity_figure(records), "Cora, 10 % test links", "AUC (%)")
    ends = [[end[1] for end in own] for own in axes.containers[0][2][0].get_segments()]
    runs = [100 * record.metrics["auc"] for record in records][: 3 * len(RATES)]
    for number in range(len(RATES)):
        own = runs[3 * number : 3 * number + 3]
        assert ends[number] == pytest.approx([min(own), max(own)])


def test_a_single_run_has_no_bar_and_the_legend_says_so():
    figure = sensitivity_figure(grid_records(runs=1))
    (segments,) = figure.axes[0].containers[0][2]
    assert not any(segment.size for segment in segments.get_segments())
    assert figure.legends[0].get_title().get_text() == "One run"
    some = sensitivity_figure([*grid_records(runs=1), *grid_records(runs=2)[-1:]])
    assert "highest of 1 to 2 runs" in some.legends[0].get_title().get_text()


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


def test_published_values_are_dotted():
    published = read_data("paper")["table1"]["cgcl"]
    figure = sensitivity_figure(grid_records(), published)
    for test, metric in itertools.product(SHARES, ("auc", "ap")):
        axes = panel(figure, f"Cora, {test} % test links", f"{metric.upper()} (%)")
        (line,) = (line for line in axes.lines if line.get_linestyle() == ":")
        assert set(line.get_ydata()) == {published["cora"][str(test)][metric][0]}
    assert len(figure.legends[0].get_texts()) == len(WIDTHS) + 1
    # A graph that is not in the paper has nothing to compare with.
    (legend,) = sensitivity_figure(grid_records("mine"), published).legends
    assert len(legend.get_texts()) == len(WIDTHS)


def test_graphs_share_a_scale_with_themselves_alone():
    low = [replace(record, metrics={"auc": 0.6, "ap": 0.6}) for record in grid_records("computers")]
    limits = [axes.get_ylim() for axes in sensitivity_figure([*low, *grid_records()]).axes]
    assert len(set(limits[:4])) == len(set(limits[4:])) == 1
    assert limits[4][1] < limits[0][0] < 92.5 < 96.5 < limits[0][1]


def test_cells_with_a_run_that_collapsed_are_hollow_and_the_legend_says_so():
    chance = {"auc": 0.5, "ap": 0.5}
    changes = {
        (10, 512, 0.05, 1): {"stopped": "collapse"},
        (10, 64, 0.005, 0): {"val": chance, "metrics": chance},
    }

    def changed(own: Record) -> Record:
        cell = (own.test, own.settings["hidden"], own.settings["lr"], own.seed)
        return replace(own, **changes.get(cell, {}))

    def marks(axes: Axes) -> dict:
        lines = [line for line in axes.lines if line.get_markerfacecolor() == "white"]
        return {to_hex(x.get_color()): (round(*x.get_xdata()), *x.get_ydata()) for x in lines}

    records = [changed(own) for own in grid_records()]
    figure = sensitivity_figure(records)
    for metric in ("auc", "ap"):
        assert marks(panel(figure, "10 % test links", f"{metric.upper()} (%)")) == {
            COLOURS[0]: (3, pytest.approx(mean_of(records, 10, 512, 0.05, metric))),
            COLOURS[3]: (1, pytest.approx(mean_of(records, 10, 64, 0.005, metric))),
        }
        assert not marks(panel(figure, "20 % test links", f"{metric.upper()} (%)"))
    title = figure.legends[0].get_title().get_text()
    assert "Hollow: at least one of these runs collapsed" in title
    without = sensitivity_figure(grid_records())
    assert not any(marks(axes) for axes in without.axes)
    assert without.legends[0].get_title().get_text() == (
        "Mean, lowest and highest of 3 runs; the scale is stretched towards 100 %"
    )


def test_a_point_near_the_top_is_larger_than_one_near_chance():
    axes = sensitivity_figure(grid_records()).axes[0]
    place = [axes.transData.transform((0, percent))[1] for percent in (50, 51, 97, 98)]
    # By the distance from 100.5, on a scale of logarithms.
    ratio = math.log(3.5 / 2.5) / math.log(50.5 / 49.5)
    assert (place[3] - place[2]) / (place[1] - place[0]) == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("draw", "records"),
    [(sensitivity_figure, grid_records()), (convergence_figure, traced_records())],
    ids=["sensitivity", "convergence"],
)
def test_a_note_is_in_the_figure(draw, records):
    with_note, without = draw(records, note="Only 3 epochs."), draw(records)
    assert with_note.legends[0].get_title().get_text().endswith("Only 3 epochs.")
    assert "Only" not in without.legends[0].get_title().get_text()
    # It has room of its own: panels stay as large as they are without it.
    heights = [
        figure.axes[0].get_position().height * figure.get_figheight()
        for figure in (with_note, without)
    ]
    assert heights[0] == pytest.approx(heights[1], rel=0.03)


def test_runs_with_other_settings_are_not_mixed_but_shares_of_test_links_may_differ():
    records = grid_records()
    other = [replace(x, settings={**x.settings, "input_dropout": 0.2}) for x in records]
    with pytest.raises(ValueError, match="cora with 10 % test links differ"):
        sensitivity_figure([*records, other[0]])
    both = [new if new.test == 20 else old for old, new in zip(records, other, strict=True)]
    assert len(sensitivity_figure(both).axes) == 4


def test_the_lines_of_convergence_are_the_trace():
    records = traced_records()
    figure = convergence_figure(reversed(records))
    rows = [figure.axes[:4], figure.axes[4:]]
    assert [row[0].get_ylabel() for row in rows] == ["Cora", "Photo"]
    for row, own in zip(rows, (records[:2], records[2:]), strict=True):
        for number, record in enumerate(own):
            trace = record.measured["trace"]
            line, kept = row[AUC].lines[2 * number : 2 * number + 2]
            assert list(line.get_ydata()) == [100 * value for value in trace["val_auc"]]
            assert list(kept.get_xdata()) == [50]
            drawn = [row[LOSS].lines[number], row[GAP].lines[number]]
            drawn += row[CONSISTENCY].lines[4 * number : 4 * number + 4]
            names = ("loss", "gap", "views", "reconstructions", "view_1", "view_2")
            for name, line in zip(names, drawn, strict=True):
                assert (list(line.get_xdata()), list(line.get_ydata())) == (EPOCHS, trace[name])
        bounds = {y for line in row[CONSISTENCY].lines[8:] for y in line.get_ydata()}
        assert bounds == {CONSISTENCY_LOWER_BOUND, CONSISTENCY_UPPER_BOUND}
        assert row[LOSS].lines[0].get_linestyle() != row[LOSS].lines[1].get_linestyle()


def test_no_line_of_convergence_leaves_its_panel():
    records = traced_records(("cora", "citeseer"))
    trace = records[-1].measured["trace"]
    large = {**trace, "loss": [9.0 for _ in EPOCHS], "gap": [0.2 for _ in EPOCHS]}
    figure = convergence_figure([*records[:-1], replace(records[-1], measured={"trace": large})])
    for axes in figure.axes:
        bottom, top = axes.get_ylim()
        for line in axes.lines:
            assert bottom <= min(line.get_ydata())
            assert max(line.get_ydata()) < top
    for column in (LOSS, CONSISTENCY, GAP):
        assert figure.axes[column].get_ylim() == figure.axes[4 + column].get_ylim()


def test_what_is_missing_in_convergence_is_left_out():
    records = traced_records(("cora", "mine"))
    trace = {name: records[0].measured["trace"][name] for name in ("epoch", "loss", "val_auc")}
    bare = replace(records[0], measured={"trace": trace}, best_epoch=3)
    figure = convergence_figure([bare, records[3], replace(records[1], measured={})])
    cora, mine = figure.axes[:4], figure.axes[4:]
    assert len(cora[LOSS].lines) == len(mine[LOSS].lines) == 1
    assert len(cora[CONSISTENCY].lines) == 2  # the bounds
    assert len(cora[AUC].lines) == 1  # the kept epoch was not looked at
    assert mine[0].get_ylabel() == "mine"


@pytest.mark.parametrize("draw", [sensitivity_figure, convergence_figure])
def test_nothing_yet_is_said(draw, tmp_path):
    figure = draw([])
    assert "no runs" in figure.texts[0].get_text()
    assert all(written(figure, tmp_path))


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


def test_the_users_own_style_changes_nothing(tmp_path):
    from matplotlib import rc_context

    records = grid_records()[:2]
    plain = written(sensitivity_figure(records), tmp_path / "a")
    with rc_context({"font.size": 20, "svg.fonttype": "none", "axes.facecolor": "black"}):
        assert written(sensitivity_figure(records), tmp_path / "b") == plain


@pytest.mark.parametrize("draw", [sensitivity_figure, convergence_figure])
def test_without_matplotlib_the_way_to_get_it_is_told(draw, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=re.escape('pip install "cgcl[figures]"')):
        draw([])


def test_graphs_are_named_and_ordered_as_in_the_paper():
    names = in_paper_order(["zoo", "computers", "ant", "cora", "citeseer", "cora"])
    assert names == ["cora", "citeseer", "computers", "ant", "zoo"]
    assert [*map(graph_title, names)] == ["Cora", "CiteSeer", "Computers", "ant", "zoo"]


CHOICES = {name: {**own, "hidden": 256, "lr": 0.005} for name, own in CHOSEN.items()}


@pytest.mark.parametrize(("name", "graph"), [("fig2", "cora"), ("fig3", "computers")])
def test_sensitivity_asks_for_the_papers_grid_and_shares_runs_with_the_choice(name, graph):
    places = jobs_of(read_experiment(name), Selection(), CHOICES)
    jobs = [job for own in places.values() for job in own]
    cells = {(x.graph, x.test, x.recipe.settings.hidden, x.recipe.settings.lr) for x in jobs}
    assert cells == set(itertools.product([graph], SHARES, WIDTHS, RATES))
    keys = {job.key for job in jobs}
    assert len(keys) == len(jobs) == 3 * len(cells)
    grid = jobs_of(read_experiment("grid"), Selection(graphs=(graph,)), CHOICES)
    assert len(keys & {job.key for own in grid.values() for job in own}) == len(cells)


def test_convergence_asks_for_a_trace_on_every_graph():
    places = jobs_of(read_experiment("fig4"), Selection(), CHOICES)
    assert {(place.graph, place.test) for place in places} == set(
        itertools.product(DATASETS, SHARES)
    )
    for (job,) in places.values():
        assert job.measures == ("trace",)
        assert (job.recipe.settings.hidden, job.recipe.settings.lr) == (256, 0.005)
        assert job.recipe.settings.epochs == 800
