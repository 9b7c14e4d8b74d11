"""A report inside a notebook: the page in a frame of its own, so that neither styles the other."""

from __future__ import annotations

from html import escape

HEIGHT = "34rem"


def framed(page: str, title: str) -> str:
    """A page, which loads nothing and runs nothing, as a frame that a reader can make higher.

    Args:
        page: a whole HTML document.
        title: what the frame holds, for those who cannot see it.
    """
    style = f"width: 100%; height: {HEIGHT}; border: 1px solid #8886; border-radius: 6px; resize: vertical"
    rights = 'sandbox="allow-same-origin"'  # no scripts; drawn in the notebook's own process, at once
    return f'<iframe title="{escape(title)}" {rights} style="{style}" srcdoc="{escape(page)}"></iframe>'
