"""Mutual TLS: a party's name is its certificate's, never its address.

Simulations make an authority of their own that lives as long as the run.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedkme.errors import IdentityError

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, repr=False)
class Identity:
    """What a party shows and what it trusts; all PEM."""

    certificate: bytes
    key: bytes
    authority: bytes

    def server_credentials(self) -> grpc.ServerCredentials:
        """For a server that accepts only clients of the same authority."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)], root_certificates=self.authority, require_client_auth=True
        )

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For a client that accepts only servers of the same authority."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)

    def save(self, directory: Path) -> None:
        """Write three files; the key is readable by its owner alone."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "certificate.pem").write_bytes(self.certificate)
        (directory / "authority.pem").write_bytes(self.authority)
        key = directory / "key.pem"
        key.touch(mode=0o600)
        key.write_bytes(self.key)

    @staticmethod
    def load(directory: Path) -> Identity:
        """Read what `save` wrote.

        Raises:
            IdentityError: a file is missing or unreadable.
        """
        try:
            names = ("certificate.pem", "key.pem", "authority.pem")
            identity = Identity(*((directory / name).read_bytes() for name in names))
            identity._check(directory)
        except OSError as error:
            raise IdentityError(
                f"{error.filename} cannot be read: {error.strerror}",
                "Point 'identity' at a folder with certificate.pem, key.pem and authority.pem.",
            ) from None
        return identity

    def _check(self, directory: Path) -> None:
        """Say now what is wrong: a peer would only hang up."""
        try:
            certificate = x509.load_pem_x509_certificate(self.certificate)
            key = serialization.load_pem_private_key(self.key, password=None)
            x509.load_pem_x509_certificate(self.authority)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            cause, remedy = "holds a file that is no PEM certificate or key", "Issue it again."
            raise IdentityError(f"{directory} {cause}", remedy) from None
        if certificate.public_key() != key.public_key():
            raise IdentityError(f"the key in {directory} is not its certificate's", "Issue both again.")
        if certificate.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
            raise IdentityError(f"the certificate in {directory} has expired", "Issue a new one.")


class Authority:
    """A certificate authority that is never written down."""

    def __init__(self, lifetime: datetime.timedelta = datetime.timedelta(days=2)) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedkme simulation authority")])
        self._start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)
        self._end = self._start + lifetime
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self._certificate = builder.sign(self._key, hashes.SHA256())

    def issue(self, name: str, hosts: Sequence[str] = ()) -> Identity:
        """A certificate for a party.

        Args:
            name: the party's name, first among the alternative names.
            hosts: host names and addresses under which it is called, for a server.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        alternatives = [x509.DNSName(name), *map(_general_name, hosts)]
        usage = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        certificate = (
            self._builder(subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Identity(
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
            self._certificate.public_bytes(serialization.Encoding.PEM),
        )

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._start)
            .not_valid_after(self._end)
        )


def peer_names(context: grpc.aio.ServicerContext[Any, Any]) -> frozenset[str] | None:
    """Alternative names of the peer's certificate; None on a plaintext connection."""
    properties = context.auth_context()
    if properties.get("transport_security_type") != [b"ssl"]:
        return None
    return frozenset(name.decode() for name in properties.get("x509_subject_alternative_name", ()))


def check_peer(context: grpc.aio.ServicerContext[Any, Any], name: str) -> None:
    """Hold a peer to the name in its certificate.

    Raises:
        IdentityError: it claims another one.
    """
    names = peer_names(context)
    if names is not None and name not in names:
        raise IdentityError(
            f"a party says it is {name!r} and its certificate does not", "Use the certificate of that name."
        )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
