"""Disclosures of a summary: the curator writes an event for all it receives and sends, before bytes leave.

The curator and the sender write a row, and g~, in the same words, so that two ledgers can be reconciled.
Owners' bids and counts are in the owners' ledgers alone: a line for each owner and round would be most of the
curator's ledger.

Every release of the summary's mean counts as told to owners, also in the silent rounds between two clocks.
The pool is scored with this mean, so the mean decides which rows are sent later, and the clock's proof holds
for a transcript that includes the mean. The releases of silent rounds are written, in one line, at the next
message to owners or at the end. The first release reads the public seed set alone, or nothing, and is no
disclosure.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from curator.run.summary_record import SelectedRow
from fedkme.errors import ProtocolError
from fedkme.exchange import Offer
from fedkme.features.fixed_point import MeanVector
from fedkme.privacy.events import (
    CONSUMER,
    CURATOR,
    OWNERS,
    Disclosure,
    Event,
    ExactStatistic,
    RawRows,
    in_sequence,
    validation_of,
)
from fedkme.privacy.ledger import LedgerSink, nonce_of
from fedkme.privacy.means import Cost
from fedkme.privacy.summary_disclosures import (
    MEAN,
    NOT_TOLD,
    ROWS,
    auction_nonce,
    mean_nonce,
    row_disclosures,
)
from fedkme.protocol import Broadcast
from fedkme.sealed.rows import AnyRow, HashedRow
from fedkme.tables.table import Row

_PROGRESS = ExactStatistic("points accessed, round by round")
_UNDECLARED = ExactStatistic("a mean of h1 whose protection the consumer did not declare")


def row_lines(run: str, number: int, owner: str, rows: Sequence[AnyRow], consumer: str) -> list[Disclosure]:
    """Disclosures of an owner's rows that came in a round, split into plain and sealed rows."""
    lines = []
    for sealed_for, kind in ((consumer, HashedRow), ("", Row)):
        rows_of_kind = [row for row in rows if isinstance(row, kind)]
        hashed = any(isinstance(row, HashedRow) and len(row.features) for row in rows_of_kind)
        lines += row_disclosures(run, number, owner, [row.token for row in rows_of_kind], sealed_for, hashed)
    return lines


def validation_lines(
    run: str, consumer: str, offer: Offer, undeclared: Mapping[str, ExactStatistic]
) -> list[Disclosure]:
    """Lines about the received statistics of D_v: as the consumer declared them, else without protection.

    Args:
        run: the run's name.
        consumer: the consumer whose D_v it is.
        offer: the offer with D_v's statistics and their declarations.
        undeclared: event of each received statistic without a declaration, by the statistic's nonce, a digest
            of its bytes.

    Raises:
        ProtocolError: a declaration is not about this request.
    """
    protected, parties = validation_of(consumer), (CURATOR, OWNERS)
    for about in offer.disclosures:
        about_request = about.run == run and about.round == 0
        if not about_request or about.protected != protected or about.observer not in parties:
            raise ProtocolError("the consumer declared an event that is not about its request")
    lines = [about for about in offer.disclosures if about.nonce != ROWS]
    declared = {(about.observer, about.nonce) for about in lines}
    events: list[tuple[str, Event, str]] = [
        (observer, event, nonce)
        for nonce, event in undeclared.items()
        for observer in parties
        if (observer, nonce) not in declared
    ]
    if offer.validation is not None:  # D_v's rows are counted here, whatever was declared
        events.append((CURATOR, RawRows(len(offer.validation)), ROWS))
    return lines + [
        Disclosure(run, 0, protected, observer, event, "replace-one", None, nonce)
        for observer, event, nonce in events
    ]


