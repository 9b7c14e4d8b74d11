"""Findings of checks, and how a check is run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fedkme.errors import FedkmeError

State = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of one check: one line.

    Attributes:
        state: `fail` if the party would not work.
        check: subject of the check, in a word or two.
        line: the finding; never a private value.
        remedy: what to do; empty if nothing.
        code: number of docs/errors.md; 0 unless the state is `fail`.
    """

    state: State
    check: str
    line: str
    remedy: str = ""
    code: int = 0

    def __str__(self) -> str:
        return f"{self.state:<5} {self.check:<14} {self.line}" + (f". {self.remedy}" if self.remedy else "")


def failure(check: str, error: FedkmeError) -> Finding:
    """Make the finding of an error."""
    return Finding("fail", check, error.cause, error.remedy, error.code)


def run_check(check: str, look: Callable[[], Iterable[Finding] | str]) -> Iterator[Finding]:
    """Run one check and yield its findings: a returned line is good news, a FedkmeError a failure."""
    try:
        findings = look()
        if isinstance(findings, str):
            yield Finding("ok", check, findings)
        else:
            yield from findings
    except FedkmeError as error:
        yield failure(check, error)


def status(findings: Sequence[Finding]) -> int:
    """Exit status: the number of the first failure."""
    return next((finding.code for finding in findings if finding.state == "fail"), 0)
