"""Tasks: what is done of them anywhere, and what comes back."""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from fedkme import __version__


@dataclass(frozen=True, slots=True)
class Task:
    """A call of a function of this package, fit to travel.

    Attributes:
        name: for people, on dashboards and in logs.
        function: `MODULE:NAME`; takes the argument, and returns values that JSON can hold.
        argument: of JSON's values.
    """

    name: str
    function: str
    argument: Any


@dataclass(frozen=True, slots=True)
class LostTask:
    """Stand-in for a result: a task's process or node is gone, or the task raised; `cause` says which."""

    cause: str


Results = Generator[tuple[int, Any], None, None]
"""Places of tasks with their results, or a `LostTask` for each, as they end.

Who stops listening, as after ctrl-C, ends what is under way.
"""


def task_of(name: str, function: Callable[[Any], Any], argument: Any) -> Task:
    """Make a task of a function of a module."""
    return Task(name, f"{function.__module__}:{function.__qualname__}", argument)


def perform(function: str, argument: Any) -> Any:
    """Carry a task out in this process."""
    return named(function)(argument)


def named(name: str) -> Any:
    """Find a function or class of a module by `MODULE:NAME`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def key_of(content: Mapping[str, Any]) -> str:
    """SHA-256, in hex, of this package's version and of what a task depends on."""
    versioned = {"version": __version__, **content}
    return hashlib.sha256(json.dumps(versioned, sort_keys=True).encode()).hexdigest()
