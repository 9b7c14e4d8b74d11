"""Description of a file or folder of identities, line by line; of a key only that it is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cryptography import x509

from fedkme.errors import PkiError
from fedkme.pki.certificates import (
    expiry,
    fingerprint,
    hosts_of,
    is_authority,
    name_of,
    role_of,
    serial_of,
)
from fedkme.pki.files import pem_blocks
from fedkme.pki.folder import AuthorityFolder

_IDENTITY = ("certificate.pem", "key.pem", "authority.pem")


def show(path: Path) -> Iterator[str]:
    """Describe an authority's folder, an identity's folder, or any file of PEM.

    Raises:
        PkiError: there is nothing of that kind.
    """
    if (path / "issued").is_dir():
        yield from _authority(AuthorityFolder(path))
    elif path.is_dir():
        for name in _IDENTITY:
            yield from _file(path / name)
    else:
        yield from _file(path)


def describe(certificate: x509.Certificate) -> Iterator[str]:
    """A certificate in lines."""
    if is_authority(certificate):
        yield f"authority     {name_of(certificate.subject)}"
    else:
        yield f"party         {name_of(certificate.subject)}"
        yield f"role          {role_of(certificate) or 'none given'}"
        yield f"hosts         {' '.join(hosts_of(certificate)) or 'none: not a server'}"
        yield f"issued by     {name_of(certificate.issuer)}"
    yield f"expires       {expiry(certificate.not_valid_after_utc)}"
    yield f"serial        {serial_of(certificate)}"
    yield f"fingerprint   {fingerprint(certificate)}"


def describe_request(request: x509.CertificateSigningRequest) -> Iterator[str]:
    """A request in lines."""
    yield f"request of    {name_of(request.subject)}"
    yield f"fingerprint   {fingerprint(request)}"


def _authority(folder: AuthorityFolder) -> Iterator[str]:
    yield from describe(folder.certificate)
    yield ""
    revoked = folder.revoked()
    yield from _list(revoked)
    yield ""
    for certificate in folder.issued():
        taken = revoked.get_revoked_certificate_by_serial_number(certificate.serial_number)
        state = "revoked" if taken else expiry(certificate.not_valid_after_utc)
        yield (
            f"{name_of(certificate.subject):<20}{role_of(certificate) or '-':<10}"
            f"{serial_of(certificate):<42}{state}"
        )


def _list(revoked: x509.CertificateRevocationList) -> Iterator[str]:
    yield f"revocations   {len(list(revoked))} by {name_of(revoked.issuer)}"
    if revoked.next_update_utc is not None:
        yield f"list expires  {expiry(revoked.next_update_utc)}"


def _file(path: Path) -> Iterator[str]:
    try:
        blocks = pem_blocks(path.read_bytes())
        if not blocks:
            raise ValueError
        for number, (label, block) in enumerate(blocks):
            if number:
                yield ""
            if label == "CERTIFICATE":
                yield from describe(x509.load_pem_x509_certificate(block))
            elif label == "CERTIFICATE REQUEST":
                yield from describe_request(x509.load_pem_x509_csr(block))
            elif label == "X509 CRL":
                yield from _list(x509.load_pem_x509_crl(block))
            elif label.endswith("PRIVATE KEY"):
                yield "private key   (not shown)"
    except OSError as error:
        raise PkiError(f"{path} cannot be read: {error.strerror}", "Check the path.") from None
    except ValueError:
        raise PkiError(f"{path} holds no PEM that can be read", "Name a file of `fedkme pki`.") from None
