"""Page of a curator's runs as HTML, as far as a viewer may see them; reports have the same parts."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, pairwise
from typing import get_args

from fedkme.pages import html
from fedkme.pages.line_chart import Point, Series, lines
from fedkme.watch.access import words_of
from fedkme.watch.observers import picture
from fedkme.watch.state import News, OwnerState, OwnerStatus, RunState, Viewer, Watched, seen_by

MOST_LANES = 40
"""Owners with a line of their own; the rest, with the least to report, are counted."""
MOST_POINTS = 80
"""Points of a curve."""
_STATES: Mapping[OwnerState, str] = {
    "approval": "has not approved it",
    "asked": "asked",
    "absent": "not connected",
    "lost": "lost",
    "refused": "refused",
    "here": "connected",
    "answered": "answered",
    "done": "took part",
}
_STATUSES = {
    "asked": "in preparation",
    "queued": "in the queue",
    "running": "under way",
    "stopped": "stopped early",
}
"""Statuses that the page does not call by their names."""
_ORDER = {state: place for place, state in enumerate(get_args(OwnerState))}


def page_of(watched: Watched, viewer: Viewer, query: Mapping[str, str]) -> str:
    """The page of a viewer.

    Args:
        watched: state of the curator's runs.
        viewer: who looks.
        query: query of the page's address: `run`, the run to show, and `as`, which offers other views again.
    """
    seen = seen_by(watched, viewer)
    named = [run for run in seen.runs if run.run == query.get("run")]
    shown = [*named, *(run for run in seen.runs if run.open), *seen.runs][:1]
    sections = [
        *([(run.run, _run(run, viewer)) for run in shown] or [("Runs", html.note("No run yet."))]),
        ("Who learned what, in all runs", _learned(seen, viewer)),
        ("Budget of owners' rows towards other owners", _budget(seen)),
        ("Latest events", _events(seen.events)),
        ("All runs", _runs(seen.runs, viewer, query)),
    ]
    head = _head(seen, viewer, viewer.role == "curator" or "as" in query)
    return html.document(f"fedkme: runs of {seen.curator}", head, sections, live=True)


def waiting(run: RunState, viewer: Viewer) -> str:
    """Sentence about the party that a run waits for, with the reason; empty if it waits for no party."""
    lanes = [lane for lane in run.lanes if run.waits_for(lane)]
    if run.status == "asked" and not lanes and not run.stage:
        if viewer.role == "owner":
            return ""  # the run waits for the consumer, or for another owner
        return f"Waiting for {run.consumer}: it has the plan, and offers what it tells of its rows next."
    if run.status == "queued":
        return "Waiting for its turn: other runs are under way."
    if not lanes:
        return f"{run.stage[:1].upper()}{run.stage[1:]}." if run.open and run.stage else ""
    if viewer.role == "owner":
        return f"Waiting for you{_awaited(lanes[0])}."
    lanes.sort(key=lambda lane: _ORDER[lane.state])
    alike = [lane for lane in lanes if _state(lane) == _state(lanes[0])]
    return f"Waiting for {_names([lane.owner for lane in alike])}{_awaited(lanes[0])}."


def left_s(run: RunState) -> float | None:
    """Estimated seconds left at the last progress of the run, at its average speed; None if unknown."""
    share = run.share
    if not run.open or not share or share >= 1 or run.began is None or run.progressed is None:
        return None
    return (run.progressed - run.began) * (1 - share) / share


def viewers_of(watched: Watched) -> Iterator[str]:
    """Views that the curator may choose."""
    owners = sorted({lane.owner for run in watched.runs for lane in run.lanes})
    yield from ("curator", *(f"owner:{name}" for name in owners))
    yield from (f"consumer:{name}" for name in sorted({run.consumer for run in watched.runs}))


def _head(seen: Watched, viewer: Viewer, choice: bool) -> html.Html:
    """Title, the state of the connection, which the script fills, and the choice of another view."""
    whose = "" if viewer.role == "curator" else f" as {viewer.name} sees them"
    link = html.tag("span", "This page does not renew itself without its script.", id="link", role="status")
    parts = [
        html.tag("h1", f"Runs of {seen.curator or 'the curator'}{whose}"),
        html.tag("p", link, " ", html.tag("span", seen.note, id="note"), class_="about"),
    ]
    if choice:
        own = words_of(viewer)
        views = dict.fromkeys([*(viewers_of(seen) if viewer.role == "curator" else ["curator"]), own])
        options = (
            html.tag("option", view.replace(":", " "), value=view, selected="selected" if view == own else "")
            for view in views
        )
        select = html.tag("select", *options, id="as", name="as")
        parts.append(
            html.tag("form", html.tag("label", "View as ", select), html.tag("button", "Show", type="submit"))
        )
    return html.joined(parts, "\n")


def _run(run: RunState, viewer: Viewer) -> html.Html:
    whose = viewer.role == "owner"
    lanes = sorted(run.lanes, key=lambda lane: (_ORDER[lane.state], lane.owner))
    rest, most = lanes[MOST_LANES:], max((lane.seen for lane in lanes), default=0)
    by = f" by {run.protocol}" if run.protocol and run.protocol != run.kind else ""
    rows = [
        (
            lane.owner,
            html.tag("span", _STATES[lane.state], class_=f"badge {lane.state}"),
            _why(lane),
            "" if lane.rows is None else html.number(lane.rows),
            html.joined([html.number(lane.seen), _bar(lane.seen, most)]),
        )
        for lane in lanes[:MOST_LANES]
    ]
    words = waiting(run, viewer)
    parts = [
        html.about(f"{run.kind}{by} for {run.consumer}"),
        html.tag("p", words, class_="waiting") if words else "",
        _progress(run),
        _tiles(run, viewer),
        html.banner(run.reason) if run.reason else "",
        html.tag("h3", "You" if whose else "Owners") if rows else "",
        html.table("", ("owner", "state", "why", ">rows held", ">rows that came"), rows, wide=True),
        html.note(f"{len(rest):,} more: {_counted(rest)}" if rest else ""),
        html.pair(_curves(run, viewer)),
        html.note(run.plan),
    ]
    return html.tag("div", html.joined(parts, "\n"), id="run")


def _progress(run: RunState) -> html.Html:
    share, left = run.share, left_s(run)
    if not run.open and share is None:
        return html.Html()
    label = _status(run) if share is None else f"{100 * share:.0f} %"
    if run.rounds > 1:
        label = f"round {run.done:,} of {run.rounds:,}"
    value = "" if share is None else 100 * share
    bar = html.tag("progress", max=100, value=value, aria_label=f"Progress of {run.run}")
    ends = None if left is None or run.progressed is None else run.progressed + left
    rest = "" if ends is None else _ticking("about {} left", to=ends)
    return html.tag("div", bar, html.tag("span", label), rest, class_="progress")


def _tiles(run: RunState, viewer: Viewer) -> html.Html:
    since = ("since ", run.began or run.opened) if run.ended is None else ("at ", run.ended)
    entries = [("status", _status(run), html.joined([since[0], _time(since[1])]))]
    if run.wanted:
        entries.append(
            ("rows asked for", html.number(run.wanted), html.Html(html.tag("span", f"for {run.consumer}")))
        )
    if viewer.role == "owner":
        entries.append(
            ("of your rows came", html.number(_came(run, viewer)), html.tag("span", "in this run"))
        )
    else:
        plan = f"the plan expects {run.planned:,}" if run.planned else "in this run"
        entries.append(("rows that came", html.number(run.rows), html.tag("span", plan)))
    return html.tiles(entries)


def _curves(run: RunState, viewer: Viewer) -> Iterator[html.Html]:
    if viewer.role != "owner" and run.planned and run.came:
        begun = (run.began or run.opened, float(run.planned))
        left = [begun, *((at, max(0.0, float(run.planned - rows))) for at, rows in run.came)]
        yield _over_time("Rows left of the plan", left)
    if len(run.mmd2) > 1:
        points = tuple(Point(at, value) for at, value in _thinned(run.mmd2))
        title = "MMD² to the consumer's rows, as told"
        caption = (
            "By what rounds see: a mean of D_v with noise, and the public rows beside those that came. The "
            "verdict is without both. Known in simulations alone."
        )
        yield html.figure(title, lines(title, "round", "MMD²", [Series("", points)]), caption)


def _over_time(title: str, points: Sequence[tuple[float, float]]) -> html.Html:
    """Draw a value over time that holds until its next point."""
    thin = _thinned(points)
    corners = [(at, value) for (_, value), (at, _) in pairwise(thin)]
    stairs = [point for both in zip(thin, [*corners, None], strict=True) for point in both if point]
    series = Series("", tuple(Point(at, value) for at, value in stairs))
    return html.figure(title, lines(title, "", "", [series], times=True), "")


def _why(lane: OwnerStatus) -> html.Html:
    """Cause of an owner's state, with times that go on."""
    parts = [lane.why]
    if lane.since is not None:
        parts.append(_ticking(", {} so far" if lane.why else "{} so far", since=lane.since))
    if lane.due is not None:
        parts.append(_ticking("; without it the run goes on in {}", to=lane.due))
    return html.tag("span", *parts, class_="why") if any(parts) else html.Html()


