"""The documentation as a site: it builds without a warning, is whole, and loads nothing from a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT

ASSET = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?(\w+:)?//|<link[^>]*\shref=[\"']?(\w+:)?//"
)
PAGES = ("index", "start", "reference/python", "reference/wire", "reference/configuration", "data-protection")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, in a folder of its own."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=None)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_document_is_a_page(site: Path) -> None:
    written = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    pages = {path.parent.relative_to(site) for path in site.rglob("index.html")}
    assert written <= pages | {Path("index")}
    assert {Path(name) for name in PAGES[1:]} <= pages


def test_the_search_knows_every_page(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"].partition("#")[0].rstrip("/") for entry in index["docs"]}
    assert set(PAGES[1:]) <= places
    names = [entry["title"] for entry in index["docs"] if entry["location"].startswith("reference/python")]
    assert any("summarize" in name for name in names)


def test_no_page_loads_anything_from_a_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        found = ASSET.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.relative_to(site)}: {found and found[0]}"
