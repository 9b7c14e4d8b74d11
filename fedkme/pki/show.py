"""Description of a file or folder of identities; never shows a key."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cryptography import x509

from fedkme.errors import PkiError
from fedkme.inputs import SMALL, read_bytes
from fedkme.pki.certificates import (
    MALFORMED,
    expiry,
    fingerprint,
    hosts_of,
    is_authority,
    name_of,
    role_of,
    serial_of,
)
from fedkme.pki.files import KEY, pem_blocks
from fedkme.pki.folder import AuthorityFolder
from fedkme.pki.identity import IDENTITY_FILES

_LABELS = ("CERTIFICATE", "CERTIFICATE REQUEST", "X509 CRL")
Facts = Mapping[str, str]
"""Facts of one certificate, request, key or list, by name."""
_STATE = "state"
"""Fact that only certificates in an authority's list have; each of these certificates takes one line."""


def show(path: Path) -> Iterator[Facts]:
    """Describe an authority's folder, an identity's folder, or any PEM file.

    Raises:
        PkiError: the path is none of these.
    """
    if (path / "issued").is_dir():
        yield from _authority(AuthorityFolder(path))
    elif path.is_dir():
        for name in IDENTITY_FILES:
            yield from _file(path / name)
    else:
        yield from _file(path)


def lines_of(things: Iterable[Facts]) -> Iterator[str]:
    """Facts as lines, with an empty line between things; a list's certificates take one line each."""
    before: Facts = {}
    for facts in things:
        if before and not (_STATE in before and _STATE in facts):
            yield ""
        if _STATE in facts:
            yield f"{facts['party']:<20}{facts['role']:<10}{facts['serial']:<42}{facts[_STATE]}"
        else:
            yield from (f"{name:<14}{value}" for name, value in facts.items())
        before = facts


def describe(certificate: x509.Certificate) -> Facts:
    """Facts of a certificate."""
    if is_authority(certificate):
        who = {"authority": name_of(certificate.subject)}
    else:
        who = {
            "party": name_of(certificate.subject),
            "role": str(role_of(certificate) or "none given"),
            "hosts": " ".join(hosts_of(certificate)) or "none: not a server",
            "issued by": name_of(certificate.issuer),
        }
    return who | {
        "expires": expiry(certificate.not_valid_after_utc),
        "serial": serial_of(certificate),
        "fingerprint": fingerprint(certificate),
    }


def describe_request(request: x509.CertificateSigningRequest) -> Facts:
    """Facts of a request."""
    return {"request of": name_of(request.subject), "fingerprint": fingerprint(request)}


def _authority(folder: AuthorityFolder) -> Iterator[Facts]:
    yield describe(folder.certificate)
    revoked = folder.revoked()
    yield _list(revoked)
    for certificate in folder.issued():
        taken = revoked.get_revoked_certificate_by_serial_number(certificate.serial_number)
        yield {
            "party": name_of(certificate.subject),
            "role": str(role_of(certificate) or "-"),
            "serial": serial_of(certificate),
            _STATE: "revoked" if taken else expiry(certificate.not_valid_after_utc),
        }


def _list(revoked: x509.CertificateRevocationList) -> Facts:
    facts = {"revocations": f"{len(list(revoked))} by {name_of(revoked.issuer)}"}
    if revoked.next_update_utc is not None:
        facts["list expires"] = expiry(revoked.next_update_utc)
    return facts


def _file(path: Path) -> Iterator[Facts]:
    try:
        blocks = pem_blocks(read_bytes(path, SMALL))
        if not any(label in _LABELS or label.endswith(KEY) for label, _ in blocks):
            raise ValueError
        for label, block in blocks:
            if label == "CERTIFICATE":
                yield describe(x509.load_pem_x509_certificate(block))
            elif label == "CERTIFICATE REQUEST":
                yield describe_request(x509.load_pem_x509_csr(block))
            elif label == "X509 CRL":
                yield _list(x509.load_pem_x509_crl(block))
            elif label.endswith(KEY):
                yield {"private key": "(not shown)"}
    except OSError as error:
        raise PkiError(f"{path} cannot be read: {error.strerror}", "Check the path.") from None
    except MALFORMED:
        raise PkiError(f"{path} holds no PEM that can be read", "Name a file of `fedkme pki`.") from None
