"""Sums over all owners' rows, for a method of release, with noise that is added once.

A trusted curator has the exact total and adds the noise of `curator.releases.joint`: the result has the same
bits for any partition of the rows among owners. Under secure aggregation the total arrives with the noise of
all survivors (docs/decisions/005). The plan counts on the noise of m = n - D - max(T, 1) owners alone, so the
total is at least as private as planned, and noisier by up to n / m in variance.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from curator.releases import joint
from curator.releases.joint import JointRelease
from curator.releases.method import NoisyTable, Tell
from curator.sums.answers import Answers, NoisyAnswer, answer_tables, answered_release, question_of
from curator.sums.round import SumRound, SumTotal
from fedkme.cells.sketch import DIAMETER_STEPS, Sketch, from_coordinates
from fedkme.cells.sketch import release as release_sketch
from fedkme.errors import ConfigError
from fedkme.features.maps import ROW_UNIT
from fedkme.features.sums import Layout, PooledSum, ReleasedEmbedding
from fedkme.ops.threads import in_thread
from fedkme.party import NoiseFor
from fedkme.privacy.sums import PooledRelease, release_counts
from fedkme.protocol import Security
from fedkme.secagg.noise import LEAST_SHARE, SMOOTHING, NoisePlan, plan_noise
from fedkme.sums.values import CellCounts, Marginals, Parities, ScoreProducts, SumQuery
from fedkme.sums.vector import SumVector, weighted
from fedkme.tables.schema import Schema

MARGINAL_NOISE = 2.0**32
"""Approximate deviation of the noise on counts, in steps: shares stay within 2^24 to 2^45."""
PURPOSE = "release"
"""Purpose of the noise that the curator adds."""


class OwnerSums:
    """`SumOracle` over owners' sessions.

    Attributes:
        rows: rows of the owners that took part in the beginning, N, public; see `SumOracle`.
        noise: source of the curator's own noise.
        drawn: numbers of the curator's noise that went into a sketch and tables of counts.
        answers: noisy answers from which further questions follow.
        report: called with the progress of a method; by default it does nothing.
    """

    report: Tell

    def __init__(self, owners: SumRound, schema: Schema, noise_for: NoiseFor) -> None:
        """Begin a run of sums; `invite` must be called first.

        Args:
            owners: the run over its owners, to whom no question went yet.
            schema: the public domain.
            noise_for: the curator's noise; `PURPOSE` is used, one stream for all questions in turn.
        """
        self._round = owners
        self._schema = schema
        self._security = owners.security
        self.noise = noise_for(PURPOSE)
        self.drawn = 0
        self.answers = Answers()
        self.report = lambda stage, line, fraction: None
        self.rows = 0
        self._stage = "pooling", "asking owners", 0.0
        owners.report_waits(self._report_wait)

    def tell(self, stage: str, line: str, fraction: float) -> None:
        """Report a method's progress."""
        self._stage = stage, line, fraction
        self.report(*self._stage)

    def _report_wait(self, answered: int, asked: int) -> None:
        stage, line, fraction = self._stage
        self.report(stage, f"{line}; {answered} of {asked} owners have answered", fraction)

    @property
    def owners(self) -> int:
        """Number of owners in the last total; before a question, of owners that it goes to."""
        return len(self.answers.asked or self._round.contributors or self._round.owners)

    @property
    def contributions(self) -> dict[str, int]:
        """m_j of the owners whose vectors are in the last total."""
        return {name: self._round.rows[name] for name in self._round.contributors}

    @property
    def sizes(self) -> Mapping[str, int]:
        """m_j of every owner that takes part, by name; public.

        Before a stored answer they are those of then: its question may follow from N.
        """
        if (asked := self.answers.asked) is not None:
            return asked
        return {name: self._round.rows[name] for name in self._round.owners if name in self._round.rows}

    @property
    def exact_sums(self) -> bool:
        """True where owners trust the curator with exact sums."""
        return self._security is None

    @property
    def noise_ratio(self) -> float:
        """Deviation of a total's noise over the planned deviation."""
        security, owners = self._security, len(self.answers.asked or self._round.owners)
        if security is None:
            return 1.0
        return math.sqrt(owners / max(1, security.honest(owners)))

    async def invite(self) -> dict[str, int]:
        """Let every owner decide; return the rows of each owner that takes part.

        Raises:
            QuorumError: too few owners take part.
        """
        accepted = await self._round.invite_all()
        self.rows = sum(accepted.values())
        return accepted

    async def joint(self, query: SumQuery, release: PooledRelease | None) -> JointRelease:
        """Ask for all sums of a question with noise, as one Gaussian release."""
        query = _checked(query)
        if release is not None and len(release.queries) != len(query.specs) + query.counts:
            raise ConfigError("the noise was calibrated for other queries", "Calibrate for this question.")
        if self._security is not None:
            if release is None:
                cause = "exact sums are asked for and owners add noise to all of them"
                raise ConfigError(cause, "Trust the curator with exact sums, or ask for sums with noise.")
            return await self._with_shares(query, release, self._security)
        vector = await in_thread(SumVector, query, self._schema)  # maps may be large
        return await self._with_noise(vector, await self._round.plain_total(vector), release)

    async def followed(self, query: SumQuery, release: PooledRelease | None) -> JointRelease:
        """Ask as `joint` does, and store the answer before the next question follows from it."""
        sigmas = () if release is None else release.sigmas
        question = question_of(await in_thread(SumVector, query, self._schema), sigmas)

        async def ask() -> NoisyAnswer:
            asked, released = self.sizes, await self.joint(query, release)
            if self._security is None:
                self.drawn += sum(part.mean.size for part in released.embeddings) if release else 0
            owners = self._round.contributors
            tables = answer_tables(released)
            return NoisyAnswer(question, self._round.number, self.drawn, owners, tables, asked)

        return answered_release(await self.answers.of(question, ask), query)

    async def sketch(self, query: SumQuery, multiplier: float, epsilon: float, delta: float) -> Sketch:
        """Ask for second moments of all rows with noise, docs/decisions/007.

        The multiplier is the noise's deviation over the sketch's sensitivity (0: no noise). Owners' shares
        are planned for epsilon and delta.

        Raises:
            As `joint`.
        """
        spec, classes = query.sketch, query.layout.classes
        if spec is None:
            raise ConfigError("a sketch is asked for without its projection", "Ask for a sketch.")
        vector = SumVector(query, self._schema)
        if self._security is not None:
            plan_for = self._shares(vector, epsilon, delta, self._security)
            total = await self._round.secure_total(vector, self._security, plan_for)
            noisy = total.steps.astype(np.float64)
            deviation = total.deviation / DIAMETER_STEPS
            return from_coordinates(noisy, total.rows, spec.dimension, classes, deviation)
        total = await self._round.plain_total(vector)
        self.drawn += vector.length
        return release_sketch(total.steps, total.rows, spec.dimension, classes, multiplier, self.noise)

    async def marginals(self, marginals: Marginals, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Ask for tables of counts, with noise on each."""
        return await self._stored(SumQuery((), Layout(), marginals=marginals), sigmas)

    async def parities(self, parities: Parities, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Ask for parities, with noise on each block."""
        return await self._stored(SumQuery((), Layout(), parities=parities), sigmas)

    async def products(self, products: ScoreProducts, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Ask for products of scores, with noise on each block."""
        return await self._stored(SumQuery((), Layout(), products=products), sigmas)

    async def _stored(self, query: SumQuery, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Ask for noisy tables, and store them before the next question follows from them."""
        question = question_of(SumVector(query, self._schema), sigmas)

        async def ask() -> NoisyAnswer:
            asked, noisy_tables = self.sizes, await self._tables(query, sigmas)
            scale = self.rows / sum(self.contributions.values())
            deviations = np.array([deviation for _, deviation in noisy_tables])
            tables = [*(table * scale for table, _ in noisy_tables), deviations * scale]
            number, owners = self._round.number, self._round.contributors
            return NoisyAnswer(question, number, self.drawn, owners, tables, asked)

        *tables, deviations = await self.answers.of(question, ask)
        return list(zip(tables, deviations.tolist(), strict=True))

    async def cells(self, cells: CellCounts, sigma: float) -> NDArray[np.float64]:
        """Ask for counts of coalitions with noise sigma on each, (coalitions, L B)."""
        noisy_tables = await self._tables(SumQuery((), Layout(), cells=cells), [sigma])
        return noisy_tables[0][0].reshape(len(cells.firsts), -1)

    def resume(self, questions: int, drawn: int) -> None:
        """Go on after a dead attempt's questions, and skip the `drawn` noise numbers that it used."""
        self._round.skip_to(questions + 1)
        self.noise.gaussian(1.0, drawn)
        self.drawn = drawn

    def restore(self, stored: Sequence[NoisyAnswer], keep: Callable[[NoisyAnswer], None]) -> None:
        """Go on after the answers of a dead process, and store further answers."""
        self.answers = Answers(stored, keep)
        if stored:
            self.rows = sum((stored[0].asked or self.sizes).values())
            self._round.contributors = stored[-1].owners
            self.resume(stored[-1].number, stored[-1].drawn)

    async def _tables(self, query: SumQuery, sigmas: Sequence[float]) -> list[NoisyTable]:
        """Ask for the tables of a question, with the deviation of the noise in each table."""
        if self._security is not None:
            return await self._noisy_tables(query, sigmas, self._security)
        vector = SumVector(query, self._schema)
        exact = vector.tables((await self._round.plain_total(vector)).steps)
        self.drawn += sum(counts.size for counts in exact)
        return [
            (counts + self.noise.gaussian(sigma, counts.size), sigma)
            for counts, sigma in zip(exact, sigmas, strict=True)
        ]

    async def _noisy_tables(
        self, query: SumQuery, sigmas: Sequence[float], security: Security
    ) -> list[NoisyTable]:
        """Ask for counts with owners' noise: noise s on the vector is noise s/m on a block of weight m."""
        largest = max(sigmas)
        scale = 2.0 ** math.ceil(math.log2(MARGINAL_NOISE / largest))
        weights = tuple(round(scale * largest / sigma) for sigma in sigmas)
        vector = SumVector(replace(query, weights=weights), self._schema)
        # Rounding never lowers the noise: the block whose weight was rounded up most still gets its sigma.
        common = max(sigma * weight for sigma, weight in zip(sigmas, weights, strict=True))

        def plan_for(owners: int) -> NoisePlan:
            honest = security.honest(owners)
            share = math.sqrt((common**2 + SMOOTHING) / honest) * (1.0 + 2.0**-48)
            return NoisePlan(share, honest, vector.length, vector.diameter)

        total = await self._round.secure_total(vector, security, plan_for)
        deviations = [total.deviation / weight for weight in weights]
        return list(zip(vector.tables(total.steps), deviations, strict=True))

    async def _with_noise(
        self, vector: SumVector, total: SumTotal, release: PooledRelease | None
    ) -> JointRelease:
        """Add the curator's noise to an exact total, in a thread: a million numbers take seconds."""
        query = vector.query
        if not vector.maps:
            return self._counts(vector, total, release)
        return await in_thread(
            joint.release,
            vector.maps,
            vector.sums(total.steps, total.rows),
            query.layout,
            total.rows,
            release,
            self.noise,
            query.counts,
        )

    def _counts(self, vector: SumVector, total: SumTotal, release: PooledRelease | None) -> JointRelease:
        """Make the release of a question for class counts alone."""
        none = np.zeros((0, vector.length), dtype=np.int64)
        sigma = 0.0 if release is None else release.sigmas[0]
        counts = release_counts(PooledSum(none, total.steps), sigma, self.noise)
        masses = np.maximum(counts, 1.0) / total.rows
        return JointRelease((), masses, None if release is None else release.event)

    async def _with_shares(self, query: SumQuery, release: PooledRelease, security: Security) -> JointRelease:
        """Ask for a total that has owners' noise in it."""
        vector = await in_thread(self._fine, weighted(query, self._schema, release), release, security)

        plan_for = self._shares(vector, release.epsilon, release.delta, security)
        total = await self._round.secure_total(vector, security, plan_for)
        sums, counts = vector.parts(total.steps)
        embeddings = tuple(
            ReleasedEmbedding(
                phi.spec,
                query.layout,
                block / total.rows,
                total.deviation / weight * ROW_UNIT / total.rows,
                total.rows,
            )
            for phi, block, weight in zip(vector.maps, sums, vector.weights, strict=False)
        )
        masses = None if counts is None else np.maximum(counts, 1.0) / total.rows
        return JointRelease(embeddings, masses, total.event)

    @staticmethod
    def _shares(
        vector: SumVector, epsilon: float, delta: float, security: Security
    ) -> Callable[[int], NoisePlan]:
        """Plan of each owner's noise, as a function of the number of owners."""

        def plan_for(owners: int) -> NoisePlan:
            return plan_noise(
                epsilon,
                delta,
                owners=owners,
                dropouts=security.dropouts,
                colluders=security.shares_known,
                length=vector.length,
                diameter=vector.diameter,
            )

        return plan_for

    def _fine(self, query: SumQuery, release: PooledRelease, security: Security) -> SumVector:
        """Make a question's vector, in finer steps where an owner's share of noise has too few."""
        vector = SumVector(query, self._schema)
        honest = max(1, security.honest(len(self._round.owners)))
        share = release.multiplier * vector.diameter / math.sqrt(honest)
        if share >= LEAST_SHARE:
            return vector
        factor = 2 ** math.ceil(math.log2(LEAST_SHARE / share))
        weights = tuple(weight * factor for weight in vector.weights)
        return SumVector(replace(query, weights=weights), self._schema, vector.maps)


def _checked(query: SumQuery) -> SumQuery:
    """Check a method's question, and drop counts that are public: the count of a single column is N."""
    if query.weights:
        raise ConfigError("weights of a question follow from its noise", "Ask without weights.")
    if query.counts and query.specs and query.layout.columns == 1:
        return replace(query, counts=False)
    return query
