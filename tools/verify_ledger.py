"""Independent check of ledgers and of the heads that parties keep; it imports nothing of fedkme.

    python verify_ledger.py [--authority AUTHORITY.pem] FILE...

FILE is a ledger (`NAME.jsonl`) or what its party keeps of heads (`NAME.heads`, beside it). docs/formats.md
has the formats. It needs Python 3.10, and the package `cryptography` where signatures are to be verified.
Exit 0: everything that was given agrees; 1: it does not, see the lines that begin with FAULT.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

GENESIS = "0" * 64
LINE = re.compile(r'(?P<body>\{"disclosure":\{.*),"hash":"(?P<hash>[0-9a-f]{64})"\}')
NOTE = re.compile(
    r"(?P<origin>fedkme\.ledger/(?P<role>owner|curator|consumer)/(?P<name>[^\s+/]+))\n"
    r"(?P<size>0|[1-9][0-9]{0,15})\n(?P<root>[A-Za-z0-9+/]{43}=)\n\n(?P<below>(?:[^\n]+\n)*)"
)
SIGNATURE = re.compile(
    r"— (?P<name>fedkme\.ledger/(?P<role>[a-z]+)/(?P<party>[^\s+/]+)) (?P<text>[A-Za-z0-9+/]+={0,2})"
)


class FaultError(Exception):
    """Error for what does not agree."""


def sha256(data: bytes) -> bytes:
    """The digest."""
    return hashlib.sha256(data).digest()


def read_ledger(path: Path) -> tuple[str, list[str]]:
    """The party of a ledger and the hashes of its lines; every line must follow from the one before."""
    party, hashes = "", list[str]()
    text = path.read_bytes().decode("ascii", errors="replace")
    lines = text.split("\n")
    if lines.pop():
        raise FaultError(f"line {len(lines) + 1} has no end")
    if lines and lines[0].startswith('{"archives":'):
        lines[:1] = archived(path.parent, json.loads(lines[0]))
    for number, line in enumerate(lines, start=1):
        match = LINE.fullmatch(line)
        if match is None:
            raise FaultError(f"line {number} is no entry of a ledger")
        body = match["body"] + "}"
        if hashlib.sha256(body.encode()).hexdigest() != match["hash"]:
            raise FaultError(f"line {number} was altered: its hash is another")
        entry = json.loads(body)
        if json.dumps(entry, sort_keys=True, separators=(",", ":")) != body:
            raise FaultError(f"line {number} is not spelled as a ledger spells it")
        if entry["seq"] != number:
            raise FaultError(f"line {number} has number {entry['seq']}: a line is missing, or stands again")
        if entry["previous"] != (hashes[-1] if hashes else GENESIS):
            raise FaultError(f"line {number} does not follow from the line before: one of them was replaced")
        if entry["party"] != (party or entry["party"]):
            raise FaultError(f"line {number} is of {entry['party']}, in the ledger of {party}")
        party = entry["party"]
        hashes.append(match["hash"])
    return party, hashes


def archived(folder: Path, checkpoint: dict[str, Any]) -> list[str]:
    """Lines in the archives that a checkpoint names, which have its digests and end with its hash."""
    lines: list[str] = []
    for named in checkpoint["archives"]:
        content = (folder / named["file"]).read_bytes()
        if sha256(content).hex() != named["sha256"]:
            raise FaultError(f"{named['file']} has another digest than its checkpoint")
        text = gzip.decompress(content).decode("ascii", errors="replace").split("\n")
        lines += text[1 : named["last"] - len(lines) + 1]
    if lines and not lines[-1].endswith(f'"hash":"{checkpoint["hash"]}"}}'):
        raise FaultError("the archives do not end with the line of their checkpoint")
    return lines


class Heads:
    """A file of heads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.openings: list[dict[str, Any]] = []
        self.leaves: dict[str, list[bytes]] = {}
        self.notes: list[str] = []
        self.certificates: list[bytes] = []
        for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), start=1):
            try:
                self._read(json.loads(line))
            except (ValueError, KeyError, TypeError) as error:
                raise FaultError(f"line {number} is none of a file of heads: {error}") from None

    def _read(self, plain: dict[str, Any]) -> None:
        if "opening" in plain:
            opening = plain["opening"]
            if not {"entries", "hash", "heads", "number", "origin", "salt"} == opening.keys() - {"run"}:
                raise ValueError("an opening has other fields")
            self.openings.append(opening)
        elif "leaves" in plain:
            leaves = base64.b64decode(plain["leaves"], validate=True)
            self.leaves[plain["origin"]] = [leaves[at : at + 32] for at in range(0, len(leaves), 32)]
        elif "note" in plain:
            self.notes.append(plain["note"])
        else:
            self.certificates.append(plain["certificates"].encode("ascii"))

    @property
    def origin(self) -> str:
        """Name of the party's own log."""
        return self.openings[-1]["origin"] if self.openings else ""


