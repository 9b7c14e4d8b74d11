"""The documentation as a site: it builds without a warning, is whole, and loads nothing from a network."""

from __future__ import annotations

import functools
import http.server
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedkme
from tests.browser import browser, needs_chromium
from tests.places import ROOT

ASSET = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(\w+:)?//|<link[^>]*\shref=[\"']?(\w+:)?//"
)
PAGES = ("index", "start", "reference/python", "reference/wire", "reference/configuration", "data-protection")

TYPE = """words => {
    document.querySelectorAll('.md-search-result__item').forEach(each => each.remove())
    const field = document.querySelector('[data-md-component=search-query]')
    field.value = words
    field.dispatchEvent(new Event('keyup'))
}"""
"""Type words where others stood, whose results go."""
TYPED = {  # issue 37, item 5: "search that finds them (a test of 40 words a user types)"
    "approve runs by hand": "owners/",
    "missing values": "own-data/",
    "csv": "own-data/",
    "excel": "faq/",
    "xlsx": "faq/",
    "license": "faq/",
    "cite": "faq/",
    "tsv": "own-data/",
    "semicolon": "own-data/",
    "dates": "own-data/",
    "outliers": "own-data/",
    "units": "own-data/",
    "pandas": "python/",
    "notebook": "python/",
    "train a model": "tutorials/",
    "federated learning": "faq/",
    "flower": "faq/",
    "gpu": "faq/",
    "uninstall": "faq/",
    "time series": "faq/",
    "sensors": "tutorials/",
    "images": "tutorials/",
    "survey": "tutorials/",
    "bank": "tutorials/",
    "differential privacy": "privacy/",
    "epsilon": "privacy/",
    "membership inference": "data-protection/",
    "anonymous": "data-protection/",
    "gdpr": "data-protection/",
    "hipaa": "data-protection/",
    "k-anonymity": "data-protection/",
    "consent": "owners/",
    "budget": "owners/",
    "secure aggregation": "owners/",
    "synthetic data": "releases/",
    "correlation": "answers/",
    "intervals": "answers/",
    "certificate": "pki/",
    "firewall": "threat-model/",
    "backup": "deploy/",
    "upgrade": "deploy/",
    "systemd": "deploy/",
    "postgresql": "deploy/",
    "prometheus": "operations/",
    "grafana": "operations/",
    "ray": "scaling/",
    "slurm": "scaling/",
    "kernel gamma": "reference/",
    "docker": "deploy/",
    "kubernetes": "deploy/",
    "windows": "deploy/",
    "macos": "deploy/",
    "proxy": "deploy/",
    "opentelemetry": "watching/",
}


class Silent(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing of it."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as the library has it
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=None)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Address of the site, served to this machine alone."""
    handler = functools.partial(Silent, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_every_document_is_a_page(site: Path) -> None:
    written = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    pages = {path.parent.relative_to(site) for path in site.rglob("index.html")}
    assert written <= pages | {Path("index")}
    assert {Path(name) for name in PAGES[1:]} <= pages


def test_each_page_says_its_version(site: Path) -> None:
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("index.html")]
    assert pages
    assert all(f"fedkme {fedkme.__version__}" in page for page in pages)


def test_the_search_knows_every_page(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"].partition("#")[0].rstrip("/") for entry in index["docs"]}
    assert set(PAGES[1:]) <= places
    names = [entry["title"] for entry in index["docs"] if entry["location"].startswith("reference/python")]
    assert any("summarize" in name for name in names)
    # A user who searched for missing values found exit codes.
    assert "own-data/" in {
        entry["location"].partition("#")[0] for entry in index["docs"] if "Missing values" in entry["title"]
    }


@needs_chromium
def test_the_search_finds_a_page_in_a_browser(address: str, tmp_path: Path) -> None:
    with browser(tmp_path / "profile") as page:
        page.show(1200)
        page.open(f"{address}/start/?q=csv")
        page.wait("document.querySelector('.md-search-result__link')")
        for words, place in TYPED.items():
            page.value(f"({TYPE})({json.dumps(words)})")
            page.wait(f"document.querySelector('.md-search-result__link[href*=\"{place}\"]')")
        first = "document.querySelector('.md-search-result__link[href*=\"reference/\"]').href"
        page.open(page.value(first))
        page.wait("document.querySelector('article h1')")
        assert not page.errors


@needs_chromium
def test_pages_turn_dark_with_the_device_or_by_a_button(address: str, tmp_path: Path) -> None:
    # A browser kept what it had first, while the figures, which ask it themselves, turned.
    dark = "document.body.dataset.mdColorScheme === 'slate'"
    with browser(tmp_path / "profile") as page:
        page.show(1200)
        page.open(f"{address}/concepts/")
        page.wait(f"document.querySelector('article h1') && !({dark})")
        page.show(1200, dark=True)
        page.open(f"{address}/start/")
        page.wait(f"document.querySelector('article h1') && {dark}")
        page.value("[...document.querySelectorAll('.md-header__option label')].find(l => !l.hidden).click()")
        page.wait(f"!({dark})")
        assert not page.errors


def test_no_page_loads_anything_from_a_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        match = ASSET.search(path.read_text(encoding="utf-8"))
        assert match is None, f"{path.relative_to(site)}: {match and match[0]}"
