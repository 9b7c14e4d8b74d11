"""Issue 4, 'Hosts in tests': a run over hosts with delay and loss, and one with a cut link."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

from tests.hosts.network import Network
from tests.hosts.parties import OWNERS, Site

CUT_S = 2.0
"""Time that the cable is out: the outage itself, no wait for anything."""

BY_RANK = '[summary]\nauction.kind = "winner-only"\nfeatures.dimension = 40\n'
"""Each round asks an owner, so that each is a round trip or two."""


def test_delay_and_loss_change_nothing(poor_network: Network, make_site: Callable[[Network], Site]) -> None:
    # "a run across them with delay and loss": nobody is lost to it, and nothing is counted twice.
    site = make_site(poor_network)
    site.curator(BY_RANK)
    for name in OWNERS:
        site.owner(name)
    consumer = site.ask(60, "out")
    assert consumer.ended() == 0
    received, record = consumer.said("received")[-1], site.audit(60)
    assert (received["rows"], received["accessed"]) == (60, sum(record["accessed"].values()))
    assert not record["faults"]


def test_a_cut_link_is_waited_for(site: Site) -> None:
    # "a cut link": within `grace_s` the run goes on where it was, with the owner.
    curator = site.curator("grace_s = 60\n" + BY_RANK)
    for name in OWNERS:
        site.owner(name)
    consumer = site.ask(120, "out")
    curator.until("round", lambda line: line["round"] >= 20)
    curator.process.send_signal(signal.SIGSTOP)  # else the run may be over before the cable is out
    site.network.cut("south")
    curator.process.send_signal(signal.SIGCONT)
    time.sleep(CUT_S)
    before = len(curator.events)
    assert not curator.said("ended"), "the run was over before the link was cut"
    site.network.mend("south")
    curator.until("round", after=before)
    assert consumer.ended() == 0
    record = site.audit(120)
    assert not record["faults"]
    assert record["accessed"]["south"] > 0
