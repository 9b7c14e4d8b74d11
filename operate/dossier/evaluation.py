"""Page about a run after NIST SP 800-226 (2025), "Guidelines for Evaluating Differential Privacy Guarantees".

Its sections are the parts of that publication's pyramid: epsilon and the unit of privacy at the top, threats
to a guarantee below, and the collection of the data at the bottom.
"""

import math
from collections.abc import Iterator

from fedkme import __version__
from fedkme.privacy.accounting import PrivacyStatement
from fedkme.verdict import lines_of
from operate.dossier.facts import MISSING, Facts
from operate.dossier.registry import composition_of, product_of, security_of

_TO_ADD = ("purpose", "controller", "legal basis", "contact", "licence of the product")


def evaluation_page(facts: Facts) -> str:
    """Return the page, in Markdown."""
    sections = {
        "The run": _run(facts),
        "Epsilon and delta": _parameters(facts),
        "Unit of privacy": _unit(facts),
        "Trust model": _trust(facts),
        "Mechanisms": _mechanisms(facts),
        "Composition": iter([composition_of(facts.runs)]),
        "Utility and bias": _utility(facts),
        "Floating point and randomness": _randomness(facts),
        "Side channels": _side_channels(),
        "Security and access": _access(),
        "Data collection exposure": _exposure(facts),
    }
    body = "\n\n".join(f"## {title}\n\n" + "\n".join(lines) for title, lines in sections.items())
    head = (
        f"# Privacy of {facts.name}, after NIST SP 800-226\n\n"
        f"Written by fedkme {__version__} from the run's ledgers, as `fedkme audit ledger` adds them up. "
        f"Lines that begin with `{MISSING}` are for a person."
    )
    return f"{head}\n\n{body}\n"


def _run(facts: Facts) -> Iterator[str]:
    yield f"- Product: {product_of(facts)}"
    status = facts.record.get("status") or facts.metrics.get("status")
    yield f"- Status: {status}" if status else f"- {MISSING} how the run ended; no record is in the folder"
    yield f"- Day of the record: {facts.day.isoformat()}"
    yield from (f"- {MISSING} {what}" for what in _TO_ADD)


def _parameters(facts: Facts) -> Iterator[str]:
    yield "An epsilon bounds what an observer can learn of one unit; without a bound it may learn everything."
    yield ""
    yield "| protected | unit | observer | epsilon | delta | rows seen | by, or why there is no bound |"
    yield "|---|---|---|--:|--:|--:|---|"
    yield from (_row(each) for each in facts.statements)


def _row(statement: PrivacyStatement) -> str:
    bounded = math.isfinite(statement.epsilon)
    epsilon, delta = (f"{statement.epsilon:.4g}", f"{statement.delta:g}") if bounded else ("no bound", "-")
    reason = statement.reason.replace("|", "/")
    return (
        f"| {statement.protected} | {statement.unit} | {statement.observer} | {epsilon} | {delta} "
        f"| {statement.raw_points} | {reason} |"
    )


def _unit(facts: Facts) -> Iterator[str]:
    units = ", ".join(dict.fromkeys(each.unit for each in facts.statements)) or "none"
    relation_names = (each.neighbouring for each in facts.statements if each.neighbouring != "any")
    relations = ", ".join(dict.fromkeys(relation_names)) or "any, since nothing was disclosed"
    yield f"- Units: {units}. Neighbouring relation: {relations}. Numbers of owners and rows are public."
    yield f"- {MISSING} whether a person may have several rows, where the unit is a row"


def _trust(facts: Facts) -> Iterator[str]:
    yield f"- Curator: {security_of(facts.record)}"
    observers = ", ".join(dict.fromkeys(each.observer for each in facts.statements))
    yield f"- Observers for which there is a statement: {observers or 'none'}."
    yield f"- {MISSING} which of these parties may work together, and what binds them"


def _mechanisms(facts: Facts) -> Iterator[str]:
    yield "Kinds of lines in the ledgers (fedkme's docs/privacy.md has sensitivity and proof of each):"
    yield ""
    yield from (f"- {line}" for line in facts.mechanisms)


def _utility(facts: Facts) -> Iterator[str]:
    verdict = facts.metrics.get("verdict")
    if verdict:
        yield f"- Verdict of the run: {' '.join(lines_of(verdict))} ({verdict['sentence']}.)"
    for name, value in (facts.metrics.get("mmd2") or {}).items():
        if name.startswith("summary") and isinstance(value, float):
            yield f"- MMD^2 of {name} to the validation set: {value:.3g}"
    columns = (facts.metrics.get("evaluation") or {}).get("columns") or {}
    if "mean" in columns:
        mean, largest = columns["mean"], columns["largest"]
        yield f"- Distance of columns to owners' rows: mean {mean:.3g}, largest {largest:.3g}"
    yield f"- {MISSING} for which groups the product is too coarse, and how this was examined"


def _randomness(facts: Facts) -> Iterator[str]:
    if facts.simulated:
        yield '- A simulation: unless its settings say `noise = "secure"`, noise follows from their seed, and'
        yield "  whoever knows the seed can take it off. Deployed, the same settings cost the same."
    else:
        yield "- Parties off loopback draw noise from the operating system alone, by exact integer samplers."
    yield "- Sums with noise are integers; what rounding may add to a guarantee is in fedkme's threat model."


def _side_channels() -> Iterator[str]:
    yield "- Public to the parties: times and sizes of messages, numbers of owners and of their rows."
    yield "- fedkme's docs/threat-model.md says of each channel what it tells and what is done about it."
    yield f"- {MISSING} who can watch the network or the hosts"


def _access() -> Iterator[str]:
    yield "- Journals and ledgers are as secret as the data; each party keeps its own."
    yield f"- {MISSING} who has access to rows, journals and keys, and for how long they are kept"


def _exposure(facts: Facts) -> Iterator[str]:
    seen = [each for each in facts.statements if each.raw_points]
    yield ("- Rows that were seen as they are:" if seen else "- No row was seen as it is, by the ledgers.")
    yield from (f"  - of {each.protected}, by {each.observer}: {each.raw_points}" for each in seen)
    yield f"- {MISSING} how and from whom the rows were collected, and what these people were told"
