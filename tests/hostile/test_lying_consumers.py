"""Each message of a consumer with a lie in it; others finish, and it is said who lied.

The liar is a real consumer whose messages are changed on their way, beside one that is honest, at a curator
that serves both. What it says of D_v is its own to say: a lie that nothing public contradicts makes a run of
rows for another D_v, and costs nobody else anything.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import consumer.releases.client
import consumer.summary.client
from consumer.releases.client import ReleaseConsumerSettings
from curator.summary.settings import CellsSettings, FeatureSettings, SummarySettings
from curator.sums.settings import SumSettings
from fedkme.errors import FedkmeError
from fedkme.exchange import ReleaseRequest
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import GaussianSettings
from fedkme.releases.settings import release_settings
from fedkme.wire.releases import request_to_wire
from fedkme.wire.v1 import summaries_pb2 as pb
from owner.settings import PolicySettings
from tests.parties import caller_values
from tests.system.market import Ear, market
from tests.system.release_market import BALOG1

Lie = Callable[[Any], Any]


def change_rows(sent: Any, change: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> None:
    """Put other rows of D_v into a message."""
    part = sent.validation
    rows = np.frombuffer(part.values, "<f8").reshape(-1, part.columns)
    part.values = change(rows).astype("<f8").tobytes()


LYING: ContextVar[tuple[str, Lie] | None] = ContextVar("LYING", default=None)
TOLD: ContextVar[list[str]] = ContextVar("TOLD")
SOUND = GaussianSettings(epsilon=1.0)
NAMED = dict.fromkeys(("an owner's name", "nobody's name", "another message", "no version in common"))
"""Lies of a caller whose name was not looked at, or is not its own, without certificates."""
SMALL, CHEAP = FeatureSettings(dimension=16), PrivacyTarget(epsilon=100.0)
CELLS = CellsSettings(code_book="sketch", bits=2, dimension=2)
SUMMARIES = {
    "clock": SummarySettings(features=SMALL, protocol="algorithm3", privacy=CHEAP),
    "cells": SummarySettings(features=SMALL, protocol="cells", privacy=CHEAP, cells=CELLS),
    "sealed": SummarySettings(features=SMALL, protocol="cells", privacy=CHEAP, cells=CELLS, content="hashed"),
}
REFUSED: dict[str, dict[str, Lie]] = {
    "request": {
        "no rows": lambda sent: setattr(sent.request, "rows", 0),
        "more rows than there are": lambda sent: setattr(sent.request, "rows", 2**62),
        "no D_v": lambda sent: setattr(sent.request, "validation_rows", 0),
        "another schema": lambda sent: setattr(sent.request, "schema_digest", "0" * 64),
        "no kernel": lambda sent: sent.request.ClearField("gamma"),
        "a kernel of no width": lambda sent: setattr(sent.request, "gamma", float("nan")),
        "noise that is none": lambda sent: setattr(sent.request, "count_deviation", -1.0),
        "an owner's name": lambda sent: setattr(sent.request, "name", "a"),
        "nobody's name": lambda sent: setattr(sent.request, "name", ""),
        "a long id": lambda sent: setattr(sent.request, "request_id", b"x" * 65),
        "another message": lambda sent: sent.attach.SetInParent(),
    },
    "target": {
        "too short": lambda sent: sent.target.coordinates.pop(),
        "none": lambda sent: sent.ClearField("target"),
        "as much as can be": lambda sent: sent.target.coordinates.__setitem__(0, 2**31 - 1),
        "counts in its place": lambda sent: sent.histogram.cells.extend([1]),
    },
    "histogram": {
        "too short": lambda sent: sent.histogram.cells.pop(),
        "none": lambda sent: sent.ClearField("histogram"),
        "a mean in its place": lambda sent: sent.target.coordinates.extend([1]),
        "a direction that is not there": lambda sent: sent.picks.append(7),
    },
    "gifts": {
        "none": lambda sent: sent.ClearField("gifts"),
        "one twice": lambda sent: sent.gifts.append(sent.gifts[0]),
        "one of an owner that is not there": lambda sent: setattr(sent.gifts[0], "taker", "nobody"),
        "another's box": lambda sent: setattr(sent.gifts[0], "box", sent.gifts[1].box),
        "another secret": lambda sent: setattr(sent.gifts[0], "commitment", bytes(32)),
        "an altered box": lambda sent: setattr(sent.gifts[0], "box", sent.gifts[0].box[::-1]),
        "an empty box": lambda sent: setattr(sent.gifts[0], "box", b""),
        "a megabyte": lambda sent: setattr(sent.gifts[0], "box", bytes(2**20)),
        "one from an owner": lambda sent: setattr(sent.gifts[0].giver, "name", "a"),
        "unsigned": lambda sent: setattr(sent.gifts[0], "signature", bytes(64)),
    },
    "validation": {
        "fewer rows than it said": lambda sent: change_rows(sent, lambda rows: rows[:-1]),
        "more rows": lambda sent: change_rows(sent, lambda rows: np.tile(rows, (2, 1))),
        "no numbers": lambda sent: change_rows(sent, lambda rows: rows * np.nan),
        "rows outside of the schema": lambda sent: change_rows(sent, lambda rows: rows + 7),
        "other columns": lambda sent: setattr(sent.validation, "columns", 5),
        "half a number": lambda sent: setattr(sent.validation, "values", sent.validation.values[:-3]),
        "rows in two forms": lambda sent: sent.validation.rows.add(),
        "no rows": lambda sent: sent.validation.ClearField("values"),
        "a mean in their place": lambda sent: sent.target.coordinates.extend([1] * 16),
    },
    "disclosures": {
        "no line": lambda sent: sent.disclosures.append("{}"),
        "no text": lambda sent: sent.disclosures.append("\0"),
        "too many": lambda sent: sent.disclosures.extend(list(sent.disclosures[:1] or ["{}"]) * 10_000),
    },
}
"""Lies that something public contradicts, by what they are in."""
BEGUN = {"no D_v"}
"""Lies that come out in the run, whose record names the consumer."""
BELIEVED: dict[str, dict[str, Lie]] = {
    "request": {
        "more of D_v than there is": lambda sent: setattr(sent.request, "validation_rows", 2**40),
        "classes": lambda sent: setattr(sent.request, "labelled", True),
    },
    "target": {"nothing": lambda sent: sent.target.coordinates.__setitem__(slice(None), [0] * 16)},
    "histogram": {
        "as much as can be": lambda sent: sent.histogram.cells.__setitem__(0, 2**53 - 1),
        "less than nothing": lambda sent: sent.histogram.cells.__setitem__(0, -(2**53 - 1)),
        "nothing": lambda sent: sent.histogram.cells.__setitem__(
            slice(None), [0] * len(sent.histogram.cells)
        ),
    },
    "gifts": {"none for one owner": lambda sent: sent.gifts.__delitem__(0)},
    "validation": {"other rows": lambda sent: change_rows(sent, lambda rows: rows * 0)},
    "disclosures": {"none at all": lambda sent: sent.ClearField("disclosures")},
}
"""Lies about D_v itself, or about what it costs: of these its own ledger says something else."""
RELEASES: dict[str, Lie] = {
    "no settings": lambda sent: sent.ClearField("settings"),
    "no object": lambda sent: setattr(sent, "settings", "[]"),
    "a method that is not there": lambda sent: set_of(sent, kind="oracle"),
    "a key that is not there": lambda sent: set_of(sent, trust=1),
    "noise that is none": lambda sent: set_of(sent, epsilon=float("nan")),
    "less than no epsilon": lambda sent: set_of(sent, epsilon=-1.0),
    "no chance of a failure": lambda sent: set_of(sent, delta=0.0),
    "points without end": lambda sent: set_of(sent, points=10**9),
    "a kernel of no width": lambda sent: set_of(sent, gamma=0.0),
    "more than a curator allows": lambda sent: set_of(sent, epsilon=50.0),
    "letters without end": lambda sent: setattr(sent, "settings", " " * (2**22 + 1)),
    "another schema": lambda sent: setattr(sent, "schema_digest", "0" * 64),
    "an owner's name": lambda sent: setattr(sent, "name", "a"),
    "nobody's name": lambda sent: setattr(sent, "name", ""),
    "a long id": lambda sent: setattr(sent, "request_id", b"x" * 65),
    "no version in common": lambda sent: setattr(sent.versions, "oldest", 10**6),
    "the run of another": lambda sent: setattr(sent, "attach", "run-1"),
}
"""Lies in a request of a release; what else it asks for is its own to say, and owners' budgets bind it."""
SENT = {
    "clock": ("request", "target", "validation", "disclosures"),
    "cells": ("request", "histogram", "validation", "disclosures"),
    "sealed": ("gifts",),
}
HEADED = {"gifts", "disclosures"}
"""Parts of the message in which g~ or the histogram is."""


