"""Tasks and their results, in a form that can travel to any machine."""

import hashlib
import importlib
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from fedkme import __version__


@dataclass(frozen=True, slots=True)
class Task:
    """Call of a function of this package, as plain values.

    Attributes:
        name: name for people, on dashboards and in logs.
        function: `MODULE:NAME`; takes the argument, and returns JSON values.
        argument: a JSON value.
    """

    name: str
    function: str
    argument: Any


@dataclass(frozen=True, slots=True)
class LostTask:
    """Takes the place of a result: the task raised, or its process or node is gone; `cause` says which."""

    cause: str


Results = Generator[tuple[int, Any], None, None]
"""Yields the place of each finished task with its result or a `LostTask`.

Closing the generator, as after ctrl-C, ends the running tasks.
"""


def task_of(name: str, function: Callable[[Any], Any], argument: Any) -> Task:
    """Make a task from a module's function."""
    return Task(name, f"{function.__module__}:{function.__qualname__}", argument)


def perform(function: str, argument: Any) -> Any:
    """Run a task in this process."""
    return named(function)(argument)


def named(name: str) -> Any:
    """Find a function or class of a module by `MODULE:NAME`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def key_of(content: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of this package's version and everything that a task depends on."""
    versioned = {"version": __version__, **content}
    return hashlib.sha256(json.dumps(versioned, sort_keys=True).encode()).hexdigest()
