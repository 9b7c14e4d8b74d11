"""`fedkme doctor` on the configuration of a region, which has two sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkme.operate.doctor.cli import examine
from fedkme.wire.tls import LOOPBACK, Authority, Role
from tests.curator.sums.fake_owners import SCHEMA

REGION = """
directory = "runs"
schema_file = "schema.toml"
listen = "127.0.0.1:0"
owners = ["a", "b"]
identity = "curator.pem"
[above]
name = "north"
curator = "-"
journal = "north.db"
identity = "owner.pem"
"""


@pytest.mark.parametrize(("certified", "state"), [("north", "ok"), ("south", "fail")])
def test_both_sides_of_a_region_are_looked_at(tmp_path: Path, certified: str, state: str) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    (tmp_path / "region.toml").write_text(REGION, encoding="utf-8")
    authority = Authority()
    authority.issue("north-curator", LOOPBACK, Role.CURATOR).save_bundle(tmp_path / "curator.pem")
    authority.issue(certified, (), Role.OWNER).save_bundle(tmp_path / "owner.pem")
    found = [(each.check, each.state) for each in examine(tmp_path / "region.toml")]
    certificates = [each for each in found if each[0] == "certificate"]
    assert certificates == [("certificate", "ok"), ("certificate", state)]
    assert found.count(("journal", "ok")) >= 2
