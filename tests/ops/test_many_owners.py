"""Many owners in one process (docs/decisions/024-many-owners-and-clusters.md)."""

from __future__ import annotations

import contextlib
import resource
import signal
from itertools import accumulate
from pathlib import Path

import pytest

from fedkme.errors import ConfigError, IdentityError, PartyFailedError, StoreError
from fedkme.pki.certificates import Role
from fedkme.store.reading import read_store
from operate.doctor.cli import examine
from owner.many import JOINING, check_descriptors, files_of, most_owners
from owner.settings import OwnerSettings
from tests.ops.parties import Party, Site, rows
from tests.parties import owner_values

NAMES = ("north", "south", "west")


@pytest.fixture
def three(site: Site) -> Site:
    """A site with a third owner."""
    site.issue("west", Role.OWNER)
    (site.folder / "west.csv").write_text(rows(range(60, 75)))
    return site


def together(site: Site, *names: str) -> Party:
    """Start owners in one process."""
    return site.call("owner", "join", *[site.write(name) for name in names])


def said(party: Party, event: str) -> list[str]:
    """Names of the parties that logged an event, sorted."""
    return sorted(line["party"] for line in party.events() if line["event"] == event)


def test_three_owners_take_part_and_end_together(three: Site) -> None:
    # Each has its own certificate, journal, policy and budget; SIGTERM ends all of them.
    three.curator(f"owners = {list(NAMES)}\nruns_at_once = 1".replace("'", '"'))
    owners = together(three, *NAMES)
    owners.until("joined", 3)
    assert three.consumer(4).ended() == 0
    owners.process.send_signal(signal.SIGTERM)
    assert owners.ended() == 0
    assert said(owners, "loaded") == said(owners, "joined") == sorted(NAMES)
    for name in NAMES:  # each has written of itself alone
        with contextlib.closing(read_store(str(three.folder / f"{name}.db"), name)) as store:
            assert store.runs()
            assert {f'"{name}"' in row.line for row in store.ledger()} == {True}


def test_owners_load_rows_as_others_are_let_in(site: Site) -> None:
    # 1,000 owners that loaded at once kept the curator waiting for hellos, and it refused most of them.
    names = [f"owner-{number:02}" for number in range(JOINING + 4)]
    for name in names:
        site.issue(name, Role.OWNER)
        (site.folder / f"{name}.csv").write_text(rows(range(4)))
    site.curator(f"owners = {names}".replace("'", '"'))
    owners = together(site, *names)
    owners.until("joined", len(names))
    steps = [line["event"] for line in owners.events() if line["event"] in ("loaded", "joined")]
    assert max(accumulate(1 if step == "loaded" else -1 for step in steps)) <= JOINING


def test_a_revoked_owner_does_not_stop_the_others(three: Site) -> None:
    three.revoke(1, "west")
    three.curator('owners = ["north", "south"]\nrevoked = "revoked.pem"')
    owners = together(three, *NAMES)
    owners.until("joined", 2)
    refused = owners.until("failed")
    assert (refused["party"], refused["code"]) == ("west", IdentityError.code)
    assert three.consumer(4).ended() == 0
    owners.process.send_signal(signal.SIGTERM)
    assert owners.ended() == 0
    assert said(owners, "joined") == ["north", "south"]


@pytest.mark.parametrize(
    ("file", "code"), [("west.db", StoreError.code), ("west.toml", ConfigError.code)], ids=["journal", "file"]
)
def test_an_owner_with_damaged_files_does_not_stop_the_others(three: Site, file: str, code: int) -> None:
    three.curator('owners = ["north", "south"]\nruns = 1')
    configurations = [three.write(name) for name in NAMES]
    (three.folder / file).write_text("this is none of it")
    owners = three.call("owner", "join", *configurations)
    failed = owners.until("failed")
    assert (failed["party"], failed["code"]) == ("west", code)
    owners.until("joined", 2)
    assert three.consumer(4).ended() == 0
    assert owners.ended() == PartyFailedError.code  # the curator said farewell; one of them had failed


def test_two_owners_with_one_name_are_refused_before_they_join(three: Site) -> None:
    first = three.write("north")
    second = three.folder / "again.toml"
    second.write_text(first.read_text(encoding="utf-8"), encoding="utf-8")
    owners = three.call("owner", "join", first, second)
    assert owners.ended() == ConfigError.code
    assert "called north" in "".join(owners.lines)


def test_a_folder_stands_for_its_files(tmp_path: Path) -> None:
    for name in ("b.toml", "a.toml", "a.csv"):
        (tmp_path / name).touch()
    other = tmp_path / "a.csv"
    (tmp_path / "schema.toml").write_text('[[columns]]\nkind = "numeric"\nname = "x"\n')
    assert files_of([tmp_path, other]) == (tmp_path / "a.toml", tmp_path / "b.toml", other)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"has no \*\.toml"):
        files_of([tmp_path / "empty"])


def test_owners_beyond_the_limit_of_descriptors_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    owner = OwnerSettings(**owner_values(tmp_path, "a", "127.0.0.1:1"))
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (64, 128))
    assert most_owners() == 11
    assert "of 128" in check_descriptors([owner] * 11)
    with pytest.raises(ConfigError, match="12 owners need 130 file descriptors"):
        check_descriptors([owner] * 12)
    larger = owner.model_copy(update={"log_file": tmp_path / "log", "metrics": "127.0.0.1:0"})
    with pytest.raises(ConfigError, match="7 owners need 131 file descriptors"):
        check_descriptors([larger] * 7)


def test_doctor_looks_at_each_owner_of_a_folder_and_at_all_of_them(three: Site) -> None:
    folder = three.folder / "owners"
    folder.mkdir()
    for name in ("north", "south"):
        text = three.write(name).read_text(encoding="utf-8")
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    findings = list(examine(folder))
    lines = [finding.line for finding in findings if finding.check == "configuration"]
    assert [line.partition(" ")[0] for line in lines] == ["north.toml", "south.toml"]
    (descriptors,) = [finding for finding in findings if finding.check == "descriptors"]
    assert descriptors.state == "ok"
    assert descriptors.line.startswith("2 owners need 75 ")
