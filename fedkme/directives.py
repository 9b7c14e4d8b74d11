"""Directives of a curator to an owner in a run, and the owner's answers: values, free of any transport.

A directive has the run, the round, its number in the run and one body. The class of a body names its
`question` for the wire, with `words` for people; the class of an answer names the `answer`.
`fedkme.wire.directives` makes messages of them where a party is reached over a network, and journals on disk
keep those; within one process the values themselves go from one party to the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import Numbers
from fedkme.errors import ApprovalError, ConfigError, FedkmeError, ProtocolError, error_of
from fedkme.features.maps import ROW_UNIT
from fedkme.heads.log import Cosignature, Head
from fedkme.protocol import Bid, Broadcast, Closing, Consider, Invitation
from fedkme.sealed.offers import KeyOffer
from fedkme.sealed.rows import AnyRow
from fedkme.secagg.messages import (
    Advertisement,
    Delivery,
    Endorsement,
    Endorsements,
    KeyRoster,
    SealedShares,
    Survivors,
    Unmasking,
)
from fedkme.secagg.parameters import Parameters
from fedkme.secagg.signing import KeyBinding
from fedkme.sums.values import SumQuery

SHARES = Numbers(0.0, 1.0 + 1e-9)
"""Shares of an order, with room for rounding."""
_WORDS = 500  # letters of a peer's cause or remedy


@dataclass(frozen=True, slots=True)
class Hello:
    """First words of an owner: `rows` for a run, `head` of its ledger, its `schema`."""

    name: str
    version: int
    instance: bytes
    rows: int | None = None
    head: Head | None = None
    new_journal: bool = False
    schema: str = ""


@dataclass(frozen=True, slots=True)
class OfferKeys:
    """Asks for the owner's keys in a run whose rows go sealed, under RUN/keys, before it has a plan."""

    question: ClassVar[str] = "offer_keys"
    words: ClassVar[str] = "for keys"
    run: str


@dataclass(frozen=True, slots=True)
class ShowHead:
    """The head of the owner's ledger is asked for, by a curator that knows some leaves, under RUN/heads."""

    question: ClassVar[str] = "show_head"
    known: int
    origin: str


@dataclass(frozen=True, slots=True)
class KeepHead:
    """The head of the curator's ledger is to be kept and cosigned."""

    question: ClassVar[str] = "keep_head"
    head: Head


@dataclass(frozen=True, slots=True)
class Ask:
    """A row that was bid is asked for (Algorithm 3, steps 13 and 14)."""

    question: ClassVar[str] = "ask"
    words: ClassVar[str] = "for the row that it bid"
    token: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Quote:
    """Prices of a descending clock, (k,), for what a broadcast said, and the spread of equal rows."""

    question: ClassVar[str] = "quote"
    words: ClassVar[str] = "for counts at prices"
    broadcast: Broadcast
    prices: NDArray[np.float64]
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Sell:
    """The price at which the clock stopped: every unsent row that is worth it is asked for."""

    question: ClassVar[str] = "sell"
    words: ClassVar[str] = "for rows at a price"
    price: float


@dataclass(frozen=True, slots=True)
class DrawRows:
    """Rows that the owner draws uniformly are asked for."""

    question: ClassVar[str] = "draw"
    words: ClassVar[str] = "for rows at random"
    count: int


@dataclass(frozen=True, slots=True)
class AskHistogram:
    """Counts of rows by cells are asked for, with noise."""

    question: ClassVar[str] = "histogram"
    words: ClassVar[str] = "for noisy counts by cell"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FillOrder:
    """Order of rows: `count`, or all that the owner has.

    Of them `uniform` are drawn uniformly, and come first; the others match shares of the cells, (B,).
    """

    question: ClassVar[str] = "fill_order"
    words: ClassVar[str] = "for rows by cell"
    count: int
    shares: NDArray[np.float64]
    uniform: int = 0


@dataclass(frozen=True, slots=True)
class AskSums:
    """Asks for a vector of sums that no secure aggregation hides.

    `one_owner_moves` (fedkme.sums.vector): rows by which a lie of one owner moves the total; 0: not said.
    """

    question: ClassVar[str] = "embed"
    words: ClassVar[str] = "for sums"
    query: SumQuery
    one_owner_moves: int = 0


_AS_PROPOSED = ("owners", "threshold", "dropouts", "colluders", "bits", "bound", "noise", "neighbours")
"""Parameters of an aggregation that its proposal has, in order."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """First step of an aggregation: its query, its parameters, and how far one owner's lie moves the sum.

    Attributes are those of `Parameters`, but for what follows from the question, and of `AskSums`.
    """

    question: ClassVar[str] = "aggregate"
    words: ClassVar[str] = "for its part of a secure sum"
    step: ClassVar[str] = "propose"
    query: SumQuery
    name: str
    owners: tuple[str, ...]
    threshold: int
    dropouts: int
    colluders: int
    bits: int
    bound: int
    noise: float
    neighbours: int
    one_owner_moves: int = 0

    @classmethod
    def of(cls, parameters: Parameters, query: SumQuery, moves: int = 0) -> Proposal:
        """Propose an aggregation of a question's vectors."""
        made = cls(query, parameters.run, *(getattr(parameters, name) for name in _AS_PROPOSED))
        return replace(made, one_owner_moves=moves)

    def parameters(self, length: int) -> Parameters:
        """Parameters of the aggregation of vectors whose length is by the reader's own reckoning.

        Raises:
            ProtocolError: parameters under which docs/decisions/005 promises nothing.
        """
        try:
            as_proposed = {name: getattr(self, name) for name in _AS_PROPOSED}
            return Parameters(run=self.name, length=length, step=ROW_UNIT, **as_proposed)
        except ConfigError as error:
            raise ProtocolError(error.cause, error.remedy) from None
        except (ValueError, ArithmeticError):  # noise whose square is no float
            raise ProtocolError("an aggregation is proposed with numbers out of range") from None


