"""Pairs of runs: a case played once, then again for each protected set and observer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from audit.replay.cases import Case
from audit.replay.declared import VALIDATION, declared
from audit.replay.exercised import missing
from audit.replay.judge import Undeclared, of_death, of_noise, of_one, of_pair
from audit.replay.neighbours import HOLDER, Kind, World, make_world, neighbour
from audit.replay.play import Played, play
from audit.replay.recorder import Recorder
from fedkme.directives import Rows
from fedkme.privacy.events import CONSUMER, CURATOR, OWNERS, is_validation
from fedkme.sealed.rows import AnyRow
from fedkme.tables.table import Row
from owner.settings import PolicySettings

OTHER_NOISE = 10_000
"""Added to a seed for a run with the same rows and other noise."""


@dataclass(frozen=True)
class Replayed:
    """Result of a case.

    Attributes:
        case: name of the case.
        pairs: number of judged pairs of runs.
        found: all findings.
    """

    case: str
    pairs: int
    found: tuple[Undeclared, ...]


def statements(case: Case) -> Sequence[tuple[str, str]]:
    """Pairs of a protected set and an observer in a case's ledgers."""
    if case.release is not None:
        return (HOLDER, OWNERS), (HOLDER, CURATOR), (HOLDER, CONSUMER)
    return (HOLDER, OWNERS), (HOLDER, CURATOR), (VALIDATION, OWNERS), (VALIDATION, CURATOR)


def replay(case: Case, kinds: Sequence[Kind], seed: int) -> Replayed:
    """Play a case, then again with one row replaced, for each kind of neighbour and each statement.

    Args:
        case: the case to play.
        kinds: kinds of neighbours.
        seed: seed of rows and noise.
    """
    world = make_world(seed, case.times, case.schema)
    if case.tight:
        sold = len(next(_sales(play(case, world, Recorder(seed))), ()))
        case = replace(case, policies={HOLDER: PolicySettings(most_rows_per_run=max(1, sold))})
    first = play(case, world, Recorder(seed))
    findings = [Undeclared("nothing shown", "anybody", "anybody", line) for line in missing(case, first)]
    findings += of_one(case, first) + of_noise(first, play(case, world, Recorder(seed + OTHER_NOISE)))
    if case.goes_on_as_before:
        findings += of_death(case, first, play(replace(case, curator_dies=None), world, Recorder(seed)))
    pairs = 0
    for kind in kinds:
        for protected, observer in statements(case):
            played = partial(again, case, world, first, protected, observer, kind, seed)
            undeclared = of_pair(case, first, played(), protected, observer)
            if undeclared and case.engine == "grpc":  # a busy machine orders its log; a row's effect recurs
                second = of_pair(case, first, played(), protected, observer)
                undeclared = [each for each in second if each in undeclared]
            findings += undeclared
            pairs += 1
    return Replayed(case.name, pairs, tuple(dict.fromkeys(findings)))


def again(
    case: Case, world: World, first: Played, protected: str, observer: str, kind: Kind, seed: int
) -> Played:
    """Play the second run of a pair."""
    recorder = Recorder(
        first.recorder.seed,
        first.recorder,
        frozenset(declared(first, protected, observer)),
        protected if observer == CURATOR and not is_validation(protected) else "",
    )
    changed = neighbour(world, protected, kind, seed, _decider(world, first), case.group)
    return play(case, changed, recorder)


def _decider(world: World, first: Played) -> int:
    """Index of the holder's first row to leave; 0 if no row left."""
    values = world.owners[HOLDER].values
    for row in (row for sale in _sales(first) for row in sale if isinstance(row, Row)):
        places = np.flatnonzero((values == row.values).all(axis=1))
        if len(places):
            return int(places[0])
    return 0


def _sales(played: Played) -> Iterator[Sequence[AnyRow]]:
    """Rows that left the holder, answer by answer."""
    for exchanged in played.recorder.exchanged.get(HOLDER, []):
        if isinstance(exchanged.answer, Rows) and len(exchanged.answer.rows):
            yield exchanged.answer.rows
