"""Stopping: after SIGTERM an owner finishes its answer and closes; a second signal does not wait."""

from __future__ import annotations

import asyncio
import json
import platform
import signal
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from fedkme.errors import ConnectionFailedError
from fedkme.ops.supervision import run_party, to_the_end
from fedkme.ops.threads import in_thread, under_way
from tests.parties import WAIT_S


async def test_work_that_is_cancelled_once_is_finished() -> None:
    gate, results = asyncio.Event(), []

    async def work() -> None:
        await gate.wait()
        results.append(True)

    task = asyncio.create_task(to_the_end(work()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert results == [True]


async def test_work_that_is_cancelled_twice_is_not() -> None:
    task = asyncio.create_task(to_the_end(asyncio.Event().wait()))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_that_fails_while_it_is_finished_does_not_undo_the_signal() -> None:
    # The curator dies while an owner computes. The error of the answer that cannot leave replaced the signal,
    # and the owner dialled again.
    gate = asyncio.Event()

    async def work() -> None:
        await gate.wait()
        raise ConnectionFailedError("the curator is gone", "Wait.")

    task = asyncio.create_task(to_the_end(work()))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_work_without_an_end_is_left_after_a_time() -> None:
    never = asyncio.ensure_future(asyncio.Event().wait())
    task = asyncio.create_task(to_the_end(never, 0.01))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait((never,))
    assert never.cancelled()


async def test_a_cancelled_task_does_not_wait_for_its_thread() -> None:
    gate = threading.Event()
    task = asyncio.create_task(in_thread(gate.wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert under_way()
    gate.set()


async def test_a_result_computed_in_a_thread_is_returned() -> None:
    assert await in_thread(divmod, 7, 3) == (2, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)


PROGRAM = """
import asyncio, sys, threading
from fedkme.errors import InterruptedRunError
from fedkme.ops.supervision import run_party
from fedkme.ops.threads import in_thread
from curator.settings import CuratorSettings
async def work(settings, reporter):
    reporter.say("listening")
    await in_thread(threading.Event().wait)
load = lambda: CuratorSettings(plaintext=True, directory="runs", schema_file="schema.toml")
sys.exit(run_party(load, False, work, service=True))
"""


def test_a_process_that_computes_ends_when_it_is_told_to() -> None:
    # A curator took 38 s to stop during a release: it waited for the thread that trained.
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "listening" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_S) == 0
    assert "stopped" in process.stderr.read()
    process.stderr.close()


SHARED = """
import asyncio, ctypes, os, sys
from fedkme.ops.supervision import run_party
from fedkme.ops.threads import in_thread
from curator.settings import CuratorSettings
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
def heaps():
    reading, writing = os.pipe()
    stream = ctypes.c_void_p(libc.fdopen(writing, b"w"))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    return os.read(reading, 2**16).count(b"<heap ")
async def work(settings, reporter):
    await asyncio.gather(*(in_thread(lambda: [bytes(1000) for _ in range(10**5)]) for _ in range(8)))
    print(heaps())
load = lambda: CuratorSettings(plaintext=True, directory="runs", schema_file="schema.toml")
sys.exit(run_party(load, False, work))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other libraries have one heap")
def test_threads_of_a_party_allocate_from_one_heap() -> None:
    # An owner's free blocks, one heap for each thread, grew by 9 to 21 MB in 1,000 runs.
    process = subprocess.run([sys.executable, "-c", SHARED], stdout=subprocess.PIPE, check=True)
    assert int(process.stdout) == 1


@pytest.mark.parametrize("place", ["/dev/null", "file", "closed"])
def test_a_supervised_party_without_a_launchers_pipe_says_so_in_one_line(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # It logged an unforeseen PermissionError of the event loop, and went on with nobody who could end it.
    (tmp_path / "file").write_text("a line\n")
    with (tmp_path / place if place != "closed" else tmp_path / "file").open() as stream:
        monkeypatch.setattr(sys, "stdin", None if place == "closed" else stream)
        code = run_party(Mock(side_effect=AssertionError("no settings are read")), True, Mock())
    failed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, failed["code"], failed["event"]) == (10, 10, "failed")
    assert failed["cause"] == "--supervised: standard input is no launcher's pipe"
