"""The values that owners, curator and consumer exchange, free of any transport.

Field names are the words of the protocol; `fedkme.wire.codecs` turns them into messages and back.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any, ClassVar

from fedkme.cells.histogram import HistogramNoise
from fedkme.errors import ProtocolError, fault_of_curator
from fedkme.features.fixed_point import MeanVector
from fedkme.features.fourier import FourierSpec, SecretFourierSpec
from fedkme.privacy.events import Disclosure, Event
from fedkme.protocols import ORDER, PROTOCOLS, Family, Following
from fedkme.sealed.group import Gift
from fedkme.secagg.parameters import least_threshold


@dataclass(frozen=True, slots=True, eq=False)
class AuctionTerms:
    """Terms of an auction of Algorithm 3, or of uniform draws.

    Attributes:
        features: the draw of h1, or what is public of it.
        target: g~, the released mean of h1 over D_v, (d,).
        rows: p.
        heard: what owners will hear of each other's rows, as the curator's ledger will say it of round 1.
    """

    features: FourierSpec | SecretFourierSpec
    target: MeanVector
    rows: int = 0
    heard: tuple[Disclosure, ...] = ()


@dataclass(frozen=True, slots=True)
class CellTerms:
    """Terms of a summary by cells (docs/decisions/007).

    Attributes:
        code_book: a public partition of rows into cells, as `CodeBook.to_json` has it.
        gamma: gamma of the exact kernel.
        noise: on the counts of an owner's histogram; None: no owner is asked to count, for coalitions have
            (docs/decisions/007).
        rows: that all owners will be asked for together, rho p.
        classes: classes of the label by which each cell is counted; 0 for cells alone.
    """

    code_book: Mapping[str, Any]
    gamma: float
    noise: HistogramNoise | None
    rows: int
    classes: int = 0

    @property
    def events(self) -> tuple[Event, ...]:
        """Events of the histogram that an owner is asked for; none where coalitions have counted."""
        return () if self.noise is None else (self.noise.event,)


@dataclass(frozen=True, slots=True)
class Security:
    """Secure aggregation (docs/decisions/005): the curator sees totals with owners' noise in them alone.

    Of the owners D may be missing at the end, and T may side with the curator.
    """

    dropouts: int = 0
    colluders: int = 0

    @property
    def shares_known(self) -> int:
        """Most shares of noise that an observer knows: T owners' shares, or its own if it is an owner."""
        return max(1, self.colluders)

    @property
    def least_owners(self) -> int:
        """Least number of owners with which an aggregation can begin."""
        # no threshold is low enough for fewer owners: a step or two are left, whatever a peer asks for
        owners = self.colluders + max(self.dropouts + 2, 2 * self.dropouts)
        while least_threshold(owners, self.colluders) > owners - self.dropouts:
            owners += 1
        return owners

    def honest(self, owners: int) -> int:
        """Least number of shares in a total of so many owners that an observer does not know, m."""
        return owners - self.dropouts - self.shares_known


@dataclass(frozen=True, slots=True)
class IntendedSummary:
    """Summary that is meant, by which owners decide before D_v draws anything.

    A function of settings, of the request's size and of sizes of owners. Where public cells are made first,
    an owner that would refuse it refuses these; else owners are asked to consider it.

    Attributes:
        protocol: protocol by which it will be made.
        rows: that all owners will be asked for together.
        planned: what it will cost an owner's rows towards other owners, beside the cells.
        dimension: dimension of h1; 0 in a run by cells.
    """

    protocol: str
    rows: int
    planned: tuple[Event, ...]
    dimension: int = 0


@dataclass(frozen=True, slots=True)
class Consider:
    """The owner is asked whether it will take part in a summary, before D_v draws anything for it.

    It is asked under RUN/considered, because nothing is begun by it. Attributes are those of `Invitation`.
    """

    question: ClassVar[str] = "consider"
    words: ClassVar[str] = "whether to take part"
    run: str
    schema: str
    consumer: str
    summary: IntendedSummary
    expected: str = ""


@dataclass(frozen=True, slots=True)
class SumTerms:
    """Terms of a run of sums (docs/decisions/006).

    Without security the curator is trusted with plain sums. An `ahead` of None is that of a release, or of an
    earlier curator.
    """

    security: Security | None = None
    ahead: IntendedSummary | None = None


Terms = AuctionTerms | CellTerms | SumTerms


