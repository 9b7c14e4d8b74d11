"""The way on which the key never leaves its host: a request goes out, a certificate comes back.

What goes in either direction is public. What matters is that nobody exchanged it on the way, hence the
fingerprints, which the two ends compare by a way of their own: a call, a letter, a meeting.
"""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from fedkme.errors import IdentityError
from fedkme.pki.certificates import check_name, fingerprint, is_issued_by, name_of, now, same_fingerprint
from fedkme.pki.files import pem_blocks
from fedkme.pki.identity import Identity

_RSA_BITS = 3072  # fewer are less than the 128 bits of P-256


def make_request(name: str, key: bytes) -> x509.CertificateSigningRequest:
    """Ask for a certificate; role, hosts and duration are the authority's to say.

    Raises:
        IdentityError: no party can have the name, or the key is of a kind that cannot be used.
    """
    check_name(name)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    private = _private(key)
    return x509.CertificateSigningRequestBuilder().subject_name(subject).sign(private, hashes.SHA256())


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """Read a request that came from another party.

    Raises:
        IdentityError: the file is no request, its key is weak, or it is not signed with that key.
    """
    try:
        request = x509.load_pem_x509_csr(path.read_bytes())
        sound = request.is_signature_valid and _strong(request.public_key())
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror}", "Check the path.") from None
    except (ValueError, UnsupportedAlgorithm):
        raise IdentityError(f"{path} is no request", "Make one with `fedkme pki request`.") from None
    if not sound:
        raise IdentityError(
            f"the request {path} is not signed by its own key, or its key is weak",
            "Make one with `fedkme pki request`.",
        )
    check_name(name_of(request.subject))
    return request


def check_fingerprint(
    given: str, public: x509.Certificate | x509.CertificateSigningRequest, what: str, whose: str
) -> None:
    """Compare what came with what was said by the other way.

    Raises:
        IdentityError: they differ, or nothing was said.
    """
    if not given.strip():
        raise IdentityError(
            f"there is no fingerprint to compare; {what} here has {fingerprint(public)}",
            f"Ask {whose} for it by a way that nobody else can write on, and give it as --fingerprint.",
        )
    if not same_fingerprint(given, fingerprint(public)):
        raise IdentityError(
            f"the fingerprint given is not that of {what} here",
            f"Ask {whose} again; if it differs still, somebody exchanged the file: do not go on.",
        )


def accept(reply: Path, key: bytes, authority_fingerprint: str) -> Identity:
    """Put the reply of an authority together with the key that stayed here; all is PEM.

    The fingerprint of the authority's certificate was learned by another way than the reply.

    Raises:
        IdentityError: it is another authority's, or not for this key.
    """
    try:
        blocks = [block for label, block in pem_blocks(reply.read_bytes()) if label == "CERTIFICATE"]
        certificate, authority = (x509.load_pem_x509_certificate(block) for block in blocks)
    except OSError as error:
        raise IdentityError(f"{reply} cannot be read: {error.strerror}", "Check the path.") from None
    except ValueError:
        raise IdentityError(
            f"{reply} is no certificate with its authority's", "Use the file that `fedkme pki approve` wrote."
        ) from None
    check_fingerprint(authority_fingerprint, authority, "the authority", "whoever runs the authority")
    if not is_issued_by(certificate, authority):
        raise IdentityError(
            f"the certificate in {reply} was not issued by the authority beside it",
            "Ask for the reply again.",
        )
    if certificate.public_key() != _private(key).public_key():
        raise IdentityError(
            f"the certificate in {reply} is for another key", "Use the key that the request was made with."
        )
    if certificate.not_valid_after_utc < now():
        raise IdentityError(f"the certificate in {reply} has expired", "Ask for another one.")
    return Identity(blocks[0], key, blocks[1])


def _private(key: bytes) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise IdentityError("the key is no PEM key, or has a passphrase", "Make another one.") from None
    if not isinstance(private, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) or not _strong(
        private.public_key()
    ):
        raise IdentityError(
            "the key is of a kind that cannot be used", "Use P-256, P-384 or RSA of 3072 bits."
        )
    return private


def _strong(key: object) -> bool:
    """Kinds that TLS of gRPC takes on both sides."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    return isinstance(key, rsa.RSAPublicKey) and key.key_size >= _RSA_BITS
