"""Check of a run's stated privacy figures (metrics.json and cards of data) against its ledgers.

Ledgers are the source of every epsilon. Other files repeat the figures that were computed from the ledgers
when the run ended, and nothing protects these files: here the figures are computed again. Reasons are text
that may differ between releases of fedkme, so they are not compared.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedkme.errors import FedkmeError, LedgerError
from fedkme.inputs import read_text
from fedkme.ledgers.ledger_set import LedgerSet, read_ledgers
from fedkme.ledgers.reconcile import Verdict
from fedkme.ledgers.statements import statements
from fedkme.privacy.accountants import Sound, is_consumer
from fedkme.privacy.events import event_from_json

METRICS = "metrics.json"
_EQUAL = 1e-6
"""Relative difference of two epsilons that two versions of the libraries may cause."""
_DELTA = 1e-5
_WORDS = ("reason", "whole_set")


def check_figures(folder: Path) -> list[Verdict]:
    """Check the figures in a run's folder against its ledgers, whose chains were verified before.

    Args:
        folder: folder of one run. Without metrics.json, as for a deployment's curator, there are no figures.

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
    """Refuse a run's folder whose figures contradict its ledgers; without ledgers nothing is checked.

    Raises:
        LedgerError: a figure contradicts the ledgers.
    """
    stated = check_figures(folder) if (folder / "ledger.jsonl").is_file() else []
    for verdict in stated:
        if verdict.fault:
            cause = f"{verdict.about}: {verdict.fault}"
            raise LedgerError(cause, "Read `fedkme audit verify`; keep the files as they are.")


def differs(stated: Sequence[Mapping[str, Any]], true: Sequence[Mapping[str, Any]]) -> str:
    """Describe the first stated figure that differs from the true one; statements as JSON, empty for none."""
    for have, want in zip(stated, true, strict=False):
        for key in want.keys() - set(_WORDS):
            if not _equal(have.get(key), want[key]):
                whose = f"{want['protected']} towards {want['observer']}, {want['accountant']}"
                return f"{key} of {whose} is {have.get(key)!r}, and {want[key]!r} by the ledgers"
    return f"{len(stated)} statements, and {len(true)} by the ledgers" if len(stated) != len(true) else ""


def _readable(check: Any, path: Path, books: LedgerSet) -> str:
    try:
        fault: str = check(json.loads(read_text(path)), books)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, FedkmeError):
        return "it is not one that a run wrote"
    return fault


def _metrics_fault(metrics: Mapping[str, Any], books: LedgerSet) -> str:
    """Reason why the statements match the ledgers at no delta; statements at any one delta are fine."""
    stated = metrics["privacy"]
    fault = ""
    for delta in sorted(
        {float(statement["delta"]) for statement in stated if float(statement["delta"]) > 0} or {_DELTA}
    ):
        if not (fault := differs(stated, [statement.to_json() for statement in statements(books, delta)])):
            return ""
    return fault


def _card_fault(card: Mapping[str, Any], books: LedgerSet) -> str:
    """Reason why a card states less than the release cost towards its consumer."""
    privacy = card["privacy"]
    event = None if privacy["event"] is None else event_from_json(privacy["event"])
    for name, figure in privacy["epsilon"].items():
        stated, delta = float(figure["epsilon"]), float(figure["delta"])
        true = math.inf if event is None else Sound().epsilon([event], delta).epsilon
        if name == Sound.name and not _equal(stated, true):
            return f"epsilon is {stated:g}, and {true:g} by its own event"
        figures_of_books = [
            statement for statement in statements(books, delta) if is_consumer(statement.observer)
        ]
        cost = max(
            (statement.epsilon for statement in figures_of_books if statement.accountant == Sound.name),
            default=0.0,
        )
        if stated < cost * (1 - _EQUAL):
            return f"epsilon is {stated:g}, and {cost:g} by the ledgers"
    return ""


def _text_fault(card: Path) -> str:
    """Reason why a card in Markdown has other figures of privacy than the card in JSON beside it."""
    try:
        figures = json.loads(read_text(card))["privacy"]["epsilon"]
        text = read_text(card.with_suffix(".md"))
        true = [(name, f"{float(of['epsilon']):.4g}", f"{of['delta']:g}") for name, of in figures.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return "it is not one that a run wrote"
    stated = re.findall(rf"^\| ({Sound.name}[^|]*) \| ([^|]*) \| ([^|]*) \|", text, re.MULTILINE)
    return "" if stated == true else f"its figures of privacy are not those of {card.name}"


def _equal(stated: object, true: object) -> bool:
    if isinstance(true, float) or isinstance(stated, float):
        return math.isclose(float(str(stated)), float(str(true)), rel_tol=_EQUAL)
    return stated == true
