"""All runs of an owner: one handler per run; every answer is on disk before it leaves."""

from collections.abc import Iterable

from fedkme import directives, errors
from fedkme.documents import OwnerEntry
from fedkme.heads.log import EXCHANGE, Head, HeadLog
from fedkme.heads.notes import CURATORS
from fedkme.ledgers.departures import keep_departure
from fedkme.ledgers.windows import place_in
from fedkme.party import fits_ledgers
from fedkme.pki.certificates import Role
from fedkme.privacy.events import Disclosure
from fedkme.privacy.ledger import Ledger, stored_ledger
from fedkme.protocol import Consider, Invitation
from fedkme.sealed.offers import KeyOffer
from fedkme.store import OPEN
from fedkme.store.journal import Journal
from fedkme.wire.journals import (
    digest_from_bytes,
    digest_to_bytes,
    owner_entry_from_bytes,
    owner_entry_to_bytes,
)
from owner.consent.gate import OwnerGate, SentRows
from owner.consent.history import OVER, History
from owner.consent.policy import Policy
from owner.consent.pools import RowPools
from owner.handler import RunHandler
from owner.keyring import KeyRing
from owner.party import OwnerParty

_KIND = "answer"
ENDED = "ended"
MOST_REFUSED = 64
"""Runs refused but not yet dismissed; each takes a line in the store. Further runs are refused without a
line."""


