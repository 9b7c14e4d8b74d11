"""The audit over and over, each time with other coins: does what is sound pass every time?"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from audit.attacks.finding import AUDIT_ALPHA, AuditVerdict, CheckResult, Effort, Subject
from audit.attacks.subjects import chosen
from fedkme import durable
from fedkme.errors import DataError, PartyFailedError
from sim.jobs.choice import carry_out, held
from sim.jobs.tasks import LostTask, Task, key_of, task_of
from sim.progress import Progress

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


def tallies(subjects: Sequence[Subject], effort: Effort, repeat: int, stream: TextIO) -> list[Tally]:
    """Every check of every subject, `repeat` times.

    Progress is a line for each subject, above a bar on a terminal.
    """
    found: list[Tally] = []
    with closing(Progress(stream)) as progress:
        for subject in subjects:
            started, verdicts = time.perf_counter(), []
            for number in range(repeat):
                progress.count(repeat * len(found) + number, repeat * len(subjects), subject.name)
                verdicts.append(subject.audit(replace(effort, seed=effort.seed + number)))
            found.append(Tally(subject, tuple(verdicts), time.perf_counter() - started))
            line = f"{found[-1].expected} of {repeat} as it must be, {found[-1].seconds:.0f} s"
            progress.note(f"{subject.name}: {line}")
    return found


def tallies_by_tasks(
    subjects: Sequence[Subject],
    effort: Effort,
    repeat: int,
    jobs: int | str,
    out: Path,
    say: Callable[[str], None],
) -> list[Tally]:
    """Every check of every subject, `repeat` times, a task for each repetition of a subject.

    Given again, it does what OUT/audit.jsonl lacks: a repetition is known by the package's version, the
    mechanism and the effort, its seed among it.

    Raises:
        ConfigError: the folder cannot be written, or another audit writes there.
        DataError: the file is none of an audit.
        PartyFailedError: repetitions were lost with their processes or nodes; the others are in the folder.
    """
    efforts = [replace(effort, seed=effort.seed + number) for number in range(repeat)]
    tasks = {_key(task): task for subject in subjects for each in efforts for task in [_task(subject, each)]}
    with held(out, "audit") as folder:
        kept = _read(folder / FILE)
        missing = {key: task for key, task in tasks.items() if key not in kept}
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
                kept[keys[place]] = result
                file.write(json.dumps({"key": keys[place], **result}) + "\n")
                file.flush()
                say(f"{name}: {result['seconds']:.0f} s")
    if lost:
        raise PartyFailedError(
            f"{len(lost)} repetitions were lost; {lost[0]}", f"Give the command again: {out} has the others."
        )
    return [_tally(subject, [kept[_key(_task(subject, each))] for each in efforts]) for subject in subjects]


def audit_once(argument: dict[str, Any]) -> dict[str, Any]:
    """Audit one mechanism once, as a task: values of JSON go in and come out."""
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


def _tally(subject: Subject, found: Sequence[dict[str, Any]]) -> Tally:
    verdicts = [
        AuditVerdict(subject, tuple(CheckResult(**finding) for finding in each["findings"])) for each in found
    ]
    return Tally(subject, tuple(verdicts), sum(each["seconds"] for each in found))


def _read(file: Path) -> dict[str, dict[str, Any]]:
    """Repetitions that a folder has, by key; the last line may be cut by a death of the process."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
    try:
        kept = [json.loads(line) for line in lines if line.endswith("\n")]
        found = {each.pop("key"): each for each in kept}
    except (ValueError, KeyError, AttributeError):
        raise DataError(f"{file} is none of an audit", "Choose another --out, or remove the file.") from None
    if lines and not lines[-1].endswith("\n"):
        durable.replace(file, "".join(lines[:-1]).encode())
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
