"""`fedkme doctor` explains faults of configuration, files, certificates and connection."""

from __future__ import annotations

import datetime
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK, Role
from fedkme.store import open_store
from fedkme.tables.schema import load_schema
from operate.doctor import network
from operate.doctor.cli import app
from operate.doctor.network import _of_party
from tests.ops.parties import Site
from tests.system.lives import PORTS

POLICY = "[policy]\nmost_rows = 100\n[[policy.budgets]]\nepsilon = 4.0\ndelta = 1e-6\n"


def doctor(path: Path | None) -> tuple[int, list[dict[str, Any]]]:
    arguments = [] if path is None else [str(path)]
    result = CliRunner().invoke(app, [*arguments, "--json"])
    answer = json.loads(result.stdout)
    assert answer["code"] == result.exit_code
    plain = CliRunner().invoke(app, arguments)
    assert plain.exit_code == result.exit_code
    assert len(plain.stdout.splitlines()) == len(answer["findings"])  # "one line each"
    return result.exit_code, answer["findings"]


def states(findings: list[dict[str, Any]]) -> dict[str, str]:
    """States by check; of several states the worst."""
    worst = ("ok", "warn", "fail")
    states_by_check: dict[str, str] = {}
    for finding in findings:
        states_by_check[finding["check"]] = max(
            finding["state"], states_by_check.get(finding["check"], "ok"), key=worst.index
        )
    return states_by_check


def test_doctor_accepts_this_installation() -> None:
    code, findings = doctor(None)
    assert code == 0
    assert states(findings)["packages"] == states(findings)["ports"] == "ok"


def test_a_party_without_faults_has_no_failures(site: Site) -> None:
    # Against a real curator; nothing is written, and no party joins.
    curator = site.curator('owners = ["north"]')
    for party, text in (("north", POLICY), ("consumer", "")):
        path = site.write(party, text)
        before = sorted(site.folder.rglob("*"))
        code, findings = doctor(path)
        assert code == 0
        assert {state for check, state in states(findings).items() if check != "expiry"} == {"ok"}
        checks = {"configuration", "certificate", "expiry", "chain", "modes", "schema", "data"}
        assert (
            checks | {"dns", "port", "tls", "health", "version", "clock", "schemas"}
            <= states(findings).keys()
        )
        assert sorted(site.folder.rglob("*")) == before
    assert not [line for line in curator.events() if line["event"] in ("owner_joined", "refused")]


@pytest.mark.parametrize("party", ["north", "consumer"])
def test_a_schema_that_differs_in_one_bound_is_found(site: Site, party: str) -> None:
    # Issue 36, item 6: such a party passed doctor, joined, and was out of every run.
    site.curator('owners = ["north"]')
    theirs = (site.folder / "schema.toml").read_text()
    other = theirs.replace("bounds = [0, 120]", "bounds = [0, 121]")
    assert other != theirs
    (site.folder / "other.toml").write_text(other)
    code, findings = doctor(site.write(party, 'schema_file = "other.toml"'))
    fault = next(finding for finding in findings if finding["state"] == "fail")
    assert (fault["check"], code) == ("schemas", 11)
    digests = [load_schema(site.folder / name).digest()[:8] for name in ("schema.toml", "other.toml")]
    assert f"of digests {digests[0]} and {digests[1]}" in fault["line"]
    assert fault["remedy"].startswith("Give both the same schema file")


def test_doctor_checks_a_curator(site: Site) -> None:
    site.revoke(1)
    (site.folder / "runs").mkdir()
    open_store(site.folder / "runs" / "journal.db", "curator").close()
    code, findings = doctor(site.write("curator", 'revoked = "revoked.pem"\njournal = "runs/journal.db"'))
    assert code == 0
    assert set(states(findings).values()) == {"ok"}
    code, findings = doctor(site.write("curator"))
    assert (code, states(findings)["revocation"]) == (0, "warn")


def other_name(site: Site) -> None:
    (site.folder / "south.pem").replace(site.folder / "north.pem")


def other_role(site: Site) -> None:
    (site.folder / "north.pem").unlink()
    site.issue("north", Role.CONSUMER)


def expired(site: Site) -> None:
    old = Authority(datetime.timedelta(minutes=1)).issue("north", role=Role.OWNER)
    old.save_bundle(site.folder / "north.pem", over=True)


def other_authority(site: Site) -> None:
    identity = Authority().issue("north", role=Role.OWNER)
    ours = site.authority.issue("north").authority
    (site.folder / "north.pem").write_bytes(identity.key + identity.certificate + ours)


