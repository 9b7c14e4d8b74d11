"""Replay of a release that another project makes, in that project's environment: needs NumPy alone.

What a release may tell of a row is what its declared mechanisms tell: the functions in which it adds noise to
numbers of the table, or chooses by them at random. All else that leaves must be the same for two tables that
differ in one row. So a file names, by the peer's public API:

- `DECLARED`: those functions, "module:Class.method", and after # the attribute that has the claimed
  sensitivity of their argument, if there is one;
- `ROWS` and `NEIGHBOUR`: two tables that differ in one row by the relation that the peer states;
- `release(rows)`: whatever is given away.

The release is run on ROWS, and each declared call's result is kept: what it returns, or, where it returns
nothing, what it sets in its object. A call inside which other declared calls are made is not kept but run.
The release is run on ROWS again, given the same results: where that differs, something draws that nobody
froze, and nothing can be concluded. It is run on NEIGHBOUR, given the results of the first run call by call.
Findings are: another release; another number of declared calls; an argument that moved by more than its
claimed sensitivity; a claimed sensitivity that depends on the rows; the same results of all declared calls in
three runs where nothing is frozen, which says that their noise has a fixed seed.

Draws that are not declared (of rows from a fitted model, say) come from one stream, that of `random`,
`secrets`, `os.urandom` and NumPy, which begins anew in each run and after each declared call. A library's own
source, such as OpenDP's, has to be declared, or the second run says so.

A finding is proof for these two tables; no finding is none for others.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import importlib
import json
import os
import random
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

_SLACK = 1.0 + 1e-9
"""Room for rounding when an argument's distance is compared with its sensitivity."""


@dataclass
class DeclaredCall:
    """Call of a declared mechanism: numbers, claimed sensitivity, result; a leaf has no call inside."""

    name: str
    numbers: list[float]
    claimed: float | None
    result: Any = None
    changed: dict[str, Any] = field(default_factory=dict)
    leaf: bool = True


