"""`fedkme bench`: tiny runs of every benchmark. No time is asserted: a shared machine decides those."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from io import StringIO

import pytest
from rich.console import Console
from typer.testing import CliRunner

from fedkme.errors import ConfigError, DataError
from lab.bench.cli import app, run_benchmarks
from lab.bench.echo import messages_of
from lab.bench.fleet import fleet
from lab.bench.result import BENCHMARKS, BenchSettings
from lab.bench.rounds import real_block
from lab.bench.synthetic import simulation, synthetic_scenario, synthetic_schema
from sim.scenarios.base import Scenario

TINY = BenchSettings(
    owners=(2,),
    rounds=3,
    cost_owners=1,
    blocks=1,
    tls=False,
    start_owners=2,
    scale_owners=(2,),
    scale_protocols=("ask-everyone", "balog2"),  # a summary whose rounds are measured, and a release
    scale_release=("points=5", "restarts=1", "steps=5", "candidates=8", "climbs=2", "features=40"),
    repeats=1,
    cost_rows=(50, 100),
    cost_rounds=10,
    sum_owners=(4,),
    soak_runs=3,
    soak_consumers=1,
    secagg_owners=(4, 100),
    secagg_length=50,
    select_rows=300,
    select_p=8,
    reading_rows=2_000,
)
RATIOS = {
    "rounds": ["ratio", "block ratio min", "block ratio median", "block ratio max"],
    "costs": ["ratio"],
    "startup": ["to round 1 / bare", "to round 1 CPU s", "whole run CPU s", "sim run --help s"],
    "scale": ["run s", "curator CPU s", "owners CPU s", "curator MiB", "owners MiB"],
    "sums": ["secure / trusted"],
    "soak": ["MB in the end", "descriptors, last", "s a run, second half"],
    "journals": ["start CPU s", "journal kB/run"],
    "secagg": ["all s", "curator s", "owner ms", "owner KiB"],
    "select": ["weighted / greedy"],
    "reading": ["ratio"],
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_measures_ratios_and_prints_them(name: str) -> None:
    # "report the ratio to a bare echo ... measured in the same run".
    out = StringIO()
    (result,) = run_benchmarks([name], TINY, Console(file=out, width=80))
    assert result.name == name
    for row in result.rows:
        numbers = [float(row[ratio]) for ratio in RATIOS[name]]
        assert all(map(math.isfinite, numbers))
        # What an owner adds is a difference, and among few owners less than what the clock misses.
        assert name == "scale" or min(numbers) > 0
    if name == "rounds":
        assert [(row["K"], row["journals"]) for row in result.rows] == [(2, "yes")] * 2 + [(2, "no")] * 2
    if name == "costs":  # issue 12, B10: signed heads, where there is a store to keep them in
        signed = [row for row in result.rows if str(row["what"]).startswith("signed heads")]
        assert len(signed) == 4
        assert all(float(row["value"]) > float(row["beside"]) for row in signed)
        parts = [str(row["what"]).split(" of ")[0] for row in result.rows if row["unit"] != "ms a round"]
        assert parts == ["a bid", "a bid", "sums"] * 2 + ["memory", "memory"]
    assert result.title in out.getvalue()
    assert all(column in out.getvalue() for column in result.rows[0])


def test_the_echo_has_the_messages_of_the_rounds() -> None:
    # lab/bench/rounds.py: "the size of every message written down". What the sessions counted must agree, and
    # every echo's message must be as long as the one that it stands for.
    settings = simulation(rows=4, tls=False)
    scenario = synthetic_scenario(3)

    async def block() -> tuple[int, int, list[list[dict[int, tuple[int, int]]]]]:
        async with fleet(scenario, settings) as everybody:
            times, phases = await real_block(
                scenario, settings, settings.summary.curator_part(), everybody, 3
            )
            assert len(times) == 3  # the first round's is not known
            (sessions,) = everybody.blocks
            sent = sum(session.traffic.sent for session in sessions)
            received = sum(session.traffic.received for session in sessions)
            await everybody.echoes.round(messages_of(phases[0]))
            return sent, received, [[dict(exchange) for exchange in phase] for phase in phases]

    sent, received, phases = asyncio.run(block())
    sizes = [size for phase in phases for exchange in phase for size in exchange.values()]
    # 'prepare', with g~ and the events that owners will hear of, and 'close' are in no round
    assert 0 < sent - sum(size[0] for size in sizes) < 3 * 2000
    assert 0 < received - sum(size[1] for size in sizes) < 3 * 100
    assert [len(phase[0]) for phase in phases] == [3] * 4
    for phase in phases:
        for exchange, messages in zip(phase, messages_of(phase), strict=True):
            assert [len(message) for _, message in messages] == [size for size, _ in exchange.values()]


def test_an_owner_that_fails_ends_the_benchmark_with_its_words() -> None:
    # CONVENTIONS, "Tests": wait for readiness, never for a time limit: nobody waits ten minutes for the dead.
    scenario = synthetic_scenario(2)
    narrow = synthetic_schema(3)
    broken = Scenario("broken", narrow, scenario.owners, scenario.validation, scenario.test, seeds=None)

    async def start() -> None:
        async with fleet(broken, simulation(rows=4, tls=False)):
            pass

    with pytest.raises(DataError, match=r"owner-[12]: the rows"):
        asyncio.run(start())


def test_the_command_prints_json() -> None:
    result = CliRunner().invoke(app, ["select", "--rows", "300", "--p", "8", "--json"])
    assert result.exit_code == 0, result.output
    written = json.loads(result.stdout)
    assert written["settings"]["select_rows"] == 300
    assert all(row["weighted / greedy"] > 0 for row in written["results"][0]["rows"])
    assert written["machine"]["cores"] >= 1


def test_quick_is_all_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Sequence[str], BenchSettings]] = []
    monkeypatch.setattr(
        "lab.bench.cli.run_benchmarks", lambda names, chosen, _: asked.append((names, chosen))
    )
    assert CliRunner().invoke(app, ["--quick"]).exit_code == 0
    ((names, chosen),) = asked
    assert set(names) == set(BENCHMARKS)
    assert chosen.secagg_owners == (50, 200)


@pytest.mark.parametrize("wrong", [["--owners", "2,many"], ["--owners", "0"], ["--rounds", "1"]])
def test_wrong_options_are_one_line(wrong: list[str]) -> None:
    # DESIGN.md, "Command line": errors print one line with cause and remedy.
    result = CliRunner().invoke(app, ["rounds", *wrong])
    assert isinstance(result.exception, ConfigError)
    assert "fedkme bench" in result.exception.cause
