"""Headless Chromium for tests of pages, spoken to over a pipe: no driver, no package, no network."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.parties import WAIT_S

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)

needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="chromium is not on this machine")


class Page:
    """One page of a browser.

    Attributes:
        errors: what its console said of errors, but for a server that is away.
    """

    def __init__(self, read: int, write: int) -> None:
        self.errors: list[str] = []
        self._answers = os.fdopen(read, "rb", buffering=0)
        self._calls = os.fdopen(write, "wb", buffering=0)
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session: str | None = None
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def show(self, width: int, *, dark: bool = False) -> None:
        """Take a width in pixels, and the light or the dark."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, address: str) -> None:
        """Go to an address."""
        self._call("Page.navigate", url=address)

    def value(self, script: str) -> Any:
        """Value of an expression of the page's, a promise's when it is there."""
        found = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Wait for an expression to be true, on a page that may still be loading."""
        until = time.monotonic() + WAIT_S
        while not self.value(f"(() => {{ try {{ return Boolean({script}) }} catch {{ return false }} }})()"):
            assert time.monotonic() < until, f"{script} is not: {self.value('document.body.innerText')}"
            time.sleep(0.1)

    def press(self, key: str) -> None:
        """Press a key."""
        code = {"Tab": 9, "Enter": 13, "ArrowDown": 40}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text
            )

    def picture(self, path: Path) -> None:
        """Write the whole page as a PNG."""
        shot = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """End the browser."""
        self._session = None
        with contextlib.suppress(OSError, AssertionError):
            self._call("Browser.close")
        self._answers.close()
        self._calls.close()

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._calls.write(json.dumps(message).encode() + b"\0")
        while (said := self._hear()).get("id") != number:
            self._note(said)
        assert "error" not in said, f"{method}: {said['error']}"
        result: dict[str, Any] = said["result"]
        return result

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = self._answers.read(2**20)
            assert more, "the browser is gone"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        said: dict[str, Any] = json.loads(line)
        return said

    def _note(self, said: dict[str, Any]) -> None:
        match said.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(said["params"]))
            case "Runtime.consoleAPICalled" if said["params"]["type"] in ("error", "assert"):
                self.errors.append(json.dumps(said["params"]))
            case "Log.entryAdded" if said["params"]["entry"]["level"] == "error":
                entry = said["params"]["entry"]
                # a server that is away is what the page itself says in words
                if not entry["text"].startswith("Failed to load resource: net::ERR_"):
                    self.errors.append(json.dumps(entry))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Have a browser with one page while inside; its profile is in a folder."""
    (their_read, our_write), (our_read, their_write) = os.pipe(), os.pipe()
    theirs = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in (their_read, their_write)]
    # A shell gives it 3 and 4: `preexec_fn` forks this process, which has threads.
    process = subprocess.Popen(
        [
            "bash",
            "-c",
            f'exec "$@" 3<&{theirs[0]} 4>&{theirs[1]}',
            "bash",
            CHROMIUM,
            *_FLAGS,
            f"--user-data-dir={folder}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=theirs,
    )
    for each in (their_read, their_write, *theirs):
        os.close(each)
    page = Page(our_read, our_write)
    try:
        yield page
    finally:
        page.close()
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
