"""Template process: an interpreter that imports every role once and forks the K + 2 parties of a launch.

It is a fresh interpreter with one thread and no gRPC connection, whatever its launcher has done, so that a
fork is as good as a new interpreter (docs/decisions/024). The process is `python -m sim.engines.template FD`;
FD is its end of a socket to the launcher. Each message on the socket is one JSON value.
"""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkme.errors import PartyFailedError
from fedkme.ops.supervision import LINE_LIMIT

AVAILABLE = sys.platform == "linux"
"""True on Linux. On other systems, libraries may start threads at their import."""
ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
"""Environment variables of every party."""
_IMPORTED = (
    *("operate.cli", "curator.cli", "owner.cli", "consumer.cli", "numpy.ma", "numpy.random"),
    *("fedkme.ledgers.archiving", "fedkme.privacy.accountants"),  # each party imports these two at its start
    *("scipy.special", "scipy.linalg"),  # a curator and a consumer take a tenth of a second for each of them
)
_MESSAGE_BYTES = 2**16


@dataclass(frozen=True, eq=False)
class Forked:
    """A forked party, with the methods of `asyncio.subprocess.Process` that a launcher uses."""

    pid: int
    stdin: asyncio.WriteTransport
    stdout: asyncio.StreamReader
    _ended: asyncio.Future[int]

    @property
    def returncode(self) -> int | None:
        """Exit status, or the negated number of the signal that ended the party; None before the end."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait for the party's end; return its exit status."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Kill the party.

        Raises:
            ProcessLookupError: the party has ended.
        """
        if self._ended.done():
            raise ProcessLookupError
        os.kill(self.pid, signal.SIGKILL)


class Template:
    """The launcher's handle of the template process."""

    def __init__(self, errors: Path) -> None:
        """Start the template within a running event loop; its standard error goes to a file."""
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
        """Listen for messages about forks in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._hear)
        self._begun: asyncio.Queue[tuple[int, asyncio.Future[int]] | None] = asyncio.Queue()
        self._ends: dict[int, asyncio.Future[int]] = {}

    @property
    def pid(self) -> int:
        """Number of the template's process."""
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
            with contextlib.suppress(OSError):  # the template is gone: `_hear` reports it
                socket.send_fds(self._socket, [json.dumps([party, command]).encode()], given)
            begun = await self._begun.get()
        writer, _ = await self._loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(stdin, "wb", 0))
        reader = asyncio.StreamReader(LINE_LIMIT)
        await self._loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(stdout, "rb", 0)
        )
        if begun is None:
            writer.close()
            cause = "the template process of the parties ended"
            raise PartyFailedError(cause, "See stderr/template.txt in the run's folder.")
        pid, ended = begun  # its end may have been heard already
        return Forked(pid, writer, reader, ended)

    def close(self) -> None:
        """End the template; the parties have ended, or end when their input ends."""
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._process.wait()

    def _hear(self) -> None:
        message = b""
        with contextlib.suppress(ConnectionError):  # the template died, such as of a module that is not there
            message = self._socket.recv(_MESSAGE_BYTES)
        if not message:
            self._gone()
            return
        pid, status = json.loads(message)
        if status is None:
            self._ends[pid] = self._loop.create_future()
            self._begun.put_nowait((pid, self._ends[pid]))
        else:
            self._ends.pop(pid).set_result(status)

    def _gone(self) -> None:
        """Kill every fork: without the template their ends are not reported."""
        self._loop.remove_reader(self._socket)
        self._begun.put_nowait(None)
        for pid, end in self._ends.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            end.set_result(-signal.SIGKILL)


def _serve(control: socket.socket) -> list[str] | None:
    """Fork until the launcher closes the socket, then return None; in each fork, return its command."""
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
                _report_ended(control)
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


def _report_ended(control: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):  # no fork is left
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            _say(control, ended[0], os.waitstatus_to_exitcode(ended[1]))


def _say(control: socket.socket, *words: Any) -> None:
    with contextlib.suppress(OSError):  # the launcher is gone: the next `recv` notices
        control.send(json.dumps(words).encode())


def _settle(party: str, given: list[int], needless: list[int]) -> None:
    """Start a session, take the party's name, and use the launcher's pipes as standard streams."""
    os.setsid()
    Path("/proc/self/comm").write_bytes(party.encode()[:15])
    for stream, number in enumerate(given):
        os.dup2(number, stream)
    for number in (*given, *needless):
        os.close(number)


def main() -> None:
    """Run the template; in a fork, run the party."""
    gc.disable()  # a quarter of the time of imports goes into collections that free nothing
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # a collection in a party would write to, and so copy, each shared page
    gc.enable()
    command = _serve(socket.socket(fileno=int(sys.argv[1])))
    if command is not None:
        sys.argv = command
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
