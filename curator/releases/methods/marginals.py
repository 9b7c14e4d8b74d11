"""Marginals as a method of release: in rounds by noisy counts, or columns alone.

Every measurement is a pooled sum (docs/decisions/006): counts by the codes of some columns. The algorithms in
curator.releases.marginals choose the columns, under a budget that ends at exactly (epsilon, delta).
"""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from curator.releases.files import card_answers, make_synthetic, with_gaps
from curator.releases.marginals.asked import Counts
from curator.releases.marginals.budget import measurement_sigma
from curator.releases.marginals.coupling import Coupling, coupling_of
from curator.releases.marginals.dependences import missing_from
from curator.releases.marginals.descent import model_of
from curator.releases.marginals.model import Model, start_with_zeros
from curator.releases.marginals.products import SeenProducts, plan_products, products_share
from curator.releases.marginals.release import PAIR_CELLS, MarginalRelease, independent
from curator.releases.marginals.rounds import rounds
from curator.releases.marginals.signs import Codes
from curator.releases.marginals.tilt import tilted
from curator.releases.method import Finished, Making, SumOracle, Tell
from curator.releases.methods.copies import redrawn, sampled
from curator.releases.methods.fine_bins import bins_by_counts
from curator.releases.synthetic import DataCard, csv_bytes
from fedkme.answers.counts import CountEvidence
from fedkme.answers.made_rows import WeightedTable
from fedkme.answers.rules import SAME_CELLS, Obeying, RowRules
from fedkme.arrays import IntArray
from fedkme.errors import ConfigError, NotEnoughRowsError
from fedkme.features.binning import Binning, all_own_values, check_domain, finer, values_to_name
from fedkme.features.counts import Clique
from fedkme.ops.threads import in_thread
from fedkme.privacy.events import Composed, Event, Gaussian
from fedkme.privacy.gaussian import gaussian_epsilon, gaussian_sigma
from fedkme.releases.counts import PROTOCOL, Measurement, Products, StoredCounts, counts_from_bytes, folded
from fedkme.releases.settings import MarginalsSettings
from fedkme.tables.cells import date_of
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from fedkme.tables.text import cell_columns
from fedkme.verdict import CANNOT_TELL

FINE_SHARE, MOST_FINE_SHARE, FINE_NOISE = 0.04, 0.2, 0.05
"""Share of the budget for numbers by fine bins where pairs are counted. Where the noise in one with this
share is above FINE_NOISE of an even bin's rows, the share is as many times as large, up to the most."""
FINE_SHARE_ALONE = 0.25
"""Share of the budget for numbers by fine bins where columns alone are counted."""
MISSED = 0.05
"""Share of the rows from which on a dependence that they lack makes models poor."""
FULL_PAIRS = 0.25
"""Share of the budget from which the noise of a pair of columns is foreseen, one pair for each column."""
_COPY_ITERATIONS = 50  # iterations of a copy's fit, which starts from the release's model
NAMES = {
    "rounds": "marginals chosen in rounds by noisy pooled counts alone",
    "independent": "independent columns",
    "aim": "AIM (McKenna 2022), pooled",  # no more asked for: releases by it exist
}


