"""Legal order of the questions of a run, which both sides check by the table of `fedkme.protocols`.

An owner refuses a question out of turn before it computes anything, and a curator's session does not ask a
question out of turn. A refusal leaves the state of the run unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from fedkme.errors import ProtocolError
from fedkme.protocol import AuctionTerms, CellTerms, Invitation, SumTerms, Terms
from fedkme.protocols import ORDER, PROTOCOLS, Family, Following

_FAMILIES: Mapping[type[Terms], Family] = {AuctionTerms: "auction", CellTerms: "cells", SumTerms: "sums"}
_NEW = "new"


class Order:
    """State of a run at one owner: `new` until the owner accepts the invitation, then one of the table."""

    def __init__(self, owner: str, run: str) -> None:
        """Begin before the invitation; the names of owner and run are for error messages."""
        self.state = _NEW
        self._owner = owner
        self._run = run
        self._protocol = ""
        self._table: Mapping[str, Following] = {}
        self._legal: Set[str] = frozenset()

    @property
    def begun(self) -> bool:
        """True once the owner takes part in the run."""
        return self.state != _NEW

    def check(self, question: str) -> None:
        """Refuse a question that is not legal in this state.

        Raises:
            ProtocolError: the question belongs to other protocols, or comes out of turn.
        """
        if not self.begun:
            if question != "invite":
                raise ProtocolError(f"{self._owner} does not take part in {self._run}", "Restart the run.")
        elif question == "invite":
            raise ProtocolError(f"{self._run} has begun already", "Start another run.")
        elif question not in self._legal:
            raise ProtocolError(
                f"{self._run} is of the protocol {self._protocol!r}, which asks for no {question!r}",
                "Check the curator's software.",
            )
        elif question not in self._table[self.state]:
            raise ProtocolError(
                f"{self._run} asks {self._owner} for {question!r} out of turn, or twice",
                "Check the curator's software.",
            )

    def accept(self, invitation: Invitation) -> None:
        """Record that the owner takes part."""
        self._protocol, self._table = invitation.protocol, ORDER[_FAMILIES[type(invitation.terms)]]
        self._legal = frozenset().union(*self._table.values())
        if (row := PROTOCOLS.get(self._protocol)) is not None:
            self._legal &= row.questions | {"close"}
        self.state = "open"

    def advance(self, question: str) -> None:
        """Record that a question other than the invitation was answered."""
        self.state = self._table[self.state][question]
