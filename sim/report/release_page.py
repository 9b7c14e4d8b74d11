"""A release's report as HTML: its files, its privacy cost, and its closeness to owners' rows.

A section of which nothing is known is the empty string. `tag` escapes every word that comes from a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fedkme.pages import html
from fedkme.pages.html import number, short
from fedkme.privacy.events import CONSUMER
from fedkme.verdict import lines_of
from sim.formatting import Metrics, reading_lines, size, title
from sim.report import columns, privacy

MOST_OWNERS = 40
LONG_NOTE = 300
"""Characters of a note from which on it is folded away."""
DISTANCE = "distance to the released embedding"
NOISE = "length of the noise in it"
"""Figures of a card that read no row."""
SIMULATED = "Held against owners' rows, which a simulation alone can see."


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseFolder:
    """Contents of a release's folder.

    A file that is not there any more has no size. It ended at a time in UTC.
    """

    metrics: Metrics
    owner_rows: Mapping[str, int]
    card: Mapping[str, Any]
    sizes: Mapping[str, int | None]
    config: str
    ended: datetime


def render_release(run: ReleaseFolder) -> str:
    """The whole page; the same bytes for the same folder."""
    m = run.metrics
    compared = m.get("evaluation", {})
    sections = [
        ("Who saw what", privacy.who_saw_what(m.get("privacy", []))),
        ("How close the rows are to the owners'", columns.distances(compared, "synthetic", SIMULATED)),
        ("How close the weighted points are to the owners' rows", _points(m)),
        ("Models trained on synthetic rows", _models(m)),
        ("Faults", html.faults(m.get("faults", []))),
    ]
    details = [
        ("Values of a few columns", columns.shares(compared, "synthetic", "real", SIMULATED)),
        ("Privacy", _privacy(m)),
        ("The release itself", _utility(run)),
        ("Owners", _owners(run)),
        ("Left out or changed while reading", html.notes(reading_lines(m.get("reading", {})))),
        ("Files", _files(run)),
        ("Time and traffic", _cost(m)),
        ("Settings: release.toml, resolved", html.listing(run.config)),
    ]
    head = html.joined([_head(run), _tiles(run)], "\n")
    return html.document(f"{m['method']} of {m['scenario']}: fedkme release", head, sections, details)


def _head(run: ReleaseFolder) -> html.Html:
    m = run.metrics
    seed = "" if m.get("seed") is None else f" · seed {m['seed']}"
    where = f" · scenario {m['scenario']} · engine {m['engine']}" if "engine" in m else ""
    lines = [
        html.tag("h1", f"{m['method']}: a release of {m['scenario']}"),
        *map(html.banner, filter(None, [m.get("stand_in")])),
        html.about(f"{title(m['method'])} · {m['status']}{where}{seed}"),
        html.written(run.ended, run.config, f"fedkme release {m['method']} release.toml"),
    ]
    if m["status"] != "complete":
        why = f": {str(m['reason']).rstrip('.')}" if m.get("reason") else ""
        ended = "failed" if m["status"] == "failed" else f"was {m['status']}"
        lines.append(html.banner(f"The release {ended}{why}."))
    verdict = "Nothing came out of this release."
    if m.get("files"):
        behind = f"sums over {number(m['N'])} rows of {number(m['K'])} owners, {_trust(m)[1]}"
        verdict = f"{number(m['rows'])} rows were made of {behind}."
    plan = [html.about(m["plan"]["line"])] if m.get("plan") else []
    return html.joined([*lines, _verdict(m, verdict), *plan], "\n")


def _verdict(m: Metrics, made: str) -> html.Html:
    """The verdict's two lines with a colour and a mark, and what was made; or what was made alone."""
    if reached := m.get("verdict"):
        return html.judged(reached["grade"], lines_of(reached), made)
    why = [html.tag("p", line, class_="why") for line in m.get("lost", ())]
    return html.tag("div", html.tag("p", made), *why, class_="verdict")


def _trust(m: Metrics) -> tuple[str, str]:
    """The trust level in a word and in a clause."""
    if "security" not in m:  # a consumer is not told
        return "", "by its curator"
    security = m["security"]
    if not security:
        return "trusted curator", "with a trusted curator"
    return "secure sums", "under secure aggregation with owners' noise"


