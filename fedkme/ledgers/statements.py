"""Privacy statements: what each observer can learn of each data set, by the disclosures in ledgers.

They are the single source of the figures in metrics.json, on the terminal, on the page of a run and in
`fedkme audit ledger`. Settings bound the cost of a run in advance; statements give its cost so far, also of a
run that failed.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from fedkme.cells.disclosures import run_of
from fedkme.ledgers.ledger_set import LedgerSet
from fedkme.privacy.accountants import (
    Cells,
    MatrixCell,
    Published,
    Sound,
    by_owner,
    cells_of,
    composed,
    is_consumer,
    with_coalition,
)
from fedkme.privacy.accounting import ONE_ROW, PrivacyStatement, person_of, with_help
from fedkme.privacy.events import (
    CONSUMER,
    CURATOR,
    OWNERS,
    VALIDATION,
    Disclosure,
    RawRows,
    is_validation,
    validation_of,
)

EACH_OWNER = "each owner"
"""Name in place of several owners' names, if an observer saw no row and can learn the same of each owner."""
_OBSERVERS = ("owners and curator", "owners", "other owners", CURATOR)
"""The order of statements; consumers come last."""


def statements(books: LedgerSet, delta: float) -> list[PrivacyStatement]:
    """Compose all disclosures in ledgers by both accountants; `published` only if the paper has a formula.

    Owners appear by name if their figures or reasons differ, or if rows of theirs were seen. An owner of
    which an observer learned nothing has epsilon 0, if the set has each owner's ledger. If a person may have
    several rows, a finite bound is stated for a row and for a person. Rows that went to a curator count as
    passed on to the run's consumer where the set lacks the curator's ledger.

    Args:
        books: ledgers of one run or of several.
        delta: delta of the stated epsilons.
    """
    disclosures = [*books.disclosures(), *_perhaps_passed_on(books)]
    cells = with_coalition(by_owner(_with_silent(cells_of(disclosures), books), books.present))
    rows = zip(composed(cells, Sound(), delta), composed(cells, Published(), delta), strict=True)
    by_observer: dict[str, dict[str, list[PrivacyStatement]]] = {}
    for sound, published in rows:
        by_owner_name = by_observer.setdefault(sound.observer, {})
        by_owner_name[sound.protected] = [_statement(sound, "sound")]
        if sound.relation and published.figure.method != "none":
            by_owner_name[sound.protected].insert(0, _statement(published, "published"))
    for sound in composed(cells, Sound(), delta, books.group) if books.group > 1 else ():
        of_row = by_observer[sound.observer][sound.protected]
        if math.isfinite(of_row[-1].epsilon):  # else a person's would say the same
            of_row.append(_statement(sound, "sound", person_of(books.group)))
    return sorted(_joined(by_observer), key=_place)


def _with_silent(cells: Cells, books: LedgerSet) -> Cells:
    """Add an empty cell for each owner and each observer that learned nothing of the owner."""
    owners = {owner for name, _ in books.lines for owner in books.rosters.get(name, ())}
    observers = {CURATOR, OWNERS, *(observer for _, observer in cells if is_consumer(observer))}
    return {**{(owner, observer): [] for owner in owners for observer in observers}, **cells}


def _perhaps_passed_on(books: LedgerSet) -> Iterator[Disclosure]:
    """Rows towards the consumers of runs whose curator's ledger is not in the set."""
    lines = [(run_of(run), about) for run, about in books.lines if run_of(run) in books.unwatched]
    consumers: dict[tuple[str, str], set[str]] = {}
    for run, about in lines:
        if is_consumer(about.observer):
            consumers.setdefault((run, about.protected), set()).add(about.observer)
    for run, about in lines:
        if about.observer == CURATOR and isinstance(about.event, RawRows):
            for consumer in sorted(consumers.get((run, about.protected), ())):
                yield replace(about, observer=consumer)


def _statement(
    row: MatrixCell, accountant: Literal["published", "sound"], unit: str = ONE_ROW
) -> PrivacyStatement:
    figure = row.figure
    return PrivacyStatement(
        row.protected if row.protected != validation_of(CONSUMER) else VALIDATION,
        row.observer if row.observer != OWNERS or is_validation(row.protected) else "other owners",
        accountant,
        figure.epsilon,
        figure.delta if row.relation and math.isfinite(figure.epsilon) else 0.0,
        row.relation or "any",
        row.raw_rows,
        figure.reason or with_help(figure.method, row.colluders),
        unit,
    )


def _joined(by_observer: Mapping[str, Mapping[str, list[PrivacyStatement]]]) -> Iterator[PrivacyStatement]:
    """Replace several statements by one if they are equal for all owners, or for D_v to all parties."""
    owners = {name for by_name in by_observer.values() for name in by_name if not is_validation(name)}
    for observer, by_name in by_observer.items():
        named = [by_name[owner] for owner in sorted(owners & by_name.keys())]
        rows = any(each.raw_points for one in named for each in one)
        alike = len(owners) == len(named) > 1 and len({_nameless(one) for one in named}) == 1 and not rows
        for one in named[:1] if alike else named:
            yield from (replace(each, protected=EACH_OWNER) if alike else each for each in one)
        for about in (name for name in by_name if is_validation(name)):
            other = by_observer.get({CURATOR: OWNERS, OWNERS: CURATOR}.get(observer, ""), {}).get(about)
            if other is None or _nameless(other) != _nameless(by_name[about]):
                yield from by_name[about]
            elif observer == CURATOR:
                yield from (replace(each, observer="owners and curator") for each in by_name[about])


def _nameless(about: Sequence[PrivacyStatement]) -> tuple[PrivacyStatement, ...]:
    return tuple(replace(each, protected="", observer="") for each in about)


def _place(about: PrivacyStatement) -> tuple[bool, str, int, str]:
    """Sort key: validation sets first, then owners towards each observer."""
    rank = _OBSERVERS.index(about.observer) if about.observer in _OBSERVERS else len(_OBSERVERS)
    validation = about.protected.startswith(VALIDATION)
    return not validation, about.protected if validation else "", rank, about.observer
