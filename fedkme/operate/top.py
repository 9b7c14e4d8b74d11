"""`fedkme top`: a curator's runs on a terminal, from its page or from its journal."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from curator.settings import CuratorSettings
from fedkme.errors import ConnectionFailedError
from fedkme.party import load_settings
from fedkme.privacy.events import CURATOR
from fedkme.store.reading import read_store
from fedkme.verbs import AsJson, Verbs, print_json
from fedkme.watch.access import viewer_named
from fedkme.watch.reading import read_view
from fedkme.watch.state import Viewer
from fedkme.watch.view import View, view_of

app = Verbs()

EVERY_S = 1.0
_ALONE = "From the journal alone: it does not say who is connected, nor who was asked."

Look = Callable[[], View]


@app.verb(
    "fedkme top 127.0.0.1:8080",
    "fedkme top curator.toml --once",
    "fedkme top 127.0.0.1:8080 --as owner:north --json",
    json="the view, as the page's own /state has it",
)
def top(
    target: Annotated[str, typer.Argument(help="HOST:PORT of a page, or CURATOR.toml.")],
    viewer: Annotated[str, typer.Option("--as", help="curator, owner:NAME or consumer:NAME.")] = "curator",
    once: Annotated[bool, typer.Option(help="Print it once; so does a pipe.")] = False,
    as_json: AsJson = False,
) -> None:
    """Watch a curator's runs: who is waited for and why, progress, rows, who learned what; ctrl-C ends it."""
    who = viewer_named(viewer)
    with contextlib.ExitStack() as held:
        look = _journal(Path(target), who, held) if _is_file(Path(target)) else _page(target, who)
        if as_json:
            print_json(look())
        else:
            _show(look, once or not sys.stdout.isatty())


def _is_file(target: Path) -> bool:
    """Check whether words name a configuration, one that is not there among them, and no page."""
    return target.suffix == ".toml" or target.is_file()


def _page(target: str, viewer: Viewer) -> Look:
    address = f"{target.removesuffix('/')}/" if "://" in target else f"http://{target}/"
    return lambda: read_view(address, viewer)


def _journal(config: Path, viewer: Viewer, held: contextlib.ExitStack) -> Look:
    from curator.watch.state import CuratorWatch

    settings = load_settings(CuratorSettings, config)
    watch = CuratorWatch(
        settings, held.enter_context(contextlib.closing(read_store(settings.journal, CURATOR)))
    )
    return lambda: view_of(watch.state(), viewer) | {"note": _ALONE}


def _show(look: Look, once: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    from fedkme.watch.terminal import drawn

    view = look()
    if once:
        Console().print(drawn(view, view["at"]))
        return
    with contextlib.suppress(KeyboardInterrupt), Live(drawn(view, view["at"]), auto_refresh=False) as live:
        while not view["over"]:
            time.sleep(EVERY_S)
            try:
                view = look()
            except ConnectionFailedError as error:  # it may come back
                view = view | {"note": f"({error.cause}; this is the last that was seen)"}
            live.update(drawn(view, time.time()), refresh=True)
