"""All runs of an owner: each has its handler, and everything that leaves is on disk before it does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fedkme.directives import (
    Accepted,
    Answer,
    Directive,
    Dismiss,
    KeepHead,
    OfferKeys,
    Refusal,
    ShowHead,
    Unreadable,
)
from fedkme.documents import OwnerEntry
from fedkme.errors import BudgetError, FedkmeError, OwnerFaultError, PolicyError, ProtocolError, StoreError
from fedkme.heads.log import EXCHANGE, Head, HeadLog
from fedkme.heads.notes import CURATORS
from fedkme.ledgers.windows import place_in
from fedkme.party import fits_ledgers
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.privacy.events import Disclosure
from fedkme.privacy.ledger import Ledger, stored_ledger
from fedkme.protocol import Consider, Invitation
from fedkme.sealed.offers import KeyOffer
from fedkme.store import OPEN, Store
from fedkme.store.journal import Journal
from fedkme.wire.journals import (
    digest_from_bytes,
    digest_to_bytes,
    owner_entry_from_bytes,
    owner_entry_to_bytes,
)
from owner.consent.gate import SentRows
from owner.consent.history import OVER
from owner.handler import RunHandler
from owner.keyring import KeyRing

_KIND = "answer"
ENDED = "ended"
MOST_REFUSED = 64
"""Runs that were refused and not dismissed yet; each is a line in the store, and further ones get no line."""


class Outbox:
    """Takes the disclosures of one answer, for the transaction in which it is kept."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.lines: list[Disclosure] = []

    def extend(self, disclosures: Iterable[Disclosure]) -> None:
        """Take lines, in order."""
        self.lines.extend(disclosures)

    def head(self) -> dict[str, int | str]:
        """Head of the ledger behind it."""
        return self._ledger.head()