class Outbox:
    """Collects the disclosures of one answer, for the transaction that stores the answer."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.lines: list[Disclosure] = []

    def extend(self, disclosures: Iterable[Disclosure]) -> None:
        """Append disclosures, in order."""
        self.lines.extend(disclosures)

    def head(self) -> dict[str, int | str]:
        """Head of the ledger that the disclosures will go to."""
        return self._ledger.head()


class RunManager:
    """Answers directives of any number of runs, and forgets finished runs.

    Attributes:
        rows: rows that a run may have at most.
        schema: digest of the public schema that the owner holds.
    """

    def __init__(self, party: OwnerParty, curator: str = "") -> None:
        """Continue the runs in the owner's store, for the curator at an address.

        Raises:
            StoreError: the store cannot be read.
            LedgerError: a line is no entry of a ledger.
        """
        name, store, settings = party.name, party.store, party.policy
        data = party.table.digest()  # a run continues over the same rows only
        history = History(name, store, data)
        history.read()
        pools = RowPools(store, data, len(party.table), party.noise_for("pool"), settings)
        self.rows, self.schema = pools.most, party.schema.digest()
        self._party, self._name, self._store = party, name, store
        self._curator, self._data = curator, data
        self._sent = SentRows(history.rows)
        self._policy = Policy(
            name, settings, party.schema, store, history, pools, party.approvals, party.clock
        )
        self._keys = KeyRing(name, party.identity, party.revoked)
        self._ledger = stored_ledger(name, store)
        self._heads = HeadLog(Role.OWNER, name, self._ledger, store, party.identity)
        self._heads.check()
        self._journal = Journal(store, _KIND, owner_entry_to_bytes, owner_entry_from_bytes)
        self._outbox = Outbox(self._ledger)
        self._handlers: dict[str, RunHandler] = {}
        # Refusals by run, for this stream: the disk refused to store the answer.
        self._unkept: dict[str, directives.Refusal] = {}
        # Open runs without journal entries: an earlier process had them wait for an approval.
        self._refused = {row.run for row in store.runs(OPEN) if not store.entries(row.run)}

    def answer(self, directive: directives.Directive) -> directives.Answer | None:
        """Answer a directive; None if it needs no answer. On return answer and ledger lines are stored.

        Others hear that this owner's store failed; its own log says where and why.

        Raises:
            StoreError: another process may have the store; it will answer, and this process must not refuse.
        """
        answer = self._answered(directive)
        if isinstance(answer, directives.Refusal) and isinstance(answer.error(), errors.StoreError):
            cause, remedy = f"the store of {self._name} failed", "Tell its operator, whose log says why."
            return directives.Refusal(answer.code, cause, remedy)
        return answer

    def _answered(self, directive: directives.Directive) -> directives.Answer | None:
        run = directive.run
        try:
            match directive.body:
                case directives.Dismiss(reason):
                    self._check_name(run)
                    self._forget(run)
                    if reason is not None and keep_departure(self._store, self._name, run, reason):
                        self._party.left_out(run, reason.error())
                    return None
                case directives.OfferKeys(later):
                    self._check_name(run)
                    return self._offer(later)
                case Consider() as request:
                    return self._considered(request)
                case directives.ShowHead(known_leaves, origin):
                    self._check_name(run)
                    return self._show_head(run.removesuffix(EXCHANGE), known_leaves, origin)
                case directives.KeepHead(head):
                    return self._heads.cosign(self._heads.keep(head, CURATORS))
            if run in self._unkept:
                return self._unkept[run]  # the curator goes on without this owner: nothing may leave now
            handler = self._handlers.get(run) or self._opened(directive)
            if not handler.is_new(directive):
                return handler.again(directive)
            sent_before = self._sent.count
            if run in self._refused:
                self._check_room()
            entry = handler.answer(directive)
            if handler.begun:
                self._refused.discard(run)
            if isinstance(directive.body, Invitation) and not handler.begun:
                self._refused.add(run)  # the gate logged the refusal
                if isinstance(entry.answer, directives.Refusal) and entry.answer.awaits_approval:
                    # not stored: the run may be approved before the directive comes again
                    return entry.answer
            elif isinstance(entry.answer, directives.Refusal):
                self._say(run, entry.answer.error())
            self._keep(run, entry, sent_before)
            return handler.again(directive)
        except errors.FedkmeError as error:
            self._store.check()
            self._say(run, error)
            return directives.Refusal.of(error)
        finally:
            if run in self._refused:
                # the handler holds arrays as long as the table; the journal can restore the handler
                self._handlers.pop(run, None)

    def _say(self, run: str, error: errors.FedkmeError) -> None:
        if self._party.refused is not None:  # its operator must hear of a full disk
            self._party.refused(run, error)

    def wait_s(self, directive: directives.Directive, taken_s: float) -> float:
        """Seconds that an answer must wait before it leaves, given the seconds that computing it took."""
        handler = self._handlers.get(directive.run)
        return 0.0 if handler is None else handler.wait_s(directive, taken_s)

    def _offer(self, run: str) -> KeyOffer:
        """Offer keys for a run that has not begun; keys say nothing about rows, so nothing is stored."""
        self._check_name(run)
        if not run:
            cause = f"{self._name} takes part in no runs whose rows go sealed"
            raise errors.PolicyError(cause, "Ask it for other summaries alone.")
        return self._keys.offer(run)

    def _considered(self, request: Consider) -> directives.Answer:
        """Answer whether this owner would take part; no run begins, so nothing is stored."""
        self._check_name(request.run)
        try:
            self._party.schema.check_digest(request.schema, f"the curator and {self._name}")
            OwnerGate(self._name, None, self._sent, self._policy, self._party.refused).consider(request)
        except (errors.BudgetError, errors.PolicyError) as error:  # the gate logged the refusal
            return directives.Refusal.of(error)
        return directives.Accepted(self.rows)

    def _show_head(self, run: str, known_leaves: int, origin: str) -> Head:
        """Show the current head of the ledger to a curator that knows at most as many leaves as there are."""
        self._heads.show(known_leaves, origin)
        self._heads.advance(run)
        return self._heads.show(known_leaves, origin)

    def welcome(self, runs: Iterable[str]) -> None:
        """Begin a new stream: forget every run except `runs`, in which the curator still has this owner."""
        self._unkept.clear()
        continued = set(runs)
        for row in self._store.runs(OPEN):
            if row.run not in continued:
                self._forget(row.run)

    def head(self) -> Head:
        """Head of the ledger that was last shown; the owner joins with it. Empty before the first."""
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
        """Refuse a run whose name does not fit in stores, logs and ledgers."""
        if not fits_ledgers(run):
            cause = f"{self._name} is asked about a run whose name is long or not printable"
            raise errors.fault_of_curator(cause)

    def _opened(self, directive: directives.Directive) -> RunHandler:
        run = directive.run
        self._check_name(run)
        row = self._store.run(run)
        if row is None:
            self._begin(directive)
        elif row.status != OPEN:
            raise errors.OwnerFaultError(f"{self._name} has left {run}", "Start another run.")
        elif digest_from_bytes(row.document) != self._data:
            cause = f"{self._name} holds other rows than those that {run} was begun with"
            raise errors.OwnerFaultError(cause, "Restore the file, or let the run go on without this owner.")
        entries = self._journal.entries(run)
        first = (entries[0].directive if entries else directive).body
        if not isinstance(first, Invitation):
            raise self._not_in(run)
        gate = OwnerGate(self._name, self._outbox, self._sent, self._policy, self._party.refused)
        handler = self._party.handler(first, gate, self._keys)
        for entry in entries:
            handler.restore(entry)
        self._handlers[run] = handler
        return handler

    def _begin(self, directive: directives.Directive) -> None:
        run = directive.run
        if isinstance(directive.body, directives.Unreadable) and directive.question == "invite":
            raise directive.body.reason.error()
        if not isinstance(directive.body, Invitation) or not run:
            raise self._not_in(run)
        self._check_room()
        if len(self._refused) >= MOST_REFUSED:
            cause = f"{self._name} has refused {MOST_REFUSED} runs that the curator has not dismissed"
            raise errors.PolicyError(cause, errors.CURATOR_FAULT)
        self._store.open_run(run, self._curator, digest_to_bytes(self._data))

    def _check_room(self) -> None:
        """Refuse a run while as many as the policy allows are open."""
        if self._in_runs() >= (most := self._party.policy.runs_at_once):
            cause = f"{self._name} is in {most} runs, as many as it takes part in at once"
            remedy = "Wait for one of them to end, or let the owner raise 'runs_at_once' of its policy."
            raise errors.PolicyError(cause, remedy)

    def _not_in(self, run: str) -> errors.ProtocolError:
        return errors.ProtocolError(f"{self._name} is not in a run called {run!r}", "Restart the run.")

    def _in_runs(self) -> int:
        """Count open runs, without the refused runs that wait to be dismissed."""
        return sum(row.run not in self._refused for row in self._store.runs(OPEN))

    def _keep(self, run: str, entry: OwnerEntry, sent_before: int) -> None:
        """Store an answer with its ledger lines, all or nothing; `sent_before` counts rows sent before it."""
        try:
            with self._ledger.together(self._store):
                self._journal.append(run, entry)
                self._ledger.extend(self._outbox.lines)
        except errors.StoreError as error:
            # Memory is ahead of the disk now. The handler is restored from the journal when the directive
            # comes again over a new stream: the curator may not have received this refusal.
            self._handlers.pop(run, None)
            self._sent.count = sent_before
            self._unkept[run] = directives.Refusal.of(error)
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
