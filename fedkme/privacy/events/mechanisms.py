"""Kinds of events; the package docstring says what an event is."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, get_args

from fedkme.errors import ConfigError, ProtocolError

Relation = Literal["replace-one", "add-remove"]
"""Neighbouring relation: one row is replaced by another, or one row is added or removed."""
MwemRelation = Literal["replace-one", "add-remove, q counted", "add-remove, q public"]
"""The relation; for add-remove also whether h2 uses the true number q of rows or a public constant."""

MWEM_ITERATION_COST: Mapping[MwemRelation, tuple[float, float]] = {
    "replace-one": (4.0, 2.0),
    "add-remove, q counted": (4.0, 1.0),
    "add-remove, q public": (2.0, 1.0),
}
"""One iteration of h2 with parameter e: (bounded range of the selection, pure DP of the value), over e.
The argument stands in the docstring of fedkme.privacy.mwem."""

CHOICE_SLACK = 2.0**-30
"""Range that a choice (fedkme.privacy.noise.choose) is charged on top of the range of its scores. It covers
rounding: of scores of size 2^20 at most, a few times by a part 2^-52, and of the exponential function."""

_SMALLEST, _LARGEST = 1e-100, 1e100
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "Relation": get_args(Relation),
    "MwemRelation": get_args(MwemRelation),
}


@dataclass(frozen=True)
class Event:
    """Base of all kinds of events.

    Numbers lie between 1e-100 and 1e100, so that no square or sum overflows; counts are at least 1.

    Raises:
        ConfigError: on construction, for a value out of its range.
    """

    kind: ClassVar[str] = ""
    whole_run: ClassVar[bool] = False
    """True where an event covers all rounds of a run: ledgers have it once a round, it is paid once a run."""

    def __post_init__(self) -> None:
        for name, type_name in _types(type(self)).items():
            value = _field_value(type_name, getattr(self, name))
            if value is None:
                remedy = "Numbers lie within 1e-100 and 1e100, counts are whole, names known and not empty."
                raise ConfigError(f"the event '{self.kind}' cannot have this {name}", remedy)
            object.__setattr__(self, name, value)

    @property
    def assumes(self) -> frozenset[Relation]:
        """Relations under which the event's figures hold; empty where the sensitivity states the relation."""
        return frozenset()

    def to_json(self) -> dict[str, Any]:
        """Plain values; `event_from_json` reads them back."""
        plain: dict[str, Any] = {"kind": self.kind}
        for name in _types(type(self)):
            value = getattr(self, name)
            plain[name] = [part.to_json() for part in value] if name == "events" else value
        return plain


def _fields_of(kind: type[Event]) -> Mapping[str, str]:
    """Names of a kind's fields, with their type annotations as text."""
    return {field.name: str(field.type) for field in fields(kind)}


_types: Callable[[Any], Mapping[str, str]] = functools.cache(_fields_of)


@dataclass(frozen=True)
class Gaussian(Event):
    """Gaussian noise on a query of bounded L2 sensitivity; one party adds it, or many parties add shares."""

    kind: ClassVar[str] = "gaussian"
    noise_multiplier: float
    count: int = 1


@dataclass(frozen=True)
class Laplace(Event):
    """Laplace noise on a query of bounded L1 sensitivity."""

    kind: ClassVar[str] = "laplace"
    noise_multiplier: float
    count: int = 1


@dataclass(frozen=True)
class BoundedRange(Event):
    """A choice whose privacy loss lies, for any two neighbours, in some interval of length epsilon.

    The exponential mechanism that chooses i with probability proportional to exp(c psi_i) has epsilon = 2 c
    times the sensitivity of psi (Durfee and Rogers 2019).
    """

    kind: ClassVar[str] = "bounded-range"
    epsilon: float
    count: int = 1


@dataclass(frozen=True)
class PureDp(Event):
    """Mechanism that is (epsilon, 0)-DP, without any tighter statement."""

    kind: ClassVar[str] = "pure-dp"
    epsilon: float
    count: int = 1


