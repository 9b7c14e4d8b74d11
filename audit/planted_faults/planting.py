"""The type of planted faults, and helpers that plant them in the product."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from audit.attacks.finding import Layer, Subject
from audit.replay.neighbours import Kind

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]


@dataclass(frozen=True)
class PlantedFault:
    """Planted fault, with a column for each layer of the audit that finds it.

    Attributes:
        case: of replay: protocol, and a part of the case's note; None: replay does not find the fault.
        plant: puts the fault into the product.
        kinds: neighbours that show the fault.
        says: mistake of a careless colleague, a sentence.
        attack: name of the subject of `fedkme audit attack` that finds the fault; empty: attacks do not.
        test: a test, `path::name`, that finds the fault; empty: no such test is known.
        game: layer of an attack, and its subject with the fault as a part; None: not planted in a subject.
    """

    case: tuple[str, str] | None
    plant: Plant
    kinds: tuple[Kind, ...] = ("corner",)
    says: str = ""
    attack: str = ""
    test: str = ""
    game: tuple[Layer, Callable[[], Subject]] | None = None


def around(place: Any, name: str, change: Callable[..., Any]) -> Plant:
    """Replace a function by `change(before, *arguments)`."""

    def plant(patch: Patch) -> None:
        before = getattr(place, name)

        @functools.wraps(before)
        def changed(*arguments: Any, **named: Any) -> Any:
            return change(before, *arguments, **named)

        patch.setattr(place, name, changed)

    return plant


def forget_caches() -> None:
    """Clear the caches of the product's functions, before a fault is planted and afterwards."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("consumer", "curator", "fedkme", "owner"):
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


def everywhere(function: Any, change: Callable[..., Any]) -> Plant:
    """Replace a function by `change(before, *arguments)` in every module of the product."""

    def plant(patch: Patch) -> None:
        @functools.wraps(function)
        def changed(*arguments: Any, **named: Any) -> Any:
            return change(function, *arguments, **named)

        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in ("consumer", "curator", "fedkme", "owner"):
                for key, value in list(vars(module).items()):
                    if value is function:
                        patch.setattr(module, key, changed)

    return plant


def all_of(*plants: Plant) -> Plant:
    def plant(patch: Patch) -> None:
        for plant_one in plants:
            plant_one(patch)

    return plant


def nothing(place: Any, name: str, instead: Any = None) -> Plant:
    return around(place, name, lambda before, *arguments, **named: instead)


def scaled(noise: Any, factor: float) -> Any:
    """Make a source whose scales are wrong by a factor."""

    class Scaled:
        site = getattr(noise, "site", None)

        def __getattr__(self, name: str) -> Any:
            drawn = getattr(noise, name)
            return drawn if name == "uniform" else lambda scale, size: drawn(factor * scale, size)

        def discrete_laplace(self, scale: float, size: int) -> Any:
            return noise.discrete_laplace(factor * scale, size)

    return Scaled()


def drawn_once(before: Any, cells: Any, size: int, how: Any, noise: Any, *, draws: dict[int, Any]) -> Any:
    """Add the noise of the first counts to all later counts."""
    exact = np.bincount(cells, minlength=size).astype(np.int64)
    if size not in draws:
        draws[size] = noise.discrete_laplace(how.scale, size)
    return exact + draws[size]


def no_line_towards(observer: str, place: Any, name: str = "histogram_disclosures") -> Plant:
    """Drop a function's lines towards an observer."""

    def without(before: Any, *arguments: Any) -> Any:
        return [line for line in before(*arguments) if line.observer != observer]

    return around(place, name, without)
