"""The consumer's keys of one run whose rows go sealed: it gives the secret, and opens the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedkme.errors import FedkmeError, IdentityError, SealedBoxError
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.protocol import Row
from fedkme.sealed import (
    Gift,
    GroupSecret,
    HashedRow,
    KeyOffer,
    OfferCheck,
    PartyKeys,
    SecretGiver,
    certified,
    open_rows,
    taken_at_their_word,
)


@dataclass(frozen=True, slots=True)
class RunKeys:
    """What only this consumer knows of a run."""

    keys: PartyKeys
    secret: GroupSecret

    @staticmethod
    def fresh(consumer: str, run: str) -> RunKeys:
        """For a new run."""
        return RunKeys(PartyKeys.fresh(consumer, run), GroupSecret.fresh(run))

    def gifts(
        self,
        offers: Sequence[KeyOffer],
        identity: Identity | None,
        refused: Callable[[str, FedkmeError], None],
    ) -> list[Gift]:
        """The group secret for every owner whose offer is its own.

        Args:
            offers: as the curator passed them on.
            identity: this consumer's; None in plaintext, where names are taken at their word.
            refused: told of each owner that gets none, and why.

        Raises:
            IdentityError: no offer is its owner's.
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
        """The rows in the boxes, without those that stand for none.

        Raises:
            SealedBoxError: one was altered, moved or made up, or is there twice.
        """
        if len({row.box for row in sealed}) < len(sealed):
            raise SealedBoxError(
                f"a sealed row of {self.keys.run} came twice", "The curator repeated it; ask the owners."
            )
        return [row for row in open_rows(sealed, self.keys.box, self.secret) if len(row.values)]
