"""Findings of checks, and the run of the checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fedkme.errors import FedkmeError

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of one check: one line.

    Attributes:
        state: `fail` is what would keep the party from working.
        check: what was looked at, in a word or two.
        line: what was found; never a private value.
        remedy: what to do; empty where nothing is.
        code: number of docs/errors.md; 0 where it does not fail.
    """

    state: State
    check: str
    line: str
    remedy: str = ""
    code: int = 0

    def __str__(self) -> str:
        return f"{self.state:<5} {self.check:<14} {self.line}" + (f". {self.remedy}" if self.remedy else "")


def failed(check: str, error: FedkmeError) -> Finding:
    """A failure in its own words."""
    return Finding("fail", check, error.cause, error.remedy, error.code)


def looked(check: str, look: Callable[[], Iterable[Finding] | str]) -> Iterator[Finding]:
    """Findings of one check; an expected failure is one, and a line is good news."""
    try:
        found = look()
        if isinstance(found, str):
            yield Finding("ok", check, found)
        else:
            yield from found
    except FedkmeError as error:
        yield failed(check, error)


def status(findings: Sequence[Finding]) -> int:
    """Exit status: the number of the first failure."""
    return next((finding.code for finding in findings if finding.state == "fail"), 0)
