"""Rows that may leave an owner: pools that are drawn before anything is computed from rows.

`most_rows_per_run = L` lets a run have at most L rows, and `most_rows = M` offers at most M rows to all runs
together. Neither is looked at again once a run has begun: what a run computes of rows, it computes of its
pool, as if the owner had no others. So no answer is refused because of a limit, and the rows that leave are
bounded by construction (docs/decisions/014).

**Claim** with limits every statement about replaced rows holds as without them, for any mechanism. *Proof.*
How many rows are offered is a function of the policy, of sizes of files and of how often the file was
exchanged; which rows, of coins besides. Rows' values are nowhere read. So the coins are drawn alike for two
neighbours. Fix them: then the same places of the file are offered, in every run. The replaced row is in none
of these pools, and both worlds are equal in all that leaves; or it is in some, and in each run of those the
tables are neighbours, of one size. Either way the mechanism's own statement holds, for the whole of what is
composed; and a bound on P - e^eps P' that holds for all coins holds for their mean. QED. That a row may be
outside is not claimed to cost less.

Offered counts, not sent: how many rows a run takes of its pool depends on rows. So a limit that is lowered
below what was offered lets no row out any more, and an owner without limits has offered all its rows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import IntArray
from fedkme.embeddings.tie_breaks import constants_of
from fedkme.errors import BudgetError, StoreError
from fedkme.privacy.noise import NoiseSource
from fedkme.store import Store
from owner.settings import PolicySettings

_OFFERED = "offered/"


@dataclass(frozen=True, slots=True)
class PoolSize:
    """Sizes that were agreed for one run.

    Attributes:
        offered: rows of the file that all runs may draw from.
        rows: those of them that this run may.
    """

    offered: int
    rows: int


class RowPools:
    """Rows of one file that runs may have, as the owner's policy limits them."""

    def __init__(
        self, store: Store, data: bytes, rows: int, noise: NoiseSource, settings: PolicySettings
    ) -> None:
        """Take the file that is offered from now on.

        Args:
            store: keeps what was offered, by file.
            data: digest of the file's rows.
            rows: how many they are.
            noise: draws the secret that orders them, once for each file.
            settings: `[policy]`.
        """
        self._store = store
        self._key = f"{_OFFERED}{data.hex()}"
        self._rows = rows
        self._noise = noise
        self._settings = settings

    @property
    def most(self) -> int:
        """Rows that a run may have at most, by the file's size and the policy alone: m_j, as it is public."""
        limits = (self._settings.most_rows, self._settings.most_rows_per_run)
        return min([self._rows, *(limit for limit in limits if limit is not None)])

    def next(self, before: int) -> PoolSize:
        """Size of the pool that a run would get now; nothing is kept of it.

        Args:
            before: rows that left by releases of fedkme that kept no pools.

        Raises:
            BudgetError: a limit leaves no row to offer.
        """
        most, most_per_run = self._settings.most_rows, self._settings.most_rows_per_run
        offered = self._rows
        if most is not None:
            facts = offered_rows(self._store)
            used, own = before + sum(facts.values()), facts.get(self._key, 0)
            offered = min(self._rows, most - used + own)
            if offered < max(own, min(1, self._rows)):
                raise BudgetError(
                    f"{used} of {most} rows that may leave in all were offered before",
                    "The owner decides whether 'most_rows' may be larger; offered rows count, not sent ones.",
                )
        if most_per_run == 0:
            raise BudgetError(
                "0 rows may leave in one run", "The owner decides whether 'most_rows_per_run' may be larger."
            )
        return PoolSize(offered, offered if most_per_run is None else min(offered, most_per_run))

    def draw(self, run: str, pool: PoolSize) -> IntArray | None:
        """Offer the rows of a run that was let in, the same ones each time.

        Returns:
            Their places in the file, ascending, (pool.rows,); None for all of them.
        """
        rows, secret = self._fact()
        if rows < pool.offered:
            self._keep(pool.offered, secret)
        if pool.rows >= self._rows:
            return None
        offered = np.argsort(_keys(secret, "file", self._rows), kind="stable")[: pool.offered]
        chosen = np.argsort(_keys(secret, f"run {run}", self._rows)[offered], kind="stable")
        places: IntArray = np.sort(offered[chosen[: pool.rows]])
        return places

    def tie_breaks(self, run: str) -> NDArray[np.float64]:
        """Constants that break ties between rows in a run, of all rows of the file, (rows,)."""
        _, secret = self._fact()
        return tie_breaks(secret, run, self._rows)

    def _fact(self) -> tuple[int, bytes]:
        """Rows of the file that were offered, and its secret, which is drawn and kept once."""
        if (fact := self._store.get(self._key)) is None:
            fact = self._keep(0, self._noise.uniform(4).tobytes())
        return _read(fact)

    def _keep(self, rows: int, secret: bytes) -> bytes:
        fact = json.dumps({"rows": rows, "secret": secret.hex()}).encode("ascii")
        self._store.put(self._key, fact)
        return fact


def offered_rows(store: Store) -> dict[str, int]:
    """Rows that were offered, by file.

    Raises:
        StoreError: a fact is not one that this release wrote.
    """
    return {key: _read(store.get(key) or b"")[0] for key in store.keys(_OFFERED)}


def tie_breaks(secret: bytes, run: str, rows: int) -> NDArray[np.float64]:
    """Constants that break ties between `rows` rows in a run, (rows,): the secret's, whatever rows hold."""
    return constants_of(_keys(secret, f"ties {run}", rows))


def _read(fact: bytes) -> tuple[int, bytes]:
    try:
        plain = json.loads(fact)
        return int(plain["rows"]), bytes.fromhex(plain["secret"])
    except (ValueError, KeyError, TypeError):
        raise StoreError(
            "a store says of offered rows what this release cannot read",
            "Use the release that wrote it, or a later one.",
        ) from None


def _keys(secret: bytes, purpose: str, rows: int) -> NDArray[np.uint64]:
    """Keys of a secret order of rows, (rows,): the same with every release of every library."""
    return np.frombuffer(hashlib.shake_256(secret + purpose.encode()).digest(8 * rows), dtype="<u8")
