"""An owner's keys for runs whose rows go sealed through the curator. The keys live in this process alone.

An owner offers keys before a run has a plan, and takes the group secret when the run begins. A process that
is started again has other keys: a gift for the old ones does not open, and the owner leaves that run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fedkme.errors import SealedBoxError
from fedkme.features.fixed_point import Features
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Invitation
from fedkme.protocols import is_sealed
from fedkme.sealed.group import Gift, GroupSecret, SecretTaker
from fedkme.sealed.offers import KeyOffer, OfferCheck, PartyKeys, certified, taken_at_their_word
from fedkme.sealed.rows import HashedRow, seal_empty, seal_rows, without_hashes
from fedkme.tables.schema import Schema
from fedkme.tables.table import Row, Table
from owner.consent.gate import OwnerGate

MOST_OFFERS_OPEN = 64
"""Runs whose keys still wait for a gift; beyond this many the oldest are forgotten."""


@dataclass(frozen=True)
class Sealer:
    """Keys that seal one run's rows: the group secret and the consumer's public key."""

    secret: GroupSecret = field(repr=False)
    recipient: bytes = field(repr=False)

    def seal(self, rows: Sequence[Row], features: Features | None = None) -> list[HashedRow]:
        """Seal each row in a box; `features`, if given, are h1 of the rows, in the open, (k, d)."""
        hashes = without_hashes(len(rows)) if features is None else features
        return seal_rows(rows, hashes, self.recipient, self.secret)

    def fill(self, tokens: Sequence[int], columns: int) -> list[HashedRow]:
        """Make boxes that hold no row, one per token."""
        return seal_empty(tokens, columns, self.recipient, self.secret)


def lost_keys(owner: str) -> SealedBoxError:
    """Make the error for a sealed run that another process of the owner began."""
    cause = f"{owner} was started again, and the keys that it sealed rows with are gone"
    return SealedBoxError(cause, "The run goes on without it; ask again for a run with it.")


@dataclass(eq=False, repr=False)
class KeyRing:
    """Keys of all runs for which this process offered some."""

    _name: str
    _identity: Callable[[], Identity | None] = lambda: None
    """Certificate and key of this owner; none in plaintext, where peers' names are believed."""
    _revoked: Callable[[bytes], None] | None = None
    """Refuses certificates (PEM) that were revoked."""
    _keys: dict[str, PartyKeys] = field(default_factory=dict)
    """Keys of each run, the oldest first."""

    def offer(self, run: str) -> KeyOffer:
        """Offer this owner's public keys for a run; the same keys until the run begins.

        Raises:
            IdentityError: the identity is another party's.
        """
        keys = self._keys.get(run)
        if keys is None:
            keys = self._keys[run] = PartyKeys.fresh(self._name, run)
            if len(self._keys) > MOST_OFFERS_OPEN:
                del self._keys[next(iter(self._keys))]
        return self._taker(keys, "").offer()

    def take(self, run: str, gift: Gift | None, consumer: str) -> Sealer:
        """Open the gift of a run that begins, and forget the run's keys.

        Raises:
            IdentityError: the gift is not from the consumer of the run.
            SealedBoxError: the gift is missing, or is for other keys or another run.
        """
        keys = self._keys.pop(run, None)
        if keys is None:
            cause = f"{self._name} has no keys for {run}: its process was started again, or never offered any"
            raise SealedBoxError(cause, "Ask again for a run; this one goes on without the owner.")
        if gift is None:
            cause = f"{self._name} is to seal rows in {run} and was given no secret for it"
            raise SealedBoxError(cause, "Look at the consumer's log: it says whose keys it did not take.")
        taker = self._taker(keys, consumer)
        taker.offer()
        return Sealer(taker.take(gift), gift.giver.box)

    def _taker(self, keys: PartyKeys, giver: str) -> SecretTaker:
        identity = self._identity()
        check: OfferCheck = taken_at_their_word
        if identity is not None:
            check = certified(identity.authority, keys.run, {Role.CONSUMER}, check=self._revoked)
        return SecretTaker(keys, identity, giver, check)


@dataclass(eq=False, repr=False)
class RowSender:
    """One owner's side of a run in which rows may leave, sealed or not."""

    name: str
    _table: Table
    _schema: Schema
    _noise: NoiseSource
    _gate: OwnerGate
    _keys: KeyRing | None = None

    def __post_init__(self) -> None:
        """Begin before the run's first directive.

        Raises:
            DataError: rows that do not follow the schema.
        """
        self._schema.check(self._table, self.name)
        self._offered = self._table
        self._sealer: Sealer | None = None

    def _sealer_of(self, invitation: Invitation) -> Sealer | None:
        """Keys of a run whose rows go sealed, before the policy decides: a failure uses up no approval."""
        if not is_sealed(invitation.protocol):
            return None
        return (self._keys or KeyRing(self.name)).take(invitation.run, invitation.gift, invitation.consumer)
