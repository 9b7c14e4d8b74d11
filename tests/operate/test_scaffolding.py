"""`fedkme new` and `fedkme kit`: their files are valid, and only a person's part is left to do."""

from __future__ import annotations

import getpass
import gzip
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedkme.config import load_toml
from fedkme.errors import ConfigError, DataError
from operate.cli import _load
from operate.configuration import read_configuration, role_of
from operate.doctor.cli import examine
from sim.config import load_simulation
from sim.progress import Follower
from sim.release_config import load_planned
from sim.run import rows_of
from sim.scenarios import build_scenario
from tests.hosts.parties import COMMAND, environment


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def typed(line: str) -> str:
    verb, *words = shlex.split(line)
    result = CliRunner().invoke(_load(verb), words)
    assert result.exit_code == 0, f"{result.output} {result.exception}"
    return result.stdout


def test_a_new_scenario_can_be_run_as_it_is() -> None:
    typed("new scenario trial")
    settings = load_simulation("trial/scenario.toml")
    scenario = build_scenario(settings.scenario, settings.seed)
    assert sorted(scenario.owners) == ["north", "south"]
    assert len(scenario.validation) == 60
    assert Path("trial/scenario.toml").read_text().count("#") > 5


def test_a_scenario_of_own_files_reads_each_as_it_is_written() -> None:
    typed("new scenario trial")
    Path("North Site.csv").write_text(Path("trial/north.csv").read_text().replace(",", ";"))
    Path("trial/south.csv").rename("trial/Köln.csv")
    files = "'North Site.csv' trial/Köln.csv --schema trial/schema.toml"
    typed(f"new scenario study {files} --validation trial/validation.csv --test trial/Köln.csv")
    scenario = build_scenario(load_simulation("study/scenario.toml").scenario, 0)
    assert sorted(scenario.owners) == ["koln", "north-site"]
    assert (len(scenario.validation), len(scenario.test)) == (60, 200)
    rows = Path("trial/north.csv").read_text()
    Path("north.2024.tsv.gz").write_bytes(gzip.compress(rows.replace(",", "\t").encode()))
    Path("south.csv.gz").write_bytes(gzip.compress(rows.encode()))
    typed("new scenario packed north.2024.tsv.gz south.csv.gz --schema trial/schema.toml")
    assert {"north-2024", "south"} == load_toml(Path("packed/scenario.toml"))["scenario"]["owners"].keys()


def test_a_scenario_for_a_release_wants_no_validation_set() -> None:
    typed("new scenario trial")
    Path("trial/schema.toml").rename("the schema.toml")  # with a blank, printed commands could not be typed
    output = typed("new scenario counts trial/north.csv trial/south.csv --schema 'the schema.toml'")
    assert "fedkme release auto counts/scenario.toml" in output
    (check,) = re.findall("next: fedkme (schema check .*), then", output)
    typed(check)
    settings, parties, _ = load_planned("counts/scenario.toml", [], "rows")
    assert sorted(parties.owners) == ["north", "south"]
    assert settings.name == "counts"
    with pytest.raises(ConfigError, match=r"scenario.validation is missing.* fedkme release auto"):
        rows_of(load_simulation("counts/scenario.toml"), None, Follower())


@pytest.mark.parametrize(
    "words",
    [
        "a.csv --validation trial/validation.csv",
        "--schema trial/schema.toml --validation trial/validation.csv",
        "nowhere.csv --schema trial/schema.toml --validation trial/validation.csv",
        "a.csv A.csv --schema trial/schema.toml --validation trial/validation.csv",
    ],
)
def test_own_files_that_are_missing_or_alike_make_nothing(words: str) -> None:
    typed("new scenario trial")
    for name in ("a.csv", "A.csv"):
        Path(name).write_text(Path("trial/north.csv").read_text())
    result = CliRunner().invoke(_load("new"), ["scenario", "study", *shlex.split(words)])
    assert isinstance(result.exception, ConfigError)
    assert not Path("study").exists()


