"""Axes, ticks and shapes: coordinates by hand."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgcl.report.drawing import drawing
from cgcl.report.panel import Frame, Panel
from cgcl.report.svg import FIRST, SECOND, short, stroke, words
from cgcl.report.ticks import tick_label, ticks

# 100 units a side, 10 from the left, 20 from the top; 0 to 10 across and 0 to 1 upwards.
FRAME = Frame(10, 20, 100, 100, (0, 10), (0, 1))


def marks_of(panel):
    """Return what a panel draws between its axes."""
    return re.findall(r'<g clip-path="url\(#p\)">(.*?)</g>', panel.draw(FRAME, "p"), re.DOTALL)[0]


def path_of(panel):
    return re.findall(r' d="([^"]+)"', marks_of(panel))


def test_numbers_become_places():
    assert FRAME.x(0) == 10
    assert FRAME.x([5, 10]).tolist() == [60, 110]
    assert FRAME.y(0) == 120
    assert FRAME.y([0.25, 1]).tolist() == [95, 20]


def test_axes_may_run_backwards():
    upside_down = Frame(0, 0, 10, 10, (0, 1), (5, 0))
    assert upside_down.y([0, 5]).tolist() == [0, 10]


def test_a_line_goes_through_its_points():
    panel = Panel("x", "y")
    panel.line([0, 5, 10], [0, 1, 0.5], FIRST)
    assert path_of(panel) == ["M10 120L60 20L110 70"]
    assert "<circle" not in marks_of(panel)


def test_a_line_of_a_single_point_is_a_dot():
    panel = Panel("x", "y")
    panel.line([5], [0.5], FIRST)
    assert marks_of(panel).count('<circle cx="60" cy="70"') == 1


def test_an_area_is_closed_along_its_base():
    panel = Panel("x", "y")
    panel.area([0, 10], [0.5, 1], FIRST)
    assert path_of(panel) == ["M10 70L110 20L110 120L10 120Z"]


def test_lines_from_edge_to_edge():
    panel = Panel("x", "y")
    panel.across(0.5, FIRST, (4, 4))
    panel.upright(5, FIRST, (4, 4), "here")
    assert path_of(panel) == ["M10 70H110", "M60 120V20"]


def test_a_bar_lies_around_its_row():
    panel = Panel("x", "y")
    panel.bar(0.5, 0, 5, FIRST, thick=0.2, opacity=1)
    assert path_of(panel) == ["M10 80L60 80L60 60L10 60Z"]


def test_intervals_have_caps_across_them():
    panel = Panel("x", "y")
    panel.interval((0, 0.5), (5, 0.5), FIRST)
    panel.interval((5, 0), (5, 1), FIRST)
    assert path_of(panel) == [
        "M10 70L60 70M10 70m0 -2.5v5M60 70m0 -2.5v5",
        "M60 120L60 20M60 120m-2.5 0h5M60 20m-2.5 0h5",
    ]


def test_dots_have_the_intervals_that_they_are_given():
    panel = Panel("x", "y")
    panel.dots([0, 5], [0.5, 0.5], FIRST, above=[1, 1], below=[0, 0.25])
    assert [path.partition("m")[0] for path in path_of(panel)] == [
        "M10 120L10 20M10 120",
        "M60 95L60 20M60 95",
    ]
    assert marks_of(panel).count("<circle") == 2


def test_limits_have_air_around_the_data():
    panel = Panel("x", "y")
    panel.line([0, 10], [2, 4], FIRST)
    assert panel.limits() == ((-0.5, 10.5), (1.9, 4.1))
    panel.y_limits = (0, 5)
    assert panel.limits()[1] == (0, 5)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e9, 1e-9])
def test_data_without_extent_get_some(value):
    panel = Panel("x", "y")
    panel.line([value], [value], FIRST)
    (low, high), _ = panel.limits()
    assert low < value < high
    assert drawing("p", "one point", [panel]).endswith("</svg>")


def test_keys_that_do_not_fit_go_to_another_row():
    def rows_of(count):
        panel = Panel("x", "y")
        for number in range(count):
            panel.line([0, 1], [0, 1], FIRST, label=f"a long name, number {number}")
        svg = drawing("p", "many lines", [panel])
        found = re.findall(r'y="([\d.]+)" style="[^"]*">a long name', svg)
        assert len(found) == count
        return len(set(found))

    assert (rows_of(1), rows_of(2), rows_of(3), rows_of(5)) == (1, 1, 2, 3)


def test_counted_axes_show_whole_numbers_only():
    panel = Panel("Epoch", "y", is_counted=True)
    panel.line([1, 2], [0, 1], FIRST)
    svg = panel.draw(Frame(0, 0, 100, 100, *panel.limits()), "p")
    below = re.findall(r'y="112" [^>]*>([^<]+)<', svg)
    assert below == ["1", "2"]


def test_panels_above_each_other_share_their_left_edge():
    upper, lower = Panel("", "wide"), Panel("x", "narrow")
    upper.line([0, 1], [0, 1_000_000], FIRST)
    lower.line([0, 1], [0, 1], SECOND)
    svg = drawing("p", "two", [upper, lower], shares=(3, 1))
    boxes = re.findall(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', svg)
    (left, top, width, height), (left_2, top_2, width_2, height_2) = np.array(boxes, dtype=float)
    assert (left, width) == (left_2, width_2)
    assert height == pytest.approx(3 * height_2, abs=0.05)
    assert top + height < top_2
    assert svg.count(">x<") == 1


def test_words_are_never_markup():
    assert ">&lt;b&gt; &amp; &quot;<" in words('<b> & "', 0, 0)


def test_dashes_grow_with_the_line():
    assert "stroke-dasharray: 10 2" in stroke(FIRST, 2, (5, 1))
    assert "dasharray" not in stroke(FIRST, 2)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 9))
def test_ticks_are_few_even_and_inside(low, extent, most):
    high = low + extent
    found = np.array(ticks(low, high, most))
    assert 1 <= found.size <= most + 1
    slack = 1e-6 * extent + 1e-9 * abs(low)
    assert (found >= low - slack).all()
    assert (found <= high + slack).all()
    assert np.diff(found, 2) == pytest.approx(0, abs=1e-3 * extent)


def test_labels_tell_ticks_apart():
    for low, high in ((0, 1), (0.9, 1.0), (95.2, 95.9), (0, 1e6), (-0.55, -0.1), (1e-4, 9e-4)):
        places = ticks(low, high, 8)
        step = places[1] - places[0]
        labels = [tick_label(place, step) for place in places]
        assert len(set(labels)) == len(places)
        spoken = [float(label.replace(",", "").replace("\N{MINUS SIGN}", "-")) for label in labels]
        assert spoken == pytest.approx(places)
    assert tick_label(-0.5, 0.25) == "\N{MINUS SIGN}0.50"


@given(st.floats(-1e4, 1e4))
def test_coordinates_are_short_and_near(value):
    text = short(value)
    assert abs(float(text) - value) <= 0.005 + 1e-9
    assert text != "-0"
    assert not text.endswith((".", ".0"))
