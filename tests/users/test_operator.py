"""An operator's guide: kit, request, signature, service, doctor, approval, run, verification, revocation.

Hosts are separate folders, with real processes.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedkme.errors import IdentityError
from tests.fedkme.pki.verbs import said
from tests.hosts.guide import Terminals
from tests.hosts.parties import WAIT_S
from tests.ops.parties import rows
from tests.parties import MIXED
from tests.users.terminal import terminals

HOSTS = ("curator", "north", "lab")
LISTENING = re.compile(r"listening address=(\S+)")


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Terminals]:
    new_hosts = terminals(tmp_path, *HOSTS)
    for host in HOSTS:
        (new_hosts.home(host) / "agreed.toml").write_text(MIXED)
    (new_hosts.home("lab") / "sample.csv").write_text(rows(range(30, 42)))
    # spelled differently from the schema: the owner's own file does not change
    (new_hosts.home("north") / "own.csv").write_text(
        rows(range(20, 60)).replace(",", ";").replace("yes", "Y").replace("no", "N")
    )
    yield new_hosts
    new_hosts.close()


def hand_over(hosts: Terminals, file: str, to: str) -> None:
    """Carry a file from one host to another: `host/path` to `host/path`."""
    there = hosts.home(to.partition("/")[0]) / to.partition("/")[2]
    there.write_bytes((hosts.home(file.partition("/")[0]) / file.partition("/")[2]).read_bytes())


def change(config: Path, **lines: str) -> None:
    """Set keys of a configuration, also commented ones."""
    text = config.read_text(encoding="utf-8")
    for key, value in lines.items():
        text, count = re.subn(rf"^(# )?{key} = [^#\n]*", f"{key} = {value} ", text, flags=re.MULTILINE)
        assert count == 1, key
    config.write_text(text, encoding="utf-8")


def test_an_operator_goes_from_a_kit_to_a_verified_run_and_a_revocation(hosts: Terminals) -> None:
    serve(hosts)
    address = LISTENING.findall(hosts.until("listening"))[0]
    join(hosts, address)
    ask(hosts, address)
    verify(hosts)
    revoke(hosts)


def serve(hosts: Terminals) -> None:
    """Make the authority and the curator, and start the curator."""
    home = hosts.home("curator")
    hosts.type("curator", "fedkme new curator curator && fedkme pki init ca")
    hosts.type("curator", "cp agreed.toml curator/schema.toml && cp ca/revoked.pem curator/")
    identity = "--host 127.0.0.1 --authority ca --out curator/curator.pem"
    hosts.type("curator", f"fedkme pki issue curator --role curator {identity}")
    listed = {"owners": '["north"]', "consumers": '["lab"]'}
    change(home / "curator" / "curator.toml", listen='"127.0.0.1:0"', **listed)
    with (home / "curator" / "curator.toml").open("a") as file:
        file.write('[summary]\nprotocol = "uniform"\nfeatures.dimension = 20\n')
    hosts.leave("curator", "fedkme curator serve curator/curator.toml")


def join(hosts: Terminals, address: str) -> None:
    """Go through the steps that the kit prints, correct what the doctor finds, and start the owner."""
    north = hosts.home("north")
    kit = json.loads(hosts.type("north", f"fedkme kit north --curator {address} --json"))
    hand_over(hosts, "north/north/north.req", "curator/north.req")
    signed = f"fedkme pki approve north.req --authority ca --fingerprint {kit['fingerprint']} --out north.crt"
    hosts.type("curator", signed)
    hand_over(hosts, "curator/north.crt", "north/north.crt")
    fingerprint = said(hosts.type("curator", "fedkme pki show ca/authority.pem"), "fingerprint")
    accept = (
        f"fedkme pki accept north.crt --key north/north.key --fingerprint {fingerprint} --out north/north.pem"
    )
    hosts.type("north", f"{accept} && rm north/north.key")
    hosts.type("north", "cp agreed.toml north/schema.toml && cp own.csv north/rows.csv")
    change(north / "north" / "owner.toml", approval='"manual"', most_rows_per_run="30")
    findings = hosts.type("north", "fedkme doctor north/owner.toml || true")
    assert re.findall(r"^fail +(\w+)", findings, re.MULTILINE) == ["data"]
    assert "fedkme schema check" in findings
    checked = hosts.type("north", "fedkme schema check north/schema.toml north/owner.toml || true")
    assert "read so, it has no faults" in checked
    change(north / "north" / "owner.toml", data=re.findall(r"data = (.*)", checked)[0])
    hosts.leave("north", "fedkme owner join north/owner.toml")
    hosts.until("joined")


def ask(hosts: Terminals, address: str) -> None:
    """Request as the consumer; the owner approves the refused run; repeat the request."""
    hosts.type("lab", f"fedkme new consumer lab --curator {address}")
    hosts.type("lab", "cp agreed.toml lab/schema.toml && cp sample.csv lab/validation.csv")
    hosts.type("curator", "fedkme pki issue lab --role consumer --authority ca --out lab.pem")
    hand_over(hosts, "curator/lab.pem", "lab/lab/lab.pem")
    hosts.type("lab", "chmod 600 lab/lab.pem")
    change(hosts.home("lab") / "lab" / "consumer.toml", p="20")
    refused = hosts.type("lab", "fedkme consumer summary lab/consumer.toml || true")
    assert "error 62 (approval)" in refused
    (approve,) = re.findall(
        r"fedkme owner approve .*", hosts.type("north", "fedkme owner status north/owner.toml")
    )
    assert "north/owner.toml" in approve
    hosts.type("north", approve)
    output = hosts.type("lab", "fedkme consumer summary lab/consumer.toml")
    assert "20 rows, with names and weights: lab/output/summary.csv" in output
    assert len((hosts.home("lab") / "lab/output/summary.csv").read_text().splitlines()) > 20


def verify(hosts: Terminals) -> None:
    """Compare the ledgers of all parties."""
    hosts.type("north", "fedkme owner ledger north/owner.toml --out north.jsonl")
    hosts.type("lab", "fedkme consumer ledger lab/consumer.toml --out lab.jsonl")
    hosts.type("curator", "fedkme curator ledger curator/curator.toml --out curator/runs/ledger.jsonl")
    for party in ("north", "lab"):
        for ending in ("jsonl", "heads"):
            hand_over(hosts, f"{party}/{party}.{ending}", f"curator/{party}.{ending}")
    verified = hosts.type(
        "curator", "fedkme audit verify curator/runs north.jsonl lab.jsonl --authority ca/authority.pem"
    )
    assert "3 ledgers agree" in verified
    assert "FAULT" not in verified


def revoke(hosts: Terminals) -> None:
    """Revoke the owner's certificate: its session ends, and its doctor says why."""
    hosts.type("curator", "fedkme pki revoke north --authority ca && cp ca/revoked.pem curator/")
    hosts.stayed["curator"].send_signal(signal.SIGHUP)
    assert hosts.stayed["north"].wait(WAIT_S) == IdentityError.code
    findings = hosts.type("north", "fedkme doctor north/owner.toml || true")
    assert re.findall(r"^fail +(\w+) +.*was revoked", findings, re.MULTILINE) == ["admission"]
