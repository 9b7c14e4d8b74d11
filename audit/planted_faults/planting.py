"""Plants faults in the product: a function runs with changed text for as long as a patch lasts."""

from __future__ import annotations
import __future__

import ast
import inspect
import itertools
import logging
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pytest

from audit.replay.neighbours import Kind
from fedkme.errors import ConfigError

_PRODUCT = ("consumer", "curator", "fedkme", "owner")


@dataclass(frozen=True)
class TextChange:
    """Change of a function's text.

    Attributes:
        place: place of the function, `module:name` or `module:Class.name`.
        old: text, which the function has once; empty: `new` stands before the first line.
        new: text in its place.
    """

    place: str
    old: str
    new: str


@dataclass(frozen=True)
class PlantedFault:
    """Planted fault, with a column for each layer of the audit that finds it.

    Attributes:
        says: mistake of a careless colleague, a sentence.
        edits: changes that put the fault into the product.
        case: replay's case: protocol, and a part of the case's note; None: replay does not find the fault.
        kinds: neighbours that show the fault.
        attack: name of the subject of `fedkme audit attack` that finds the fault; empty: attacks do not.
        layer: layer of the attack that must find it; empty: any.
        chaos: number of simulated schedules, from seed 0, of which the last finds the fault; 0: none does.
    """

    says: str
    edits: Sequence[TextChange] = ()
    case: tuple[str, str] | None = None
    kinds: tuple[Kind, ...] = ("corner",)
    attack: str = ""
    layer: str = ""
    chaos: int = 0

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        """Change the functions' code.

        Raises:
            ConfigError: a function has not the old text, or has it twice.
        """
        values: dict[Any, Any] = {}

        def once(key: Any, make: Callable[[], Any]) -> Any:
            if key not in values:
                values[key] = make()
            return values[key]

        for place, edits in itertools.groupby(self.edits, lambda edit: edit.place):
            function = function_at(place)
            patch.setattr(function, "__code__", _changed(function, list(edits)))
            for name, value in {"once": once, "scaled": scaled, "np": np, "logging": logging}.items():
                if name not in function.__globals__:
                    patch.setitem(function.__globals__, name, value)


def function_at(place: str) -> FunctionType:
    """The function at a place: the getter of a property, the wrapped function of a cache."""
    module, _, path = place.partition(":")
    target: Any = import_module(module)
    for name in path.split("."):
        target = inspect.getattr_static(target, name)
    if isinstance(target, property):
        target = target.fget
    elif isinstance(target, cached_property):
        target = target.func
    target = inspect.unwrap(target)
    assert isinstance(target, FunctionType), place
    return target


def _changed(function: FunctionType, edits: Sequence[TextChange]) -> CodeType:
    """Code of a function with its text changed; its global names resolve as before."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    (tree,) = ast.parse("\n".join(lines)).body
    assert isinstance(tree, ast.FunctionDef | ast.AsyncFunctionDef)
    documented = ast.get_docstring(tree) is not None
    begin = tree.body[0].end_lineno if documented else tree.body[0].lineno - 1
    head = lines[tree.lineno - 1 : tree.body[0].lineno - 1]
    text = "\n".join(lines[begin:])
    for edit in edits:
        where = f"{edit.place}: {edit.old!r}"
        if edit.old and text.count(edit.old) != 1:
            raise ConfigError(f"{where} is there {text.count(edit.old)} times", "Correct the fault's edit.")
        place = text.index(edit.old) if edit.old else len(text) - len(text.lstrip())
        line = text[text.rindex("\n", 0, place) + 1 if "\n" in text[:place] else 0 :]
        new = edit.new.replace("\n", "\n" + line[: len(line) - len(line.lstrip())])
        rest = text[place + len(edit.old) :] if edit.old else "\n" + line
        text = text[:place] + new + rest
    source = "\n".join([*head, text])
    if "." in function.__qualname__:
        source = "class _:\n" + textwrap.indent(source, "    ")
    flags = __future__.annotations.compiler_flag
    module = compile(source, inspect.getfile(function), "exec", flags, dont_inherit=True)
    return next(code for code in _codes(module) if code.co_name == function.__name__)


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def forget_caches() -> None:
    """Clear the caches of the product's functions, before a fault is planted and afterwards."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _PRODUCT:
            for value in list(vars(module).values()):
                if callable(clear := getattr(value, "cache_clear", None)):
                    clear()


def scaled(noise: Any, factor: float) -> Any:
    """Make a source whose scales are wrong by a factor."""

    class Scaled:
        site = getattr(noise, "site", None)

        def __getattr__(self, name: str) -> Any:
            drawn = getattr(noise, name)
            return drawn if name == "uniform" else lambda scale, size: drawn(factor * scale, size)

    return Scaled()
