"""Lines with error bars, and bars."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from fedkme.pages.html import Bar, bars
from fedkme.pages.line_chart import Point, Series, lines


def heights(drawing: str) -> list[float]:
    return [float(y) for y in re.findall(r'<circle [^>]*cy="([\d.]+)"', drawing)]


def test_a_series_is_a_line_with_a_bar_for_each_error() -> None:
    drawing = lines("a", "p", "MMD²", [Series("cells <1>", (Point(50, 2.0, 0.5), Point(100, 1.0)))])
    assert drawing.count("<polyline") == 1
    assert drawing.count("<circle") == 2
    assert len(re.findall(r"M[\d.]+ [\d.]+V", drawing)) == 1
    assert "cells &lt;1&gt;" in drawing
    above, below = heights(drawing)
    assert above < below  # pixels grow downwards


def test_a_wide_range_is_logarithmic() -> None:
    values = (0.001, 0.1, 10.0)
    series = Series("s", tuple(Point(x, y, 0.9) for x, y in enumerate(values, 1)))
    first, second, third = heights(lines("a", "x", "y", [series]))
    assert math.isclose(first - second, second - third, abs_tol=0.2)


def test_words_have_places_and_are_not_joined() -> None:
    drawing = lines("a", "protocol", "y", [Series("s", (Point(0, 1), Point(1, 2)))], ["cells", "uniform"])
    assert "<polyline" not in drawing
    assert ">cells</text>" in drawing


def test_nothing_is_drawn_of_nothing() -> None:
    assert lines("a", "x", "y", [Series("s", ())]) == ""


def test_one_point_of_value_zero_can_be_drawn() -> None:
    assert len(heights(lines("a", "x", "y", [Series("s", (Point(5, 0.0),))]))) == 1


@given(
    st.lists(st.floats(1e-12, 1e6) | st.sampled_from([0.0, float("nan")]), min_size=1, max_size=30),
    st.booleans(),
)
def test_a_curve_stays_inside_its_drawing(values: list[float], step: bool) -> None:
    # Any series of estimates or counts, zeros and gaps included, can be drawn.
    points = tuple(Point(x, y) for x, y in enumerate(values, start=1))
    drawing = lines("t", "round", "y", [Series("", points)], step=step)
    if not any(value == value for value in values):
        assert drawing == ""
        return
    root = ElementTree.fromstring(drawing)
    if not step:
        line = root.find("polyline")
        assert line is not None
        for pair in line.get("points", "").split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= 480
            assert 25.9 <= y <= 190.1


def test_bars_of_nothing_and_long_names_can_be_drawn() -> None:
    drawing = bars("t", [Bar("n" * 60, ((0.0, "main"), (0.0, "waste")), "0")])
    assert ElementTree.fromstring(drawing) is not None
    assert "n" * 23 not in drawing
