"""docs/pki.md says what can be typed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedkme.errors import IdentityError
from fedkme.pki.identity import Identity
from fedkme.pki.revocation import Revocation
from tests.fedkme.pki.verbs import pki, said
from tests.parties import WAIT_S
from tests.places import ROOT

GUIDE = ROOT / "docs" / "pki.md"


def test_the_guide_can_be_followed(tmp_path: Path) -> None:
    # Every block, in order; what is told on the telephone is read from the files that the other side has.
    blocks = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 9
    command = tmp_path / "bin" / "fedkme"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom operate.cli import main\nmain()\n")
    command.chmod(0o755)
    at = tmp_path / "at"
    at.mkdir()
    root = str(GUIDE.parents[1])
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": root}
    for block in blocks:
        for line in block.splitlines():
            for name, file in (("TOLD_BY_NORTH", "north.req"), ("TOLD_BY_AUTHORITY", "ca")):
                if (at / file).exists():
                    environment[name] = said(pki("show", at / file), "fingerprint")
            subprocess.run(["bash", "-ec", line], cwd=at, env=environment, check=True, timeout=WAIT_S)
    north = Identity.load(at / "north.pem")
    revocation = Revocation(at / "revoked.pem", north.authority)
    revocation.check(Identity.load(at / "curator.pem").certificate)
    with pytest.raises(IdentityError, match="was revoked"):
        revocation.check(north.certificate)