def set_of(sent: Any, **values: Any) -> None:
    """Change settings of a request of a release."""
    sent.settings = json.dumps({**json.loads(sent.settings), **values})


class LyingCall:
    """A consumer's call whose message of one kind is changed on its way."""

    def __init__(self, stream: Any, part: str, lie: Lie) -> None:
        self._stream = stream
        self._part = part
        self._lie = lie

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def write(self, message: pb.ConsumerMessage) -> None:
        body = message.WhichOneof("body")
        if self._part == body or (self._part in HEADED and body in ("target", "histogram")):
            self._lie(message)
            TOLD.get().append(self._part)
        await self._stream.write(message)


@pytest.fixture(autouse=True)
def lying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the calls of a task that was told to lie do so."""
    summarize = consumer.summary.client.summarize

    async def asked(stream: Any, *arguments: Any, **named: Any) -> Any:
        if (lie := LYING.get()) is not None:
            stream = LyingCall(stream, *lie)
        return await summarize(stream, *arguments, **named)

    def requested(request: ReleaseRequest) -> Any:
        message = request_to_wire(request)
        if (lie := LYING.get()) is not None:
            lie[1](message)
        return message

    monkeypatch.setattr(consumer.summary.client, "summarize", asked)
    monkeypatch.setattr(consumer.releases.client, "request_to_wire", requested)


async def outcome(task: asyncio.Task[None]) -> FedkmeError | None:
    """Error with which a consumer's command ended."""
    try:
        await task
    except FedkmeError as error:
        return error
    return None


