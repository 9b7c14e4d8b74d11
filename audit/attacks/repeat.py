"""Repetitions of the audit with new coins: do sound mechanisms pass every time?"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from audit.attacks.finding import AUDIT_ALPHA, AuditVerdict, CheckResult, Effort, Subject
from audit.attacks.subjects import chosen
from fedkme.errors import PartyFailedError
from sim.jobs.tasks import Task, key_of, task_of
from sim.progress import Progress
from sim.sweep.measure import Row, attempted
from sim.sweep.run import fill_table


@dataclass(frozen=True, slots=True)
class Tally:
    """The verdicts of one mechanism.

    Attributes:
        subject: what was attacked.
        verdicts: verdicts by repetition; the first has the audit's seed, each later one the next.
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


def tallies(subjects: Sequence[Subject], effort: Effort, repeat: int, stream: TextIO) -> list[Tally]:
    """Every check of every subject, `repeat` times.

    Progress is a line for each subject, above a bar on a terminal.
    """
    results: list[Tally] = []
    with closing(Progress(stream)) as progress:
        for subject in subjects:
            started, verdicts = time.perf_counter(), []
            for number in range(repeat):
                progress.count(repeat * len(results) + number, repeat * len(subjects), subject.name)
                verdicts.append(subject.audit(replace(effort, seed=effort.seed + number)))
            results.append(Tally(subject, tuple(verdicts), time.perf_counter() - started))
            line = f"{results[-1].expected} of {repeat} as it must be, {results[-1].seconds:.0f} s"
            progress.note(f"{subject.name}: {line}")
    return results


@dataclass(frozen=True, slots=True)
class Repetition:
    """One audit of one mechanism, as a row of a table."""

    subject: Subject
    effort: Effort

    @property
    def key(self) -> str:
        """SHA-256, in hex, of this package's version, the mechanism and the effort."""
        return key_of(self._plain())

    @property
    def seed(self) -> int:
        """Seed of the audit."""
        return self.effort.seed

    def words(self) -> str:
        """The repetition in a line."""
        return f"{self.subject.name}, seed {self.seed}"

    def task(self) -> Task:
        """The repetition as a task for any machine."""
        return task_of(f"audit: {self.words()}", audit_once, self._plain())

    def columns(self) -> Row:
        """Columns that are known before the repetition runs."""
        return {"mechanism": self.subject.name}

    def _plain(self) -> dict[str, Any]:
        return {"mechanism": self.subject.name, "effort": asdict(self.effort)}


def tallies_by_tasks(
    subjects: Sequence[Subject], effort: Effort, repeat: int, jobs: int | str, out: Path, stream: TextIO
) -> list[Tally]:
    """Every check of every subject, `repeat` times, a task for each repetition of a subject.

    Given again, it does what the table in OUT lacks.

    Raises:
        ConfigError: the folder cannot be written, or another audit writes there.
        DataError: the file is none of an audit.
        PartyFailedError: repetitions were lost with their processes or nodes; the others are in the folder.
    """
    efforts = [replace(effort, seed=effort.seed + number) for number in range(repeat)]
    repetitions = [Repetition(subject, each) for subject in subjects for each in efforts]
    with closing(Progress(stream)) as progress:
        rows = fill_table(repetitions, jobs, out, progress.hear)
    if lost := [f"{row['mechanism']}, seed {row['seed']}: {row['cause']}" for row in rows if row["code"]]:
        raise PartyFailedError(
            f"{len(lost)} repetitions were lost; {lost[0]}", f"Give the command again: {out} has the others."
        )
    parts = [rows[start : start + repeat] for start in range(0, len(rows), repeat)]
    return [_tally(subject, part) for subject, part in zip(subjects, parts, strict=True)]


def audit_once(argument: dict[str, Any]) -> Row:
    """Audit one mechanism once, as a task: values of JSON go in and come out."""

    def audited() -> Row:
        (subject,) = chosen(argument["mechanism"])
        verdict = subject.audit(Effort(**argument["effort"]))
        findings = json.dumps([asdict(finding) for finding in verdict.findings])
        return {"code": 0, "cause": "", "status": "done", "findings": findings}

    return attempted(audited)


def _tally(subject: Subject, rows: Sequence[Row]) -> Tally:
    findings = [tuple(CheckResult(**each) for each in json.loads(row["findings"])) for row in rows]
    verdicts = tuple(AuditVerdict(subject, each) for each in findings)
    return Tally(subject, verdicts, sum(row["seconds"] for row in rows))


def tally_lines(results: Sequence[Tally], seed: int) -> list[str]:
    """A line for each mechanism, and one for each repetition that did not come out as it must."""
    lines = []
    for tally in results:
        flag = "" if tally.expected == len(tally.verdicts) else "UNEXPECTED: "
        lines.append(flag + tally.sentence())
        for number, verdict in enumerate(tally.verdicts):
            if not verdict.expected:
                lines.append(f"  seed {seed + number}: {verdict.sentence()}")
                lines += [f"    {line}" for line in verdict.violations()]
    chance = f"{AUDIT_ALPHA:g}"
    lines.append(f"A sound mechanism fails one audit of everything with probability {chance} at most.")
    return lines
