"""Costs of a consumer's archived requests, by D_v and by the hour in which they were charged."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from fedkme.ledgers.archiving import Leaving
from fedkme.ledgers.windows import Readings
from fedkme.privacy.events import Disclosure
from fedkme.privacy.ledger import disclosures_in, lines_from_json, lines_to_json
from fedkme.store import Store

_FACT = "archived/requests"
HOUR_S = 3600.0
Place = tuple[float, frozenset[bytes]]
"""End of an hour, Unix seconds, and digests of each D_v whose runs the hour's lines are of."""


@dataclass(frozen=True, slots=True)
class Archived:
    """Costs and names that a consumer's store keeps of archived requests.

    Attributes:
        runs: names of runs in archived lines.
        files: digests of each D_v about which something may have left.
        costs: lines that cost as much as the archived ones. Each hour ends after the disclosures in it, so
            that lines leave a window up to an hour late.
    """

    runs: set[str] = field(default_factory=set)
    files: set[bytes] = field(default_factory=set)
    costs: dict[Place, list[Disclosure]] = field(default_factory=dict)

    @staticmethod
    def of(store: Store) -> Archived:
        """Read the costs and names in a store."""
        plain = json.loads(store.get(_FACT) or b'{"runs":[],"files":[],"costs":[]}')
        costs = {
            (float(at), frozenset(map(bytes.fromhex, files))): lines_from_json(lines)
            for at, files, lines in plain["costs"]
        }
        return Archived(set(plain["runs"]), set(map(bytes.fromhex, plain["files"])), costs)

    def facts(self) -> dict[str, bytes | None]:
        """Make the fact that `of` reads."""
        costs = [
            [at, sorted(each.hex() for each in files), lines_to_json(lines)]
            for (at, files), lines in self.costs.items()
        ]
        files = sorted(each.hex() for each in self.files)
        plain = {"runs": sorted(self.runs), "files": files, "costs": costs}
        return {_FACT: json.dumps(plain, separators=(",", ":")).encode("ascii")}

    def since(self, begin: float, apart: frozenset[bytes]) -> list[Disclosure]:
        """Lines that may lie after a time, without lines that concern files in `apart` alone."""
        return [
            line
            for (at, files), lines in self.costs.items()
            if at >= begin and not (files and files <= apart)
            for line in lines
        ]

    def with_lines(self, store: Store, leaving: Leaving, runs_of: Mapping[bytes, set[str]]) -> Archived:
        """Add lines that go into an archive; `runs_of` has the runs of each D_v."""
        from fedkme.ledgers.archiving import condensed  # it imports accountants

        readings = Readings(store)
        costs_by_place = defaultdict(list, {place: list(lines) for place, lines in self.costs.items()})
        for row in leaving.lines:
            readings.add(row.seq, row.written)
        disclosures = disclosures_in(row.line for row in leaving.lines)
        for row, line in zip(leaving.lines, disclosures, strict=True):
            hour = math.ceil(readings.latest(row.seq, row.written) / HOUR_S) * HOUR_S
            files = frozenset(data for data, runs in runs_of.items() if line.run in runs)
            costs_by_place[hour, files].append(line)
        costs = {place: condensed(lines) for place, lines in costs_by_place.items()}
        return Archived(self.runs | {line.run for line in disclosures}, self.files | runs_of.keys(), costs)