def _bar(value: int, most: int) -> html.Html:
    if not value:
        return html.Html()
    return html.tag("progress", class_="bar", max=most, value=value, aria_hidden="true")


def _learned(seen: Watched, viewer: Viewer) -> html.Html:
    drawn = picture(seen.learned, "By the curator's ledger, as far as it is written")
    if viewer.role != "owner" or not drawn:
        return drawn
    bound = (
        "What the consumer and other owners learned of your rows would tell of theirs: your own ledger "
        "bounds it (fedkme audit ledger)."
    )
    return html.joined([drawn, html.note(bound)])


def _budget(seen: Watched) -> html.Html:
    budget = seen.budget
    if budget is None:
        return html.Html()
    spent = budget.spent[-1][1] if budget.spent else 0.0
    finite = math.isfinite(spent)
    begun = min((run.opened for run in seen.runs), default=0.0)
    points = [(begun, 0.0), *(point for point in budget.spent if point[0] >= begun)]
    left = [(at, max(0.0, budget.most - epsilon)) for at, epsilon in points if math.isfinite(epsilon)]
    entries = [
        ("ε left", html.short(left[-1][1] if finite else 0.0), f"of {budget.most:g} at δ = {budget.delta:g}"),
        ("ε spent", html.short(spent) if finite else "without a bound", "by the sound accountant"),
    ]
    return html.joined([html.tiles(entries), _over_time("ε left", left) if len(left) > 1 else ""])


