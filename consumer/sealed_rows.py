"""The consumer's part of a run with sealed rows: makes keys before the offer, opens boxes after the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from fedkme.documents import RequestDocument
from fedkme.errors import FedkmeError, IdentityError, ProtocolError, SealedBoxError
from fedkme.exchange import Plan
from fedkme.features.fixed_point import Features
from fedkme.features.fourier import FourierSpec
from fedkme.features.hashes import REFERENCE_HASHES
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.sealed.group import Gift, GroupSecret, SecretGiver
from fedkme.sealed.offers import KeyOffer, OfferCheck, PartyKeys, certified, taken_at_their_word
from fedkme.sealed.rows import AnyRow, HashedRow, mismatched, open_rows
from fedkme.sealed.secret_fourier import SecretFourier
from fedkme.tables.schema import Schema
from fedkme.tables.table import Row, Table
from fedkme.wire import codecs
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
        giver = SecretGiver(self.keys, identity, check, secret=self.secret)
        gifts: list[Gift] = []
        for offer in offers:
            try:
                gifts.append(giver.give(offer))
            except FedkmeError as error:
                refused(offer.name, error)
        giver.close()
        if not gifts:
            cause = f"no owner of {self.keys.run} offers keys that are its own"
            raise IdentityError(cause, "The curator may have put its own in their place: ask the owners.")
        return gifts

    def open(self, sealed: Sequence[HashedRow]) -> list[Row]:
        """Open boxes; empty boxes give no row.

        Raises:
            SealedBoxError: a box was altered, moved or made up, or came twice.
        """
        if len({row.box for row in sealed}) < len(sealed):
            cause = f"a sealed row of {self.keys.run} came twice"
            raise SealedBoxError(cause, "The curator repeated it; ask the owners.")
        return [row for row in open_rows(sealed, self.keys.opener, self.secret) if len(row.values)]


def keys_for(plan: Plan, document: RequestDocument | None) -> RunKeys | None:
    """Take the keys that open a run's rows from its request; None if rows are not sealed.

    Raises:
        SealedBoxError: rows are sealed, and the request has no keys.
    """
    if not plan.sealed:
        return None
    secrets = None if document is None else document.secrets
    if secrets is None or secrets[0].run != plan.run:
        cause = f"the rows of {plan.run} are sealed, and their keys are not in this consumer's store"
        remedy = "Follow it with the 'journal' of the open request; keys go when the summary is written."
        raise SealedBoxError(cause, remedy)
    return RunKeys(*secrets)


def opened(
    received: Sequence[AnyRow], schema: Schema, keys: RunKeys | None, h1: SecretFourier | None = None
) -> Table:
    """Make the table of a summary from received rows, opening boxes.

    Args:
        received: rows or boxes, as the curator passed them on.
        schema: schema of the rows.
        keys: the run's keys; None if rows are not sealed.
        h1: the run's feature map, if the curator chose by hashes: each hash must be its row's.

    Raises:
        SealedBoxError: a box does not open, or holds another row than its hash says.
        ProtocolError: a row has a wrong number of columns.
        DataError: a row does not follow the schema.
    """
    rows = [row for row in received if isinstance(row, Row)]
    if keys is not None:
        sealed = [row for row in received if isinstance(row, HashedRow)]
        rows = keys.open(sealed)
        if h1 is not None:
            codecs.values_of(rows, schema.width)
            odd = len(rows) < len(sealed) or any(len(row.features) != h1.spec.dimension for row in sealed)
            if odd or mismatched(rows, sealed, schema, h1):
                cause = f"a sealed row of {keys.keys.run} is not the one that was chosen by its hash"
                remedy = "An owner hashed one row and sealed another; ask again without this owner."
                raise SealedBoxError(cause, remedy)
    elif len(rows) < len(received):
        raise ProtocolError("the curator passes on sealed rows in a run without sealed rows", "Ask again.")
    return _table(rows, schema)


def _table(rows: list[Row], schema: Schema) -> Table:
    values = codecs.values_of(rows, schema.width)
    labels: list[int] = [row.label for row in rows if row.label is not None]
    labelled: NDArray[np.int64] | None = (
        np.array(labels, dtype=np.int64) if rows and len(labels) == len(rows) else None
    )
    table = Table(values, labelled)
    schema.check(table, "the summary")
    return table
