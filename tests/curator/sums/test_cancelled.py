"""A release of marginals that is cancelled: neither its question nor its thread goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from curator.releases.marginals.descent import fit as fit_model
from curator.releases.method import make_method
from curator.runs.sums import stage_reporter
from fedkme.ops.threads import in_thread
from fedkme.releases.settings import release_settings
from tests.curator.sums.fake_owners import SCHEMA, At, FakeOwner, dealt, table


@pytest.mark.parametrize("moment", ["asking", "fitting"])
async def test_a_release_that_is_cancelled_asks_its_owners_for_nothing_more(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The question on its way went on, and so did the method's thread until it next told how far it was.
    settings = release_settings({"kind": "marginals", "mechanism": "rounds", "epsilon": 2.0})
    method, loop = make_method(settings, SCHEMA, None, 1), asyncio.get_running_loop()
    reached, going, go_on = asyncio.Event(), asyncio.Event(), threading.Event()
    asked, answered, over = list[int](), list[int](), asyncio.Event()
    embed = FakeOwner.embed

    async def watched(work: Callable[..., Any], *arguments: Any) -> Any:
        """Compute in a thread, and tell when it is over."""

        def compute() -> Any:
            try:
                return work(*arguments)
            finally:
                loop.call_soon_threadsafe(over.set)

        return await in_thread(compute)

    async def slow(self: FakeOwner, number: int, *question: Any) -> Any:
        asked.append(number)
        if moment == "asking" and number == 4:
            reached.set()
            await going.wait()
        answer = await embed(self, number, *question)
        answered.append(number)
        return answer

    def fit(*model: Any, **groups: Any) -> Any:
        if moment == "fitting" and 3 in answered:
            loop.call_soon_threadsafe(reached.set)
            go_on.wait()
        return fit_model(*model, **groups)

    monkeypatch.setattr("curator.releases.methods.marginals.in_thread", watched)
    monkeypatch.setattr(FakeOwner, "embed", slow)
    monkeypatch.setattr("curator.releases.marginals.rounds.fit", fit)
    at, context = At([FakeOwner(f"owner-{n}", part) for n, part in enumerate(dealt(table(3000), 3))]), Mock()
    abandoned, at.pool.report = stage_reporter(context, Mock())
    await at.pool.invite()
    release = asyncio.ensure_future(method.ask(at.pool))
    await asyncio.wait(
        {release, reaching := asyncio.ensure_future(reached.wait())}, return_when="FIRST_COMPLETED"
    )
    assert reaching.done()
    release.cancel()
    await asyncio.wait([release])
    abandoned.set()
    before = len(asked), len(answered)
    going.set()
    go_on.set()
    await over.wait()
    assert (len(asked), len(answered)) == before
