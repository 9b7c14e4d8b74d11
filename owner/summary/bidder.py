"""Bids of an owner, from a feature matrix computed once, and the rows that the curator asks for."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import CURATOR_FAULT, OwnerFaultError, ProtocolError, fault_of_curator
from fedkme.features.fixed_point import ScoredFeatures
from fedkme.features.fourier import FourierFeatures, FourierSpec, RandomFourier, SecretFourierSpec
from fedkme.privacy.summary_disclosures import AUCTION
from fedkme.protocol import AuctionTerms, Bid, Broadcast, Closing, Invitation
from fedkme.protocols import is_blind, is_hashed, is_sealed
from fedkme.sealed.group import check_same
from fedkme.sealed.rows import AnyRow
from fedkme.sealed.secret_fourier import SecretFourier
from fedkme.tables.table import Row
from owner.keyring import RowSender, lost_keys


class Bidder(RowSender):
    """One owner's side of the summary protocols.

    It sends bids, tokens and, when asked, rows, and nothing else. A row's token is the number of distinct
    rows named before it: constant throughout a run, and silent about the row's place in the file.

    Memory: the rows as loaded, their h1 in int16, and 33 bytes a row.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._run = ""
        self._scored: ScoredFeatures | None = None
        self._sent = np.zeros(0, dtype=np.bool_)
        self._worth = np.zeros(0)
        self._left = 0
        self._rows: list[int] = []  # by token
        self._tokens: dict[int, int] = {}  # by row
        self._sealed_for = ""
        self._hashed = False

    def invite(self, invitation: Invitation) -> int:
        """Compute h1 of every row once, block by block, if the protocol uses it; forget earlier runs.

        Returns:
            Number of this owner's rows that the run may have.

        Raises:
            SchemaError: the curator's public schema is another one.
            PolicyError: the owner does not take part in such a run.
            BudgetError: no row may leave any more.
            SealedBoxError: rows are to be sealed and the group secret is not here.
            IdentityError: the gift of the group secret is not from the consumer.
        """
        self._schema.check_digest(invitation.schema, f"the curator and {self.name}")
        features = _terms(invitation).features
        if is_hashed(invitation.protocol) != isinstance(features, SecretFourierSpec):
            raise fault_of_curator(
                f"{self.name} is told of a draw that does not go with the protocol {invitation.protocol!r}"
            )
        sealer = self._sealer_of(invitation)
        if sealer is not None and isinstance(features, SecretFourierSpec):
            check_same(sealer.secret, features.commitment)
        self._gate.open(invitation)
        self._sealer = sealer
        self._load(invitation)
        return len(self._offered)

    def _map(self, features: FourierSpec | SecretFourierSpec) -> FourierFeatures:
        """h1 of a run."""
        if isinstance(features, FourierSpec):
            return RandomFourier(features)
        if self._sealer is None:
            raise lost_keys(self.name)
        return SecretFourier(features, self._sealer.secret)

    def _load(self, invitation: Invitation) -> None:
        terms = _terms(invitation)
        self._run = invitation.run
        self._sealed_for = invitation.consumer if is_sealed(invitation.protocol) else ""
        table = self._offered = self._gate.offered(self._table)
        self._sent = np.zeros(len(table), dtype=np.bool_)
        self._worth = np.full(len(table), -np.inf)
        self._constants = self._gate.tie_breaks(len(self._table))
        self._left = len(table)
        self._rows.clear()
        self._tokens.clear()
        self._hashed = is_hashed(invitation.protocol)
        self._scored = None if is_blind(invitation.protocol) else self._score(terms)

    def _score(self, terms: AuctionTerms) -> ScoredFeatures:
        h1, table = self._map(terms.features), self._offered
        scored = ScoredFeatures(terms.features.dimension, terms.target, capacity=len(table))
        step = h1.block_rows()
        for start in range(0, len(table), step):
            block = self._schema.encode(table.values[start : start + step])
            scored.append(h1.fixed_point(block))
        return scored

    @property
    def rows_named(self) -> int:
        """Number of rows that have a token."""
        return len(self._rows)

    def named_since(self, count: int) -> list[int]:
        """Rows with the tokens from `count` on, for the journal; `restore_rows` takes them back."""
        return self._rows[count:]

    def restore_invitation(self, invitation: Invitation) -> None:
        """Continue a run that the owner has joined already.

        Raises:
            SealedBoxError: h1 is drawn from a secret that died with another process.
        """
        self._gate.restore(invitation)
        self._load(invitation)

    def restore_quote(self, broadcast: Broadcast, spread: float) -> None:
        """Restore the state after a quote whose counts were sent already."""
        self._worth = self._worth_after(broadcast, spread)

    def restore_heard(self, round_number: int, what: str) -> None:
        """Restore that MEAN or AUCTION of a round is in the ledger already."""
        self._gate.restore_heard(round_number, what)

    def skip_draw(self) -> None:
        """Advance seeded noise as `draw` does."""
        self._noise.uniform(self._left)

    def restore_rows(self, named: Sequence[int], sent: Sequence[int]) -> None:
        """Give `named` rows the next tokens, and count the tokens `sent` as sent."""
        for row in named:
            self._token(row)
        self._gate.restore_rows(sent)
        for token in sent:
            self._retire(self._rows[token], token)

    def bid(self, broadcast: Broadcast) -> Bid | None:
        """Bid the best unsent row by marginal gain (Algorithm 3, step 6, with the derived sign).

        Of equal gains the first row is bid. None when every row was sent.
        """
        scored = self._scores()
        if not self._left:
            return None
        row, value = scored.best(broadcast.mean, broadcast.size)
        self._gate.pass_bid(self._run, broadcast)
        return Bid(value, self._token(row))

    def quote(
        self, broadcast: Broadcast, prices: NDArray[np.float64], spread: float = 0.0
    ) -> NDArray[np.int64]:
        """Count unsent rows that are worth at least each price, (k,)."""
        self._worth = self._worth_after(broadcast, spread)
        self._gate.pass_counts(self._run, broadcast)
        unsent = np.sort(self._worth[~self._sent])
        return len(unsent) - np.searchsorted(unsent, prices, side="left")

    def sell(self, round_number: int, price: float) -> Sequence[AnyRow]:
        """Send every unsent row worth at least the price at the last quote, in row order."""
        worth = np.flatnonzero(~self._sent & (self._worth >= price))
        return self._send(round_number, worth.tolist(), AUCTION)

    def reveal(self, round_number: int, token: int) -> AnyRow:
        """Send the row of a token; the row is not bid again (step 16).

        Raises:
            OwnerFaultError: no such row was bid.
        """
        if not 0 <= token < len(self._rows):
            raise OwnerFaultError(f"{self.name} never bid a row {token}", CURATOR_FAULT)
        (row,) = self._send(round_number, [self._rows[token]], AUCTION)
        return row

    def draw(self, round_number: int, count: int) -> Sequence[AnyRow]:
        """Send `count` unsent rows, drawn uniformly without replacement; all of them if there are fewer.

        Raises:
            SealedBoxError: rows are to be sealed, and the keys died with another process.
        """
        unsent = np.flatnonzero(~self._sent)
        order = np.argsort(self._noise.uniform(len(unsent)), kind="stable")
        return self._send(round_number, unsent[order[:count]].tolist())

    def _scores(self) -> ScoredFeatures:
        """Scores of the rows; sent rows score -inf."""
        if self._scored is None:
            raise ProtocolError(f"{self.name} was asked for a bid before the run began", "Restart the run.")
        return self._scored

    def _worth_after(self, broadcast: Broadcast, spread: float) -> NDArray[np.float64]:
        """Marginal gain of every row plus `spread` times the row's tie-break constant of the run, (m,)."""
        return self._scores().bids(broadcast.mean, broadcast.size) + spread * self._constants

    def close(self, last_round: int) -> Closing:
        """Close the run with this owner's own count of the rows sent.

        Rounds that were decided without a word to this owner count as heard, up to the last round.
        """
        self._gate.close(last_round)
        return Closing(self._gate.rows_sent)

    def _token(self, row: int) -> int:
        token = self._tokens.setdefault(row, len(self._rows))
        if token == len(self._rows):
            self._rows.append(row)
        return token

    def _send(self, round_number: int, rows: Sequence[int], question: str = "") -> Sequence[AnyRow]:
        if self._sealed_for and self._sealer is None:
            raise lost_keys(self.name)
        tokens = [self._token(row) for row in rows]
        self._gate.pass_rows(self._run, round_number, tokens, question, self._sealed_for, self._hashed)
        plain = [self._retire(row, token) for row, token in zip(rows, tokens, strict=True)]
        if self._sealer is None:
            return plain
        if not self._hashed or self._scored is None:
            return self._sealer.seal(plain)
        scored = self._scored
        return self._sealer.seal(plain, np.array([scored.features(row) for row in rows], dtype=np.int16))

    def _retire(self, row: int, token: int) -> Row:
        """Take one row out of the bidding, to send it."""
        if not self._sent[row]:
            self._sent[row] = True
            self._left -= 1
            if self._scored is not None:
                self._scored.retire(row)
        table = self._offered
        label = None if table.labels is None else int(table.labels[row])
        return Row(token, table.values[row].astype(np.float64), label)


def _terms(invitation: Invitation) -> AuctionTerms:
    assert isinstance(invitation.terms, AuctionTerms), "the handler checked"
    return invitation.terms
