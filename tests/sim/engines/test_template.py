"""Parties that are forked from a template."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from fedkme.errors import ConfigError, PartyFailedError
from sim.engines.children import Child, Event
from sim.engines.template import AVAILABLE, Template

pytestmark = [
    pytest.mark.skipif(not AVAILABLE, reason="parties are forked on Linux alone"),
    pytest.mark.asyncio(loop_scope="module"),  # one template, which imports everything, serves most tests
]
ABSENT = ["owner", "join", "absent.toml"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def template(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Template]:
    with contextlib.closing(Template(tmp_path_factory.mktemp("template") / "template.txt")) as made:
        yield made


def nothing(event: Event) -> None:
    """Hear nothing."""


def threads_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


async def waiting(template: Template, folder: Path) -> Child:
    """Fork an owner that waits to be told an address."""
    (folder / "schema.toml").write_text('[[columns]]\nname = "x"\nkind = "numeric"\nbounds = [0, 1]\n')
    (folder / "rows.csv").write_text("x\n0.5\n")
    (folder / "owner.toml").write_text(
        'name = "north"\ncurator = "-"\nplaintext = true\ndata = "rows.csv"\nschema_file = "schema.toml"\n'
    )
    loaded = asyncio.Event()

    def hear(event: Event) -> None:
        if event["event"] == "loaded":
            loaded.set()

    command = ["owner", "join", str(folder / "owner.toml")]
    child = await Child.start("north", command, folder / "north.txt", hear, template)
    ends = asyncio.ensure_future(child.ended())
    begins = asyncio.ensure_future(loaded.wait())
    await asyncio.wait((ends, begins), return_when=asyncio.FIRST_COMPLETED)
    assert loaded.is_set(), child.failure
    return child


async def test_each_fork_is_a_party_with_its_own_exit_status_and_one_thread(
    template: Template, tmp_path: Path
) -> None:
    heard: list[Event] = []
    children = [
        await Child.start(name, ABSENT, tmp_path / f"{name}.txt", heard.append, template)
        for name in ("north", "south")
    ]
    assert [await child.ended() for child in children] == [ConfigError.code] * 2
    assert all(isinstance(child.failure, ConfigError) for child in children)
    assert {event["party"] for event in heard if event["event"] == "imported"} == {"north", "south"}
    assert len({template.pid, *(child.pid for child in children)}) == 3
    assert threads_of(template.pid) == 1


async def test_a_party_that_ends_before_its_pipes_are_heard_has_its_exit_status(
    template: Template, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Under load its end came first, and the launcher ended with a KeyError.
    loop = asyncio.get_running_loop()
    connect = loop.connect_read_pipe

    async def late(*arguments: Any) -> Any:
        await asyncio.wait(list(template._ends.values()))
        return await connect(*arguments)

    monkeypatch.setattr(loop, "connect_read_pipe", late)
    child = await Child.start("north", ABSENT, tmp_path / "north.txt", nothing, template)
    assert await child.ended() == ConfigError.code


async def test_a_killed_party_reports_its_signal(template: Template, tmp_path: Path) -> None:
    child = await waiting(template, tmp_path)
    os.kill(child.pid, signal.SIGKILL)
    assert await child.ended() == -signal.SIGKILL


async def test_a_party_ends_when_its_input_does(template: Template, tmp_path: Path) -> None:
    child = await waiting(template, tmp_path)
    await child.stop()
    assert await child.ended() > 0
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


async def test_no_party_outlives_a_template_that_is_killed(tmp_path: Path) -> None:
    with contextlib.closing(Template(tmp_path / "template.txt")) as template:
        child = await waiting(template, tmp_path)
        os.kill(template.pid, signal.SIGKILL)
        assert await child.ended() == -signal.SIGKILL
        with pytest.raises(PartyFailedError, match="template"):
            await Child.start("south", ABSENT, tmp_path / "south.txt", nothing, template)


async def test_a_template_that_dies_before_it_reads_is_one_error(tmp_path: Path) -> None:
    # "Exception in callback Template._hear()", with a traceback, stood above the error's line.
    loop, printed = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: printed.append(context))
    with contextlib.closing(Template(tmp_path / "template.txt")) as template:
        os.kill(template.pid, signal.SIGSTOP)
        starting = asyncio.ensure_future(
            Child.start("south", ABSENT, tmp_path / "south.txt", nothing, template)
        )
        await asyncio.sleep(0)  # the request is sent, and never read
        os.kill(template.pid, signal.SIGKILL)
        with pytest.raises(PartyFailedError, match="template"):
            await starting
    loop.set_exception_handler(None)
    assert not printed


@pytest.mark.parametrize("forked", [False, True])
async def test_a_file_in_the_working_folder_does_not_replace_a_party(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked: bool
) -> None:
    # An owner.py in the working folder was executed in place of the owner.
    (tmp_path / "owner.py").write_text("from pathlib import Path\nPath('executed').touch()\n")
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        made = (
            [stack.enter_context(contextlib.closing(Template(tmp_path / "template.txt")))] if forked else []
        )
        child = await Child.start("a", ABSENT, tmp_path / "errors", nothing, *made)
        assert await child.ended() != 0
    assert not (tmp_path / "executed").exists()
