"""Page to watch: its frame, which the script fills with the view, and its style."""

from __future__ import annotations

from functools import cache

from fedkme import __version__
from fedkme.pages.glossary import NAME, TERMS
from fedkme.pages.style import STYLE

SCRIPT, SHEET = "page.js", "page.css"
_TERMS = ("mmd2", "dv", "accessed", "epsilon", "delta", "cells", "accountant")
_FRAME = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fedkme: runs</title>
<link rel="stylesheet" href="page.css">
<script src="page.js" defer></script>
</head>
<body>
<header>
<h1 id="title">Runs</h1>
<p class="about"><span id="link" role="status">Connecting.</span> <span id="note"></span></p>
<form id="viewers" hidden><label>View as <select id="as" name="as"></select></label>
<button type="submit">Show</button></form>
</header>
<noscript><p class="banner">This page needs its own script, which loads nothing else.</p></noscript>
<main>
<section id="run" aria-label="The run"><p class="about">No run yet.</p></section>
<section id="learned" aria-label="Who learned what"></section>
<section id="budget" aria-label="Budget"></section>
<section id="events" aria-label="Latest events"></section>
<section id="runs" aria-label="All runs"></section>
<section aria-label="Words"><details><summary>%s</summary><dl class="glossary">%s</dl></details></section>
</main>
<footer>fedkme %s; read-only, and it loads nothing from anywhere else</footer>
</body>
</html>
"""


@cache
def page() -> str:
    """Write the page, the same for every viewer."""
    words = "".join(
        f"<div><dt><dfn>{term.name}</dfn></dt><dd>{term.meaning}</dd></div>"
        for term in TERMS
        if term.key in _TERMS
    )
    return _FRAME % (NAME, words, __version__)


def style(own: str) -> str:
    """Style of all pages, with this page's own."""
    return STYLE + own
