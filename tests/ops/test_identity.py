"""A party's certificate: read at each dial, with a warning from 14 days before its end (docs/pki.md)."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from fedkme.errors import IdentityError
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.wire.dial import own_identity
from tests.parties import Transcript


def test_an_identity_is_read_at_each_dial(tmp_path: Path) -> None:
    ear, authority, path = Transcript("north"), Authority(), tmp_path / "north.pem"
    first = authority.issue("north", role=Role.OWNER)
    first.save_bundle(path)
    own = own_identity(path, ear)
    assert own is not None
    assert own.current() == first
    assert not ear.said
    second = authority.issue("north", role=Role.OWNER)
    second.save_bundle(path, over=True)
    assert own.current() == second
    assert [event for event, _ in ear.said] == ["certificate_renewed"]
    path.write_bytes(b"nonsense")
    assert own.current() == second  # a spoilt file does not end a party that has a good identity
    assert [event for event, _ in ear.said] == ["certificate_renewed", "certificate_not_renewed"]
    assert "north.pem" in ear.said[1][1]["line"]


def test_an_identity_that_ends_soon_is_warned_about(tmp_path: Path) -> None:
    ear, path = Transcript("north"), tmp_path / "north.pem"
    Authority(datetime.timedelta(minutes=6)).issue("north").save_bundle(path)  # five of them are over
    own_identity(path, ear)
    assert [event for event, _ in ear.said] == ["warning", "warning"]
    assert ear.said[0][1]["line"].startswith("the certificate of north ends on ")
    assert ear.said[1][1]["line"].startswith("the certificate of the authority ")


def test_plaintext_has_no_identity() -> None:
    assert own_identity(None, Transcript("north")) is None


@pytest.mark.parametrize("folder", [False, True])
def test_a_key_that_everybody_can_read_is_refused_at_a_start(tmp_path: Path, folder: bool) -> None:
    path = tmp_path / "north"
    identity = Authority().issue("north", role=Role.OWNER)
    identity.save(path) if folder else identity.save_bundle(path)
    key = path / "key.pem" if folder else path
    key.chmod(0o644)
    with pytest.raises(IdentityError, match=re.escape(f"can read the key in {key} (mode 0644)")) as refused:
        own_identity(path, Transcript("north"))
    assert refused.value.remedy == f"Run `chmod 600 {key}`."
    key.chmod(0o640)  # its group may be the service's
    assert own_identity(path, Transcript("north")) is not None