def roots_of(leaves: list[bytes]) -> list[bytes]:
    """Roots of RFC 6962 over no leaf, one, two, and so on."""
    roots, full = [sha256(b"")], list[tuple[int, bytes]]()
    for leaf in leaves:
        size, root = 1, sha256(b"\0" + leaf)
        while full and full[-1][0] == size:
            size, root = 2 * size, sha256(b"\1" + full.pop()[1] + root)
        full.append((size, root))
        for _, left in reversed(full[:-1]):
            root = sha256(b"\1" + left + root)
        roots.append(root)
    return roots


def _vouches(verifier: Any, leaf: Any, between: list[Any], error: type[Exception]) -> bool:
    try:
        verifier.verify(leaf, between)
    except error:
        return False
    return True


class Authority:
    """Certificates of an authority, and of who signed."""

    def __init__(self, pem: bytes, chains: list[bytes]) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.x509.oid import NameOID
        from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

        store = Store(x509.load_pem_x509_certificates(pem))
        self.keys: dict[tuple[str, bytes], Any] = {}
        for chain in chains:
            leaf, *between = x509.load_pem_x509_certificates(chain)
            name = str(leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
            policy = PolicyBuilder().store(store).time(leaf.not_valid_before_utc)  # it may have expired since
            verifiers = policy.build_client_verifier(), policy.build_server_verifier(x509.DNSName(name))
            if not any(_vouches(verifier, leaf, between, VerificationError) for verifier in verifiers):
                continue
            names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            said = [str(each.value) for each in names]
            roles = [each.removeprefix("fedkme:role:") for each in said if each.startswith("fedkme:role:")]
            der = leaf.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            for role in roles or ["owner", "curator", "consumer"]:
                self.keys[f"fedkme.ledger/{role}/{name}", sha256(der)[:4]] = leaf.public_key()

    def check(self, text: str, origin: str, lines: list[str]) -> None:
        """The origin's own signature must be there, and every one by a known key be right."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec

        signers = set()
        for line in lines:
            match = SIGNATURE.fullmatch(line)
            if match is None:
                raise FaultError("a note has a line that is no signature")
            raw = base64.b64decode(match["text"], validate=True)
            key = self.keys.get((match["name"], raw[:4]))
            if key is None:
                raise FaultError(f"a note is signed as {match['name']}, of whom no valid certificate is here")
            try:
                key.verify(raw[4:], text.encode(), ec.ECDSA(hashes.SHA256()))
            except InvalidSignature:
                raise FaultError(f"a note has a signature that is not of {match['name']}") from None
            signers.add(match["name"])
        if origin not in signers:
            raise FaultError(f"a note of {origin} is not signed by it")


def read_note(note: str, authority: Authority | None) -> tuple[str, int, bytes]:
    """Origin, size and root of a note whose signatures are right."""
    match = NOTE.fullmatch(note)
    if match is None:
        raise FaultError("a note is no checkpoint of a ledger")
    if authority is not None:
        text = note[: note.index("\n\n") + 1]
        authority.check(text, match["origin"], match["below"].splitlines())
    return match["origin"], int(match["size"]), base64.b64decode(match["root"])


def check_log(
    origin: str,
    told: list[tuple[str, int, bytes]],
    heads: list[Heads],
    ledgers: dict[str, tuple[str, list[str]]],
) -> str:
    """One log, wherever any of it is kept; returns what there is to say of it."""
    own = next((each for each in heads if each.origin == origin), None)
    leaves = max((each.leaves.get(origin, []) for each in ([own] if own else heads)), key=len)
    for each in heads:
        theirs = each.leaves.get(origin, [])
        if theirs != leaves[: len(theirs)]:
            raise FaultError(f"{each.path} knows {len(theirs)} heads that are not the first of {len(leaves)}")
    roots = dict(enumerate(roots_of(leaves)))
    for where, size, root in told:
        if own is None:  # who keeps no leaves may know of later heads than who does
            roots.setdefault(size, root)
        if roots.get(size) != root:
            raise FaultError(f"{where} has head {size}, none of {len(leaves)}: cut, changed or restored")
    if own is None:
        return f"{max(roots)} heads, kept by others alone"
    openings = [each for each in own.openings if each["origin"] == origin]
    if [each["number"] for each in openings] != list(range(1, len(leaves) + 1)):
        raise FaultError(f"{own.path} opens {len(openings)} heads of {len(leaves)}")
    for opening, leaf in zip(openings, leaves, strict=True):
        spelled = json.dumps(opening, sort_keys=True, separators=(",", ":"))
        if sha256(spelled.encode("ascii")) != leaf:
            raise FaultError(f"head {opening['number']} is opened as another than it was")
    if str(own.path.with_suffix(".jsonl")) not in ledgers:
        return f"{len(leaves)} heads; the ledger beside {own.path} was not given"
    party, hashes = ledgers[str(own.path.with_suffix(".jsonl"))]
    role, name = origin.split("/")[1:]
    if hashes and party != ("curator" if role == "curator" else name):
        raise FaultError(f"the ledger beside {own.path} is of {party}")
    last = 0
    for opening in openings:
        last = opening["entries"]
        if last > len(hashes):
            raise FaultError(f"head {opening['number']} is of {last} lines, and the ledger has {len(hashes)}")
        if last and hashes[last - 1] != opening["hash"]:
            raise FaultError(f"line {last} is another than that of head {opening['number']}")
    return f"{len(leaves)} heads, the ledger goes through all; {len(hashes) - last} lines after the last"


def verify(paths: list[Path], authority_pem: bytes | None = None) -> list[str]:
    """Findings, a line each; faults begin with FAULT."""
    said: list[str] = []
    ledgers: dict[str, tuple[str, list[str]]] = {}
    heads: list[Heads] = []
    for path in paths:
        try:
            if path.suffix == ".heads":
                heads.append(Heads(path))
            else:
                ledgers[str(path)] = party, hashes = read_ledger(path)
                said.append(f"OK    {path}: {len(hashes)} lines of {party or 'nobody'}")
        except (FaultError, OSError, UnicodeDecodeError) as fault:
            said.append(f"FAULT {path}: {fault}")
    chains = [chain for each in heads for chain in each.certificates]
    authority = None if authority_pem is None else Authority(authority_pem, chains)
    told: dict[str, list[tuple[str, int, bytes]]] = {}
    for each in heads:
        for note in each.notes:
            try:
                origin, size, root = read_note(note, authority)
                told.setdefault(origin, []).append((str(each.path), size, root))
            except FaultError as fault:
                said.append(f"FAULT {each.path}: {fault}")
        for opening in each.openings:
            where = f"head {opening['number']} in {each.path}"
            for origin, size, root in opening["heads"]:
                told.setdefault(origin, []).append((where, size, base64.b64decode(root)))
    for origin in sorted({*told, *(origin for each in heads for origin in each.leaves)}):
        try:
            said.append(f"OK    {origin}: {check_log(origin, told.get(origin, []), heads, ledgers)}")
        except FaultError as fault:
            said.append(f"FAULT {origin}: {fault}")
    return said


def main() -> int:
    """Check what the command line names."""
    parser = argparse.ArgumentParser(description="Check ledgers and heads, without any of fedkme's code.")
    parser.add_argument("--authority", type=Path, help="authority.pem, to verify signatures")
    parser.add_argument("files", nargs="+", type=Path, help="NAME.jsonl and NAME.heads")
    given = parser.parse_args()
    said = verify(given.files, None if given.authority is None else given.authority.read_bytes())
    print("\n".join(said) or "nothing was checked")
    if given.authority is None:
        print("signatures were not verified: give --authority")
    return int(not said or any(line.startswith("FAULT") for line in said))


if __name__ == "__main__":
    sys.exit(main())