@pytest.mark.parametrize("role", ["owner", "consumer", "curator"])
def test_a_new_party_is_valid_and_doctor_names_what_a_person_must_do(role: str) -> None:
    name = "curator" if role == "curator" else "north"
    at = "" if role == "curator" else "--curator 127.0.0.1:1"
    typed(f"new {role} {name} {at}")
    config = Path(name, f"{role}.toml")
    assert role_of(read_configuration(config)) == role
    failing = {each.check for each in examine(config) if each.state == "fail"}
    # a person provides certificate, rows and a reachable curator; schema, policy and folders are in order
    assert "certificate" in failing
    assert failing <= {"certificate", "data", "network", "port", "revocation"}


def test_existing_files_are_not_overwritten() -> None:
    typed("new owner north --curator a:1")
    before = Path("north/owner.toml").read_text()
    result = CliRunner().invoke(_load("new"), ["owner", "north", "--curator", "b:2"])
    assert isinstance(result.exception, ConfigError)
    assert Path("north/owner.toml").read_text() == before


@pytest.mark.parametrize(("name", "curator"), [("No Name", "a:1"), ("north", "a")])
def test_a_wrong_name_or_address_makes_nothing(name: str, curator: str) -> None:
    result = CliRunner().invoke(_load("new"), ["owner", name, "--curator", curator])
    assert isinstance(result.exception, ConfigError)
    assert not list(Path().iterdir())


def test_the_steps_of_a_kit_lead_to_a_certificate() -> None:
    kit = json.loads(typed("kit north --curator 127.0.0.1:1 --json"))
    assert Path(kit["key"]).stat().st_mode & 0o077 == 0
    typed("pki init ca")
    (authority,) = json.loads(typed("pki show ca/authority.pem --json"))
    typed(f"pki approve {kit['request']} --authority ca --fingerprint {kit['fingerprint']} --out north.crt")
    option = f"--fingerprint {authority['fingerprint']}"
    typed(f"pki accept north.crt --key {kit['key']} {option} --out north/north.pem")
    states = {each.check: each.state for each in examine(Path(kit["config"]))}
    assert states["certificate"] == states["chain"] == states["schema"] == "ok"
    unit = Path(kit["unit"]).read_text()
    assert f'owner join "{Path("north").absolute()}/owner.toml"' in unit
    assert f"WorkingDirectory={Path('north').absolute()}" in unit
    assert "NoNewPrivileges=yes" in unit
    assert "%d" not in unit


def test_a_kit_that_root_makes_is_for_a_user_of_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    output = typed(f"kit north --curator 127.0.0.1:1 --out {closed / 'north'}")
    unit = (closed / "north" / "fedkme-owner.service").read_text()
    assert "User=fedkme\n" in unit
    assert f"useradd --system --shell /usr/sbin/nologin fedkme; chown -R fedkme: {closed / 'north'}" in output
    assert re.search(r"fedkme cannot enter /.*: move it", output)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "useradd" not in typed(f"kit south --curator 127.0.0.1:1 --out {closed / 'south'}")
    assert f"User={getpass.getuser()}\n" in (closed / "south" / "fedkme-owner.service").read_text()


def test_the_unit_of_a_kit_starts_its_owner_from_any_folder(tmp_path: Path) -> None:
    # ExecStart's command is run as written; a space in the folder's name must not split it.
    folder = tmp_path / "100% of owners"
    typed(f"kit north --curator 127.0.0.1:1 --out '{folder}'")
    unit = folder / "fedkme-owner.service"
    (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
    program, *words = shlex.split(line.replace("%%", "%"))
    assert Path(program).parent == Path(sys.executable).parent
    assert words == ["owner", "join", str(folder / "owner.toml")]
    command = [sys.executable, "-P", "-c", COMMAND, *words]
    result = subprocess.run(command, cwd="/", env=environment(), capture_output=True, text=True, check=False)
    assert result.returncode == DataError.code, result.stderr  # its rows are not there yet
    if shutil.which("systemd-analyze"):
        unit.write_text(unit.read_text().replace(f'"{program}"', "/bin/true"))  # CI's may lie elsewhere
        verify = ["systemd-analyze", "verify", "--man=no", str(unit)]
        result = subprocess.run(verify, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        assert unit.name not in result.stderr
