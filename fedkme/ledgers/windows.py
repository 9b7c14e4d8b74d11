"""Windows of budgets: when something was disclosed at the latest, also where a clock was set back.

A budget of `days` counts what may lie in the last so many days. A party's ledger has an order that no clock
changes: what stands behind a line happened after it. A reading of the clock below an earlier one shows that
the clock was set back (or had been ahead); such a reading is no time. What was written with it happened
before the next reading that is above all readings so far, and that one is its time here; where there is none
yet, it counts as of now. So no line leaves a window early because of a clock that was set back, whether it
still is or was corrected. What begins the window is the clock as it is; one that is back begins it earlier.

A clock that is *ahead* frees what the window then leaves behind: a party cannot tell that from time that
passed. What is written after it was corrected counts until the wrong time is reached, and `doctor` says so.
"""

from __future__ import annotations

import math
from bisect import bisect_right

from fedkme.privacy.ledger import tip
from fedkme.store import Store

DAY_S = 86400.0
_READ = "clock/"
"""Facts of a store: readings that came after a line, as the clock had been set back before it."""


class Readings:
    """Readings of a party's clock that are above all before them, with their places in its ledger.

    Attributes:
        last: number of the last line that was taken in.
    """

    def __init__(self, store: Store) -> None:
        """Begin before the first line of the store's ledger that is in no archive.

        An archive ends with a reading above all before it. What lies before is settled; where it is asked
        for, that reading bounds it.
        """
        self._store = store
        self._after = {
            int(key.removeprefix(_READ)): float(store.get(key) or b"0") for key in store.keys(_READ)
        }
        before = tip(store)
        self.last, written = (before.last, before.written) if before else (0, -math.inf)
        self._places = [float(self.last)]
        self._times = [max(written, self._after.get(self.last, -math.inf))]
        self._behind = False

    @property
    def largest(self) -> float:
        """The largest time that was ever read, Unix seconds; -inf without any."""
        return self._times[-1]

    def add(self, line: int, at: float) -> None:
        """Take in when a line was written; lines come in their order."""
        self.last = line
        if at > self.largest:
            self._add(line, at)
        if (after := self._after.get(line)) is not None and after >= self.largest:
            self._add(line + 0.5, after)

    def latest(self, place: float, at: float) -> float:
        """Bound from above on when something happened.

        Args:
            place: number of the last line that stood there, or `place_in` of the store; its own for a line.
            at: what the clock said, Unix seconds.

        Returns:
            Unix seconds; infinity where it may just have happened.
        """
        after = bisect_right(self._places, place)
        if not after:
            return max(at, self._times[0])
        if at >= self._times[after - 1]:
            return at
        if after < len(self._times):
            return self._times[after]
        self._behind = True
        return math.inf

    def note(self, now: float) -> None:
        """Keep a reading after the last line, where the clock is right again and no line says so yet."""
        if self._behind and now >= self.largest and self.last not in self._after:
            self._after[self.last] = now
            self._store.put(f"{_READ}{self.last}", str(now).encode("ascii"))
            self._add(self.last + 0.5, now)

    def _add(self, place: float, at: float) -> None:
        self._places.append(place)
        self._times.append(at)
        self._behind = False


def place_in(store: Store, line: int) -> float:
    """Place of what happens now, behind a store's last line: after a reading that was kept there."""
    return line + (0.0 if store.get(f"{_READ}{line}") is None else 0.75)


def begin_of(days: float | None, now: float) -> float:
    """Begin of a window that ends now, Unix seconds."""
    return -math.inf if days is None else now - days * DAY_S
