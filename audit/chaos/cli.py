"""`fedkme sim chaos` and `fedkme sim schedule`: schedules of faults, and the story of one."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from fedkme.errors import AuditError, ConfigError
from fedkme.verbs import AsJson, Verbs, console, print_json

if TYPE_CHECKING:
    from audit.chaos.batch import Failure, ScheduleTally
    from audit.chaos.faults import FaultSchedule, InjectedFault

chaos_app = Verbs()
schedule_app = Verbs()

Heavy = Annotated[bool, typer.Option("--all", help="Also releases whose arithmetic takes seconds.")]


@chaos_app.verb(
    "fedkme sim chaos",
    "fedkme sim chaos --schedules 10000 --jobs 2",
    json="an object: schedules, cpu_s, faults (counts by kind), failures (schedule, shortest, found)",
)
def chaos(
    schedules: Annotated[int, typer.Option(min=1, help="How many.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="The first; the others follow it.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    heavy: Heavy = False,
    as_json: AsJson = False,
) -> None:
    """Inject every kind of fault into simulated worlds with the real code, and check the results."""
    from audit.chaos.batch import tallies
    from sim.progress import Progress

    out = console(for_people=not as_json)
    done: list[ScheduleTally] = []
    with closing(Progress(sys.stderr)) as progress:
        for tally in tallies(range(seed, seed + schedules), jobs, heavy):
            done.append(tally)
            progress.count(sum(each.played for each in done), schedules, "schedules")
            for failure in tally.failures:
                _tell(out, failure, heavy)
    happened = sum((tally.happened for tally in done), Counter[str]())
    failures = [failure for tally in done for failure in tally.failures]
    cpu_s = sum(tally.cpu_s for tally in done)
    if as_json:
        print_json(
            {
                "schedules": schedules,
                "cpu_s": cpu_s,
                "faults": dict(happened),
                "failures": [asdict(failure) for failure in failures],
            }
        )
    else:
        kinds = ", ".join(f"{kind} {count}" for kind, count in happened.most_common())
        out.print(
            f"{schedules} schedules in {cpu_s:.0f} CPU s, {happened.total()} faults ({kinds})", soft_wrap=True
        )
    if failures:
        raise AuditError(
            f"{len(failures)} of {schedules} schedules ended badly",
            f"Read `fedkme sim schedule {failures[0].schedule.seed}`.",
        )


def _tell(out: Console, failure: Failure, heavy: bool) -> None:
    from audit.chaos.worlds import menu

    name, seed = menu()[failure.schedule.world].name, failure.schedule.seed
    out.print(f"seed {seed}{' --all' if heavy else ''}, {name}:", markup=False)
    for fault in failure.shortest.faults:
        out.print(f"  {fault.line}", markup=False)
    for line in failure.found:
        out.print(f"  -> {line}", markup=False)


@schedule_app.verb("fedkme sim schedule 14", json="an object: world, story (seconds, party, words), found")
def schedule(
    seed: Annotated[int, typer.Argument(min=0, help="Of the schedule.")],
    keep: Annotated[
        list[int] | None, typer.Option("--keep", help="Numbers of the faults that happen, from 1; all.")
    ] = None,
    heavy: Heavy = False,
    as_json: AsJson = False,
) -> None:
    """Play one schedule again, and tell what happened in it: virtual seconds, who, what."""
    from audit.chaos.batch import schedule_of
    from audit.chaos.oracles import judge
    from audit.chaos.simulation import play
    from audit.chaos.worlds import menu

    drawn = schedule_of(seed, heavy)
    numbers = keep or range(1, len(drawn.faults) + 1)
    if not set(numbers) <= set(range(1, len(drawn.faults) + 1)):
        raise ConfigError(f"the schedule of seed {seed} has {len(drawn.faults)} faults", "Keep some of them.")
    faults = tuple(fault for number, fault in enumerate(drawn.faults, start=1) if number in numbers)
    outcome = play(replace(drawn, faults=faults))
    violations = judge(outcome)
    world = menu()[drawn.world].name
    if as_json:
        print_json(
            {
                "world": world,
                "faults": [asdict(fault) for fault in faults],
                "story": outcome.story,
                "found": violations,
            }
        )
    else:
        _tell_story(world, drawn, faults, outcome.story, violations)
    if violations:
        raise AuditError(f"the schedule of seed {seed} ended badly", "Leave faults out with --keep.")


def _tell_story(
    world: str,
    drawn: FaultSchedule,
    faults: Sequence[InjectedFault],
    story: Sequence[tuple[float, str, str]],
    violations: Sequence[str],
) -> None:
    out = console(for_people=True)
    out.print(world, markup=False)
    for number, fault in enumerate(drawn.faults, start=1):
        out.print(f"  {number}. {fault.line}{'' if fault in faults else ' (left out)'}", markup=False)
    for at, party, line in story:
        out.print(f"{at:12.3f}  {party:<12} {line}", markup=False, soft_wrap=True)
    for line in violations or ["all is well"]:
        out.print(f"-> {line}", markup=False, soft_wrap=True)
