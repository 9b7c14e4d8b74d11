"""Issue 12, B12: `fedkme owner new-data` and `fedkme consumer new-data` over a real port, between runs."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import consumer.cli
import owner.cli
from consumer.settings import ConsumerSettings
from curator.summary.settings import FeatureSettings, SummarySettings
from fedkme.errors import BudgetError
from fedkme.privacy.budget import WindowBudget
from fedkme.privacy.ledger import disclosures_in
from fedkme.privacy.settings import GaussianSettings
from fedkme.store.reading import read_store
from fedkme.tables.files import save_table
from fedkme.tables.table import joined
from operate.doctor.files import check_budgets
from owner.agent import join
from owner.consent.status import read_status
from owner.settings import OwnerSettings, PeriodBudget, PolicySettings
from tests.fedkme.store.conftest import server as server  # on which a store may be
from tests.fedkme.store.server import Server
from tests.parties import owner_values, write_config
from tests.system.launches import read_json
from tests.system.market import Ear, Market, market, rows

CLOCK = SummarySettings(protocol="algorithm3", features=FeatureSettings(dimension=16))
NOISY = GaussianSettings(epsilon=0.7)
ONE_RUN = WindowBudget(epsilon=1.0, delta=1e-5)


@pytest.fixture(params=["sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of a party."""
    if request.param == "sqlite":
        (tmp_path / "party").mkdir()
        return str(tmp_path / "party" / "journal.db")
    server: Server = request.getfixturevalue("server")
    return server.new_database()


def new_data(folder: Path, settings: OwnerSettings | ConsumerSettings, *more: str) -> Result:
    """Give a party's operator's command."""
    who, cli = ("owner", owner.cli) if isinstance(settings, OwnerSettings) else ("consumer", consumer.cli)
    plain = settings.model_dump(mode="json", exclude_none=True)
    config = write_config(folder / f"{who}.toml", plain)
    return CliRunner().invoke(cli.app, ["new-data", str(config), *more])


def words_of_doctor(settings: OwnerSettings | ConsumerSettings) -> str:
    """Ask `fedkme doctor` about the rows; it leaves everything as it was."""
    before = sorted(settings.schema_file.parent.iterdir())
    (found,) = (finding for finding in check_budgets(settings) if finding.check == "rows")
    assert sorted(settings.schema_file.parent.iterdir()) == before
    assert found.state == "ok"
    return found.line


def file(folder: Path, name: str, *seeds: int) -> Path:
    """A file with five rows of each seed."""
    save_table(folder / name, joined([rows(5, seed) for seed in seeds]))
    return folder / name


async def test_a_budget_of_d_v_begins_anew_for_rows_of_others_alone(tmp_path: Path, journal: str) -> None:
    old, grown, new = (file(tmp_path, f"{n}.npz", *seeds) for n, seeds in enumerate([(1,), (1, 2), (3,)]))

    def asking(at: Market, data: Path) -> ConsumerSettings:
        return at.asking(
            4, target=NOISY, budget=ONE_RUN, validation=data, output=tmp_path / data.stem, journal=journal
        )

    async def ask(at: Market, data: Path) -> None:
        changes: dict[str, Any] = {
            "target": NOISY,
            "budget": ONE_RUN,
            "output": tmp_path / data.stem,
            "journal": journal,
        }
        await at.consumer(4, validation=data, **changes)

    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        await ask(at, old)
        for data, words, code in (
            (grown, "some are those that budgets were spent on", 52),
            (new, "no row is one that budgets were spent on", 0),
        ):
            with pytest.raises(BudgetError):
                await ask(at, data)  # it is another file, and no fresh budget
            assert words in words_of_doctor(asking(at, data))
            result = new_data(tmp_path, asking(at, data))
            assert getattr(result.exception, "code", result.exit_code) == code, result.output
        await ask(at, new)
        assert "on these rows, and on no others" in words_of_doctor(asking(at, new))
        for data in (old, new, grown):
            with pytest.raises(BudgetError):
                await ask(at, data)
    with contextlib.closing(read_store(journal, "consumer")) as store:
        lines = [about.run for about in disclosures_in(entry.line for entry in store.ledger())]
    assert sorted({run.partition("-")[0] for run in lines}) == ["run"]
    assert len(set(lines)) == 2  # of both, and all of them stay


async def test_budgets_of_an_owner_begin_anew_for_rows_of_others_alone(tmp_path: Path, journal: str) -> None:
    policy = PolicySettings(budgets=(PeriodBudget(epsilon=1.2, delta=1e-5),))
    old, grown, new = (file(tmp_path, f"{n}.npz", *seeds) for n, seeds in enumerate([(1,), (1, 2), (3,)]))

    def settings(data: Path) -> OwnerSettings:
        return OwnerSettings(
            **owner_values(tmp_path, "a", "127.0.0.1:1", data=data, policy=policy, journal=journal)
        )

    async with market(tmp_path, ["a", "b"], summary=CLOCK) as at:
        at.owner("b")

        async def takes_part(data: Path) -> bool:
            """One run, for which the owner's process is started with a file."""
            ear, number = Ear(), len(outputs)
            outputs.append(tmp_path / f"out-{number}")
            process = asyncio.create_task(
                join(settings(data).model_copy(update={"curator": at.address}), ear)
            )
            await ear.heard("joined")
            await at.consumer(output=outputs[-1])
            process.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await process
            record = read_json(tmp_path / "runs" / f"run-{number + 1}" / "record.json")
            return not record["faults"]

        outputs = list[Path]()
        assert await takes_part(old)
        assert not await takes_part(old)
        assert not await takes_part(new)  # it is another file, and no fresh budget
        assert "some are those" in words_of_doctor(settings(grown))
        assert getattr(new_data(tmp_path, settings(grown)).exception, "code", 0) == 52
        done = new_data(tmp_path, settings(new))
        assert (done.exit_code, "over 1 earlier files" in done.output) == (0, True)
        assert await takes_part(new)
        assert [await takes_part(data) for data in (new, old, grown)] == [False] * 3
        # What grew goes on from one file alone.
        more = file(tmp_path, "more.npz", 3, 4)
        assert getattr(new_data(tmp_path, settings(more)).exception, "code", 0) == 52
        assert new_data(tmp_path, settings(more), "--goes-on").exit_code == 0
        assert not await takes_part(more)  # the runs over its first rows count
    with contextlib.closing(read_store(journal, "a")) as store:
        spent = read_status(settings(more), store).spent[0].figure.epsilon
        assert 0.9 < spent < 1.2  # one of two runs, of which lines all stay
        assert len({about.run for about in disclosures_in(entry.line for entry in store.ledger())}) == 2
