"""Data files of a party's runs, and the relation *apart* between files (docs/decisions/014).

A budget of the current file counts every run but the runs over files that are *apart* from it. Two files are
apart if the party declared one of them apart from the other and no unit was in both: a unit is a row, or a
person where the schema names a person column. No two files are apart without a declaration, so a changed file
gets no fresh budget.

**Relation**: one unit u is replaced by a unit v in every file that has u. The sizes of files are public, and
so is the relation apart: both are the same in both worlds. So v is in no file that is apart from a file that
had u. **Claim**: what an observer learns of u over all runs costs no more than the budget that was checked
before the last run over a file with u. *Proof.* Files without u are the same in both worlds, and runs over
them are the same mechanisms on equal inputs, whatever the observer learned before: these runs cost nothing,
and compose with the others at no cost. Let G be the file of the last run over a file with u. Every file with
u shares u with G, so no such file is apart from G. The check before that run composed all runs over files
that are not apart from G, among them every run over a file with u. QED. Whether a run is admitted then
depends, as before, on plans and times alone, and on the relation apart, which is public. Windows, groups and
budgets of several consumers choose among the counted runs and do not change.

The party's store has keyed hashes of a file's units, under a key of the store. The hashes are never sent, and
neither is the number of shared units. Equal units have equal hashes, so no shared unit is missed; two unequal
units with the same hash (2^-64 a pair) only cause a refusal.
"""

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
"""Warning of a party whose file was changed."""
_KEY = "units-key"
_IN_HAND = "data-in-hand"
_FILE = "data/"
_UNITS = "units/"


@dataclass(frozen=True, slots=True)
class Units:
    """Rows or persons of a file.

    Attributes:
        data: digest of the file's table, by which runs name the file.
        kind: kind of the units; units of two kinds cannot be compared.
        values: bytes of each unit.
    """

    data: bytes
    kind: str
    values: Sequence[bytes]


def units_of(file: Examined, schema: Schema) -> Units:
    """Units of a private data file."""
    data = file.table.digest()
    if schema.person is not None:
        persons = [person.encode("utf-8") for person in file.persons]
        return Units(data, f"persons {schema.person.column}", persons)
    return Units(data, f"rows {schema.digest()}", list(_rows(file.table)))


def _rows(table: Table) -> Iterator[bytes]:
    """Canonical bytes of each row's numbers, equal for all table types; labels are left out."""
    with np.errstate(over="ignore"):
        numbers = table.values.astype("<f4") + np.float32(0.0)  # -0.0 becomes 0.0
    numbers[np.isnan(numbers)] = np.nan
    return (row.tobytes() for row in numbers)


@dataclass(frozen=True, slots=True)
class Compared:
    """Digests of earlier files, by whether they share a unit with the current file.

    Attributes:
        shared: files that share a unit with it.
        apart: files that share no unit with it.
        unknown: files that cannot be compared.
    """

    shared: frozenset[bytes]
    apart: frozenset[bytes]
    unknown: frozenset[bytes]


