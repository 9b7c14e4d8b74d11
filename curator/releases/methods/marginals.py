"""Marginals as a method of release: in rounds by noisy counts, AIM at a trusted curator, or columns alone.

Every measurement is a pooled sum (docs/decisions/006): counts by the codes of some columns. The algorithms in
curator.releases.marginals choose the columns, under a budget that ends at exactly (epsilon, delta).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from curator.releases.files import card_answers, make_synthetic
from curator.releases.marginals.adaptive import WORKLOAD_CELLS, aim
from curator.releases.marginals.budget import measurement_sigma
from curator.releases.marginals.dependences import Codes, missing_from
from curator.releases.marginals.descent import fit
from curator.releases.marginals.release import PAIR_CELLS, MarginalRelease, independent
from curator.releases.marginals.rounds import rounds
from curator.releases.marginals.tilt import tilted
from curator.releases.method import Finished, Making, NoisyTable, SumOracle, Tell
from curator.releases.synthetic import DataCard, columns_of, csv_bytes
from fedkme.answers.counts import CountEvidence
from fedkme.answers.made_rows import WeightedTable
from fedkme.arrays import IntArray
from fedkme.errors import ConfigError, NotEnoughRowsError
from fedkme.features.binning import Binning, MergedBins, check_domain, finer
from fedkme.features.counts import L2_STEP, Clique, Groups, marginal_cells, sizes_with
from fedkme.ops.threads import in_thread
from fedkme.privacy.events import Composed, Event, Gaussian
from fedkme.privacy.gaussian import gaussian_epsilon, gaussian_sigma
from fedkme.releases.counts import PROTOCOL, Measurement, Screen, StoredCounts, counts_from_bytes
from fedkme.releases.fine import worth_merging
from fedkme.releases.settings import MarginalsSettings
from fedkme.sums.values import Marginals, Parities
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table
from fedkme.verdict import CANNOT_TELL

FINE_SHARE, FINE_SHARE_ALONE = 0.04, 0.25
"""Share of the budget for numbers by fine bins: where pairs are counted, and where columns alone are
counted."""
MISSED = 0.05
"""Share of the rows from which on a dependence that they lack makes models poor."""
FULL_PAIRS = 0.25
"""Share of the budget from which the noise of a pair of columns is foreseen, one pair for each column."""
_COPY_ITERATIONS = 300  # iterations of a copy's fit, which starts from the release's model
CELLS_AT_ONCE = 2**20
"""Most counts of one question: a workload of three columns has more and is asked in parts."""
NAMES = {
    "aim": "AIM (McKenna 2022), pooled, Gaussian DP filter",
    "rounds": "marginals chosen in rounds by noisy pooled counts alone",
    "independent": "independent columns",
}


class MarginalsMethod:
    """Release of marginals with noise, from which rows are drawn."""

    protocol = PROTOCOL

    def __init__(
        self, settings: MarginalsSettings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        """Fix the seed and the bins, which are public.

        Raises:
            ConfigError: the domain is too large for the mechanism, or the release has no noise.
        """
        if math.isinf(settings.epsilon):
            raise ConfigError("marginals without noise are no release", "Give a finite epsilon.")
        seed = public_seed if settings.seed is None else settings.seed
        self.settings = settings.model_copy(update={"seed": seed})
        self._schema = schema
        self._binning = Binning(schema, settings.bins)
        self._finer = finer(self._binning, settings.fine)
        width = len(self._binning.sizes)
        if settings.mechanism == "aim":
            check_domain(self._binning.sizes, min(settings.ways, width), WORKLOAD_CELLS)
        elif settings.mechanism in ("auto", "rounds"):
            check_domain(self._binning.sizes, min(2, width), PAIR_CELLS)

    def planned(self) -> tuple[Event, ...]:
        """Cost of the whole release as one Gaussian, whatever marginals are chosen."""
        return (Gaussian(gaussian_sigma(self.settings.of_row, self.settings.delta)),)

    async def ask(self, oracle: SumOracle) -> bytes:
        """Measure marginals.

        Raises:
            NotEnoughRowsError: there are no rows.
            ConfigError: AIM is asked for and the curator may not see exact counts.
        """
        if oracle.rows < 1:
            raise NotEnoughRowsError("the owners have no rows", "Start owners that have some.")
        mechanism = "rounds" if self.settings.mechanism == "auto" else self.settings.mechanism
        if mechanism == "aim" and not oracle.exact_sums:
            raise ConfigError(
                "AIM chooses by exact counts, which this curator may not see",
                "Set 'mechanism' to \"rounds\", or agree on a trusted curator.",
            )
        loop = asyncio.get_running_loop()
        share = FINE_SHARE_ALONE if mechanism == "independent" else FINE_SHARE
        fine, epsilon = await self._fine(oracle, loop, share)
        binning = self._from_counts(fine, oracle.rows)
        # Fits between questions take seconds, so the mechanism runs in a thread with its own event loop.
        release = await in_thread(
            asyncio.run, self._run(mechanism, Counts(oracle, binning, loop), oracle, epsilon)
        )
        return self._encoded(release, fine, binning, mechanism, oracle)

    def _from_counts(self, fine: Sequence[Measurement], rows: int) -> Binning:
        """Choose the bins of all further questions: merged ones for numbers that even bins tell little of.

        There are at most so many merged bins that a cell of two numbers has as many rows, on average, as the
        deviation of the noise that is foreseen for a pair. The fine counts are on disk before: a curator that
        comes back has the same bins. What a curator may name, and why the sensitivity does not depend on it:
        `fedkme.features.binning`.
        """
        budget = gaussian_sigma(self.settings.of_row, self.settings.delta) ** -2
        noise = measurement_sigma(FULL_PAIRS * budget / len(self._binning.sizes))
        most, merged = max(2, int(math.sqrt(rows / noise))), list[MergedBins]()
        names = {column.name: column for column in self._schema.columns}
        for measurement in fine:
            (place,) = measurement.clique
            column = names.get(self._binning.names[place])
            if not isinstance(column, Numeric) or column.count > 1:
                continue
            counts = measurement.values[: len(measurement.values) - len(column.atoms)]
            even = np.bincount(self._finer.within(place, self._binning)[: len(counts)], counts)
            runs = min(most, len(even))
            starts = worth_merging(counts, even.astype(np.float64), measurement.sigma, runs)
            if starts is not None:
                merged.append(MergedBins(column.name, self._finer.bins, starts))
        return replace(self._binning, merged=tuple(merged))

    async def _fine(
        self, oracle: SumOracle, loop: asyncio.AbstractEventLoop, share: float
    ) -> tuple[list[Measurement], float]:
        """Count numbers by fine bins; return the tables and the epsilon that is left for the other tables.

        Relation, unit and sensitivity are those of every table (`marginals.budget`): mu^2 = 2 / sigma^2 each.
        Let m be the multiplier of the Gaussian that (epsilon, delta) allows, and m' that of the epsilon left.
        The fine tables together have 1 / m^2 - 1 / m'^2, about `share` of 1 / m^2. All costs add up to 1 /
        m^2, even if the other tables depend on the fine tables. Where the noise of a fine table exceeds the
        rows of an average bin, the tables tell nothing and are not asked for; this rule reads public numbers
        alone.
        """
        finer_bins, epsilon, delta = self._finer, self.settings.of_row, self.settings.delta
        places = [
            p for p, (a, b) in enumerate(zip(finer_bins.sizes, self._binning.sizes, strict=True)) if a > b
        ]
        if not places:
            return [], epsilon
        most = gaussian_sigma(epsilon, delta)
        epsilon_left = gaussian_epsilon(most / math.sqrt(1.0 - share), delta)
        cost = (most**-2 - gaussian_sigma(epsilon_left, delta) ** -2) * (1.0 - 1e-9)
        sigma = measurement_sigma(cost / len(places))
        if sigma * self.settings.bins > oracle.rows:
            return [], epsilon
        oracle.tell("measuring", "each number by fine bins", 0.0)
        cliques, sigmas = [(place,) for place in places], [sigma] * len(places)
        return await Counts(oracle, finer_bins, loop).noisy(cliques, sigmas), epsilon_left

    async def _run(
        self, mechanism: str, counts: Counts, oracle: SumOracle, epsilon: float
    ) -> MarginalRelease:
        sizes, rows, delta = counts.binning.sizes, oracle.rows, self.settings.delta
        if mechanism == "aim":
            ways = min(self.settings.ways, len(sizes))
            return await aim(counts, sizes, rows, epsilon, delta, oracle.noise, oracle.tell, ways)
        if mechanism == "rounds":
            label, names = len(sizes) - 1, self._binning.names
            fixed_pairs = (
                [(column, label) for column in range(label)] if self._schema.label is not None else []
            )
            # A model without the pair of number and mark would mix gaps' stand-in values with numbers.
            marks = [c for c in self._schema.columns if isinstance(c, Category) and c.gaps_of is not None]
            for mark in marks:
                number, gap = sorted((names.index(str(mark.gaps_of)), names.index(mark.name)))
                fixed_pairs.append((number, gap))
            screened = self._codes(counts.binning) if len(sizes) > 2 else None
            return await rounds(
                counts, sizes, rows, epsilon, delta, fixed_pairs, report=oracle.tell, screened=screened
            )
        return await independent(counts, sizes, rows, epsilon, delta)

    def _codes(self, binning: Binning) -> Codes:
        """Columns of codes, for a screen."""
        label = None if self._schema.label is None else len(binning.sizes) - 1
        return Codes(binning.sizes, label, binning.orders)

    def _encoded(
        self,
        release: MarginalRelease,
        fine: Sequence[Measurement],
        binning: Binning,
        mechanism: str,
        oracle: SumOracle,
    ) -> bytes:
        pieces = (*(Gaussian(measurement.sigma / L2_STEP) for measurement in fine), *release.pieces.events)
        stored = StoredCounts(
            self._schema,
            self.settings.model_dump(mode="json"),
            mechanism,
            release.rows,
            oracle.owners,
            release.measurements,
            release.others,
            self.planned()[0].to_json(),
            Composed(pieces).to_json(),
            tuple(fine),
            release.groups,
            release.grouped,
            release.tilts,
            release.screen,
            binning.merged,
        )
        return stored.to_bytes()

    def finish(self, release: bytes, tell: Tell) -> Finished:
        """Fit the model, and draw rows from it.

        Raises:
            DataError: the bytes are not a release of marginals.
        """
        stored, making = counts_from_bytes(release), Making(release, tell)
        making.step("rows of the release", lambda: self._make(stored, making))
        return making.finished

    def _make(self, stored: StoredCounts, making: Making) -> None:
        measured, sizes, rows = (*stored.fitted, *stored.grouped), stored.binning.sizes, stored.rows
        words = f"{len(measured)} marginals"
        making.tell("fitting", words, 0.0)
        event = self.planned()[0]
        model = fit(
            sizes,
            measured,
            rows,
            self.settings.iterations,
            report=lambda share: making.tell("fitting", words, share),
            groups=stored.groups,
        )
        count = self.settings.rows or rows
        generator = np.random.default_rng(np.random.SeedSequence([self.settings.seed or 0, 5]))
        codes = tilted(model, len(sizes) - 1, stored.tilts, rows).sample(count, generator)
        table = self._rows(stored, codes, generator)
        card = DataCard(
            NAMES[stored.mechanism],
            self._schema,
            count,
            rows,
            stored.owners,
            event,
            "replace-one",
            self.settings.delta,
            settings=stored.settings,
            utility_rows="none; the answers come from the release itself",
            answers=card_answers(lambda: CountEvidence(stored), WeightedTable(table), making),
            notes=[f"{len(measured)} marginals were measured: {_clique_names(stored)}"],
            models=making.step("what the rows lack", lambda: _grade_of_models(stored, codes)),
        )
        make_synthetic(table, card, making)

        def copy() -> bytes:
            other = _redrawn(stored, generator)
            fitted = (*other.fitted, *other.grouped)
            refitted = fit(sizes, fitted, rows, _COPY_ITERATIONS, model, groups=stored.groups)
            again = tilted(refitted, len(sizes) - 1, other.tilts, rows).sample(rows, generator)
            copied = _sampled(self._rows(other, again, generator), generator)
            return csv_bytes(columns_of(copied, self._schema))

        for number in range(1, self.settings.copies + 1):
            making.tell("copying", f"{number} of {self.settings.copies}", (number - 1) / self.settings.copies)
            making.file(f"copy-{number}.csv", copy)

    def _rows(self, stored: StoredCounts, codes: IntArray, generator: np.random.Generator) -> Table:
        """Decode rows, by fine bins for the numbers that were counted by fine bins."""
        table, evidence = stored.binning.decode(codes, generator), CountEvidence(stored)
        for measurement in stored.fine:
            if (fine_counts := evidence.fine(measurement.clique)) is not None:
                (place,) = measurement.clique
                fine = fine_counts.drawn(codes[:, place], generator)
                table.values[:, place] = stored.finer.numbers(place, fine, generator)
        return table


@dataclass(frozen=True, eq=False)
class Counts:
    """Oracle of pooled counts for mechanisms, which run in their own thread."""

    oracle: SumOracle
    binning: Binning
    loop: asyncio.AbstractEventLoop

    async def counts(self, cliques: Sequence[Clique]) -> list[IntArray]:
        """Exact pooled counts of every marginal, (cells,) each; one query to the owners."""
        measurements = await self._measurements(cliques, None)
        return [np.rint(counts.values).astype(np.int64) for counts in measurements]

    async def noisy(
        self, cliques: Sequence[Clique], sigmas: Sequence[float], groups: Sequence[Groups] = ()
    ) -> list[Measurement]:
        """Pooled counts with independent noise; one query to the owners."""
        return await self._measurements(cliques, sigmas, groups)

    async def parities(
        self, groups: Sequence[Groups], blocks: Sequence[Sequence[Clique]], sigmas: Sequence[float]
    ) -> Screen:
        """Pooled parities with independent noise; one query to the owners."""
        binning, asked = self.binning, tuple(map(tuple, blocks))
        question = Parities(binning.bins, tuple(groups), asked, binning.merged)
        answer = await self._on_loop(self.oracle.parities(question, sigmas))
        sums, deviations = zip(*answer, strict=True)
        return Screen(question.groups, question.blocks, tuple(sums), tuple(deviations))

    async def _on_loop(self, asked: Coroutine[Any, Any, list[NoisyTable]]) -> list[NoisyTable]:
        """Await an answer of the oracle, which lives on another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, self.loop))

    async def _measurements(
        self, cliques: Sequence[Clique], sigmas: Sequence[float] | None, groups: Sequence[Groups] = ()
    ) -> list[Measurement]:
        measurements: list[Measurement] = []
        sizes, binning = sizes_with(groups, self.binning.sizes), self.binning
        for start, end in _parts(cliques, lambda clique: marginal_cells(clique, sizes)):
            question = Marginals(binning.bins, tuple(cliques[start:end]), tuple(groups), binning.merged)
            part = None if sigmas is None else list(sigmas[start:end])
            answer = await self._on_loop(self.oracle.marginals(question, part))
            measurements += [
                Measurement(clique, table, deviation)
                for clique, (table, deviation) in zip(question.cliques, answer, strict=True)
            ]
        return measurements


