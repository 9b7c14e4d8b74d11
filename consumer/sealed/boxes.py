"""The consumer's part of a run whose rows go sealed: keys before the offer, boxes after the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from consumer.sealed.keys import RunKeys
from fedkme.documents import RequestDocument
from fedkme.errors import FedkmeError, ProtocolError, SealedBoxError
from fedkme.exchange import Plan
from fedkme.pki.identity import Identity
from fedkme.sealed.group import Gift
from fedkme.sealed.rows import AnyRow, HashedRow, mismatched
from fedkme.sealed.secret_fourier import SecretFourier
from fedkme.tables.row import Row
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.wire import codecs


def give(
    plan: Plan,
    consumer: str,
    identity: Identity | None,
    warn: Callable[[str], None],
    simulation_seed: int | None,
) -> tuple[RunKeys, list[Gift]]:
    """Keys for a run whose rows go sealed, and its secret for each owner whose offer is its own.

    Raises:
        IdentityError: the curator passes on no owner's own keys.
    """

    def refused(owner: str, error: FedkmeError) -> None:
        warn(f"{owner} gets no secret and sends no rows: {error}")

    keys = RunKeys.fresh(consumer, plan.run, simulation_seed)
    return keys, keys.gifts(plan.offers, identity, refused)


def keys_for(plan: Plan, asked: RequestDocument | None) -> RunKeys | None:
    """Keys that open the rows of a run; None where rows come as they are.

    Raises:
        SealedBoxError: they come sealed, and the keys are not here.
    """
    if not plan.sealed:
        return None
    secrets = None if asked is None else asked.secrets
    if secrets is None or secrets[0].run != plan.run:
        raise SealedBoxError(
            f"the rows of {plan.run} are sealed, and their keys are not in this consumer's store",
            "Follow it with the 'journal' of the open request; keys go when the summary is written.",
        )
    return RunKeys(*secrets)


def opened(
    received: Sequence[AnyRow], schema: Schema, keys: RunKeys | None, h1: SecretFourier | None = None
) -> Table:
    """The rows of a summary as they came, or out of their boxes.

    Args:
        received: as the curator passed them on.
        schema: of the rows.
        keys: of the run; None where rows come as they are.
        h1: of the run, where the curator chose by hashes: each must be its row's.

    Raises:
        SealedBoxError: a box does not open, or holds another row than its hash says.
        ProtocolError: a row has another number of columns.
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
                raise SealedBoxError(
                    f"a sealed row of {keys.keys.run} is not the one that was chosen by its hash",
                    "An owner said one thing and sealed another; ask again without it.",
                )
    elif len(rows) < len(received):
        raise ProtocolError("the curator passes on sealed rows in a run that has none", "Ask again.")
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