@dataclass(frozen=True)
class MwemCall(Event):
    """One call of h2 (Sarpatwar 2019, Algorithm 2): T iterations with parameter epsilon."""

    kind: ClassVar[str] = "mwem-call"
    epsilon: float
    iterations: int
    relation: MwemRelation = "replace-one"

    @property
    def assumes(self) -> frozenset[Relation]:
        """The relation without the remark on q."""
        return frozenset({"replace-one" if self.relation == "replace-one" else "add-remove"})

    def pieces(self) -> tuple[BoundedRange, Laplace]:
        """Released pieces: T selections, and T values with Laplace noise."""
        selection, value = MWEM_ITERATION_COST[self.relation]
        return (
            BoundedRange(selection * self.epsilon + CHOICE_SLACK, self.iterations),
            Laplace(1.0 / (value * self.epsilon), self.iterations),
        )


MOST_CALLS = 2**14  # in one schedule: a peer may name it, and accountants look at each call


@dataclass(frozen=True)
class MwemSchedule(Event):
    """Calls first..last of h2, of which call l has T iterations with parameter epsilon / sqrt(l).

    Sarpatwar 2019, Theorem 2. Accountants compose the calls; no total is read from the schedule.
    """

    kind: ClassVar[str] = "mwem-schedule"
    epsilon: float
    iterations: int
    first: int
    last: int
    relation: MwemRelation = "replace-one"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.last - self.first < MOST_CALLS:
            what = f"the event '{self.kind}' cannot have calls {self.first} to {self.last}"
            raise ConfigError(what, f"Calls are counted upwards, at most {MOST_CALLS} of them.")

    @property
    def assumes(self) -> frozenset[Relation]:
        """The relation of each call."""
        return next(self.calls()).assumes

    def calls(self) -> Iterator[MwemCall]:
        """The event of each call, in order."""
        for number in range(self.first, self.last + 1):
            yield MwemCall(self.epsilon / math.sqrt(number), self.iterations, self.relation)

    def during(self, first: int, last: int) -> MwemSchedule:
        """The calls of some rounds.

        Raises:
            ConfigError: a round lies outside the schedule.
        """
        if not self.first <= first <= last <= self.last:
            what = f"rounds {first} to {last} are asked for, and the schedule has {self.first} to {self.last}"
            raise ConfigError(what, "Keep to the rounds of the plan.")
        return replace(self, first=first, last=last)


@dataclass(frozen=True)
class Clock(Event):
    """All descending clocks of a run, with Exp(mean 1/epsilon) noise on the threshold.

    One row influences only the stop that sends it, so all clocks together are (epsilon, 0)-DP under
    add-remove, and (2 epsilon, 0)-DP under replace-one.
    """

    kind: ClassVar[str] = "clock"
    whole_run: ClassVar[bool] = True
    epsilon: float
    relation: Relation = "replace-one"

    @property
    def assumes(self) -> frozenset[Relation]:
        """The relation of the event."""
        return frozenset({self.relation})

    def pieces(self) -> tuple[PureDp]:
        """The cost of the run's clocks under the relation."""
        return (PureDp(self.epsilon * (2.0 if self.relation == "replace-one" else 1.0)),)


@dataclass(frozen=True)
class PrivAuction(Event):
    """PRIVAUCTION of a run (Sarpatwar 2019, Algorithm 3, steps 11 to 16), and what Theorem 6 claims for it.

    No relation gives it a finite epsilon. `rate` is eps_auc, `patience` is tau; (epsilon, delta) is the
    claim for all rounds together.
    """

    kind: ClassVar[str] = "privauction"
    whole_run: ClassVar[bool] = True
    rate: float
    patience: float
    rounds: int
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_probability(self.kind, "delta", self.delta)


@dataclass(frozen=True)
class RawRows(Event):
    """Rows that are seen as they are."""

    kind: ClassVar[str] = "raw-rows"
    count: int


@dataclass(frozen=True)
class HashedRows(Event):
    """h1 of single rows, without noise."""

    kind: ClassVar[str] = "hashed-rows"
    count: int


