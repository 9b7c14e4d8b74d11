"""The audit over and over, each time with other coins: does what is sound pass every time?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from sim.attacks.finding import AUDIT_ALPHA, AuditVerdict, Effort, Subject


@dataclass(frozen=True, slots=True)
class Tally:
    """The verdicts of one mechanism.

    Attributes:
        subject: what was attacked.
        verdicts: by repetition; the first has the audit's seed, each later one the next.
        seconds: wall time of all of them.
    """

    subject: Subject
    verdicts: tuple[AuditVerdict, ...]
    seconds: float

    @property
    def expected(self) -> int:
        """Repetitions that came out as they must."""
        return sum(verdict.expected for verdict in self.verdicts)

    def sentence(self) -> str:
        """Sentence that says how many of how many audits came out as they must."""
        outcome = "passed" if self.subject.standing == "sound" else "were found broken"
        return f"{self.subject.name}: {self.expected} of {len(self.verdicts)} repetitions {outcome}"

    def to_json(self, seed: int) -> dict[str, Any]:
        """Plain values, and the findings of what did not come out as it must."""
        return {
            "mechanism": self.subject.name,
            "standing": self.subject.standing,
            "repetitions": len(self.verdicts),
            "expected": self.expected,
            "seconds": round(self.seconds, 1),
            "unexpected": [
                {"seed": seed + number} | verdict.to_json()
                for number, verdict in enumerate(self.verdicts)
                if not verdict.expected
            ],
        }


def tallies(subjects: Sequence[Subject], effort: Effort, repeat: int, console: Console) -> list[Tally]:
    """Every check of every subject, `repeat` times.

    Progress is a bar on a terminal, and elsewhere a line for each subject.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    found = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("audit", total=repeat * sum(len(subject.checks) for subject in subjects))
        for subject in subjects:
            progress.update(task, description=subject.name)
            started = time.perf_counter()
            efforts = [replace(effort, seed=effort.seed + number) for number in range(repeat)]
            verdicts = tuple(subject.audit(each, lambda: progress.advance(task)) for each in efforts)
            found.append(Tally(subject, verdicts, time.perf_counter() - started))
            if not console.is_terminal:
                tally = found[-1]
                line = f"{subject.name}: {tally.expected} of {repeat} as it must be, {tally.seconds:.0f} s"
                console.print(line, soft_wrap=True, highlight=False, markup=False)
    return found


def tally_lines(found: Sequence[Tally], seed: int) -> list[str]:
    """A line for each mechanism, and one for each repetition that did not come out as it must."""
    lines = []
    for tally in found:
        flag = "" if tally.expected == len(tally.verdicts) else "UNEXPECTED: "
        lines.append(flag + tally.sentence())
        for number, verdict in enumerate(tally.verdicts):
            if not verdict.expected:
                lines.append(f"  seed {seed + number}: {verdict.sentence()}")
                lines += [f"    {line}" for line in verdict.violations()]
    chance = f"{AUDIT_ALPHA:g}"
    lines.append(f"A sound mechanism fails one audit of everything with probability {chance} at most.")
    return lines
