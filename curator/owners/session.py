"""Sessions by which a protocol talks to an owner in one run, over any connection."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from curator.owners.connection import Connection, Traffic
from curator.run.journal import RunJournal
from fedkme import directives, errors
from fedkme.protocol import Bid, Broadcast, Closing, Invitation, Order
from fedkme.sealed.rows import AnyRow, HashedRow

MOST_ROWS = 2**53
"""Most rows that an owner can say it has."""
REFUSALS = (errors.BudgetError, errors.PolicyError, errors.SealedBoxError)
"""Refusals to which an owner has a right; they are reported under their own error."""
_NO_ROWS = directives.Limits()
AnswerT = TypeVar("AnswerT", bound=directives.Answer)


class RunSession:
    """Owner in one run: the session numbers directives, keeps their legal order and reports faults."""

    def __init__(self, connection: Connection, run: str, journal: RunJournal | None = None) -> None:
        """Open a session of one run; a journal, if given, keeps the answers and replays earlier answers."""
        self.name = connection.name
        self.at_once = connection.at_once
        self.traffic = Traffic()
        self._connection = connection
        self._run = run
        self._journal = journal
        self._order = Order(self.name, run)
        self._seq = 0
        self._dismissed = False
        self._most = MOST_ROWS

    async def invite(self, invitation: Invitation) -> int:
        """Let the owner decide about the run; return the number of the owner's rows."""
        return (await self._ask(0, invitation, directives.Accepted)).rows

    async def dismiss(self) -> None:
        """Let the owner forget the run, once, after all its answers are kept."""
        if self._dismissed:
            return
        self._dismissed = True
        if self._journal is not None:
            self._journal.commit()
        await self._connection.tell(directives.Directive(self._run, 0, 0, directives.Dismiss()))

    async def _ask(
        self, number: int, body: directives.Body, kind: type[AnswerT], limits: directives.Limits = _NO_ROWS
    ) -> AnswerT:
        """Ask for an answer of one kind; an owner that answers otherwise is cut off."""
        answer = await self._answer(number, body, limits)
        if not isinstance(answer, kind):
            raise self._odd(number, "an answer that was not asked for")
        return answer

    async def _answer(
        self, number: int, body: directives.Body, limits: directives.Limits
    ) -> directives.Answer:
        """Take the answer to a directive from the journal, or from the owner and write it to the journal."""
        self._seq += 1
        directive = directives.Directive(self._run, number, self._seq, body)
        self._order.check(directive.question)
        journal = self._journal
        answer = None if journal is None else journal.answer(self.name, directive)
        if answer is None:
            if journal is not None:
                journal.commit()
            try:
                answer = await self._connection.exchange(directive, limits, self.traffic)
                if isinstance(answer, directives.Accepted) and answer.rows > self._most:
                    raise self._odd(number, "it has more rows than any table, or than it said as it joined")
            except (errors.OwnerLostError, errors.OwnerFaultError) as error:
                if journal is not None:
                    journal.keep_answer(self.name, directive, lost=error)
                raise
            if journal is not None:
                journal.keep_answer(self.name, directive, answer)
        if isinstance(answer, directives.Refusal):
            fault = answer.error()
            kind = type(fault) if isinstance(fault, REFUSALS) else errors.OwnerFaultError
            raise kind(f"{self._where(number)}: {fault.cause}", fault.remedy)
        if isinstance(body, Invitation):
            self._order.accept(body)
        else:
            self._order.advance(directive.question)
        return answer

    def _where(self, number: int) -> str:
        return f"{self.name}, round {number}"

    def _odd(self, number: int, cause: str, remedy: str = errors.SAME_RELEASE) -> errors.OwnerFaultError:
        """Cut off an owner whose answer makes no sense."""
        self._connection.cut()
        return errors.OwnerFaultError(f"{self._where(number)}: {cause}", remedy)


class OwnerSession(RunSession):
    """Session of one owner for the protocols of summaries.

    Every call may raise `OwnerLostError` (the owner is gone), `OwnerFaultError` (the owner answered with a
    fault) or `BudgetError` (the owner may not send more); the protocol then goes on without the owner.
    """

    def __init__(
        self,
        connection: Connection,
        run: str,
        journal: RunJournal | None = None,
        width: int | None = None,
        sealed: bool = False,
        most: int | None = None,
    ) -> None:
        """Open a session of one run of a summary.

        Args:
            connection: the connection to the owner.
            run: the run's name.
            journal: see `RunSession`.
            width: columns of a row that comes unsealed; None: any number.
            sealed: True where rows come in sealed boxes.
            most: rows that the owner said a run may have; None where it gave no number.
        """
        super().__init__(connection, run, journal)
        self._most = MOST_ROWS if most is None else min(most, MOST_ROWS)
        self._width = width
        self._sealed = sealed

    async def bid(self, broadcast: Broadcast) -> Bid | None:
        """Ask for the bid of the owner's best unsent row; None if the owner has no more rows."""
        answer = await self._answer(broadcast.round, broadcast, _NO_ROWS)
        if not isinstance(answer, Bid | directives.Dry):
            raise self._odd(broadcast.round, "an answer that was not asked for")
        return answer if isinstance(answer, Bid) else None

    async def reveal(self, round_number: int, token: int) -> AnyRow:
        """Ask for the row of a bid."""
        rows = await self._rows(round_number, directives.Ask(token), 1)
        if not rows:
            raise errors.OwnerFaultError(f"{self.name} answered an ask with no row", "Check its software.")
        return rows[0]

    async def quote(
        self, broadcast: Broadcast, prices: NDArray[np.float64], spread: float
    ) -> NDArray[np.int64]:
        """Ask how many rows are worth at least each price, (k,)."""
        return (
            await self._ask(
                broadcast.round, directives.Quote(broadcast, prices, spread), directives.PriceCounts
            )
        ).at_least

    async def sell(self, round_number: int, price: float, due: int) -> Sequence[AnyRow]:
        """Ask for the rows quoted at a price."""
        return await self._rows(round_number, directives.Sell(price), due)

    async def draw(self, round_number: int, count: int) -> Sequence[AnyRow]:
        """Ask for rows drawn at random."""
        return await self._rows(round_number, directives.DrawRows(count), count)

    async def histogram(self, round_number: int, cells: int) -> NDArray[np.int64]:
        """Ask for noisy counts by cell, (B,)."""
        counts = (await self._ask(round_number, directives.AskHistogram(), directives.NoisyHistogram)).cells
        if len(counts) != cells:
            raise self._odd(round_number, f"a histogram has {len(counts)} cells and the run {cells}")
        return counts

    async def fill_order(self, round_number: int, order: directives.FillOrder) -> Sequence[AnyRow]:
        """Order rows by shares of cells."""
        return await self._rows(round_number, order, order.count)

    async def close(self, last_round: int) -> Closing:
        """End the run for this owner."""
        return await self._ask(last_round, directives.Close(), Closing)

    async def _rows(self, number: int, body: directives.Body, most: int) -> Sequence[AnyRow]:
        rows = (await self._ask(number, body, directives.Rows, directives.Limits(most, self._width))).rows
        if any(isinstance(row, HashedRow) != self._sealed for row in rows):
            what = "a row that is not sealed" if self._sealed else "a sealed row in a run of rows as they are"
            raise self._odd(number, f"the peer sends {what}")
        return rows
