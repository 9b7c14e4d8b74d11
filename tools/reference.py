"""Write docs/reference/configuration.md from the settings; with --check, say whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from operate.descriptions import page

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "configuration.md"


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" in sys.argv[1:]:
        current = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        if current != text:
            sys.stderr.write("docs/reference/configuration.md is not what the settings say: make reference\n")
            return 1
        return 0
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
