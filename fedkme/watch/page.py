"""Page to watch: its frame, which the script fills with the view, and its style."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from fedkme import __version__
from fedkme.pages.glossary import NAME, TERMS
from fedkme.pages.style import STYLE

SCRIPT, SHEET = "page.js", "page.css"
_TERMS = ("mmd2", "dv", "accessed", "epsilon", "delta", "cells", "accountant")


@cache
def page() -> str:
    """Write the page, the same for every viewer."""
    words = "".join(
        f"<div><dt><dfn>{term.name}</dfn></dt><dd>{term.meaning}</dd></div>"
        for term in TERMS
        if term.key in _TERMS
    )
    frame = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    return frame % (NAME, words, __version__)


def style(own: str) -> str:
    """Style of all pages, with this page's own."""
    return STYLE + own
