"""Exchange of heads with the owners of a run that is over (docs/decisions/015).

First every owner shows its head. The curator's next leaf then commits to the curator's ledger and to these
heads: whoever keeps the curator's head is bound to the owners' heads too, without learning them. Each owner
keeps and cosigns the curator's head. The run's result does not depend on the exchange: an owner that is
absent, or whose head does not follow from its earlier heads, is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from curator.owners.connection import Connection, Traffic
from fedkme.directives import Answer, Body, Directive, Hello, KeepHead, Limits, Refusal, ShowHead
from fedkme.errors import FedkmeError, LedgerError, OwnerFaultError, StoreError
from fedkme.heads.log import EXCHANGE, Cosignature, Head, HeadLog
from fedkme.heads.notes import origin_of
from fedkme.pki.certificates import Role

AnswerT = TypeVar("AnswerT", bound=Answer)


class HeadExchange:
    """Curator's side of the exchange of heads."""

    def __init__(self, log: HeadLog, say: Callable[..., None]) -> None:
        """Use the curator's log.

        Args:
            log: the curator's log of heads.
            say: reports heads that do not follow from earlier heads.
        """
        self._log = log
        self._say = say
        self._turn = asyncio.Lock()  # of two runs that end at once, the second builds on the first

    def admit(self, hello: Hello) -> None:
        """Hold an owner that joins to the heads that it showed before.

        An owner whose operator has declared a new journal is let in, with a line in the log.

        Raises:
            LedgerError: the owner's journal is gone, older than the heads it showed, or another owner's.
            StoreError: the curator's store fails.
        """
        if hello.head is None:
            return
        try:
            self._log.recall(hello.head, origin_of(Role.OWNER, hello.name))
        except LedgerError as error:
            if not hello.new_journal:
                raise
            self._report("", error, owner=hello.name)

    async def after(self, run: str, connections: Sequence[Connection]) -> None:
        """Exchange heads when a run is over.

        Args:
            run: the run's name.
            connections: connections of the run's owners that are here.

        Raises:
            StoreError: the curator's store fails.
        """
        async with self._turn:
            shown = await asyncio.gather(*(self._owner_head(run, owner) for owner in connections))
            heads = [(connection, head) for connection, head in zip(connections, shown, strict=True) if head]
            try:
                self._log.advance(run)
            except LedgerError as error:  # its key is not one of `fedkme pki`
                self._report(run, error)
                return
            answers = await asyncio.gather(*(self._cosignature(run, owner, head) for owner, head in heads))
            names = {origin_of(Role.OWNER, owner.name): owner.name for owner, _ in heads}
            signed = {
                origin: answer for origin, answer in zip(names, answers, strict=True) if answer is not None
            }
            for origin, why in self._log.add(signed).items():
                self._report(run, why, owner=names[origin])

    def head(self) -> Head | None:
        """The curator's last head, for a consumer to keep; None before the first.

        Raises:
            StoreError: the curator's store fails.
        """
        return self._log.last()

    async def _owner_head(self, run: str, connection: Connection) -> Head | None:
        """Ask for an owner's head and keep it; None if the owner shows none that follows earlier heads."""
        origin = origin_of(Role.OWNER, connection.name)
        question = ShowHead(self._log.known(origin), self._log.origin)
        try:
            head = await _ask(connection, run, 1, question, Head)
            self._log.keep(head, origin)
        except StoreError:
            raise
        except FedkmeError as error:
            self._report(run, error, owner=connection.name)
            return None
        return head

    async def _cosignature(self, run: str, connection: Connection, theirs: Head) -> Cosignature | None:
        """Have an owner keep and cosign the curator's head; None where the owner does not."""
        try:
            ours = self._log.show(theirs.known, origin_of(Role.OWNER, connection.name))
            return await _ask(connection, run, 2, KeepHead(ours), Cosignature)
        except StoreError:
            raise
        except FedkmeError as error:
            self._report(run, error, owner=connection.name)
            return None

    def _report(self, run: str, error: FedkmeError, **whose: str) -> None:
        self._say("unwitnessed", run=run, round=0, **whose, code=error.code, line=str(error))


async def _ask(connection: Connection, run: str, number: int, body: Body, kind: type[AnswerT]) -> AnswerT:
    answer = await connection.exchange(Directive(run + EXCHANGE, 0, number, body), Limits(), Traffic())
    if isinstance(answer, Refusal):
        fault = answer.error()
        raise OwnerFaultError(f"{connection.name}: {fault.cause}", fault.remedy)
    if not isinstance(answer, kind):
        raise OwnerFaultError(f"{connection.name} shows no head", "Install the same release everywhere.")
    return answer
