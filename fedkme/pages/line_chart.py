"""Lines with error bars, as one SVG element: a value against a setting or a round, one line a series."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fedkme.pages.html import FACTOR, WIDTH, Html, decades, short, svg, tag, ticks

COLOURS = ("#2463a6", "#d9822b", "#2e8b57", "#a3341f", "#7b5ea7", "#8a7340", "#c45a93", "#5b7c8d")
"""Colours of the lines in turn; legible on light and on dark."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, WIDTH - 14, 26, 190
_LEGEND = 18
_FEW = 12
"""Points of a line that have a dot each without an error, and rounds that have a label each."""
Place = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Point:
    """One value.

    Attributes:
        x: the setting, or its position where settings are words.
        y: the value.
        error: half the length of its bar; NaN for none.
    """

    x: float
    y: float
    error: float = math.nan


@dataclass(frozen=True, slots=True)
class Series:
    """One line, by ascending x."""

    name: str
    points: tuple[Point, ...]


def lines(
    title: str,
    x_name: str,
    y_name: str,
    series: Sequence[Series],
    words: Sequence[str] = (),
    step: bool = False,
    times: bool = False,
) -> Html:
    """Draw series; empty without a point. Values that are not finite are left out.

    The vertical scale is logarithmic where values span a factor of more than 20 (and of less than 10^9,
    which is rounding), the horizontal one where settings that are not consecutive span one of 10 or more.

    Args:
        title: what the drawing says to someone who cannot see it.
        x_name: what the setting is.
        y_name: what the value is.
        series: the lines; one without a name has no legend.
        words: names of the positions 0, 1, ... where settings are words; points are then not joined.
        times: settings are times, Unix seconds, of which the ends alone are named.
        step: draw one count, constant from the setting before to its own, as an area from 0.
    """
    series = [replace(each, points=tuple(filter(_is_finite, each.points))) for each in series]
    points = [point for each in series for point in each.points]
    if not points:
        return Html()
    xs = sorted({point.x for point in points})
    y_at, y_marks = _vertical(points, step)
    first = xs[0]
    x_at = _horizontal([first - 1, *xs] if step else xs, words)
    shapes = [tag("text", y_name, class_="axis", x=0, y=12)]
    for mark in y_marks:
        y = y_at(mark)
        shapes.append(tag("line", class_="grid", x1=_LEFT, x2=_RIGHT, y1=y, y2=y))
        shapes.append(tag("text", short(mark), x=_LEFT - 8, y=y + 4, text_anchor="end"))
    if len(xs) > _FEW and _is_consecutive(xs):
        xs = [mark for mark in ticks(xs[0], xs[-1]) if xs[0] <= mark <= xs[-1]]
    for x in (xs[0], xs[-1]) if times else xs:
        name = words[int(x)] if words else short(x)
        at = x if times else ""
        shapes.append(tag("text", name, x=x_at(x), y=_BOTTOM + 18, text_anchor="middle", data_at=at))
    shapes.append(tag("text", x_name, class_="axis", x=_RIGHT, y=_BOTTOM + 36, text_anchor="end"))
    for number, each in enumerate(series):
        if step:
            corners = "".join(f"V{y_at(point.y):.1f}H{x_at(point.x):.1f}" for point in each.points)
            shapes.append(
                tag("path", class_="area", d=f"M{x_at(first - 1):.1f} {_BOTTOM}{corners}V{_BOTTOM}Z")
            )
        else:
            shapes += _line(each, number, len(series), x_at, y_at, joined=not words)
    named = sum(bool(each.name) for each in series)
    return svg(title, _BOTTOM + 42 + (6 + _LEGEND * named if named else 0), shapes)


def _is_finite(point: Point) -> bool:
    return math.isfinite(point.x) and math.isfinite(point.y)


def _is_consecutive(xs: Sequence[float]) -> bool:
    return max(xs) - min(xs) == len({*xs}) - 1


def _line(series: Series, number: int, of: int, x_at: Place, y_at: Place, joined: bool) -> list[Html]:
    colour = COLOURS[number % len(COLOURS)]
    dash = f"{2 + 2 * (number // len(COLOURS))} 3" if number >= len(COLOURS) else ""
    stroke = {"stroke": colour, "stroke_width": "1.8", "fill": "none", "stroke_dasharray": dash}
    aside = 4.0 * (number - (of - 1) / 2) if of <= 8 else 0.0  # bars of several lines would hide each other
    places = [(x_at(point.x) + aside, point) for point in series.points]
    shapes = []
    if joined:
        path = " ".join(f"{x:.1f},{y_at(point.y):.1f}" for x, point in places)
        shapes.append(tag("polyline", **stroke, points=path))
    for place, (x, point) in enumerate(places, 1):
        if point.error > 0:
            low, high = y_at(point.y - point.error), y_at(point.y + point.error)
            shapes.append(tag("path", **stroke, d=f"M{x:.1f} {low:.1f}V{high:.1f}"))
        elif _FEW < len(places) != place:
            continue
        shapes.append(tag("circle", fill=colour, cx=x, cy=y_at(point.y), r=3.2))
    if series.name:
        y = _BOTTOM + 50 + _LEGEND * number
        shapes.append(tag("path", **stroke, d=f"M{_LEFT} {y - 4}h22"))
        shapes.append(tag("text", series.name, x=_LEFT + 30, y=y))
    return shapes


def _vertical(points: Sequence[Point], step: bool) -> tuple[Place, list[float]]:
    """Place of a value, in pixels, and the marks of the scale; what lies below it is at its foot."""
    ends = [point.y + sign * point.error for point in points if point.error > 0 for sign in (-1, 1)]
    values = [point.y for point in points]
    logarithmic = not step and FACTOR * min(values) < max(values) < 1e9 * min(values)
    low, high = min(values + ends), max(values + ends)
    if logarithmic:
        low = low if low > 0 else min(values)
    marks = decades(low, high) if logarithmic else ticks(min(0.0, low), high)
    first, last = (math.log(mark) if logarithmic else mark for mark in (marks[0], marks[-1]))

    def place(y: float) -> float:
        clipped = max(y, marks[0])
        share = ((math.log(clipped) if logarithmic else clipped) - first) / ((last - first) or 1.0)
        return _BOTTOM - (_BOTTOM - _TOP) * share

    return place, marks


def _horizontal(xs: Sequence[float], words: Sequence[str]) -> Place:
    logarithmic = not words and 0 < 10 * min(xs) <= max(xs) and not _is_consecutive(xs)
    first, last = (math.log(x) if logarithmic else x for x in (min(xs), max(xs)))
    margin = 24

    def place(x: float) -> float:
        share = ((math.log(x) if logarithmic else x) - first) / (last - first) if last > first else 0.5
        return _LEFT + margin + (_RIGHT - _LEFT - 2 * margin) * share

    return place
