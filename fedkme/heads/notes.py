"""Checkpoints of C2SP (tlog-checkpoint, signed-note): text of three lines, and signatures of parties below.

    fedkme.ledger/owner/owner-1
    17
    <base64 of the root of the Merkle tree of RFC 6962 over the log's leaves>

    — fedkme.ledger/owner/owner-1 <base64 of the key's number and the signature>

Certificates of `fedkme pki` hold keys on P-256, so signatures are ECDSA with SHA-256, type 0x02: the number
of a key is the first four bytes of SHA-256 of its DER form. In plaintext no party has a key, so a note has no
signatures.
"""

import base64
import binascii
import functools
import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from fedkme.errors import LedgerError
from fedkme.pki.certificates import MALFORMED, Role, name_of, role_of
from fedkme.pki.identity import Identity

PREFIX = "fedkme.ledger/"
LEAF_BYTES = 32
MOST_LINES = 2**17
"""Limit of signatures in one note: above the number of owners, and above what a message has room for."""
MOST_BYTES = 2**14
"""Limit of bytes in a chain of certificates: a leaf and two authorities of `fedkme pki` have 2,000."""
_ORIGIN = r"fedkme\.ledger/(?:owner|curator|consumer)/[A-Za-z0-9._-]{1,63}"
_SIZE_AND_ROOT = r"\n(0|[1-9]\d{0,15})\n([A-Za-z0-9+/]{43}=)\n"
_REMEDY = "Keep the files as evidence, and ask the party whose head it is."


@dataclass(frozen=True)
class NoteForm:
    """Form of the notes that a reader takes, as expressions.

    Attributes:
        origin: origin in the names of logs.
        signer: signer of the names of keys.
        more: lines that may follow the third line of the text.
    """

    origin: str
    signer: str
    more: str = ""

    @functools.cached_property
    def text(self) -> re.Pattern[str]:
        """Form of the text that is signed."""
        return re.compile(f"({self.origin}){_SIZE_AND_ROOT}({self.more})")

    @functools.cached_property
    def line(self) -> re.Pattern[str]:
        """Form of the line of a signature."""
        return re.compile(f"— ({self.signer}) ([A-Za-z0-9+/]+={{0,2}})")


LEDGERS = NoteForm(_ORIGIN, _ORIGIN)
"""Notes of this project's logs, of which nothing is left out and to which nothing is added."""
ANY_LOG = NoteForm(r"[^\n]+", r"[^\s+]+", r"(?:[^\n]+\n)*")
"""Notes of any log of C2SP, with any further lines."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Head of a log: the number of its leaves, and the root over them.

    Attributes:
        origin: the log, `fedkme.ledger/ROLE/NAME`.
        size: number of leaves; it never falls.
        root: root of RFC 6962, 32 bytes.
        more: lines that another log adds, with their ends; logs of this project add none.
    """

    origin: str
    size: int
    root: bytes
    more: str = ""

    @property
    def text(self) -> str:
        """The text that is signed."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n{self.more}"


def origin_of(role: Role, name: str) -> str:
    """Name of a party's log, and of its key."""
    return f"{PREFIX}{role}/{name}"


CURATORS = origin_of(Role.CURATOR, "")
"""Prefix of the names of curators' logs."""


def check_origin(origin: str) -> None:
    """Check the name of a log.

    Raises:
        LedgerError: no log has such a name.
    """
    if re.fullmatch(_ORIGIN, origin) is None:
        raise _refused("is asked for by a party without a name")


