"""The gate: checks and counts all that leaves an owner, and writes it to the ledger before it goes."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fedkme import errors
from fedkme.arrays import IntArray
from fedkme.cells.disclosures import Counts, histogram_disclosures
from fedkme.privacy.events import (
    CURATOR,
    OWNERS,
    Composed,
    Disclosure,
    Event,
    ExactStatistic,
    MwemSchedule,
    repeated,
)
from fedkme.privacy.ledger import LedgerSink
from fedkme.privacy.summary_disclosures import MEAN, NOT_TOLD, mean_nonce, row_disclosures
from fedkme.protocol import AuctionTerms, Broadcast, Consider, Invitation, SumTerms
from fedkme.sums.disclosures import release_disclosures, vector_disclosure
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table
from owner.consent.policy import Policy
from owner.consent.pools import tie_breaks
from owner.settings import MOST_SUMS

# Exact numbers, without noise: equal lines repeat the same disclosure, at an infinite epsilon.
_BID = ExactStatistic("best marginal gain")
_COUNTS = ExactStatistic("counts at public prices")
MOST_SILENT = 2**10
"""Most rounds between two broadcasts to an owner, if the ledger gets a line for each round."""


@dataclass(slots=True)
class SentRows:
    """Count of the rows sent by an owner, over all its runs."""

    count: int = 0


@dataclass(eq=False, repr=False)
class OwnerGate:
    """Gate of one run at an owner."""

    _owner: str
    _ledger: LedgerSink | None = None
    """Receives the disclosures; None: they are not recorded."""
    _in_all: SentRows = field(default_factory=SentRows)
    """Count of rows sent, shared by all runs."""
    _policy: Policy | None = None
    """Decides on runs; None: any run is let in."""
    _refused: Callable[[str, errors.FedkmeError], None] | None = None
    """Receives each refused run, with the error."""

    def __post_init__(self) -> None:
        self._heard: dict[str, Disclosure] = {}
        self._heard_until: dict[str, int] = {}
        self._rounds = 0
        self._sent: set[int] = set()
        self._invitation: Invitation | None = None
        self._sums: dict[int, str] = {}
        self._places: IntArray | None = None

    @property
    def most_sums(self) -> int:
        """Most numbers in one vector of sums that the owner computes."""
        return MOST_SUMS if self._policy is None else self._policy.most_sums

    @property
    def rows_sent(self) -> int:
        """Distinct rows sent in this run."""
        return len(self._sent)

    def open(self, invitation: Invitation) -> None:
        """Start a run in which nothing was sent yet.

        Raises:
            BudgetError: no row may leave any more, or the run would cost more than the owner allows; the
                owner's log says what was spent, the error to the curator does not.
            PolicyError: the policy does not allow such a run.
            ProtocolError: the curator's lines about the run cannot go into the ledger.
        """
        self._check_written(invitation)
        with self._reported(invitation.run):
            if self._policy is not None:
                self._policy.admit(invitation)
        self.restore(invitation)
        self._sent.clear()

    def consider(self, request: Consider) -> None:
        """Refuse a summary that `open` would refuse; no run begins.

        Raises:
            BudgetError: as `open`.
            PolicyError: as `open`.
        """
        with self._reported(request.run):
            if self._policy is not None:
                self._policy.consider(request)

    @contextlib.contextmanager
    def _reported(self, run: str) -> Iterator[None]:
        """Report a refusal to this owner's log; the curator's error hides the spent budget."""
        try:
            yield
        except (errors.BudgetError, errors.PolicyError) as error:
            if self._refused is not None:
                self._refused(run, error)
            if isinstance(error, errors.PolicyError):
                raise
            cause = f"the limits and budgets of {self._owner} do not allow {run}"
            remedy = "Ask for a run that costs less, or let the owner look at its log."
            raise errors.BudgetError(cause, remedy) from None

    def restore(self, invitation: Invitation) -> None:
        """Continue a run that another process opened."""
        self._invitation = invitation
        self._places = None if self._policy is None else self._policy.offered(invitation.run)
        heard = invitation.terms.heard if isinstance(invitation.terms, AuctionTerms) else ()
        self._heard = {about.nonce.partition(" ")[0]: about for about in heard}
        self._heard_until.clear()
        self._rounds = invitation.rows

    def offered(self, table: Table) -> Table:
        """Select the rows that the run may have, in their order."""
        return table if self._places is None else table.take(self._places)

    def tie_breaks(self, rows: int) -> NDArray[np.float64]:
        """Tie-break constants of the rows that the run may have, out of `rows`; (m,).

        Without a policy, as in audits, the constants come from an empty secret.
        """
        assert self._invitation is not None, "a run begins with its invitation"
        run = self._invitation.run
        if self._policy is None:
            return tie_breaks(b"", run, rows)
        constants = self._policy.tie_breaks(run)
        return constants if self._places is None else constants[self._places]

    def restore_sums(self, number: int, vector: SumVector) -> None:
        """Record a vector that another process sent."""
        self._sums[number] = vector.digest

    def check_question(self, number: int, digest: str) -> None:
        """Refuse a number that belongs to another question, before anything is computed.

        Args:
            number: number of the question.
            digest: digest of the question.

        Raises:
            ProtocolError: the number is below 1, or belongs to another question.
        """
        assert self._invitation is not None, "questions follow the invitation"
        run = self._invitation.run
        if number < 1:
            raise errors.fault_of_curator(f"{run} asks a question without a number")
        if self._sums.get(number, digest) != digest:
            cause = f"{run} asks a question under the number {number}, which had another question"
            raise errors.ProtocolError(cause, "Ask it under the next number; it costs again.")

    def pass_sums(self, number: int, vector: SumVector, event: Event | None = None) -> None:
        """Record that a vector of sums leaves; in the clear it may leave again, as the same bits.

        Args:
            number: number of the question.
            vector: the vector.
            event: event of the total under secure aggregation; None: the vector leaves in the clear.

        Raises:
            ProtocolError: the number belongs to another question.
            SecureAggregationError: the question was answered under masks before; the noise would be new.
        """
        invitation = self._invitation
        assert invitation is not None, "vectors follow the invitation"
        self.check_question(number, vector.digest)
        if number in self._sums:
            if event is None:
                return
            raise answered(number, invitation.run)
        # The run's cost towards the consumer is written once, with the first vector that leaves: usually that
        # of question 1.
        first = [] if self._sums else release_disclosures(self._owner, invitation)
        self._sums[number] = vector.digest
        self._write([vector_disclosure(self._owner, invitation, number, vector, event), *first])

    def pass_histogram(self, run: str, event: Event, counts: Counts) -> None:
        """Record that noisy counts of cells leave. The curator sees them; others see what follows."""
        self._write(histogram_disclosures(run, self._owner, event, counts))

    def restore_heard(self, round_number: int, what: str) -> None:
        """Restore that another process wrote the line of a round."""
        self._heard_until[what] = max(round_number, self._heard_until.get(what, 0))

    def close(self, last_round: int) -> None:
        """Write the lines of rounds decided since this owner last heard of one; the run is over."""
        self._write(self._hear(last_round, MEAN, NOT_TOLD))

    def restore_rows(self, tokens: Sequence[int]) -> None:
        """Record rows that another process sent."""
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
        """Record that rows leave; a row that left before is no new disclosure.

        Args:
            run: the run's name.
            round_number: the round.
            tokens: tokens of the rows.
            question: what the request for these rows tells about other owners' rows: AUCTION, or nothing.
            sealed_for: the only consumer that can open the rows; empty: the curator sees them.
            hashed: True if h1 goes with each sealed row.
        """
        new = [token for token in tokens if token not in self._sent]
        rows = row_disclosures(run, round_number, self._owner, new, sealed_for, hashed)
        lines = [*self._hear(round_number, question), *rows]  # before anything is counted: `_hear` may refuse
        self._sent.update(new)
        self._in_all.count += len(new)
        self._write(lines)

    def pass_bid(self, run: str, broadcast: Broadcast) -> None:
        """Record that the best marginal gain leaves, exact."""
        self._write([*self._hear_mean(broadcast), self._about(run, broadcast.round, _BID, "bid")])

    def pass_counts(self, run: str, broadcast: Broadcast) -> None:
        """Record that the counts of rows worth each price leave, exact."""
        self._write([*self._hear_mean(broadcast), self._about(run, broadcast.round, _COUNTS, "counts")])

    def _check_written(self, invitation: Invitation) -> None:
        """Refuse the curator's ledger lines that are not about this run and all owners: budgets read them."""
        if isinstance(invitation.terms, SumTerms):
            try:
                release_disclosures(self._owner, invitation)
            except errors.ConfigError as error:
                raise errors.ProtocolError(error.cause, error.remedy) from None
        if not isinstance(invitation.terms, AuctionTerms):
            return
        for about in invitation.terms.heard:
            if (about.run, about.protected, about.observer) != (invitation.run, OWNERS, OWNERS):
                raise errors.fault_of_curator(
                    f"{self._owner} is asked for a ledger line that is not about owners in {invitation.run}"
                )
            if isinstance(event := about.event, MwemSchedule) and (
                event not in invitation.planned or (event.first, event.last) != (2, max(2, invitation.rows))
            ):
                raise errors.fault_of_curator(
                    f"{self._owner} is asked for lines about calls of h2 that {invitation.run} does not plan"
                )

    def _hear_mean(self, broadcast: Broadcast) -> list[Disclosure]:
        return self._hear(broadcast.round, MEAN, mean_nonce(broadcast.mean))

    def _hear(self, round_number: int, what: str, nonce: str = "") -> list[Disclosure]:
        """Lines about what this owner hears of others' rows, in the curator's words; once a round.

        A broadcast tells about all rounds since the last one, also rounds that sent this owner nothing.
        The first broadcast depends on the public seed set alone.
        """
        about = self._heard.get(what)
        first = 2 if what == MEAN else round_number
        new = round_number + 1 - max(first, self._heard_until.get(what, 0) + 1)
        if about is None or new < 1:
            self.restore_heard(round_number, what)
            return []
        if what == MEAN and round_number > self._rounds:  # the plan, which is the run's cost, has no more
            cause = f"{self._owner} is told of round {round_number} of a run of {self._rounds} rounds"
            raise errors.fault_of_curator(cause)
        if new > MOST_SILENT and isinstance(repeated(about.event, 2), Composed):
            cause = f"{self._owner} is told of round {round_number} after {new - 1} rounds of silence"
            raise errors.fault_of_curator(cause)
        self.restore_heard(round_number, what)
        if isinstance(schedule := about.event, MwemSchedule):
            event: Event = schedule.during(round_number + 1 - new, round_number)
        else:
            event = repeated(about.event, new)
        spread, nonce = about.sensitivity, nonce or about.nonce
        line = (about.run, round_number, OWNERS, OWNERS, event, about.relation, spread, nonce, about.certain)
        return [Disclosure(*line)]

    def _about(self, run: str, round_number: int, event: Event, nonce: str) -> Disclosure:
        return Disclosure(run, round_number, self._owner, CURATOR, event, "replace-one", None, nonce)

    def _write(self, disclosures: Sequence[Disclosure]) -> None:
        if self._ledger is not None and disclosures:
            self._ledger.extend(disclosures)


def answered(number: int, run: str) -> errors.SecureAggregationError:
    """Make the error for a second aggregation under one number."""
    cause = f"question {number} of {run} was under way before; no aggregation is done twice"
    return errors.SecureAggregationError(cause, "Start another run.")
