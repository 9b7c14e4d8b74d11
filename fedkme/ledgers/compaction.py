"""Lines of a ledger that cost the same as others and are fewer: what budgets read of archived runs.

*Law.* For every data set and observer, `paid` yields of condensed lines and of those that follow them the
same releases, each as often, as of the lines themselves and of those that follow: so every accountant has the
same figure. *Proof.* What is paid for each time is counted: an event with `count` n is n of one, which is how
accountants read it (`repeated`). An event of a whole run is paid once for each run, nonce and event, or as
often as its most frequent line is there: it keeps run and nonce, and stands as often. (Equal lines of one
stand on one side: a run whose name a ledger knows does not begin again.) What becomes 0 or the first word
(round, nonce of others, sensitivity) is read by no accountant.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from fedkme.privacy.accountants.matrix import cells_of
from fedkme.privacy.events import Disclosure, Event, leaves, repeated

ARCHIVED = "archived"
"""Name in place of a run's, in lines that stand for those of several runs."""


def condensed(lines: Iterable[Disclosure]) -> list[Disclosure]:
    """Fewest lines that cost what these do, alone and with lines that follow, also of the same runs."""
    found: list[Disclosure] = []
    for cell in cells_of(lines).values():
        always: Counter[Disclosure] = Counter()
        once: dict[Disclosure, int] = {}
        for line, times in Counter(cell).items():
            for leaf in leaves([line.event]):
                if leaf.whole_run:
                    each = _bare(line, leaf, line.run, line.nonce)
                    once[each] = max(times, once.get(each, 0))
                else:
                    one, count = _single(leaf)
                    always[_bare(line, one, ARCHIVED, line.nonce.partition(" ")[0])] += times * count
        found += (replace(line, event=repeated(line.event, times)) for line, times in always.items())
        found += (line for line, times in once.items() for _ in range(times))
    return found


def _bare(line: Disclosure, event: Event, run: str, nonce: str) -> Disclosure:
    return replace(line, run=run, round=0, event=event, sensitivity=None, nonce=nonce, certain=True)


def _single(event: Event) -> tuple[Event, int]:
    """One release of an event, and how many it has."""
    counted: Any = event
    count = getattr(event, "count", 1)
    return (event, 1) if count == 1 else (replace(counted, count=1), count)
