"""The README and the documents: lines that can be read in a terminal."""

from __future__ import annotations

from tests.places import ROOT

DOCUMENTS = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "CHANGELOG.md"])


def test_lines_of_documents_are_short() -> None:
    # CONVENTIONS: "lines of documents at most 120 columns".
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in DOCUMENTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120
    ]
    assert not long
