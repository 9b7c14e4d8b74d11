"""History of an owner, from its store: admitted runs, rows sent, and the cost of runs.

The cost of a run towards others is its whole plan, as soon as anything left in the run: a summary's towards
other owners, a release's towards its consumer. The lines that this owner wrote when it heard of others' rows
do not measure that cost: its own rows stay in the summary, and are in every later broadcast, also after the
run lost this owner, and in rounds that ask it nothing. Lines count for runs without a plan, which an earlier
release of fedkme let in.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from fedkme.errors import ProtocolError, StoreError
from fedkme.ledgers.archiving import RUNS, Leaving, archive_finished
from fedkme.ledgers.data_files import DataFiles
from fedkme.ledgers.windows import Readings
from fedkme.privacy import events
from fedkme.privacy.ledger import disclosures_in, tip
from fedkme.protocols import PROTOCOLS, SKETCH
from fedkme.store import OPEN, LedgerLine, RunRow, Store
from fedkme.sums.disclosures import SUMS
from fedkme.wire.journals import digest_from_bytes
from owner.consent.pools import PoolSize

_ADMITTED, _ARCHIVED = "admitted/", "archived/runs"
OVER = "over/"
"""Prefix of facts in a store: the place in the ledger at which each run ended."""
_UNKNOWN = events.ExactStatistic("what a run of an earlier release showed the curator")


@dataclass(frozen=True, slots=True)
class Admission:
    """A run that the owner's policy let in.

    Attributes:
        run: the run's name.
        consumer: the run's consumer.
        protocol: the run's protocol.
        rows: p; 0 for a release.
        planned: cost of owners' rows towards others in the whole run.
        shown: cost of owners' rows towards the curator; None in stores of earlier releases.
        pool: sizes of the run's pool; None for a release, and in stores of earlier releases.
        approval: id of the approval that the run used; empty if it needed none.
        ahead: protocol of the summary that follows this sketch, if the approval is for that summary.
    """

    run: str
    consumer: str
    protocol: str
    rows: int
    planned: tuple[events.Event, ...]
    pool: PoolSize | None = None
    approval: str = ""
    shown: tuple[events.Event, ...] | None = None
    ahead: str = ""

    def towards(self, observer: str) -> tuple[events.Event, ...]:
        """Cost of the whole run towards an observer: other owners, the curator, or the run's consumer."""
        if observer == events.OWNERS:
            return self.planned
        if observer == events.CONSUMER:
            return seen_by_consumer(self.protocol, self.planned)
        return (_UNKNOWN,) if self.shown is None else self.shown

    def by(self, approval: str) -> Admission:
        """Copy the admission, with the id of the approval that let the run in."""
        return replace(self, approval=approval)

    def write(self, store: Store) -> None:
        """Store the admission."""
        plain = {
            "consumer": self.consumer,
            "protocol": self.protocol,
            "rows": self.rows,
            "planned": [event.to_json() for event in self.planned],
            "shown": None if self.shown is None else [event.to_json() for event in self.shown],
            "approval": self.approval,
            "ahead": self.ahead,
            "pool": None if self.pool is None else [self.pool.offered, self.pool.rows],
        }
        store.put(f"{_ADMITTED}{self.run}", json.dumps(plain).encode("ascii"))


def files_of_runs(store: Store) -> set[bytes]:
    """Digests of the data files of admitted runs, without runs of earlier releases."""
    rows = map(store.run, (key.removeprefix(_ADMITTED) for key in store.keys(_ADMITTED)))
    archived = {each.data for each in read_archived(store)[1].values() if each.data and each.admitted}
    return archived | {digest_from_bytes(row.document) for row in rows if row is not None}


def seen_by_consumer(protocol: str, planned: tuple[events.Event, ...]) -> tuple[events.Event, ...]:
    """Cost of a run to an owner's rows towards its consumer, given the run's plan.

    A release costs its plan. The consumer of a summary sees raw rows, sealed or not; so does the consumer of
    a sketch, which a summary follows.
    """
    row = PROTOCOLS.get(protocol)
    released = row is not None and row.family == "sums" and protocol != SKETCH
    return planned if released else (events.RawRows(1),)


