"""Answers of an owner in a summary by cells: one noisy histogram and the rows that fill one order."""

from collections.abc import Sequence

import numpy as np

from fedkme.arrays import IntArray
from fedkme.cells.codebook import Counting
from fedkme.cells.histogram import noisy_counts, on_integers
from fedkme.directives import SHARES, FillOrder
from fedkme.errors import ConfigError, ProtocolError, fault_of_curator
from fedkme.margins.density import DensityBook, book_from_json
from fedkme.protocol import CellTerms, Closing, Invitation
from fedkme.protocols import is_sealed, names
from fedkme.sealed.rows import AnyRow
from fedkme.tables.table import Row
from owner.cells.answer_schedule import Pace, measured
from owner.cells.fill import design, drawn_rows, fill_order
from owner.keyring import RowSender, Sealer, lost_keys

_MOST_BOXES = 2**16
"""Boxes of one order: rows, and those that hold none."""


class HistogramResponder(RowSender):
    """One owner's side of the cells protocol (docs/decisions/007), for one run.

    It counts once and fills one order. A token is a row's place among the sent rows.

    Attributes:
        answer_s: seconds from the last order to its answer; 0: at once.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._noise_of_counts = on_integers(self._noise)
        self._invitation: Invitation | None = None
        self._counting: Counting | None = None
        self._counted = False
        self._ordered = False
        self._pace: Pace | None = None
        self.answer_s = 0.0

    def invite(self, invitation: Invitation) -> int:
        """Take part in a run.

        Returns:
            Number of this owner's rows that the run may have.

        Raises:
            SchemaError: the curator's public schema is another one.
            ProtocolError: the code book cannot be used, or the noise is not what the plan says it costs.
            PolicyError: the owner does not take part in such a run.
            BudgetError: no row may leave any more, or the run costs more than the owner allows.
            SealedBoxError: rows are to be sealed and the group secret is not here.
            IdentityError: the gift of the group secret is not from the consumer.
        """
        self._schema.check_digest(invitation.schema, f"the curator and {self.name}")
        self._check(invitation)
        sealer = self._sealer_of(invitation)
        self._gate.open(invitation)
        self._begin(invitation)
        self._sealer = sealer
        if sealer is not None:
            self._pace = measured(self._schema.encoded_width)
        return len(self._offered)

    def _check(self, invitation: Invitation) -> None:
        """Refuse terms whose noise is not exactly that of the planned event, by which the policy decides."""
        terms = _terms(invitation)
        if invitation.protocol not in names("cells"):
            cause = f"{self.name} knows no summary by cells with the protocol {invitation.protocol[:64]!r}"
            raise ProtocolError(cause)
        try:
            book = book_from_json(terms.code_book, self._schema)
        except ConfigError as error:
            raise ProtocolError(f"the curator's plan cannot be used: {error.cause}", error.remedy) from None
        by_class = bool(terms.classes) or book.needs_labels
        if by_class and self._table.labels is None and self._schema.label is not None:
            cause = f"{self.name} is to count rows by class, and its rows have no '{self._schema.label.name}'"
            raise ProtocolError(cause, "`fedkme schema check` says which column of the file may be it.")
        if terms.classes not in (0, len(self._schema.classes)) or (by_class and self._table.labels is None):
            cause = f"{self.name} is to count rows by other classes than its schema has"
            raise ProtocolError(cause, "Give both the same schema file.")
        if invitation.planned != terms.events:
            cause = f"{self.name} is told of another cost than the histogram of {invitation.run} has"
            raise ProtocolError(cause)

    def restore_invitation(self, invitation: Invitation) -> None:
        """Continue a run that the owner has joined already."""
        self._gate.restore(invitation)
        self._begin(invitation)

    def _begin(self, invitation: Invitation) -> None:
        self._invitation = invitation
        terms = _terms(invitation)
        self._counting = Counting(book_from_json(terms.code_book, self._schema), terms.classes)
        self._offered = self._gate.offered(self._table)

    def histogram(self, round_number: int) -> IntArray:
        """Count rows in each cell, with discrete Laplace noise, (B,); once in a run.

        Raises:
            ProtocolError: a second histogram is asked for, which would cost as much again.
        """
        invitation, terms, counting = self._begun()
        if self._counted or terms.noise is None:
            raise fault_of_curator(f"{self.name} has counted its rows")
        counts = noisy_counts(self._cells(counting), counting.size, terms.noise, self._noise_of_counts)
        self._gate.pass_histogram(invitation.run, terms.noise.event, counts)
        self._counted = True
        return counts

    def skip_histogram(self) -> None:
        """Advance seeded noise as `histogram` does; the journal has its answer."""
        _, terms, counting = self._begun()
        assert terms.noise is not None, "a histogram was answered"
        terms.noise.draw(self._noise_of_counts, counting.size)
        self._counted = True

    def fill_order(self, round_number: int, order: FillOrder) -> Sequence[AnyRow]:
        """Choose as many rows as are ordered, or all: first drawn rows, then rows that match the cells.

        Sealed rows go in boxes, always as many boxes as rows were ordered: boxes beyond the rows are empty.
        So the number of boxes tells the curator nothing, and neither does the time, `answer_s`.

        Raises:
            ProtocolError: a count or shares are out of range, or the order is the second one.
            SealedBoxError: rows are to be sealed, and the keys died with another process.
        """
        invitation, terms, counting = self._begun()
        boxes = max(len(self._offered), _MOST_BOXES) if self._is_sealed else terms.rows
        if self._ordered or not _fits(order, counting.size, min(terms.rows, boxes)):
            cause = f"{self.name} gets an order with a count or shares out of range, or a second order"
            raise fault_of_curator(cause)
        sealer = self._ready()
        table = self._offered
        if self._pace is not None:
            self.answer_s = self._pace.answer_s(len(table), order.count)
        rows, book = self._schema.encode(table.values), counting.book
        drawn = drawn_rows(len(rows), order.uniform, self._noise)
        if isinstance(book, DensityBook):
            weights = book.weights_of(rows, table.labels)
            chosen = design(rows, weights, order.count, terms.gamma, drawn, book.seed)
        else:
            chosen = fill_order(rows, self._cells(counting), order, drawn, terms.gamma, book.seed)
        sent = len(chosen) if sealer is None else order.count
        consumer = "" if sealer is None else invitation.consumer
        self._gate.pass_rows(invitation.run, round_number, range(sent), sealed_for=consumer)
        self._ordered = True  # even without rows in the ordered cells: a second order could name other cells
        labels = table.labels
        rows_sent = [
            Row(token, table.values[row].astype(np.float64), None if labels is None else int(labels[row]))
            for token, row in enumerate(chosen.tolist())
        ]
        if sealer is None:
            return rows_sent
        return [*sealer.seal(rows_sent), *sealer.fill(range(len(rows_sent), order.count), self._schema.width)]

    def restore_rows(self, sent: Sequence[int]) -> None:
        """Count rows as sent that another process sent, by their tokens."""
        self._gate.restore_rows(sent)
        self._ordered = True

    def close(self) -> Closing:
        """Close the run with this owner's own count of the rows sent."""
        return Closing(self._gate.rows_sent)

    @property
    def _is_sealed(self) -> bool:
        return self._invitation is not None and is_sealed(self._invitation.protocol)

    def _ready(self) -> Sealer | None:
        """Keys of a run whose rows are sealed; None for other runs.

        Raises:
            SealedBoxError: the keys died with another process.
        """
        if self._is_sealed and self._sealer is None:
            raise lost_keys(self.name)
        return self._sealer

    def _begun(self) -> tuple[Invitation, CellTerms, Counting]:
        if self._invitation is None or self._counting is None:
            raise ProtocolError(f"{self.name} is in no run by cells", "Restart the run.")
        return self._invitation, _terms(self._invitation), self._counting

    def _cells(self, counting: Counting) -> IntArray:
        """Cell of each row as this run counts it, (m_j,)."""
        return counting.cells_of(self._schema.encode(self._offered.values), self._offered.labels)


def _fits(order: FillOrder, cells: int, most: int) -> bool:
    """Check that an order has shares of `cells` cells and asks for at most `most` rows."""
    shares = order.shares
    in_range = shares.shape == (cells,) and bool(((shares >= 0) & (shares <= SHARES.high)).all())
    return in_range and 0 < order.count <= most and 0 <= order.uniform <= order.count


def _terms(invitation: Invitation) -> CellTerms:
    assert isinstance(invitation.terms, CellTerms), "the handler checked"
    return invitation.terms
