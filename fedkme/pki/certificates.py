"""Contents of a certificate, in the words of this project."""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Sequence
from enum import StrEnum

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from fedkme.errors import IdentityError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ROLE = "fedkme:role:"
"""Begins the alternative name that says the role."""

WARN = datetime.timedelta(days=14)
"""Time before the end of a certificate of a year from which it is warned about; see `due`."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_HOST = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*"
)


class Role(StrEnum):
    """Role that a certificate lets its party act in."""

    OWNER = "owner"
    CURATOR = "curator"
    CONSUMER = "consumer"


def check_name(name: str) -> None:
    """Refuse what is no party's name.

    Raises:
        IdentityError: the name is not one that a party can have.
    """
    if not _NAME.fullmatch(name) or name in LOOPBACK:
        raise IdentityError(
            f"{name!r} cannot be a party's name",
            "Use lower-case letters, digits and hyphens, at most 63, and not 'localhost'.",
        )


def general_name(host: str) -> x509.GeneralName:
    """A host or address as an alternative name.

    Raises:
        IdentityError: it is neither; a wildcard is not, as it would stand for hosts nobody thought of.
    """
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST.fullmatch(host):
            raise IdentityError(
                f"{host!r} is neither a host name nor an address", "Give it without port and wildcard."
            ) from None
        return x509.DNSName(host)


def alternative_names(certificate: x509.Certificate) -> Sequence[str]:
    """All alternative names, the role's with them, in order."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names)


def role_of(certificate: x509.Certificate) -> Role | None:
    """The role; None for a certificate that names none."""
    for name in alternative_names(certificate):
        if name.startswith(ROLE) and name.removeprefix(ROLE) in set(Role):
            return Role(name.removeprefix(ROLE))
    return None


def is_authority(certificate: x509.Certificate) -> bool:
    """Check whether a certificate may sign certificates and is signed by itself."""
    try:
        signs = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False
    return signs and certificate.subject == certificate.issuer


def hosts_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """Hosts and addresses, without the party's name and role."""
    name = name_of(certificate.subject)
    return tuple(
        host for host in alternative_names(certificate) if not host.startswith(ROLE) and host != name
    )


def name_of(name: x509.Name) -> str:
    """The common name, fit for a terminal; empty without one."""
    for attribute in name.get_attributes_for_oid(NameOID.COMMON_NAME):
        return "".join(letter for letter in str(attribute.value) if letter.isprintable())
    return ""


def serial_of(certificate: x509.Certificate) -> str:
    """The serial number in hexadecimal digits."""
    return f"{certificate.serial_number:x}"


def fingerprint(public: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """SHA-256 of the DER form as `openssl` writes it: 32 pairs of digits with colons between."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(public.public_bytes(serialization.Encoding.DER))
    return digest.finalize().hex(":").upper()


def same_fingerprint(given: str, ours: str) -> bool:
    """Check whether a typed fingerprint is this one, with or without colons, spaces and prefix."""
    digits = re.sub(r"[\s:]", "", given.strip().upper().removeprefix("SHA256"))
    return digits == ours.replace(":", "")


def now() -> datetime.datetime:
    """The time by this machine's clock."""
    return datetime.datetime.now(datetime.UTC)


def expiry(end: datetime.datetime) -> str:
    """A date, and how far it is."""
    hours = (end - now()).total_seconds() / 3600
    left = (
        "expired" if hours < 0 else f"{hours:.0f} hours left" if hours < 48 else f"{hours / 24:.0f} days left"
    )
    return f"{end:%Y-%m-%d %H:%M} UTC ({left})"


def due(certificate: x509.Certificate) -> bool:
    """Check whether it is time to renew: in the last 14 days, or third of a shorter life."""
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return end - now() < min(WARN, (end - start) / 3)


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Check whether an authority signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True
