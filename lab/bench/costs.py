"""`costs`: time and memory of a party's parts, each value beside another of the same run of the benchmark.

- A round with ledgers, journals, TLS and signed heads beside the same round without; a round in which an
  owner reconnects beside the usual one. Owners of several kinds stand side by side, and blocks of rounds over
  each kind alternate. This process is the curator; it keeps what the owners keep.
- A bid beside a product of its float32 features with a vector, and sums of Fourier features beside the same
  features made and added in float32: CPU time, BLAS on one thread as in an owner's process.
- Memory that Python keeps for an owner that has loaded its rows and prepared a run, beside the rows as they
  are stored and their int16 features, which no owner can do without.
- Resident memory of a curator after a long run by the clock beside that in the middle of the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import itertools
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np
from typing_extensions import override

from curator.owners.connection import OwnerConnection
from curator.owners.exchanges import HeadExchange
from curator.run.summary_record import RoundRecord
from curator.runs.public_draws import draw_features
from curator.summary.settings import FeatureSettings
from fedkme.errors import PartyFailedError
from fedkme.features.domain import Domain
from fedkme.features.fixed_point import ScoredFeatures
from fedkme.features.fourier_map import FourierMap, FourierMapSpec
from fedkme.features.sums import Layout, pooled_sum
from fedkme.heads.log import HeadLog
from fedkme.party import noise_for
from fedkme.pki.certificates import Role
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import Ledger, stored_ledger
from fedkme.protocol import AuctionTerms, Invitation
from fedkme.store import Store
from fedkme.tables.files import load_table, save_table
from fedkme.tables.table import Table
from lab.bench.fleet import Fleet, Keeps, fleet
from lab.bench.result import BenchSettings, Cell, Result, timed
from lab.bench.rounds import Books, RoundEnds, journal_of, real_block, stored, summary_settings
from lab.bench.synthetic import simulation, synthetic_scenario, synthetic_schema
from owner.consent.gate import OwnerGate
from owner.summary.bidder import Bidder

_AUCTIONS = ("clock", "ask-everyone")
COLUMNS, FEATURES = 14, 2_000
"""Columns of the rows whose Fourier features are added up, and how many features."""
_DIMENSION, _CHANGED = 140, 5
"""Coordinates of h1 in a bid, and those that change with the default h2."""
_PIXELS, _GAMMA = 784, 1 / 104
"""Columns of an owner's images, and the median heuristic on MNIST pixels / 255."""
_BLOCK_S, _BLOCK_ROWS = 0.02, 262
_STATUS = Path("/proc/self/status")
_MIB = 2**20


@dataclass(slots=True)
class Kind:
    """Owners of one kind, and how long their rounds took.

    Attributes:
        owners: everybody.
        store: the curator's, beside a journal of theirs.
        blocks: mean round of each block in ms, by auction: most rounds of a clock say nothing.
        heads: likewise, with the exchange of signed heads that ends a run spread over its rounds.
    """

    owners: Fleet
    keeps: Keeps
    store: Store | None
    blocks: dict[str, list[float]] = field(default_factory=dict)
    heads: dict[str, list[float]] = field(default_factory=dict)

    def books(self, run: str) -> Books:
        """Journal or ledger in which the curator keeps a run."""
        if self.store is not None:
            return journal_of(run, self.store)
        return Ledger(CURATOR, lambda lines: None) if self.keeps == "ledger" else None

    async def exchange_heads(self, run: str) -> float:
        """Let everybody show, keep and cosign heads, as at the end of a run; milliseconds."""
        if self.store is None:
            return 0.0
        ledger, identity = stored_ledger(CURATOR, self.store), self.owners.identity
        log = HeadLog(Role.CURATOR, CURATOR, ledger, self.store, lambda: identity)
        began = time.perf_counter()
        await HeadExchange(log, _unwitnessed).after(run, self.owners.connections)
        return 1e3 * (time.perf_counter() - began)

    def median(self, auction: str) -> float:
        """Median of all blocks."""
        return float(np.median(self.blocks[auction]))


def measure(settings: BenchSettings) -> Result:
    """A line for each cost."""
    lines = asyncio.run(_measure(settings))
    for rows in settings.cost_rows:
        lines += [*_bids(rows, settings.repeats), _sums(rows, settings.repeats)]
    lines.append(_owner_memory(settings.cost_rows[0]))
    if _STATUS.exists():  # Linux
        lines.append(asyncio.run(_curator_memory(settings.cost_rounds, settings.tls)))
    return Result("costs", f"costs, rounds with K = {settings.cost_owners}", lines)


