"""An authority on disk: its key, the certificates it issued, and its revocation list.

authority.pem       the authority's certificate, to be given to every party
key.pem             the authority's key; stays here, readable by its user alone
issued/             every certificate that the authority signed
revoked.pem         the signed list of revoked certificates, to be given to the curator
"""

from __future__ import annotations

import contextlib
import datetime
import difflib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

from fedkme.durable import create, make_folder, replace
from fedkme.errors import PkiError, typed
from fedkme.inputs import SMALL, read_bytes
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import (
    LOOPBACK,
    MALFORMED,
    Role,
    check_name,
    hosts_of,
    is_issued_by,
    name_of,
    now,
    role_of,
    serial_of,
)
from fedkme.pki.files import PRIVATE, PUBLIC, pem_blocks
from fedkme.pki.identity import Identity

LIST_LIFETIME = datetime.timedelta(days=90)
"""Default validity of a list of revoked certificates."""

Passphrase = Callable[[], bytes]


def make_authority(
    directory: Path, name: str, lifetime: datetime.timedelta, passphrase: bytes | None
) -> Authority:
    """Make an authority in a new or empty folder.

    Raises:
        PkiError: the folder is not empty, or cannot be written.
    """
    with explained():
        if directory.exists() and any(directory.iterdir()):
            cause = f"{directory} is not empty"
            raise PkiError(cause, "Choose another folder: an authority is never replaced.")
        make_folder(directory, 0o700)
        make_folder(directory / "issued")
        authority = Authority(lifetime, name)
        create(directory / "key.pem", authority.key_pem(passphrase), PRIVATE)
        revoked = authority.sign_list((), 1, LIST_LIFETIME)
        create(directory / "revoked.pem", revoked.public_bytes(serialization.Encoding.PEM), PUBLIC)
        create(directory / "authority.pem", authority.pem, PUBLIC)  # last: with it, the authority is whole
    return authority


