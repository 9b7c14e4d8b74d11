"""Signing of certificates, for an authority on disk and for a simulation's authority in memory."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedkme.errors import IdentityError
from fedkme.pki.certificates import ROLE, Role, general_name, now
from fedkme.pki.identity import Identity

SKEW = datetime.timedelta(minutes=5)
"""Time by which a certificate's validity is backdated, for hosts whose clocks are late."""

_CLIENT, _SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


class Authority:
    """A certificate authority; its key is in memory alone unless a caller writes it to disk."""

    def __init__(
        self,
        lifetime: datetime.timedelta = datetime.timedelta(days=2),
        name: str = "fedkme simulation authority",
    ) -> None:
        self._take(ec.generate_private_key(ec.SECP256R1()))
        start = now() - SKEW
        subject = _common_name(name)
        self.certificate = (
            _builder(subject, subject, self._key.public_key(), start, start + lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(authority=True), critical=True)
            .add_extension(self._identifier, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @classmethod
    def of(cls, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> Authority:
        """The authority with this key and certificate."""
        authority = cls.__new__(cls)
        authority._take(key)
        authority.certificate = certificate
        return authority

    def _take(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        self._by = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())

    @property
    def pem(self) -> bytes:
        """The authority's own certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self, passphrase: bytes | None) -> bytes:
        """The authority's key as PEM, encrypted if there is a passphrase."""
        return _key_pem(self._key, passphrase)

    def issue(
        self,
        name: str,
        hosts: Sequence[str] = (),
        role: Role | None = None,
        lifetime: datetime.timedelta | None = None,
    ) -> Identity:
        """Make a key, and sign a certificate for it; see `sign`."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.sign(key.public_key(), name, hosts, role, lifetime)
        return self.identity(certificate, _key_pem(key, None))

    def identity(self, certificate: x509.Certificate, key: bytes) -> Identity:
        """Join a certificate of this authority with the party's key (PEM) into an identity."""
        return Identity(certificate.public_bytes(serialization.Encoding.PEM), key, self.pem)

    def sign(
        self,
        key: CertificatePublicKeyTypes,
        name: str,
        hosts: Sequence[str] = (),
        role: Role | None = None,
        lifetime: datetime.timedelta | None = None,
    ) -> x509.Certificate:
        """Sign a certificate for a party. The certificate never outlives the authority.

        Args:
            key: the party's public key.
            name: the party's name, first among the alternative names.
            hosts: a server's host names and addresses.
            role: the role that the certificate allows. A curator's certificate is fit for servers alone, an
                owner's or consumer's for clients alone, and TLS enforces this. None, in simulations: fit for
                clients, and for servers if there are hosts.
            lifetime: time until the certificate expires; None: as long as the authority's.

        Raises:
            IdentityError: hosts were given for a party that is no server, or a host is no name or address.
        """
        if hosts and role not in (None, Role.CURATOR):
            cause = f"a certificate of the role {role} has no hosts"
            raise IdentityError(cause, "Give hosts to a curator alone.")
        begin = max(now() - SKEW, self.certificate.not_valid_before_utc)
        end = self.certificate.not_valid_after_utc
        if lifetime is not None:
            end = min(end, now() + lifetime)
        names: list[x509.GeneralName] = [x509.DNSName(name), *map(general_name, hosts)]
        if role is None:
            purposes = [_CLIENT, _SERVER] if hosts else [_CLIENT]
        else:
            purposes = [_SERVER] if role is Role.CURATOR else [_CLIENT]
            names.append(x509.UniformResourceIdentifier(f"{ROLE}{role}"))
        return (
            _builder(_common_name(name), self.certificate.subject, key, begin, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName(list(dict.fromkeys(names))), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(self._by, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def sign_list(
        self, revoked: Iterable[x509.RevokedCertificate], number: int, lifetime: datetime.timedelta
    ) -> x509.CertificateRevocationList:
        """Sign a list of revoked certificates.

        Args:
            revoked: the list's entries.
            number: larger than the previous list's number.
            lifetime: validity from now. A party with an expired list refuses every peer: the list no longer
                shows who was revoked.
        """
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now() - SKEW)
            .next_update(now() + lifetime)
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(self._by, critical=False)
        )
        for entry in revoked:
            builder = builder.add_revoked_certificate(entry)
        return builder.sign(self._key, hashes.SHA256())


def new_key() -> bytes:
    """Make a key for a party, PEM."""
    return _key_pem(ec.generate_private_key(ec.SECP256R1()), None)


def _key_pem(key: ec.EllipticCurvePrivateKey, passphrase: bytes | None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        encryption = serialization.BestAvailableEncryption(passphrase)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: CertificatePublicKeyTypes,
    start: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
