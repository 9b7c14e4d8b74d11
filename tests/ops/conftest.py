"""Site of parties whose processes end with the test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ops.parties import Site
from tests.parties import WAIT_S


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A folder with files of a curator, a consumer, and owners north and south."""
    new_site = Site(tmp_path / "site")
    yield new_site
    for party in new_site.parties:
        party.process.kill()
        party.process.wait(WAIT_S)
