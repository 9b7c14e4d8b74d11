"""Issue 17, A8: archived runs cost what they did, and whoever verifies a ledger follows its archives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.errors import ArchiveError
from fedkme.heads.files import export_ledger, ledger_text
from fedkme.ledgers.archiving import archive_finished, condensed
from fedkme.ledgers.windows import Readings
from fedkme.privacy.accountants import Sound, cells_of, matrix, paid
from fedkme.privacy.events import (
    CURATOR,
    OWNERS,
    Clock,
    Composed,
    Disclosure,
    Event,
    Gaussian,
    Laplace,
    PureDp,
    RawRows,
    repeated,
)
from fedkme.privacy.ledger import Entry, costs, follow_chain, read_ledger, stored_ledger
from fedkme.store.sqlite import SqliteStore
from tests.owner.consent.host import Clockwork
from tools.verify_ledger import verify

EVENTS: Sequence[Event] = (
    Gaussian(3.0),
    Gaussian(3.0, count=4),
    Laplace(2.0, count=2),
    PureDp(0.5),
    RawRows(1),
    Clock(0.25),
    Composed((Gaussian(3.0), Clock(0.25))),
)
LINE = st.builds(
    lambda run, number, about, event, nonce: Disclosure(
        f"run-{run}", number, about[0], about[1], event, "replace-one", 1.0, f"{nonce} {run}"
    ),
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from([("north", CURATOR), (OWNERS, OWNERS), ("north", OWNERS)]),
    st.sampled_from(EVENTS),
    st.sampled_from(["row", "mean"]),
)


def releases(lines: Iterable[Disclosure]) -> dict[tuple[str, str], Counter[Event]]:
    """Single releases that are paid for, by data set and observer."""
    counts: dict[tuple[str, str], Counter[Event]] = {}
    for place, cell in cells_of(lines).items():
        counter = counts[place] = Counter[Event]()
        for event in paid(cell):
            count = getattr(event, "count", 1)
            (one,) = [each for each in EVENTS if repeated(each, count) == event][:1] or [event]
            counter[one] += count if one is not event or count == 1 else 1
    return counts


@given(st.lists(LINE, max_size=12), st.lists(LINE, max_size=6))
def test_condensed_lines_cost_the_same_as_the_original_lines(
    before: list[Disclosure], after: list[Disclosure]
) -> None:
    # Equal lines of a whole run's event stand on one side, as the law says.
    after = [line for line in after if line not in before]
    for few in (condensed(before), condensed(condensed(before))):
        figures = [
            (c.protected, c.observer, c.figure.epsilon, c.raw_rows) for c in matrix(few, Sound(), 1e-5)
        ]
        assert figures == [
            (c.protected, c.observer, c.figure.epsilon, c.raw_rows) for c in matrix(before, Sound(), 1e-5)
        ]
        both = matrix([*few, *after], Sound(), 1e-5)
        assert [c.figure.epsilon for c in both] == [
            c.figure.epsilon for c in matrix([*before, *after], Sound(), 1e-5)
        ]
    assert len(condensed([*before, *before])) <= len(before) * 4


def test_lines_of_many_rows_are_condensed_to_one() -> None:
    rows = [Disclosure("r", 1, "a", CURATOR, RawRows(1), "replace-one", None, f"row {n}") for n in range(99)]
    (line,) = condensed(rows)
    assert line.event == RawRows(99)


class Keeper:
    """A party whose runs each have lines, on the disk."""

    def __init__(self, folder: Path, name: str = CURATOR) -> None:
        self.clock = Clockwork()
        self.store = SqliteStore(folder / "journal.db", name, "process", clock=self.clock)
        self.ledger = stored_ledger(name, self.store)
        self.runs = 0

    def run(self, lines: int = 3) -> None:
        name, self.runs = f"run-{self.runs}", self.runs + 1
        self.clock.now += 1.0
        self.store.open_run(name, "lab", b"document of " + name.encode())
        for number in range(lines):
            self.clock.now += 1.0
            row = Disclosure(name, 1, "a", CURATOR, RawRows(1), "replace-one", None, f"row {number}")
            heard = Disclosure(name, number, OWNERS, OWNERS, Clock(0.1), "replace-one", None, f"mean {name}")
            self.ledger.extend([row, heard])
        self.store.update_run(name, status="complete", ended=True)


@pytest.fixture
def keeper(tmp_path: Path) -> Keeper:
    return Keeper(tmp_path)


def test_a_chain_goes_on_from_its_checkpoint(keeper: Keeper, tmp_path: Path) -> None:
    for _ in range(7):
        keeper.run()
    whole, head = keeper.store.ledger(), keeper.ledger.head()
    assert archive_finished(keeper.store, runs=2) == 2
    assert (keeper.store.ledger(), len(keeper.store.finished())) == (whole, 3)
    assert len(keeper.store._execute("SELECT 1 FROM ledger")) == 18
    assert stored_ledger(CURATOR, keeper.store).head() == head
    lines, read = costs(keeper.store)
    assert read == 24
    disclosures = [*lines, *(entry.disclosure for entry in entries(keeper, tmp_path)[read:])]
    assert releases(disclosures) == releases(entry.disclosure for entry in entries(keeper, tmp_path))


def entries(keeper: Keeper, folder: Path) -> Sequence[Entry]:
    export_ledger(CURATOR, keeper.store, folder / "whole.jsonl")
    return read_ledger(folder / "whole.jsonl")


def test_a_clock_that_was_ahead_holds_its_lines_back(keeper: Keeper) -> None:
    for _ in range(3):
        keeper.run()
    keeper.clock.now += 1e6
    keeper.run()
    keeper.clock.now -= 1e6
    for _ in range(9):
        keeper.run()
    archive_finished(keeper.store, runs=2)
    last = keeper.store.archives()[-1]
    written = {line.seq: line.written for line in keeper.store.ledger()}
    assert last.written == written[last.last] == max(at for seq, at in written.items() if seq <= last.last)
    whole, behind = Readings(keeper.store), Readings(SqliteStore(":memory:", CURATOR))
    for line in keeper.store.ledger():
        behind.add(line.seq, line.written)
        if line.seq > last.last:
            whole.add(line.seq, line.written)
    for line in keeper.store.ledger(last.last):
        assert whole.latest(line.seq, line.written) == behind.latest(line.seq, line.written)
    for line in keeper.store.ledger()[: last.last]:
        assert whole.latest(line.seq, line.written) >= behind.latest(line.seq, line.written)


def test_verifiers_follow_checkpoints_into_the_files(keeper: Keeper, tmp_path: Path) -> None:
    for _ in range(8):
        keeper.run()
    archive_finished(keeper.store, runs=2)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(ledger_text(keeper.store, tmp_path))
    keeper.store.close()
    assert len(path.read_text(encoding="ascii").splitlines()) == 1 + 12
    assert len(read_ledger(path)) == len(read_ledger(tmp_path / "journal.db")) == 48
    assert follow_chain(path)[1] is None
    assert verify([path]) == [f"OK    {path}: 48 lines of curator"]
    text = path.read_bytes()
    first, second, _ = sorted((tmp_path / "journal.db.archive").iterdir())
    content = first.read_bytes()
    changes: dict[str, Callable[[], object]] = {
        "has another digest": lambda: first.write_bytes(second.read_bytes()),
        "No such file": first.unlink,
        "do not end with the line": lambda: path.write_bytes(text.replace(b'"hash":"', b'"hash":"0', 1)),
        "has number 13": lambda: path.write_bytes(text.replace(b'"last":12', b'"last":11', 1)),
    }
    for cause, change in changes.items():
        change()
        assert cause in verify([path])[0], cause
        first.write_bytes(content)
        path.write_bytes(text)
    first.unlink()
    for ledger in (path, tmp_path / "journal.db"):
        with pytest.raises(ArchiveError, match=f"{first.name} is gone"):
            follow_chain(ledger)[1]


def test_a_line_dropped_after_a_checkpoint_is_a_fault(keeper: Keeper, tmp_path: Path) -> None:
    for _ in range(4):
        keeper.run()
    archive_finished(keeper.store, runs=2)
    path = tmp_path / "ledger.jsonl"
    head, _, *rest = ledger_text(keeper.store, tmp_path).splitlines(keepends=True)
    path.write_bytes(b"".join((head, *rest)))
    assert follow_chain(path)[1] is not None
    assert verify([path])[0].startswith("FAULT")
