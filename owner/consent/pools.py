"""Pools: the rows that a run may have, drawn before anything is computed from rows.

`most_rows_per_run = L` lets a run have at most L rows, and `most_rows = M` offers at most M rows to all runs
together. Limits are read when a run begins and never after: the run computes everything from its pool, as if
the owner had no other rows. So no answer is refused because of a limit, and the rows that leave are bounded
by construction (docs/decisions/014).

**Claim:** with limits, every statement about replaced rows holds as it does without limits, for any
mechanism. *Proof.* The number of offered rows is a function of the policy, of sizes of files and of how often
the file was exchanged; the choice of rows depends on coins besides. Rows' values are never read. So the coins
have the same distribution for two neighbours. Fix the coins: then every run gets the same places of the file.
If the replaced row is in none of the pools, both worlds are equal in all that leaves. Otherwise, in each run
whose pool has the row, the tables are neighbours of the same size. Either way the mechanism's own statement
holds for the whole composition; and a bound on P - e^eps P' that holds for all coins holds for their mean.
QED. A row that may be outside the pool is not claimed to cost less.

Offered rows count, not sent rows: how many rows of its pool a run takes depends on rows. So a limit lowered
below the number of offered rows lets no further row out, and an owner without limits has offered all its
rows.
"""

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
    """Sizes of one run's pool.

    Attributes:
        offered: number of the file's rows that all runs may draw from.
        rows: number of offered rows that this run may have.
    """

    offered: int
    rows: int


class RowPools:
    """Pools from one data file, within the limits of the owner's policy."""

    def __init__(
        self, store: Store, data: bytes, rows: int, noise: NoiseSource, settings: PolicySettings
    ) -> None:
        """Create the pools of one file.

        Args:
            store: stores the number of offered rows, by file.
            data: digest of the file's rows.
            rows: number of the file's rows.
            noise: draws the secret that orders the rows, once for each file.
            settings: `[policy]`.
        """
        self._store = store
        self._key = f"{_OFFERED}{data.hex()}"
        self._rows = rows
        self._noise = noise
        self._settings = settings

    @property
    def most(self) -> int:
        """Most rows that a run may have, by the file's size and the policy alone: the public m_j."""
        limits = (self._settings.most_rows, self._settings.most_rows_per_run)
        return min([self._rows, *(limit for limit in limits if limit is not None)])

    def next(self, before: int) -> PoolSize:
        """Size of the pool that a run would get now; stores nothing.

        Args:
            before: rows sent under releases of fedkme that drew no pools.

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
            cause = "0 rows may leave in one run"
            raise BudgetError(cause, "The owner decides whether 'most_rows_per_run' may be larger.")
        return PoolSize(offered, offered if most_per_run is None else min(offered, most_per_run))

    def draw(self, run: str, pool: PoolSize) -> IntArray | None:
        """Draw the pool of an admitted run, the same rows each time.

        Returns:
            Places of the rows in the file, ascending, (pool.rows,); None for all rows.
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
        """Tie-break constants in a run, for all rows of the file, (rows,)."""
        _, secret = self._fact()
        return tie_breaks(secret, run, self._rows)

    def _fact(self) -> tuple[int, bytes]:
        """Number of offered rows, and the file's secret, drawn and stored at the first call."""
        if (fact := self._store.get(self._key)) is None:
            fact = self._keep(0, self._noise.uniform(4).tobytes())
        return _read(fact)

    def _keep(self, rows: int, secret: bytes) -> bytes:
        fact = json.dumps({"rows": rows, "secret": secret.hex()}).encode("ascii")
        self._store.put(self._key, fact)
        return fact


def offered_rows(store: Store) -> dict[str, int]:
    """Number of offered rows, by file.

    Raises:
        StoreError: this release cannot read a fact.
    """
    return {key: _read(store.get(key) or b"")[0] for key in store.keys(_OFFERED)}


def tie_breaks(secret: bytes, run: str, rows: int) -> NDArray[np.float64]:
    """Tie-break constants for `rows` rows in a run, (rows,): a function of the secret, not of the rows."""
    return constants_of(_keys(secret, f"ties {run}", rows))


def _read(fact: bytes) -> tuple[int, bytes]:
    try:
        plain = json.loads(fact)
        return int(plain["rows"]), bytes.fromhex(plain["secret"])
    except (ValueError, KeyError, TypeError):
        cause = "a store has a record of offered rows that this release cannot read"
        raise StoreError(cause, "Use the release that wrote it, or a later one.") from None


def _keys(secret: bytes, purpose: str, rows: int) -> NDArray[np.uint64]:
    """Keys of a secret order of rows, (rows,): equal under every version of every library."""
    return np.frombuffer(hashlib.shake_256(secret + purpose.encode()).digest(8 * rows), dtype="<u8")
