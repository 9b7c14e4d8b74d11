"""Archiving of runs that are over, with the ledger's lines until then (docs/decisions/012-archives.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fedkme.ledgers.windows import Readings
from fedkme.privacy.ledger import ARCHIVED_LINES, GENESIS, costs, disclosures_in, hash_of, lines_to_json, tip
from fedkme.store import LedgerLine, Store

RUNS = 100
"""Runs in one archive; so many more that are over stay in the journal."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """Parts of a journal that are about to be archived.

    Attributes:
        runs: names of runs that are over.
        lines: of the ledger, with those of other runs among them.
        last: number of the last of them, or of the archive before.
    """

    runs: Sequence[str]
    lines: Sequence[LedgerLine]
    last: int


Facts = Mapping[str, bytes | None]
"""Facts of a store; None: deleted."""


def archive_finished(
    store: Store,
    shorten: Callable[[bytes], bytes] = bytes,
    settle: Callable[[Leaving], Facts] = lambda leaving: {},
    runs: int = RUNS,
) -> int:
    """Archive runs while twice as many are over as an archive has; any thread may call this, one at a time.

    Args:
        store: the party's.
        shorten: makes of a run's document what is left of it in the store, for lists.
        settle: makes of what leaves the facts that the party's budgets read from then on.
        runs: in one archive.

    Returns:
        How many archives were made.

    Raises:
        StoreError: one could not be written; the store is as it was.
        LedgerError: a line is no entry of a ledger.
    """
    from fedkme.ledgers.compaction import (
        condensed,  # it imports accountants: only where something is archived
    )

    made = 0
    while len(over := store.finished()) >= 2 * runs:
        leaving, before = _leaving(store, over[:runs], over[runs]), tip(store)
        mark, written = (before.mark, before.written) if before else (GENESIS, 0.0)
        if leaving.lines:
            mark, written = hash_of(leaving.lines[-1].line), leaving.lines[-1].written
        told = [*costs(store)[0], *disclosures_in(line.line for line in leaving.lines)]
        lines = json.dumps(lines_to_json(condensed(told)), separators=(",", ":")).encode("ascii")
        facts = {ARCHIVED_LINES: lines, **settle(leaving)}
        archive = store.pack(leaving.last, mark, written, leaving.runs)
        documents = {run: shorten(store.document(run) or b"") for run in leaving.runs}
        store.archive(archive, documents, facts)
        made += 1
    return made


def _leaving(store: Store, runs: Sequence[str], kept: str) -> Leaving:
    """Lines from before a run that stays was opened, up to one whose clock was ahead of all before it.

    With those that were written together with it: then whatever happened before happened before that time, or
    while the clock was behind a time before it (fedkme/ledgers/windows.py).
    """
    row, readings = store.run(kept), Readings(store)
    lines = store.ledger(readings.last)
    old = [place for place, line in enumerate(lines[:-1], start=1) if row and line.written < row.opened]
    last, count = readings.last, 0
    for place, line in enumerate(lines[: max(old, default=0)], start=1):
        ahead = line.written > readings.largest
        readings.add(line.seq, line.written)
        if ahead or (count == place - 1 and line.written == readings.largest):
            last, count = line.seq, place
    return Leaving(runs, lines[:count], last)
