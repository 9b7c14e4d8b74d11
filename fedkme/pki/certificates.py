"""Reading of certificates: names, roles, hosts, fingerprints, expiry."""

import datetime
import ipaddress
import re
from collections.abc import Sequence
from enum import StrEnum

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID

from fedkme.errors import IdentityError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ROLE = "fedkme:role:"
"""Prefix of the alternative name that gives the role."""

MALFORMED = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)
"""Errors that a malformed or foreign certificate, request, list or key may cause, as it is read or later."""

WARN = datetime.timedelta(days=14)
"""Time before expiry at which warnings begin, for a certificate of a year; see `due`."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_HOST = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?)*"
)


class Role(StrEnum):
    """Role that a certificate allows its party."""

    OWNER = "owner"
    CURATOR = "curator"
    CONSUMER = "consumer"


def check_name(name: str) -> None:
    """Check that a name can be a party's.

    Raises:
        IdentityError: no party can have the name.
    """
    if not _NAME.fullmatch(name) or name in LOOPBACK:
        remedy = "Use lower-case letters, digits and hyphens, at most 63, and not 'localhost'."
        raise IdentityError(f"{name!r} cannot be a party's name", remedy)


def general_name(host: str) -> x509.GeneralName:
    """Turn a host name or address into an alternative name.

    Raises:
        IdentityError: the text is neither. A wildcard is refused: it would stand for unintended hosts.
    """
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST.fullmatch(host):
            cause = f"{host!r} is neither a host name nor an address"
            raise IdentityError(cause, "Give it without port and wildcard.") from None
        return x509.DNSName(host)


def alternative_names(certificate: x509.Certificate) -> Sequence[str]:
    """All alternative names in order, with the one that gives the role."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names)


def role_of(certificate: x509.Certificate) -> Role | None:
    """The role that a certificate names; None without one."""
    for name in alternative_names(certificate):
        if name.startswith(ROLE) and name.removeprefix(ROLE) in set(Role):
            return Role(name.removeprefix(ROLE))
    return None


def is_authority(certificate: x509.Certificate) -> bool:
    """Check whether a certificate may sign certificates and is self-signed."""
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
    """SHA-256 of the DER form as `openssl` writes it: 32 pairs of digits, separated by colons."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(public.public_bytes(serialization.Encoding.DER))
    return digest.finalize().hex(":").upper()


def same_fingerprint(given: str, ours: str) -> bool:
    """Check whether a typed fingerprint equals ours, with or without colons, spaces and prefix."""
    digits = re.sub(r"[\s:]", "", given.strip().upper().removeprefix("SHA256"))
    return digits == ours.replace(":", "")


def now() -> datetime.datetime:
    """The time by this machine's clock."""
    return datetime.datetime.now(datetime.UTC)


def expiry(end: datetime.datetime) -> str:
    """Expiry date, and the time left until then."""
    hours = (end - now()).total_seconds() / 3600
    remainder = (
        "expired" if hours < 0 else f"{hours:.0f} hours left" if hours < 48 else f"{hours / 24:.0f} days left"
    )
    return f"{end:%Y-%m-%d %H:%M} UTC ({remainder})"


def ends_soon(start: datetime.datetime, end: datetime.datetime) -> bool:
    """Check whether it is time to renew: in the last 14 days of a validity, or third of a shorter one."""
    return end - now() < min(WARN, (end - start) / 3)


def is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Check whether an authority signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (*MALFORMED, InvalidSignature):
        return False
    return True
