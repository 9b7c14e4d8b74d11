"""Report of a run: the page, the terminal, live progress."""
