"""Figures of privacy that a run's folder states, held against its ledgers: metrics.json and cards of data.

Ledgers are the source of every epsilon. What was computed of them when the run ended is repeated in other
files, which nothing binds: here it is computed again. Reasons are words, and of a release's version.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkme.errors import FedkmeError, LedgerError
from fedkme.ledgers.ledger_set import LedgerSet, read_ledgers
from fedkme.ledgers.reconcile import Verdict
from fedkme.ledgers.statements import statements
from fedkme.privacy.accountants import Sound, is_consumer
from fedkme.privacy.events import event_from_json

METRICS = "metrics.json"
_EQUAL = 1e-6
"""Relative difference of two epsilons that two versions of the libraries beneath may make."""
_DELTA = 1e-5
_WORDS = ("reason", "whole_set")


def check_figures(folder: Path) -> list[Verdict]:
    """Hold the figures of a run's folder against its ledgers, whose chains are whole.

    Args:
        folder: of one run; one without metrics.json, as of a deployment's curator, states nothing.

    Raises:
        LedgerError: a ledger cannot be read.
    """
    if not (path := folder / METRICS).is_file():
        return []
    books = read_ledgers([folder])
    cards = sorted({*folder.glob("*.card.json"), *folder.glob("consumer/*.card.json")})
    verdicts = [Verdict(str(path), _readable(_metrics_fault, path, books))]
    verdicts += [Verdict(str(card), _readable(_card_fault, card, books)) for card in cards]
    texts = (card for card in cards if card.with_suffix(".md").is_file())
    return [*verdicts, *(Verdict(str(card.with_suffix(".md")), _text_fault(card)) for card in texts)]


def check_stated(folder: Path) -> None:
    """Refuse figures that are not of the ledgers beside them; without ledgers nothing can be told.

    Raises:
        LedgerError: there is one.
    """
    stated = check_figures(folder) if (folder / "ledger.jsonl").is_file() else []
    for verdict in stated:
        if verdict.fault:
            raise LedgerError(
                f"{verdict.about}: {verdict.fault}", "Read `fedkme audit verify`; keep the files as they are."
            )


def differs(stated: Sequence[Mapping[str, Any]], true: Sequence[Mapping[str, Any]]) -> str:
    """The first of some statements, as JSON has them, that is another than it should be; empty for none."""
    for have, want in zip(stated, true, strict=False):
        for key in want.keys() - set(_WORDS):
            if not _equal(have.get(key), want[key]):
                whose = f"{want['protected']} towards {want['observer']}, {want['accountant']}"
                return f"{key} of {whose} is {have.get(key)!r}, and {want[key]!r} by the ledgers"
    return f"{len(stated)} statements, and {len(true)} by the ledgers" if len(stated) != len(true) else ""


def _readable(check: Any, path: Path, books: LedgerSet) -> str:
    try:
        fault: str = check(json.loads(path.read_text(encoding="utf-8")), books)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, FedkmeError):
        return "it is not one that a run wrote"
    return fault


def _metrics_fault(metrics: Mapping[str, Any], books: LedgerSet) -> str:
    """Reason why no delta makes the statements those of the ledgers; a true one at any delta is true."""
    stated = metrics["privacy"]
    fault = ""
    for delta in sorted({float(each["delta"]) for each in stated if float(each["delta"]) > 0} or {_DELTA}):
        if not (fault := differs(stated, [each.to_json() for each in statements(books, delta)])):
            return ""
    return fault


def _card_fault(card: Mapping[str, Any], books: LedgerSet) -> str:
    """Reason why a card says less than the release cost towards its consumer."""
    privacy = card["privacy"]
    event = None if privacy["event"] is None else event_from_json(privacy["event"])
    for name, figure in privacy["epsilon"].items():
        stated, delta = float(figure["epsilon"]), float(figure["delta"])
        true = math.inf if event is None else Sound().epsilon([event], delta).epsilon
        if name == Sound.name and not _equal(stated, true):
            return f"epsilon is {stated:g}, and {true:g} by its own event"
        told = [each for each in statements(books, delta) if is_consumer(each.observer)]
        cost = max((each.epsilon for each in told if each.accountant == Sound.name), default=0.0)
        if stated < cost * (1 - _EQUAL):
            return f"epsilon is {stated:g}, and {cost:g} by the ledgers"
    return ""


def _text_fault(card: Path) -> str:
    """Reason why a card in Markdown has other figures of privacy than the one in JSON beside it."""
    try:
        figures = json.loads(card.read_text(encoding="utf-8"))["privacy"]["epsilon"]
        text = card.with_suffix(".md").read_text(encoding="utf-8")
        true = [(name, f"{float(of['epsilon']):.4g}", f"{of['delta']:g}") for name, of in figures.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "it is not one that a run wrote"
    stated = re.findall(rf"^\| ({Sound.name}[^|]*) \| ([^|]*) \| ([^|]*) \|", text, re.MULTILINE)
    return "" if stated == true else f"its figures of privacy are not those of {card.name}"


def _equal(stated: object, true: object) -> bool:
    if isinstance(true, float) or isinstance(stated, float):
        return math.isclose(float(str(stated)), float(str(true)), rel_tol=_EQUAL)
    return stated == true
