"""A party's certificate, key and authority: reading, checking, and renewal while in use."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from fedkme.durable import create, make_folder, replace
from fedkme.errors import IdentityError
from fedkme.inputs import SMALL, read_bytes
from fedkme.pki.certificates import MALFORMED, is_authority, now
from fedkme.pki.files import (
    KEY,
    PRIVATE,
    PUBLIC,
    certificates_in,
    key_file,
    key_mode,
    keys_in,
    pem_blocks,
    stamp,
)

if TYPE_CHECKING:  # `fedkme pki` opens no connection
    import grpc

IDENTITY_FILES = ("certificate.pem", "key.pem", "authority.pem")
_WHERE = "Point 'identity' at a bundle of `fedkme pki`, or a folder with certificate, key and authority.pem."


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """Credentials that a party shows and the authorities that it trusts, all PEM."""

    certificate: bytes
    """The party's own certificate, then any certificates between it and the authority."""
    key: bytes
    authority: bytes
    """Certificates of one authority, or of two while one replaces the other."""

    @property
    def leaf(self) -> x509.Certificate:
        """The party's own certificate."""
        return x509.load_pem_x509_certificate(self.certificate)

    def server_configuration(self) -> grpc.ServerCertificateConfiguration:
        """Configuration of a server: its own credentials and the authorities that it trusts."""
        import grpc

        return grpc.ssl_server_certificate_configuration([(self.key, self.certificate)], self.authority)

    def server_credentials(self) -> grpc.ServerCredentials:
        """Credentials of a server that accepts only clients of the same authority."""
        import grpc

        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)], root_certificates=self.authority, require_client_auth=True
        )

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Credentials of a client that accepts only servers of the same authority."""
        import grpc

        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)

    def bundle(self) -> bytes:
        """Content of a bundle: key, certificate, authority."""
        return self.key + self.certificate + self.authority

    def save(self, directory: Path) -> None:
        """Write three files; the key is readable by its owner alone."""
        make_folder(directory)
        for name, data in zip(IDENTITY_FILES, (self.certificate, self.key, self.authority), strict=True):
            replace(directory / name, data, PRIVATE if name == "key.pem" else PUBLIC)

    def save_bundle(self, path: Path, *, over: bool = False) -> None:
        """Write a bundle that its user alone may read.

        An existing file is replaced, atomically, only with `over`.

        Raises:
            OSError: the file exists, or cannot be written.
        """
        (replace if over else create)(path, self.bundle(), PRIVATE)

    @staticmethod
    def load(path: Path, *, current: bool = True) -> Identity:
        """Read an identity that `save` or `save_bundle` wrote, and check it: a peer would only hang up.

        Raises:
            IdentityError: a file is missing or unreadable, the certificate has expired, or the key is not the
                certificate's.
        """
        try:
            identity = _from_folder(path) if path.is_dir() else _from_bundle(path)
        except OSError as error:
            raise IdentityError(f"{error.filename} cannot be read: {error.strerror}", _WHERE) from None
        _check(identity, path, current)
        return identity


class IdentityFile:
    """An identity that may be renewed on disk while it is in use."""

    def __init__(self, path: Path) -> None:
        """Read the identity.

        Raises:
            IdentityError: the file has no usable identity, or everybody on this host can read its key.
        """
        self._path = path
        self._lock = threading.Lock()  # gRPC asks in threads of its own
        self._stamp = stamp(path, *(path / name for name in IDENTITY_FILES))
        self.identity = Identity.load(path)
        refuse_open_key(path)

    def renewed(self) -> bool:
        """Read the identity again if a file changed.

        Returns:
            True if `identity` changed.

        Raises:
            IdentityError: the files hold no valid identity now; `identity` stays as it was.
        """
        with self._lock:
            current = stamp(self._path, *(self._path / name for name in IDENTITY_FILES))
            if current == self._stamp:
                return False
            identity = Identity.load(self._path)
            refuse_open_key(self._path)
            before, self.identity = self.identity, identity
            self._stamp = current
            return before != self.identity


def refuse_open_key(path: Path) -> None:
    """Refuse an identity whose key everybody on this host can read; a group may belong to the service.

    Raises:
        IdentityError: the key's file has such a mode.
    """
    with contextlib.suppress(OSError):
        if (mode := key_mode(path)) & 0o007:
            key = key_file(path)
            cause = f"everybody on this host can read the key in {key} (mode {mode:04o})"
            raise IdentityError(cause, f"Run `chmod 600 {key}`.")


def _from_folder(folder: Path) -> Identity:
    chain, key, authority = (read_bytes(folder / name, SMALL) for name in IDENTITY_FILES)
    return Identity(certificates_in(chain), [*keys_in(key), key][0], certificates_in(authority))


def _from_bundle(path: Path) -> Identity:
    key, chain, authority = b"", b"", b""
    try:
        for label, block in pem_blocks(read_bytes(path, SMALL)):
            if label.endswith(KEY):
                key = key or block
            elif label == "CERTIFICATE":
                certificate = x509.load_pem_x509_certificate(block)
                if is_authority(certificate):
                    authority += block
                else:
                    chain += block
    except MALFORMED:
        raise _unreadable(path) from None
    parts = {"key": key, "certificate of a party": chain, "authority's certificate": authority}
    for what, block in parts.items():
        if not block:
            raise IdentityError(f"{path} has no {what}", _WHERE)
    return Identity(chain, key, authority)


def _check(identity: Identity, path: Path, current: bool) -> None:
    if b"ENCRYPTED" in identity.key:
        cause = f"the key in {path} has a passphrase, and a party starts without anybody to type it"
        raise IdentityError(cause, "Write it without one: `openssl pkey -in KEY -out NEWKEY`.")
    try:
        certificate = identity.leaf
        key = serialization.load_pem_private_key(identity.key, password=None)
        x509.load_pem_x509_certificates(identity.authority)
        is_its = certificate.public_key() == key.public_key()
    except MALFORMED:
        raise _unreadable(path) from None
    if not is_its:
        raise IdentityError(f"the key in {path} is not its certificate's", "Issue both again.")
    if current and certificate.not_valid_after_utc < now():
        raise IdentityError(f"the certificate in {path} has expired", "Issue a new one, or renew it.")
    if current and certificate.not_valid_before_utc > now():
        cause = f"the certificate in {path} is not valid yet"
        raise IdentityError(cause, "Look at the clocks of this host and the authority's.")


def _unreadable(path: Path) -> IdentityError:
    return IdentityError(f"{path} holds a file that is no PEM certificate or key", "Issue it again.")