def roots_of(leaves: Iterable[bytes]) -> Iterator[bytes]:
    """Roots of the Merkle trees of RFC 6962, section 2.1, over the first 0, 1, 2, ... leaves."""
    full: _Trees = []
    yield _root(full)
    for leaf in leaves:
        _add(full, leaf)
        yield _root(full)


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Root over all leaves, at two hashes a leaf."""
    full: _Trees = []
    for leaf in leaves:
        _add(full, leaf)
    return _root(full)


_Trees = list[tuple[int, bytes]]
"""Complete subtrees from the left: number of leaves (a power of two), and root."""


def _add(full: _Trees, leaf: bytes) -> None:
    size, root = 1, hashlib.sha256(b"\0" + leaf).digest()
    while full and full[-1][0] == size:
        size, root = 2 * size, hashlib.sha256(b"\1" + full.pop()[1] + root).digest()
    full.append((size, root))


def _root(full: _Trees) -> bytes:
    if not full:
        return hashlib.sha256().digest()
    root = full[-1][1]
    for _, left in full[-2::-1]:
        root = hashlib.sha256(b"\1" + left + root).digest()
    return root


def signature_line(checkpoint: Checkpoint, origin: str, identity: Identity) -> str:
    """Sign a checkpoint, the party's own or another's: a line of a note with its line end.

    Raises:
        LedgerError: the identity's key is not one of `fedkme pki`.
    """
    private = serialization.load_pem_private_key(identity.key, password=None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise LedgerError("the key of the identity is not on an elliptic curve", "Issue it by `fedkme pki`.")
    signature = private.sign(checkpoint.text.encode(), ec.ECDSA(hashes.SHA256()))
    number = _key_number(private.public_key())
    return f"— {origin} {base64.b64encode(number + signature).decode()}\n"


def read_note(note: str, form: NoteForm = LEDGERS) -> tuple[Checkpoint, list[tuple[str, bytes]]]:
    """Parse a note into its checkpoint and its signatures with the names of their keys; verify nothing.

    Raises:
        LedgerError: the text is no note of the form.
    """
    text, separator, below = note.partition("\n\n")
    match = form.text.fullmatch(f"{text}\n")
    lines = [form.line.fullmatch(line) for line in below.splitlines()]
    if not separator or match is None or len(lines) > MOST_LINES or (below and not below.endswith("\n")):
        raise _refused("is no checkpoint of a ledger")
    signatures = []
    for line in lines:
        if line is None:
            raise _refused("has a line that is no signature")
        try:
            signatures.append((line[1], base64.b64decode(line[2], validate=True)))
        except binascii.Error:
            raise _refused("has a signature that is not base64") from None
    checkpoint = Checkpoint(match[1], int(match[2]), base64.b64decode(match[3]), match[4])
    if checkpoint.text != f"{text}\n":
        raise _refused("is not spelled as a checkpoint is")
    return checkpoint, signatures


def check_signature(
    checkpoint: Checkpoint,
    signatures: Sequence[tuple[str, bytes]],
    signer: str,
    chains: Iterable[bytes],
    authority: bytes,
) -> None:
    """Verify a party's signature of a note by the party's certificate.

    Args:
        checkpoint: checkpoint of the note.
        signatures: signatures of the note.
        signer: origin of the signing party's log.
        chains: PEM, each with a party's certificate first. A certificate is checked as of its first day, so
            that it may have expired since.
        authority: PEM of the authorities that the verifier trusts.

    Raises:
        LedgerError: the signature is missing or wrong, or the certificate is another party's, or not of the
            authority.
    """
    wanted = [signature for name, signature in signatures if name == signer]
    for chain in chains:
        number = _key_number(x509.load_pem_x509_certificate(chain).public_key())
        for signature in wanted:
            if signature[:4] == number:
                try:
                    public = public_key(signer, chain, authority)
                    public.verify(signature[4:], checkpoint.text.encode(), ec.ECDSA(hashes.SHA256()))
                except InvalidSignature:
                    raise _refused(f"has a signature that is not of {signer}") from None
                return
    raise _refused(f"is not signed by {signer}")


def chain_of_signer(note: str, signer: str, chains: Iterable[bytes]) -> bytes:
    """Find the chain whose key signed a note for a party; b"" if there is none."""
    numbers = {signature[:4] for name, signature in read_note(note)[1] if name == signer}
    keys = (
        (chain, x509.load_pem_x509_certificate(chain).public_key()) for chain in chains if chains_of(chain)
    )
    return next((chain for chain, key in keys if _key_number(key) in numbers), b"")


def chains_of(pem: bytes) -> list[bytes]:
    """List with the chain that a peer sent; empty if it is no certificate, or too long."""
    if len(pem) > MOST_BYTES:
        return []
    try:
        x509.load_pem_x509_certificate(pem).public_key()
    except MALFORMED:
        return []
    return [pem]


@functools.lru_cache(256)  # most notes have the signers of the previous note; a check costs a millisecond
def public_key(signer: str, chain: bytes, authority: bytes) -> ec.EllipticCurvePublicKey:
    """Key of a party's certificate, checked as of the certificate's first day, not of today.

    Raises:
        LedgerError: the certificate is another party's, or not of the authority.
    """
    role, _, name = signer.removeprefix(PREFIX).partition("/")
    try:
        leaf, *between = x509.load_pem_x509_certificates(chain)
        store = Store(x509.load_pem_x509_certificates(authority))
        policy = PolicyBuilder().store(store).time(leaf.not_valid_before_utc)
        if role == Role.CURATOR:  # whose certificates are servers'
            policy.build_server_verifier(x509.DNSName(name)).verify(leaf, between[:4])
        else:
            policy.build_client_verifier().verify(leaf, between[:4])
        public = leaf.public_key()
    except (*MALFORMED, VerificationError):
        raise _refused("comes with a certificate that is not of this authority") from None
    if name_of(leaf.subject) != name or role_of(leaf) not in (role, None):
        raise _refused(f"comes with a certificate that is not of {signer}")
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise _refused("comes with a certificate whose key is not on an elliptic curve")
    return public


def _key_number(public: CertificatePublicKeyTypes) -> bytes:
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).digest()[:4]


def _refused(why: str) -> LedgerError:
    return LedgerError(f"a head {why}", _REMEDY)
