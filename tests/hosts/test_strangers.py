"""Issue 4, 'Hosts in tests': an expired certificate, another authority."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from fedkme.pki.authority import new_key
from fedkme.pki.certificates import Role
from fedkme.pki.folder import AuthorityFolder
from tests.fedkme.pki.verbs import pki
from tests.hosts.parties import Site

IDENTITY = 33


@pytest.mark.parametrize(
    ("kind", "words"),
    [("expired", "has expired"), ("another authority", "does not|is not|has no certificate of")],
)
def test_a_certificate_that_does_not_count(
    site: Site, identities: Path, tmp_path: Path, kind: str, words: str
) -> None:
    # "an expired certificate", "wrong CA": one line with the cause, code 33, and the curator serves others.
    bad = tmp_path / "bad.pem"
    if kind == "expired":
        with AuthorityFolder(identities / "ca").open(lambda: b"") as signing:
            gone = datetime.timedelta(seconds=-1)
            signing.issue("north", (), Role.OWNER, gone, new_key(), again=True).save_bundle(bad)
    else:
        pki("init", tmp_path / "ca")
        pki("issue", "north", "--authority", tmp_path / "ca", "--out", bad)
    curator = site.curator()
    stranger = site.owner("north", identity=str(bad), connect_s=10.0)
    assert stranger.ended() == IDENTITY
    (line,) = stranger.said("failed")
    assert line["code"] == IDENTITY
    assert any(word in line["cause"] for word in words.split("|")), line
    assert not curator.said("owner_joined")
    site.owner("south").until("joined")
