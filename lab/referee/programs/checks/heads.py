"""Checkpoints of sigstore-conformance: right is what a reader takes or refuses as the vector says."""

from __future__ import annotations

import base64
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any


def vectors(root: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    """Name, log entry and log of test vectors about checkpoints, and of valid ones."""
    assets = root / "test" / "assets" / "bundle-verify"
    own = {path.parent.name: _logs(path) for path in assets.glob("*/trusted_root.json")}
    every = {number: log for logs in own.values() for number, log in logs.items()}
    for path in sorted(assets.glob("*/bundle.sigstore.json")):
        name = path.parent.name
        if "checkpoint" in name or not name.endswith(
            "_fail"
        ):  # what fails elsewhere says nothing of its head
            for entry in json.loads(path.read_text(encoding="utf-8"))["verificationMaterial"]["tlogEntries"]:
                if "checkpoint" in entry.get("inclusionProof", {}):
                    yield name, entry, own.get(name, every).get(entry["logId"]["keyId"])


def _logs(path: Path) -> dict[str, dict[str, Any]]:
    return {log["logId"]["keyId"]: log for log in json.loads(path.read_text(encoding="utf-8"))["tlogs"]}


def ours(entry: dict[str, Any], log: dict[str, Any]) -> bool:
    """Check the note's form, the log's signature, and that it is of the proof's tree, by fedkme.heads."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    from fedkme.errors import LedgerError
    from fedkme.heads.notes import ANY_LOG, read_note

    proof = entry["inclusionProof"]
    try:
        checkpoint, signatures = read_note(proof["checkpoint"]["envelope"], ANY_LOG)
    except LedgerError:
        return False
    if (checkpoint.size, checkpoint.root) != (int(proof["treeSize"]), base64.b64decode(proof["rootHash"])):
        return False
    number = base64.b64decode(entry["logId"]["keyId"])[:4]
    public = load_der_public_key(base64.b64decode(log["publicKey"]["rawBytes"]))
    for name, signature in signatures:
        if signature[:4] != number or not checkpoint.origin.startswith(name):
            continue
        try:
            if isinstance(public, ed25519.Ed25519PublicKey):
                public.verify(signature[4:], checkpoint.text.encode())
            else:
                assert isinstance(public, ec.EllipticCurvePublicKey)
                public.verify(signature[4:], checkpoint.text.encode(), ec.ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True
    return False


def sigstore(entry: dict[str, Any], log: dict[str, Any]) -> bool:
    """Check the same by sigstore's Python client: the part of it that a verification runs."""
    trust, rekor = (
        importlib.import_module(f"sigstore._internal.{name}") for name in ("trust", "rekor.checkpoint")
    )
    keys = importlib.import_module("sigstore_models.common.v1")
    errors = importlib.import_module("sigstore.errors")
    proof = entry["inclusionProof"]
    inner = SimpleNamespace(
        inclusion_proof=SimpleNamespace(
            checkpoint=SimpleNamespace(envelope=proof["checkpoint"]["envelope"]),
            root_hash=base64.b64decode(proof["rootHash"]),
        ),
        log_id=SimpleNamespace(key_id=base64.b64decode(entry["logId"]["keyId"])),
    )
    keyring = trust.RekorKeyring(trust.Keyring([keys.PublicKey.from_json(json.dumps(log["publicKey"]))]))
    try:
        rekor.verify_checkpoint(keyring, SimpleNamespace(_inner=inner))
    except errors.VerificationError:
        return False
    return True


def main(folder: Path) -> None:
    """Count the vectors that are right."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    is_taken = {"ours": ours, "sigstore": sigstore}[task["options"]["reader"]]
    right = 0
    for name, entry, log in vectors(Path(task["given"]["sigstore-conformance"])):
        if log is None:
            print(f"{name}: no root of trust in the folder has its log")
            continue
        well = is_taken(entry, log) == (not name.endswith("_fail"))
        right += well
        print(f"{name}: {'right' if well else 'wrong'}")
    (folder / "figures.json").write_text(json.dumps({"checkpoint vectors right": right}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
