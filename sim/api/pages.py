"""A report inside a notebook, in a frame of its own: report and notebook do not style each other."""

from __future__ import annotations

from html import escape

HEIGHT = "34rem"


def framed(page: str, title: str) -> str:
    """Put a page, which loads nothing and runs nothing, into a frame whose height a reader can change.

    Args:
        page: a whole HTML document.
        title: of the frame, for screen readers.
    """
    style = f"width: 100%; height: {HEIGHT}; border: 1px solid #8886; border-radius: 6px; resize: vertical"
    rights = 'sandbox="allow-same-origin"'  # no scripts; the notebook's own process draws it at once
    return f'<iframe title="{escape(title)}" {rights} style="{style}" srcdoc="{escape(page)}"></iframe>'
