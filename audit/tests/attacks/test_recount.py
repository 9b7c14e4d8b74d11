"""Recounts of the audit: what was not looked at proves nothing."""

from __future__ import annotations

from audit.attacks.finding import Claim
from audit.attacks.recount import recount
from fedkme.privacy.events import Composed, Gaussian, PureDp

CLAIM = Claim(1.0, 1e-5, "replace one row")


def test_a_recount_of_no_events_fails() -> None:
    # It cost 0, which is not more than was claimed.
    finding = recount(CLAIM, [], [PureDp])
    assert finding.violated
    assert finding.note == "no event of kind pure-dp"


def test_every_kind_that_is_expected_must_be_among_the_events() -> None:
    counted = PureDp(0.2, count=2)
    assert not recount(CLAIM, [counted], [PureDp]).violated
    assert recount(CLAIM, [counted], [PureDp, Gaussian]).violated
    assert not recount(CLAIM, [Composed((Gaussian(10.0), counted))], [PureDp, Gaussian]).violated
    assert recount(CLAIM, [PureDp(0.6, count=2)], [PureDp]).violated
