"""One entry of a ledger."""

from __future__ import annotations

import functools
import json
import math
from dataclasses import dataclass, field, fields
from typing import Any, get_args

from fedkme.errors import ConfigError
from fedkme.privacy.events.mechanisms import Event, Relation, event_from_json, unreadable

CURATOR = "curator"
"""Observer: the curator, under any name."""
CONSUMER = "consumer"
"""Name of a consumer that has no other name. As an observer, a consumer goes by its name."""
OWNERS = "owners"
"""Observer: every other owner. As a protected set: any one row of any owner."""
VALIDATION = "D_v"
"""The validation set; a ledger writes it with its consumer's name, see `validation_of`."""
PUBLIC = "public"
"""Observer: everybody."""
RESERVED = frozenset({CURATOR, CONSUMER, "consumers", OWNERS, VALIDATION, PUBLIC})
"""Words with a meaning of their own in a ledger: no party may have one as its name (fedkme/party.py)."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_string_json = json.encoder.encode_basestring_ascii


@functools.lru_cache(maxsize=256)
def _event_json(event: Event) -> str:
    return _ENCODER.encode(event.to_json())


_number_json = functools.lru_cache(maxsize=256)(_ENCODER.encode)


def validation_of(consumer: str) -> str:
    """Name of a consumer's validation set as a protected set."""
    return f"{VALIDATION} of {consumer}"


def is_validation(protected: str) -> bool:
    """Check whether a protected set is a consumer's validation set."""
    return protected.startswith(f"{VALIDATION} of ")


_RELATIONS: frozenset[str] = frozenset(get_args(Relation))


@dataclass(frozen=True)
class Disclosure:
    """Record of one release: the data set that it is about, the observer, and the event.

    Raises:
        ConfigError: on construction, for a value out of its range or an event under another relation.
    """

    run: str
    round: int
    """Number of the round; 0 before the first round."""
    protected: str
    """The data set: an owner's name, OWNERS, or the name that `validation_of` gives a consumer's set."""
    observer: str
    """Party that learns of the data set: CURATOR, OWNERS, or the name of a consumer."""
    event: Event
    relation: Relation
    sensitivity: float | None
    """Sensitivity of the query in its own units, under the relation; None where nothing is measured."""
    nonce: str
    """Tells equal disclosures apart; a replay of the same bytes has the same nonce."""
    certain: bool = field(default=True, compare=False)
    """False where the writer cannot know whether the bytes left, since it was killed at that time.

    Such a disclosure costs the same and equals the other side's line. It is no fault if the other side has no
    such line.
    """
    colluders: int | None = None
    """T: the figure holds while at most T owners tell the observer all they know; an observing owner counts.

    None: the figure holds for any number, since no noise comes from owners.
    """

    def __post_init__(self) -> None:
        for name in (self.run, self.protected, self.observer, self.nonce):
            if not (isinstance(name, str) and name):
                raise _invalid("without a name")
        if type(self.round) is not int or self.round < 0:
            raise _invalid("with a round that is no count")
        if self.colluders is not None and (type(self.colluders) is not int or self.colluders < 0):
            raise _invalid("with colluders that are no count")
        if self.sensitivity is not None:
            if isinstance(self.sensitivity, str | bool) or not 0 < self.sensitivity < math.inf:
                raise _invalid("with a sensitivity that bounds nothing")
            object.__setattr__(self, "sensitivity", float(self.sensitivity))
        if self.relation not in _RELATIONS or not self.event.assumes <= {self.relation}:
            raise _invalid(f"under a relation that its event '{self.event.kind}' was not described under")

    def to_json(self) -> dict[str, Any]:
        """Plain values; `disclosure_from_json` reads them back."""
        plain = {name: getattr(self, name) for name in _FIELDS} | {"event": self.event.to_json()}
        if self.colluders is not None:
            plain["colluders"] = self.colluders
        return plain if self.certain else {"certain": False, **plain}

    def canonical(self) -> bytes:
        """The one ASCII form of this entry, to hash: JSON with sorted keys and no spaces."""
        # Written by hand: a party writes an entry for every row that leaves, and `json` takes three times as
        # long.
        doubt = "" if self.certain else '"certain":false,'
        helpers = "" if self.colluders is None else f'"colluders":{self.colluders},'
        return (
            f'{{{doubt}{helpers}"event":{_event_json(self.event)},"nonce":{_string_json(self.nonce)},"observer":{_string_json(self.observer)},'
            f'"protected":{_string_json(self.protected)},"relation":"{self.relation}","round":{self.round},'
            f'"run":{_string_json(self.run)},"sensitivity":{_number_json(self.sensitivity)}}}'
        ).encode("ascii")


_OPTIONAL = {"certain", "colluders"}
_FIELDS = tuple(entry.name for entry in fields(Disclosure) if entry.name not in _OPTIONAL)
"""Fields that every line has; the optional fields are left out at their defaults."""


def disclosure_from_json(plain: object) -> Disclosure:
    """Read what `Disclosure.to_json` wrote.

    Raises:
        ProtocolError: the entry is not one that `to_json` writes.
    """
    if not isinstance(plain, dict) or plain.keys() - _OPTIONAL != set(_FIELDS):
        raise unreadable("a disclosure with other fields than it has")
    if plain.get("certain", False) is not False or plain.get("colluders", 0) is None:
        raise unreadable("a disclosure that is spelled otherwise than a ledger spells it")
    event = event_from_json(plain["event"])
    try:
        return Disclosure(**(plain | {"event": event}))
    except (ConfigError, TypeError, OverflowError) as error:
        raise unreadable("a disclosure with a field out of its range") from error


def _invalid(how: str) -> ConfigError:
    cause = f"a disclosure is entered {how}"
    return ConfigError(cause, "Describe the mechanism under the relation of the run, in full.")
