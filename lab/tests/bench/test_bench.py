"""`fedkme bench`: tiny runs of every benchmark. No time is asserted: a shared machine decides those."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from io import StringIO

import jax
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from curator.releases.generators import Training
from curator.releases.networks import TableNetwork
from fedkme.errors import ConfigError, DataError
from lab.bench.answers.training import ours_in, plain_in
from lab.bench.cli import Benchmark, app, run_benchmarks
from lab.bench.echo import messages_of
from lab.bench.fleet import fleet
from lab.bench.result import BenchSettings
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
    repeats=1,
    cost_rows=(50, 100),
    cost_rounds=10,
    sum_owners=(4,),
    soak_runs=3,
    soak_consumers=1,
    secagg_owners=(4, 100),
    secagg_length=50,
    training_steps=2,
    select_rows=300,
    select_p=8,
)
RATIOS = {
    Benchmark.ROUNDS: ["ratio", "block ratio min", "block ratio median", "block ratio max"],
    Benchmark.COSTS: ["ratio"],
    Benchmark.STARTUP: ["to round 1 / bare", "to round 1 CPU s", "whole run CPU s", "sim run --help s"],
    Benchmark.SCALE: ["run s", "curator CPU s", "owners CPU s", "curator MiB", "owners MiB"],
    Benchmark.SUMS: ["secure / trusted"],
    Benchmark.SOAK: ["MB in the end", "descriptors, last", "s a run, second half"],
    Benchmark.JOURNALS: ["start CPU s", "journal kB/run"],
    Benchmark.SECAGG: ["all s", "curator s", "owner ms", "owner KiB"],
    Benchmark.RELEASES: ["ours CPU ms", "plain jax CPU ms", "ours / plain jax"],
    Benchmark.SELECT: ["weighted / greedy"],
}


@pytest.mark.parametrize("name", RATIOS)  # all but `ray`, which starts a cluster for minutes
def test_every_benchmark_measures_ratios_and_prints_them(name: Benchmark) -> None:
    # "report the ratio to a bare echo ... measured in the same run".
    out = StringIO()
    (result,) = run_benchmarks([name], TINY, Console(file=out, width=80))
    assert result.name == name
    for row in result.rows:
        numbers = [float(row[ratio]) for ratio in RATIOS[name]]
        assert all(map(math.isfinite, numbers))
        # What an owner adds is a difference, and among few owners less than what the clock misses.
        assert name == Benchmark.SCALE or min(numbers) > 0
    if name == Benchmark.COSTS:  # issue 12, B10: signed heads, where there is a store to keep them in
        signed = [row for row in result.rows if str(row["what"]).startswith("signed heads")]
        assert len(signed) == 4
        assert all(float(row["value"]) > float(row["beside"]) for row in signed)
        parts = [str(row["what"]).split(" of ")[0] for row in result.rows if row["unit"] != "ms a round"]
        assert parts == ["a bid", "a bid", "sums"] * 2 + ["memory", "memory"]
    assert result.title in out.getvalue()
    assert all(column in out.getvalue() for column in result.rows[0])


def test_the_plain_training_is_ours() -> None:
    # "training step against plain jax ... of the same loss".
    training = Training(steps=4, reports=2, batch=64, learning_rate=1e-4)  # too small to go back
    ours, plain = ours_in(training)[0].parameters, plain_in(training)[0]
    start = TableNetwork(synthetic_schema(14)).initial(jax.random.fold_in(jax.random.key(0), 0))
    for mine, theirs, first in zip(ours, plain, start, strict=True):
        for name in mine:
            np.testing.assert_allclose(mine[name], theirs[name], atol=2e-6)
        assert np.abs(mine["w"] - first["w"]).max() > 1e-4  # it has moved


def test_the_plain_training_in_torch_is_the_one_in_jax() -> None:
    # The same: "training step against plain jax and torch of the same loss where installed".
    torch = pytest.importorskip("torch", reason="torch is not installed: `pip install torch` in a venv apart")
    from lab.bench.answers import plain_torch, training

    start = TableNetwork(synthetic_schema(14)).initial(jax.random.key(3))
    code = jax.random.normal(jax.random.key(0), (9, len(start[0]["w"]) - 1))
    goal, omega = training.released()[:, 0], training.PHI.omega
    layers = [
        {name: torch.tensor(np.asarray(x)).requires_grad_() for name, x in each.items()} for each in start
    ]
    missed = plain_torch.error(
        layers,
        torch.tensor(omega, dtype=torch.float32),
        torch.tensor(goal, dtype=torch.float32),
        torch.tensor(np.asarray(code)),
    )
    np.testing.assert_allclose(missed.detach(), training.error(start, code), atol=1e-5)
    torch.dot(missed, missed).backward()
    wanted = jax.grad(lambda parameters: (training.error(parameters, code) ** 2).sum())(start)
    for mine, theirs in zip(layers, wanted, strict=True):
        assert np.abs(theirs["w"]).max() > 1e-5
        for name, each in mine.items():
            found = 0.0 if each.grad is None else each.grad  # the last layer is not scaled
            np.testing.assert_allclose(found, theirs[name], atol=1e-5)
    before = np.asarray(start[0]["w"]).copy()
    assert plain_torch.torch_in(start, omega, goal, Training(steps=4, reports=2, batch=64)) > 0.0
    assert np.array_equal(before, start[0]["w"])


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
    result = CliRunner().invoke(app, ["rounds", "--owners", "1", "--rounds", "2", "--plaintext", "--json"])
    assert result.exit_code == 0, result.output
    written = json.loads(result.stdout)
    assert written["settings"]["owners"] == [1]
    assert [row["K"] for row in written["results"][0]["rows"]] == [1, 1, 1, 1]
    assert [row["journals"] for row in written["results"][0]["rows"]] == ["yes", "yes", "no", "no"]
    assert written["machine"]["cores"] >= 1


def test_quick_is_all_benchmarks_but_those_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Sequence[Benchmark], BenchSettings]] = []
    monkeypatch.setattr(
        "lab.bench.cli.run_benchmarks", lambda names, chosen, _: asked.append((names, chosen))
    )
    assert CliRunner().invoke(app, ["--quick"]).exit_code == 0
    ((names, chosen),) = asked
    assert set(names) == set(Benchmark) - {Benchmark.RAY}
    assert chosen.secagg_owners == (50, 200)


@pytest.mark.parametrize("wrong", [["--owners", "2,many"], ["--owners", "0"], ["--rounds", "1"]])
def test_wrong_options_are_one_line(wrong: list[str]) -> None:
    # DESIGN.md, "Command line": errors print one line with cause and remedy.
    result = CliRunner().invoke(app, ["rounds", *wrong])
    assert isinstance(result.exception, ConfigError)
    assert "fedkme bench" in result.exception.cause
