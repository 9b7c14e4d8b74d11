"""Figures that parties export for Prometheus: replay compares all except times.

The spent epsilon is a function of a ledger's lines, and takes an accountant a while: it is computed only if
two ledgers differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from prometheus_client import REGISTRY, CollectorRegistry

from curator.metrics import CuratorMetrics
from fedkme.ops.metrics import DELTA, timed
from fedkme.privacy.accountants import Sound, matrix
from fedkme.privacy.events import CURATOR, Disclosure
from owner.metrics import OwnerMetrics
from owner.party import OwnerParty
from owner.runs import RunManager

Figure = tuple[str, tuple[tuple[str, str], ...], float]
"""Name, labels and value."""


class Exported:
    """Exporters of a run's parties.

    Attributes:
        curator: of the curator.
        owners: owners by name, of the process that is an owner's now.
    """

    def __init__(self) -> None:
        self.curator = CuratorMetrics()
        self.owners: dict[str, OwnerMetrics] = {}
        self._runs: dict[str, RunManager] = {}

    def open(self, party: OwnerParty, make: Callable[..., RunManager] = RunManager) -> RunManager:
        """Open a measured process of an owner; the owner's next process counts from zero."""
        name = party.name
        self.owners[name] = metrics = OwnerMetrics(lambda: self._runs[name].rows_sent)
        self._runs[name] = make(replace(party, store=timed(party.store, metrics.registry)))
        return self._runs[name]

    def shown(self) -> dict[str, Sequence[Figure]]:
        """Current figures by party."""
        registries = {name: metrics.registry for name, metrics in self.owners.items()}
        registries[CURATOR] = self.curator.registry
        return {name: figures(registry) for name, registry in registries.items()}

    def beside(self) -> Sequence[Figure]:
        """Figures in the process's own registry, which no party of this package uses."""
        return [figure for figure in figures(REGISTRY) if not figure[0].startswith(("python_", "process_"))]


def figures(registry: CollectorRegistry) -> Sequence[Figure]:
    """Read a registry without times; counts of timed calls are included."""
    samples = [sample for family in registry.collect() for sample in family.samples]
    return sorted(
        (sample.name, tuple(sorted(sample.labels.items())), sample.value)
        for sample in samples
        if not sample.name.endswith(("_created", "_seconds_sum", "_seconds_bucket"))
    )


def spent(lines: Sequence[Disclosure]) -> Sequence[Figure]:
    """Compute the figures that `fedkme.ops.metrics.Spending` exports for a ledger."""
    return sorted(
        (name, (("observer", row.observer), ("protected", row.protected)), value)
        for row in matrix(lines, Sound(), DELTA)
        for name, value in (("fedkme_epsilon", row.figure.epsilon), ("fedkme_raw_rows", float(row.raw_rows)))
    )
