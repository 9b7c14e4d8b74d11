"""Handler of directives in one run of an auction or of uniform draws."""

import math

import numpy as np

from fedkme import directives
from fedkme.documents import OwnerEntry
from fedkme.errors import ProtocolError, fault_of_curator
from fedkme.features.fixed_point import check_dimension
from fedkme.privacy.summary_disclosures import AUCTION, MEAN
from fedkme.protocol import AuctionTerms, Broadcast, Invitation
from owner.handler import RunHandler
from owner.summary.bidder import Bidder

_NO_MEAN = np.zeros(0, dtype=np.int32)
MOST_PRICES = 2**16
"""Prices of one quote."""


class SummaryHandler(RunHandler):
    """One run of an auction or of uniform draws at an owner."""

    def __init__(self, run: str, bidder: Bidder, width: int) -> None:
        """Handle one run's directives with the given bidder, which serves this run alone.

        Rows have `width` columns in model space.
        """
        super().__init__(bidder.name, run)
        self._bidder = bidder
        self._width = width
        self._dimension = 0
        self._protocol = ""
        self._rows = 0
        self._prices: frozenset[float] = frozenset()  # quoted; rows may be sold at one of them
        self._named = 0  # rows whose tokens are in the journal

    def _entry(self, directive: directives.Directive, answer: directives.Answer) -> OwnerEntry:
        named = tuple(self._bidder.named_since(self._named))
        self._named += len(named)
        # a bid changes nothing but the tokens: the mean need not be stored
        if isinstance(directive.body, Broadcast):
            size_only = Broadcast(directive.round, directive.body.size, _NO_MEAN)
            directive = directives.Directive(directive.run, directive.round, directive.seq, size_only)
        return OwnerEntry(directive, answer, named)

    def restore(self, entry: OwnerEntry) -> None:
        """Restore the state after `answer` returned this entry; rows keep tokens even after a refusal."""
        super().restore(entry)
        sent = [row.token for row in entry.answer.rows] if isinstance(entry.answer, directives.Rows) else []
        self._bidder.restore_rows(entry.named, sent)
        self._named += len(entry.named)

    def _restored(self, entry: OwnerEntry) -> None:
        number, bidder = entry.directive.round, self._bidder
        match entry.directive.body:
            case Invitation() as invitation:
                self._accept(invitation)
                bidder.restore_invitation(invitation)
            case Broadcast() | directives.Close():
                bidder.restore_heard(number, MEAN)
            case directives.Quote(broadcast, prices, spread):
                bidder.restore_heard(number, MEAN)
                bidder.restore_quote(broadcast, spread)
                self._prices = frozenset(prices.tolist())
            case directives.Ask() | directives.Sell():
                bidder.restore_heard(number, AUCTION)
                self._prices = frozenset()
            case directives.DrawRows():
                bidder.skip_draw()

    def _compute(self, directive: directives.Directive) -> directives.Answer:
        number, bidder = directive.round, self._bidder
        match directive.body:
            case Invitation() as invitation:
                self._accept(invitation)
                return directives.Accepted(bidder.invite(invitation))
            case Broadcast() as broadcast:
                check_dimension(broadcast.mean, self._dimension)
                return bidder.bid(broadcast) or directives.Dry()
            case directives.Quote() as quote:
                return self._quote(quote)
            case directives.Sell(price):
                if price not in self._prices:
                    raise fault_of_curator(f"{self.run} sells at a price that was not quoted, or twice")
                self._prices = frozenset()
                return directives.Rows(bidder.sell(number, price))
            case directives.Ask(token):
                return directives.Rows([bidder.reveal(number, token)])
            case directives.DrawRows(count):
                if self._protocol and bidder.rows_named + count > self._rows:
                    raise fault_of_curator(f"{self.run} is of {self._rows} rows and draws more")
                return directives.Rows(bidder.draw(number, count))
            case directives.Close():
                return bidder.close(number)
        raise fault_of_curator(f"{self.run} is a summary, which asks for no {directive.question!r}")

    def _accept(self, invitation: Invitation) -> None:
        terms = invitation.terms
        if not isinstance(terms, AuctionTerms) or terms.features.width != self._width:
            cause = "the curator's features do not fit this party's schema"
            raise ProtocolError(cause, "Give both the same schema file.")
        self._dimension = terms.features.dimension
        self._protocol, self._rows = invitation.protocol, terms.rows

    def _quote(self, quote: directives.Quote) -> directives.Answer:
        check_dimension(quote.broadcast.mean, self._dimension)
        if len(quote.prices) > MOST_PRICES or not np.isfinite(quote.prices).all():
            cause = f"{self.run} quotes more than {MOST_PRICES} prices, or some that are no numbers"
            raise fault_of_curator(cause)
        if not 0.0 <= quote.spread < math.inf:
            raise fault_of_curator(f"{self.run} quotes prices with a spread that is no length")
        counts = self._bidder.quote(quote.broadcast, quote.prices, quote.spread)
        self._prices = frozenset(quote.prices.tolist())
        return directives.PriceCounts(counts)
