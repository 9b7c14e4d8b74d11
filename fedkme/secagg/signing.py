"""Binding of signing keys: an Ed25519 key of one aggregation, signed with the key of a certificate.

Certificates of `fedkme pki` hold keys on P-256, which TLS uses. An aggregation signs with keys of its own, so
no signature for one of the two is ever good for the other. Parties that exchanged Ed25519 keys in another way
do not need bindings.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from fedkme.errors import IdentityError
from fedkme.pki.certificates import MALFORMED, Role, name_of, role_of
from fedkme.pki.identity import Identity
from fedkme.secagg.keys import framed

_MOST_CERTIFICATES = 5
_LONGEST = 2**16


@dataclass(frozen=True)
class KeyBinding:
    """A party's statement that a signing key is its own, in one aggregation.

    Attributes:
        chain: PEM, the party's certificate first.
        key: Ed25519, 32 bytes.
        signature: ECDSA with SHA-256 by the certificate's key.
        owner: the key's owner by its own word, where there are no certificates; then chain and signature are
            empty.
    """

    chain: bytes
    key: bytes
    signature: bytes
    owner: str = ""


def bind(identity: Identity, key: Ed25519PublicKey, run: str) -> KeyBinding:
    """Bind a signing key to an identity.

    Args:
        identity: the party's own.
        key: signing key, for use in `run` and no other aggregation.
        run: name of the aggregation.

    Raises:
        IdentityError: the identity's key is not one of `fedkme pki`.
    """
    raw = key.public_bytes_raw()
    signed = _binding_bytes(name_of(identity.leaf.subject), raw, run)
    return KeyBinding(identity.certificate, raw, sign(identity, signed))


def sign(identity: Identity, data: bytes) -> bytes:
    """Sign with the key of a certificate: ECDSA with SHA-256.

    Raises:
        IdentityError: the identity's key is not one of `fedkme pki`.
    """
    private = serialization.load_pem_private_key(identity.key, password=None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise refusal("the key of the identity is not on an elliptic curve")
    return private.sign(data, ec.ECDSA(hashes.SHA256()))


def check_signature(
    what: str,
    chain: bytes,
    authority: bytes,
    roles: Collection[Role],
    signature: bytes,
    signed: Callable[[str], bytes],
    check: Callable[[bytes], None] | None = None,
) -> str:
    """Check that a certificate of the authority signed some bytes; returns the name of its party.

    Args:
        what: what is signed, for errors.
        chain: PEM, the party's certificate first.
        authority: PEM of the authorities that this party trusts.
        roles: roles that the party may have; a certificate without a role, as in simulations, may have any.
        signature: ECDSA with SHA-256.
        signed: returns the bytes for the party's name.
        check: refuses certificates (PEM) that were revoked, such as Revocation.check.

    Raises:
        IdentityError: another authority, an expired or revoked certificate, another role, or a signature that
            is not the certificate's.
    """
    try:
        leaf, *between = x509.load_pem_x509_certificates(chain)[:_MOST_CERTIFICATES]
        store = Store(x509.load_pem_x509_certificates(authority))
        PolicyBuilder().store(store).build_client_verifier().verify(leaf, between)
        public = leaf.public_key()
    except (*MALFORMED, VerificationError):
        raise refusal(f"{what} with a certificate that is not this party's authority's") from None
    name, role = name_of(leaf.subject), role_of(leaf)
    if role not in (None, *roles) or not isinstance(public, ec.EllipticCurvePublicKey):
        raise refusal(f"{what} with the certificate of {name!r}, which has another role")
    try:
        public.verify(signature, signed(name), ec.ECDSA(hashes.SHA256()))
    except InvalidSignature:
        raise refusal(f"{what} that the certificate of {name!r} did not sign for this run") from None
    if check is not None:
        check(leaf.public_bytes(serialization.Encoding.PEM))
    return name


def verify_binding(
    binding: KeyBinding, authority: bytes, run: str, *, check: Callable[[bytes], None] | None = None
) -> tuple[str, Ed25519PublicKey]:
    """Check a binding; returns the name of the key's owner, and the key.

    Args:
        binding: the binding that a peer sent.
        authority: PEM of the authorities that this party trusts.
        run: name of the aggregation.
        check: refuses certificates (PEM) that were revoked, such as Revocation.check.

    Raises:
        IdentityError: another authority, an expired or revoked certificate, another role than an owner's, or
            a signature that is not the certificate's.
    """
    parts = (binding.chain, binding.key, binding.signature)
    if not all(isinstance(part, bytes) and len(part) <= _LONGEST for part in parts):
        raise refusal("a signing key comes without a certificate")

    def signed(name: str) -> bytes:
        return _binding_bytes(name, binding.key, run)

    roles, what = (Role.OWNER,), "a signing key comes"
    name = check_signature(what, binding.chain, authority, roles, binding.signature, signed, check)
    try:
        return name, Ed25519PublicKey.from_public_bytes(binding.key)
    except ValueError:
        raise refusal(f"the signing key of {name!r} is malformed") from None


def verify_all(
    bindings: Iterable[KeyBinding],
    authority: bytes,
    run: str,
    *,
    check: Callable[[bytes], None] | None = None,
) -> dict[str, Ed25519PublicKey]:
    """Check several bindings; returns keys by name, for OwnerAggregator.

    Raises:
        IdentityError: see `verify_binding`; also two keys of one party.
    """
    keys: dict[str, Ed25519PublicKey] = {}
    for binding in bindings:
        name, key = verify_binding(binding, authority, run, check=check)
        if name in keys:
            raise refusal(f"{name!r} has two signing keys in one aggregation")
        keys[name] = key
    return keys


def _binding_bytes(name: str, key: bytes, run: str) -> bytes:
    return framed(b"fedkme secagg signing key", run.encode(), name.encode(), key)


def refusal(why: str) -> IdentityError:
    """Make the error for a key that no certificate vouches for."""
    return IdentityError(why, "Issue and exchange certificates and keys again.")