def _tiles(run: ReleaseFolder) -> html.Html:
    m = run.metrics
    security = m.get("security") or {}
    may = "it sees each owner's exact sums"
    if security:
        may = f"{number(security.get('dropouts'))} may be lost, {number(security.get('colluders'))} collude"
    shown = [
        ("rows made", number(m["rows"]), f"by {m['method']}"),
        ("rows behind it", number(m["N"]), f"N, of K = {number(m['K'])} owners"),
        *([("trust", _trust(m)[0], may)] if "security" in m else []),
    ]
    towards = [each for each in m.get("privacy", []) if each.get("observer") == CONSUMER]
    if proven := [each for each in towards if each.get("accountant") == "sound"]:
        worst = max(proven, key=lambda each: float(each["epsilon"]))
        bounded = worst["epsilon"] != "inf"
        words = f"proven, at δ = {number(worst['delta'])}" if bounded else "nothing is proven"
        shown.insert(2, ("ε towards the consumer", number(worst["epsilon"]), words))
    utility = run.card.get("utility", {})
    if DISTANCE in utility:
        words = f"the noise in it has length {number(utility.get(NOISE))}"
        shown.append(("distance to the release", short(utility[DISTANCE]), words))
    evaluation = m.get("evaluation", {})
    if "rkhs_distance" in evaluation:
        shown.append(
            ("RKHS distance", short(evaluation["rkhs_distance"]), "of the points from the owners' rows")
        )
    if far := evaluation.get("columns"):
        halves = evaluation.get("real_halves", {}).get("mean")
        words = f"mean over columns; two real halves: {number(halves)}"
        shown.append(("distance of a column", short(far["mean"]), words))
    return html.tiles(shown)


def _privacy(m: Metrics) -> html.Html:
    caption = "What each observer can learn of each owner's rows, by the ledgers of this run."
    if "security" not in m:
        caption = "What the consumer can learn of each owner's rows, by the data card."
    shown = privacy.section(m.get("privacy", []), caption)
    return html.joined([shown, privacy.NOTE]) if shown else html.note("Nothing was disclosed.")


def _points(m: Metrics) -> html.Html:
    evaluation = m.get("evaluation", {})
    names = {
        "rkhs_distance": "RKHS distance from the mean embedding of the owners' rows",
        "weights_l1": "sum of |weight|",
        "points": "points",
    }
    rows = [(text, number(evaluation[key])) for key, text in names.items() if key in evaluation]
    return html.table(SIMULATED, ("", ">"), rows)


def _models(m: Metrics) -> html.Html:
    evaluation = m.get("evaluation", {})
    rows = [
        (f"{name} rows", *(f"{scores[key]:.3f}" if key in scores else "-" for key in ("auc", "roc", "prc")))
        for name in ("synthetic", "real")
        if (scores := evaluation.get(f"trained_on_{name}"))
    ]
    caption = f"Areas under the curves, mean over models, on rows that nobody used. {SIMULATED}"
    return html.table(
        caption, ("trained on", ">AUC of scores", ">ROC of hard labels", ">PRC of hard labels"), rows
    )


def _utility(run: ReleaseFolder) -> html.Html:
    utility = run.card.get("utility", {})
    rows = [(name, number(value)) for name, value in utility.items() if isinstance(value, int | float)]
    caption = (
        f"Measured on {utility.get('measured_on', '-')}. Rows cannot be better than the noise lets them."
    )
    return html.joined(
        [html.table(caption, ("", ">"), rows), *map(_note, map(str, run.card.get("notes", [])))]
    )


def _note(text: str) -> html.Html:
    """A note of the card; of a long one that lists what it counts, the list is folded away."""
    head, _, rest = text.partition(": ")
    if len(text) <= LONG_NOTE or len(head) > LONG_NOTE:
        return html.note(text)
    return html.folded(head, html.note(rest))


def _owners(run: ReleaseFolder) -> html.Html:
    if not run.owner_rows:
        return html.Html()
    counts = run.owner_rows
    shown = sorted(sorted(counts, key=lambda name: (-counts[name], name))[:MOST_OWNERS])
    rest = len(counts) - len(shown)
    more = f" The {rest} owners with fewest are left out." if rest else ""
    rows = [html.Bar(name, ((counts[name], "main"),), number(counts[name])) for name in shown]
    caption = f"Rows that stand behind the release; these numbers are public.{more}"
    return html.figure("Rows of each owner", html.bars("Rows of each owner", rows, height=24), caption)


def _cost(m: Metrics) -> html.Html:
    timing, traffic = m.get("timing", {}), m.get("bytes", {})
    rows = []
    if "total_s" in timing:
        rows.append(("whole run", f"{number(timing['total_s'])} s"))
    if any(traffic.values()):
        rows += [(f"bytes the curator {name}", size(traffic.get(name))) for name in ("sent", "received")]
    return html.table("", ("", ">"), rows)


def _files(run: ReleaseFolder) -> html.Html:
    rows = [(name, "gone" if count is None else size(count)) for name, count in run.sizes.items()]
    return html.table("What the consumer received.", ("file", ">size"), rows)