@dataclass(frozen=True, slots=True)
class Invitation:
    """Invitation to a run: an owner's policy decides by it, and it has all that the owner needs first.

    Attributes:
        run: name of the run.
        schema: digest of the public schema that the rows must follow.
        consumer: who will receive what is made in the run.
        protocol: protocol by which it is made.
        planned: what an owner's rows will cost in the whole run: a summary towards other owners, sums towards
            the consumer.
        terms: what the family of the protocol needs.
        gift: the group secret for this owner, where rows go sealed.
        expected: what the curator's plan expects of a summary, in a line; a function of public numbers.
    """

    question: ClassVar[str] = "invite"
    words: ClassVar[str] = "to take part"
    run: str
    schema: str
    consumer: str
    protocol: str
    planned: tuple[Event, ...]
    terms: Terms
    gift: Gift | None = None
    expected: str = ""

    @property
    def rows(self) -> int:
        """Rows that owners will be asked for together; 0 for sums."""
        return 0 if isinstance(self.terms, SumTerms) else self.terms.rows

    @property
    def ahead(self) -> IntendedSummary | None:
        """Summary that will follow these sums; None of releases and of summaries themselves."""
        return self.terms.ahead if isinstance(self.terms, SumTerms) else None

    @property
    def security(self) -> Security | None:
        """Protection of sums; None for plain sums and for summaries."""
        return self.terms.security if isinstance(self.terms, SumTerms) else None


@dataclass(frozen=True, slots=True, eq=False)
class Broadcast:
    """Broadcast to every owner in round l (Algorithm 3, step 5): g_l, (d,), of q rows with the seed set."""

    question: ClassVar[str] = "broadcast"
    words: ClassVar[str] = "for a bid"
    round: int
    size: int
    mean: MeanVector


@dataclass(frozen=True, slots=True)
class Bid:
    """An owner's best unsent row by its marginal gain (Algorithm 3, step 6).

    The token is a name for the row that says nothing about it; the same row keeps its token in a run.
    """

    answer: ClassVar[str] = "bid"
    value: float
    token: int


@dataclass(frozen=True, slots=True)
class Closing:
    """An owner's own count at the end of a run, from its gate: the curator's must agree."""

    answer: ClassVar[str] = "closing"
    rows_sent: int


_FAMILIES: Mapping[type[Terms], Family] = {AuctionTerms: "auction", CellTerms: "cells", SumTerms: "sums"}
_NEW = "new"


class Order:
    """Order in which questions are legal in a run at one owner, by the table of `fedkme.protocols`.

    Both sides check it: an owner refuses a question out of turn before it computes anything; a curator's
    session does not ask one. A refusal leaves the state as it is.

    Attributes:
        state: `new` until the owner has accepted the invitation, then of the table.
    """

    def __init__(self, owner: str, run: str) -> None:
        """Begin before the invitation; the arguments appear in errors about messages out of turn."""
        self.state = _NEW
        self._owner = owner
        self._run = run
        self._protocol = ""
        self._table: Mapping[str, Following] = {}
        self._legal: Set[str] = frozenset()

    @property
    def begun(self) -> bool:
        """True once the owner takes part."""
        return self.state != _NEW

    def check(self, question: str) -> None:
        """Refuse a question that is not legal here.

        Raises:
            ProtocolError: it is of other protocols, or out of turn.
        """
        if not self.begun:
            if question != "invite":
                raise ProtocolError(f"{self._owner} does not take part in {self._run}", "Restart the run.")
        elif question == "invite":
            raise ProtocolError(f"{self._run} has begun already", "Start another run.")
        elif question not in self._legal:
            cause = f"{self._run} is of the protocol {self._protocol!r}, which asks for no {question!r}"
            raise fault_of_curator(cause)
        elif question not in self._table[self.state]:
            raise fault_of_curator(f"{self._run} asks {self._owner} for {question!r} out of turn, or twice")

    def accept(self, invitation: Invitation) -> None:
        """Note that the owner takes part."""
        self._protocol, self._table = invitation.protocol, ORDER[_FAMILIES[type(invitation.terms)]]
        self._legal = frozenset().union(*self._table.values())
        if (row := PROTOCOLS.get(self._protocol)) is not None:
            self._legal &= row.questions | {"close"}
        self.state = "open"

    def advance(self, question: str) -> None:
        """Note that a question, other than the invitation, was answered."""
        self.state = self._table[self.state][question]
