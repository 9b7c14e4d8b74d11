"""Lines with error bars."""

from __future__ import annotations

import math
import re

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
