"""Parties as services: health, reflection, Prometheus metrics, drain on SIGTERM, revocation."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from curator.health import SERVICES
from fedkme.errors import ConfigError, InterruptedRunError, NotEnoughRowsError, StoppingError
from fedkme.ops.metrics import exported
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.privacy.events import validation_of
from tests.ops.parties import Party, Site, rows
from tests.parties import WAIT_S

SERVING, NOT_SERVING = 1, 2
LONG = 400  # rows of a run that is still under way when it is stopped
BY_ROUNDS = '\n[summary]\nprotocol = "algorithm3"\n'


@contextlib.contextmanager
def channel(site: Site, party: str) -> Iterator[grpc.Channel]:
    identity = Identity.load(site.folder / f"{party}.pem")
    with grpc.secure_channel(site.address, identity.channel_credentials()) as opened:
        yield opened


def health(site: Site, party: str, service: str = "") -> int:
    with channel(site, party) as opened:
        stub = health_pb2_grpc.HealthStub(opened)
        answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S)
        return int(answer.status)


def figures(address: str) -> dict[tuple[str, ...], float]:
    """Samples by name and values of labels."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=WAIT_S) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_health_answers_any_certificate_and_reflection_is_off(site: Site) -> None:
    # Health answers every certificate of the authority; reflection is off over TLS by default.
    site.curator('owners = ["north"]\nconsumers = ["consumer"]')
    site.issue("somebody", Role.OWNER)
    for party in ("north", "consumer", "somebody"):
        for service in ("", *SERVICES):
            assert health(site, party, service) == SERVING
    Authority().issue("north").save_bundle(site.folder / "stranger.pem")
    with pytest.raises(grpc.RpcError):
        health(site, "stranger")
    with channel(site, "north") as opened, pytest.raises(grpc.RpcError) as refused:
        ProtoReflectionDescriptorDatabase(opened).get_services()
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_reflection_where_it_is_asked_for(site: Site) -> None:
    site.curator("reflection = true")
    with channel(site, "consumer") as opened:
        database = ProtoReflectionDescriptorDatabase(opened)
        assert set(SERVICES) <= set(database.get_services())
        assert database.FindFileContainingSymbol("fedkme.v1.Owners").package == "fedkme.v1"


def test_reflection_in_plaintext(site: Site) -> None:
    site.curator("plaintext = true")
    with grpc.insecure_channel(site.address) as opened:
        assert set(SERVICES) <= set(ProtoReflectionDescriptorDatabase(opened).get_services())


def test_figures_agree_with_the_record(site: Site) -> None:
    # Counters equal the run's record; epsilon equals the accountant's over the same ledger.
    curator = site.curator('owners = ["north", "south"]\nmetrics = "127.0.0.1:0"' + BY_ROUNDS)
    north = site.owner("north", 'metrics = "127.0.0.1:0"')
    site.owner("south")
    assert site.consumer(12).ended() == 0
    curator.until("ended")
    (run,) = [path for path in (site.folder / "runs").iterdir() if path.is_dir()]
    record = json.loads((run / "record.json").read_text())
    seen = figures(curator.until("metrics")["address"])
    assert seen["fedkme_rounds_total",] == seen["fedkme_round_seconds_count",] == record["rounds"] == 12
    for name, count in record["accessed"].items():
        assert seen.get(("fedkme_points_accessed_total", name), 0) == count
        assert seen["fedkme_owner_stream", name] == 1
    assert (
        sum(seen["fedkme_bytes_total", "sent", name] for name in ("north", "south"))
        >= record["bytes"]["sent"]
    )
    assert seen["fedkme_journal_commit_seconds_count",] > 0
    assert {seen["fedkme_runs", status] for status in ("asked", "queued", "running")} == {0}
    own = figures(north.until("metrics")["address"])
    assert own["fedkme_rows_sent_total",] == record["closings"]["north"]
    assert own["fedkme_stream",] == 1
    epsilon = wait_for(curator, "fedkme_epsilon", "owners", validation_of("consumer"))
    assert 0 < epsilon < float("inf")
    assert site.consumer(5000, output="more").ended() == NotEnoughRowsError.code
    assert figures(curator.until("metrics")["address"])["fedkme_refusals_total", "20"] == 1


def wait_for(party: Party, *key: str) -> float:
    """Wait for a metric that is computed after the run, in another thread than requests."""
    address, deadline = party.until("metrics")["address"], time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if key in (samples := figures(address)):
            return samples[key]
    raise AssertionError(f"{key} never came: {sorted(samples)}")