def _parts(cliques: Sequence[Clique], cells: Callable[[Clique], int]) -> list[tuple[int, int]]:
    """Split cliques into questions of at most `CELLS_AT_ONCE` counts; return start and end of each."""
    parts, start, size = [], 0, 0
    for place, clique in enumerate(cliques):
        more = cells(clique)
        if size and size + more > CELLS_AT_ONCE:
            parts.append((start, place))
            start, size = place, 0
        size += more
    return [*parts, (start, len(cliques))]


def _redrawn(stored: StoredCounts, generator: np.random.Generator) -> StoredCounts:
    """Add further noise to a release, from which a copy follows that shows how uncertain the release is.

    A copy is an independent sample (`_sampled`) of the model that is fitted to the redrawn release, with as
    many rows as were released. So a copy differs from the release as the release does from the population: by
    noise of the same law, and by the same number of rows drawn. The rule that combines copies assumes this
    (`fedkme.releases.combining`, docs/releases.md). A second table drawn from the release's own model would
    have the same noise, and show none of its uncertainty. Nothing private is read.
    """

    def with_noise(measurement: Measurement) -> Measurement:
        values = measurement.values
        return replace(measurement, values=values + generator.normal(0.0, measurement.sigma, len(values)))

    tables = (stored.fitted, stored.fine, stored.grouped, stored.tilts)
    fitted, fine, grouped, tilts = (tuple(map(with_noise, measured)) for measured in tables)
    return replace(stored, fitted=fitted, others=(), fine=fine, grouped=grouped, tilts=tilts)


