"""Disclosures of a summary: what the curator lets out and what came to it, an event each, before bytes go.

A row and g~ are written here and by who sent them, in the same words, so that two ledgers can be reconciled.
Owners' bids and counts are in the owners' ledgers alone: a line for each owner and round would be most of
what the curator writes.

Every release of the summary's mean counts as told to owners, also in the rounds between two clocks, in which
nothing is said: the pool is scored with it, so it decides what is sent later, and the clock's proof holds for
a transcript that includes it. Those of silent rounds are written, in one line, when something is said again,
or at the end. The first release reads the public seed set alone, or nothing: no disclosure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from curator.summary.record import SelectedRow
from fedkme.errors import ProtocolError
from fedkme.exchange import Offer
from fedkme.features.fixed_point import MeanVector
from fedkme.privacy.events import (
    CONSUMER,
    CURATOR,
    OWNERS,
    REQUEST,
    Disclosure,
    Event,
    ExactStatistic,
    RawRows,
    repeated,
    validation_of,
)
from fedkme.privacy.ledger import LedgerSink, nonce_of
from fedkme.privacy.means import Cost
from fedkme.privacy.told import MEAN, NOT_TOLD, PAYOUTS, ROWS, auction_nonce, mean_nonce, row_disclosures
from fedkme.protocol import Broadcast
from fedkme.sealed.rows import AnyRow, HashedRow
from fedkme.tables.row import Row

_PROGRESS = ExactStatistic("points accessed, round by round")
_UNDECLARED = ExactStatistic("a mean of h1 whose protection the consumer did not declare")


def row_lines(run: str, number: int, owner: str, rows: Sequence[AnyRow], consumer: str) -> list[Disclosure]:
    """Disclosures of an owner's rows that came in a round, by how they came."""
    lines = []
    for sealed_for, kind in ((consumer, HashedRow), ("", Row)):
        these = [row for row in rows if isinstance(row, kind)]
        hashed = any(isinstance(row, HashedRow) and len(row.features) for row in these)
        lines += row_disclosures(run, number, owner, [row.token for row in these], sealed_for, hashed)
    return lines


def validation_lines(
    run: str, consumer: str, offer: Offer, undeclared: Mapping[str, ExactStatistic]
) -> list[Disclosure]:
    """Lines about what came of D_v: as the consumer declared it, and at the worst where it did not.

    Args:
        run: the run's name.
        consumer: whose D_v it is.
        offer: what came.
        undeclared: what each thing that came is where no line is about it, by its nonce, which is of bytes.

    Raises:
        ProtocolError: the consumer declared what is not about this request.
    """
    protected, parties = validation_of(consumer), (CURATOR, OWNERS)
    for about in offer.disclosures:
        here = about.run in (run, REQUEST) and about.round == 0
        if not here or about.protected != protected or about.observer not in parties:
            raise ProtocolError("the consumer declared an event that is not about its request")
    lines = [about for about in offer.disclosures if about.nonce != ROWS]
    told = {(about.observer, about.nonce) for about in lines}
    events: list[tuple[str, Event, str]] = [
        (observer, event, nonce)
        for nonce, event in undeclared.items()
        for observer in parties
        if (observer, nonce) not in told
    ]
    if offer.validation is not None:  # counted here, whatever was declared
        events.append((CURATOR, RawRows(len(offer.validation)), ROWS))
    return lines + [
        Disclosure(run, 0, protected, observer, event, "replace-one", None, nonce)
        for observer, event, nonce in events
    ]


