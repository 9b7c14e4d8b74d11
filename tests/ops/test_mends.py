"""Processes that are killed: `owner resync` restores what was lost, and answers are drawn once."""

from __future__ import annotations

import contextlib
import shutil
import signal
from collections import Counter
from pathlib import Path

from fedkme.privacy.events import OWNERS, Disclosure
from fedkme.privacy.ledger import disclosures_in, read_ledger
from fedkme.store.reading import read_store
from tests.ops.parties import SIZES, Party, Site
from tests.parties import HERE, caller_values, run_verb, write_config

BOTH = 'owners = ["north", "south"]\n'
DIES_BEFORE_ITS_COMMIT = """
import os, signal
from fedkme.store.sqlite import SqliteStore
put = SqliteStore.put
def dying(self, key, value):
    put(self, key, value)
    if key.startswith("head/"):
        os.kill(os.getpid(), signal.SIGKILL)
SqliteStore.put = dying
"""
"""Code of a process that is killed after its writes and before the commit."""


def stop(party: Party) -> None:
    """Stop a process as a service manager does."""
    party.process.terminate()
    assert party.ended() == 0


def heard(site: Site, name: str) -> Counter[Disclosure]:
    """Lines of an owner's ledger that other parties have, too."""
    with contextlib.closing(read_store(str(site.folder / f"{name}.db"), name)) as store:
        lines = disclosures_in(row.line for row in store.ledger())
    return Counter(line for line in lines if line.nonce.split()[0] not in ("bid", "counts"))


def summary(site: Site, number: int) -> None:
    asking = site.consumer(3, f"out{number}")
    assert asking.ended() == 0, asking.lines


def test_a_restored_owner_gets_back_what_it_lost_though_the_first_attempt_is_killed(site: Site) -> None:
    curator = site.curator(BOTH)
    north = site.owner("north")
    site.owner("south")
    summary(site, 1)
    stop(north)
    shutil.copy(site.folder / "north.db", site.folder / "backup")
    north = site.owner("north")
    summary(site, 2)
    curator.until("ended", 2)
    stop(north)
    before = heard(site, "north")
    shutil.copy(site.folder / "backup", site.folder / "north.db")
    restored = heard(site, "north")
    assert before - restored
    assert not restored - before

    exported = site.folder / "curator.jsonl"
    export = site.call("curator", "ledger", site.folder / "curator.toml", "--out", exported)
    assert export.ended() == 0, export.lines
    command = ("resync", site.folder / "north.toml", "--curator", exported)
    assert site.call("owner", *command, first=DIES_BEFORE_ITS_COMMIT).ended() == -signal.SIGKILL
    assert heard(site, "north") == restored  # all or nothing
    process = site.call("owner", *command)
    assert process.ended() == 0, process.lines
    assert heard(site, "north") == before
    assert site.call("owner", *command).ended() != 0  # nothing is lost any more, and nothing charged twice

    site.owner("north")
    summary(site, 3)
    curator.until("ended", 3)
    assert not [line for line in curator.events() if line["event"] == "unwitnessed"]


TABLES = {"kind": "marginals", "epsilon": 5.0, "seed": 3, "iterations": 10, "rows": 20}
DIES_WITH_AN_ANSWER = """
import hashlib, os, signal
from curator.runs.release_run import ReleaseRun
from curator.sums.answers import Answers
left = {number}
def dies():
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
keep, of = ReleaseRun._keep, Answers.of
def keeping(self, answer):
    keep(self, answer)
    dies()
async def answered(self, question, ask):
    tables = await of(self, question, ask)
    with open({noted!r}, "a") as file:
        print(hashlib.sha256(b"".join(table.tobytes() for table in tables)).hexdigest(), file=file)
    return tables
ReleaseRun._keep, Answers.of = keeping, answered
"""
"""Code of a curator that notes digests of answers, and is killed in the transaction of one."""


def sums_of(path: Path) -> list[str]:
    """Questions in a ledger, with their digests."""
    lines = [entry.disclosure for entry in read_ledger(path)]
    assert sum(line.observer == OWNERS for line in lines) <= len(SIZES)
    return [line.nonce for line in lines if line.nonce.startswith("sums ")]


def test_an_adaptive_release_whose_curator_is_killed_draws_each_answer_once(site: Site) -> None:
    # Noise comes from the operating system, so a repeated draw would differ. Questions follow from answers,
    # and each question is in every ledger once.
    noted = site.folder / "answers.txt"
    dies, lives = (DIES_WITH_AN_ANSWER.format(number=deaths, noted=str(noted)) for deaths in (2, 0))
    dying = site.curator(BOTH, first=dies)
    for name in SIZES:
        site.owner(name)
    own = {"identity": "consumer.pem", "log": "json", "output": "released", "release": TABLES}
    config = write_config(site.folder / "release.toml", caller_values(HERE, site.address, **own))
    asking = site.call("consumer", "release", config)
    assert dying.ended() == -signal.SIGKILL
    curator = site.curator(BOTH, first=lives)
    assert asking.ended() == 0, asking.lines
    curator.until("ended")
    first, *later = noted.read_text().split()
    assert later[0] == first
    assert len(set(later)) == len(later) >= 6  # fine bins, columns and rounds
    assert not [line for line in curator.events() if line["event"] in ("owner_left", "unwitnessed")]
    assert (site.folder / "released" / "release.npz").exists()

    ledgers = {}
    for name in SIZES:
        ledgers[name] = site.folder / f"{name}.jsonl"
        run_verb("owner", "ledger", site.folder / f"{name}.toml", "--out", ledgers[name])
        asked = [int(nonce.split()[1]) for nonce in sums_of(ledgers[name])]
        assert asked == list(range(1, len(later) + 1))
    trusted = ("--authority", site.folder / "authority.pem")
    verdict = run_verb("audit", "verify", site.folder / "runs", *ledgers.values(), *trusted)
    assert "FAULT" not in verdict
