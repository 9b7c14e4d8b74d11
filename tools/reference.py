"""Write docs/reference/configuration.md from the settings; with --check, say whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from fedkme.descriptions import Table, about, keys_text, title_of, wrapped
from operate.descriptions import KINDS, json_schema

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "configuration.md"


def page() -> str:
    """Text of docs/reference/configuration.md: every key of every configuration."""
    lines = [_HEAD]
    tables: dict[str, Table] = {}
    for kind, (_, what) in KINDS.items():
        described = json_schema(kind)
        tables |= {title_of(name): table for name, table in described.pop("$defs", {}).items()}
        lines.append(
            f"## {kind}\n\n{wrapped(f'{what[0].upper()}{what[1:]}.')}\n\n{keys_text(described, tables)}"
        )
    lines.append("## Tables inside")
    for title, table in sorted(tables.items()):
        lines.append(f"### {title}\n\n{wrapped(about(table))}\n\n{keys_text(table, tables)}")
    return "\n\n".join(line.strip("\n") for line in lines) + "\n"


_HEAD = """# Every key of every configuration

Made of the settings by `make reference`: do not edit. `fedkme schema json KIND` prints the JSON Schema of a
kind of file, by which editors complete and check TOML (those with taplo: `#:schema FILE` in the first line).
"""


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
