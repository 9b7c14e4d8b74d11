"""Names of parties at this curator: ledgers tell parties apart by their names alone."""

from __future__ import annotations

from collections.abc import Iterable

from fedkme.errors import IdentityError
from fedkme.party import fault_of_name


class NameRegister:
    """The names of owners and of consumers, from the settings and of whoever came since the curator began."""

    def __init__(self, owners: Iterable[str] = (), consumers: Iterable[str] = ()) -> None:
        self._owners = set(owners)
        self._consumers = set(consumers)

    def admit_owner(self, name: str) -> None:
        """Take a name for an owner.

        Raises:
            IdentityError: it is no name for one, or a consumer's.
        """
        _check(fault_of_name(name, "owner"))
        if name in self._consumers:
            raise IdentityError(f"{name!r} is the name of a consumer", "Rename one of the two.")
        self._owners.add(name)

    def admit_consumer(self, name: str) -> None:
        """Take a name for a consumer.

        Raises:
            IdentityError: it is no name for one, or an owner's.
        """
        _check(fault_of_name(name, "consumer"))
        if name in self._owners:
            raise IdentityError(f"{name!r} is the name of an owner", "Rename one of the two.")
        self._consumers.add(name)


def _check(fault: str) -> None:
    if fault:
        raise IdentityError(fault, "Choose another name, with a certificate of that name.")
