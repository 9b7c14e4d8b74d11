"""Experiments of the papers: panels, claims and printed numbers, from *.toml and numbers.csv."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from fedkme.config import Settings, load_toml, validate

Place = float | str
"""Place on the axis of a panel: a number, or the name of a data set or classifier."""


class PaperPanel(Settings):
    """One drawing of a figure, or one quantity of a table."""

    name: str
    title: str
    x: str = ""
    """Title of its own axis; default the figure's."""
    metric: str = ""
    """Model of metrics.json whose accuracy it shows; none: something else."""
    best: Literal["", "high", "low"] = ""
    """Side on which a number is better."""


class PaperClaim(Settings):
    """A sentence of the paper that a panel can refute."""

    text: str
    panel: str
    method: str
    minus: str = ""
    """Method whose value is subtracted, draw by draw."""
    times: str = ""
    """Method whose value is the unit."""
    low: float = -math.inf
    high: float = math.inf
    over: Literal["every", "most", "mean"]
    """Points of the axis at which it has to hold."""
    reading: str = ""
    """Reading of words as numbers."""


class PaperFigure(Settings):
    """One of a paper's experiments, or one of ours in its way."""

    title: str
    source: str
    x: str
    method: str
    """Protocol or method that is run, and the data, in words."""
    unsaid: str = ""
    """Choices that the paper leaves open."""
    panels: tuple[PaperPanel, ...]
    claims: tuple[PaperClaim, ...] = ()
    reasons: tuple[str, ...] = ()
    """Reasons for numbers that differ."""
    baselines: tuple[str, ...] = ("real",)
    """Methods without privacy, whose numbers are nothing to be reached."""
    y: str = ""
    """Title of the axis of values; none: the panels' titles name their values."""
    drawn: bool = False
    """True where the paper has a drawing of it."""
    logarithmic: bool = False
    """True where both axes are."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = {panel.name for panel in self.panels}
        if unknown := {claim.panel for claim in self.claims} - names:
            raise ValueError(f"a claim is about panel {min(unknown)!r}, which is not there")
        return self


@cache
def figure_of(name: str) -> PaperFigure:
    """An experiment by its name in the files."""
    content = _content()
    return validate(PaperFigure, content[name] | {"reasons": content["reasons"].get(name, ())}, name)


@cache
def printed_numbers(name: str) -> Mapping[tuple[str, str, Place], float]:
    """Numbers that a paper prints, or that its code stored, by panel, method and x."""
    with _HERE.joinpath("numbers.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["figure"] == name]
    return {(row["panel"], row["method"], _place(row["x"])): float(row["value"]) for row in rows}


def method_title(method: str) -> str:
    """A method in words."""
    return str(_content()["methods"].get(method, method))


def _place(text: str) -> Place:
    try:
        return float(text)
    except ValueError:
        return text


@cache
def _content() -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for file in sorted(_HERE.glob("*.toml")):
        for key, value in load_toml(file).items():
            merged[key] = merged.get(key, {}) | value
    return merged


_HERE = Path(__file__).parent
