"""Issue 4, 'Done means': a run whose curator dies three times, and each owner once, is a run like any other.

That it is *equal* to the undisturbed run is shown with seeded noise on loopback (audit/chaos), bit for bit:
off loopback noise is real, and no two runs are alike. Here the claim is what `fedkme audit verify` and the
counts on all sides can tell.
"""

from __future__ import annotations

import functools

from tests.hosts.parties import OWNERS, Event, Site
from tests.hosts.test_runs import BY_RANK

ROWS = 140
DEATHS = ((5, "curator"), (20, "north"), (35, "curator"), (50, "south"), (65, "west"), (80, "curator"))
"""Parties by the round of the curator's lines in which they are killed; each is started again at once."""


def is_from(number: int, line: Event) -> bool:
    """Tell a line of a round from `number` on from an earlier one."""
    return bool(line["round"] >= number)


def test_a_run_survives_every_party(site: Site) -> None:
    settings = "grace_s = 90\nconnect_s = 90\n" + BY_RANK
    site.curator(settings)
    for name in OWNERS:
        site.owner(name)
    consumer = site.ask(ROWS, "out")
    for number, victim in DEATHS:
        curator = site.running["curator"]
        curator.until("round", functools.partial(is_from, number))
        site.running[victim].kill()
        assert not curator.said("ended"), "the run was over before anybody was killed"
        if victim == "curator":
            site.curator(settings)
        else:
            site.owner(victim)
    assert consumer.ended() == 0
    received = consumer.said("received")[-1]
    record = site.audit(ROWS)
    assert received["rows"] == ROWS
    assert received["accessed"] == sum(record["accessed"].values())
    assert not record["faults"]
    # a service manager stops the curator: owners wait for the next one, and end well when told to
    assert site.running["curator"].stop() == 0
    for name in OWNERS:
        site.running[name].until("away")
        assert site.running[name].stop() == 0
