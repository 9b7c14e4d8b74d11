"""Remains of played processes, held by the oracles of audit/chaos to the simulated quiet world's."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from audit.chaos.faults import FaultSchedule
from audit.chaos.oracles import judge
from audit.chaos.simulation import PlayedSchedule, quiet, records_in, unreconciled
from audit.chaos.worlds import menu
from fedkme.errors import FedkmeError
from fedkme.privacy.ledger import stored_ledger
from fedkme.store import open_store
from tests.fedkme.store.server import Server
from tests.system.chaos.deployment import Deployment
from tests.system.chaos.party import Party
from tests.system.chaos.playing import PlayedProcesses
from tests.system.chaos.schedules import ProcessSchedule


def play_processes(
    schedule: ProcessSchedule, folder: Path, release: str = "", server: Server | None = None
) -> PlayedProcesses:
    """Play a schedule by real processes in a folder, and find what must not be."""
    played = PlayedProcesses(Deployment(schedule, folder, bool(release), server), release)
    played.play()
    outcome = _outcome(schedule, folder, played)
    undisturbed = quiet(schedule.world)
    if menu()[schedule.world].case.summary is not None:  # in files there is no word of the outcome
        rows = {name: result[:2] for name, result in undisturbed.results.items()}
        undisturbed = replace(undisturbed, results=rows)
    found = judge(outcome, undisturbed)
    # another release forecasts otherwise what a run will be worth, and says so in the record
    played.found = [line for line in found if not (release and line.startswith("same: records"))]
    return played


def _outcome(schedule: ProcessSchedule, folder: Path, played: PlayedProcesses) -> PlayedSchedule:
    """Gather what everybody has, out of stores that are opened once more."""
    statuses = dict[str, str]()
    outcome = PlayedSchedule(
        FaultSchedule(schedule.seed, schedule.world),
        played.results,
        records_in(folder / "curator"),
        {name: _ledger(party, statuses, played.found) for name, party in played.parties.items()},
        {},
        played.happened,
        played.found,
        played.story,
        statuses,
    )
    return replace(outcome, unreconciled=unreconciled(folder, outcome))


def _ledger(party: Party, statuses: dict[str, str], found: list[str]) -> list[str]:
    journal = party.journal
    if isinstance(journal, Path) and not journal.exists():
        return []  # a consumer of a release keeps none
    try:
        with contextlib.closing(open_store(journal, party.name)) as store:
            stored_ledger(party.name, store)  # which follows its chain
            if party.name == "curator":
                statuses.update((row.run, row.status) for row in store.runs())
            return [entry.line for entry in store.ledger()]
    except FedkmeError as error:
        found.append(f"store: {party.name}: {error}")
        return []
