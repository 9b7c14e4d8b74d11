"""Issue 12, item 13: docs/privacy.md is one table, and an entry without its audit subject fails."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from audit.attacks.subjects import SUBJECTS
from audit.replay.cases import replayed
from fedkme.protocols import PROTOCOLS
from tests.places import ROOT

PARTS = ("Protects", "Sensitivity", "Statement", "Proof", "Against", "Also seen", "Audit", "Replay")
NOT_REPLAYED = frozenset(PROTOCOLS) - frozenset(replayed())


def entries() -> Mapping[str, Mapping[str, str]]:
    """Entries of the table by title, each with its parts by name."""
    text = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    table = text.partition("## The table\n")[2].partition("\n## ")[0]
    found = {}
    for entry in table.split("\n### ")[1:]:
        title, _, body = entry.partition("\n")
        flat = " ".join(body.split())
        parts = re.split(r"\*([A-Z][a-z ]+)\*: ", flat)
        found[title] = dict(zip(parts[1::2], (part.rstrip(" -.") for part in parts[2::2]), strict=True))
    return found


def named(said: str) -> list[str]:
    return [] if said.startswith("none:") else said.split(", ")


@pytest.mark.parametrize("title", entries())
def test_an_entry_says_everything(title: str) -> None:
    entry = entries()[title]
    assert set(PARTS) <= set(entry)
    assert all(entry.values())


@pytest.mark.parametrize("title", entries())
def test_an_entry_is_attacked_and_replayed_or_says_why_not(title: str) -> None:
    entry = entries()[title]
    assert set(named(entry["Audit"])) <= set(SUBJECTS)
    assert set(named(entry["Replay"])) <= set(replayed())
    for part in ("Audit", "Replay"):
        assert named(entry[part]) or len(entry[part]) > len("none: ")


def test_every_subject_and_every_protocol_has_an_entry() -> None:
    found = entries().values()
    assert {name for entry in found for name in named(entry["Audit"])} == set(SUBJECTS)
    assert {name for entry in found for name in named(entry["Replay"])} == set(PROTOCOLS) - NOT_REPLAYED
    # What is attacked and replayed with another alone would not be missed by that.
    assert {"D_v shared with the curator", "Heads of ledgers"} <= set(entries())
    assert len(entries()) > 15
