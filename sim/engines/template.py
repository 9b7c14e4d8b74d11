"""Interpreter that has imported every role, and forks the parties of a launch: K + 2 of them import once.

It is a fresh interpreter, whatever its launcher has done: it has one thread and no gRPC connection, so that a
fork of it is as good as a new one (docs/decisions/024). `python -m sim.engines.template FD` is
the process; FD its end of a socket to the launcher, each message of which is one JSON value.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from fedkme.errors import PartyFailedError
from fedkme.ops.supervision import LINE_LIMIT

AVAILABLE = sys.platform == "linux"
"""Elsewhere, libraries of the system may start threads when they are imported."""
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
"""Variables of every party."""
_IMPORTED = (
    *("operate.cli", "curator.cli", "owner.cli", "consumer.cli", "numpy.ma", "numpy.random"),
    *(
        "fedkme.ledgers.compaction",
        "fedkme.privacy.accountants",
    ),  # which each party would import as it begins
)
_MESSAGE_BYTES = 2**16


class Forked:
    """A party that was forked; in what a launcher does with it, it is like `asyncio.subprocess.Process`."""

    def __init__(
        self,
        pid: int,
        stdin: asyncio.WriteTransport,
        stdout: asyncio.StreamReader,
        ended: asyncio.Future[int],
    ) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self._ended = ended

    @property
    def returncode(self) -> int | None:
        """Exit status, a signal's number negated; None before the end."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for the end; the exit status."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Kill it.

        Raises:
            ProcessLookupError: it has ended.
        """
        if self._ended.done():
            raise ProcessLookupError
        os.kill(self.pid, signal.SIGKILL)


class Template:
    """The launcher's side."""

    def __init__(self, errors: Path) -> None:
        """Start it within a running event loop; its standard error goes to a file."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, errors.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sim.engines.template", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                pass_fds=(theirs.fileno(),),
                env=os.environ | ENVIRONMENT,
                start_new_session=True,  # ctrl-C reaches the launcher alone
            )
        self._attach()

    def _attach(self) -> None:
        """Hear of its forks in the loop that runs."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._hear)
        self._pids: asyncio.Queue[int | None] = asyncio.Queue()
        self._ends: dict[int, asyncio.Future[int]] = {}

    @property
    def pid(self) -> int:
        """Number of its process."""
        return self._process.pid

    async def fork(self, party: str, command: list[str], errors: Path) -> Forked:
        """Fork `python -m COMMAND` for a party, with a file for its standard error; one at a time.

        Raises:
            PartyFailedError: the template is gone.
        """
        their_stdin, stdin = os.pipe()
        stdout, their_stdout = os.pipe()
        with contextlib.ExitStack() as theirs:
            theirs.callback(os.close, their_stdin)
            theirs.callback(os.close, their_stdout)
            given = [their_stdin, their_stdout, theirs.enter_context(errors.open("ab")).fileno()]
            with contextlib.suppress(OSError):  # it is gone: `_hear` says so
                socket.send_fds(self._socket, [json.dumps([party, command]).encode()], given)
            pid = await self._pids.get()
        writer, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(stdin, "wb", 0))
        reader = asyncio.StreamReader(LINE_LIMIT)
        await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(stdout, "rb", 0)
        )
        if pid is None:
            writer.close()
            raise PartyFailedError("the parties' template ended", "Its standard error is beside theirs.")
        return Forked(pid, writer, reader, self._ends[pid])

    def close(self) -> None:
        """Let it end; the parties have ended, or end when their input does."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._process.wait()

    def _hear(self) -> None:
        message = self._socket.recv(_MESSAGE_BYTES)
        if not message:
            self._gone()
            return
        pid, status = json.loads(message)
        if status is None:
            self._ends[pid] = self._loop.create_future()
            self._pids.put_nowait(pid)
        else:
            self._ends.pop(pid).set_result(status)

    def _gone(self) -> None:
        """End what nobody will tell of any more."""
        self._loop.remove_reader(self._socket)
        self._pids.put_nowait(None)
        for pid, end in self._ends.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            end.set_result(-signal.SIGKILL)


def _serve(control: socket.socket) -> list[str] | None:
    """Fork until the launcher hangs up; in each fork, return its command."""
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    with selectors.DefaultSelector() as waiting:
        waiting.register(control, selectors.EVENT_READ)
        waiting.register(woken, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in waiting.select()}
            if woken in ready:
                os.read(woken, _MESSAGE_BYTES)
                _tell_of_the_dead(control)
            if control.fileno() in ready:
                message, given, _, _ = socket.recv_fds(control, _MESSAGE_BYTES, 3)
                if not message:
                    return None
                if pid := os.fork():
                    _say(control, pid, None)
                    for number in given:
                        os.close(number)
                    continue
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                break
    control.close()
    party, command = json.loads(message)
    _settle(party, given, [woken, wakes])
    return list(command)


def _tell_of_the_dead(control: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):  # nobody is left
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            _say(control, ended[0], os.waitstatus_to_exitcode(ended[1]))


def _say(control: socket.socket, *words: Any) -> None:
    with contextlib.suppress(OSError):  # the launcher is gone, which the next `recv` tells
        control.send(json.dumps(words).encode())


def _settle(party: str, given: list[int], needless: list[int]) -> None:
    """Be a process of its own, by the name of its party, with standard streams as a launcher gave them."""
    os.setsid()
    Path("/proc/self/comm").write_bytes(party.encode()[:15])
    for stream, number in enumerate(given):
        os.dup2(number, stream)
    for number in (*given, *needless):
        os.close(number)


def main() -> None:
    """Be the template; and in a fork, the party."""
    gc.disable()  # a quarter of the time of imports is collections, which find nothing
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # a collection in a party would write to, and so copy, each page that they share
    gc.enable()
    command = _serve(socket.socket(fileno=int(sys.argv[1])))
    if command is not None:
        sys.argv = command
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