@dataclass(frozen=True)
class SealedRows(Event):
    """Rows in boxes that the observer carries and cannot open, all of one length, as many as were ordered.

    Under fresh keys the bytes of boxes say nothing about rows to anybody who cannot break both X25519 and
    ML-KEM-768, or ChaCha20-Poly1305. So boxes cost the rows nothing towards the observer, as long as it has
    no keys and no holder of the keys helps it. The holder of the keys has a disclosure of its own. The number
    of boxes must follow from disclosures that are accounted elsewhere.
    """

    kind: ClassVar[str] = "sealed-rows"
    count: int


@dataclass(frozen=True)
class ExactStatistic(Event):
    """A number computed from rows and released without noise; `what` names it, never its value."""

    kind: ClassVar[str] = "exact-statistic"
    what: str


@dataclass(frozen=True)
class Composed(Event):
    """Events in sequence, each of which may depend on the releases of earlier events."""

    kind: ClassVar[str] = "composed"
    events: tuple[Event, ...]

    @property
    def assumes(self) -> frozenset[Relation]:
        """Relations that the parts assume."""
        return frozenset().union(*(event.assumes for event in self.events))


_KINDS: Mapping[str, type[Event]] = {event.kind: event for event in Event.__subclasses__()}


_COUNTED = (Gaussian, Laplace, BoundedRange, PureDp, RawRows, HashedRows, SealedRows)


def leaves(events: Iterable[Event]) -> Iterator[Event]:
    """The events without the `Composed` around them, in order; a schedule of h2 is its calls."""
    for event in events:
        if isinstance(event, Composed):
            yield from leaves(event.events)
        elif isinstance(event, MwemSchedule):
            yield from event.calls()
        else:
            yield event


def repeated(event: Event, times: int) -> Event:
    """The event of `times` >= 1 releases, each of which may depend on earlier releases.

    An exact statistic stays one event: repeating it tells nothing new.
    """
    if times == 1 or isinstance(event, ExactStatistic):
        return event
    if isinstance(event, MwemCall):
        return replace(event, iterations=times * event.iterations)
    if isinstance(event, _COUNTED):
        return replace(event, count=times * event.count)
    return Composed((event,) * times)


def in_sequence(events: Sequence[Event]) -> Event:
    """The event of releases one after another, at least one: as short as `repeated` and a schedule allow."""
    first = events[0]
    if all(event == first for event in events):
        return repeated(first, len(events))
    if isinstance(first, MwemSchedule):
        whole = replace(first, last=first.first + len(events) - 1)
        if list(events) == [whole.during(number, number) for number in range(whole.first, whole.last + 1)]:
            return whole
    return Composed(tuple(events))


def event_from_json(plain: object) -> Event:
    """Read what `Event.to_json` wrote.

    Raises:
        ProtocolError: an unknown kind, a missing or an unknown field, or a value out of its range.
    """
    if not isinstance(plain, dict):
        raise unreadable("an event that is no object")
    values = dict(plain)
    name = values.pop("kind", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise unreadable("an event of an unknown kind")
    if values.keys() != _types(kind).keys():
        raise unreadable(f"the event '{kind.kind}' with other fields than it has")
    if isinstance(values.get("events"), list):
        values["events"] = tuple(event_from_json(part) for part in values["events"])
    try:
        return kind(**values)
    except ConfigError as error:
        raise unreadable(f"an entry in which {error.cause}") from error


def _field_value(type_name: str, value: Any) -> Any:
    """The value in the type of its field, or None where the type does not allow the value."""
    if type_name == "str":
        return value if isinstance(value, str) and value else None
    if type_name in _CHOICES:
        return value if value in _CHOICES[type_name] else None
    if type_name.startswith("tuple"):
        return value if isinstance(value, tuple) and all(isinstance(v, Event) for v in value) else None
    if isinstance(value, bool | str):
        return None
    try:
        number = operator.index(value) if type_name == "int" else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if _SMALLEST <= number <= _LARGEST else None


def _check_probability(kind: str, name: str, value: float) -> None:
    if value > 1:
        raise ConfigError(f"the event '{kind}' cannot have this {name}", "A probability is at most 1.")


def unreadable(what: str) -> ProtocolError:
    """Make the error for text that no ledger of this version writes."""
    return ProtocolError(f"a ledger holds {what}", "Read it with the version of fedkme that wrote it.")