@dataclass(slots=True)
class DisclosedRun:
    """Disclosures of one run, from the lines of the ledger.

    Attributes:
        rows: rows sent.
        sums: vectors of sums over all rows.
        line: number of the run's last line in the ledger.
        last: time of that line, Unix seconds.
        heard: disclosures about all owners towards all owners, with line and time.
    """

    rows: int = 0
    sums: int = 0
    line: int = 0
    last: float = -math.inf
    heard: list[tuple[int, float, events.Disclosure]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ArchivedRun:
    """A run that ended before the end of an archive.

    Attributes:
        ended: latest time at which the run may have ended, Unix seconds.
        data: digest of the run's data file; empty if the store had no run of this name.
        admitted: the admission as stored; empty for a run of an earlier release.
    """

    ended: float
    data: bytes
    admitted: str


def read_archived(store: Store) -> tuple[dict[str, DisclosedRun], dict[str, ArchivedRun]]:
    """Read the disclosures in archived lines, by run, and the archived runs that had ended."""
    disclosed, over = json.loads(store.get(_ARCHIVED) or b"[{},{}]")
    files: dict[str, bytes] = {}  # runs are many; different files and admissions are few
    return (
        {
            run: DisclosedRun(
                rows, sums, line, last, [(*at, events.disclosure_from_json(about)) for *at, about in heard]
            )
            for run, (rows, sums, line, last, heard) in disclosed.items()
        },
        {
            run: ArchivedRun(end, files.setdefault(data, bytes.fromhex(data)), sys.intern(fact))
            for run, (end, data, fact) in over.items()
        },
    )


def admitted_fact(store: Store, run: str) -> str:
    """Read the admission of a run as stored; empty for a run of an earlier release."""
    return (store.get(f"{_ADMITTED}{run}") or b"").decode("ascii")


def archived_to_facts(
    disclosed: Mapping[str, DisclosedRun], over: Mapping[str, ArchivedRun]
) -> dict[str, bytes | None]:
    """Make the facts that `read_archived` reads; they replace the admissions of ended runs."""
    heard = {run: [[*at, about.to_json()] for *at, about in each.heard] for run, each in disclosed.items()}
    plain = (
        {run: [each.rows, each.sums, each.line, each.last, heard[run]] for run, each in disclosed.items()},
        {run: [each.ended, each.data.hex(), each.admitted] for run, each in over.items()},
    )
    gone = dict.fromkeys(_ADMITTED + run for run in over)
    return {**gone, _ARCHIVED: json.dumps(plain, separators=(",", ":")).encode("ascii")}


class History:
    """Reads the store incrementally; one history per opening of the store.

    Costs are those of the current data file: runs over unrelated files cost its rows nothing.

    Attributes:
        disclosures: disclosures by run, in the order of the ledger.
        admitted: admitted runs by name.
        archived: runs that ended before the end of an archive, by name.
        readings: times of the clock in the ledger.
    """

    def __init__(self, owner: str, store: Store, data: bytes | None = None) -> None:
        """Begin for one owner, with the digest of its current file, by default the last; `read` fills it."""
        self._owner = owner
        self._store = store
        files = DataFiles(store)
        self._apart = files.apart(files.in_hand if data is None else data)
        self._begin()

    def _begin(self) -> None:
        """Load archived disclosures, and drop all lines read so far."""
        self._tip = tip(self._store)
        self.readings = Readings(self._store)
        self.disclosures, self.archived = read_archived(self._store)
        self.admitted = {
            run: self._admission(run, each.admitted.encode("ascii"))
            for run, each in self.archived.items()
            if each.admitted
        }

    def read(self) -> None:
        """Take in the lines and admissions written since the last call.

        Raises:
            StoreError: this release cannot read a fact.
            LedgerError: a line is not an entry of a ledger.
        """
        if tip(self._store) != self._tip:  # archived meanwhile
            self._begin()
        for key in self._store.keys(_ADMITTED):
            if (run := key.removeprefix(_ADMITTED)) not in self.admitted:
                self.admitted[run] = self._admission(run, self._store.get(key) or b"")
        self.take(self._store.ledger(self.readings.last))

    def take(self, lines: Iterable[LedgerLine]) -> None:
        """Take in the next lines of the ledger.

        Raises:
            LedgerError: a line is not an entry of a ledger.
        """
        for row in lines:
            (about,) = disclosures_in([row.line])
            self.readings.add(row.seq, row.written)
            disclosed = self.disclosures.setdefault(about.run, DisclosedRun())
            disclosed.line, disclosed.last = row.seq, row.written
            if (about.protected, about.observer) == (events.OWNERS, events.OWNERS):
                if about.run not in self.admitted:
                    disclosed.heard.append((row.seq, row.written, about))
            elif (about.protected, about.observer) == (self._owner, events.CURATOR):
                if isinstance(about.event, events.RawRows | events.HashedRows | events.SealedRows):
                    disclosed.rows += about.event.count
                elif about.nonce.startswith(SUMS):
                    disclosed.sums += 1

    @property
    def rows(self) -> int:
        """Rows sent in all runs."""
        return sum(disclosed.rows for disclosed in self.disclosures.values())

    @property
    def rows_of_no_pool(self) -> int:
        """Rows sent in runs of earlier releases, which drew no pools."""
        admitted = self.admitted
        return sum(
            t.rows for run, t in self.disclosures.items() if run not in admitted or not admitted[run].pool
        )

    def cost(
        self, run: str, since: float = -math.inf, observer: str = events.OWNERS
    ) -> tuple[events.Event, ...]:
        """Cost of a run towards an observer; empty if nothing left in the run, or it ended before `since`.

        The end is the curator's end of the run, for the time of its last line may depend on rows.
        """
        from fedkme.privacy.accountants import paid

        disclosed = self.disclosures.get(run)
        if disclosed is None:
            return ()
        if (admission := self.admitted.get(run)) is not None:
            return admission.towards(observer) if self._ended(run, disclosed) >= since else ()
        if observer != events.OWNERS:
            return (_UNKNOWN,) if self.readings.latest(disclosed.line, disclosed.last) >= since else ()
        latest = self.readings.latest
        return tuple(paid(about for line, at, about in disclosed.heard if latest(line, at) >= since))

    def costs(
        self,
        since: float = -math.inf,
        without: str = "",
        observer: str = events.OWNERS,
        consumers: Collection[str] | None = None,
    ) -> Iterator[events.Event]:
        """Yield the costs of open runs, and of runs that ended since a time, towards an observer.

        Args:
            since: Unix seconds.
            without: name of a run to leave out.
            observer: OWNERS, CURATOR, or CONSUMER for the consumer of each run.
            consumers: consumers whose runs count; None for all. A run without a known consumer counts.
        """
        under_way = {row.run for row in self._store.runs(OPEN)}
        for run in dict.fromkeys((*self.disclosures, *self.admitted)):
            admission = self.admitted.get(run)
            others = admission is not None and consumers is not None and admission.consumer not in consumers
            if run == without or others or self._is_apart(run):
                continue
            if run in under_way and admission is not None:
                yield from admission.towards(observer)
            else:
                yield from self.cost(run, since, observer)

    def end(self, run: str, until: float) -> float | None:
        """Latest time at which a run may have ended; None if it had not ended by a place in the ledger.

        The time, in Unix seconds, never changes.
        """
        disclosed, row = self.disclosures.get(run, DisclosedRun()), self._store.run(run)
        place = float(self._store.get(f"{OVER}{run}") or disclosed.line)
        if place > until or (row is not None and row.ended is None):
            return None
        ended = self._ended(run, disclosed)
        return ended if math.isfinite(ended) else None

    def _is_apart(self, run: str) -> bool:
        """Check whether a run's data file shares no row with the current file."""
        if not self._apart:
            return False
        if (archived := self.archived.get(run)) is not None:
            return archived.data in self._apart
        row = self._store.run(run)
        return row is not None and digest_from_bytes(row.document) in self._apart

    def _ended(self, run: str, disclosed: DisclosedRun) -> float:
        """Latest time at which a run may have ended, Unix seconds."""
        if (archived := self.archived.get(run)) is not None:
            return archived.ended
        row: RunRow | None = self._store.run(run)
        if row is None or row.ended is None:
            return self.readings.latest(disclosed.line, disclosed.last)
        place = float(self._store.get(f"{OVER}{run}") or disclosed.line)
        return self.readings.latest(place, row.ended)

    def _admission(self, run: str, fact: bytes) -> Admission:
        try:
            return replace(_parsed(fact), run=run)
        except (ValueError, KeyError, TypeError, ProtocolError):
            cause = f"the store of {self._owner} has an admission of {run} that this release cannot read"
            raise StoreError(cause, "Use the release that wrote it, or a later one.") from None


@lru_cache
def _parsed(fact: bytes) -> Admission:
    """Parse a stored admission, without the run's name: most runs of an owner have the same one."""
    plain = json.loads(fact)
    planned = tuple(events.event_from_json(event) for event in plain["planned"])
    shown_json = plain.get("shown")
    shown = None if shown_json is None else tuple(events.event_from_json(event) for event in shown_json)
    sizes = plain.get("pool")
    pool = None if sizes is None else PoolSize(*map(int, sizes))
    approval, ahead = plain["approval"], plain.get("ahead", "")
    return Admission(
        "", plain["consumer"], plain["protocol"], plain["rows"], planned, pool, approval, shown, ahead
    )


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
