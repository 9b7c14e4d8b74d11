"""Releases of fresh rows by the methods themselves, and how often the intervals of their answers hold.

Each release is of rows drawn anew from the population, with noise drawn anew, by the method's own `ask`: the
code that a curator runs. Nothing is trained, since answers come from the release alone.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, fields
from multiprocessing import get_context
from typing import Any, TypeAlias

import numpy as np

from audit.in_memory import FreshNoise
from curator.releases.method import make_method
from fedkme.answers.answer import BOUNDED, MOST_UNSEEN, Answer, ask, in_rows
from fedkme.answers.correlations import Target
from fedkme.answers.evidence import Evidence
from fedkme.answers.folder import evidence_of
from fedkme.answers.intervals import critical
from fedkme.answers.sums import SumEvidence
from fedkme.errors import NotEnoughRowsError
from fedkme.releases.counts import PROTOCOL
from fedkme.releases.file import from_bytes
from fedkme.releases.settings import release_settings
from fedkme.tables.table import Table
from lab.bench.answers.populations import Population, population

METHODS: Mapping[str, dict[str, Any]] = {
    "marginals": {"kind": "marginals"},
    "marginals (columns)": {"kind": "marginals", "mechanism": "independent"},
    "merf": {"kind": "merf", "features": 200},
    "hermite": {"kind": "hermite", "sum_order": 30, "epochs": 4},
    "moments": {"kind": "moments"},
    "balog1": {"kind": "balog1", "points": 100, "z": {"kind": "gaussian"}},
    "balog2": {"kind": "balog2", "features": 200},
}
"""Methods with their settings; features are fewer than by default, so that 500 releases take minutes."""
ADAPTIVE = "moments"
"""Method whose maps follow from an earlier answer: no two of its releases have the same."""
OF_TABLE = 5
"""Releases of one table."""
_PART = 5  # a figure is written so often


Tallies: TypeAlias = "dict[tuple[str, Target], Coverage]"
"""Coverage by form of question and target."""


@dataclass(slots=True)
class Coverage:
    """Intervals of one question by one method.

    Attributes:
        tight: answers whose unseen part does not show, which are to hold with 95 %.
        held: how many of them held.
        bounded: answers that say so, which are to hold with 95 % at least.
        bounded_held: how many of them held.
        unanswered: answers without an interval.
        widths: widths of all intervals.
        noise: tight answers whose unseen part does not show beside the noise alone, and how many of their
            estimates are as near to the rows as 95 % of that noise is.
        sampling: tight answers about a population, and how many of the rows are as near to it as 95 % of
            the deviation that the answer has of sampling.
    """

    tight: int = 0
    held: int = 0
    bounded: int = 0
    bounded_held: int = 0
    unanswered: int = 0
    widths: list[float] = field(default_factory=list)
    noise: list[bool] = field(default_factory=list)
    sampling: list[bool] = field(default_factory=list)

    def add(self, answer: Answer, rows: float, population: float) -> None:
        """Count an answer.

        Args:
            answer: the answer to count.
            rows: what the rows of the release have.
            population: what the population has.
        """
        if math.isnan(answer.low):
            self.unanswered += 1
            return
        right = rows if answer.target == "rows" else population
        holds = answer.low - 1e-9 <= right <= answer.high + 1e-9
        self.widths.append(answer.high - answer.low)
        if BOUNDED in answer.method:
            self.bounded, self.bounded_held = self.bounded + 1, self.bounded_held + holds
        else:
            self.tight, self.held = self.tight + 1, self.held + holds
            if answer.noise > 0.0 and answer.unseen <= MOST_UNSEEN * answer.noise:
                half = critical(answer.unseen / answer.noise) * answer.noise
                self.noise.append(abs(answer.estimate - rows) <= half)
            if answer.sampling:
                self.sampling.append(abs(rows - population) <= critical(0.0) * answer.sampling)

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    def line(self) -> dict[str, int | float]:
        """The counts, and the median width, as a file has them."""
        width = float(f"{np.median(self.widths):.4g}") if self.widths else math.nan
        return {
            "tight": self.tight,
            "held": self.held,
            "noise": len(self.noise),
            "noise_held": sum(self.noise),
            "sampling": len(self.sampling),
            "sampling_held": sum(self.sampling),
            "bounded": self.bounded,
            "bounded_held": self.bounded_held,
            "none": self.unanswered,
            "width": width,
        }


def evidences(
    settings: Mapping[str, Any], kind: str, releases: Iterable[int], seed: int
) -> Iterator[tuple[Population, Table, Evidence]]:
    """Population, fresh rows and evidence of each release; the population changes after OF_TABLE releases.

    What a method refuses to release, having too few rows for its epsilon, is left out.
    """
    first: SumEvidence | None = None
    for number in releases:
        own = population(kind, number // OF_TABLE)
        first = None if number % OF_TABLE == 0 else first
        method = make_method(release_settings({**settings, "epsilon": own.epsilon}), own.schema, None, 1)
        table = own.sampled(np.random.default_rng([seed, number]))
        try:
            release = asyncio.run(method.ask(FreshNoise(table, own.schema, seed * 1_000_003 + number)))
        except NotEnoughRowsError:
            continue
        if settings["kind"] == PROTOCOL:
            yield own, table, evidence_of(release)
            continue
        stored = from_bytes(release)
        evidence = SumEvidence(stored) if first is None else first.with_release(stored)
        yield own, table, evidence
        if settings["kind"] != ADAPTIVE:
            first = first or evidence


def covered(settings: Mapping[str, Any], kind: str, releases: Iterable[int], seed: int) -> Tallies:
    """Intervals of every form of question by one method, each with its default target.

    Args:
        settings: settings of the method.
        kind: kind of tables.
        releases: numbers of them, which tables, rows and noise follow from.
        seed: seed of rows and noise.
    """
    tallies: defaultdict[tuple[str, Target], Coverage] = defaultdict(Coverage)
    for own, table, evidence in evidences(settings, kind, releases, seed):
        questions = list(own.questions)
        of_rows, of_all = (in_rows(questions, each, own.schema) for each in (table, own.pool))
        for answer, *truths in zip(ask(evidence, questions), of_rows, of_all, strict=True):
            if not any(map(math.isnan, truths)):
                tallies[own.questions[answer.question], answer.target].add(answer, *truths)
    return dict(tallies)


def in_parts(
    measure: Callable[[range], Tallies], releases: range, jobs: int
) -> Iterator[tuple[int, Tallies]]:
    """Numbers of finished releases with tallies, after every _PART releases, by several processes."""
    parts = [releases[at : at + _PART] for at in range(0, len(releases), _PART)]
    tallies: defaultdict[tuple[str, Target], Coverage] = defaultdict(Coverage)
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for part, found in zip(parts, pool.map(measure, parts), strict=True):
            for key, tally in found.items():
                tallies[key] += tally
            yield part.stop, dict(tallies)
