"""Issue 4, 'Hosts in tests': a fenced impostor, an expired certificate, another authority."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pytest

from fedkme.pki.authority import new_key
from fedkme.pki.certificates import Role
from fedkme.pki.folder import AuthorityFolder
from tests.fedkme.pki.verbs import pki
from tests.hosts.parties import Site

FENCED, IDENTITY = 35, 33


def test_a_second_process_with_the_same_certificate_fences_the_first(site: Site) -> None:
    # "a second process with the same identity fences the first, with a line on both sides"
    curator = site.curator()
    first = site.owner("north")
    first.until("joined")
    shutil.copytree(site.home("north"), site.folder / "attic", ignore=shutil.ignore_patterns("north.db*"))
    impostor = site.owner("north", host="attic", journal=str(site.folder / "attic" / "north.db"))
    impostor.until("joined")
    assert first.ended() == FENCED
    assert first.said("failed")[0]["code"] == FENCED
    assert "another process of north has joined" in first.said("failed")[0]["cause"]
    said = curator.until("fenced")
    assert (said["owner"], said["epoch"]) == ("north", 2)
    again = site.owner("north")
    again.until("joined")
    assert impostor.ended() == FENCED


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
    stranger = site.owner("north", identity=str(bad))
    assert stranger.ended() == IDENTITY
    (line,) = stranger.said("failed")
    assert line["code"] == IDENTITY
    assert any(word in line["cause"] for word in words.split("|")), line
    assert not curator.said("owner_joined")
    site.owner("south").until("joined")
