"""The consumer's keys of one run with sealed rows: gives owners the secret, and opens boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from fedkme.errors import FedkmeError, IdentityError, SealedBoxError
from fedkme.features.fixed_point import Features
from fedkme.features.fourier import FourierSpec
from fedkme.features.hashes import REFERENCE_HASHES
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.sealed.group import Gift, GroupSecret, SecretGiver
from fedkme.sealed.offers import KeyOffer, OfferCheck, PartyKeys, certified, taken_at_their_word
from fedkme.sealed.rows import HashedRow, open_rows
from fedkme.sealed.secret_fourier import SecretFourier
from fedkme.tables.schema import Schema
from fedkme.tables.table import Row
from fedkme.wire.codecs import secret_draw_of


@dataclass(frozen=True, slots=True)
class RunKeys:
    """Secrets of a run that only this consumer knows."""

    keys: PartyKeys
    secret: GroupSecret

    @property
    def secrets(self) -> tuple[PartyKeys, GroupSecret]:
        """Both keys and secret, for the open request."""
        return self.keys, self.secret

    @staticmethod
    def fresh(consumer: str, run: str, simulation_seed: int | None = None) -> RunKeys:
        """Make the keys of a new run. A simulation's secret comes from its seed and hides nothing."""
        secret = GroupSecret.fresh(run)
        if simulation_seed is not None:
            secret = GroupSecret(run, sha256(f"group secret/{simulation_seed}".encode()).digest())
        return RunKeys(PartyKeys.fresh(consumer, run), secret)

    def draw(self, public: FourierSpec) -> SecretFourier:
        """Draw the run's secret h1, with the sizes of a public draw.

        Raises:
            ProtocolError: the draw would be too large.
        """
        return SecretFourier(secret_draw_of(public, self.secret.commitment()), self.secret)

    def reference(self, h1: SecretFourier, schema: Schema) -> Features:
        """Compute h1 of uniform rows, (r, d); only holders of the secret know the rows and could fit h1."""
        seed = np.frombuffer(self.secret.derive(b"reference rows"), dtype="<u4").tolist()
        generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(seed)))
        uniform = generator.random((REFERENCE_HASHES, schema.encoded_width))
        return h1.fixed_point(schema.encode(schema.decode(uniform)))

    def gifts(
        self,
        offers: Sequence[KeyOffer],
        identity: Identity | None,
        refused: Callable[[str, FedkmeError], None],
    ) -> list[Gift]:
        """Seal the group secret for every owner whose keys are genuine.

        Args:
            offers: owners' keys, as the curator passed them on.
            identity: this consumer's identity; None in plaintext, where names are believed.
            refused: receives each owner that gets no secret, with the error.

        Raises:
            IdentityError: no owner's keys are genuine.
        """
        check: OfferCheck = taken_at_their_word
        if identity is not None:
            check = certified(identity.authority, self.keys.run, {Role.OWNER})
        giver = SecretGiver(self.keys, identity, check, None, secret=self.secret)
        gifts: list[Gift] = []
        for offer in offers:
            try:
                gifts.append(giver.give(offer))
            except FedkmeError as error:
                refused(offer.name, error)
        giver.close()
        if not gifts:
            raise IdentityError(
                f"no owner of {self.keys.run} offers keys that are its own",
                "The curator may have put its own in their place: ask the owners.",
            )
        return gifts

    def open(self, sealed: Sequence[HashedRow]) -> list[Row]:
        """Open boxes; empty boxes give no row.

        Raises:
            SealedBoxError: a box was altered, moved or made up, or came twice.
        """
        if len({row.box for row in sealed}) < len(sealed):
            raise SealedBoxError(
                f"a sealed row of {self.keys.run} came twice", "The curator repeated it; ask the owners."
            )
        return [row for row in open_rows(sealed, self.keys.opener, self.secret) if len(row.values)]