class RunManager:
    """Answers directives of any number of runs, and forgets those that are over."""

    def __init__(
        self,
        name: str,
        curator: str,
        data: bytes,
        store: Store,
        sent: SentRows,
        open_handler: Callable[[Invitation, Outbox], RunHandler],
        runs_at_once: int,
        keys: KeyRing | None = None,
        identity: Callable[[], Identity | None] = lambda: None,
        rows: int = 0,
        failed: Callable[[str, FedkmeError], None] | None = None,
        consider: Callable[[Consider], None] = lambda asked: None,
    ) -> None:
        """Open with what the store holds; a run is only continued over the same rows.

        A run is only continued over rows of the digest `data`; `sent` counts rows that left, in all runs.
        `open_handler` makes what answers a run that the owner is invited to: its disclosures go to the
        outbox. Without keys the owner takes part in no run whose rows go sealed; `identity` signs heads of
        its ledger, None in plaintext. `rows` says how many a run may have at most. `failed` is told which
        run this owner cannot answer, and why: its own operator has to know of a full disk. `consider` refuses
        a summary that this owner would refuse, and says so.
        """
        self.rows = rows
        self._name = name
        self._curator = curator
        self._data = data
        self._store = store
        self._sent = sent
        self._ledger = stored_ledger(name, store)
        self._heads = HeadLog(Role.OWNER, name, self._ledger, store, identity)
        self._heads.check()
        self._journal = Journal(store, _KIND, owner_entry_to_bytes, owner_entry_from_bytes)
        self._outbox = Outbox(self._ledger)
        self._open_handler = open_handler
        self._keys = keys
        self._runs_at_once = runs_at_once
        self._failed = failed
        self._consider = consider
        self._handlers: dict[str, RunHandler] = {}
        self._unkept: dict[str, Refusal] = {}  # by run: of this stream, whose answer the disk refused
        # An earlier process kept nothing of those that waited for an approval.
        self._refused = {row.run for row in store.runs(OPEN) if not store.entries(row.run)}

    def answer(self, directive: Directive) -> Answer | None:
        """The answer to send back, kept with its ledger lines when this returns; None for none."""
        run = directive.run
        try:
            match directive.body:
                case Dismiss():
                    self._check_name(run)
                    self._forget(run)
                    return None
                case OfferKeys(later):
                    self._check_name(run)
                    return self._offer(later)
                case Consider() as asked:
                    return self._considered(asked)
                case ShowHead(known, origin):
                    self._check_name(run)
                    return self._shown(run.removesuffix(EXCHANGE), known, origin)
                case KeepHead(head):
                    return self._heads.cosign(self._heads.keep(head, CURATORS))
            if run in self._unkept:
                return self._unkept[run]  # the curator goes on without this owner: nothing may leave now
            handler = self._handlers.get(run) or self._opened(directive)
            if not handler.is_new(directive):
                return handler.again(directive)
            left = self._sent.count
            if run in self._refused:
                self._check_room()
            entry = handler.answer(directive)
            if handler.begun:
                self._refused.discard(run)
            if isinstance(directive.body, Invitation) and not handler.begun:
                self._refused.add(run)  # which the gate has said
                if isinstance(entry.answer, Refusal) and entry.answer.awaits_approval:
                    return entry.answer  # and is not kept: asked again, it may have been approved
            elif isinstance(entry.answer, Refusal):
                self._say(run, entry.answer.error())
            self._keep(run, entry, left)
            return handler.again(directive)
        except FedkmeError as error:
            self._say(run, error)
            return Refusal.of(error)
        finally:
            if run in self._refused:
                # its arrays are as long as the table; the journal can bring it back
                self._handlers.pop(run, None)

    def _say(self, run: str, error: FedkmeError) -> None:
        if self._failed is not None:
            self._failed(run, error)

    def wait_s(self, directive: Directive, taken_s: float) -> float:
        """Seconds that the answer to a directive waits before it leaves, when it took so many."""
        handler = self._handlers.get(directive.run)
        return 0.0 if handler is None else handler.wait_s(directive, taken_s)

    def _offer(self, run: str) -> KeyOffer:
        """Keys for a run that has not begun; nothing of rows, so nothing is kept."""
        self._check_name(run)
        if self._keys is None or not run:
            raise PolicyError(
                f"{self._name} takes part in no runs whose rows go sealed",
                "Ask it for other summaries alone.",
            )
        return self._keys.offer(run)

    def _considered(self, asked: Consider) -> Answer:
        """Say whether this owner will take part; nothing begins, so nothing is kept."""
        self._check_name(asked.run)
        try:
            self._consider(asked)
        except (BudgetError, PolicyError) as error:  # which the gate has said
            return Refusal.of(error)
        return Accepted(self.rows)

    def _shown(self, run: str, known: int, origin: str) -> Head:
        """The head of the ledger as it is, for a curator that knows no more leaves than there are."""
        self._heads.show(known, origin)
        self._heads.advance(run)
        return self._heads.show(known, origin)

    def welcome(self, runs: Iterable[str]) -> None:
        """Forget every run but those in which the curator still has this owner: a new stream begins."""
        self._unkept.clear()
        kept = set(runs)
        for row in self._store.runs(OPEN):
            if row.run not in kept:
                self._forget(row.run)

    def head(self) -> Head:
        """Head of the ledger as it was shown last, with which the owner joins; empty before the first."""
        return self._heads.last() or Head("")

    @property
    def rows_sent(self) -> int:
        """Rows that left, in all runs."""
        return self._sent.count

    @property
    def runs(self) -> list[str]:
        """Open runs."""
        return [row.run for row in self._store.runs(OPEN)]

    def _check_name(self, run: str) -> None:
        """Hold a run to a name that fits in stores, logs and ledgers."""
        if not fits_ledgers(run):
            raise ProtocolError(
                f"{self._name} is asked about a run whose name is long or not printable",
                "Check the curator's software.",
            )

    def _opened(self, directive: Directive) -> RunHandler:
        run = directive.run
        self._check_name(run)
        row = self._store.run(run)
        if row is None:
            self._begin(directive)
        elif row.status != OPEN:
            raise OwnerFaultError(f"{self._name} has left {run}", "Start another run.")
        elif digest_from_bytes(row.document) != self._data:
            raise OwnerFaultError(
                f"{self._name} holds other rows than those that {run} was begun with",
                "Restore the file, or let the run go on without this owner.",
            )
        entries = self._journal.entries(run)
        first = (entries[0].directive if entries else directive).body
        if not isinstance(first, Invitation):
            raise self._not_in(run)
        handler = self._open_handler(first, self._outbox)
        for entry in entries:
            handler.restore(entry)
        self._handlers[run] = handler
        return handler

    def _begin(self, directive: Directive) -> None:
        run = directive.run
        if isinstance(directive.body, Unreadable) and directive.question == "invite":
            raise directive.body.reason.error()
        if not isinstance(directive.body, Invitation) or not run:
            raise self._not_in(run)
        self._check_room()
        if len(self._refused) >= MOST_REFUSED:
            raise PolicyError(
                f"{self._name} has refused {MOST_REFUSED} runs that the curator has not dismissed",
                "Check the curator's software.",
            )
        self._store.open_run(run, self._curator, digest_to_bytes(self._data))

    def _check_room(self) -> None:
        """Refuse one run more than there may be at once."""
        if self._in_runs() >= self._runs_at_once:
            raise PolicyError(
                f"{self._name} is in {self._runs_at_once} runs, as many as it takes part in at once",
                "Wait for one of them to end, or let the owner raise 'runs_at_once' of its policy.",
            )

    def _not_in(self, run: str) -> ProtocolError:
        return ProtocolError(f"{self._name} is not in a run called {run!r}", "Restart the run.")

    def _in_runs(self) -> int:
        """Open runs but for those that this owner refused and that wait to be dismissed."""
        return sum(row.run not in self._refused for row in self._store.runs(OPEN))

    def _keep(self, run: str, entry: OwnerEntry, left: int) -> None:
        """The answer and its ledger lines, all or nothing; `left` rows had left before it."""
        try:
            with self._ledger.together(self._store):
                self._journal.append(run, entry)
                self._ledger.extend(self._outbox.lines)
        except StoreError as error:
            # what is in memory is ahead of what is on disk: the handler is made anew when it is asked again,
            # over another stream, as the curator may not have heard of the refusal
            self._handlers.pop(run, None)
            self._sent.count = left
            self._unkept[run] = Refusal.of(error)
            raise
        finally:
            self._outbox.lines.clear()

    def _forget(self, run: str) -> None:
        self._handlers.pop(run, None)
        self._unkept.pop(run, None)
        self._refused.discard(run)
        row = self._store.run(run)
        if row is not None and row.status == OPEN:
            place = place_in(self._store, int(self._ledger.head()["entries"]))
            with self._store.transaction():
                self._store.put(f"{OVER}{run}", str(place).encode("ascii"))
                self._store.update_run(run, status=ENDED, ended=True)
                self._store.forget_entries(run)