class DataFiles:
    """Records of one party's data files, in the party's store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def in_hand(self) -> bytes:
        """Digest of the current file; empty before the first `take`."""
        return self._store.get(_IN_HAND) or b""

    def take(self, units: Units, used: Collection[bytes]) -> list[str]:
        """Record a file before its first run, and forget files without runs.

        Args:
            units: units of the file.
            used: digests of files that had runs.

        Returns:
            A warning for the party's operator if the file's budgets count runs over other files; else none.

        Raises:
            StoreError: the store cannot be written.
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
        """Digests of the files that are apart from a file.

        Raises:
            StoreError: this release cannot read a fact in the store.
        """
        files = (bytes.fromhex(key.removeprefix(_FILE)) for key in self._store.keys(_FILE))
        return self._apart_of(data) | {other for other in files if data in self._apart_of(other)}

    def compare(self, units: Units, used: Collection[bytes]) -> Compared:
        """Compare a file with other files that had runs.

        Raises:
            StoreError: the store cannot be read.
        """
        own = None
        groups: dict[str, set[bytes]] = {"shared": set(), "apart": set(), "unknown": set()}
        for data in set(used) - {units.data}:
            fact, stored = self._read(data), self._store.get(_UNITS + data.hex())
            if fact is None or stored is None or fact[0] != units.kind:
                groups["unknown"].add(data)
                continue
            own = self._hashes(units.values) if own is None else own
            both = np.isin(np.frombuffer(stored, dtype="<u8"), own, assume_unique=True).any()
            groups["shared" if both else "apart"].add(data)
        return Compared(**{name: frozenset(group) for name, group in groups.items()})

    def begin_anew(self, party: str, units: Units, used: Collection[bytes], goes_on: bool = False) -> int:
        """Declare a file apart from files that had runs.

        Args:
            party: name of the party, for errors.
            units: units of the file.
            used: digests of the files that had runs.
            goes_on: allow that the file shares units with some of them; it is then apart from the others.

        Returns:
            Number of files that the file is apart from.

        Raises:
            BudgetError: the file is apart from no other; or, without `goes_on`, it shares a unit with another
                file or cannot be compared with one.
            StoreError: the store fails.
        """
        comparison = self.compare(units, used)
        if not comparison.apart | comparison.shared | comparison.unknown:
            cause = f"no run of {party} was over other data"
            raise BudgetError(cause, "Nothing begins anew; budgets are as they were.")
        if not goes_on:
            _refuse(party, comparison)
        elif not comparison.apart:
            cause = f"the data of {party} are apart from no data that budgets were spent on"
            raise BudgetError(cause, "Budgets go on: wait, or agree on larger ones.")
        with self._store.transaction():
            self._keep(units)
            self._write(units.data, units.kind, self._apart_of(units.data) | comparison.apart)
        return len(comparison.apart)

    def _keep(self, units: Units) -> None:
        """Record a file's units; a file with equal rows but other persons is apart from no file any more."""
        name, hashes, fact = _UNITS + units.data.hex(), self._hashes(units.values), self._read(units.data)
        earlier = np.frombuffer(self._store.get(name) or b"", dtype="<u8")
        if fact is not None and fact[0] == units.kind:
            if np.array_equal(hashes, earlier):
                return
            hashes = np.union1d(hashes, earlier)
        self._forget(units.data)
        self._write(units.data, units.kind, frozenset())
        self._store.put(name, hashes.tobytes())

    def _forget(self, data: bytes) -> None:
        for other in self.apart(data):
            if (fact := self._read(other)) is not None:
                self._write(other, fact[0], fact[1] - {data})
        self._store.delete(_FILE + data.hex())
        self._store.delete(_UNITS + data.hex())

    def _write(self, data: bytes, kind: str, apart: frozenset[bytes]) -> None:
        plain = {"kind": kind, "apart": sorted(other.hex() for other in apart)}
        self._store.put(_FILE + data.hex(), json.dumps(plain).encode("ascii"))

    def _apart_of(self, data: bytes) -> frozenset[bytes]:
        fact = self._read(data)
        return frozenset() if fact is None else fact[1]

    def _read(self, data: bytes) -> tuple[str, frozenset[bytes]] | None:
        """Kind of a file's units, and the files that it was declared apart from."""
        if (fact := self._store.get(_FILE + data.hex())) is None:
            return None
        try:
            plain = json.loads(fact)
            return str(plain["kind"]), frozenset(map(bytes.fromhex, plain["apart"]))
        except (ValueError, KeyError, TypeError):
            cause = "this release cannot read what the store records about earlier data files"
            raise StoreError(cause, "Use the release that wrote it, or a later one.") from None

    def _hashes(self, units: Iterable[bytes]) -> Hashes:
        """Distinct hashes of units, ascending; (n,) uint64 with n <= the number of units."""
        if (key := self._store.get(_KEY)) is None:
            self._store.put(_KEY, key := secrets.token_bytes(32))
        hashes = (hashlib.blake2b(unit, digest_size=8, key=key).digest() for unit in units)
        return np.unique(np.frombuffer(b"".join(hashes), dtype="<u8"))


def _refuse(party: str, comparison: Compared) -> None:
    unit = "a row or a person of its own"
    if comparison.shared:
        cause = f"data that budgets of {party} were spent on have {unit} in common with these"
        remedy = "Budgets go on; --goes-on declares these apart from the data that share none."
        raise BudgetError(cause, remedy)
    if comparison.unknown:
        raise BudgetError(
            f"the store of {party} cannot compare these with data that budgets were spent on: those are of "
            "another schema, or of an earlier release of fedkme",
            "Start once with the earlier file, where it fits this schema, or let budgets go on.",
        )