async def _measure(settings: BenchSettings) -> list[dict[str, Cell]]:
    scenario = synthetic_scenario(settings.cost_owners)
    secret, plain = (simulation(settings.rounds, tls) for tls in (True, False))
    async with contextlib.AsyncExitStack() as stack:
        kinds: dict[str, Kind] = {}
        for keeps in get_args(Keeps):
            kinds[keeps] = await _kind(
                stack, await stack.enter_async_context(fleet(scenario, secret, keeps)), keeps
            )
        everybody = await stack.enter_async_context(fleet(scenario, plain, "nothing"))
        kinds["plaintext"] = await _kind(stack, everybody, "nothing")

        async def play(kind: Kind, auction: str, run: str, watch: RoundEnds) -> np.ndarray:
            protocol = summary_settings(secret, auction)
            count, books = settings.cost_owners, kind.books(run)
            return (await real_block(scenario, secret, protocol, kind.owners, count, run, books, watch))[0]

        for block in range(settings.blocks + 1):
            for kind, auction in itertools.product(kinds.values(), _AUCTIONS):
                run = f"{auction}-{block + 1}"
                milliseconds = await play(kind, auction, run, RoundEnds())
                heads = await kind.exchange_heads(run)
                if block:  # the first warms up
                    round_ms = float(milliseconds.mean())
                    kind.blocks.setdefault(auction, []).append(round_ms)
                    kind.heads.setdefault(auction, []).append(round_ms + heads / settings.rounds)
        cut = []
        for repeat in range(settings.repeats):
            kind = kinds["process"]
            watch = Cutting(connection=kind.owners.connections[0], after=settings.rounds // 2)
            milliseconds = await play(kind, _AUCTIONS[1], f"cut-{repeat + 1}", watch)
            cut.append(float(milliseconds[settings.rounds // 2 - 1]))
    usual = kinds["process"].median(_AUCTIONS[1])
    reconnects = _round("an owner that reconnects", _AUCTIONS[1], float(np.median(cut)), usual)
    return [*_lines(kinds), *_heads(kinds, settings.rounds), reconnects]


async def _kind(stack: contextlib.AsyncExitStack, owners: Fleet, keeps: Keeps) -> Kind:
    store = None
    if keeps in ("power", "process"):
        store = stack.enter_context(stored(CURATOR, "power" if keeps == "power" else "process"))
    return Kind(owners, keeps, store)


def _lines(kinds: Mapping[str, Kind]) -> list[dict[str, Cell]]:
    """Each kind compared with the kind that it extends."""
    pairs = (
        ("ledgers and gates", "ledger", "nothing"),
        ("journal, safe from kill -9", "process", "ledger"),
        ("journal, safe from power cuts", "power", "ledger"),
        ("mutual TLS", "nothing", "plaintext"),
    )
    return [
        _round(what, auction, kinds[dear].median(auction), kinds[cheap].median(auction))
        for auction in _AUCTIONS
        for what, dear, cheap in pairs
    ]


def _heads(kinds: Mapping[str, Kind], rounds: int) -> list[dict[str, Cell]]:
    """Runs with signed heads at their end against the same without."""
    return [
        _round(
            f"signed heads, a run of {rounds} rounds, {'power cuts' if keeps == 'power' else 'kill -9'}",
            auction,
            float(np.median(kinds[keeps].heads[auction])),
            kinds[keeps].median(auction),
        )
        for auction in _AUCTIONS
        for keeps in ("process", "power")
    ]


def _unwitnessed(event: str, **fields: object) -> None:
    """Fail: no owner may miss the exchange of heads."""
    raise PartyFailedError(f"heads were not exchanged: {fields}", "Run the benchmark again.")


def _round(what: str, auction: str, dear: float, cheap: float) -> dict[str, Cell]:
    return _line(f"{what}, {auction}", "ms a round", dear, cheap)


def _line(what: str, unit: str, value: float, beside: float) -> dict[str, Cell]:
    return {"what": what, "unit": unit, "value": value, "beside": beside, "ratio": value / beside}


def _bids(rows: int, repeats: int) -> Iterator[dict[str, Cell]]:
    """Bids after all coordinates of g changed, and after five did."""
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(0)))
    features = rng.integers(-(2**14), 2**14, (rows, _DIMENSION), dtype=np.int16, endpoint=True)
    target, mean = rng.integers(-(2**20), 2**20, (2, _DIMENSION), dtype=np.int32)
    scored = ScoredFeatures(_DIMENSION, target, capacity=rows)
    scored.append(features)
    whole, vector = features.astype(np.float32), mean.astype(np.float32)

    def bid(coordinates: slice) -> None:
        mean[coordinates] += 1
        scored.best(mean, 100)

    ms = _medians(
        repeats,
        {
            "float32 pass": lambda: whole @ vector,
            "all coordinates": lambda: bid(slice(None)),
            f"{_CHANGED} coordinates": lambda: bid(slice(_CHANGED)),
        },
    )
    beside = ms.pop("float32 pass")
    for changed, value in ms.items():
        yield _line(f"a bid of {rows:,} rows, {changed} changed", "CPU ms", value, beside)


def _medians(repeats: int, calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Median CPU milliseconds of a call; the calls take turns, for a fiftieth of a second each."""
    blocks: dict[str, list[float]] = {what: [] for what in calls}
    for _ in range(repeats):
        for what, call in calls.items():
            call()  # what the others left in the caches is not this one's fault
            count, started = 0, time.process_time()
            while (elapsed := time.process_time() - started) < _BLOCK_S:
                call()
                count += 1
            blocks[what].append(1e3 * elapsed / count)
    return {what: float(np.median(times)) for what, times in blocks.items()}


def _sums(rows: int, repeats: int) -> dict[str, Cell]:
    """Sums of an owner's Fourier features; the best of a few takes."""
    schema = synthetic_schema(COLUMNS, largest=1.0)
    table = Table(np.random.default_rng(0).random((rows, COLUMNS)))
    phi = FourierMap(FourierMapSpec(dimension=FEATURES, gamma=1.0, seed=0), schema)
    pooled_sum(table.take(np.arange(2)), phi, Layout())  # the table of cosines is made once in a process
    omega = phi.omega.astype(np.float32)

    def float32() -> None:
        points, total = Domain(schema).encode(table.values).astype(np.float32), np.zeros(FEATURES)
        for start in range(0, rows, _BLOCK_ROWS):
            angles = points[start : start + _BLOCK_ROWS] @ omega
            total += np.concatenate([np.cos(angles), np.sin(angles)], axis=1).sum(axis=0)

    ours = min(timed(lambda: pooled_sum(table, phi, Layout()))[1] for _ in range(repeats))
    theirs = min(timed(float32)[1] for _ in range(repeats))
    return _line(f"sums of {FEATURES:,} features of {rows:,} rows", "CPU s", ours, theirs)


def _owner_memory(rows: int) -> dict[str, Cell]:
    """Memory that Python keeps for an owner of images that is ready for round 1."""
    schema, settings = synthetic_schema(_PIXELS, largest=255.0), FeatureSettings()
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(0)))
    with tempfile.TemporaryDirectory(prefix="fedkme-bench-") as folder:
        file = Path(folder) / "rows.npz"
        save_table(file, Table(rng.integers(0, 256, (rows, _PIXELS), dtype=np.uint8)))
        tracemalloc.start()
        table = load_table(file, schema, "owner")
        bidder = Bidder("owner", table, schema, noise_for(0, "owner")("draw"), OwnerGate("owner"))
        features = draw_features(settings, _GAMMA, schema.encoded_width, seed=0)
        terms = AuctionTerms(features, np.zeros(features.dimension, dtype=np.int32))
        bidder.invite(Invitation("bench", schema.digest(), "consumer", "ask-everyone", (), terms))
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    needed = rows * (_PIXELS + 2 * settings.dimension)
    return _line(f"memory of an owner of {rows:,} images", "MiB", used / _MIB, needed / _MIB)


async def _curator_memory(rounds: int, tls: bool) -> dict[str, Cell]:
    """Memory of the curator at the end of a run, and in its middle, after one-time allocations."""
    scenario, simulated = synthetic_scenario(2, rounds // 2 + 1), simulation(rounds, tls)
    marks = Marks(rounds=rounds)
    async with fleet(scenario, simulated) as owners:
        with stored(CURATOR) as store:
            books, protocol = journal_of("run", store), summary_settings(simulated, "clock")
            await real_block(scenario, simulated, protocol, owners, 2, "run", books, marks)
    what = f"memory of a curator after {rounds:,} rounds, and half of them"
    return _line(what, "MiB", marks.sizes[rounds], marks.sizes[rounds // 2])


@dataclass(slots=True)
class Marks(RoundEnds):
    """Resident MiB in the middle of a run and at its end, by round.

    Attributes:
        rounds: rounds of the run.
        sizes: sizes at the two marks.
    """

    rounds: int = 2
    sizes: dict[int, float] = field(default_factory=dict)

    @override
    def round_done(self, record: RoundRecord) -> None:
        RoundEnds.round_done(self, record)
        if record.round in (self.rounds // 2, self.rounds):
            self.sizes[record.round] = _resident()


def _resident() -> float:
    """Resident MiB without garbage, in Python and in the C library."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # a C library without it
        ctypes.CDLL(None).malloc_trim(0)
    (line,) = (line for line in _STATUS.read_text(encoding="ascii").splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 2**10


@dataclass(slots=True)
class Cutting(RoundEnds):
    """Ends an owner's stream after a round; its process comes back by itself."""

    connection: OwnerConnection | None = None
    after: int = 1

    def round_done(self, record: RoundRecord) -> None:
        """Cut the owner's stream after its round."""
        RoundEnds.round_done(self, record)
        if record.round == self.after and self.connection is not None:
            self.connection.cut()