class RunDisclosures:
    """Disclosures of one run at its curator, whatever its protocol is."""

    def __init__(self, run: str, ledger: LedgerSink | None = None, consumer: str = CONSUMER) -> None:
        """Open for one run of a consumer; without a ledger nothing is written."""
        self._run = run
        self._ledger = ledger
        self._consumer = consumer

    def receive_rows(self, number: int, owner: str, rows: Sequence[AnyRow]) -> None:
        """Take in rows that did not come before; what is sealed is the consumer's from then on."""
        self._write(row_lines(self._run, number, owner, rows, self._consumer))

    def pass_summary(self, number: int, selected: Iterable[SelectedRow]) -> None:
        """Let the summary out to the consumer, as it is; sealed rows were written down when they came."""
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
    """Disclosures of a summary in rounds."""

    def __init__(self, run: str, ledger: LedgerSink | None = None, consumer: str = CONSUMER) -> None:
        """Open for one run of a consumer; without a ledger nothing is written."""
        super().__init__(run, ledger, consumer)
        self._auction: Event | None = None
        self._auction_nonce = ""
        self._exchanged = 1
        self._last_auction = 0
        self._mean: Cost | None = None
        self._untold = 0

    def head(self) -> Mapping[str, int | str] | None:
        """Length and last hash of the ledger so far."""
        return None if self._ledger is None else self._ledger.head()

    def receive_target(self, target: MeanVector, offer: Offer) -> None:
        """Take in g~, which goes on to owners, under the mechanism that the consumer declared.

        Raises:
            ProtocolError: the consumer declared what is not about this request.
        """
        self._write(validation_lines(self._run, self._consumer, offer, {nonce_of(target): _UNDECLARED}))

    def open(
        self, auction: Event | None, target: MeanVector, exchanged: int = 1, payouts: Event | None = None
    ) -> None:
        """Before round 1: the consumer will follow the run; owners will learn what the auction asks for.

        What noised payouts may tell owners after the run is charged here: nothing is written once it is over.

        Args:
            auction: what being asked, or not, tells owners; written in every round with questions.
            target: g~.
            exchanged: rows of the summary that one replaced row of an owner may replace.
            payouts: of all noised payouts of the run together; None: there will be none.
        """
        self._auction, self._auction_nonce, self._exchanged = auction, auction_nonce(target), exchanged
        # Exact, and the rows as they are further down: nothing is drawn that an equal line could hide.
        self._write([self._about(0, OWNERS, self._consumer, _PROGRESS, "progress")])
        self._write([] if payouts is None else [self._about(1, OWNERS, OWNERS, payouts, PAYOUTS)])

    def to_be_heard(
        self, mean: Cost, question: Event, target: MeanVector, payouts: Event | None = None
    ) -> tuple[Disclosure, ...]:
        """Disclosures of each other's rows that owners will hear, as lines of round 1 for their own ledgers.

        Args:
            mean: cost of a broadcast, for the rows that one replaced row exchanges; its nonce will be of the
                broadcast.
            question: of being asked, or not.
            target: g~.
            payouts: of all noised payouts of the run; None: there will be none.
        """
        heard: list[tuple[Event, float | None, str]] = [
            (mean.event, mean.sensitivity, MEAN),
            (question, None, auction_nonce(target)),
        ]
        heard += [] if payouts is None else [(payouts, None, PAYOUTS)]
        return tuple(
            self._about(1, OWNERS, OWNERS, event, nonce, sensitivity) for event, sensitivity, nonce in heard
        )

    def draw_mean(self, number: int, cost: Cost) -> None:
        """A release of the summary's mean; owners hear of it, or of what follows from it, later."""
        if number > 1:
            self._untold += 1
            self._mean = cost.of_rows(self._exchanged)

    def pass_mean(self, broadcast: Broadcast) -> None:
        """Let every release since the last one out to owners, as one event; see the head of the module."""
        self._tell_means(broadcast.round, mean_nonce(broadcast.mean))

    def pass_untold(self, number: int) -> None:
        """Count the releases since the last one that was told: they decided what the consumer gets."""
        self._tell_means(number, NOT_TOLD)

    def _tell_means(self, number: int, nonce: str) -> None:
        if self._untold and self._mean is not None:
            event, sensitivity = repeated(self._mean.event, self._untold), self._mean.sensitivity
            self._write([self._about(number, OWNERS, OWNERS, event, nonce, sensitivity)])
        self._untold = 0

    def pass_questions(self, number: int) -> None:
        """Let owners know whom the auction asks: once a round, however often it asks."""
        if self._auction is not None and number != self._last_auction:
            self._last_auction = number
            self._write([self._about(number, OWNERS, OWNERS, self._auction, self._auction_nonce)])
