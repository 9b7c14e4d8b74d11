"""Certificates by request: the key never leaves its host; a request goes out, a certificate comes back.

Both files are public. Nobody must be able to exchange them on the way: the two ends compare fingerprints over
another channel, such as a call, a letter or a meeting.
"""

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from fedkme.errors import IdentityError
from fedkme.inputs import SMALL, read_bytes
from fedkme.pki.certificates import (
    MALFORMED,
    check_name,
    fingerprint,
    is_issued_by,
    name_of,
    now,
    same_fingerprint,
)
from fedkme.pki.files import pem_blocks
from fedkme.pki.identity import Identity

_RSA_BITS = 3072  # as strong as P-256: 128 bits


def make_request(name: str, key: bytes) -> x509.CertificateSigningRequest:
    """Make a request for a certificate; the authority decides on role, hosts and duration.

    Raises:
        IdentityError: no party can have the name, or the key is of a kind that cannot be used.
    """
    check_name(name)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    private = _private(key)
    return x509.CertificateSigningRequestBuilder().subject_name(subject).sign(private, hashes.SHA256())


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """Read another party's request.

    Raises:
        IdentityError: the file is no request, its key is weak, or it is not signed with that key.
    """
    try:
        blocks = [pem for label, pem in pem_blocks(read_bytes(path, SMALL)) if label == "CERTIFICATE REQUEST"]
        (pem,) = blocks  # none, or several, are no request
        request = x509.load_pem_x509_csr(pem)
        sound = request.is_signature_valid and _strong(request.public_key())
    except OSError as error:
        raise IdentityError(f"{path} cannot be read: {error.strerror}", "Check the path.") from None
    except MALFORMED:
        raise IdentityError(f"{path} is no request", "Make one with `fedkme pki request`.") from None
    if not sound:
        cause = f"the request {path} is not signed by its own key, or its key is weak"
        raise IdentityError(cause, "Make one with `fedkme pki request`.")
    check_name(name_of(request.subject))
    return request


def check_fingerprint(
    given: str, public: x509.Certificate | x509.CertificateSigningRequest, what: str, whose: str
) -> None:
    """Compare a file's fingerprint with the one that its sender gave over another channel.

    Raises:
        IdentityError: the fingerprints differ, or none was given.
    """
    if not given.strip():
        raise IdentityError(
            f"there is no fingerprint to compare; {what} here has {fingerprint(public)}",
            f"Ask {whose} for the fingerprint over a channel that nobody else can write to, and give it as "
            "--fingerprint.",
        )
    if not same_fingerprint(given, fingerprint(public)):
        remedy = f"Ask {whose} again; if it still differs, somebody exchanged the file: do not go on."
        raise IdentityError(f"the fingerprint given is not that of {what} here", remedy)


def accept(reply: Path, key: bytes, authority_fingerprint: str) -> Identity:
    """Join an authority's reply with the key that stayed on this host; all PEM.

    The fingerprint of the authority's certificate came over another channel than the reply.

    Raises:
        IdentityError: the reply is another authority's, or for another key.
    """
    try:
        blocks = [block for label, block in pem_blocks(read_bytes(reply, SMALL)) if label == "CERTIFICATE"]
        certificate, authority = (x509.load_pem_x509_certificate(block) for block in blocks)
        public = certificate.public_key()
    except OSError as error:
        raise IdentityError(f"{reply} cannot be read: {error.strerror}", "Check the path.") from None
    except MALFORMED:
        cause = f"{reply} does not hold a certificate and its authority's"
        raise IdentityError(cause, "Use the file that `fedkme pki approve` wrote.") from None
    check_fingerprint(authority_fingerprint, authority, "the authority", "whoever runs the authority")
    if not is_issued_by(certificate, authority):
        cause = f"the certificate in {reply} was not issued by the authority beside it"
        raise IdentityError(cause, "Ask for the reply again.")
    if public != _private(key).public_key():
        cause = f"the certificate in {reply} is for another key"
        raise IdentityError(cause, "Use the key that the request was made with.")
    if certificate.not_valid_after_utc < now():
        raise IdentityError(f"the certificate in {reply} has expired", "Ask for another one.")
    return Identity(blocks[0], key, blocks[1])


def _private(key: bytes) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except MALFORMED:
        raise IdentityError("the key is no PEM key, or has a passphrase", "Make another one.") from None
    if not isinstance(private, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) or not _strong(
        private.public_key()
    ):
        cause = "the key is of a kind that cannot be used"
        raise IdentityError(cause, "Use P-256, P-384 or RSA of 3072 bits.")
    return private


def _strong(key: object) -> bool:
    """Check that a key is strong and of a kind that TLS of gRPC accepts on both sides."""
    if isinstance(key, ec.EllipticCurvePublicKey):
        return isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    return isinstance(key, rsa.RSAPublicKey) and key.key_size >= _RSA_BITS
