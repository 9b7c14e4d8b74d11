"""Warnings before certificates and lists end, by a party that has run for months."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from fedkme.ops.metrics import Expiries
from fedkme.pki import certificates, expiry
from fedkme.pki.authority import Authority
from fedkme.pki.expiry import expiries, told_daily
from tests.fedkme.pki.test_revocation import Site
from tests.parties import WAIT_S

DAY = datetime.timedelta(days=1)


class Clock:
    """A clock that tests move; `certificates.now` and its importers read it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.at = certificates.now()
        for module in ("certificates", "expiry", "revocation"):
            patch.setattr(f"fedkme.pki.{module}.now", lambda: self.at)


async def test_a_party_says_daily_what_is_about_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # It was said at a start only: a curator that ran for 76 days went dark at day 90.
    clock = Clock(monkeypatch)
    monkeypatch.setattr(expiry, "LOOK_S", 0.0)
    identity = Authority(400 * DAY).issue("curator", lifetime=90 * DAY)
    lines: list[str] = []
    came = asyncio.Event()

    def say(event: str, **fields: str) -> None:
        lines.append(f"{event}: {fields['line']}")
        came.set()

    with told_daily(say, lambda: expiries(identity)):
        for _ in range(60):  # days that nobody is bothered on
            clock.at += DAY
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert lines == []
        for day in range(17, 20):
            came.clear()
            clock.at = identity.leaf.not_valid_before_utc + (day + 60) * DAY
            await asyncio.wait_for(came.wait(), WAIT_S)
    assert len(lines) == 3
    assert lines[0].startswith("warning: the certificate of curator ends on ")
    assert lines[0].endswith("renew it (fedkme pki renew)")


def test_the_ends_of_certificate_authority_and_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    site = Site(tmp_path)
    site.sign_list(12 * DAY)
    identity = site.issue("a", "--days", "10")
    ends = {each.what: each for each in expiries(identity, site.revocation())}
    assert set(ends) == {"certificate", "authority", "revocations"}
    assert 9 * 86400 < ends["certificate"].seconds < 11 * 86400
    assert [what for what in ends if ends[what].due] == []
    clock.at += 11 * DAY
    assert ends["certificate"].seconds < 0
    assert [what for what in ends if ends[what].due] == ["certificate", "revocations"]


def test_metrics_tell_the_soonest_end_of_each_kind() -> None:
    registry = CollectorRegistry()
    identity = Authority(400 * DAY).issue("a", lifetime=10 * DAY)
    registry.register(Expiries(lambda: expiries(identity)))
    left = registry.get_sample_value("fedkme_expires_seconds", {"what": "certificate"})
    assert left is not None
    assert 9 * 86400 < left <= 10 * 86400
