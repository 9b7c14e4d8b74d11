"""Register of party names: ledgers tell parties apart by name alone, so no two roles share a name."""

from __future__ import annotations

from collections.abc import Iterable

from fedkme.errors import IdentityError
from fedkme.party import fault_of_name


class NameRegister:
    """Names of owners and of consumers: from the settings, and of parties that joined since the start."""

    def __init__(self, owners: Iterable[str] = (), consumers: Iterable[str] = ()) -> None:
        self._owners = set(owners)
        self._consumers = set(consumers)

    def admit_owner(self, name: str) -> None:
        """Register a name as an owner's.

        Raises:
            IdentityError: the name is not a valid owner's name, or a consumer has it.
        """
        _check(fault_of_name(name, "owner"))
        if name in self._consumers:
            raise IdentityError(f"{name!r} is the name of a consumer", "Rename one of the two.")
        self._owners.add(name)

    def admit_consumer(self, name: str) -> None:
        """Register a name as a consumer's.

        Raises:
            IdentityError: the name is not a valid consumer's name, or an owner has it.
        """
        _check(fault_of_name(name, "consumer"))
        if name in self._owners:
            raise IdentityError(f"{name!r} is the name of an owner", "Rename one of the two.")
        self._consumers.add(name)


def _check(fault: str) -> None:
    if fault:
        raise IdentityError(fault, "Choose another name, with a certificate of that name.")
