"""The privacy matrix: what each observer can learn of each protected data set, at most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from fedkme.privacy.accountants.figure import Accountant, Figure
from fedkme.privacy.events import Disclosure, Event, RawRows, leaves


@dataclass(frozen=True)
class Row:
    """One cell of the matrix."""

    protected: str
    observer: str
    relation: str
    """The relation of the figure; several where disclosures differ, and then they do not add up."""
    figure: Figure
    raw_rows: int
    """Rows that the observer sees as they are."""


def matrix(disclosures: Iterable[Disclosure], accountant: Accountant, delta: float) -> list[Row]:
    """Everything an observer was told about a data set, composed; sorted by data set and observer.

    A broadcast has one disclosure for each observer. An entry that occurs twice, as in the ledgers of both
    sides of an exchange or after a replay, counts once: it has the same nonce. An event that covers a whole
    run counts once a run.
    """
    cells: dict[tuple[str, str], list[Disclosure]] = {}
    for disclosure in dict.fromkeys(disclosures):
        cells.setdefault((disclosure.protected, disclosure.observer), []).append(disclosure)
    figures: dict[tuple[Event, ...], Figure] = {}  # many observers saw the same
    rows = []
    for (protected, observer), cell in sorted(cells.items()):
        events = tuple(paid(cell))
        relations = " and ".join(sorted({disclosure.relation for disclosure in cell}))
        if " and " in relations:
            reason = "the disclosures assume different neighbouring relations"
            figure = Figure(float("inf"), delta, "none", reason)
        elif (known := figures.get(events)) is not None:
            figure = known
        else:
            figure = figures[events] = accountant.epsilon(events, delta)
        raw = sum(leaf.count for leaf in leaves(events) if isinstance(leaf, RawRows))
        rows.append(Row(protected, observer, relations, figure, raw))
    return rows


def paid(cell: Iterable[Disclosure]) -> Iterator[Event]:
    """What one observer saw of one data set, without `Composed`; a whole run's event once a run."""
    seen: set[tuple[str, Event]] = set()
    for disclosure in cell:
        for event in leaves([disclosure.event]):
            if event.whole_run:
                if (disclosure.run, event) in seen:
                    continue
                seen.add((disclosure.run, event))
            yield event
