"""Archiving an owner's ended runs: the history keeps a summary of the archived lines and facts."""

from __future__ import annotations

from fedkme.ledgers.archiving import RUNS, Leaving, archive_finished
from fedkme.store import Store
from fedkme.wire.journals import digest_from_bytes
from owner.consent.history import OVER, ArchivedRun, History, admitted_fact, archived_to_facts


def archive_runs(owner: str, store: Store, runs: int = RUNS) -> int:
    """Archive ended runs; budgets, limits and used names of runs stay as they were.

    Returns:
        Number of archives made.

    Raises:
        StoreError: an archive could not be written; the store is unchanged.
        LedgerError: a line is not an entry of a ledger.
    """

    def settle(leaving: Leaving) -> dict[str, bytes | None]:
        history, until = History(owner, store), History(owner, store)
        history.read()
        until.admitted.update(history.admitted)
        until.take(leaving.lines)
        over = dict(history.archived)
        for run in (*history.disclosures, *history.admitted):
            if run not in over and (ended := history.end(run, leaving.last)) is not None:
                row = store.run(run)
                data = b"" if row is None else digest_from_bytes(row.document)
                over[run] = ArchivedRun(ended, data, admitted_fact(store, run))
        # A fact of a run's end stays until a process has seen that the run is archived.
        seen = (key for key in store.keys(OVER) if key.removeprefix(OVER) in history.archived)
        return {**archived_to_facts(until.disclosures, over), **dict.fromkeys(seen)}

    return archive_finished(store, settle=settle, runs=runs)
