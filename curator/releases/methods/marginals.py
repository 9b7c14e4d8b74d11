"""Marginals as a release: in rounds by noisy counts, AIM at a trusted curator, or columns alone.

Every measurement is a pooled sum (docs/decisions/006): counts by the codes of some columns. Which are
measured is chosen in curator.releases.marginals, under a budget that ends at exactly (epsilon, delta).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from curator.releases.files import card_answers, make_synthetic
from curator.releases.marginals.adaptive import WORKLOAD_CELLS, aim
from curator.releases.marginals.budget import measurement_sigma
from curator.releases.marginals.copies import redrawn, sampled
from curator.releases.marginals.descent import fit
from curator.releases.marginals.pooled import PAIR_CELLS, independent
from curator.releases.marginals.release import MarginalRelease
from curator.releases.marginals.rounds import rounds
from curator.releases.method import Finished, Making, NoisyTable, SumOracle, Tell
from curator.releases.synthetic import DataCard, columns_of, csv_bytes
from fedkme.answers.counts import CountEvidence
from fedkme.arrays import IntArray
from fedkme.errors import ConfigError, NotEnoughRowsError
from fedkme.features.binning import Binning, check_domain, finer
from fedkme.features.counts import L2_STEP, Clique, marginal_cells
from fedkme.ops.threads import in_thread
from fedkme.privacy.events import Composed, Event, Gaussian
from fedkme.privacy.gaussian import gaussian_epsilon, gaussian_sigma
from fedkme.releases.counts import PROTOCOL, Measurement, StoredCounts, counts_from_bytes
from fedkme.releases.settings import MarginalsSettings
from fedkme.sums.values import Marginals
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table

FINE_SHARE, FINE_SHARE_ALONE = 0.02, 0.25
"""Part of the budget for numbers by fine bins, where pairs are counted and where nothing but columns is."""
_COPY_ITERATIONS = 300  # from the model that the copies are of
CELLS_AT_ONCE = 2**20
"""Counts of one question: a workload of three columns has more, and goes in parts."""
NAMES = {
    "aim": "AIM (McKenna 2022), pooled, Gaussian DP filter",
    "rounds": "marginals chosen in rounds by noisy pooled counts alone",
    "independent": "independent columns",
}


class MarginalsMethod:
    """Marginals with noise, and rows that have them."""

    protocol = PROTOCOL

    def __init__(
        self, settings: MarginalsSettings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        """Settle what is public.

        Raises:
            ConfigError: the domain is too large for the mechanism, or there is no noise.
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
        """Cost of the whole release as one Gaussian, whatever is chosen in it."""
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
        # Fitting takes seconds between questions: in a thread, with a loop of its own.
        made = await in_thread(
            asyncio.run, self._run(mechanism, Counts(oracle, self._binning, loop), oracle, epsilon)
        )
        return self._kept(made, fine, mechanism, oracle)

    async def _fine(
        self, oracle: SumOracle, loop: asyncio.AbstractEventLoop, share: float
    ) -> tuple[list[Measurement], float]:
        """Numbers by fine bins, and the epsilon that is left for the rest.

        Relation, unit and sensitivity are those of every table (`marginals.budget`): mu^2 = 2 / sigma^2 each.
        With m the multiplier of the Gaussian that (epsilon, delta) allow, m' that of what is left, the fine
        tables have 1 / m^2 - 1 / m'^2 together, about `share` of it: all adds up to 1 / m^2, however the
        rest depends on these. Where the noise in one is above the rows of an even bin they tell nothing, and
        are not asked: this is public.
        """
        finer_bins, epsilon, delta = self._finer, self.settings.of_row, self.settings.delta
        places = [
            p for p, (a, b) in enumerate(zip(finer_bins.sizes, self._binning.sizes, strict=True)) if a > b
        ]
        if not places:
            return [], epsilon
        most = gaussian_sigma(epsilon, delta)
        left = gaussian_epsilon(most / math.sqrt(1.0 - share), delta)
        cost = (most**-2 - gaussian_sigma(left, delta) ** -2) * (1.0 - 1e-9)
        sigma = measurement_sigma(cost / len(places))
        if sigma * self.settings.bins > oracle.rows:
            return [], epsilon
        oracle.tell("measuring", "each number by fine bins", 0.0)
        cliques, sigmas = [(place,) for place in places], [sigma] * len(places)
        return await Counts(oracle, finer_bins, loop).noisy(cliques, sigmas), left

    async def _run(
        self, mechanism: str, counts: Counts, oracle: SumOracle, epsilon: float
    ) -> MarginalRelease:
        sizes, rows, delta = self._binning.sizes, oracle.rows, self.settings.delta
        if mechanism == "aim":
            ways = min(self.settings.ways, len(sizes))
            return await aim(counts, sizes, rows, epsilon, delta, oracle.noise, oracle.tell, ways)
        if mechanism == "rounds":
            label, names = len(sizes) - 1, self._binning.names
            kept = [(column, label) for column in range(label)] if self._schema.label is not None else []
            # Where a number is empty, so is what it says: a model without this pair would mix them up.
            marks = [c for c in self._schema.columns if isinstance(c, Category) and c.gaps_of is not None]
            for mark in marks:
                number, gap = sorted((names.index(str(mark.gaps_of)), names.index(mark.name)))
                kept.append((number, gap))
            return await rounds(counts, sizes, rows, epsilon, delta, kept, told=oracle.tell)
        return await independent(counts, sizes, rows, epsilon, delta)

    def _kept(
        self, made: MarginalRelease, fine: Sequence[Measurement], mechanism: str, oracle: SumOracle
    ) -> bytes:
        pieces = (*(Gaussian(each.sigma / L2_STEP) for each in fine), *made.pieces.events)
        stored = StoredCounts(
            self._schema,
            self.settings.model_dump(mode="json"),
            mechanism,
            made.rows,
            oracle.owners,
            made.measurements,
            made.others,
            self.planned()[0].to_json(),
            Composed(pieces).to_json(),
            tuple(fine),
        )
        return stored.to_bytes()

    def finish(self, release: bytes, tell: Tell) -> Finished:
        """Fit the model, and draw rows from it.

        Raises:
            DataError: the bytes are no release of marginals.
        """
        stored, making = counts_from_bytes(release), Making(release, tell)
        making.step("rows of the release", lambda: self._make(stored, making))
        return making.finished

    def _make(self, stored: StoredCounts, making: Making) -> None:
        measured, sizes, rows = stored.fitted, self._binning.sizes, stored.rows
        words = f"{len(measured)} marginals"
        making.tell("fitting", words, 0.0)
        event = self.planned()[0]
        model = fit(
            sizes,
            measured,
            rows,
            self.settings.iterations,
            told=lambda share: making.tell("fitting", words, share),
        )
        count = self.settings.rows or rows
        generator = np.random.default_rng(np.random.SeedSequence([self.settings.seed or 0, 5]))
        codes = model.sample(count, generator)
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
            utility_rows="none; the release answers for itself",
            answers=card_answers(lambda: CountEvidence(stored), making),
            notes=[f"{len(measured)} marginals were measured: {_spelled(measured, self._binning)}"],
        )
        make_synthetic(table, card, making)

        def copy() -> bytes:
            other = redrawn(stored, generator)
            again = fit(sizes, other.fitted, rows, _COPY_ITERATIONS, model).sample(rows, generator)
            copied = sampled(self._rows(other, again, generator), generator)
            return csv_bytes(columns_of(copied, self._schema))

        for number in range(1, self.settings.copies + 1):
            making.tell("copying", f"{number} of {self.settings.copies}", (number - 1) / self.settings.copies)
            making.file(f"copy-{number}.csv", copy)

    def _rows(self, stored: StoredCounts, codes: IntArray, generator: np.random.Generator) -> Table:
        """Rows of codes, in fine bins where numbers were counted so."""
        table, evidence = self._binning.decode(codes, generator), CountEvidence(stored)
        for each in stored.fine:
            if (known := evidence.fine(each.clique)) is not None:
                (place,) = each.clique
                fine = known.drawn(codes[:, place], generator)
                table.values[:, place] = stored.finer.numbers(place, fine, generator)
        return table


