"""Axes, ticks and shapes: places by hand."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgcl.report.drawing import FIRST, Frame, Panel, drawing, font, labelled, stroke, ticks

LINE = stroke(FIRST)
FRAME = Frame(10, 20, 110, 120, (0, 10), (0, 1))


def panel_of(x, y, **options):
    panel = Panel("x", "y", **options)
    panel.line(x, y, LINE)
    return panel


def test_numbers_become_places_and_axes_may_run_backwards():
    assert FRAME.x([0, 5, 10]).tolist() == [10, 60, 110]
    assert FRAME.y([0, 0.25, 1]).tolist() == [120, 95, 20]
    assert Frame(0, 0, 10, 10, (0, 1), (5, 0)).y([0, 5]).tolist() == [0, 10]


def test_a_line_goes_through_its_points():
    assert "M10 120L60 20L110 70" in panel_of([0, 5, 10], [0, 1, 0.5]).draw(FRAME, "p")


def test_an_interval_goes_from_end_to_end_with_a_cap_at_both():
    panel = Panel("x", "y")
    panel.interval((2, 0.25), (8, 0.25), LINE)
    assert "M30 95L90 95M30 95m0 -2.5v5M90 95m0 -2.5v5" in panel.draw(FRAME, "p")


def test_words_beside_a_point_are_small_unless_asked_for():
    panel = Panel("x", "y")
    panel.say("untold", 5, 0.5)
    panel.say("large", 5, 0.5, font(20))
    drawn = panel.draw(FRAME, "p")
    assert f'style="{font(8)}">untold<' in drawn
    assert f'style="{font(20)}">large<' in drawn


def test_limits_have_air_around_the_data():
    panel = panel_of([0, 10], [2, 4])
    assert panel.limits() == ((-0.5, 10.5), (1.9, 4.1))
    panel.y_limits = (0, 5)
    assert panel.limits()[1] == (0, 5)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e9, 1e-9])
def test_data_without_extent_get_some(value):
    panel = panel_of([value], [value])
    (low, high), _ = panel.limits()
    assert low < value < high
    assert drawing("p", "one point", panel).endswith("</svg>")


@pytest.mark.parametrize(("keys", "rows"), [(1, 1), (2, 1), (3, 2), (5, 3)])
def test_keys_that_do_not_fit_go_to_another_row(keys, rows):
    panel = Panel("x", "y")
    for number in range(keys):
        panel.line([0, 1], [0, 1], LINE, f"a long name, number {number}")
    svg = drawing("p", "many lines", panel)
    found = re.findall(r'y="([\d.]+)" style="[^"]*">a long name', svg)
    assert (len(found), len(set(found))) == (keys, rows)


def test_counted_axes_show_whole_numbers_only():
    panel = panel_of([1, 2], [0, 1], is_counted=True)
    svg = panel.draw(Frame(0, 0, 100, 100, *panel.limits()), "p")
    assert re.findall(r'y="112" [^>]*>([^<]+)<', svg) == ["1", "2"]


def test_panels_above_each_other_share_their_left_edge():
    upper, lower = panel_of([0, 1], [0, 1_000_000], share=3), panel_of([0, 1], [0, 1])
    svg = drawing("p", "two", upper, lower)
    boxes = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', svg)
    (left, top, width, height), (left_2, top_2, width_2, height_2) = np.array(boxes, dtype=float)
    assert (left, width) == (left_2, width_2)
    assert height == pytest.approx(3 * height_2, abs=0.05)
    assert top + height < top_2
    assert svg.count(">x<") == 1


def test_words_are_never_markup():
    assert ">&lt;b&gt; &amp; &quot;<" in drawing("p", "nothing", Panel('<b> & "', "y"))


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 9))
def test_ticks_are_few_even_and_inside(low, extent, most):
    high = low + extent
    found = np.array(ticks(low, high, most))
    assert 1 <= found.size <= most + 1
    slack = 1e-6 * extent + 1e-9 * abs(low)
    assert (found >= low - slack).all()
    assert (found <= high + slack).all()
    assert np.diff(found, 2) == pytest.approx(0, abs=1e-3 * extent)


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.9, 1.0), (95.2, 95.9), (0, 1e6), (-0.55, -0.1), (1e-4, 9e-4)]
)
def test_labels_tell_ticks_apart(low, high):
    places, labels = zip(*labelled(ticks(low, high, 8)), strict=True)
    assert len(set(labels)) == len(places)
    spoken = [float(label.replace(",", "").replace("\N{MINUS SIGN}", "-")) for label in labels]
    assert spoken == pytest.approx(places)
