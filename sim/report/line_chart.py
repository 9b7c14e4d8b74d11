"""Lines with error bars, as one SVG element: a value against a setting, one line a series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from sim.formatting import short
from sim.report.html import WIDTH, decades, svg, ticks

COLOURS = ("#2463a6", "#d9822b", "#2e8b57", "#a3341f", "#7b5ea7", "#8a7340", "#c45a93", "#5b7c8d")
"""Colours of the lines in turn; legible on light and on dark."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, WIDTH - 14, 26, 220
_LEGEND = 18
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


def lines(title: str, x_name: str, y_name: str, series: Sequence[Series], words: Sequence[str] = ()) -> str:
    """Draw series; empty without a point.

    The vertical scale is logarithmic where values span a factor of more than 20, the horizontal one where
    settings span one of 10 or more.

    Args:
        title: what the drawing says to someone who cannot see it.
        x_name: what the setting is.
        y_name: what the value is.
        series: the lines.
        words: names of the positions 0, 1, ... where settings are words; points are then not joined.
    """
    points = [point for each in series for point in each.points]
    if not points:
        return ""
    y_at, y_marks = _vertical(points)
    x_at = _horizontal([point.x for point in points], words)
    shapes = [f'<text class="axis" x="0" y="12">{escape(y_name)}</text>']
    for mark in y_marks:
        y = y_at(mark)
        shapes.append(f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        shapes.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{short(mark)}</text>')
    for x in sorted({point.x for point in points}):
        name = escape(words[int(x)] if words else short(x))
        shapes.append(f'<text x="{x_at(x):.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{name}</text>')
    shapes.append(
        f'<text class="axis" x="{_RIGHT}" y="{_BOTTOM + 36}" text-anchor="end">{escape(x_name)}</text>'
    )
    for number, each in enumerate(series):
        shapes += _line(each, number, len(series), x_at, y_at, joined=not words)
    return svg(title, _BOTTOM + 48 + _LEGEND * len(series), shapes)


def _line(series: Series, number: int, of: int, x_at: Place, y_at: Place, joined: bool) -> list[str]:
    colour = COLOURS[number % len(COLOURS)]
    dash = f' stroke-dasharray="{2 + 2 * (number // len(COLOURS))} 3"' if number >= len(COLOURS) else ""
    stroke = f'stroke="{colour}" stroke-width="1.8" fill="none"{dash}'
    aside = 4.0 * (number - (of - 1) / 2) if of <= 8 else 0.0  # bars of several lines would hide each other
    places = [(x_at(point.x) + aside, point) for point in series.points]
    shapes = []
    if joined:
        path = " ".join(f"{x:.1f},{y_at(point.y):.1f}" for x, point in places)
        shapes.append(f'<polyline {stroke} points="{path}"/>')
    for x, point in places:
        if point.error > 0:
            low, high = y_at(point.y - point.error), y_at(point.y + point.error)
            shapes.append(f'<path {stroke} d="M{x:.1f} {low:.1f}V{high:.1f}"/>')
        shapes.append(f'<circle fill="{colour}" cx="{x:.1f}" cy="{y_at(point.y):.1f}" r="3.2"/>')
    y = _BOTTOM + 50 + _LEGEND * number
    shapes.append(f'<path {stroke} d="M{_LEFT} {y - 4}h22"/>')
    shapes.append(f'<text x="{_LEFT + 30}" y="{y}">{escape(series.name)}</text>')
    return shapes


def _vertical(points: Sequence[Point]) -> tuple[Place, list[float]]:
    """Place of a value, in pixels, and the marks of the scale; what lies below it is at its foot."""
    ends = [point.y + sign * point.error for point in points if point.error > 0 for sign in (-1, 1)]
    values = [point.y for point in points]
    logarithmic = 20 * min(values) < max(values) < 1e9 * min(values)
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
    logarithmic = not words and 0 < 10 * min(xs) <= max(xs)
    first, last = (math.log(x) if logarithmic else x for x in (min(xs), max(xs)))
    margin = 24

    def place(x: float) -> float:
        share = ((math.log(x) if logarithmic else x) - first) / (last - first) if last > first else 0.5
        return _LEFT + margin + (_RIGHT - _LEFT - 2 * margin) * share

    return place