def test_metrics_are_off_by_default_and_on_loopback(site: Site) -> None:
    curator = site.curator()
    assert not [line for line in curator.events() if line["event"] == "metrics"]
    for settings in ('metrics = "0.0.0.0:0"', 'metrics = "nowhere"'):
        refused = site.start("curator", f'journal = "other.db"\n{settings}')
        assert refused.ended() == ConfigError.code
        assert "metrics" in refused.until("failed")["cause"]
    curator.process.kill()
    curator.ended()
    wide = site.curator('metrics = "0.0.0.0:0"\nmetrics_anywhere = true')
    assert figures(wide.until("metrics")["address"].replace("0.0.0.0", "127.0.0.1"))


def test_figures_are_for_requests_that_name_this_machine() -> None:
    # A web site in a browser of this machine can make its own name this machine's address.
    with exported("127.0.0.1:0", False, CollectorRegistry()) as address:
        for host, status in (("rebound.example", 403), ("localhost:9464", 200), (address, 200)):
            connection = http.client.HTTPConnection(address, timeout=WAIT_S)
            connection.request("GET", "/metrics", headers={"Host": host})
            assert connection.getresponse().status == status
            connection.close()


def under_way(site: Site, settings: str = "", p: int = 60) -> tuple[Party, Party, Party]:
    """A curator, an owner and a consumer in the middle of a run."""
    (site.folder / "north.csv").write_text(rows(n % 120 for n in range(2 * LONG)))
    curator = site.curator(f'owners = ["north"]\n{settings}{BY_ROUNDS}')
    owner = site.owner("north")
    consumer = site.consumer(p)
    curator.until("round")
    return curator, owner, consumer


def test_a_drain_lets_a_run_end(site: Site) -> None:
    # New runs are refused (health NOT_SERVING), and open runs end.
    curator, owner, consumer = under_way(site, "drain_s = 600", p=LONG)
    owner.process.send_signal(signal.SIGSTOP)  # else the run, and the curator, may end before the next asks
    curator.process.send_signal(signal.SIGTERM)
    assert len(curator.until("draining")["runs"]) == 1
    assert health(site, "north") == NOT_SERVING
    late = site.consumer(3, output="late")
    assert late.ended() == StoppingError.code
    owner.process.send_signal(signal.SIGCONT)
    assert late.until("failed")["cause"] == "the curator is being stopped and takes no new runs"
    assert consumer.ended() == 0
    assert (site.folder / "out" / "summary.npz").exists()
    assert curator.ended() == 0
    assert curator.until("ended")["status"] == "complete"
    assert owner.until("away")["code"] == 34  # it waits for the curator to come back


def test_without_a_drain_a_run_goes_on_at_the_next_start(site: Site) -> None:
    # With drain_s = 0 runs are suspended at once, and continue from the journal at the next start.
    curator, owner, consumer = under_way(site, p=LONG)
    curator.process.send_signal(signal.SIGTERM)
    assert curator.ended() == 0
    assert not [line for line in curator.events() if line["event"] == "ended"]
    again = site.curator('owners = ["north"]\nmetrics = "127.0.0.1:0"' + BY_ROUNDS)
    assert consumer.ended() == 0
    assert consumer.until("received")["complete"] is True  # and not what there was when it was suspended
    ended = again.until("ended")
    assert (ended["status"], ended["round"]) == ("complete", LONG)
    # rounds that an earlier process counted are not counted again
    assert figures(again.until("metrics")["address"])["fedkme_rounds_total",] < LONG
    assert owner.until("back")


def test_a_second_signal_does_not_wait(site: Site) -> None:
    curator, _, _ = under_way(site, "drain_s = 3600", p=LONG)
    curator.process.send_signal(signal.SIGTERM)
    curator.until("draining")
    curator.process.send_signal(signal.SIGTERM)
    assert curator.ended() == 0
    assert not [line for line in curator.events() if line["event"] == "ended"]


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, InterruptedRunError.code)]
)
def test_a_signal_decides_the_exit_status(site: Site, number: signal.Signals, status: int) -> None:
    # docs/errors.md, 130: SIGTERM is how a service is meant to end; ctrl-C is not.
    curator = site.curator()
    owner = site.owner("north")
    owner.until("joined")
    for party in (owner, curator):
        party.process.send_signal(number)
        assert party.ended() == status


