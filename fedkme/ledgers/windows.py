"""Windows of budgets: the latest possible time of each disclosure, also if a clock was set back.

A budget of `days` counts all disclosures that may lie in the last `days` days. A party's ledger has an order
that no clock changes: a line happened after the lines before it. A reading of the clock below an earlier
reading shows that the clock was set back (or had been ahead); such a reading gives no time. A line with such
a reading happened before the next reading that is above all readings so far, and that reading counts as the
line's time; without such a reading, the line counts as of now. So no line leaves a window early because a
clock was set back, whether the clock was corrected or not. The window begins by the clock as it is now; a
clock that is behind begins it earlier.

A clock that is *ahead* frees the disclosures that the window then leaves behind: a party cannot tell a wrong
clock from time that passed. Lines that are written after the correction count until the wrong time is
reached, and `doctor` says so.
"""

import math
from bisect import bisect_right

from fedkme.privacy.ledger import tip
from fedkme.store import Store

DAY_S = 86400.0
_READ = "clock/"
"""Prefix of the keys of readings after a line before which the clock had been set back."""


class Readings:
    """Readings of a party's clock that exceed all earlier readings, with their places in the party's ledger.

    Attributes:
        last: number of the last line that was added.
    """

    def __init__(self, store: Store) -> None:
        """Begin before the first line of the store's ledger that is in no archive.

        An archive ends with a reading above all earlier readings. This reading bounds the times of all
        archived lines.
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
        """Largest reading so far, Unix seconds; -inf without a reading."""
        return self._times[-1]

    def add(self, line: int, at: float) -> None:
        """Add the time at which a line was written (Unix seconds); lines come in their order."""
        self.last = line
        if at > self.largest:
            self._add(line, at)
        if (after := self._after.get(line)) is not None and after >= self.largest:
            self._add(line + 0.5, after)

    def latest(self, place: float, at: float) -> float:
        """Upper bound on the time of an event.

        Args:
            place: number of the last line at that time, or `place_in` of the store; for a line, its number.
            at: the clock's reading at the event, Unix seconds.

        Returns:
            Unix seconds; infinity if the event may just have happened.
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
        """Store a reading after the last line, if the clock is right again and no line shows that yet."""
        if self._behind and now >= self.largest and self.last not in self._after:
            self._after[self.last] = now
            self._store.put(f"{_READ}{self.last}", str(now).encode("ascii"))
            self._add(self.last + 0.5, now)

    def _add(self, place: float, at: float) -> None:
        self._places.append(place)
        self._times.append(at)
        self._behind = False


def place_in(store: Store, line: int) -> float:
    """Place of an event now, after a store's last line and after a reading stored there."""
    return line + (0.0 if store.get(f"{_READ}{line}") is None else 0.75)


def begin_of(days: float | None, now: float) -> float:
    """Begin of a window that ends now, Unix seconds; -inf for a window without `days`."""
    return -math.inf if days is None else now - days * DAY_S
