"""A consumer's requests for summaries, in its store: each offer is charged once, before it leaves.

A request makes one offer in its life. One transaction stores the offer, its ledger lines and the keys of its
run; a repeated request sends the same bytes, for the same plan, or nothing (docs/decisions/004).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

from google.protobuf.message import DecodeError

from consumer.archived import Archived
from consumer.sealed_rows import RunKeys
from fedkme import errors
from fedkme.documents import RequestDocument
from fedkme.exchange import Offer, Plan
from fedkme.heads.log import HeadLog
from fedkme.ledgers.archiving import RUNS, Leaving, archive_finished
from fedkme.ledgers.data_files import DataFiles
from fedkme.ledgers.windows import Readings, begin_of
from fedkme.party import fits_ledgers
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.privacy.events import Disclosure
from fedkme.privacy.ledger import disclosures_in, stored_ledger, tip
from fedkme.store import OPEN, RunRow, Store
from fedkme.wire.journals import request_document_from_bytes, request_document_to_bytes

RECEIVED, DONE, ENDED = "received", "done", "ended"
"""Statuses of a request that is not open: rows received; rows judged; ended without rows."""
_OF_THE_CALL = (
    errors.ConnectionFailedError,
    errors.PartyFailedError,
    errors.NotMadeError,
    errors.StoreError,
    errors.StoppingError,
    errors.QuotaError,
    errors.IdentityError,
    errors.ProtocolVersionError,
)

Draw = Callable[[], tuple[Offer, RunKeys | None]]
"""Makes the offer for a plan, with the run's keys if its rows go sealed."""


def is_final(error: errors.FedkmeError) -> bool:
    """Check whether a curator's refusal ends the run, and not the call alone."""
    return not isinstance(error, _OF_THE_CALL)


class KeptRequest:
    """One request in a consumer's store.

    Attributes:
        document: the stored request.
        status: `open`, or its end.
    """

    def __init__(self, requests: Requests, document: RequestDocument, status: str = OPEN) -> None:
        self._requests = requests
        self.document = document
        self.status = status

    def offer(self, plan: Plan, draw: Draw) -> Offer:
        """The offer for a plan: the earlier one, or a new one by `draw`, which is charged and stored.

        Raises:
            ProtocolError: the offer was made for another plan, or the run's name is not new.
            BudgetError: the cost exceeds D_v's budget; nothing was computed from D_v.
            StoreError: the offer could not be stored, and must not leave.
        """
        _check_name(plan.run)
        document = self.document
        if document.plan is not None:
            if document.offer is None or not document.planned(plan):
                raise errors.ProtocolError(
                    f"the curator plans {plan.run} unlike {document.plan.run}, for which D_v paid",
                    "Nothing more of D_v left: ask the curator's operator, or give the request up by "
                    "`fedkme consumer cancel` or another 'output'.",
                )
            return document.offer
        self._requests.check_new(plan.run)
        offer, keys = draw()
        plan = replace(plan, offered=False, offers=())
        secrets = None if keys is None else keys.secrets
        charged = replace(document, plan=plan, offer=offer, secrets=secrets)
        self._requests.keep(charged, offer.disclosures)
        self.document = charged
        return offer

    def end(self, status: str) -> None:
        """Store the end of the request, and delete its offer and keys.

        Raises:
            StoreError: the end could not be written.
        """
        shortened = replace(self.document, offer=None, secrets=None)
        self._requests.end(shortened, status)
        self.document, self.status = shortened, status

    def finish(self, warn: Callable[[errors.StoreError], None]) -> None:
        """Store that the rows are judged; warn where the store refuses.

        This is no error: rows and verdict are there. If the store kept the end after all, the same command
        would ask anew, and D_v pay again.
        """
        try:
            self.end(DONE)
        except errors.StoreError as error:
            warn(error)


