"""Party processes under a launcher, which starts them, reads their events and always ends them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fedkme.errors import FedkmeError, PartyFailedError, error_of
from fedkme.inputs import read_text
from fedkme.ops.supervision import LINE_LIMIT
from sim.engines.template import ENVIRONMENT, Forked, Template

Event = Mapping[str, Any]

GRACE_S = 20.0
"""Time that a party may take to stop before it is killed."""


class Child:
    """One party's process."""

    def __init__(self, party: str, process: Process | Forked, hear: Callable[[Event], None]) -> None:
        self.party = party
        self.failure: FedkmeError | None = None
        self._process = process
        self._hear = hear
        self._exit = asyncio.create_task(self._listen())

    @staticmethod
    async def start(
        party: str,
        command: list[str],
        errors: Path,
        hear: Callable[[Event], None],
        template: Template | None = None,
    ) -> Child:
        """Start `python -m COMMAND --supervised`, with a file for its standard error.

        `hear` gets each event of the process. The process is a fork of `template`, or a new interpreter
        without a template.
        """
        if template is not None:
            return Child(party, await template.fork(party, [*command, "--supervised"], errors), hear)
        with errors.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # an owner.py in the working folder is not run in place of ours
                "-m",
                *command,
                "--supervised",
                stdin=PIPE,
                stdout=PIPE,
                stderr=file,
                env=os.environ | ENVIRONMENT,
                limit=LINE_LIMIT,
                start_new_session=True,  # ctrl-C reaches the launcher alone
            )
        return Child(party, process, hear)

    @property
    def pid(self) -> int:
        """Number of the party's process."""
        return self._process.pid

    def tell(self, line: str) -> None:
        """Write a line to the party's input; a party that has ended does not get it."""
        if self._process.stdin is not None and self._process.returncode is None:
            with contextlib.suppress(ConnectionError):
                self._process.stdin.write(line.encode() + b"\n")

    async def ended(self) -> int:
        """Exit status, once every event of the party was read."""
        return await asyncio.shield(self._exit)

    async def stop(self) -> None:
        """Close the party's input, which tells it to stop; kill it after GRACE_S."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            async with asyncio.timeout(GRACE_S):
                await self.ended()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
            self._exit.cancel()

    async def _listen(self) -> int:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            event = _event(line)
            if event is None:
                continue
            event["party"] = self.party
            if event["event"] == "failed":
                self.failure = self._failure(event)
            self._hear(event)
        return await self._process.wait()

    def _failure(self, event: Event) -> FedkmeError:
        cause: str = event["cause"]
        named = cause if cause.startswith(self.party) else f"{self.party}: {cause}"
        error = error_of(event["code"], named, event["remedy"])
        return error or PartyFailedError(named, event["remedy"])

    def died(self, status: int, errors: Path) -> FedkmeError:
        """Make the error for a party that ended with `status`."""
        if self.failure is not None:
            return self.failure
        lines = read_text(errors, errors="replace").strip().splitlines()
        last = f": {lines[-1]}" if lines else ""
        return PartyFailedError(
            f"{self.party} {how_ended(status)}{last}", f"Its standard error is in {errors}."
        )


def _event(line: bytes) -> dict[str, Any] | None:
    """Parse a line of events; None for other output, such as a library's print."""
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def how_ended(status: int) -> str:
    """Say how a process ended, by its exit status."""
    return f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