FAULTS: list[tuple[Callable[[Site], object], str, str, int]] = [
    (lambda site: (site.folder / "schema.toml").unlink(), "", "schema", 10),
    (lambda site: (site.folder / "schema.toml").write_text("columns = 3"), "", "schema", 11),
    (lambda site: (site.folder / "north.csv").write_text("age,smoker,ill\n999,yes,no\n"), "", "data", 12),
    (lambda site: (site.folder / "north.csv").unlink(), "", "data", 12),
    (lambda site: (site.folder / "north.pem").chmod(0o644), "", "modes", 33),
    (lambda site: (site.folder / "north.pem").unlink(), "", "certificate", 33),
    (other_name, "", "certificate", 33),
    (other_role, "", "certificate", 33),
    (expired, "", "certificate", 33),
    (other_authority, "", "chain", 33),
    (lambda site: None, '[policy]\ncolumns = ["age"]\n', "policy", 54),
    (lambda site: None, 'lisen = "x"\n', "configuration", 10),
    (lambda site: None, 'name_of = "nobody"\n', "configuration", 10),
    (lambda site: (site.folder / "north.db").write_bytes(b"nonsense" * 200), "", "journal", 53),
    (lambda site: open_store(site.folder / "north.db", "south").close(), "", "journal", 53),
]


@pytest.mark.parametrize(("spoil", "text", "check", "code"), FAULTS)
def test_a_fault_is_found_and_has_a_remedy(
    site: Site, spoil: Callable[[Site], object], text: str, check: str, code: int
) -> None:
    # The exit status is the error code of the first failing check.
    site.address = f"127.0.0.1:{next(PORTS)}"
    spoil(site)
    path = site.write("north", text)
    exit_code, findings = doctor(path)
    first = next(finding for finding in findings if finding["state"] == "fail")
    assert (first["check"], first["code"], exit_code) == (check, code, code), first
    assert first["remedy"]
    assert "999" not in first["line"]


def test_each_step_to_the_curator_fails_by_itself(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # Steps after a failed step are not tried.
    def first_fault() -> tuple[str, int]:
        code, findings = doctor(site.write("north"))
        fault = next(finding for finding in findings if finding["state"] == "fail")
        assert findings[-1] == fault
        return fault["check"], code

    monkeypatch.setattr(network, "STEP_S", 30.0)
    site.address = "nowhere.invalid:7700"
    assert first_fault() == ("dns", 34)
    site.address = f"127.0.0.1:{next(PORTS)}"
    assert first_fault() == ("port", 34)
    site.address = "127.0.0.1:0"
    for identity in (
        Authority().issue("curator", LOOPBACK, Role.CURATOR),
        site.authority.issue("curator", ["curator.example.org"], Role.CURATOR),
    ):
        identity.save_bundle(site.folder / "curator.pem", over=True)
        curator = site.curator()
        assert first_fault() == ("tls", 33)
        curator.process.kill()
        curator.ended()


def test_a_wrong_clock_is_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.curator()
    now = time.time

    def apart(seconds: float) -> tuple[int, str]:
        clock = SimpleNamespace(time=lambda: now() + seconds)
        monkeypatch.setattr("operate.doctor.network.time", clock)
        code, findings = doctor(site.write("north"))
        return code, states(findings)["clock"]

    assert apart(0) == (0, "ok")
    assert apart(-60) == (0, "warn")
    assert apart(3600) == (33, "fail")


def test_packages_are_named_with_the_host_that_needs_them(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Before the run, and only on the host that needs the packages.
    def said(party: str, text: str) -> tuple[int, list[str]]:
        code, findings = doctor(site.write(party, text))
        return code, [finding["line"] for finding in findings if finding["check"] == "packages"]

    site.curator()
    (site.folder / "test.csv").write_text((site.folder / "validation.csv").read_text())
    judged = 'downstream = true\ntest = "test.csv"'
    scikit = "scikit-learn, needed on this host to train models on the summary (`downstream`), is "
    assert said("consumer", judged) == (0, [scikit + "installed"])
    assert said("consumer", 'test = "test.csv"') == (0, [])
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sklearn", None)
        patch.setattr("importlib.util.find_spec", lambda name: None)
        assert said("consumer", judged) == (13, [scikit + "not installed"])
        lines = said("curator", "")[1]
        assert "releases by balog2, hermite, merf are refused" in lines[0]


def test_doctor_checks_a_simulation(tmp_path: Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text('[scenario]\nkind = "digits"\n[summary]\np = 10\n')
    assert doctor(path)[0] == 0
    path.write_text('[scenario]\nkind = "digits"\n[summary]\nq = 10\n')
    assert doctor(path)[0] == 10


def test_doctor_says_when_the_authority_ends_too() -> None:
    identity = Authority(datetime.timedelta(minutes=6)).issue("north", role=Role.OWNER)  # five are over
    findings = [each for each in _of_party(identity, "owner", "north") if each.check == "expiry"]
    assert [each.state for each in findings] == ["warn", "warn"]
    assert "the certificate of the authority " in findings[1].line
    assert findings[1].remedy == "Renew it (docs/pki.md)."