def _events(events: Iterable[News]) -> html.Html:
    items = [
        html.tag(
            "li",
            _time(event.at),
            " ".join(filter(None, (event.run, event.owner, event.text))),
            html.tag("span", f": {event.why}", class_="why") if event.why else "",
        )
        for event in events
    ]
    return html.tag("ol", *items, class_="events") if items else html.Html()


def _runs(runs: Sequence[RunState], viewer: Viewer, query: Mapping[str, str]) -> html.Html:
    if len(runs) < 2:
        return html.Html()
    whose = f"as={query['as']}&" if "as" in query else ""
    rows = [
        (
            html.tag("a", run.run, href=f"?{whose}run={run.run}"),
            run.consumer,
            run.kind,
            _status(run),
            html.number(_came(run, viewer)),
            _time(run.opened),
        )
        for run in runs
    ]
    return html.table("", ("run", "for", "kind", "status", ">rows", "opened"), rows)


def _time(at: float) -> html.Html:
    """A time, of which the script writes the viewer's own clock."""
    return html.tag("time", f"{datetime.fromtimestamp(at, UTC):%d %B, %H:%M:%S} UTC", data_at=at)


def _ticking(text: str, since: float | None = None, to: float | None = None) -> html.Html:
    """A text with a time that the script has go on; `{}` stands for it."""
    ends = {"data_from" if to is None else "data_to": since if to is None else to}
    return html.tag("span", data_text=text, **{name: at or 0.0 for name, at in ends.items()})


def _came(run: RunState, viewer: Viewer) -> int:
    """Rows received in a run; for an owner, its own rows."""
    return sum(lane.seen for lane in run.lanes) if viewer.role == "owner" else run.rows


def _status(run: RunState) -> str:
    return _STATUSES.get(run.status, run.status)


def _state(lane: OwnerStatus) -> str:
    """State of an owner in words, with its cause."""
    join = " " if lane.state == "asked" else ": "
    return f"{_STATES[lane.state]}{join}{lane.why}" if lane.why else _STATES[lane.state]


def _awaited(lane: OwnerStatus) -> str:
    """End of "waiting for an owner": the owner's next step, or its state."""
    if lane.state == "approval":
        return f" to approve it: {lane.why}" if lane.why else " to approve it"
    return f": {_state(lane)}"


def _names(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{', '.join(names[:2])} and {len(names) - 2} more owners"


def _counted(lanes: Iterable[OwnerStatus]) -> str:
    groups = groupby(lanes, key=lambda lane: lane.state)  # lanes are sorted by state
    return ", ".join(f"{len(list(group)):,} {_STATES[state]}" for state, group in groups)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Thin a curve to at most MOST_POINTS points and its last point."""
    step = math.ceil(len(points) / MOST_POINTS)
    return [*points[: -1 : max(step, 1)], *points[-1:]]
