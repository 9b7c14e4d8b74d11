"""Canary games through deployed processes: a curator, owners and a consumer over mutual TLS, and real noise.

A consumer's process asks again and again; the curator's and the owners' processes carry each request out with
noise of the operating system. A trial is a canary in a request: a row that has two places of its own, where
nobody else has one. 32 of a party are in play at once, and all are in their other places in a second launch.
Noise on different places is independent by the declared law, so that their trials are. What is scored is what
an observer has on its disk or was sent:

* summaries by cells of public seeds, with rows in boxes: the curator's view, which has each owner's histogram
  and D_v's. The score is the log likelihood ratio of the two counts that a canary moves, by the declared
  discrete Laplace law. It is the most powerful test (Neyman, Pearson 1933): all other counts have the same
  law in both worlds, and orders and boxes are functions of the histograms and of public numbers. At epsilon 1
  the likeliest event that reaches the ratio e has probability .387 against .142.
* releases of marginals: the consumer's view, which is sent every noisy table. The score is the log likelihood
  ratio of all tables together, whichever were chosen: linear in the tables, each over its own variance.

A summary's noise is what a histogram has beyond the exact counts, so the law of the noise on the wire is
tested too, and that no draw comes twice, at whichever owner and in whichever run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.law import laplace_outcome, repeat_finding
from audit.attacks.sources import entropy_of
from consumer.releases.client import ReleaseConsumerSettings, load_release_settings
from consumer.releases.client import run as ask_for_release
from consumer.requests import Requests
from consumer.settings import ConsumerSettings, RequestSettings
from consumer.summary.client import run as ask_for_summary
from curator.summary.settings import CellsSettings, SummarySettings
from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.arrays import IntArray
from fedkme.cells.codebook import code_book_from_json
from fedkme.cells.histogram import histogram_noise
from fedkme.config import load_toml
from fedkme.errors import OwnerLostError
from fedkme.ops.supervision import StatusReporter, run_party
from fedkme.party import load_settings
from fedkme.privacy.events import CONSUMER
from fedkme.releases.counts import counts_from_bytes
from fedkme.releases.settings import MarginalsSettings
from fedkme.store import open_store
from fedkme.tables.files import save_table
from fedkme.tables.schema import Category, Numeric, Schema, load_schema
from fedkme.tables.table import Table
from sim.config import LaunchSettings
from sim.engines.children import Event
from sim.engines.processes import Folders, Launch
from sim.progress import Progress
from sim.scenarios.base import Frames, Scenario

HOLDER, OTHERS = "holder", ("north", "south")
_PARTIES = (HOLDER, *OTHERS, CONSUMER)
CANARIES = 32
"""Rows of a party in play, each of which is in one of two places of its own: so there are 64 places."""
_FREE = (2 * CANARIES, 2 * CANARIES + 1)
"""Categories that no canary has."""
_SIDE = 8
_GRID = np.array([[x, y] for x in range(_SIDE) for y in range(_SIDE)]) / (_SIDE - 1.0)
_EPSILON, _DELTA = 1.0, 1e-5
_NUMBERS = Schema(columns=(Numeric(name="x", bounds=(0.0, 1.0)), Numeric(name="y", bounds=(0.0, 1.0))))
_WORDS = Schema(
    columns=tuple(
        Category(name=name, categories=tuple(f"place {place}" for place in range(2 * CANARIES + len(_FREE))))
        for name in "xy"
    )
)
_MANY = 1000
"""Rows of each other owner of a release, so that no table is too rough to be chosen."""
_NOTE = "curator, owners, consumer: processes over mutual TLS, real requests, noise of the system"
_PATIENCE_S = 30.0
"""Time that parties wait for each other, as in a deployment: a broken connection loses no party."""
_ASKED = "asked"
"""Event of a consumer's process: a request was answered; by `cells` of the grid in the run's code book."""
Through = tuple[str, ...]
"""Module, with arguments, that runs the module and arguments after it; empty: parties run as they are."""
Bits = NDArray[np.bool_]
"""The world of each canary, (parties, CANARIES)."""
Worlds = tuple[Scores, Scores]
"""Scores of all canaries in the first world and in the second, (requests x canaries,) each."""


class CanaryLaunch(Launch[LaunchSettings]):
    """Parties of one world, whose consumer asks so many times, one request after the other.

    Attributes:
        asked: what the consumer's process said of each request, in order.
        lost: what the curator said of owners that left.
        broken: what parties said of connections that broke, and of their ends.
    """

    def __init__(
        self,
        scenario: Scenario,
        trials: int,
        directory: Path,
        through: Through,
        consumer: Callable[[Folders], ConsumerSettings | ReleaseConsumerSettings],
        curator: Mapping[str, Any],
    ) -> None:
        """Begin before anything is started.

        Args:
            scenario: rows of the world.
            trials: how many requests.
            directory: folder for what the parties leave.
            through: see `Through`; for every party.
            consumer: its settings.
            curator: tables of its configuration.
        """
        settings = LaunchSettings(scenario=Frames(), noise="secure")
        super().__init__(scenario, settings, directory, Progress(sys.stderr))
        self.asked: list[Event] = []
        self.lost: list[str] = []
        self.broken: list[str] = []
        self._trials, self._through, self._consumer, self._curator = trials, through, consumer, curator

    @override
    def parties(self, scratch: Path) -> Mapping[str, list[str]]:
        folders = Folders(self.scenario, self.settings, scratch, self.directory, self.authority, _PATIENCE_S)
        commands = folders.servers(runs=self._trials, **self._curator)
        config = folders.write("consumer", self._consumer(folders))
        commands["consumer"] = ["audit.attacks.deployed", config, str(self._trials)]
        return {party: [*self._through, *command] for party, command in commands.items()}

    @override
    def hear(self, event: Event) -> None:
        if event["event"] == _ASKED:
            self.asked.append(event)
        elif event["event"] == "owner_left":
            self.lost.append(event["line"])
        elif event["event"] in ("away", "failed"):
            self.broken.append(f"{event['party']}: {event['cause']}")

    @override
    def adopt(self) -> None:
        """Leave every run's folder where its party wrote it."""