def _sampled(table: Table, generator: np.random.Generator) -> Table:
    """Draw as many rows from a table as it has, independently."""
    return table.take(generator.integers(0, len(table), len(table)))


def _grade_of_models(stored: StoredCounts, codes: IntArray) -> tuple[str, str] | None:
    """Grade models by what a screen shows the rows to lack; None without a screen.

    Models are poor where as many rows as MISSED of all are off in a dependence that stands out. Else nobody
    can tell: models may need what no parity of groups sees.
    """
    if stored.screen is None or stored.schema.label is None:
        return None
    found = missing_from(stored.screen, codes, stored.rows)
    if not found:
        return CANNOT_TELL, "a screen finds nothing that the rows lack, which proves nothing"
    names, most = stored.binning.names, found[0]
    *others, last = (names[column] for column in most.columns if column != len(names) - 1)
    share = min(most.rows / (2.0 * stored.rows), 1.0)
    how = f"rows lack how {names[-1]} depends on {', '.join(others)} and {last}"
    return "poor" if share >= MISSED else CANNOT_TELL, f"{how}: about {100 * share:.2g} % of them are off"


def _clique_names(stored: StoredCounts) -> str:
    names = [*stored.binning.names]
    names += [f"{names[each.column]} in {each.size} groups" for each in stored.groups]
    cliques = {measurement.clique for measurement in (*stored.fitted, *stored.grouped, *stored.tilts)}
    return "; ".join(sorted(" x ".join(names[c] for c in clique) for clique in cliques))
