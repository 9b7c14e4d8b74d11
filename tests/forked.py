"""Parties as processes of their own that are forked from an interpreter which has imported every role.

To import is most of what a party's start costs, and tests start hundreds. The interpreter is the one that
launches of `sim.engines` have (`sim.engines.template`), spoken to without an event loop, and one serves a
whole session of tests. A forked party has the template's command line and environment: what is about these
starts a fresh interpreter.
"""

from __future__ import annotations

import functools
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import IO

from sim.engines.template import AVAILABLE, ENVIRONMENT

_MESSAGE_BYTES = 2**16
_TESTS = {"PYTHONPATH": str(Path(__file__).parents[1])}
"""Modules of tests can be forked as parties, wherever fedkme is installed from."""


class Forked:
    """A party that was forked; in what tests do with it, it is like `subprocess.Popen`."""

    stdout: IO[str] | None = None
    stderr: IO[str] | None = None

    def __init__(self, pid: int, ended: Future[int]) -> None:
        self.pid = pid
        self._ended = ended

    def poll(self) -> int | None:
        """Exit status, a signal's number negated; None before the end."""
        return self._ended.result() if self._ended.done() else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end; the exit status."""
        return self._ended.result(timeout)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Tell it to stop."""
        self.send_signal(signal.SIGTERM)


class _Template:
    """The interpreter, and a thread that hears of who begins and ends."""

    def __init__(self, preloaded: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            subprocess.Popen(
                [sys.executable, "-P", "-m", "sim.engines.template", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=os.environ | ENVIRONMENT | _TESTS | ({"LD_PRELOAD": preloaded} if preloaded else {}),
                start_new_session=True,
            )
        self._began: queue.SimpleQueue[Forked] = queue.SimpleQueue()
        self._forking = threading.Lock()
        threading.Thread(target=self._hear, daemon=True).start()

    def fork(self, command: list[str], stderr: int, stdout: int | None = None) -> Forked:
        nothing = os.open(os.devnull, os.O_RDWR)
        with self._forking:
            message = json.dumps([command[0], command]).encode()
            given = [nothing, nothing if stdout is None else stdout, stderr]
            socket.send_fds(self._socket, [message], given)
            os.close(nothing)
            return self._began.get()

    def _hear(self) -> None:
        ends: dict[int, Future[int]] = {}
        while message := self._socket.recv(_MESSAGE_BYTES):
            pid, status = json.loads(message)
            if status is None:
                ends[pid] = Future()
                self._began.put(Forked(pid, ends[pid]))
            else:
                ends.pop(pid).set_result(status)


_template = functools.cache(_Template)


def party(command: list[str], stderr: int, preloaded: str = "") -> Forked | subprocess.Popen[bytes]:
    """Start `python -m COMMAND`, whose standard error goes to an open file, and nothing else anywhere.

    Args:
        command: module and arguments.
        stderr: the file.
        preloaded: shared library in whose place nothing else of the name is called; on Linux.
    """
    if AVAILABLE:
        return _template(preloaded).fork(command, stderr)
    nothing = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-m", *command], stdin=nothing, stdout=nothing, stderr=stderr)


def piped(command: list[str]) -> Forked | subprocess.Popen[str]:
    """Start `python -m COMMAND` with its output in pipes."""
    if not AVAILABLE:
        pipe = subprocess.PIPE
        return subprocess.Popen([sys.executable, "-m", *command], stdout=pipe, stderr=pipe, text=True)
    (out, their_out), (err, their_err) = os.pipe(), os.pipe()
    process = _template("").fork(command, their_err, their_out)
    process.stdout, process.stderr = os.fdopen(out), os.fdopen(err)
    for number in (their_out, their_err):
        os.close(number)
    return process