def _places(bits: Bits) -> IntArray:
    """Places of canaries in their worlds, as `bits`."""
    return np.asarray(2 * np.arange(CANARIES) + bits)


def _two_rounds(seed: Sequence[int], parties: int) -> tuple[Bits, Bits]:
    """Worlds of two launches: canaries at random, and each in its other world."""
    bits = np.random.default_rng(list(seed)).random((parties, CANARIES)) < 0.5
    return bits, ~bits


def _launched(
    launch: Callable[[Path], CanaryLaunch], read: Callable[[Path, CanaryLaunch], NDArray[Any]]
) -> NDArray[Any]:
    with tempfile.TemporaryDirectory(prefix="fedkme-audit-") as folder:
        playing = launch(Path(folder))
        asyncio.run(playing.run())
        if playing.lost:
            causes = "; ".join(playing.broken) or "none of them says why"
            raise OwnerLostError(
                f"{playing.lost[0]} The parties: {causes}", "A game's connections must hold."
            )
        return read(Path(folder), playing)


# Summaries.


class SummaryGame:
    """Summaries by cells with sealed rows: canaries of three owners and of D_v, all in play at once."""

    def __init__(self, through: Through = ()) -> None:
        """Begin; see `Through`."""
        self._through = through
        self._played: dict[tuple[int, ...], tuple[IntArray, Bits]] = {}

    def scores(self, parties: slice, second: bool, trials: int, random: np.random.Generator) -> Scores:
        """Log likelihood ratios of the parties' canaries in one world, (parties x requests x CANARIES,)."""
        counts, bits = (each[parties] for each in self._play(trials, random))
        here, there = counts[..., 0::2], counts[..., 1::2]
        ratios = (np.abs(here - 1) + np.abs(there) - np.abs(here) - np.abs(there - 1)).astype(np.float64)
        return np.asarray((ratios / histogram_noise(_EPSILON).scale)[bits == second])

    def noise(self, effort: Effort, trials: int) -> IntArray:
        """Noise of the histograms: counts less the exact counts, (parties, requests x places)."""
        random = next(Experiment.streams(effort))[1]
        counts, bits = self._play(effort.trials(trials), random)
        exact = np.stack([~bits, bits], axis=-1).reshape(counts.shape)
        return np.asarray((counts - exact).reshape(len(counts), -1))

    def _play(self, trials: int, random: np.random.Generator) -> tuple[IntArray, Bits]:
        """Counts by place, (parties, requests, places), owners first, and the world of each canary.

        All checks of an audit look at the same requests.
        """
        seeds: Any = random.bit_generator.seed_seq
        key = (trials, *seeds.entropy)
        if key not in self._played:
            launches = [self._launch(bits, trials) for bits in _two_rounds(seeds.entropy, len(_PARTIES))]
            counts, bits = (np.concatenate(each, axis=1) for each in zip(*launches, strict=True))
            self._played[key] = counts, bits
        return self._played[key]

    def _launch(self, bits: Bits, trials: int) -> tuple[IntArray, Bits]:
        tables = dict(zip(_PARTIES, (Table(_GRID[places]) for places in _places(bits)), strict=True))
        validation = tables.pop(CONSUMER)
        seeds = Table(np.repeat(_GRID, 2, axis=0))
        scenario = Scenario("canary", _NUMBERS, tables, validation, Table(_GRID[:0]), seeds)
        cells = CellsSettings(code_book="seeds", bits=int(math.log2(len(_GRID))))
        summary = SummarySettings(protocol="cells", content="hashed", cells=cells)

        def consumer(folders: Folders) -> ConsumerSettings:
            held = folders.scratch / "consumer" / "validation.npz"
            settings = ConsumerSettings(
                **folders.common("consumer"),
                curator="-",
                validation=held,
                output=folders.directory / "consumer",
                journal=str(folders.directory / "consumer.db"),
                durability="process",
                downstream=False,
                request=RequestSettings(p=2),
            )
            save_table(held, validation)
            return settings

        def read(folder: Path, launch: CanaryLaunch) -> IntArray:
            return np.stack([_histograms(folder, event) for event in launch.asked], axis=1)

        tables_of_curator: dict[str, Any] = {"summary": summary}
        counts = _launched(
            lambda folder: CanaryLaunch(scenario, trials, folder, self._through, consumer, tables_of_curator),
            read,
        )
        return counts, np.repeat(bits[:, np.newaxis], trials, axis=1)


