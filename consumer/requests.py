"""A consumer's requests for summaries, in its store: what leaves of D_v is charged once, before it leaves.

A request makes one offer in its life. Its lines in the ledger, the offer and the keys of its run are one
transaction; whoever asks again gets those bytes, for that plan, or none (docs/decisions/004).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from google.protobuf.message import DecodeError

from consumer.archived import Archived, Explained
from consumer.sealed.keys import RunKeys
from fedkme.documents import RequestDocument
from fedkme.errors import (
    ConfigError,
    ConnectionFailedError,
    FedkmeError,
    IdentityError,
    NotMadeError,
    PartyFailedError,
    ProtocolError,
    ProtocolVersionError,
    QuotaError,
    StoppingError,
    StoreError,
)
from fedkme.exchange import Offer, Plan
from fedkme.heads.log import HeadLog
from fedkme.ledgers.archiving import RUNS, Leaving, archive_finished
from fedkme.ledgers.data_files import DataFiles
from fedkme.ledgers.windows import Readings, begin_of
from fedkme.party import fits_ledgers
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.privacy.events import REQUEST, Disclosure
from fedkme.privacy.ledger import disclosures_in, stored_ledger, tip
from fedkme.store import OPEN, RunRow, Store
from fedkme.wire.journals import request_document_from_bytes, request_document_to_bytes

RECEIVED, DONE, ENDED = "received", "done", "ended"
"""Statuses of a request that is not open: its rows are here; and were judged; or it never gets any."""
_OF_THE_CALL = (
    ConnectionFailedError,
    PartyFailedError,
    NotMadeError,
    StoreError,
    StoppingError,
    QuotaError,
    IdentityError,
    ProtocolVersionError,
)

Draw = Callable[[], tuple[Offer, RunKeys | None]]
"""Makes the offer for a plan, with the keys of its run where its rows go sealed."""


def is_final(error: FedkmeError) -> bool:
    """Check whether a curator's refusal ends the run, and not the call alone."""
    return not isinstance(error, _OF_THE_CALL)


class KeptRequest:
    """One request in a consumer's store.

    Attributes:
        document: all that is kept of it.
        status: `open`, or how it ended.
    """

    def __init__(self, requests: Requests, document: RequestDocument, status: str = OPEN) -> None:
        self._requests = requests
        self.document = document
        self.status = status

    def offer(self, plan: Plan, draw: Draw) -> Offer:
        """The offer for a plan: what was offered before, or what `draw` makes, charged and kept.

        Raises:
            ProtocolError: the offer was made for another plan, or the run's name is no new one.
            BudgetError: D_v cannot pay; nothing of it was computed.
            StoreError: it could not be kept, and must not leave.
        """
        _check_name(plan.run)
        known = self.document
        if known.plan is not None:
            if known.offer is None or not known.planned(plan):
                raise ProtocolError(
                    f"the curator plans {plan.run} otherwise than {known.plan.run}, for which D_v paid",
                    "Nothing more of D_v left: ask the curator's operator, or give the request up by "
                    "`fedkme consumer cancel` or another 'output'.",
                )
            return known.offer
        self._requests.check_new(plan.run)
        offer, keys = draw()
        plan = replace(plan, offered=False, offers=())
        secrets = None if keys is None else keys.secrets
        made = replace(known, plan=plan, offer=offer, secrets=secrets)
        self._requests.keep(made, offer.disclosures[len(known.disclosures) :])
        self.document = made
        return offer

    def end(self, status: str) -> None:
        """Say how it ended; offer and keys go.

        Raises:
            StoreError: it could not be written.
        """
        kept = replace(self.document, offer=None, secrets=None)
        self._requests.end(kept, status)
        self.document, self.status = kept, status