@dataclass(frozen=True, slots=True)
class SigningKeys:
    """The second step of an aggregation: the signing keys of all its owners."""

    question: ClassVar[str] = "aggregate"
    step: ClassVar[str] = "keys"
    keys: tuple[KeyBinding, ...]


@dataclass(frozen=True, slots=True)
class StepTaken:
    """Journal's record of an aggregation step, without its secrets, which die with the process."""

    question: ClassVar[str] = "aggregate"
    step: str


@dataclass(frozen=True, slots=True)
class Close:
    """The run is over for the owner, which says how many rows it sent."""

    question: ClassVar[str] = "close"
    words: ClassVar[str] = "to end the run"


@dataclass(frozen=True, slots=True)
class Dismiss:
    """The owner may forget the run; it is not answered. `fault`: why the run went on without the owner."""

    question: ClassVar[str] = "dismiss"
    fault: Refusal | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An expected failure, in place of an answer; it never holds a private value."""

    code: int
    cause: str
    remedy: str

    @classmethod
    def of(cls, error: FedkmeError) -> Refusal:
        """Say an error."""
        return cls(error.code, error.cause, error.remedy)

    @property
    def awaits_approval(self) -> bool:
        """True where the owner's people may still approve the request."""
        return self.code == ApprovalError.code

    def error(self) -> FedkmeError:
        """Make an error of the same class; its words are one line of limited length."""
        cause, remedy = one_line(self.cause), one_line(self.remedy)
        return error_of(self.code, cause, remedy) or ProtocolError(cause, remedy)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A body that cannot be read, of a question where that can be; the owner answers it with the reason."""

    question: str
    reason: Refusal


Step = Proposal | SigningKeys | KeyRoster | Delivery | Survivors | Endorsements
"""Messages of an aggregation; each is answered by what the next one needs."""

Body = (
    Invitation
    | Broadcast
    | Ask
    | Quote
    | Sell
    | DrawRows
    | AskHistogram
    | FillOrder
    | AskSums
    | Step
    | StepTaken
    | Close
    | Dismiss
    | OfferKeys
    | Consider
    | ShowHead
    | KeepHead
    | Unreadable
)

WORDS: Mapping[str, str] = {kind.question: kind.words for kind in get_args(Body) if "words" in vars(kind)}
"""Words for people by question: what an owner is asked for. Questions without words are answered at once."""


@dataclass(frozen=True, slots=True, eq=False)
class Directive:
    """One thing that the curator says to an owner in a run.

    Attributes:
        run: name of the run.
        round: l, or the number of a question about sums.
        seq: counts an owner's directives in a run, from 1. One that arrives again gets the same answer.
        body: what is asked.
    """

    run: str
    round: int
    seq: int
    body: Body

    @property
    def question(self) -> str:
        """Name of the question in `fedkme.protocols`."""
        return self.body.question


@dataclass(frozen=True, slots=True)
class Accepted:
    """The owner takes part, with so many rows (m_j, public)."""

    answer: ClassVar[str] = "accepted"
    rows: int


@dataclass(frozen=True, slots=True)
class Dry:
    """No unsent row is left to bid."""

    answer: ClassVar[str] = "dry"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PriceCounts:
    """Numbers of unsent rows with a marginal gain of at least each price, (k,)."""

    answer: ClassVar[str] = "counts"
    at_least: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NoisyHistogram:
    """Noisy counts of rows by cells, (B,); they may be below zero."""

    answer: ClassVar[str] = "histogram"
    cells: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows that left the owner, as they are or in boxes."""

    rows: Sequence[AnyRow]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class WordVector:
    """A vector of 64-bit words, (length,): sums in the clear as two's complement, or a masked vector."""

    words: NDArray[np.uint64]


Answer = (
    Accepted
    | Bid
    | Dry
    | PriceCounts
    | NoisyHistogram
    | Rows
    | WordVector
    | KeyBinding
    | Advertisement
    | SealedShares
    | Endorsement
    | Unmasking
    | Closing
    | KeyOffer
    | Head
    | Cosignature
    | Refusal
)


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """Limits of an answer, which bound the memory that an owner can take up.

    Rows may be of any width with None.
    """

    rows: int = 0
    width: int | None = None
    words: int = 0


def one_line(text: str) -> str:
    """Fit what a peer wrote for a log and a terminal."""
    words = " ".join(text.split())
    return (words if words.isprintable() else "".join(filter(str.isprintable, words)))[:_WORDS]
