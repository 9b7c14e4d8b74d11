"""The page in a browser: live updates, a restart of the curator, small screens, keyboard, accessibility.

Without Chromium these tests are skipped; without FEDKME_AXE, the path of axe-core's axe.min.js, the test of
contrast, names and roles is.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import Page, browser, needs_chromium
from tests.ops.parties import SIZES, Site
from tests.parties import WAIT_S
from tests.system.lives import PORTS

pytestmark = needs_chromium

STATUS = "document.querySelector('#run .tiles dd')?.textContent"
ROWS = 60
AXE = os.environ.get("FEDKME_AXE", "")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with browser(tmp_path / "profile") as tab:
        yield tab


def settings(port: int) -> str:
    """Configure a curator in plaintext with a page, whose runs ask for one row after another."""
    lines = (
        f'page = "127.0.0.1:{port}"',
        f"owners = [{', '.join(map(repr, SIZES))}]",
        "[summary]",
        'protocol = "algorithm3"',
    )
    return "\n".join(lines)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the page of a curator with a finished run."""
    site, port = Site(tmp_path_factory.mktemp("watched") / "site"), next(PORTS)
    try:
        site.curator(settings(port))
        for name in SIZES:
            site.owner(name)
        site.consumer(6).ended()
        yield f"http://127.0.0.1:{port}/"
    finally:
        for party in site.parties:
            party.process.kill()
            party.process.wait(WAIT_S)


@pytest.fixture
def watched(address: str, page: Page) -> str:
    """Address of a page that the browser shows."""
    page.show(1200)
    page.open(address)
    page.wait(f"{STATUS} === 'complete'")
    return address


def test_the_page_moves_and_survives_a_restart_of_the_curator(site: Site, page: Page) -> None:
    port = next(PORTS)
    curator = site.curator(settings(port))
    page.show(1200)
    page.open(f"http://127.0.0.1:{port}/")
    page.wait("document.body.innerText.includes('No run yet')")
    site.owner("north")
    page.wait("document.body.innerText.includes('north connected')")
    site.consumer(ROWS)
    page.wait("document.querySelector('#run').innerText.includes('south')")  # the run waits for it
    curator.process.kill()
    curator.ended()
    page.wait("document.querySelector('#link.lost')")
    assert "Not connected" in page.value("document.querySelector('#link').textContent")
    site.curator(settings(port))
    site.owner("south")
    page.wait("document.querySelector('#link').textContent === 'Live.'")
    page.wait(f"['complete', 'stopped early'].includes({STATUS})")
    assert page.value("document.querySelectorAll('#run tbody tr').length") == 2
    assert page.value("document.querySelectorAll('.seen tbody tr').length") > 0
    assert not page.errors


def test_a_simulation_moves_on_its_page(page: Page, tmp_path: Path) -> None:
    sets = "engine=processes", "protocol=algorithm3", "p=900", "downstream=false", "baselines=[]"
    command = [sys.executable, "-m", "sim", "run", "digits", "--watch", "--out", str(tmp_path / "run")]
    command += [word for each in sets for word in ("--set", each)]
    page.show(1200)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        page.open(process.stderr.readline().removeprefix("watch it at ").strip())
        page.wait("document.querySelectorAll('#run tbody tr').length === 5")
        before = page.value("document.querySelector('#run')?.innerText")
        page.wait(f"document.querySelector('#run')?.innerText !== {before!r}")
        page.wait("document.querySelector('.verdict')")  # the report takes the place of the live page
        assert page.value("document.querySelector('h1').textContent") == "digits"
        assert page.value("document.querySelectorAll('svg').length") > 2
        assert not page.errors
    finally:
        process.kill()
        process.communicate()


@pytest.mark.usefixtures("watched")
def test_the_page_fits_a_phone(page: Page) -> None:
    page.show(400)
    assert page.value("document.documentElement.scrollWidth") == 400
    too_wide = "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > 401)"
    assert page.value(f"{too_wide}.map(e => e.outerHTML.slice(0, 80))") == []
    assert not page.errors


def test_the_keyboard_alone_chooses_another_view(page: Page, watched: str) -> None:
    for place in ("as", ""):
        page.press("Tab")
        assert page.value("document.activeElement.id") == place
        if place:
            page.press("ArrowDown")
    assert page.value("document.activeElement.tagName") == "BUTTON"
    page.press("Enter")
    page.wait("document.querySelector('h1').textContent.includes('as north sees them')")
    page.wait("document.querySelector('main').innerText.includes('your own ledger bounds it')")
    assert page.value("location.href") == f"{watched}?as=owner%3Anorth"
    assert "south" not in page.value("document.querySelector('main').innerText")
    assert not page.errors


@pytest.mark.skipif(not AXE, reason="FEDKME_AXE does not name axe.min.js")
@pytest.mark.usefixtures("watched")
def test_axe_finds_no_violation(page: Page) -> None:
    page.value(Path(AXE).read_text(encoding="utf-8") + "; 0")
    for width, dark in itertools.product((1200, 400), (False, True)):
        page.show(width, dark=dark)
        violations = page.value(
            "axe.run().then(all => all.violations.map(v => [v.id, v.nodes.map(n => n.html)]))"
        )
        assert violations == [], (width, dark)