class Requests:
    """Requests and ledger of one consumer.

    Attributes:
        consumer: its name.
        files: its D_v over time.
    """

    def __init__(self, consumer: str, store: Store) -> None:
        """Go on with what a store holds.

        Raises:
            LedgerError: its last line is no entry of this consumer's.
        """
        self.consumer = consumer
        self.files = DataFiles(store)
        self._store = store
        self._ledger = stored_ledger(consumer, store)

    @property
    def spent(self) -> list[Disclosure]:
        """Disclosures of D_v, in the order in which they were charged."""
        return disclosures_in(kept.line for kept in self._store.ledger())

    @property
    def used_files(self) -> set[bytes]:
        """Digests of each D_v of which something may have left."""
        here = map(self._store.run, self._store.finished())
        rows = (row for row in (*here, *self._store.runs(OPEN)) if row is not None)
        return Archived.of(self._store).files | _used(map(_document, rows)).keys()

    def within(self, days: float | None, now: float, data: bytes) -> list[Disclosure]:
        """Disclosures of D_v that may lie in the last so many days; all of them without a number.

        Those of another D_v are among them, unless it is apart from this one (`fedkme.ledgers.data_files`).

        Args:
            days: of the window.
            now: Unix seconds.
            data: digest of D_v.
        """
        readings, begin, apart = Readings(self._store), begin_of(days, now), self.files.apart(data)
        lines = self._store.ledger(readings.last)
        for kept in lines:
            readings.add(kept.seq, kept.written)
        inside = [kept.line for kept in lines if readings.latest(kept.seq, kept.written) >= begin]
        readings.note(now)
        archived = Archived.of(self._store).since(begin, apart)
        return [*archived, *self._of_data(disclosures_in(inside), apart)]

    def _of_data(self, lines: list[Disclosure], apart: frozenset[bytes]) -> list[Disclosure]:
        """Leave out lines of requests over files that are apart; one that no request explains stays."""
        if not apart:
            return lines
        there, here = Explained(), Explained()
        for document in self._documents():
            (there if document.data in apart else here).add(document)
        return [line for line in lines if not there.has(line) or here.has(line)]

    def _documents(self) -> list[RequestDocument]:
        return [_document(row) for row in self._store.runs()]

    def last(self, output: str) -> KeptRequest | None:
        """The last request whose rows go to a folder.

        Raises:
            StoreError: it cannot be read.
        """
        return self._latest(output, lambda document: document.output == output)

    def _latest(self, text: str, fits: Callable[[RequestDocument], bool]) -> KeptRequest | None:
        """The last request that fits, in whose document a text stands."""
        for row in reversed(self._store.runs()):
            if text.encode() in row.document and fits(_document(row)):
                whole = replace(row, document=self._store.document(row.run) or row.document)
                return KeptRequest(self, _document(whole), row.status)
        return None

    def going_on(self, document: RequestDocument) -> KeptRequest | None:
        """The request with which a command goes on: one for the same, whose rows are not here, or not judged.

        Raises:
            ConfigError: another one waits for the same folder, and D_v has paid for it.
        """
        before = self.last(document.output)
        if before is None or before.status in (DONE, ENDED):
            return None
        if before.document.asks_the_same(document):
            return before
        if before.status == OPEN:
            if (plan := before.document.plan) is not None:
                raise ConfigError(
                    f"{document.output} waits for another summary, {plan.run}, for which D_v has paid",
                    "Ask with its settings and its D_v, give it up by `fedkme consumer cancel`, or choose "
                    "another 'output'.",
                )
            before.end(ENDED)
        return None

    def begin(self, document: RequestDocument) -> KeptRequest:
        """Keep a new request, with what it discloses by being made.

        Raises:
            StoreError: it could not be kept.
        """
        with self._ledger.together(self._store):
            self._ledger.extend(document.disclosures)
            self._store.open_run(document.name, self.consumer, request_document_to_bytes(document))
        return KeptRequest(self, document)

    def heads(self, identity: Callable[[], Identity | None]) -> HeadLog:
        """Heads of curators that were shown to this consumer, and are kept."""
        return HeadLog(Role.CONSUMER, self.consumer, self._ledger, self._store, identity)

    def check_new(self, run: str) -> None:
        """Refuse a run of which the ledger has lines: those of two would be told apart by nothing.

        Raises:
            ProtocolError: it has.
        """
        last = tip(self._store)
        lines = self._store.ledger(0 if last is None else last.last)
        known = {about.run for about in disclosures_in(kept.line for kept in lines)}
        if run in known | Archived.of(self._store).runs:
            raise ProtocolError(
                f"the curator calls a new run {run}, as it called another one",
                "Nothing of D_v left: ask the curator's operator.",
            )

    def keep(self, document: RequestDocument, lines: tuple[Disclosure, ...]) -> None:
        """Write a request's offer with its lines, all or nothing; when this returns, the offer may leave.

        Raises:
            StoreError: it could not be written.
        """
        with self._ledger.together(self._store):
            self._ledger.extend(lines)
            self._store.update_run(document.name, document=request_document_to_bytes(document))

    def end(self, document: RequestDocument, status: str) -> None:
        """Write how a request ended; what `document` has no more is overwritten.

        Raises:
            StoreError: it could not be written.
        """
        with self._store.transaction():
            self._store.update_run(
                document.name, status=status, document=request_document_to_bytes(document), ended=True
            )
            self._store.forget_entries(document.name)

    def of_run(self, run: str) -> KeptRequest | None:
        """The request that a run answers.

        Raises:
            StoreError: it cannot be read.
        """
        return self._latest(run, lambda document: document.plan is not None and document.plan.run == run)

    def archive(self, runs: int = RUNS) -> int:
        """Archive requests that are over; the budget, and which runs are known, stay as they were.

        Returns:
            How many archives were made.

        Raises:
            StoreError: one could not be written; the store is as it was.
        """

        def settle(leaving: Leaving) -> dict[str, bytes | None]:
            archived = Archived.of(self._store)
            return archived.with_lines(self._store, leaving, _used(self._documents())).facts()

        return archive_finished(self._store, _shortened, settle, runs)


def _check_name(run: str) -> None:
    if not run or not fits_ledgers(run) or run == REQUEST:
        raise ProtocolError("the curator gives a run a name that no ledger takes", "Look at its software.")


def _used(documents: Iterable[RequestDocument]) -> dict[bytes, Explained]:
    """Lines that requests explain, by each D_v of which something may have left."""
    found: dict[bytes, Explained] = {}
    for document in documents:
        if document.plan is not None or document.disclosures:
            found.setdefault(document.data, Explained()).add(document)
    return found


def _shortened(document: bytes) -> bytes:
    """Document of an archived request without code book and keys, for the store."""
    request = request_document_from_bytes(document)
    if request.plan is None:
        return document
    return request_document_to_bytes(replace(request, plan=request.plan.shortened()))


def _document(row: RunRow) -> RequestDocument:
    try:
        return request_document_from_bytes(row.document)
    except (DecodeError, ProtocolError):
        raise StoreError(
            f"the store holds a request of {row.peer} that this release cannot read",
            "Use the release that wrote it, or a later one.",
        ) from None