def test_the_service_manager_hears_of_ready_and_stopping(site: Site, tmp_path: Path) -> None:
    # sd_notify(3): READY=1 once the party serves, STOPPING=1 after a signal.
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(WAIT_S)
        manager.bind(path)
        curator = site.curator(NOTIFY_SOCKET=path)
        assert manager.recv(100) == b"READY=1"
        owner = site.owner("north", NOTIFY_SOCKET=path)
        assert manager.recv(100) == b"READY=1"
        owner.until("joined")
        for party in (owner, curator):
            os.kill(party.process.pid, signal.SIGTERM)
            assert manager.recv(100) == b"STOPPING=1"
            assert party.ended() == 0


def test_a_revoked_owner_is_let_go(site: Site) -> None:
    # Live sessions are checked again when the list changes: at the next admission and on SIGHUP.
    listed = site.folder / "revoked.pem"
    site.revoke(1)
    curator = site.curator('revoked = "revoked.pem"')
    north, south = site.owner("north"), site.owner("south")
    north.until("joined")
    south.until("joined")
    site.revoke(2, "north")
    curator.process.send_signal(signal.SIGHUP)
    assert north.ended() == 33
    assert "was revoked on" in north.until("failed")["cause"]
    site.revoke(3, "north", "south")
    site.issue("somebody", Role.OWNER)
    (site.folder / "somebody.csv").write_text((site.folder / "north.csv").read_text())
    somebody = site.owner("somebody")  # no signal: who comes next makes the curator look
    somebody.until("joined")
    assert south.ended() == 33
    assert site.owner("north").ended() == 33
    listed.write_bytes(b"nonsense")
    curator.process.send_signal(signal.SIGHUP)
    assert "is no revocation list" in curator.until("warning")["line"]
    assert somebody.process.poll() is None  # a list that cannot be relied on ends nothing
    refused = site.owner("south")
    assert refused.ended() == 33
    assert "was revoked on" in refused.until("failed")["cause"]  # the list before it holds


def test_a_revoked_consumer_is_let_go(site: Site) -> None:
    # Its run continues without it; a new request is refused with the reason.
    site.revoke(1)
    curator, _, consumer = under_way(site, 'revoked = "revoked.pem"', p=LONG)
    site.revoke(2, "consumer")
    curator.process.send_signal(signal.SIGHUP)
    assert consumer.ended() == 33
    assert "was revoked on" in consumer.until("failed")["cause"]


LATER = """
import datetime, pathlib
from fedkme.pki import certificates, expiry, revocation
days = pathlib.Path({file!r})
def now():
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=int(days.read_text()))
for module in (certificates, expiry, revocation):
    module.now = now
"""
"""Program that shifts the clock of certificates and lists by the days in a file."""


def test_a_curator_that_outlives_its_list_takes_a_renewed_one_without_a_restart(site: Site) -> None:
    def page() -> str:
        with urllib.request.urlopen(curator.until("page")["address"], timeout=WAIT_S) as answer:
            return str(answer.read().decode())

    days = site.folder / "days"
    days.write_text("0")
    site.revoke(1)
    settings = 'revoked = "revoked.pem"\npage = "127.0.0.1:0"'
    curator = site.curator(settings, first=LATER.format(file=str(days)))
    north = site.owner("north")
    north.until("joined")
    assert "revoked.pem ends on" not in page()
    days.write_text("80")
    assert "revoked.pem ends on" in page()
    days.write_text("91")
    refused = site.owner("south")
    assert refused.ended() == 33
    assert "expired" in refused.until("failed")["cause"]
    site.revoke(2, days=200)
    site.owner("south").until("joined")
    assert "revoked.pem ends on" not in page()
    assert north.process.poll() is None  # its session stood all the time
    site.revoke(3, "north", days=200)
    curator.process.send_signal(signal.SIGHUP)
    assert north.ended() == 33


def test_a_certificate_of_another_role_is_refused(site: Site) -> None:
    # An owner's certificate cannot request a run, even without a list of names; a consumer's cannot join.
    site.curator()
    (site.folder / "consumer.pem").unlink()
    site.issue("consumer", Role.OWNER)
    (site.folder / "north.pem").unlink()
    site.issue("north", Role.CONSUMER)
    for party in (site.consumer(3), site.owner("north")):
        assert party.ended() == 33
        assert "acts as" in party.until("failed")["cause"]
