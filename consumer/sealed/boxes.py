"""The consumer's part of a run with sealed rows: makes keys before the offer, opens boxes after the run."""

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
from fedkme.tables.schema import Schema
from fedkme.tables.table import Row, Table
from fedkme.wire import codecs


def give(
    plan: Plan,
    consumer: str,
    identity: Identity | None,
    warn: Callable[[str], None],
    simulation_seed: int | None,
) -> tuple[RunKeys, list[Gift]]:
    """Make the keys of a run with sealed rows, and its secret's gift for each owner with genuine keys.

    Raises:
        IdentityError: the curator passed on no genuine keys.
    """

    def refused(owner: str, error: FedkmeError) -> None:
        warn(f"{owner} gets no secret and sends no rows: {error}")

    keys = RunKeys.fresh(consumer, plan.run, simulation_seed)
    return keys, keys.gifts(plan.offers, identity, refused)


def keys_for(plan: Plan, document: RequestDocument | None) -> RunKeys | None:
    """Take the keys that open a run's rows from its request; None if rows are not sealed.

    Raises:
        SealedBoxError: rows are sealed, and the request has no keys.
    """
    if not plan.sealed:
        return None
    secrets = None if document is None else document.secrets
    if secrets is None or secrets[0].run != plan.run:
        raise SealedBoxError(
            f"the rows of {plan.run} are sealed, and their keys are not in this consumer's store",
            "Follow it with the 'journal' of the open request; keys go when the summary is written.",
        )
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
                raise SealedBoxError(
                    f"a sealed row of {keys.keys.run} is not the one that was chosen by its hash",
                    "An owner hashed one row and sealed another; ask again without this owner.",
                )
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