class MarginalsMethod:
    """Release of marginals with noise, from which rows are drawn."""

    protocol = PROTOCOL
    obeys_rules = True

    def __init__(
        self, settings: MarginalsSettings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        """Fix the seed and the bins, which are public.

        Raises:
            ConfigError: the domain is too large for the mechanism, or the release has no noise.
            SchemaError: a rule of the schema names what is not there.
        """
        if math.isinf(settings.epsilon):
            raise ConfigError("marginals without noise are no release", "Give a finite epsilon.")
        seed = public_seed if settings.seed is None else settings.seed
        self.settings = settings.model_copy(update={"seed": seed})
        self._schema = schema
        self._binning = Binning(schema, settings.bins)
        fine_bins = finer(self._binning, settings.fine)
        self._asked = replace(fine_bins, own=all_own_values(self._binning, fine_bins))
        self._rules = RowRules(schema)
        self._total = gaussian_sigma(settings.of_row, settings.delta) ** -2
        width = len(self._binning.sizes)
        if settings.mechanism != "independent":
            check_domain(self._binning.sizes, min(2, width), PAIR_CELLS)

    def planned(self) -> tuple[Event, ...]:
        """Cost of the whole release as one Gaussian, whatever marginals are chosen."""
        return (Gaussian(gaussian_sigma(self.settings.of_row, self.settings.delta)),)

    async def ask(self, oracle: SumOracle) -> bytes:
        """Measure marginals.

        Raises:
            NotEnoughRowsError: there are no rows.
        """
        if oracle.rows < 1:
            raise NotEnoughRowsError("the owners have no rows", "Start owners that have some.")
        owners = oracle.owners  # those that N counts, also where one is lost later
        mechanism = "rounds" if self.settings.mechanism == "auto" else self.settings.mechanism
        loop = asyncio.get_running_loop()
        fine, epsilon = await self._fine(oracle, loop, mechanism == "independent")
        noise = measurement_sigma(FULL_PAIRS * self._total / len(self._binning.sizes))
        binning = bins_by_counts(self._binning, self._asked, fine, oracle.rows, noise)
        finer_bins = finer(binning, self.settings.fine)
        counted = [folded(measurement, self._asked, finer_bins) for measurement in fine]
        products: Products | None = None
        if mechanism == "rounds":
            products, epsilon = await self._products(Counts(oracle, finer_bins, loop), counted, epsilon)
        seen = SeenProducts.of(products, counted, finer_bins, binning, oracle.rows)
        # Fits between questions take seconds, so the mechanism runs in a thread with its own event loop.
        counts = Counts(oracle, binning, loop)
        try:
            release = await in_thread(asyncio.run, self._run(mechanism, counts, oracle, epsilon, seen))
        except asyncio.CancelledError:
            counts.cancel()
            raise
        return self._encoded(release, fine, products, binning, mechanism, owners)

    async def _fine(
        self, oracle: SumOracle, loop: asyncio.AbstractEventLoop, alone: bool
    ) -> tuple[list[Measurement], float]:
        """Count numbers by fine bins, and their bounds and 0 apart; return also the epsilon that is left.

        Relation, unit and sensitivity are those of every table (`marginals.budget`): mu^2 = 2 / sigma^2 each.
        Where the noise of a fine table exceeds the rows of an average bin, the tables tell nothing and are
        not asked for; this rule reads public numbers alone.
        """
        finer_bins, epsilon = self._asked, self.settings.of_row
        places = [
            p for p, (a, b) in enumerate(zip(finer_bins.sizes, self._binning.sizes, strict=True)) if a > b
        ]
        if not places:
            return [], epsilon
        share, even = FINE_SHARE_ALONE, oracle.rows / self.settings.bins
        if not alone:
            noise = oracle.noise_ratio * measurement_sigma(FINE_SHARE * self._total / len(places))
            share = min(MOST_FINE_SHARE, FINE_SHARE * max(1.0, noise / even / FINE_NOISE))
        cost, epsilon_left = self._spent(epsilon, share)
        sigma = measurement_sigma(cost / len(places))
        if sigma > even:
            return [], epsilon
        oracle.tell("measuring", "each number by fine bins", 0.0)
        cliques, sigmas = [(place,) for place in places], [sigma] * len(places)
        return await Counts(oracle, finer_bins, loop).noisy(cliques, sigmas), epsilon_left

    async def _products(
        self, counts: Counts, fine: Sequence[Measurement], epsilon: float
    ) -> tuple[Products | None, float]:
        """Ask for products of scores (`marginals.products`); return also the epsilon that is left then."""
        counted = {measurement.clique[0] for measurement in fine}
        finer_bins, orders, rows = counts.binning, self._binning.orders, counts.oracle.rows
        if any(len(order) > len(orders[p]) for p, order in finer_bins.orders.items() if p not in counted):
            return None, epsilon  # nothing is known of a number
        cost, epsilon_left = self._spent(epsilon, products_share(finer_bins, rows, self._total))
        plan = plan_products(finer_bins, fine, rows, self._total, cost)
        if plan is None:
            return None, epsilon
        counts.oracle.tell("measuring", "how each two numbers go together", 0.0)
        return await counts.products(plan), epsilon_left

    def _spent(self, epsilon: float, share: float) -> tuple[float, float]:
        """mu^2 of a first question, about a share of the whole budget's, and the epsilon left of `epsilon`.

        Let m be the multiplier of the Gaussian that (epsilon, delta) allows, and m' that of the epsilon left.
        The question has 1 / m^2 - 1 / m'^2. So all costs add up to the budget's, even if what is asked later
        depends on the answers.
        """
        delta, now = self.settings.delta, gaussian_sigma(epsilon, self.settings.delta) ** -2
        left = gaussian_epsilon((now - share * self._total) ** -0.5, delta)
        return (now - gaussian_sigma(left, delta) ** -2) * (1.0 - 1e-9), left

    async def _run(
        self, mechanism: str, counts: Counts, oracle: SumOracle, epsilon: float, seen: SeenProducts | None
    ) -> MarginalRelease:
        sizes, rows, delta = counts.binning.sizes, oracle.rows, self.settings.delta
        zeros, drawn_rules = start_with_zeros(self._rules, counts.binning, self._fixed_pairs())
        for text in drawn_rules:
            oracle.tell("measuring", f"not in the model, kept by drawing rows again: {text}", 0.0)
        if mechanism == "rounds":
            return await rounds(
                counts,
                sizes,
                rows,
                epsilon,
                delta,
                self._fixed_pairs(),
                oracle.tell,
                screened=self._codes(counts.binning) if len(sizes) > 2 else None,
                start=zeros,
                seen=seen,
            )
        return await independent(counts, sizes, rows, epsilon, delta, zeros)

    def _fixed_pairs(self) -> list[Clique]:
        """Pairs that the model of rounds always has: each column with the label, each number with its mark.

        A model without the pair of number and mark would mix gaps' stand-in values with numbers.
        """
        names = self._binning.names
        label = 0 if self._schema.label is None else len(names) - 1
        pairs: list[Clique] = [(column, label) for column in range(label)]
        for mark, number in self._schema.gaps:
            first, second = sorted((names.index(number.name), names.index(mark.name)))
            pairs.append((first, second))
        return pairs

    def _codes(self, binning: Binning) -> Codes:
        """Columns of codes, for a screen."""
        label = None if self._schema.label is None else len(binning.sizes) - 1
        return Codes(binning.sizes, label, binning.orders)

    def _encoded(
        self,
        release: MarginalRelease,
        fine: Sequence[Measurement],
        products: Products | None,
        binning: Binning,
        mechanism: str,
        owners: int,
    ) -> bytes:
        before = self._total - release.event.noise_multiplier**-2  # fine counts, and products of scores
        first = (Gaussian(before**-0.5),) if fine or products is not None else ()
        pieces = (*first, *release.pieces.events)
        stored = StoredCounts(
            self._schema,
            self.settings.model_dump(mode="json"),
            mechanism,
            release.rows,
            owners,
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
            products,
            binning.own,
            self._asked.own if fine else (),
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

    def draw(self, release: bytes, count: int, tell: Tell) -> Table:
        """Draw the rows of `finish`, as many as asked for, without a file or a card."""
        _, obeying, _ = self._drawn(counts_from_bytes(release), count, self._generator(), tell)
        table = with_gaps(obeying.table, self._schema)
        self._schema.check(table, "synthetic data")
        return table

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(np.random.SeedSequence([self.settings.seed or 0, 5]))

    def _drawn(
        self, stored: StoredCounts, count: int, generator: np.random.Generator, tell: Tell
    ) -> tuple[Model, Obeying, tuple[str, ...]]:
        """Fit the model and draw rows; rules that the model does not know are obeyed by rows alone."""
        words = f"{len(stored.fitted) + len(stored.grouped)} marginals"
        start, drawn_rules = start_with_zeros(self._rules, stored.binning, self._fixed_pairs())
        tell("fitting", words, 0.0)
        model = model_of(stored, self.settings.iterations, start, partial(tell, "fitting", words))
        return model, self._rows(stored, model, count, generator), drawn_rules

    def _make(self, stored: StoredCounts, making: Making) -> None:
        measured, rows, event = (*stored.fitted, *stored.grouped), stored.rows, self.planned()[0]
        count, generator = self.settings.rows or rows, self._generator()
        model, obeying, drawn_rules = self._drawn(stored, count, generator, making.tell)
        table = obeying.table
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
            notes=[
                f"{len(measured)} marginals were measured: {_clique_names(stored)}",
                *_own_value_notes(stored),
                *(f"kept by drawing rows again, not in the model: {text}" for text in drawn_rules),
                *([f"rows copied from others, to obey rules: {obeying.copied}"] if obeying.copied else []),
            ],
            models=making.step("what the rows lack", lambda: _grade_of_models(stored, table)),
        )
        make_synthetic(table, card, making)

        def copy() -> bytes:
            other = redrawn(stored, generator)
            again = model_of(other, _COPY_ITERATIONS, model)
            copied = sampled(self._rows(other, again, rows, generator).table, generator)
            return csv_bytes(cell_columns(copied, self._schema))

        for number in range(1, self.settings.copies + 1):
            making.tell("copying", f"{number} of {self.settings.copies}", (number - 1) / self.settings.copies)
            making.file(f"copy-{number}.csv", copy)

    def _rows(self, stored: StoredCounts, law: Model, count: int, generator: np.random.Generator) -> Obeying:
        """Draw rows that obey the schema's rules."""
        model = tilted(law, len(stored.binning.sizes) - 1, stored.tilts, stored.rows)
        coupling = coupling_of(stored, law)
        codes = model.sample(count, generator, coupling)

        def redrawn(places: IntArray, attempt: int) -> Table:
            own = codes[places] if attempt < SAME_CELLS else model.sample(len(places), generator)
            return self._decoded(stored, own, generator)

        return self._rules.obeyed(self._decoded(stored, codes, generator, coupling), redrawn)

    def _decoded(
        self,
        stored: StoredCounts,
        codes: IntArray,
        generator: np.random.Generator,
        coupling: Coupling | None = None,
    ) -> Table:
        """Decode rows, by fine bins for the numbers that were counted by fine bins."""
        table, evidence = stored.binning.decode(codes, generator), CountEvidence(stored)
        drawn = {} if coupling is None else coupling.fine_codes(codes, generator)
        for measurement in stored.fine:
            if (fine_counts := evidence.fine(measurement.clique)) is not None:
                (place,) = measurement.clique
                fine = drawn[place] if place in drawn else fine_counts.drawn(codes[:, place], generator)
                table.values[:, place] = stored.finer.numbers(place, fine, generator)
        return table


def _grade_of_models(stored: StoredCounts, made: Table) -> tuple[str, str] | None:
    """Grade models by what a screen shows the rows to lack; None without a screen.

    Models are poor where as many rows as MISSED of all are off in a dependence that stands out. Else nobody
    can tell: models may need what no parity of groups sees.
    """
    if stored.screen is None or stored.schema.label is None:
        return None
    lacking = missing_from(stored.screen, stored.binning.encode(made, "made rows"), stored.rows)
    if not lacking:
        return CANNOT_TELL, "a screen finds nothing that the rows lack, which proves nothing"
    names, most = stored.binning.names, lacking[0]
    *others, last = (names[column] for column in most.columns[:-1])
    share = min(most.rows / (2.0 * stored.rows), 1.0)
    how = f"rows lack how {names[most.columns[-1]]} depends on {', '.join(others)} and {last}"
    return "poor" if share >= MISSED else CANNOT_TELL, f"{how}: about {100 * share:.2g} % of them are off"


def _own_value_notes(stored: StoredCounts) -> list[str]:
    """Note the values that have codes of their own although the schema does not say so."""
    columns = {column.name: column for column in stored.schema.columns}
    texts = list[str]()
    for own in stored.own:
        if isinstance(column := columns[own.column], Numeric):
            values = values_to_name(column)
            shown = (
                date_of(values[name]) if column.kind == "date" else f"{values[name]:g}" for name in own.which
            )
            texts.append(f"{own.column} {', '.join(shown)}")
    return [f"values that many rows have, counted by themselves: {'; '.join(texts)}"] if texts else []


def _clique_names(stored: StoredCounts) -> str:
    names = [*stored.binning.names]
    names += [f"{names[each.column]} in {each.size} groups" for each in stored.groups]
    cliques = {measurement.clique for measurement in (*stored.fitted, *stored.grouped, *stored.tilts)}
    return "; ".join(sorted(" x ".join(names[c] for c in clique) for clique in cliques))
