"""Revocation lists, signed by authorities and read again when their file changes."""

import datetime
import threading
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPublicKeyTypes
from cryptography.x509 import CertificateRevocationList

from fedkme.errors import IdentityError
from fedkme.inputs import SMALL, read_bytes
from fedkme.pki.certificates import MALFORMED, ends_soon, expiry, is_issued_by, name_of, now, serial_of
from fedkme.pki.files import pem_blocks, pem_text, stamp

_LABEL = "X509 CRL"
_REMEDY = "Copy the authority's newest revoked.pem there (fedkme pki revoke signs it again)."


class Revocation:
    """Revocation lists in a file, one for each authority that a party trusts.

    Nothing polls: `check` asks the system whether the file changed, one call. With a list that is expired,
    older than the previous one or not signed by the authority, every peer is refused. While the file is
    missing or cut off, for example while it is being copied, the previous list holds until it expires.
    """

    def __init__(self, path: Path, authority: bytes) -> None:
        """Read the file of lists, and the certificates of the authorities that sign them; both PEM.

        Raises:
            IdentityError: the file is unreadable, or a list in it is expired or not signed by its authority.
        """
        self._path = path
        self._authorities = x509.load_pem_x509_certificates(authority)
        self._lock = threading.Lock()
        self._stamp = stamp()
        self._lists: dict[x509.Certificate, CertificateRevocationList] = {}
        self._numbers: dict[x509.Certificate, int] = {}
        self._torn = ""
        for revocations in self._current().values():
            self._check_date(revocations)

    def check(self, certificate_pem: bytes) -> None:
        """Refuse a revoked certificate (PEM).

        Call this for each peer that connects, and again for live sessions.

        Raises:
            IdentityError: the certificate was revoked, or the list is no longer valid.
        """
        lists = self._current()
        try:
            certificate = x509.load_pem_x509_certificate(certificate_pem)
        except MALFORMED:
            raise IdentityError("a party shows no certificate that can be read", "Issue it again.") from None
        name = name_of(certificate.subject)
        revocations = next(
            (lists[authority] for authority in lists if is_issued_by(certificate, authority)), None
        )
        if revocations is None:
            cause = f"{self._path} has no list of the authority that issued the certificate of {name!r}"
            raise IdentityError(cause, _REMEDY)
        self._check_date(revocations)
        entry = revocations.get_revoked_certificate_by_serial_number(certificate.serial_number)
        if entry is not None:
            raise IdentityError(
                f"the certificate of {name!r} with serial number {serial_of(certificate)} was revoked on "
                f"{entry.revocation_date_utc:%Y-%m-%d}",
                "Ask the authority for another one.",
            )

    def warning(self) -> str | None:
        """Warning when a list is about to expire or the file cannot be read; None otherwise.

        Raises:
            IdentityError: the list is no longer valid.
        """
        start, end = self.validity()
        if self._torn:
            return f"{self._torn}; the previous list holds until it expires. {_REMEDY}"
        return f"{self.name} ends on {expiry(end)}. {_REMEDY}" if ends_soon(start, end) else None

    @property
    def name(self) -> str:
        """Name of the list for people."""
        return f"the revocation list {self._path}"

    def validity(self) -> tuple[datetime.datetime, datetime.datetime]:
        """Times from which and until which all lists in the file are valid.

        Raises:
            IdentityError: a list is no longer valid, or cannot be read.
        """
        lists = list(self._current().values())
        for revocations in lists:
            self._check_date(revocations)
        ends = [each.next_update_utc for each in lists if each.next_update_utc is not None]
        return max(each.last_update_utc for each in lists), min(ends)

    def _current(self) -> dict[x509.Certificate, CertificateRevocationList]:
        with self._lock:
            current = stamp(self._path)
            if current != self._stamp:
                self._stamp = stamp()  # each check reads the file until its lists are known to be good
                if (lists := self._whole()) is not None:
                    self._lists = self._trusted(lists)
                    self._stamp = current
            return self._lists

    def _whole(self) -> list[CertificateRevocationList] | None:
        """Lists in the file; None if they cannot be read and earlier lists are still valid."""
        try:
            lists = self._parsed()
        except IdentityError as error:
            if not self._lists:
                raise
            self._torn = error.cause
            return None
        self._torn = ""
        return lists

    def _parsed(self) -> list[CertificateRevocationList]:
        try:
            data = read_bytes(self._path, SMALL)
            blocks = [block for label, block in pem_blocks(data) if label == _LABEL]
            lists = [x509.load_pem_x509_crl(block) for block in blocks]
        except OSError as error:
            cause = f"the revocation list {self._path} cannot be read: {error.strerror}"
            raise IdentityError(cause, _REMEDY) from None
        except MALFORMED:
            lists = []
        if not lists or len(lists) != pem_text(data).count(f"-----BEGIN {_LABEL}"):
            raise IdentityError(f"{self._path} is no revocation list, or is cut off", _REMEDY)
        return lists

    def _trusted(
        self, lists: list[CertificateRevocationList]
    ) -> dict[x509.Certificate, CertificateRevocationList]:
        by_signer = {self._signer(revocations): revocations for revocations in lists}
        for signer, revocations in by_signer.items():
            number = _number(revocations)
            if number < self._numbers.get(signer, 0):
                raise IdentityError(f"the revocation list {self._path} is older than the one before", _REMEDY)
            self._numbers[signer] = number
        return by_signer

    def _signer(self, revocations: CertificateRevocationList) -> x509.Certificate:
        for authority in self._authorities:
            key = cast(CertificateIssuerPublicKeyTypes, authority.public_key())  # it signed certificates
            if authority.subject == revocations.issuer and revocations.is_signature_valid(key):
                return authority
        cause = f"the revocation list {self._path} is not signed by this party's authority"
        raise IdentityError(cause, _REMEDY)

    def _check_date(self, revocations: CertificateRevocationList) -> None:
        end = revocations.next_update_utc
        if end is None or end < now():
            when = "never said until when it holds" if end is None else f"expired on {end:%Y-%m-%d %H:%M} UTC"
            raise IdentityError(f"the revocation list {self._path} {when}", _REMEDY)


def _number(revocations: CertificateRevocationList) -> int:
    try:
        return revocations.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    except x509.ExtensionNotFound:
        return 0
