"""An owner's process in runs of sums: its files, its certificate and the list of revoked certificates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedkme.directives import SigningKeys
from fedkme.errors import FedkmeError, IdentityError, StoppingError
from fedkme.ops.supervision import StatusReporter
from fedkme.pki.identity import Identity
from fedkme.secagg.signing import KeyBinding
from fedkme.tables.files import save_table
from fedkme.wire import sums as wire
from fedkme.wire.v1 import owners_pb2 as pb
from owner.agent import join
from owner.runs import RunManager
from owner.settings import OwnerSettings
from tests.fedkme.pki.verbs import pki
from tests.owner.consent.host import NAME, SCHEMA, configured, rows
from tests.owner.over_wire import OverWire
from tests.owner.sums.owner_parties import (
    NAMES,
    NOISY,
    QUERY,
    Asker,
    Together,
    fault_of,
    parameters,
    sum_responder,
)

Ask = Any


def settings(folder: Path, **changes: Any) -> OwnerSettings:
    (folder / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    save_table(folder / "rows.npz", rows())
    return configured(folder).model_copy(update={"curator": "127.0.0.1:1", **changes})


async def ask_owner(owner: OwnerSettings, ask: Ask) -> None:
    """Ask an owner's process as a curator does, without a network; then the process stops."""

    class Asked(RunManager):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            host: Any = self
            ask(Asker(host))
            raise StoppingError("it was asked", "Nothing.")

        @property
        def wired(self) -> OverWire:
            return OverWire(self)

    with pytest.raises(StoppingError):
        await join(owner, StatusReporter(NAME, supervised=False), make=Asked)


async def test_an_owners_process_takes_part(tmp_path: Path) -> None:
    def ask(curator: Asker) -> None:
        assert curator.enlist() is None
        assert not isinstance(curator.embed(1), FedkmeError)
        secure = Asker(curator.at, "s")
        assert secure.enlist(security=NOISY) is None
        key = secure.propose(1, parameters(run="s/1"))
        assert isinstance(key, KeyBinding)
        assert key.owner == NAME

    await ask_owner(settings(tmp_path), ask)
    await ask_owner(settings(tmp_path), lambda curator: _goes_on(curator))


def _goes_on(curator: Asker) -> None:
    assert not isinstance(curator.embed(1, seq=2), FedkmeError)
    lost = fault_of(curator.at.wired.answer(pb.Directive(at=pb.Position(run="s", round=1, seq=2))))
    assert "its secrets died with its process" in str(lost)


async def test_signing_keys_of_others_are_held_to_the_list_of_revoked_certificates(tmp_path: Path) -> None:
    # The list is read again for each check: a certificate that is revoked later is refused, too.
    authority = tmp_path / "ca"
    pki("init", authority)
    for name in NAMES:
        pki("issue", name, "--authority", authority, "--out", tmp_path / f"{name}.pem", "--role", "owner")
    listed = tmp_path / "ca" / "revoked.pem"
    identities = {name: Identity.load(tmp_path / f"{name}.pem") for name in NAMES}
    others = [sum_responder(name, identity=identities[name]) for name in NAMES[1:]]
    everybody = Together(others, NOISY)

    def ask(curator: Asker) -> None:
        assert curator.enlist(security=NOISY) is None
        for number, revokes in ((1, False), (2, True)):
            agreed = parameters(number)
            own = curator.propose(number, agreed)
            assert isinstance(own, KeyBinding)
            assert own.chain == identities[NAME].certificate
            keys = [own, *everybody.keys(number, agreed, QUERY)]
            if revokes:
                pki("revoke", "owner-3", "--authority", authority)
            fault = fault_of(curator.step(number, keys=wire.KEYS.to_wire(SigningKeys(tuple(keys)))))
            assert isinstance(fault, IdentityError) is revokes
            assert (fault is None) is not revokes

    identity = {"identity": tmp_path / f"{NAME}.pem", "plaintext": False}
    await ask_owner(settings(tmp_path, revoked=listed, **identity), ask)
    listed.write_bytes(b"")
    with pytest.raises(IdentityError, match="no revocation list"):
        await join(settings(tmp_path, revoked=listed, **identity), StatusReporter(NAME, supervised=False))
