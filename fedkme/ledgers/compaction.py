"""Compaction of a ledger's lines to fewer lines of the same cost, which budgets read of archived runs.

*Law.* For every data set and observer, `paid` yields the same releases, each as often, from condensed lines
and later lines as from the original lines and later lines: so every accountant has the same figure. *Proof.*
Events that are paid for each time are counted: an event with `count` n is n events with count 1, which is how
accountants read it (`repeated`). An event of a whole run is paid once for each run, nonce and event, or as
often as its most frequent line occurs: it keeps run and nonce, and occurs as often. (Equal lines of such an
event are all archived or all not: a run whose name a ledger has does not begin again.) No accountant reads
the fields that become 0 or are cut to their first word (round, nonce of other events, sensitivity). QED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fedkme.privacy.accountants.matrix import cells_of
from fedkme.privacy.events import Disclosure, Event, leaves, repeated

ARCHIVED = "archived"
"""Run name of lines that stand for lines of several runs."""


def condensed(lines: Iterable[Disclosure]) -> list[Disclosure]:
    """Fewest lines of the same cost, also together with any later lines, even of the same runs."""
    fewest: list[Disclosure] = []
    for cell in cells_of(lines).values():
        always: Counter[Disclosure] = Counter()
        once: dict[Disclosure, int] = {}
        for line, times in Counter(cell).items():
            for leaf in leaves([line.event]):
                if leaf.whole_run:
                    bare = _bare(line, leaf, line.run, line.nonce)
                    once[bare] = max(times, once.get(bare, 0))
                else:
                    one, count = _single(leaf)
                    always[_bare(line, one, ARCHIVED, line.nonce.partition(" ")[0])] += times * count
        fewest += (replace(line, event=repeated(line.event, times)) for line, times in always.items())
        fewest += (line for line, times in once.items() for _ in range(times))
    return fewest


def _bare(line: Disclosure, event: Event, run: str, nonce: str) -> Disclosure:
    return replace(line, run=run, round=0, event=event, sensitivity=None, nonce=nonce, certain=True)


def _single(event: Event) -> tuple[Event, int]:
    """One release of an event, and the number of its releases."""
    counted: Any = event
    count = getattr(event, "count", 1)
    return (event, 1) if count == 1 else (replace(counted, count=1), count)
