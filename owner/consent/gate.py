"""The one way out: what leaves an owner is checked, counted and written down before it goes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import IntArray
from fedkme.cells.disclosures import Counts, histogram_disclosures
from fedkme.errors import (
    BudgetError,
    ConfigError,
    FedkmeError,
    PolicyError,
    ProtocolError,
    SecureAggregationError,
)
from fedkme.privacy.events import CURATOR, OWNERS, Composed, Disclosure, Event, ExactStatistic, repeated
from fedkme.privacy.ledger import LedgerSink
from fedkme.privacy.told import MEAN, NOT_TOLD, PAYOUTS, mean_nonce, row_disclosures
from fedkme.protocol import AuctionTerms, Broadcast, Consider, Invitation, SumTerms
from fedkme.sums.disclosures import release_disclosures, vector_disclosure
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table
from owner.consent.policy import Policy
from owner.consent.pools import tie_breaks
from owner.settings import MOST_SUMS

# Numbers as they are: nothing is drawn, so that equal lines say the same once more, at an infinite epsilon.
_BID = ExactStatistic("best marginal gain")
_COUNTS = ExactStatistic("counts at public prices")
MOST_SILENT = 2**10
"""Rounds between two that an owner is told of, where what it hears of them is written down one by one."""


@dataclass(slots=True)
class SentRows:
    """Count of the rows that left an owner, over all its runs."""

    count: int = 0


class OwnerGate:
    """One run's way out of an owner.

    Attributes:
        rows_sent: rows of this run whose content left.
    """

    def __init__(
        self,
        owner: str,
        ledger: LedgerSink | None = None,
        sent: SentRows | None = None,
        policy: Policy | None = None,
        refused: Callable[[str, FedkmeError], None] | None = None,
    ) -> None:
        """Open for one owner.

        Args:
            owner: its name.
            ledger: where disclosures are written.
            sent: counts rows that leave, shared by all runs.
            policy: in which runs the owner takes part; None for any.
            refused: told which run was refused what, and why.
        """
        self._owner = owner
        self._ledger = ledger
        self._in_all = sent or SentRows()
        self._policy = policy
        self._refused = refused
        self._heard: dict[str, Disclosure] = {}
        self._heard_until: dict[str, int] = {}
        self._sent: set[int] = set()
        self._invitation: Invitation | None = None
        self._sums: dict[int, str] = {}
        self._places: IntArray | None = None

    @property
    def most_sums(self) -> int:
        """Numbers of one vector of sums that the owner computes."""
        return MOST_SUMS if self._policy is None else self._policy.most_sums

    @property
    def rows_sent(self) -> int:
        """Distinct rows sent in this run."""
        return len(self._sent)

    def open(self, invitation: Invitation) -> None:
        """Start a run: nothing was sent in it yet.

        Raises:
            BudgetError: no row may leave any more, or the run would cost more than the owner allows; what was
                spent is said here and not to the curator.
            PolicyError: the owner does not take part in such a run.
            ProtocolError: what the curator says of the run cannot be written down.
        """
        self._check_written(invitation)
        with self._saying(invitation.run):
            if self._policy is not None:
                self._policy.admit(invitation)
        self.restore(invitation)
        self._sent.clear()

    def consider(self, asked: Consider) -> None:
        """Begin nothing; refuse what `open` would refuse.

        Raises:
            BudgetError: as `open`.
            PolicyError: likewise.
        """
        with self._saying(asked.run):
            if self._policy is not None:
                self._policy.consider(asked)

    @contextlib.contextmanager
    def _saying(self, run: str) -> Iterator[None]:
        """Say here why a run is refused; the curator hears nothing of what was spent."""
        try:
            yield
        except (BudgetError, PolicyError) as error:
            if self._refused is not None:
                self._refused(run, error)
            if isinstance(error, PolicyError):
                raise
            raise BudgetError(
                f"the limits and budgets of {self._owner} do not allow {run}",
                "Ask for a run that costs less, or let the owner look at its log.",
            ) from None

    def restore(self, invitation: Invitation) -> None:
        """Go on with a run that was opened by another process."""
        self._invitation = invitation
        self._places = None if self._policy is None else self._policy.offered(invitation.run)
        heard = invitation.terms.heard if isinstance(invitation.terms, AuctionTerms) else ()
        self._heard = {about.nonce.partition(" ")[0]: about for about in heard}
        self._heard_until.clear()

    def offered(self, table: Table) -> Table:
        """The rows that the run may have, of all rows, in their order."""
        return table if self._places is None else table.take(self._places)

    def tie_breaks(self, rows: int) -> NDArray[np.float64]:
        """Constants that break ties of the rows that the run may have, of `rows` in all; (m,).

        Without a policy, as audits have it, they are what an empty secret gives.
        """
        assert self._invitation is not None, "a run begins with its invitation"
        run = self._invitation.run
        if self._policy is None:
            return tie_breaks(b"", run, rows)
        constants = self._policy.tie_breaks(run)
        return constants if self._places is None else constants[self._places]

    def restore_sums(self, number: int, vector: SumVector) -> None:
        """A vector that another process let out."""
        self._sums[number] = vector.digest

    def check_question(self, number: int, asked: str) -> None:
        """Hold a number to one question, before anything is computed for it.

        Args:
            number: of the question.
            asked: digest of the question.

        Raises:
            ProtocolError: the number is none, or another question's.
        """
        assert self._invitation is not None, "nothing is asked before"
        run = self._invitation.run
        if number < 1:
            raise ProtocolError(f"{run} asks a question without a number", "Look at the curator's software.")
        if self._sums.get(number, asked) != asked:
            raise ProtocolError(
                f"{run} asks a question under the number {number}, which had another question",
                "Ask it under the next number; it costs again.",
            )

    def pass_sums(self, number: int, vector: SumVector, event: Event | None = None) -> None:
        """Let a vector of sums out. In the clear it may leave again, with the same bits and no further line.

        Args:
            number: of the question.
            vector: what is asked for.
            event: what the total tells under secure aggregation; None: the vector leaves as it is.

        Raises:
            ProtocolError: the number is another question's.
            SecureAggregationError: it was answered under masks before: its noise would be new.
        """
        invitation = self._invitation
        assert invitation is not None, "nothing is computed before"
        self.check_question(number, vector.digest)
        if number in self._sums:
            if event is None:
                return
            raise answered(number, invitation.run)
        # What the run costs towards the consumer is written once, with its first vector: that of question 1,
        # unless no vector of that one came to leave.
        first = [] if self._sums else release_disclosures(self._owner, invitation)
        self._sums[number] = vector.digest
        self._write([vector_disclosure(self._owner, invitation, number, vector, event), *first])

    def pass_histogram(self, run: str, event: Event, counts: Counts) -> None:
        """Let counts of cells out, with their noise: the curator sees them, and others what follows."""
        self._write(histogram_disclosures(run, self._owner, event, counts))

    def restore_heard(self, round_number: int, what: str) -> None:
        """Take up what another process wrote down of a round."""
        self._heard_until[what] = max(round_number, self._heard_until.get(what, 0))
        if round_number:
            self._heard.pop(PAYOUTS, None)  # written with the first round

    def close(self, last_round: int) -> None:
        """The run is over: write down what was decided since this owner was last told."""
        self._write(self._hear(last_round, MEAN, NOT_TOLD))

    def restore_rows(self, tokens: Sequence[int]) -> None:
        """Rows that another process let out."""
        self._sent.update(tokens)

    def pass_rows(
        self,
        run: str,
        round_number: int,
        tokens: Sequence[int],
        question: str = "",
        sealed_for: str = "",
        hashed: bool = False,
    ) -> None:
        """Let rows out; one that left before is no new disclosure.

        Args:
            run: the run's name.
            round_number: the round.
            tokens: of the rows.
            question: what being asked for them says of other owners' rows: AUCTION, or nothing.
            sealed_for: the consumer who alone can open them; none: the curator sees them.
            hashed: whether sealed rows have h1 of them beside.
        """
        new = [token for token in tokens if token not in self._sent]
        rows = row_disclosures(run, round_number, self._owner, new, sealed_for, hashed)
        lines = [*self._hear(round_number, question), *rows]  # before anything is counted: it may refuse
        self._sent.update(new)
        self._in_all.count += len(new)
        self._write(lines)

    def pass_bid(self, run: str, broadcast: Broadcast) -> None:
        """Let the best marginal gain out, exact as it is."""
        self._write([*self._hear_mean(broadcast), self._about(run, broadcast.round, _BID, "bid")])

    def pass_counts(self, run: str, broadcast: Broadcast) -> None:
        """Let out how many rows are worth each price."""
        self._write([*self._hear_mean(broadcast), self._about(run, broadcast.round, _COUNTS, "counts")])

    def _check_written(self, invitation: Invitation) -> None:
        """Refuse lines in the curator's words that are about something else: budgets are read there."""
        if isinstance(invitation.terms, SumTerms):
            try:
                release_disclosures(self._owner, invitation)
            except ConfigError as error:
                raise ProtocolError(error.cause, error.remedy) from None
        if not isinstance(invitation.terms, AuctionTerms):
            return
        for about in invitation.terms.heard:
            if (about.run, about.protected, about.observer) != (invitation.run, OWNERS, OWNERS):
                raise ProtocolError(
                    f"{self._owner} is to write down what is not about owners in {invitation.run}",
                    "Look at the curator's software.",
                )

    def _hear_mean(self, broadcast: Broadcast) -> list[Disclosure]:
        return self._hear(broadcast.round, MEAN, mean_nonce(broadcast.mean))

    def _hear(self, round_number: int, what: str, nonce: str = "") -> list[Disclosure]:
        """Lines about what this owner is told of others' rows, in the curator's words; once a round.

        A broadcast tells of all rounds since the last one: what was decided in silence could have been said.
        The first reads the public seed set alone. What noised payouts may tell after the run is charged with
        the first round, whatever is asked in it: the curator charged it before.
        """
        paid = self._heard.get(PAYOUTS) if round_number else None
        return [*([] if paid is None else [paid]), *self._hear_of(round_number, what, nonce)]

    def _hear_of(self, round_number: int, what: str, nonce: str) -> list[Disclosure]:
        about = self._heard.get(what)
        first = 2 if what == MEAN else round_number
        new = round_number + 1 - max(first, self._heard_until.get(what, 0) + 1)
        if about is None or new < 1:
            self.restore_heard(round_number, what)
            return []
        if new > MOST_SILENT and isinstance(repeated(about.event, 2), Composed):
            raise ProtocolError(
                f"{self._owner} is told of round {round_number} after {new - 1} rounds of silence",
                "Look at the curator's software.",
            )
        self.restore_heard(round_number, what)
        event = repeated(about.event, new)
        spread, nonce = about.sensitivity, nonce or about.nonce
        line = (about.run, round_number, OWNERS, OWNERS, event, about.relation, spread, nonce, about.certain)
        return [Disclosure(*line)]

    def _about(self, run: str, round_number: int, event: Event, nonce: str) -> Disclosure:
        return Disclosure(run, round_number, self._owner, CURATOR, event, "replace-one", None, nonce)

    def _write(self, disclosures: Sequence[Disclosure]) -> None:
        if self._ledger is not None and disclosures:
            self._ledger.extend(disclosures)


def answered(number: int, run: str) -> SecureAggregationError:
    """Error for an aggregation under a number that one had already."""
    return SecureAggregationError(
        f"question {number} of {run} was under way before; no aggregation is done twice", "Start another run."
    )
