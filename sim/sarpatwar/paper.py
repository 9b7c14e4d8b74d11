"""Claims of the paper and panels that test them, from paper.toml."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import model_validator

from fedkme.config import Settings, load_toml, validate


class PaperPanel(Settings):
    """One drawing of a figure."""

    name: str
    title: str
    x: str = ""
    """Title of its own axis; default the figure's."""
    metric: str = ""
    """Model of metrics.json whose accuracy it shows; none: something else."""


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
    """One of the paper's experiments."""

    title: str
    source: str
    x: str
    method: str
    """Protocol and data that are run, in words."""
    unsaid: str
    """Choices that the paper leaves open."""
    panels: tuple[PaperPanel, ...]
    claims: tuple[PaperClaim, ...]
    reasons: tuple[str, ...] = ()
    """Reasons for numbers that differ."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        known = {panel.name for panel in self.panels}
        if unknown := {claim.panel for claim in self.claims} - known:
            raise ValueError(f"a claim is about panel {min(unknown)!r}, which is not there")
        return self


@cache
def figure_of(name: str) -> PaperFigure:
    """An experiment by its name on the command line."""
    content = load_toml(_FILE)
    return validate(PaperFigure, content[name] | {"reasons": content["reasons"][name]}, _FILE.name)


def method_title(method: str) -> str:
    """A method in words."""
    title: str = load_toml(_FILE)["methods"][method]
    return title


_FILE = Path(__file__).with_name("paper.toml")