def lies_in(protocol: str, part: str) -> dict[str, Lie]:
    """Lies in a part, refused and believed; by cells only one of those that every protocol reads alike."""
    lies = REFUSED[part] | BELIEVED.get(part, {})
    if part in ("request", "validation") and protocol != "clock":
        return {lie: lies[lie] for lie in lies if lie == "more rows"}
    return lies


def consumers_of_records(folder: Path) -> dict[str, Any]:
    """Records of a curator's runs by their consumers."""
    records = [json.loads(path.read_text()) for path in (folder / "runs").glob("*/record.json")]
    return {record["consumer"]: record for record in records}


@pytest.mark.parametrize(
    ("protocol", "part"),
    [(protocol, part) for protocol, parts in SENT.items() for part in parts if lies_in(protocol, part)],
)
async def test_liars_are_named_and_the_others_finish(tmp_path: Path, protocol: str, part: str) -> None:
    lies = lies_in(protocol, part)
    names = {lie: f"liar-{number}" for number, lie in enumerate(lies)}
    told: dict[str, list[str]] = {lie: [] for lie in lies}
    share: dict[str, Any] = {"share": "rows"} if part == "validation" else {}
    async with market(tmp_path, ["a", "b"], summary=SUMMARIES[protocol]) as at:
        for name in ("a", "b"):
            at.owner(name, simulation_seed=0, policy=PolicySettings(runs_at_once=32))
        liars = {}
        for lie, name in names.items():
            LYING.set((part, lies[lie]))
            TOLD.set(told[lie])
            liars[lie] = at.consumer(name=name, output=tmp_path / name, target=SOUND, **share)
        LYING.set(None)
        honest = at.consumer(name="honest", output=tmp_path / "honest", target=SOUND)
        assert await outcome(honest) is None
        errors = {lie: await outcome(liar) for lie, liar in liars.items()}
        await at.consumer(name="later", output=tmp_path / "later", target=SOUND)
        refusals = [fields.get("consumer") for event, fields in at.ear.said if event == "refused"]
    assert all(told.values()), told
    assert {lie for lie, error in errors.items() if error is not None} == lies.keys() & REFUSED[part].keys()
    at_the_door = lies.keys() & REFUSED[part].keys() - BEGUN
    begun = [names[lie] for lie in lies.keys() & BEGUN]
    assert Counter(refusals) - Counter(begun) == Counter(NAMED.get(lie, names[lie]) for lie in at_the_door)
    records = consumers_of_records(tmp_path)
    assert records.keys() == {"honest", "later"} | {names[lie] for lie in lies.keys() - at_the_door}
    assert all(records[name]["status"] in ("failed", "stopped") for name in begun)


async def test_liars_about_a_release_are_named_and_the_others_finish(tmp_path: Path) -> None:
    names = {lie: f"liar-{number}" for number, lie in enumerate(RELEASES)}
    pooling = SumSettings(most_epsilon=10.0)
    async with market(tmp_path, ["a", "b"], summary=SUMMARIES["clock"], release=pooling) as at:
        for name in ("a", "b"):
            at.owner(name, simulation_seed=0, policy=PolicySettings(runs_at_once=32))
        await at.consumer(name="honest", output=tmp_path / "honest", target=SOUND)
        liars = {}
        for lie, name in names.items():
            LYING.set(("release", RELEASES[lie]))
            asked = {"release": release_settings(BALOG1), "output": tmp_path / name, "name": name}
            settings = ReleaseConsumerSettings(**caller_values(tmp_path, at.address, **asked))
            liars[lie] = asyncio.create_task(consumer.releases.client.run(settings, Ear()))
        LYING.set(None)
        later = at.consumer(name="later", output=tmp_path / "later", target=SOUND)
        errors = {lie: await outcome(liar) for lie, liar in liars.items()}
        await later
        refusals = [fields.get("consumer") for event, fields in at.ear.said if event == "refused"]
    assert all(errors.values()), errors
    assert Counter(refusals) == Counter(NAMED.get(lie, name) for lie, name in names.items())
    assert consumers_of_records(tmp_path).keys() == {"honest", "later"}