@dataclass
class FrozenRun:
    """Declared calls of a run, in order; `first` holds those whose results it is given."""

    first: list[DeclaredCall] | None = None
    calls: list[DeclaredCall] = field(default_factory=list)
    stream: Iterator[int] | None = None
    inside: list[DeclaredCall] = field(default_factory=list)

    def call(self, name: str, attribute: str, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call a mechanism, or repeat what the first run's call in this place gave."""
        claimed = getattr(given[0], attribute) if attribute else None
        place, values = len(self.calls), [*given[1:], *named.values()]
        call = DeclaredCall(name, [number for value in values for number in _numbers(value)], claimed)
        self.calls.append(call)
        for around in self.inside:
            around.leaf = False
        earlier = self.first[place] if self.first is not None and place < len(self.first) else None
        if earlier is not None and earlier.leaf and earlier.name == name:
            if earlier.changed:
                vars(given[0]).update(_copied(earlier.changed))
            self.begin_stream()
            return _copied(earlier.result)
        owner = getattr(given[0], "__dict__", None) if given else None
        before = dict(owner or {})
        self.inside.append(call)
        try:
            result = function(*given, **named)
        finally:
            self.inside.pop()
        if result is None and owner is not None:
            call.changed = _copied({key: owner[key] for key in owner if before.get(key) is not owner[key]})
        call.result = _copied(result)
        self.begin_stream()
        return result

    def begin_stream(self) -> None:
        """Begin the stream of draws that are not declared anew, by the number of declared calls so far."""
        if self.stream is not None:
            number = len(self.calls)
            self.stream = iter(range(number << 32, sys.maxsize))
            random.seed(number)
            np.random.seed(number)  # noqa: NPY002  # the stream that peers draw from


def _copied(value: Any) -> Any:
    """Copy of a value, safe from later changes; the value itself where it cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


@contextlib.contextmanager
def frozen(run: FrozenRun, declared: list[str], seeded: bool = True) -> Iterator[None]:
    """Patch the declared functions for a run; if seeded, begin the stream of all other draws anew."""

    def urandom(size: int) -> bytes:
        assert run.stream is not None, "only a seeded run has its stream"
        return hashlib.shake_256(b"%d" % next(run.stream)).digest(size)

    with contextlib.ExitStack() as undo:
        for entry in declared:
            place, _, attribute = entry.partition("#")
            module, _, path = place.partition(":")
            *owners, name = path.split(".")
            owner = functools.reduce(getattr, owners, importlib.import_module(module))
            function = getattr(owner, name)
            undo.callback(setattr, owner, name, function)

            def wrapped(*given: Any, _to: tuple[Any, ...] = (path, attribute, function), **named: Any) -> Any:
                return run.call(*_to, *given, **named)

            setattr(owner, name, functools.wraps(function)(wrapped))
        if not seeded:
            yield
            return
        for holder, name in ((os, "urandom"), (random, "_urandom")):
            undo.callback(setattr, holder, name, getattr(holder, name))
            setattr(holder, name, urandom)
        run.stream = iter(())
        run.begin_stream()
        yield


def replay_release(
    release: Callable[[Any], Any], rows: Any, neighbour: Any, declared: list[str]
) -> tuple[int, list[str]]:
    """Number of declared calls on `rows`, and findings; an empty list says that nothing undeclared was seen.

    Raises:
        RuntimeError: the release on the same rows with the same declared results is another one.
    """
    seed = _fixed_seed(release, rows, declared)  # first: what is imported late draws once
    first, again, other = FrozenRun(), FrozenRun(), FrozenRun()
    released = []
    for run, table in ((first, rows), (again, rows), (other, neighbour)):
        run.first = None if run is first else first.calls
        with frozen(run, declared):
            try:
                released.append(_plain(release(copy.deepcopy(table))))
            except Exception as error:  # an end that depends on a row is a release as well
                released.append(f"an end by {type(error).__name__}")
    if released[0] != released[1] or len(first.calls) != len(again.calls):
        where = _difference(released[0], released[1])
        raise RuntimeError(
            f"the same rows give another release ({where}): something draws that is not declared"
        )
    findings = []
    if released[0] != released[2]:
        findings.append(f"the release differs: {_difference(released[0], released[2])}")
    if len(first.calls) != len(other.calls):
        findings.append(
            f"{len(first.calls)} calls of declared mechanisms, {len(other.calls)} with the neighbour"
        )
    moved: dict[str, str] = {}
    alike = len(first.calls) == len(other.calls)
    for one, two in zip(first.calls, other.calls if alike else []):  # noqa: B905  # the lengths were compared
        if one.claimed is None or len(one.numbers) != len(two.numbers):
            continue
        distance = sum(abs(a - b) for a, b in zip(one.numbers, two.numbers))  # noqa: B905
        if distance > min(one.claimed, two.claimed or 0.0) * _SLACK:
            moved.setdefault(one.name, f"{one.name}: moved by {distance:.4g}, claimed {one.claimed:.4g}")
        elif one.claimed != two.claimed:
            moved.setdefault(one.name, f"{one.name}: claims {one.claimed:.4g}, then {two.claimed:.4g}")
    return len(first.calls), findings + list(moved.values()) + seed


def _fixed_seed(release: Callable[[Any], Any], rows: Any, declared: list[str]) -> list[str]:
    """Finding if three unfrozen runs on the same rows get equal results from all declared calls."""
    results = []
    for _ in range(3):
        with frozen(run := FrozenRun(), declared, seeded=False):
            release(copy.deepcopy(rows))
        results.append([_plain([call.result, call.changed]) for call in run.calls if call.leaf])
    same = results[0] and results[0] == results[1] == results[2]
    return ["three runs get the same noise: its seed is fixed"] if same else []


def _numbers(value: Any) -> list[float]:
    """Numbers of an argument; tables and objects are not searched."""
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return [float(value)]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return [float(number) for number in value.ravel()]
    if isinstance(value, (list, tuple)):
        return [number for part in value for number in _numbers(part)]
    return []


def _plain(value: Any) -> Any:
    """Value as lists, dictionaries and text, so that any two can be compared."""
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        value = {str(name): list(value[name]) for name in value.columns}
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        parts = [_plain(part) for part in value]
        return sorted(parts, key=repr) if isinstance(value, (set, frozenset)) else parts
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    return value if isinstance(value, (bool, int, str, bytes, type(None))) else repr(value)


def _difference(one: Any, two: Any, place: str = "") -> str:
    """First place at which two plain values differ, with both."""
    if isinstance(one, dict) and isinstance(two, dict) and one.keys() == two.keys():
        inside = next((name for name in one if one[name] != two[name]), None)
        return "" if inside is None else _difference(one[inside], two[inside], f"{place}.{inside}")
    if isinstance(one, list) and isinstance(two, list):
        if len(one) != len(two):
            return f"{place} has {len(one)} parts, then {len(two)}"
        inside = next((number for number, part in enumerate(one) if part != two[number]), None)
        return "" if inside is None else _difference(one[inside], two[inside], f"{place}[{inside}]")
    return f"{place} {str(one)[:60]!r}, then {str(two)[:60]!r}".strip()


def main(file: str) -> None:
    """Replay a file; the last line of the output is JSON with `calls`, `findings` and `error`."""
    sys.path.insert(0, str(Path(file).parent))
    names = runpy.run_path(file)
    answer: dict[str, Any] = {"calls": 0, "findings": [], "error": ""}
    try:
        found = replay_release(names["release"], names["ROWS"], names["NEIGHBOUR"], names["DECLARED"])
        answer["calls"], answer["findings"] = found
    except RuntimeError as error:
        answer["error"] = str(error)
    print("\n" + json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
