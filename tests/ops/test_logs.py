"""Structured logs: JSON, run and round in every line, never a private value."""

from __future__ import annotations

import datetime
import json
import logging
import math
import os
import re
from pathlib import Path

import pytest

from fedkme.ops.logs import Log, rounded, text_of, unforeseen
from fedkme.pki.certificates import Role
from tests.ops.parties import Party, Site
from tests.parties import HERE, caller_values, write_config

ROW, LABEL = "117.81250336217495", "planted-label"
"""A row's value, with digits that no other figure has by chance (1e-14), and an owner's class name."""


def planted(site: Site) -> None:
    """Make rows with a recognisable value and label."""
    for name in ("north", "south"):
        lines = "".join(f"{ROW},{'yes' if n % 2 else 'no'},no\n" for n in range(30))
        (site.folder / f"{name}.csv").write_text(f"age,smoker,ill\n{lines}")
    (site.folder / "validation.csv").write_text(f"age,smoker,ill\n{ROW},yes,no\n{ROW},no,no\n")


def secrets_of(site: Site) -> list[str]:
    """Secrets that no log may contain: values of rows, lines of keys."""
    keys = re.findall(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)-----END",
        "".join(path.read_text() for path in site.folder.glob("*.pem")),
        re.DOTALL,
    )
    assert len(keys) >= 4
    return [ROW, *(line for key in keys for line in key.splitlines() if len(line) > 20)]


def command_lines(party: Party) -> str:
    return Path(f"/proc/{party.process.pid}/cmdline").read_text() + Path(
        f"/proc/{party.process.pid}/environ"
    ).read_text(errors="replace")


def test_every_line_is_an_object_and_none_holds_a_secret(site: Site) -> None:
    # A whole run, a refused request, a stranger at the door, an owner with rows that do not fit: lines of
    # every party, of gRPC and of libraries, and what `ps` shows.
    planted(site)
    site.fresh = True
    curator = site.curator('owners = ["north", "south"]')
    north = site.owner("north")
    site.fresh = False
    site.owner("south")
    consumer = site.consumer(12)
    shown = "".join(command_lines(party) for party in (curator, north))
    assert "curator.toml" in shown
    assert consumer.ended() == 0
    assert site.consumer(5000, output="more").ended() == 20
    site.issue("stranger", Role.OWNER)
    (site.folder / "stranger.csv").write_text(f"age,smoker,ill\n{ROW},yes,no\n")
    assert site.owner("stranger").ended() == 33
    (site.folder / "south.csv").write_text(f"age,smoker,ill\n{ROW}9999,{LABEL},no\n{ROW},yes,no\n")
    assert site.owner("south").ended() == 12
    lines = "".join(line for party in site.parties for line in party.lines)
    for secret in (*secrets_of(site), LABEL):
        assert secret not in lines
        assert secret not in shown
    events = [event for party in site.parties for event in party.events()]  # each line parses
    assert len(events) > 20
    for event in events:
        assert {"time", "party", "event"} <= event.keys()
        assert event["time"].endswith("Z")
        moment = datetime.datetime.fromisoformat(event["time"])
        assert abs(datetime.datetime.now(datetime.UTC) - moment) < datetime.timedelta(hours=1)
    about = [event for event in events if event["event"] in ("run", "round", "ended", "progress", "received")]
    assert {event["event"] for event in about} == {"run", "round", "ended", "progress", "received"}
    for event in (*about, *(event for event in events if event.get("run"))):  # none yet: "waiting"
        assert event["run"].startswith("run-")
        assert isinstance(event["round"], int)
    # who won a round, and with which bid, is for record.json
    assert not [event for event in events if {"token", "bid", "record", "mmd2"} & event.keys()]


def test_an_owners_log_has_a_releases_consumer_sums_and_cost(site: Site) -> None:
    planted(site)
    curator = site.curator('owners = ["north", "south"]\nrelease = { quorum = 1 }')
    north = site.owner("north", "[[policy.budgets]]\nepsilon = 3\ndelta = 1e-6")
    south = site.owner("south", '[policy]\nsums = "noisy"')
    released = {"kind": "marginals", "mechanism": "independent", "epsilon": 2.0, "delta": 1e-6, "rows": 9}
    own = {"identity": "consumer.pem", "log": "json", "output": "released", "release": released}
    config = write_config(site.folder / "release.toml", caller_values(HERE, site.address, **own))
    asking = site.call("consumer", "release", config)
    assert asking.ended() == 0, asking.lines

    stages = [event for event in curator.events() if event["event"] == "progress"]
    assert all(event["left"].endswith(" left") == (0 < event["fraction"] < 1) for event in stages)
    assert len({event["fraction"] for event in stages}) > 5
    north.until("over")
    about = [event for event in north.events() if "run" in event]
    assert [event["event"] for event in about] == ["release", "sent", "over"]
    release, sent, over = about
    assert (
        release | {"consumer": "consumer", "method": "marginals", "answer": "accepted", "rows": 30} == release
    )
    assert (release["secure"], release["delta"], sent["sums"]) == (False, 1e-6, "plain")
    assert 1.9 < release["epsilon"] <= 2.0
    assert sent["numbers"] > 10
    assert (over["sums"], over["epsilon"]) == (1, release["epsilon"])

    south.until("left_out")
    why, refused, left = [event for event in south.events() if "run" in event]
    assert (why["event"], why["code"]) == ("refused", 54)
    assert refused | {"consumer": "consumer", "answer": "refused", "rows": None} == refused
    assert (left["event"], left["code"]) == ("left_out", 54)
    assert not [line for line in (*north.lines, *south.lines) if ROW in line]


