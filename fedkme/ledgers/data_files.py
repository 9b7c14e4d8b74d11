"""Files of data that a party's runs were over, and which of them are apart (docs/decisions/014).

A budget of the file in hand counts every run but those over files that are *apart* from it. Two files are
apart where the party declared it of one of them and no unit was in both: a row, or a person where the schema
names one. Nothing is apart by itself, so that a file that changes is no fresh budget.

**Relation**: one unit u is replaced by a unit v in every file that has u; sizes are public, and so is which
files are apart: both worlds keep to it. So v is in no file that is apart from one that had u. **Claim**: what
an observer learns of u over all runs costs no more than the budget that was checked before the last of them
over a file with u. *Proof.* Files without u are the same in both worlds, and runs over them are the same
mechanisms on equal inputs, whatever they were told before: they cost nothing, and compose with the rest as
such. Let G be the file of the last run over one with u. Every file with u shares u with G, so that none is
apart from G. The check before that run composed all runs over files that are not apart from G, among them
every one over a file with u. QED. Whether a run is let in then depends, as before, on plans and times alone,
and on what is apart, which is public. Windows, groups and budgets of several consumers choose among the runs
that are counted and are what they were.

What is kept of a file stays in the party's store: keyed hashes of its units, under a key of the store. It is
never sent, nor is how many units are shared ever said. Equal units have equal hashes, so none is missed; two
unequal ones of one hash (2^-64 a pair) only refuse.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import BudgetError, StoreError
from fedkme.store import Store
from fedkme.tables.files import Examined
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

Hashes = NDArray[np.uint64]

GOES_ON = "budgets count what was spent on other data than these, too: `fedkme doctor` compares them"
"""Line of a party whose file was changed."""
_KEY = "units-key"
_IN_HAND = "data-in-hand"
_FILE = "data/"
_UNITS = "units/"


@dataclass(frozen=True, slots=True)
class Units:
    """Rows or persons of a file.

    Attributes:
        data: digest of the file's table, by which runs name it.
        kind: what they are; those of two kinds cannot be compared.
        said: bytes of each.
    """

    data: bytes
    kind: str
    said: Sequence[bytes]


def units_of(found: Examined, schema: Schema) -> Units:
    """Units of a file that was read as private."""
    data = found.table.digest()
    if schema.person is not None:
        said = [person.encode("utf-8") for person in found.persons]
        return Units(data, f"persons {schema.person.column}", said)
    return Units(data, f"rows {schema.digest()}", list(_rows(found.table)))


def _rows(table: Table) -> Iterator[bytes]:
    """Numbers of each row in one spelling, whatever the type of the table; labels may be corrected."""
    with np.errstate(over="ignore"):
        numbers = table.values.astype("<f4") + np.float32(0.0)  # -0.0 becomes 0.0
    numbers[np.isnan(numbers)] = np.nan
    return (row.tobytes() for row in numbers)


@dataclass(frozen=True, slots=True)
class Compared:
    """Other files that runs were over, by what the file in hand has in common with them.

    Attributes:
        shared: those with a unit that it has too.
        apart: those without.
        unknown: those that cannot be compared.
    """

    shared: frozenset[bytes]
    apart: frozenset[bytes]
    unknown: frozenset[bytes]


class DataFiles:
    """Files of one party, in its store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def in_hand(self) -> bytes:
        """Digest of the file that was taken in hand last; empty before."""
        return self._store.get(_IN_HAND) or b""

    def take(self, units: Units, used: Collection[bytes]) -> list[str]:
        """Keep what a file has before runs are over it, and forget files that no run was over.

        Args:
            units: of the file.
            used: digests of files that runs were over.

        Returns:
            A line where its budgets count runs over other files, for the party's operator; else none.

        Raises:
            StoreError: it could not be kept.
        """
        with self._store.transaction():
            for key in self._store.keys(_UNITS):
                data = bytes.fromhex(key.removeprefix(_UNITS))
                if data != units.data and data not in used:
                    self._forget(data)
            self._keep(units)
            self._store.put(_IN_HAND, units.data)
        return [GOES_ON] if set(used) - {units.data} - self.apart(units.data) else []

    def apart(self, data: bytes) -> frozenset[bytes]:
        """Digests of the files that were declared apart from one.

        Raises:
            StoreError: a fact is not one that this release wrote.
        """
        files = (bytes.fromhex(key.removeprefix(_FILE)) for key in self._store.keys(_FILE))
        return self._apart_of(data) | {other for other in files if data in self._apart_of(other)}

    def compare(self, units: Units, used: Collection[bytes]) -> Compared:
        """Compare a file with others that runs were over.

        Raises:
            StoreError: the store cannot be read.
        """
        own = None
        groups: dict[str, set[bytes]] = {"shared": set(), "apart": set(), "unknown": set()}
        for data in set(used) - {units.data}:
            known, kept = self._read(data), self._store.get(_UNITS + data.hex())
            if known is None or kept is None or known[0] != units.kind:
                groups["unknown"].add(data)
                continue
            own = self._hashes(units.said) if own is None else own
            both = np.isin(np.frombuffer(kept, dtype="<u8"), own, assume_unique=True).any()
            groups["shared" if both else "apart"].add(data)
        return Compared(**{name: frozenset(group) for name, group in groups.items()})

    def begin_anew(self, party: str, units: Units, used: Collection[bytes], goes_on: bool = False) -> int:
        """Declare a file apart from those that runs were over.

        Args:
            party: whose it is, for errors.
            units: of the file.
            used: digests of the files that runs were over.
            goes_on: it may share units with some of them: it is then apart from the others alone.

        Returns:
            Number of files that it is apart from.

        Raises:
            BudgetError: it is apart from none, or shares a unit with one, or cannot be compared with one.
            StoreError: the store fails.
        """
        found = self.compare(units, used)
        if not found.apart | found.shared | found.unknown:
            raise BudgetError(
                f"no run of {party} was over other data", "Nothing begins anew; budgets are as they were."
            )
        if not goes_on:
            _refuse(party, found)
        elif not found.apart:
            raise BudgetError(
                f"the data of {party} are apart from no data that budgets were spent on",
                "Budgets go on: wait, or agree on larger ones.",
            )
        with self._store.transaction():
            self._keep(units)
            self._write(units.data, units.kind, self._apart_of(units.data) | found.apart)
        return len(found.apart)

    def _keep(self, units: Units) -> None:
        """Keep what a file has; one that has the rows of another, and other persons, is apart from none."""
        name, hashes, known = _UNITS + units.data.hex(), self._hashes(units.said), self._read(units.data)
        kept = np.frombuffer(self._store.get(name) or b"", dtype="<u8")
        if known is not None and known[0] == units.kind:
            if np.array_equal(hashes, kept):
                return
            hashes = np.union1d(hashes, kept)
        self._forget(units.data)
        self._write(units.data, units.kind, frozenset())
        self._store.put(name, hashes.tobytes())

    def _forget(self, data: bytes) -> None:
        for other in self.apart(data):
            if (known := self._read(other)) is not None:
                self._write(other, known[0], known[1] - {data})
        self._store.delete(_FILE + data.hex())
        self._store.delete(_UNITS + data.hex())

    def _write(self, data: bytes, kind: str, apart: frozenset[bytes]) -> None:
        plain = {"kind": kind, "apart": sorted(other.hex() for other in apart)}
        self._store.put(_FILE + data.hex(), json.dumps(plain).encode("ascii"))

    def _apart_of(self, data: bytes) -> frozenset[bytes]:
        known = self._read(data)
        return frozenset() if known is None else known[1]

    def _read(self, data: bytes) -> tuple[str, frozenset[bytes]] | None:
        """Kind of a file's units, and files that it was declared apart from."""
        if (fact := self._store.get(_FILE + data.hex())) is None:
            return None
        try:
            plain = json.loads(fact)
            return str(plain["kind"]), frozenset(map(bytes.fromhex, plain["apart"]))
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                "the store says of the data that runs were over what this release cannot read",
                "Use the release that wrote it, or a later one.",
            ) from None

    def _hashes(self, said: Iterable[bytes]) -> Hashes:
        """Different hashes of units, ascending; (n,) with n <= the number of units."""
        if (key := self._store.get(_KEY)) is None:
            self._store.put(_KEY, key := secrets.token_bytes(32))
        hashes = (hashlib.blake2b(unit, digest_size=8, key=key).digest() for unit in said)
        return np.unique(np.frombuffer(b"".join(hashes), dtype="<u8"))


def _refuse(party: str, found: Compared) -> None:
    unit = "a row or a person of its own"
    if found.shared:
        raise BudgetError(
            f"data that budgets of {party} were spent on have {unit} in common with these",
            "Budgets go on; --goes-on declares these apart from the data that share none.",
        )
    if found.unknown:
        raise BudgetError(
            f"the store of {party} cannot compare these with data that budgets were spent on: those are of "
            "another schema, or of an earlier release of fedkme",
            "Start once with the earlier file, where it fits this schema, or let budgets go on.",
        )
