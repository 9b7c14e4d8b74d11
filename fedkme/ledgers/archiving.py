"""Archiving of ended runs, with the ledger's lines of their time (docs/decisions/012-archives.md)."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedkme.ledgers.windows import Readings
from fedkme.privacy.accountants.matrix import cells_of
from fedkme.privacy.events import Disclosure, Event, leaves, repeated
from fedkme.privacy.ledger import ARCHIVED_LINES, GENESIS, costs, disclosures_in, hash_of, lines_to_json, tip
from fedkme.store import LedgerLine, Store

RUNS = 100
"""Ended runs in one archive; as many later ones stay in the journal."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Parts of a journal that are about to be archived.

    Attributes:
        runs: names of ended runs.
        lines: lines of the ledger, also those of other runs.
        last: number of the last line; without lines, the previous archive's last line.
    """

    runs: Sequence[str]
    lines: Sequence[LedgerLine]
    last: int


Facts = Mapping[str, bytes | None]
"""Facts of a store by key; None deletes the fact."""


def archive_finished(
    store: Store,
    shorten: Callable[[bytes], bytes] = bytes,
    settle: Callable[[Leaving], Facts] = lambda leaving: {},
    runs: int = RUNS,
) -> int:
    """Make archives while at least 2 `runs` ended runs are in the journal; one thread at a time.

    Args:
        store: the party's store.
        shorten: shortens a run's document to the part that stays in the store, for lists.
        settle: computes the facts that the party's budgets read in place of the archived lines.
        runs: number of runs in one archive.

    Returns:
        Number of archives made.

    Raises:
        StoreError: an archive could not be written; the store is as it was.
        LedgerError: a line is no entry of a ledger.
    """
    count = 0
    while len(over := store.finished()) >= 2 * runs:
        leaving, before = _leaving(store, over[:runs], over[runs]), tip(store)
        mark, written = (before.mark, before.written) if before else (GENESIS, 0.0)
        if leaving.lines:
            mark, written = hash_of(leaving.lines[-1].line), leaving.lines[-1].written
        disclosures = [*costs(store)[0], *disclosures_in(line.line for line in leaving.lines)]
        lines = json.dumps(lines_to_json(condensed(disclosures)), separators=(",", ":")).encode("ascii")
        facts = {ARCHIVED_LINES: lines, **settle(leaving)}
        archive = store.pack(leaving.last, mark, written, leaving.runs)
        documents = {run: shorten(store.document(run) or b"") for run in leaving.runs}
        store.archive(archive, documents, facts)
        count += 1
    return count


def _leaving(store: Store, runs: Sequence[str], next_run: str) -> Leaving:
    """Collect the lines written before a run that stays was opened, up to a line of the largest time so far.

    Lines that were written together with that line are included. So whatever happened before the archive's
    end happened before that line's time, or while the clock was behind an earlier time
    (fedkme/ledgers/windows.py).
    """
    row, readings = store.run(next_run), Readings(store)
    lines = store.ledger(readings.last)
    old = [place for place, line in enumerate(lines[:-1], start=1) if row and line.written < row.opened]
    last, count = readings.last, 0
    for place, line in enumerate(lines[: max(old, default=0)], start=1):
        ahead = line.written > readings.largest
        readings.add(line.seq, line.written)
        if ahead or (count == place - 1 and line.written == readings.largest):
            last, count = line.seq, place
    return Leaving(runs, lines[:count], last)


ARCHIVED = "archived"
"""Run name of lines that stand for lines of several runs."""


def condensed(lines: Iterable[Disclosure]) -> list[Disclosure]:
    """Fewest lines of the same cost, also together with any later lines, even of the same runs."""
    fewest: list[Disclosure] = []
    for cell in cells_of(lines).values():
        always: Counter[Disclosure] = Counter()
        once: dict[Disclosure, int] = {}
        for line, times in Counter(cell).items():
            for leaf in leaves([line.event]):
                if leaf.whole_run:
                    bare = _bare(line, leaf, line.run, line.nonce)
                    once[bare] = max(times, once.get(bare, 0))
                else:
                    one, count = _single(leaf)
                    always[_bare(line, one, ARCHIVED, line.nonce.partition(" ")[0])] += times * count
        fewest += (replace(line, event=repeated(line.event, times)) for line, times in always.items())
        fewest += (line for line, times in once.items() for _ in range(times))
    return fewest


def _bare(line: Disclosure, event: Event, run: str, nonce: str) -> Disclosure:
    return replace(line, run=run, round=0, event=event, sensitivity=None, nonce=nonce, certain=True)


def _single(event: Event) -> tuple[Event, int]:
    """One release of an event, and the number of its releases."""
    counted: Any = event
    count = getattr(event, "count", 1)
    return (event, 1) if count == 1 else (replace(counted, count=1), count)
