"""The privacy matrix: what each observer can learn of each protected data set, at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fedkme.privacy.accountants.bound import Accountant, Bound
from fedkme.privacy.events import (
    CONSUMER,
    OWNERS,
    RESERVED,
    Disclosure,
    Event,
    RawRows,
    is_validation,
    leaves,
)
from fedkme.privacy.events.groups import for_group

TOGETHER = "consumers together"
"""Observer: all consumers, if they tell each other everything."""

Cells = Mapping[tuple[str, str], Sequence[Disclosure]]
"""Disclosures by protected set and observer: all that the one was told of the other."""


@dataclass(frozen=True)
class MatrixCell:
    """One cell of the matrix."""

    protected: str
    observer: str
    relation: str
    """The relation of the figure; several where disclosures differ, and then they do not add up."""
    figure: Bound
    raw_rows: int
    """Rows that the observer sees as they are."""
    colluders: int | None = None
    """Owners that may tell the observer all they know: the least of all lines; None: as many as there are."""


def matrix(disclosures: Iterable[Disclosure], accountant: Accountant, delta: float) -> list[MatrixCell]:
    """Compose all that each observer was told about each data set; sorted by data set and observer."""
    return composed(cells_of(disclosures), accountant, delta)


def cells_of(disclosures: Iterable[Disclosure]) -> Cells:
    """Disclosures of each data set to each observer; a broadcast has one for each observer.

    Each one is a draw, also where two are equal. Lines of several ledgers come here through `merged`
    (fedkme.privacy.ledger), or what both sides of an exchange wrote would count twice.
    """
    cells: dict[tuple[str, str], list[Disclosure]] = {}
    for disclosure in disclosures:
        cells.setdefault((disclosure.protected, disclosure.observer), []).append(disclosure)
    return cells


def by_owner(cells: Cells, present: Callable[[str, str], bool]) -> Cells:
    """Name every owner: a line about the class of all owners becomes one about each that took part.

    Args:
        cells: what ledgers say.
        present: whether an owner took part in a run, by their names, where nothing was told of it by name.
    """
    owners = sorted({name for name, _ in cells if name not in RESERVED and not is_validation(name)})
    if not owners:
        return cells
    named = {pair: list(cell) for pair, cell in cells.items() if pair[0] != OWNERS}
    seen = {(pair[0], disclosure.run) for pair, cell in named.items() for disclosure in cell}
    for (protected, observer), cell in cells.items():
        if protected != OWNERS:
            continue
        runs = {disclosure.run for disclosure in cell}
        for owner in owners:
            runs_of_owner = {run for run in runs if (owner, run) in seen or present(owner, run)}
            if runs_of_owner:
                named.setdefault((owner, observer), []).extend(d for d in cell if d.run in runs_of_owner)
    return named


def with_coalition(cells: Cells) -> Cells:
    """Add to cells what consumers who tell each other everything learn of a data set."""
    cells_of_set: dict[str, list[Sequence[Disclosure]]] = {}
    for (protected, observer), cell in cells.items():
        if is_consumer(observer):
            cells_of_set.setdefault(protected, []).append(cell)
    joint = {
        (protected, TOGETHER): [disclosure for cell in several for disclosure in cell]
        for protected, several in cells_of_set.items()
        if len(several) > 1
    }
    return {**cells, **joint}


def is_consumer(observer: str) -> bool:
    """Check whether an observer is a consumer: all other observers go by a reserved word."""
    return observer == CONSUMER or observer not in RESERVED


def composed(cells: Cells, accountant: Accountant, delta: float, group: int = 1) -> list[MatrixCell]:
    """The matrix, for so many rows replaced at once; an event that covers a whole run counts once a run."""
    figures: dict[tuple[Event, ...], Bound] = {}  # many observers saw the same
    rows = []
    for (protected, observer), cell in sorted(cells.items()):
        events = tuple(for_group(paid(cell), group))
        relations = " and ".join(sorted({disclosure.relation for disclosure in cell}))
        if " and " in relations:
            reason = "the disclosures assume different neighbouring relations"
            figure = Bound(float("inf"), delta, "none", reason)
        elif (cached := figures.get(events)) is not None:
            figure = cached
        else:
            figure = figures[events] = accountant.epsilon(events, delta)
        raw = sum(leaf.count for leaf in leaves(events) if isinstance(leaf, RawRows))
        helpers = min((d.colluders for d in cell if d.colluders is not None), default=None)
        rows.append(MatrixCell(protected, observer, relations, figure, raw, helpers))
    return rows


def paid(cell: Iterable[Disclosure]) -> Iterator[Event]:
    """Events that one observer saw of one data set, without `Composed`; a whole run's event once a run.

    A run is known by its name and by the nonce of the event, which is of what was drawn for the run. Where
    equal lines say that it was there twice, it is paid twice.
    """
    lines: Counter[Disclosure] = Counter()
    times: Counter[tuple[str, str, Event]] = Counter()
    for disclosure in cell:
        lines[disclosure] += 1
        for event in leaves([disclosure.event]):
            if event.whole_run:
                run = disclosure.run, disclosure.nonce, event
                if times[run] >= lines[disclosure]:
                    continue
                times[run] += 1
            yield event
