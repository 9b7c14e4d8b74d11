"""The privacy matrix: a bound on what each observer can learn of each protected data set."""

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
"""Name of the observer that stands for all consumers together, if they share all they know."""

Cells = Mapping[tuple[str, str], Sequence[Disclosure]]
"""All disclosures of a protected set to an observer, by the pair (protected set, observer)."""


@dataclass(frozen=True)
class MatrixCell:
    """One cell of the matrix."""

    protected: str
    observer: str
    relation: str
    """Neighbouring relation of the figure; where disclosures have several, they cannot be composed."""
    figure: Bound
    raw_rows: int
    """Rows that the observer sees as they are."""
    colluders: int | None = None
    """Owners that may tell the observer all they know: the smallest number of all disclosures; None: any."""


def matrix(disclosures: Iterable[Disclosure], accountant: Accountant, delta: float) -> list[MatrixCell]:
    """Compose all disclosures of each data set to each observer; sorted by data set and observer."""
    return composed(cells_of(disclosures), accountant, delta)


def cells_of(disclosures: Iterable[Disclosure]) -> Cells:
    """Group disclosures by data set and observer; a broadcast has one disclosure for each observer.

    Each disclosure is a draw of its own, even if it equals another. Lines of several ledgers must first pass
    through `merged` (fedkme.privacy.ledger); otherwise a line that both sides of an exchange wrote counts
    twice.
    """
    cells: dict[tuple[str, str], list[Disclosure]] = {}
    for disclosure in disclosures:
        cells.setdefault((disclosure.protected, disclosure.observer), []).append(disclosure)
    return cells


def by_owner(cells: Cells, present: Callable[[str, str], bool]) -> Cells:
    """Replace each disclosure about all owners by one disclosure about each owner that took part.

    Args:
        cells: disclosures of ledgers.
        present: tells by names of owner and run whether the owner took part; asked where no disclosure of the
            run names the owner.
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
    """Add the cells of the observer `TOGETHER`: all consumers, who share all they know."""
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
    """Check whether an observer is a consumer: all other observers have a reserved word as their name."""
    return observer == CONSUMER or observer not in RESERVED


def composed(cells: Cells, accountant: Accountant, delta: float, group: int = 1) -> list[MatrixCell]:
    """The matrix where `group` rows are replaced at once; an event of a whole run counts once a run."""
    figures: dict[tuple[Event, ...], Bound] = {}  # many observers saw the same events
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
    """Events that one observer saw of one data set, without `Composed`; an event of a whole run once a run.

    The name of a run and the nonce of the event identify the run; the nonce is a hash of what was drawn for
    it. If two equal disclosures say that the run took place twice, its event is paid twice.
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
