"""Events that a case must exercise: a run without them shows nothing about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from audit.replay.cases import Case
from audit.replay.neighbours import HOLDER, OWNERS
from audit.replay.play import CANARY, Played
from audit.replay.recorder import MASKED, Exchanged
from fedkme.directives import AskSums, Proposal, Refusal, Rows
from fedkme.errors import QuorumError, SecureAggregationError
from fedkme.moments.features import SecondMomentsSpec, ShellsSpec
from fedkme.privacy.events import CONSUMER, CURATOR
from fedkme.sums.values import SumQuery


def missing(case: Case, played: Played) -> Iterator[str]:
    """Required events that did not happen in a run of a case; an unexpected end is among them."""
    for what in case.must:
        if not CHECKS[what](case, played):
            end = f": {played.fault}" if played.fault else ""
            yield f"the case shows nothing of {what}{end}"


def queries(played: Played) -> list[SumQuery]:
    """Queries to the owners, each once, in their order."""
    exchanges = (entry for _, entries in sorted(played.recorder.exchanged.items()) for entry in entries)
    bodies = [entry.directive.body for entry in exchanges]
    return list(dict.fromkeys(body.query for body in bodies if isinstance(body, AskSums | Proposal)))


def _ends(case: Case, played: Played) -> bool:
    if "dies as" in case.note:  # a sum that may have been opened cannot be opened again
        return played.fault.startswith(f"{SecureAggregationError.code} the curator stopped")
    if case.note == "budgets" and played.fault:  # refused: no epsilon covers this auction
        refused = played.fault.startswith(f"{QuorumError.code} 0 owners may take part")
        return refused and not any(played.ledgers.values())
    rows = case.summary is None or any(isinstance(entry.answer, Rows) for entry in _exchanged(played))
    return played.fault == "" and rows


def _exchanged(played: Played) -> Iterator[Exchanged]:
    for entries in played.recorder.exchanged.values():
        yield from entries


def _picks(played: Played) -> int:
    return sum(choice.what == "pick" for choice in played.recorder.chosen((CONSUMER, "picks")))


def _asked(played: Played, *questions: str) -> list[Exchanged]:
    return [entry for entry in _exchanged(played) if entry.directive.question in questions]


def _edges(case: Case, played: Played) -> bool:
    specs = [spec for query in queries(played) for spec in query.specs]
    of_images = [spec for spec in specs if isinstance(spec, ShellsSpec | SecondMomentsSpec)]
    return bool(of_images) and all(spec.edges for spec in of_images)


def _heard(played: Played) -> bool:
    parties = (*OWNERS, CURATOR, CONSUMER)
    return all(any(CANARY in line for line in played.recorder.observed.get(p, [])) for p in parties)


CHECKS: Mapping[str, Callable[[Case, Played], bool]] = {
    "an end as foreseen": _ends,
    "lines of every party's log": lambda case, played: _heard(played),
    "a death of an owner": lambda case, played: HOLDER in played.recorder.reopened,
    "a death of the curator": lambda case, played: CURATOR in played.recorder.reopened,
    "a refusal": lambda case, played: (
        bool(played.recorder.refused.get(HOLDER))
        or any(isinstance(entry.answer, Refusal) for entry in _exchanged(played))
    ),
    "masks": lambda case, played: bool(_asked(played, MASKED)),
    "sums in the clear": lambda case, played: bool(_asked(played, "embed")),
    "another run": lambda case, played: (
        len({entry.directive.run.partition("/")[0] for entry in _asked(played, "invite")}) > 1
    ),
    "persons": lambda case, played: played.facts.get("rows_of_person", 1) > 1,
    "several rounds": lambda case, played: (
        max(
            (entry.directive.round for entry in _asked(played, "ask", "sell", "broadcast", "quote")),
            default=0,
        )
        > 1
    ),
    "several questions": lambda case, played: len(queries(played)) > 1,
    "parities": lambda case, played: any(query.parities is not None for query in queries(played)),
    "finer signs": lambda case, played: any(
        query.parities is not None
        and len({each.column for each in query.parities.groups}) < len(query.parities.groups)
        for query in queries(played)
    ),
    "products": lambda case, played: any(query.products is not None for query in queries(played)),
    "merged bins": lambda case, played: any(
        query.marginals is not None and bool(query.marginals.merged) for query in queries(played)
    ),
    "own values": lambda case, played: any(
        query.marginals is not None
        and bool(query.marginals.own)
        and max(map(len, query.marginals.cliques)) > 1
        for query in queries(played)
    ),
    "a pick": lambda case, played: _picks(played) > 0,
    "a second pick": lambda case, played: _picks(played) > 1,
    "edges": _edges,
    "copies": lambda case, played: "copy-1.csv" in played.files,
    "boxes": lambda case, played: any(
        entry.hidden for entry in _asked(played, "fill_order", "draw", "sell", "ask")
    ),
}
"""Check of a run for each event that it must have exercised."""