class Requests:
    """Requests and ledger of one consumer.

    Attributes:
        consumer: the consumer's name.
        files: its D_v files over time.
    """

    def __init__(self, consumer: str, store: Store) -> None:
        """Continue with the requests in a store.

        Raises:
            LedgerError: the last line is not an entry of this consumer's ledger.
        """
        self.consumer = consumer
        self.files = DataFiles(store)
        self._store = store
        self._ledger = stored_ledger(consumer, store)

    @property
    def spent(self) -> list[Disclosure]:
        """Disclosures of D_v, in the order in which they were charged."""
        return disclosures_in(row.line for row in self._store.ledger())

    @property
    def used_files(self) -> set[bytes]:
        """Digests of each D_v about which something may have left."""
        finished = map(self._store.run, self._store.finished())
        rows = (row for row in (*finished, *self._store.runs(OPEN)) if row is not None)
        return Archived.of(self._store).files | _runs_of(map(_document, rows)).keys()

    def within(self, days: float | None, now: float, data: bytes) -> list[Disclosure]:
        """Disclosures of D_v that may lie in the last `days` days.

        Disclosures of another D_v count too, unless it shares no rows with this one
        (`fedkme.ledgers.data_files`).

        Args:
            days: length of the window; None: no limit.
            now: Unix seconds.
            data: digest of D_v.
        """
        readings, begin, apart = Readings(self._store), begin_of(days, now), self.files.apart(data)
        lines = self._store.ledger(readings.last)
        for row in lines:
            readings.add(row.seq, row.written)
        inside = [row.line for row in lines if readings.latest(row.seq, row.written) >= begin]
        readings.note(now)
        archived = Archived.of(self._store).since(begin, apart)
        return [*archived, *self._of_data(disclosures_in(inside), apart)]

    def _of_data(self, lines: list[Disclosure], apart: frozenset[bytes]) -> list[Disclosure]:
        """Leave out lines of requests over files in `apart`; lines that no request explains stay."""
        if not apart:
            return lines
        there, current = set[str](), set[str]()
        for data, runs in _runs_of(self._documents()).items():
            (there if data in apart else current).update(runs)
        return [line for line in lines if line.run not in there - current]

    def _documents(self) -> list[RequestDocument]:
        return [_document(row) for row in self._store.runs()]

    def last(self, output: str) -> KeptRequest | None:
        """Find the last request whose rows go to a folder.

        Raises:
            StoreError: the request cannot be read.
        """
        return self._latest(output, lambda document: document.output == output)

    def _latest(self, text: str, fits: Callable[[RequestDocument], bool]) -> KeptRequest | None:
        """Find the last request that `fits` accepts and whose document contains a text."""
        for row in reversed(self._store.runs()):
            if text.encode() in row.document and fits(_document(row)):
                whole = replace(row, document=self._store.document(row.run) or row.document)
                return KeptRequest(self, _document(whole), row.status)
        return None

    def going_on(self, document: RequestDocument) -> KeptRequest | None:
        """Find an equal request that still waits for rows or for its verdict, for a command to continue.

        Raises:
            ConfigError: another request, which D_v has paid for, waits for the same folder.
        """
        before = self.last(document.output)
        if before is None or before.status in (DONE, ENDED):
            return None
        if before.document.asks_the_same(document):
            return before
        if before.status == OPEN and (plan := before.document.plan) is not None:
            raise errors.ConfigError(
                f"{document.output} waits for another summary, {plan.run}, for which D_v has paid",
                "Repeat it with its settings and D_v, give it up by `fedkme consumer cancel`, or choose "
                "another 'output'.",
            )
        return None

    def begin(self, document: RequestDocument) -> KeptRequest:
        """Store a new request; it replaces an open one for the same folder, for which D_v has paid nothing.

        Raises:
            StoreError: the request could not be stored.
        """
        before = self.last(document.output)
        with self._store.transaction():
            if before is not None and before.status == OPEN and before.document.plan is None:
                self._store.update_run(before.document.name, status=ENDED, ended=True)
                replaced = before.document.request.request_id
                document = replace(document, request=replace(document.request, replaces=replaced))
            self._store.open_run(document.name, self.consumer, request_document_to_bytes(document))
        return KeptRequest(self, document)

    def heads(self, identity: Callable[[], Identity | None]) -> HeadLog:
        """Log of the curators' heads that this consumer received."""
        return HeadLog(Role.CONSUMER, self.consumer, self._ledger, self._store, identity)

    def check_new(self, run: str) -> None:
        """Refuse a run whose name is in the ledger: nothing would tell the lines of both runs apart.

        Raises:
            ProtocolError: the ledger has lines of a run with this name.
        """
        last = tip(self._store)
        lines = self._store.ledger(0 if last is None else last.last)
        used = {about.run for about in disclosures_in(row.line for row in lines)}
        if run in used | Archived.of(self._store).runs:
            cause = f"the curator calls a new run {run}, the name of an earlier run"
            raise errors.ProtocolError(cause, "Nothing of D_v left: ask the curator's operator.")

    def keep(self, document: RequestDocument, lines: tuple[Disclosure, ...]) -> None:
        """Store a request's offer with its lines, all or nothing; afterwards the offer may leave.

        Raises:
            StoreError: the offer could not be written.
        """
        with self._ledger.together(self._store):
            self._ledger.extend(lines)
            self._store.update_run(document.name, document=request_document_to_bytes(document))

    def end(self, document: RequestDocument, status: str) -> None:
        """Store the end of a request; `document` overwrites the stored one.

        Raises:
            StoreError: the end could not be written.
        """
        with self._store.transaction():
            self._store.update_run(
                document.name, status=status, document=request_document_to_bytes(document), ended=True
            )
            self._store.forget_entries(document.name)

    def of_run(self, run: str) -> KeptRequest | None:
        """Find the request that a run answers.

        Raises:
            StoreError: the request cannot be read.
        """
        return self._latest(run, lambda document: document.plan is not None and document.plan.run == run)

    def archive(self, runs: int = RUNS) -> int:
        """Archive ended requests; the budget and the used names of runs stay as they were.

        Returns:
            Number of archives made.

        Raises:
            StoreError: an archive could not be written; the store is unchanged.
        """

        def settle(leaving: Leaving) -> dict[str, bytes | None]:
            archived = Archived.of(self._store)
            return archived.with_lines(self._store, leaving, _runs_of(self._documents())).facts()

        return archive_finished(self._store, _shortened, settle, runs)


def _check_name(run: str) -> None:
    if not run or not fits_ledgers(run):
        cause = "the curator gives a run a name that does not fit in ledgers"
        raise errors.ProtocolError(cause, "Look at its software.")


def _runs_of(documents: Iterable[RequestDocument]) -> dict[bytes, set[str]]:
    """Names of the runs that requests led to, by each D_v about which something may have left."""
    runs = defaultdict[bytes, set[str]](set)
    for document in documents:
        if document.plan is not None:
            runs[document.data].add(document.plan.run)
    return runs


def _shortened(document: bytes) -> bytes:
    """Shorten the document of an archived request: no code book, no keys."""
    request = request_document_from_bytes(document)
    if request.plan is None:
        return document
    return request_document_to_bytes(replace(request, plan=request.plan.shortened()))


def _document(row: RunRow) -> RequestDocument:
    try:
        return request_document_from_bytes(row.document)
    except (DecodeError, errors.ProtocolError):
        cause = f"the store holds a request of {row.peer} that this release cannot read"
        raise errors.StoreError(cause, "Use the release that wrote it, or a later one.") from None
