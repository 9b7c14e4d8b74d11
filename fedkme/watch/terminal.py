"""View of runs on a terminal: the same value as the page shows, in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fedkme.ops.spans import span
from fedkme.watch.view import View

_COLOURS = {
    "approval": "yellow",
    "asked": "yellow",
    "lost": "red",
    "refused": "red",
    "answered": "green",
    "done": "green",
}
_MOST_EVENTS = 6


def drawn(view: View, now: float) -> Group:
    """Draw a view; `now` is the time in Unix seconds, for what is said to last."""
    who = "" if view["as"]["role"] == "curator" else f" as {view['as']['name']} sees them"
    parts: list[RenderableType] = [Text(f"Runs of {view['curator']}{who}  {view['note']}", style="bold")]
    run = next((run for run in view["runs"] if run["open"]), *view["runs"][:1]) if view["runs"] else None
    parts += [*_run(run, now)] if run is not None else [Text("No run yet.")]
    if view["learned"]:
        parts.append(_matrix(view["learned"]))
    if (budget := view["budget"]) is not None:
        parts.append(
            Text(f"budget towards other owners: epsilon {budget['left']:.3g} left of {budget['most']:g}")
        )
    for event in view["events"][:_MOST_EVENTS]:
        words = " ".join(filter(None, (event["run"], event["owner"], event["text"])))
        parts.append(Text(f"{datetime.fromtimestamp(event['at']):%H:%M:%S} {words}", style="dim"))
    return Group(*parts)


def _run(run: View, now: float) -> Iterator[RenderableType]:
    by = f" by {run['protocol']}" if run["protocol"] not in ("", run["kind"]) else ""
    planned = f" of {run['planned']:,} planned" if run["planned"] else ""
    rows = f"{run['rows']:,} rows came{planned}"
    yield Text(f"\n{run['run']}: {run['kind']}{by} for {run['consumer']}, {run['words']}; {rows}")
    if run["waiting"]:
        yield Text(run["waiting"], style="yellow")
    if run["reason"]:
        yield Text(run["reason"], style="yellow")
    if run["share"] is not None:
        yield ProgressBar(total=1.0, completed=run["share"], width=60)
        left = f", about {span(run['ends'] - now)} left" if run["ends"] and run["open"] else ""
        yield Text(f"{100 * run['share']:.0f} %{left}")
    if run["mmd2"]:
        yield Text(f"MMD^2 to the consumer's rows, as told: {run['mmd2'][-1][1]:.3g}")
    if run["lanes"]:
        yield _lanes(run["lanes"], now)
    if run["rest"]:
        yield Text(run["rest"])


def _lanes(lanes: list[dict[str, Any]], now: float) -> Table:
    table = Table("owner", "state", "why", box=None, pad_edge=False)
    table.add_column("came", justify="right")
    for lane in lanes:
        lasts = f"{span(now - lane['since'])} so far" if lane["since"] else ""
        why = ", ".join(filter(None, (lane["why"], lasts)))
        state = Text(lane["words"], style=_COLOURS.get(lane["state"], "dim"))
        table.add_row(Text(lane["owner"]), state, Text(why), f"{lane['seen']:,}")
    return table


def _matrix(lines: list[View]) -> Table:
    observers = dict.fromkeys(cell["observer"] for line in lines for cell in line["cells"])
    table = Table("rows of", *(f"{observer} learned" for observer in observers), box=None, pad_edge=False)
    for line in lines:
        words = {cell["observer"]: cell["words"] for cell in line["cells"]}
        table.add_row(Text(line["rows_of"]), *(Text(words.get(each, "-")) for each in observers))
    return table