def _histograms(folder: Path, event: Event) -> IntArray:
    """Histograms of one request as the curator has them, by place, (parties, places)."""
    record = json.loads((folder / "curator" / event["run"] / "record.json").read_text(encoding="utf-8"))
    owners = [record["histograms"][name] for name in _PARTIES if name != CONSUMER]
    return np.array([*owners, record["target_histogram"]])[:, event["cells"]]


def deployed_summary(through: Through = ()) -> Subject:
    """Summaries at epsilon = 1 of owners' rows and of D_v; the curator looks."""
    claim = Claim(_EPSILON, 0.0, "replace one row of an owner, or of D_v; the curator looks, rows are sealed")
    game, requests, owners = SummaryGame(through), 20, len(_PARTIES) - 1

    def played(parties: slice, whose: str) -> Experiment:
        what = f"log likelihood ratio of the two counts that {whose} moves"
        scores = partial(game.scores, parties)
        return Experiment(claim, what, scores, requests, note=_NOTE, threshold=_EPSILON / 2.0)

    def law(effort: Effort) -> CheckResult:
        drawn = game.noise(effort, requests)
        return laplace_outcome(drawn, histogram_noise(_EPSILON).scale, effort.alpha, "noise on the wire")

    def fresh(effort: Effort) -> CheckResult:
        bits = entropy_of("discrete_laplace", histogram_noise(_EPSILON).scale)
        return repeat_finding(list(game.noise(effort, requests)), bits, "noise of parties and requests")

    games = (played(slice(owners), "an owner's row"), played(slice(owners, None), "a row of D_v"))
    return Subject("deployed-summary", "sound", claim, (*games, law, fresh))


# Releases.


