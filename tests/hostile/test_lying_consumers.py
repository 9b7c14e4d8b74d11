"""Issue 17, item A5: each message of a consumer with a lie in it; others finish, and it is said who lied.

The liar is a real consumer whose messages are changed on their way, beside one that is honest, at a curator
that serves both. What it says of D_v is its own to say: a lie that nothing public contradicts makes a run of
rows for another D_v, and costs nobody else anything.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

import consumer.summary.client
from curator.cells.settings import CellsSettings
from curator.summary.settings import FeatureSettings, SummarySettings
from fedkme.errors import FedkmeError
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import GaussianSettings
from fedkme.wire.v1 import summaries_pb2 as pb
from tests.system.market import market

Lie = Callable[[pb.ConsumerMessage], Any]
LYING: ContextVar[tuple[str, Lie] | None] = ContextVar("LYING", default=None)
TOLD: ContextVar[list[str]] = ContextVar("TOLD")
SOUND = GaussianSettings(epsilon=1.0)
NAMED = {"an owner's name": None, "nobody's name": None, "another message": None}
"""Names in the curator's log where a caller lies about its own, without certificates."""
SMALL, CHEAP = FeatureSettings(dimension=16), PrivacyTarget(epsilon=100.0)
CELLS = CellsSettings(code_book="sketch", bits=2, dimension=2)
SUMMARIES = {
    "clock": SummarySettings(features=SMALL, protocol="algorithm3", privacy=CHEAP),
    "cells": SummarySettings(features=SMALL, protocol="cells", privacy=CHEAP, cells=CELLS),
    "sealed": SummarySettings(features=SMALL, protocol="cells", privacy=CHEAP, cells=CELLS, content="hashed"),
}
REFUSED: dict[str, dict[str, Lie]] = {
    "request": {
        "no rows": lambda said: setattr(said.request, "rows", 0),
        "more rows than there are": lambda said: setattr(said.request, "rows", 2**62),
        "no D_v": lambda said: setattr(said.request, "validation_rows", 0),
        "another schema": lambda said: setattr(said.request, "schema_digest", "0" * 64),
        "no kernel": lambda said: said.request.ClearField("gamma"),
        "a kernel of no width": lambda said: setattr(said.request, "gamma", float("nan")),
        "noise that is none": lambda said: setattr(said.request, "count_deviation", -1.0),
        "an owner's name": lambda said: setattr(said.request, "name", "a"),
        "nobody's name": lambda said: setattr(said.request, "name", ""),
        "a long id": lambda said: setattr(said.request, "request_id", b"x" * 65),
        "another message": lambda said: said.attach.SetInParent(),
    },
    "target": {
        "too short": lambda said: said.target.coordinates.pop(),
        "none": lambda said: said.ClearField("target"),
        "as much as can be": lambda said: said.target.coordinates.__setitem__(0, 2**31 - 1),
        "counts in its place": lambda said: said.histogram.cells.extend([1]),
    },
    "histogram": {
        "too short": lambda said: said.histogram.cells.pop(),
        "none": lambda said: said.ClearField("histogram"),
        "a mean in its place": lambda said: said.target.coordinates.extend([1]),
        "a direction that is not there": lambda said: said.picks.append(7),
    },
    "disclosures": {
        "no line": lambda said: said.disclosures.append("{}"),
        "no text": lambda said: said.disclosures.append("\0"),
        "too many": lambda said: said.disclosures.extend(list(said.disclosures[:1] or ["{}"]) * 10_000),
    },
}
"""Lies that something public contradicts, by what they are in."""
BEGUN = {"no D_v"}
"""Lies that come out in the run, whose record names the consumer."""
BELIEVED: dict[str, dict[str, Lie]] = {
    "request": {
        "more of D_v than there is": lambda said: setattr(said.request, "validation_rows", 2**40),
        "classes": lambda said: setattr(said.request, "labelled", True),
    },
    "target": {
        "nothing": lambda said: said.target.coordinates.__setitem__(slice(None), [0] * 16),
    },
    "histogram": {
        "as much as can be": lambda said: said.histogram.cells.__setitem__(0, 2**53 - 1),
        "less than nothing": lambda said: said.histogram.cells.__setitem__(0, -(2**53 - 1)),
        "nothing": lambda said: said.histogram.cells.__setitem__(
            slice(None), [0] * len(said.histogram.cells)
        ),
    },
    "disclosures": {"none at all": lambda said: said.ClearField("disclosures")},
}
"""Lies about D_v itself, or about what it costs: of these its own ledger says something else."""
SENT = {"clock": ("request", "target", "disclosures"), "cells": ("request", "histogram", "disclosures")}


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
        if self._part == body or (self._part == "disclosures" and body != "request"):
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

    monkeypatch.setattr(consumer.summary.client, "summarize", asked)


async def outcome(task: asyncio.Task[None]) -> FedkmeError | None:
    """Error with which a consumer's command ended."""
    try:
        await task
    except FedkmeError as error:
        return error
    return None


CASES = [
    pytest.param(protocol, part, lie, refused, id=f"{protocol}-{part}-{lie}")
    for refused, lies in ((True, REFUSED), (False, BELIEVED))
    for protocol, parts in SENT.items()
    for part in parts
    for lie in lies[part]
    if part != "request" or protocol == "clock"
]


@pytest.mark.parametrize(("protocol", "part", "lie", "refused"), CASES)
async def test_a_liar_is_named_and_the_others_finish(
    tmp_path: Path, protocol: str, part: str, lie: str, refused: bool
) -> None:
    told: list[str] = []
    async with market(tmp_path, ["a", "b"], summary=SUMMARIES[protocol]) as at:
        for name in ("a", "b"):
            at.owner(name, simulation_seed=0)
        LYING.set((part, (REFUSED if refused else BELIEVED)[part][lie]))
        TOLD.set(told)
        liar = at.consumer(name="liar", output=tmp_path / "lies", target=SOUND)
        LYING.set(None)
        honest = at.consumer(name="honest", output=tmp_path / "honest", target=SOUND)
        assert await outcome(honest) is None
        ended = await outcome(liar)
        await at.consumer(name="later", output=tmp_path / "later", target=SOUND)
        said = [fields for event, fields in at.ear.said if event == "refused"]
    assert told, "no lie was told"
    records = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("*/record.json")]
    whose = sorted(record["consumer"] for record in records)
    assert (ended is not None) is refused
    if refused and lie in BEGUN:
        (record,) = (record for record in records if record["consumer"] == "liar")
        assert record["status"] in ("failed", "stopped")
    elif refused:
        assert whose == ["honest", "later"]
        assert [fields.get("consumer") for fields in said] == [NAMED.get(lie, "liar")]
    else:
        assert (whose, said) == (["honest", "later", "liar"], [])
