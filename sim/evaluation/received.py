"""Metrics of a deployed consumer's results: the part of metrics.json that a consumer can know."""

from collections.abc import Mapping, Sequence
from typing import Any

from fedkme.exchange import Plan
from fedkme.ledgers.statements import EACH_OWNER
from fedkme.privacy.accountants import Sound
from fedkme.privacy.accounting import ONE_ROW, PrivacyStatement
from fedkme.privacy.events import CONSUMER
from sim.evaluation.metrics import figures_of, forms_of


def received_metrics(
    consumer: str,
    plan: Plan,
    p: int,
    rows: int,
    evaluation: Mapping[str, Any] | None,
    privacy: Sequence[PrivacyStatement],
) -> dict[str, Any]:
    """Metrics of a received summary; docs/metrics.md explains each figure.

    Args:
        consumer: name of the consumer.
        plan: plan of the run.
        p: number of rows asked for.
        rows: number of rows received, of which p are kept.
        evaluation: content of evaluation.json; None if the summary was not judged.
        privacy: statements from the consumer's ledger of the run.
    """
    return {
        "status": "complete" if rows == p else "incomplete",
        "consumer": consumer,
        "run": plan.run,
        "protocol": plan.choice.protocol if plan.choice else "",
        "plan": {"line": plan.choice.line} if plan.choice else {},
        "p": p,
        "rows": rows,
        "gamma": plan.features.gamma,
        **figures_of({} if evaluation is None else forms_of(evaluation)),
        "verdict": None if evaluation is None else evaluation["verdict"],
        "privacy": [statement.to_json() for statement in privacy],
    }


def received_release(consumer: str, method: str, card: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics of a received release.

    Args:
        consumer: name of the consumer.
        method: method of the release.
        card: the data card as plain values.
    """
    return {
        "status": "complete",
        "scenario": f"{card['owners']} owners" if card["owners"] else consumer,
        "method": method,
        "K": card["owners"],
        "N": card["source_rows"],
        "rows": card["rows"],
        "verdict": card.get("verdict"),  # cards of an earlier fedkme have no verdict
        "privacy": [
            {
                "protected": EACH_OWNER,
                "observer": CONSUMER,
                "accountant": name.partition(", ")[0],
                "epsilon": figure["epsilon"],
                "delta": figure["delta"],
                "neighbouring": card["privacy"]["relation"],
                "raw_points": 0,
                "reason": figure["reason"] or figure["method"],
                "unit": name.partition(", ")[2] or ONE_ROW,
            }
            for name, figure in card["privacy"]["epsilon"].items()
            if name.startswith(Sound.name) or figure["method"] != "none"  # the paper has no arithmetic
        ],
    }