class RunDisclosures:
    """Disclosures of one run at its curator, for any protocol."""

    def __init__(self, run: str, ledger: LedgerSink | None = None, consumer: str = CONSUMER) -> None:
        """Open for one run of a consumer; without a ledger nothing is written."""
        self._run = run
        self._ledger = ledger
        self._consumer = consumer

    def receive_rows(self, number: int, owner: str, rows: Sequence[AnyRow]) -> None:
        """Write rows that had not come before; sealed rows count as the consumer's from now on."""
        self._write(row_lines(self._run, number, owner, rows, self._consumer))

    def pass_summary(self, number: int, selected: Iterable[SelectedRow]) -> None:
        """Write the summary that goes to the consumer; sealed rows were written when they came."""
        for owner, count in sorted(Counter(row.owner for row in selected if row.sealed is None).items()):
            self._write([self._about(number, owner, self._consumer, RawRows(count), "summary")])

    def _about(
        self,
        number: int,
        protected: str,
        observer: str,
        event: Event,
        nonce: str,
        sensitivity: float | None = None,
    ) -> Disclosure:
        return Disclosure(self._run, number, protected, observer, event, "replace-one", sensitivity, nonce)

    def _write(self, disclosures: Sequence[Disclosure]) -> None:
        if self._ledger is not None and disclosures:
            self._ledger.extend(disclosures)


class SummaryDisclosures(RunDisclosures):
    """Disclosures of a summary by Algorithm 3 or by uniform draws."""

    def __init__(self, run: str, ledger: LedgerSink | None = None, consumer: str = CONSUMER) -> None:
        """Open for one run of a consumer; without a ledger nothing is written."""
        super().__init__(run, ledger, consumer)
        self._auction: Event | None = None
        self._auction_nonce = ""
        self._exchanged = 1
        self._last_auction = 0
        self._untold: list[Cost] = []

    def receive_target(self, target: MeanVector, offer: Offer) -> None:
        """Write g~, which goes on to owners, under the mechanism that the consumer declared.

        Raises:
            ProtocolError: a declaration is not about this request.
        """
        self._write(validation_lines(self._run, self._consumer, offer, {nonce_of(target): _UNDECLARED}))

    def open(self, auction: Event | None, target: MeanVector, exchanged: int = 1) -> None:
        """Open the run before round 1: the consumer will follow it; owners will learn whom the auction asks.

        Args:
            auction: event of being asked, or not; written in every round with questions.
            target: g~.
            exchanged: rows of the summary that one replaced row of an owner may replace.
        """
        self._auction, self._auction_nonce, self._exchanged = auction, auction_nonce(target), exchanged
        # The number is exact and has its own line; a line that equals an earlier one would hide nothing.
        self._write([self._about(0, OWNERS, self._consumer, _PROGRESS, "progress")])

    def to_be_heard(self, mean: Cost, question: Event, target: MeanVector) -> tuple[Disclosure, ...]:
        """Disclosures to owners about each other's rows, as lines of round 1 for the owners' own ledgers.

        Args:
            mean: cost of a broadcast, for the rows that one replaced row exchanges, or of all broadcasts on
                a schedule, of which an owner writes the rounds that it is told of; the line's nonce will be
                the broadcast's.
            question: event of being asked, or not.
            target: g~.
        """
        return (
            self._about(1, OWNERS, OWNERS, mean.event, MEAN, mean.sensitivity),
            self._about(1, OWNERS, OWNERS, question, auction_nonce(target)),
        )

    def draw_mean(self, number: int, cost: Cost) -> None:
        """Count a release of the summary's mean, which owners learn later, directly or indirectly."""
        if number > 1:
            self._untold.append(cost.of_rows(self._exchanged))

    def pass_mean(self, broadcast: Broadcast) -> None:
        """Write all releases since the last broadcast as one event; see the module's docstring."""
        self._tell_means(broadcast.round, mean_nonce(broadcast.mean))

    def pass_untold(self, number: int) -> None:
        """Write the releases since the last broadcast: they decided which rows the consumer gets."""
        self._tell_means(number, NOT_TOLD)

    def _tell_means(self, number: int, nonce: str) -> None:
        if self._untold:
            event = in_sequence([cost.event for cost in self._untold])
            sensitivity = self._untold[-1].sensitivity
            self._write([self._about(number, OWNERS, OWNERS, event, nonce, sensitivity)])
        self._untold.clear()

    def pass_questions(self, number: int) -> None:
        """Write the auction's event, once a round, however often the auction asks."""
        if self._auction is not None and number != self._last_auction:
            self._last_auction = number
            self._write([self._about(number, OWNERS, OWNERS, self._auction, self._auction_nonce)])
