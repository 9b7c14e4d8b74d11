"""Figures of the ledger for the page to watch, read as it grows: rows that came, privacy, budget."""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence

from fedkme.privacy.budget import Budget, paid_by_owners
from fedkme.privacy.events import (
    CURATOR,
    OWNERS,
    Disclosure,
    Event,
    HashedRows,
    RawRows,
    SealedRows,
    is_validation,
    leaves,
)
from fedkme.privacy.ledger import costs, disclosures_in
from fedkme.store import LedgerLine, Store
from fedkme.watch.state import BudgetUse, Learned

DELTA = 1e-5
"""Delta at which epsilons are stated, as in `fedkme audit ledger`."""
REST = 10.0
"""Pause between two computations of accountants, relative to the time of one: ten seconds after one
second."""
_LATEST = 12
"""Latest runs, each with a point on the budget's curve."""


class LedgerFigures:
    """Figures of a ledger, which is read incrementally; for one thread at a time."""

    def __init__(self, store: Store, budget: Budget | None) -> None:
        self.learned: tuple[Learned, ...] = ()
        self.spending: BudgetUse | None = None
        self._store = store
        self._budget = budget
        archived, self._read = costs(store)
        self._computed = 0
        self._due = 0.0
        self._lines: list[tuple[float, Disclosure]] = [(0.0, line) for line in archived]
        self._rows: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
        self._came: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self._epsilons: dict[tuple[Event, ...], float] = {}

    def read(self) -> None:
        """Read new lines; the accountants' figures are computed when they are due.

        Raises:
            StoreError: the store cannot be read.
            LedgerError: a line is no entry of a ledger.
        """
        lines = self._store.ledger(self._read)
        if lines:
            self._take(lines)
        begun = time.monotonic()
        if self._computed < self._read and begun >= self._due:
            self._computed = self._read
            self._compute()
            self._due = time.monotonic() + REST * (time.monotonic() - begun)

    def rows(self, run: str) -> dict[str, int]:
        """Rows that came of each owner in a run, plain or sealed."""
        return {owner: max(kinds.values()) for owner, kinds in self._rows.get(run, {}).items()}

    def came(self, run: str) -> tuple[tuple[float, int], ...]:
        """Rows of all owners that came in a run, over time."""
        return tuple(self._came.get(run, ()))

    def _take(self, lines: Sequence[LedgerLine]) -> None:
        for entry, line in zip(lines, disclosures_in(entry.line for entry in lines), strict=True):
            self._lines.append((entry.written, line))
            if line.observer == CURATOR and not is_validation(line.protected):
                self._count(entry.written, line)
        self._read = lines[-1].seq

    def _count(self, at: float, line: Disclosure) -> None:
        run = _whole(line.run)
        kinds = self._rows[run].setdefault(line.protected, {})
        for leaf in leaves([line.event]):
            if isinstance(leaf, RawRows | SealedRows | HashedRows):
                kinds[leaf.kind] = kinds.get(leaf.kind, 0) + leaf.count
        if not kinds:
            del self._rows[run][line.protected]
        elif (rows := sum(self.rows(run).values())) > (self._came[run] or [(at, 0)])[-1][1]:
            self._came[run].append((at, rows))

    def _compute(self) -> None:
        from fedkme.privacy.accountants import Sound, matrix  # slow to import, so only where a ledger is read

        cells = matrix((line for _, line in self._lines), Sound(), DELTA)
        self.learned = tuple(
            Learned(
                cell.protected,
                cell.observer,
                cell.figure.epsilon,
                cell.figure.delta,
                cell.raw_rows,
                cell.figure.reason,
            )
            for cell in cells
        )
        if self._budget is not None:
            self.spending = BudgetUse(
                self._budget.epsilon, self._budget.delta, tuple(self._spent(self._budget))
            )

    def _spent(self, budget: Budget) -> Iterator[tuple[float, float]]:
        """Cost of owners' rows towards other owners, after each of the latest runs with such a cost."""
        charges = [
            (at, line)
            for at, line in self._lines
            if line.observer == OWNERS and not is_validation(line.protected)
        ]
        last = {_whole(line.run): place for place, (_, line) in enumerate(charges)}
        for place in sorted(last.values())[-_LATEST:]:
            yield charges[place][0], self._epsilon([line for _, line in charges[: place + 1]], budget.delta)

    def _epsilon(self, lines: Sequence[Disclosure], delta: float) -> float:
        """Largest epsilon over the owners' rows, as `check_owners` counts it."""
        from fedkme.privacy.accountants import Sound

        costs = paid_by_owners(lines)
        for events in costs - self._epsilons.keys():
            self._epsilons[events] = Sound().epsilon(events, delta).epsilon
        return max(self._epsilons[events] for events in costs)


def _whole(run: str) -> str:
    """Name of the run, from its name or the name of a part of it, such as the sketch of its cells."""
    return run.partition("/")[0]
