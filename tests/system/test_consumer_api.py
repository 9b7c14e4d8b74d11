"""`fk.Consumer` against a real curator: the same objects as of a simulation (issue 14, item 1)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import fedkme as fk
from consumer.settings import ConsumerSettings
from fedkme.errors import PolicyError
from fedkme.tables.files import save_table
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2 as pb
from sim.config import plain
from tests.parties import WAIT_S, write_config
from tests.places import ROOT, WITHOUT_SIM
from tests.system.market import Market, market, rows
from tests.system.release_market import OWNERS, ReleaseMarket, release_market
from tests.system.test_wire_owners import hello


def configured(at: Market, p: int = 6) -> Path:
    """The consumer's file."""
    save_table(at.folder / "validation.npz", rows(15, 1000, at.schema))
    settings: ConsumerSettings = at.asking(
        p, output=at.folder / "out", journal=str(at.folder / "consumer.db")
    )
    return write_config(at.folder / "lab.toml", plain(settings))


@pytest.fixture
def notebook() -> Iterator[None]:
    """A process whose files others may read, unless it says otherwise: any but fedkme's own."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable(folder: Path) -> list[Path]:
    """Files in a folder, and itself, that users other than its own may open."""
    return [path for path in (folder, *folder.rglob("*")) if path.stat().st_mode & 0o077]


def report_without_sim(config: Path, page: str) -> None:
    """Make the report by the verb, on a host without the extra `sim`."""
    report = config.parent / "out" / "report.html"
    report.unlink()
    words = ["fedkme", "report", str(config)]
    code = f"{WITHOUT_SIM}\nfrom operate.cli import main\nsys.argv = {words!r}\nmain()"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=WAIT_S)
    assert report.read_text(encoding="utf-8") == page


@pytest.mark.usefixtures("notebook")
async def test_a_summary_of_a_deployment_is_the_same_object(tmp_path: Path) -> None:
    async with market(tmp_path, ["a", "b"]) as at:
        for name in ("a", "b"):
            at.owner(name)
        lab = fk.Consumer(configured(at))
        run = await asyncio.to_thread(lab.summary, progress=False)
        assert isinstance(run, fk.SummaryResult)
        assert list(run.rows.columns) == ["x0", "x1", "x2"]
        assert len(run.rows) == 6
        assert run.weights.sum() == pytest.approx(1.0)
        assert run.verdict is not None
        assert {"summary", "fresh_rows"} <= set(run.compare().index)
        assert set(run.privacy["protected"]) == {"D_v"}
        assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == run.report
        assert "For the consumer alone" in run.report
        assert not readable(tmp_path / "out")
        await asyncio.to_thread(report_without_sim, tmp_path / "lab.toml", run.report)
        with pytest.raises(fk.FedkmeError, match="not known whose rows"):
            run.plot_access()
        last = lab.last()
        assert np.array_equal(last.rows.to_numpy(), run.rows.to_numpy())
        other = await asyncio.to_thread(lab.summary, progress=False, p=4)
        assert len(other.rows) == 4


async def test_a_summary_that_came_short_is_here_with_a_warning(tmp_path: Path) -> None:
    async with market(tmp_path, ["a"]) as at, at.attend() as stream:
        lab = fk.Consumer(configured(at))
        task = asyncio.ensure_future(asyncio.to_thread(lab.summary, progress=False))
        await stream.write(hello("a"))
        await stream.read()
        considered = await stream.read()  # an owner that says yes, and then no
        await stream.write(pb.OwnerMessage(at=considered.at, accepted=pb.Accepted(rows=20)))
        refusal = codecs.fault_to_wire(PolicyError("a has changed its mind", "Ask another."))
        for _ in range(2):  # the invitation, and the head that it should cosign
            await stream.write(pb.OwnerMessage(at=(await stream.read()).at, fault=refusal))
        with pytest.warns(fk.FedkmeWarning, match="0 of 6 rows"):
            run = await task
        assert run.rows.empty
        assert run.verdict is None
        assert run.metrics["status"] == "incomplete"


async def test_a_refusal_is_the_curators_error(tmp_path: Path) -> None:
    async with market(tmp_path, ["a"]) as at:
        lab = fk.Consumer(configured(at))
        with pytest.raises(fk.FedkmeError, match="is not a key"):
            lab.summary(progress=False, q=3)
        with pytest.raises(fk.FedkmeError, match="there is no summary"):
            lab.last()
        at.owner("a", count=2)
        with pytest.raises(fk.FedkmeError) as refused:
            await asyncio.to_thread(lab.summary, progress=False, p=100)
        assert refused.value.code == 20


@pytest.mark.usefixtures("notebook")
async def test_a_release_of_a_deployment_is_the_same_object(tmp_path: Path) -> None:
    async with release_market(tmp_path) as at:
        assert isinstance(at, ReleaseMarket)
        for name in OWNERS:
            at.owner(name, count=200)
        lab = fk.Consumer(write_config(tmp_path / "lab.toml", plain(at.caller("out"))))
        release = await asyncio.to_thread(lab.release, progress=False, rows=30)
        assert isinstance(release, fk.ReleaseResult)
        await asyncio.to_thread(report_without_sim, tmp_path / "lab.toml", release.report)
        assert release.method == "balog1"
        assert len(release.rows) == 30
        assert release.ask(lambda found: found["x0"]).error is not None
        assert "balog" in release.card.lower()
        assert "<iframe" in release._repr_html_()
        assert isinstance(lab.last(), fk.ReleaseResult)
        assert release.privacy["epsilon"].max() <= 5.0 + 1e-9
        assert not readable(tmp_path / "out")
