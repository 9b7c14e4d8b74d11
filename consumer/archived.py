"""Costs of a consumer's archived requests, by the D_v that they were over and the hour in which they paid."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from fedkme.documents import RequestDocument
from fedkme.ledgers.archiving import Leaving
from fedkme.ledgers.windows import Readings
from fedkme.privacy.events import Disclosure
from fedkme.privacy.ledger import disclosures_in, lines_from_json, lines_to_json
from fedkme.store import Store

_FACT = "archived/requests"
HOUR_S = 3600.0
Place = tuple[float, frozenset[bytes]]
"""An hour's end, Unix seconds, and digests of each D_v of which the requests are that explain some lines."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Lines of a ledger that some requests explain: those of their runs, and those of being made."""

    runs: set[str] = field(default_factory=set)
    made: set[Disclosure] = field(default_factory=set)

    def add(self, document: RequestDocument) -> None:
        """Take in the lines of one request."""
        self.made.update(document.disclosures)
        if document.plan is not None:
            self.runs.add(document.plan.run)

    def has(self, line: Disclosure) -> bool:
        """Check whether one of them is the line's."""
        return line.run in self.runs or line in self.made


@dataclass(frozen=True, slots=True)
class Archived:
    """Costs and names that a consumer's store keeps of archived requests.

    Attributes:
        runs: names of runs in archived lines.
        files: digests of each D_v of which something may have left.
        costs: lines that cost what the archived ones do. The hour ends after what they tell of happened, so
            that they leave a window up to an hour late.
    """

    runs: set[str] = field(default_factory=set)
    files: set[bytes] = field(default_factory=set)
    costs: dict[Place, list[Disclosure]] = field(default_factory=dict)

    @staticmethod
    def of(store: Store) -> Archived:
        """Read what a store has."""
        plain = json.loads(store.get(_FACT) or b'{"runs":[],"files":[],"costs":[]}')
        costs = {
            (float(at), frozenset(map(bytes.fromhex, files))): lines_from_json(lines)
            for at, files, lines in plain["costs"]
        }
        return Archived(set(plain["runs"]), set(map(bytes.fromhex, plain["files"])), costs)

    def facts(self) -> dict[str, bytes | None]:
        """The fact that `of` reads."""
        costs = [
            [at, sorted(each.hex() for each in files), lines_to_json(lines)]
            for (at, files), lines in self.costs.items()
        ]
        files = sorted(each.hex() for each in self.files)
        plain = {"runs": sorted(self.runs), "files": files, "costs": costs}
        return {_FACT: json.dumps(plain, separators=(",", ":")).encode("ascii")}

    def since(self, begin: float, apart: frozenset[bytes]) -> list[Disclosure]:
        """Lines that may lie after a time, but for those that are over files in `apart` alone."""
        return [
            line
            for (at, files), lines in self.costs.items()
            if at >= begin and not (files and files <= apart)
            for line in lines
        ]

    def with_lines(self, store: Store, leaving: Leaving, whose: Mapping[bytes, Explained]) -> Archived:
        """Add what leaves; `whose` explains lines by the D_v of requests."""
        from fedkme.ledgers.compaction import condensed  # it imports accountants

        readings = Readings(store)
        found = defaultdict(list, {place: list(lines) for place, lines in self.costs.items()})
        for kept in leaving.lines:
            readings.add(kept.seq, kept.written)
        told = disclosures_in(kept.line for kept in leaving.lines)
        for kept, line in zip(leaving.lines, told, strict=True):
            hour = math.ceil(readings.latest(kept.seq, kept.written) / HOUR_S) * HOUR_S
            found[hour, frozenset(data for data, each in whose.items() if each.has(line))].append(line)
        costs = {place: condensed(lines) for place, lines in found.items()}
        return Archived(self.runs | {line.run for line in told}, self.files | whose.keys(), costs)