def test_numbers_of_json_lines_have_six_digits(capsys: pytest.CaptureFixture[str]) -> None:
    # "milliseconds": 0.5310970000209636 says no more than 0.531097
    record = {"round": 1, "milliseconds": 0.5310970000209636, "accessed": 1234567}
    Log("curator", "json").write("round", {"record": record, "left": [1 / 3, "x"], "epsilon": math.inf})
    line = json.loads(capsys.readouterr().err)
    assert (line["milliseconds"], line["accessed"]) == (0.531097, 1234567)
    assert (line["left"], line["epsilon"]) == ([0.333333, "x"], math.inf)
    assert rounded({"at": 259200.1234567}) == {"at": 259200.123457}
    assert rounded({"at": ["bidder.py:7 bid"]}) == {"at": ["bidder.py:7 bid"]}


def test_a_missing_jax_device_is_an_error_that_names_the_curators_host(site: Site) -> None:
    site.curator('owners = ["north", "south"]', JAX_PLATFORMS="gpu,nonsense")
    own = {"identity": "consumer.pem", "log": "json", "output": "released", "release": {"kind": "merf"}}
    config = write_config(site.folder / "release.toml", caller_values(HERE, site.address, **own))
    asking = site.call("consumer", "release", config)
    assert asking.ended() == 10, asking.lines
    assert "for JAX_PLATFORMS=gpu,nonsense on the curator's host" in "".join(asking.lines)
    assert not list((site.folder / "runs").glob("run-*"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5310970000209636, "0.5311"),
        (123456.789, "123457"),
        (1e-5, "1e-05"),
        (math.inf, "inf"),
        (12, "12"),
        (True, "yes"),
        (["north", "south"], "north,south"),
        ((), "-"),
        ({"north": 3, "south": None}, "north:3,south:-"),
        (Path("a/b"), "a/b"),
        ("two words", "two words"),
        ("a\ncurator: run", '"a\\ncurator: run"'),
    ],
)
def test_values_of_text_lines_are_written_for_people(value: object, text: str) -> None:
    # No reprs of Python such as `milliseconds=0.5310970000209636` or `reason=None`.
    assert text_of(value) == text


def test_a_text_line_leaves_out_what_has_no_value(tmp_path: Path) -> None:
    path = tmp_path / "log"
    Log("curator", "text", path).write(
        "ended", {"run": "run-1", "reason": None, "advice": "", "record": {"milliseconds": 1 / 3}}
    )
    assert path.read_text() == "curator: ended run=run-1 milliseconds=0.3333\n"


def test_a_log_file_may_be_moved_away(tmp_path: Path) -> None:
    # logrotate without copytruncate: the next line goes to a new file.
    path = tmp_path / "log"
    log = Log("north", "json", path)
    log.write("one", {})
    path.rename(tmp_path / "log.1")
    log.write("two", {})
    assert json.loads((tmp_path / "log.1").read_text())["event"] == "one"
    assert json.loads(path.read_text())["event"] == "two"
    assert path.stat().st_mode & 0o007 == 0


@pytest.mark.parametrize("form", ["text", "json"])
def test_an_unexpected_failure_logs_type_and_place_alone(tmp_path: Path, form: str) -> None:
    # The text of an exception may hold a row: a log has its type and its place alone.
    log = Log("north", "json" if form == "json" else "text", tmp_path / "log")
    root = logging.getLogger()
    before, root.handlers[:] = root.handlers[:], []
    try:
        log.capture()
        try:
            raise ValueError(ROW)
        except ValueError as error:
            logging.getLogger("asyncio").exception("Exception in callback f(%s)", ROW)
            logging.getLogger("curator").exception("Attend failed")
            log.write("unforeseen", unforeseen(error))
    finally:
        root.handlers[:] = before
        logging.captureWarnings(False)
        os.environ.pop("GRPC_VERBOSITY", None)
    text = (tmp_path / "log").read_text()
    assert ROW not in text
    assert text.count("\n") == 3
    assert text.count("ValueError") == 3
    assert text.count("test_an_unexpected_failure_logs_type_and_place_alone") == 3
    assert "Attend failed" in text


def test_a_peer_cannot_forge_a_line(tmp_path: Path) -> None:
    for form in ("text", "json"):
        path = tmp_path / form
        Log("curator", "json" if form == "json" else "text", path).write(
            "refused", {"cause": "x\ncurator: ok"}
        )
        assert path.read_text().count("\n") == 1


def test_a_log_that_cannot_be_written_says_so_once_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    log = Log("north", "json", folder / "north.log")
    log.write("joined", {})
    folder.rename(tmp_path / "away")
    for number in range(3):
        log.write("run", {"run": number})
    cannot = f"the log {folder / 'north.log'} cannot be written: No such file or directory; "
    assert capsys.readouterr().err == f"{cannot}its lines are lost until it can\n"
    (tmp_path / "away").rename(folder)
    log.write("ended", {})
    events = [json.loads(line)["event"] for line in (folder / "north.log").read_text().splitlines()]
    assert events == ["joined", "ended"]
    assert not capsys.readouterr().err


def test_a_log_on_a_full_disk_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    log = Log("north", "json", Path("/dev/full"))
    for _ in range(3):
        log.write("joined", {})
    assert capsys.readouterr().err.count("\n") == 1
