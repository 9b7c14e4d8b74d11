"""Warnings, while a party runs, before its certificate, authority or list of revoked certificates ends.

A warning at the start alone is heard by nobody: a curator that runs for 76 days would go dark at day 90.
"""

import asyncio
import contextlib
import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cryptography import x509

from fedkme.errors import IdentityError
from fedkme.pki.certificates import ends_soon, expiry, name_of, now
from fedkme.pki.identity import Identity
from fedkme.pki.revocation import Revocation

DAY = datetime.timedelta(days=1)
LOOK_S = 60.0
"""Time between two looks at the clock; a machine that slept has a later one."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """End of something that must be renewed.

    Attributes:
        what: `certificate`, `authority` or `revocations`.
        name: its name for people.
        start: time from which it is valid.
        end: time until which it is valid.
        remedy: verb that renews it.
    """

    what: str
    name: str
    start: datetime.datetime
    end: datetime.datetime
    remedy: str

    @property
    def seconds(self) -> float:
        """Seconds until the end; negative afterwards."""
        return (self.end - now()).total_seconds()

    @property
    def due(self) -> bool:
        """Check whether it is time to renew: in the last 14 days, or third of a shorter life."""
        return ends_soon(self.start, self.end)

    def __str__(self) -> str:
        return f"{self.name} ends on {expiry(self.end)}: renew it ({self.remedy})"


Read = Callable[[], Iterable[Expiry]]
"""Function that reads the current expiry dates of a party's certificates and lists."""


def expiries(identity: Identity | None, revocation: Revocation | None = None) -> list[Expiry]:
    """Ends of a party's certificate, its authorities and its list of revoked certificates."""
    ends: list[Expiry] = []
    if identity is not None:
        leaf = identity.leaf
        name = f"the certificate of {name_of(leaf.subject)}"
        start, end = leaf.not_valid_before_utc, leaf.not_valid_after_utc
        ends.append(Expiry("certificate", name, start, end, "fedkme pki renew"))
        for authority in x509.load_pem_x509_certificates(identity.authority):
            name = f"the certificate of the authority {name_of(authority.subject)}"
            start, end = authority.not_valid_before_utc, authority.not_valid_after_utc
            ends.append(Expiry("authority", name, start, end, "docs/pki.md"))
    if revocation is not None:
        with contextlib.suppress(IdentityError):  # an unreadable list is refused, and reported, elsewhere
            start, end = revocation.validity()
            ends.append(
                Expiry("revocations", revocation.name, start, end, "fedkme pki revoke signs it again")
            )
    return ends


def warn_of_ends(say: Callable[..., None], ends: Iterable[Expiry]) -> None:
    """Report what must be renewed soon."""
    for each in ends:
        if each.due:
            say("warning", line=str(each))


@contextlib.contextmanager
def told_daily(say: Callable[..., None], read: Read) -> Iterator[None]:
    """Report soon-expiring certificates and lists each day, while the block is open; not at the start."""
    task = asyncio.ensure_future(_tell(say, read))
    try:
        yield
    finally:
        task.cancel()


async def _tell(say: Callable[..., None], read: Read) -> None:
    last = now()
    while True:
        await asyncio.sleep(LOOK_S)
        if now() - last >= DAY:
            last = now()
            warn_of_ends(say, read())
