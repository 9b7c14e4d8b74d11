"""Keys of a secure release are those of owners' certificates, over mutual TLS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from curator.sums.session import SumSession
from fedkme.errors import QuorumError, SecureAggregationError
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK, Role
from fedkme.secagg.signing import KeyBinding, bind, verify_binding
from tests.system.launches import read_json
from tests.system.release_market import OWNERS, SECURE, come, faults, release_market

AUTHORITY = Authority()
PARTIES = {name: AUTHORITY.issue(name, role=Role.OWNER) for name in OWNERS}
BROKER = AUTHORITY.issue("curator", LOOPBACK, Role.CURATOR)
STOLEN = Ed25519PrivateKey.generate()
"""Signing key of a curator that puts it in the place of an owner's."""
BINDINGS: dict[str, Callable[[str], KeyBinding]] = {
    "without a certificate": lambda run: KeyBinding(
        b"", STOLEN.public_key().public_bytes_raw(), b"", OWNERS[1]
    ),
    "of the curator's certificate": lambda run: bind(BROKER, STOLEN.public_key(), run),
    "of another owner's": lambda run: bind(PARTIES[OWNERS[2]], STOLEN.public_key(), run),
    "of another authority": lambda run: bind(
        Authority().issue(OWNERS[1], role=Role.OWNER), STOLEN.public_key(), run
    ),
    "of another aggregation": lambda run: bind(PARTIES[OWNERS[1]], STOLEN.public_key(), f"{run}0"),
}
"""Signing keys that a curator says are the second owner's."""


@pytest.mark.parametrize("lie", [None, *BINDINGS])
async def test_keys_of_a_roster_are_bound_to_certificates_over_mutual_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str | None
) -> None:
    # With certificates no owner believes a curator about another's signing key: nothing leaves under masks.
    said, masks = list[KeyBinding](), list[str]()
    advertise, mask = SumSession.advertise, SumSession.mask

    async def told(self: SumSession, number: int, keys: Sequence[KeyBinding]) -> Any:
        run = f"run-1/{number}"
        odd = [] if lie is None else [BINDINGS[lie](run)]
        said[:] = [keys[0], *(odd or keys[1:2]), *keys[2:]]
        return await advertise(self, number, said)

    async def masked(self: SumSession, *arguments: Any) -> Any:
        masks.append(self.name)
        return await mask(self, *arguments)

    monkeypatch.setattr(SumSession, "advertise", told)
    monkeypatch.setattr(SumSession, "mask", masked)
    for name, identity in {**PARTIES, "curator": BROKER}.items():
        identity.save_bundle(tmp_path / f"{name}.pem")
    AUTHORITY.issue("lab", role=Role.CONSUMER).save_bundle(tmp_path / "lab.pem")
    async with release_market(tmp_path, SECURE, identity=tmp_path / "curator.pem") as at:
        for name in OWNERS:
            come(at, name, identity=tmp_path / f"{name}.pem")
        asking = at.asks(name="lab", identity=tmp_path / "lab.pem")
        if lie is None:
            await asking
        else:
            with pytest.raises((QuorumError, SecureAggregationError)):
                await asking
    record = read_json(at.run() / "record.json")
    assert [fault["owner"] for fault in record["faults"]] == ([] if lie is None else list(OWNERS))
    assert sorted(masks) == (list(OWNERS) if lie is None else [])
    if lie is None:
        for owner, binding in zip(OWNERS, said, strict=True):
            assert verify_binding(binding, AUTHORITY.pem, "run-1/1")[0] == owner
    assert not faults(tmp_path)