class AuthorityFolder:
    """An authority's folder, for reading; `open` gives an authority that signs."""

    def __init__(self, directory: Path) -> None:
        """Read the folder's public files.

        Raises:
            PkiError: the folder is no authority's.
        """
        self.directory = directory
        try:
            self.certificate = x509.load_pem_x509_certificate(read_bytes(directory / "authority.pem", SMALL))
            if not (directory / "issued").is_dir():
                raise FileNotFoundError
        except (OSError, *MALFORMED):
            cause = f"{directory} is no authority's folder"
            raise PkiError(cause, "Make one with `fedkme pki init`.") from None

    def issued(self) -> list[x509.Certificate]:
        """All issued certificates, ordered by name and then by time."""
        files = (self.directory / "issued").glob("*.pem")
        certificates = (x509.load_pem_x509_certificate(read_bytes(file, SMALL)) for file in files)
        return sorted(
            certificates,
            key=lambda certificate: (name_of(certificate.subject), certificate.not_valid_before_utc),
        )

    def revoked(self) -> x509.CertificateRevocationList:
        """The revocation list that was signed last."""
        return x509.load_pem_x509_crl(read_bytes(self.directory / "revoked.pem", SMALL))

    def is_revoked(self, certificate: x509.Certificate) -> bool:
        """Check whether a certificate is on the list of revoked ones."""
        return self.revoked().get_revoked_certificate_by_serial_number(certificate.serial_number) is not None

    def live(self, name: str) -> list[x509.Certificate]:
        """A name's certificates that are neither expired nor revoked."""
        revoked = self.revoked()
        return [
            certificate
            for certificate in self.issued()
            if name_of(certificate.subject) == name
            and certificate.not_valid_after_utc > now()
            and revoked.get_revoked_certificate_by_serial_number(certificate.serial_number) is None
        ]

    def find(self, what: str) -> list[x509.Certificate]:
        """Find certificates by a name, a serial number in hexadecimal digits, or a file with a certificate.

        Raises:
            PkiError: this authority issued no such certificate.
        """
        issued = self.issued()
        digits = what.replace(":", "").lower()
        named = [certificate for certificate in issued if name_of(certificate.subject) == what]
        matches = (
            named
            or [certificate for certificate in issued if serial_of(certificate) == digits]
            or self._in_file(Path(what))
        )
        if not matches:
            close = difflib.get_close_matches(
                what, {name_of(certificate.subject) for certificate in issued}, n=1
            )
            hint = (
                f"Did you mean {close[0]!r}?" if close else f"See `fedkme pki show {typed(self.directory)}`."
            )
            raise PkiError(f"this authority issued no certificate {what!r}", hint)
        return matches

    def _in_file(self, path: Path) -> list[x509.Certificate]:
        file = path / "certificate.pem" if path.is_dir() else path
        try:
            blocks = pem_blocks(read_bytes(file, SMALL))
            certificates = (
                x509.load_pem_x509_certificate(pem) for label, pem in blocks if label == "CERTIFICATE"
            )
            return [certificate for certificate in certificates if self.signed(certificate)]
        except (OSError, *MALFORMED):
            return []

    def signed(self, certificate: x509.Certificate) -> bool:
        """Check whether this authority issued a certificate to a party."""
        return is_issued_by(certificate, self.certificate) and certificate != self.certificate

    @contextlib.contextmanager
    def open(self, passphrase: Passphrase) -> Iterator[OpenAuthority]:
        """Open the authority for signing, in one process at a time.

        Args:
            passphrase: called only if the key is encrypted.

        Raises:
            PkiError: the key cannot be read or is not this authority's, or the authority has expired.
        """
        if self.certificate.not_valid_after_utc < now():
            raise PkiError(f"the authority in {self.directory} has expired", "Make another one.")
        with explained():
            data = read_bytes(self.directory / "key.pem", SMALL)
            lock = os.open(self.directory, os.O_RDONLY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield OpenAuthority(self, Authority.of(self._key(data, passphrase), self.certificate))
            finally:
                os.close(lock)

    def _key(self, data: bytes, passphrase: Passphrase) -> ec.EllipticCurvePrivateKey:
        try:
            try:
                key = serialization.load_pem_private_key(data, password=None)
            except TypeError:  # it is encrypted
                key = serialization.load_pem_private_key(data, password=passphrase())
        except ValueError:
            cause = f"the key in {self.directory} cannot be read"
            raise PkiError(cause, "Give the right passphrase.") from None
        if (
            not isinstance(key, ec.EllipticCurvePrivateKey)
            or key.public_key() != self.certificate.public_key()
        ):
            cause = f"the key in {self.directory} is not its certificate's"
            raise PkiError(cause, "Restore both from a backup.")
        return key


class OpenAuthority:
    """An authority that can sign; each certificate is written to disk before it is returned."""

    def __init__(self, folder: AuthorityFolder, authority: Authority) -> None:
        self._folder = folder
        self._authority = authority

    def issue(
        self,
        name: str,
        hosts: Sequence[str],
        role: Role,
        lifetime: datetime.timedelta,
        key: bytes,
        *,
        again: bool,
    ) -> Identity:
        """Issue a certificate for a private key on this host.

        Args:
            name: the party's.
            hosts: see `certify`.
            role: what it may act as.
            lifetime: time until the certificate expires.
            key: PEM.
            again: allow another certificate beside one that the name already has.

        Raises:
            PkiError: the name is taken.
            IdentityError: the name or a host cannot be used.
        """
        public = serialization.load_pem_private_key(key, password=None).public_key()
        certificate = self.certify(
            cast(CertificatePublicKeyTypes, public), name, hosts, role, lifetime, again=again
        )
        return self._authority.identity(certificate, key)

    def certify(
        self,
        public: CertificatePublicKeyTypes,
        name: str,
        hosts: Sequence[str],
        role: Role,
        lifetime: datetime.timedelta,
        *,
        again: bool,
    ) -> x509.Certificate:
        """Issue a certificate for a public key; a curator's also names the loopback hosts.

        Raises:
            PkiError: the name is taken.
            IdentityError: the name or a host cannot be used.
        """
        check_name(name)
        for other in self._folder.issued():
            if other.public_key() == public and (
                name_of(other.subject) != name or self._folder.is_revoked(other)
            ):
                raise PkiError("the key is another party's, or was revoked", "Make another key.")
        for other in self._folder.live(name):
            if role_of(other) is not role:
                cause = f"{name!r} is the name of this authority's {role_of(other)}"
                raise PkiError(cause, "Choose another name, or revoke it.")
            if not again and other.public_key() != public:
                remedy = "Revoke that one first, or say --again if both are to count for a while."
                raise PkiError(f"{name!r} has a certificate with another key", remedy)
        if role is Role.CURATOR:
            hosts = [*hosts, *LOOPBACK]
        certificate = self._authority.sign(public, name, hosts, role, lifetime)
        file = self._folder.directory / "issued" / f"{name}.{serial_of(certificate)}.pem"
        create(file, certificate.public_bytes(serialization.Encoding.PEM), PUBLIC)
        return certificate

    def renew(self, identity: Identity, lifetime: datetime.timedelta, key: bytes) -> Identity:
        """Issue another certificate to the same name, role and hosts.

        Args:
            identity: the identity to renew; it may have expired.
            lifetime: time until the certificate expires.
            key: PEM, the same or another.

        Raises:
            PkiError: this authority did not issue the certificate, or revoked it.
        """
        old = identity.leaf
        name, role = name_of(old.subject), role_of(old)
        if role is None or not self._folder.signed(old):
            cause = f"the certificate of {name!r} is not this authority's"
            raise PkiError(cause, "Use the authority that issued it.")
        if self._folder.is_revoked(old):
            cause = f"the certificate of {name!r} was revoked"
            raise PkiError(cause, "Issue a new one if the party may come back.")
        return self.issue(name, hosts_of(old), role, lifetime, key, again=True)

    def revoke(self, certificates: Sequence[x509.Certificate], lifetime: datetime.timedelta) -> None:
        """Add certificates to the revocation list, and sign the list again.

        Args:
            certificates: the certificates to revoke; none only extends the list's validity.
            lifetime: validity of the list, from now.
        """
        before = self._folder.revoked()
        entries = {entry.serial_number: entry for entry in before}
        for certificate in certificates:
            entry = (
                x509.RevokedCertificateBuilder()
                .serial_number(certificate.serial_number)
                .revocation_date(now())
                .build()
            )
            entries.setdefault(certificate.serial_number, entry)
        number = before.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        signed = self._authority.sign_list(entries.values(), number + 1, lifetime)
        file = self._folder.directory / "revoked.pem"
        replace(file, signed.public_bytes(serialization.Encoding.PEM), PUBLIC)


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Turn the system's errors about files into PkiError.

    Raises:
        PkiError: a file could not be read or written.
    """
    try:
        yield
    except FileExistsError as error:
        raise PkiError(f"{error.filename} exists", "Choose another file: nothing is overwritten.") from None
    except OSError as error:
        raise PkiError(f"{error.filename}: {error.strerror}", "Check the path and its permissions.") from None
