"""The audit over and over, each time with other coins: does what is sound pass every time?"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from audit.attacks.finding import AUDIT_ALPHA, AuditVerdict, CheckResult, Effort, Subject
from audit.attacks.subjects import chosen
from fedkme import durable
from fedkme.errors import DataError, PartyFailedError
from sim.jobs.choice import carry_out, held
from sim.jobs.tasks import LostTask, Task, key_of, task_of

FILE = "audit.jsonl"
"""Repetitions of an audit in its folder, a line each: key, mechanism, seed, seconds and findings."""


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
    """Run every check of every subject, `repeat` times.

    Progress is a bar on a terminal, and elsewhere a line for each subject.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    results = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("audit", total=repeat * sum(len(subject.checks) for subject in subjects))
        for subject in subjects:
            progress.update(task, description=subject.name)
            started = time.perf_counter()
            efforts = [replace(effort, seed=effort.seed + number) for number in range(repeat)]
            verdicts = tuple(subject.audit(once, lambda: progress.advance(task)) for once in efforts)
            results.append(Tally(subject, verdicts, time.perf_counter() - started))
            if not console.is_terminal:
                tally = results[-1]
                line = f"{subject.name}: {tally.expected} of {repeat} as expected, {tally.seconds:.0f} s"
                console.print(line, soft_wrap=True, highlight=False, markup=False)
    return results


def tallies_by_tasks(
    subjects: Sequence[Subject],
    effort: Effort,
    repeat: int,
    jobs: int | str,
    out: Path,
    say: Callable[[str], None],
) -> list[Tally]:
    """Run every check of every subject, `repeat` times, with a task for each repetition of a subject.

    Another call with the same folder runs only the repetitions that OUT/audit.jsonl lacks. The key of a
    repetition is made from the package's version, the mechanism and the effort with its seed.

    Raises:
        ConfigError: the folder cannot be written, or another audit writes there.
        DataError: the file is not a file of an audit.
        PartyFailedError: repetitions were lost with their processes or nodes; the others are in the folder.
    """
    efforts = [replace(effort, seed=effort.seed + number) for number in range(repeat)]
    tasks = {_key(task): task for subject in subjects for once in efforts for task in [_task(subject, once)]}
    with held(out, "audit") as folder:
        results_by_key = _read(folder / FILE)
        missing = {key: task for key, task in tasks.items() if key not in results_by_key}
        say(f"{len(tasks)} repetitions, {len(tasks) - len(missing)} of them there already")
        keys, lost = list(missing), []
        with (
            (folder / FILE).open("a", encoding="utf-8") as file,
            closing(carry_out(list(missing.values()), jobs, folder)) as results,
        ):
            for place, result in results:
                name = missing[keys[place]].name
                if isinstance(result, LostTask):
                    lost.append(f"{name}: {result.cause}")
                    continue
                results_by_key[keys[place]] = result
                file.write(json.dumps({"key": keys[place], **result}) + "\n")
                file.flush()
                say(f"{name}: {result['seconds']:.0f} s")
    if lost:
        raise PartyFailedError(
            f"{len(lost)} repetitions were lost; {lost[0]}", f"Give the command again: {out} has the others."
        )
    return [
        _tally(subject, [results_by_key[_key(_task(subject, once))] for once in efforts])
        for subject in subjects
    ]


def audit_once(argument: dict[str, Any]) -> dict[str, Any]:
    """Audit one mechanism once, as a task; argument and result are JSON values."""
    (subject,) = chosen(argument["mechanism"])
    started = time.perf_counter()
    verdict = subject.audit(Effort(**argument["effort"]))
    return {
        "mechanism": subject.name,
        "seed": argument["effort"]["seed"],
        "seconds": time.perf_counter() - started,
        "findings": [asdict(finding) for finding in verdict.findings],
    }


def _task(subject: Subject, effort: Effort) -> Task:
    argument = {"mechanism": subject.name, "effort": asdict(effort)}
    return task_of(f"audit: {subject.name}, seed {effort.seed}", audit_once, argument)


def _key(task: Task) -> str:
    return key_of(task.argument)


def _tally(subject: Subject, results: Sequence[dict[str, Any]]) -> Tally:
    verdicts = [
        AuditVerdict(subject, tuple(CheckResult(**finding) for finding in result["findings"]))
        for result in results
    ]
    return Tally(subject, tuple(verdicts), sum(result["seconds"] for result in results))


def _read(file: Path) -> dict[str, dict[str, Any]]:
    """Read the repetitions of a file, by key; the last line may be cut by a death of the process."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    try:
        entries = [json.loads(line) for line in lines if line.endswith("\n")]
        by_key = {entry.pop("key"): entry for entry in entries}
    except (ValueError, KeyError, AttributeError):
        raise DataError(
            f"{file} is not a file of an audit", "Choose another --out, or remove the file."
        ) from None
    if lines and not lines[-1].endswith("\n"):
        durable.replace(file, "".join(lines[:-1]).encode())
    return by_key


def tally_lines(results: Sequence[Tally], seed: int) -> list[str]:
    """A line for each mechanism, and a line for each repetition with an unexpected verdict."""
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