class ReleaseGame:
    """Releases of marginals: canaries of one owner; the others have no row in their places."""

    def __init__(self, through: Through = (), security: SecuritySettings | None = None) -> None:
        """Begin; see `Through`. Without security the curator is trusted and draws the noise."""
        self._through, self._security = through, security
        self._played: dict[tuple[int, ...], tuple[Scores, Bits]] = {}

    def scores(self, second: bool, trials: int, random: np.random.Generator) -> Scores:
        """Log likelihood ratios of the canaries in one world, (requests x CANARIES,)."""
        seeds: Any = random.bit_generator.seed_seq
        key = (trials, *seeds.entropy)
        if key not in self._played:
            launches = [(self._launch(bits[0], trials), bits) for bits in _two_rounds(seeds.entropy, 1)]
            worlds = [np.repeat(bits, trials, axis=0) for _, bits in launches]
            self._played[key] = np.concatenate([each for each, _ in launches]), np.concatenate(worlds)
        scores, bits = self._played[key]
        return np.asarray(scores[bits == second])

    def _launch(self, bits: Bits, trials: int) -> Scores:
        places = np.stack([_places(bits)] * 2, axis=1).astype(np.float64)
        others = np.stack([np.resize(_FREE, _MANY)] * 2, axis=1).astype(np.float64)
        tables = {HOLDER: Table(places)} | {name: Table(others) for name in OTHERS}
        scenario = Scenario("canary", _WORDS, tables, Table(others), Table(others[:0]), None)

        def consumer(folders: Folders) -> ReleaseConsumerSettings:
            return ReleaseConsumerSettings(
                **folders.common("consumer"),
                curator="-",
                output=folders.directory / "consumer",
                release=MarginalsSettings(epsilon=_EPSILON, delta=_DELTA, iterations=1, rows=2),
            )

        def read(folder: Path, launch: CanaryLaunch) -> Scores:
            files = [folder / "consumer" / str(number) / "release.npz" for number in range(trials)]
            return np.array([_ratios(file.read_bytes()) for file in files])

        pooling: dict[str, Any] = {"release": SumSettings(security=self._security)}
        return _launched(
            lambda folder: CanaryLaunch(scenario, trials, folder, self._through, consumer, pooling), read
        )


def _ratios(release: bytes) -> Scores:
    """Log likelihood ratios of a release's tables, by canary, (CANARIES,): it is one of two places' count."""
    scores, here = np.zeros(CANARIES), 2 * np.arange(CANARIES)
    for table in counts_from_bytes(release).measurements:
        ways = len(table.clique)
        counts = table.values.reshape([2 * CANARIES + len(_FREE)] * ways)
        scores += (counts[(here + 1,) * ways] - counts[(here,) * ways]) / table.sigma**2
    return scores


def deployed_release(through: Through = (), secure: bool = False) -> Subject:
    """Releases of marginals at (1, 1e-5), by trust or by secure aggregation; the consumer looks."""
    claim = Claim(_EPSILON, _DELTA, "replace one row of an owner; the consumer looks")
    game = ReleaseGame(through, SecuritySettings() if secure else None)
    what = "log likelihood ratio of all noisy tables of a release"
    played = Experiment(claim, what, game.scores, 20, gaussian=True, note=_NOTE, threshold=0.0)
    return Subject("deployed-secure-release" if secure else "deployed-release", "sound", claim, (played,))


# The consumer's process.


async def _ask(trials: int, settings: Any, reporter: StatusReporter) -> None:
    """Ask as often as that, as a consumer's verb asks, into a folder each time."""
    address = await reporter.hear()
    work = ask_for_summary if isinstance(settings, ConsumerSettings) else ask_for_release
    for number in range(trials):
        output = settings.output / str(number)
        changed = settings.model_copy(update={"curator": address, "output": output})
        await work(changed, reporter)
        facts = _public(changed, output) if isinstance(changed, ConsumerSettings) else {}
        reporter.say(_ASKED, **facts)


def _public(settings: ConsumerSettings, output: Path) -> dict[str, Any]:
    """Name of the last run, and the cells of the grid in its code book."""
    with contextlib.closing(open_store(settings.journal, settings.name, settings.durability)) as store:
        request = Requests(settings.name, store).last(str(output))
    assert request is not None
    plan = request.document.plan
    assert plan is not None
    assert plan.cells is not None
    schema = load_schema(settings.schema_file)
    book = code_book_from_json(plan.cells.code_book, schema)
    return {"run": plan.run, "cells": book.cells_of(schema.encode(_GRID)).tolist()}


def main() -> None:
    """Be a consumer that asks often: CONFIG TRIALS --supervised."""
    config, trials = Path(sys.argv[1]), int(sys.argv[2])
    kind = "release" in load_toml(config)
    load: Callable[[], Any] = (
        partial(load_release_settings, config) if kind else partial(load_settings, ConsumerSettings, config)
    )
    raise SystemExit(run_party(load, True, partial(_ask, trials)))


if __name__ == "__main__":
    main()