@dataclass(frozen=True, eq=False)
class Counts:
    """Pooled counts as the mechanisms take them, from their own thread."""

    oracle: SumOracle
    binning: Binning
    loop: asyncio.AbstractEventLoop

    async def counts(self, cliques: Sequence[Clique]) -> list[IntArray]:
        """Exact pooled counts of every marginal, (cells,) each; one query to the owners."""
        found = await self._asked(cliques, None)
        return [np.rint(counts.values).astype(np.int64) for counts in found]

    async def noisy(self, cliques: Sequence[Clique], sigmas: Sequence[float]) -> list[Measurement]:
        """Pooled counts with independent noise; one query to the owners."""
        return await self._asked(cliques, sigmas)

    async def _asked(self, cliques: Sequence[Clique], sigmas: Sequence[float] | None) -> list[Measurement]:
        found: list[Measurement] = []
        for start, end in _parts(cliques, lambda clique: marginal_cells(clique, self.binning.sizes)):
            question = Marginals(self.binning.bins, tuple(cliques[start:end]))
            part = None if sigmas is None else list(sigmas[start:end])
            asked = asyncio.run_coroutine_threadsafe(self.oracle.marginals(question, part), self.loop)
            answer: list[NoisyTable] = await asyncio.wrap_future(asked)
            found += [
                Measurement(clique, table, deviation)
                for clique, (table, deviation) in zip(question.cliques, answer, strict=True)
            ]
        return found


def _parts(cliques: Sequence[Clique], cells: Callable[[Clique], int]) -> list[tuple[int, int]]:
    """Places that go into one question each."""
    parts, start, size = [], 0, 0
    for place, clique in enumerate(cliques):
        more = cells(clique)
        if size and size + more > CELLS_AT_ONCE:
            parts.append((start, place))
            start, size = place, 0
        size += more
    return [*parts, (start, len(cliques))]


def _spelled(measured: Sequence[Measurement], binning: Binning) -> str:
    names = binning.names
    return "; ".join(sorted({" x ".join(names[c] for c in each.clique) for each in measured}))
