"""History of an owner, from its store: runs that were let in, rows that left, and what runs cost.

What a run costs towards others is its plan, in full, as soon as anything left in it: a summary towards other
owners, a release towards its consumer. The lines that
this owner wrote when it heard of others' rows are no measure of it: its own rows stay in the summary, and are
in every later broadcast, also after it was lost to the run, and in rounds in which it is asked nothing. Lines
count for runs without a plan, which an earlier release let in.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from fedkme.errors import ProtocolError, StoreError
from fedkme.ledgers.data_files import DataFiles
from fedkme.ledgers.windows import Readings
from fedkme.privacy.events import (
    CONSUMER,
    CURATOR,
    OWNERS,
    Disclosure,
    Event,
    ExactStatistic,
    HashedRows,
    RawRows,
    SealedRows,
    disclosure_from_json,
    event_from_json,
)
from fedkme.privacy.ledger import disclosures_in, tip
from fedkme.protocols import PROTOCOLS, SKETCH
from fedkme.store import OPEN, LedgerLine, RunRow, Store
from fedkme.sums.disclosures import SUMS
from fedkme.wire.journals import digest_from_bytes
from owner.consent.pools import PoolSize

_ADMITTED, _ARCHIVED = "admitted/", "archived/runs"
OVER = "over/"
"""Facts of a store: the place in the ledger where a run was over, by run."""
_UNKNOWN = ExactStatistic("what a run of an earlier release showed the curator")


@dataclass(frozen=True, slots=True)
class Admission:
    """A run that the owner's policy let in.

    Attributes:
        run: its name.
        consumer: for whom it is.
        protocol: by which protocol.
        rows: p; 0 for a release.
        planned: what owners' rows cost towards others in the whole run.
        shown: and what they cost towards the curator; None in stores of earlier releases.
        pool: sizes of the rows that it may have; None for a release, and in stores of earlier releases.
        approval: the approval that it used up; empty where none was needed.
        ahead: protocol of the summary for which it made public cells, where the approval is one of that.
    """

    run: str
    consumer: str
    protocol: str
    rows: int
    planned: tuple[Event, ...]
    pool: PoolSize | None = None
    approval: str = ""
    shown: tuple[Event, ...] | None = None
    ahead: str = ""

    def towards(self, observer: str) -> tuple[Event, ...]:
        """Cost of the whole run towards others, the curator, or its consumer."""
        if observer == OWNERS:
            return self.planned
        if observer == CONSUMER:
            return seen_by_consumer(self.protocol, self.planned)
        return (_UNKNOWN,) if self.shown is None else self.shown

    def by(self, approval: str) -> Admission:
        """Copy of the admission that names the approval which let it in."""
        return replace(self, approval=approval)

    def write(self, store: Store) -> None:
        """Keep it."""
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
    """Digests of the files that runs were over which were let in; runs of earlier releases are left out."""
    rows = map(store.run, (key.removeprefix(_ADMITTED) for key in store.keys(_ADMITTED)))
    archived = {each.data for each in read_archived(store)[1].values() if each.data and each.admitted}
    return archived | {digest_from_bytes(row.document) for row in rows if row is not None}


def seen_by_consumer(protocol: str, planned: tuple[Event, ...]) -> tuple[Event, ...]:
    """Cost of a run to an owner's rows towards its consumer, given what the run plans.

    A release is its plan. Of a summary the consumer sees rows as they are, in boxes or not; so does that of a
    sketch, after which the summary comes.
    """
    row = PROTOCOLS.get(protocol)
    released = row is not None and row.family == "sums" and protocol != SKETCH
    return planned if released else (RawRows(1),)


@dataclass(slots=True)
class Told:
    """Disclosures of one run.

    Attributes:
        rows: rows as they are.
        line: number of the last line of the ledger.
        last: when it was written, Unix seconds.
        heard: what owners were told of each other's rows, with line and time.
        sums: vectors of sums over all rows.
    """

    rows: int = 0
    sums: int = 0
    line: int = 0
    last: float = -math.inf
    heard: list[tuple[int, float, Disclosure]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ArchivedRun:
    """A run that was over before the end of an archive.

    Attributes:
        ended: the latest at which it may have ended, Unix seconds.
        data: digest of the rows that it was over; empty where the store had no run of its name.
        admitted: its admission as it was kept; empty for a run of an earlier release.
    """

    ended: float
    data: bytes
    admitted: str


def read_archived(store: Store) -> tuple[dict[str, Told], dict[str, ArchivedRun]]:
    """Read what archived lines told, by run; and of those runs the ones that are over."""
    told, over = json.loads(store.get(_ARCHIVED) or b"[{},{}]")
    files: dict[str, bytes] = {}  # runs are many, and files and admissions that differ are few
    return (
        {
            run: Told(rows, sums, line, last, [(*at, disclosure_from_json(about)) for *at, about in heard])
            for run, (rows, sums, line, last, heard) in told.items()
        },
        {
            run: ArchivedRun(end, files.setdefault(data, bytes.fromhex(data)), sys.intern(fact))
            for run, (end, data, fact) in over.items()
        },
    )


def admitted_fact(store: Store, run: str) -> str:
    """The admission of a run as it is kept; empty for a run of an earlier release."""
    return (store.get(f"{_ADMITTED}{run}") or b"").decode("ascii")


def archived_to_facts(told: Mapping[str, Told], over: Mapping[str, ArchivedRun]) -> dict[str, bytes | None]:
    """Facts that `read_archived` reads; in place of what runs that are over were let in by."""
    heard = {run: [[*at, about.to_json()] for *at, about in each.heard] for run, each in told.items()}
    plain = (
        {run: [each.rows, each.sums, each.line, each.last, heard[run]] for run, each in told.items()},
        {run: [each.ended, each.data.hex(), each.admitted] for run, each in over.items()},
    )
    gone = dict.fromkeys(_ADMITTED + run for run in over)
    return {**gone, _ARCHIVED: json.dumps(plain, separators=(",", ":")).encode("ascii")}


class History:
    """Reads the store as far as it has not; one for each opening of it.

    Costs are those of the file in hand: runs over files that are apart from it cost its rows nothing.

    Attributes:
        told: what left, by run, in the order of the ledger.
        admitted: runs that were let in, by name.
        archived: runs that were over before the end of an archive, by name.
        readings: of the clock, by the ledger.
    """

    def __init__(self, owner: str, store: Store, data: bytes | None = None) -> None:
        """Begin for one owner, with the digest of the file in hand, or of the last; `read` fills it."""
        self._owner = owner
        self._store = store
        files = DataFiles(store)
        self._apart = files.apart(files.in_hand if data is None else data)
        self._begin()

    def _begin(self) -> None:
        """Hold what archives tell, and nothing of the lines that they have."""
        self._tip = tip(self._store)
        self.readings = Readings(self._store)
        self.told, self.archived = read_archived(self._store)
        self.admitted = {
            run: self._admission(run, each.admitted.encode("ascii"))
            for run, each in self.archived.items()
            if each.admitted
        }

    def read(self) -> None:
        """Take in what was written since the last time.

        Raises:
            StoreError: a fact is not one that this release wrote.
            LedgerError: a line is no entry of a ledger.
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
            LedgerError: one is no entry of a ledger.
        """
        for kept in lines:
            (about,) = disclosures_in([kept.line])
            self.readings.add(kept.seq, kept.written)
            told = self.told.setdefault(about.run, Told())
            told.line, told.last = kept.seq, kept.written
            if (about.protected, about.observer) == (OWNERS, OWNERS):
                if about.run not in self.admitted:
                    told.heard.append((kept.seq, kept.written, about))
            elif (about.protected, about.observer) == (self._owner, CURATOR):
                if isinstance(about.event, RawRows | HashedRows | SealedRows):
                    told.rows += about.event.count
                elif about.nonce.startswith(SUMS):
                    told.sums += 1

    @property
    def rows(self) -> int:
        """Rows that left in all."""
        return sum(told.rows for told in self.told.values())

    @property
    def rows_of_no_pool(self) -> int:
        """Rows that left in runs of earlier releases, which drew no pools."""
        admitted = self.admitted
        return sum(t.rows for run, t in self.told.items() if run not in admitted or not admitted[run].pool)

    def cost(self, run: str, since: float = -math.inf, observer: str = OWNERS) -> tuple[Event, ...]:
        """Cost of a run towards an observer; nothing where nothing left in it, or it was over before a time.

        A run is over when the curator ended it: when its last line was written may depend on rows.
        """
        from fedkme.privacy.accountants import paid

        told = self.told.get(run)
        if told is None:
            return ()
        if (admission := self.admitted.get(run)) is not None:
            return admission.towards(observer) if self._ended(run, told) >= since else ()
        if observer != OWNERS:
            return (_UNKNOWN,) if self.readings.latest(told.line, told.last) >= since else ()
        latest = self.readings.latest
        return tuple(paid(about for line, at, about in told.heard if latest(line, at) >= since))

    def costs(
        self,
        since: float = -math.inf,
        without: str = "",
        observer: str = OWNERS,
        consumers: Collection[str] | None = None,
    ) -> Iterator[Event]:
        """Costs of runs towards an observer: where something left and that ended since a time, and open ones.

        Args:
            since: Unix seconds.
            without: a run that is left out.
            observer: OWNERS, CURATOR, or CONSUMER for the consumer of each run.
            consumers: for whom the runs are; None for any. One of which the store does not say counts.
        """
        under_way = {row.run for row in self._store.runs(OPEN)}
        for run in dict.fromkeys((*self.told, *self.admitted)):
            admission = self.admitted.get(run)
            others = admission is not None and consumers is not None and admission.consumer not in consumers
            if run == without or others or self._is_apart(run):
                continue
            if run in under_way and admission is not None:
                yield from admission.towards(observer)
            else:
                yield from self.cost(run, since, observer)

    def end(self, run: str, until: float) -> float | None:
        """Time at which a run had ended, where it was over by a place in the ledger; None where it was not.

        That never changes: it is the latest at which it may have ended, Unix seconds.
        """
        told, row = self.told.get(run, Told()), self._store.run(run)
        place = float(self._store.get(f"{OVER}{run}") or told.line)
        if place > until or (row is not None and row.ended is None):
            return None
        ended = self._ended(run, told)
        return ended if math.isfinite(ended) else None

    def _is_apart(self, run: str) -> bool:
        """Check whether a run was over rows that share none with those of the file in hand."""
        if not self._apart:
            return False
        if (archived := self.archived.get(run)) is not None:
            return archived.data in self._apart
        row = self._store.run(run)
        return row is not None and digest_from_bytes(row.document) in self._apart

    def _ended(self, run: str, told: Told) -> float:
        """The latest time at which a run may have ended, Unix seconds."""
        if (archived := self.archived.get(run)) is not None:
            return archived.ended
        row: RunRow | None = self._store.run(run)
        if row is None or row.ended is None:
            return self.readings.latest(told.line, told.last)
        place = float(self._store.get(f"{OVER}{run}") or told.line)
        return self.readings.latest(place, row.ended)

    def _admission(self, run: str, fact: bytes) -> Admission:
        try:
            return replace(_parsed(fact), run=run)
        except (ValueError, KeyError, TypeError, ProtocolError):
            raise StoreError(
                f"the store of {self._owner} says of {run} what this release cannot read",
                "Use the release that wrote it, or a later one.",
            ) from None


@lru_cache
def _parsed(fact: bytes) -> Admission:
    """The admission of a run that a fact says; most runs of an owner are alike but for their names."""
    plain = json.loads(fact)
    planned = tuple(event_from_json(event) for event in plain["planned"])
    kept = plain.get("shown")
    shown = None if kept is None else tuple(event_from_json(event) for event in kept)
    sizes = plain.get("pool")
    pool = None if sizes is None else PoolSize(*map(int, sizes))
    approval, ahead = plain["approval"], plain.get("ahead", "")
    return Admission(
        "", plain["consumer"], plain["protocol"], plain["rows"], planned, pool, approval, shown, ahead
    )
