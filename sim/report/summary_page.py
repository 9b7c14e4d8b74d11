"""Sections of a run's report as HTML: each shows measurements and explains the numbers.

A section of which nothing was measured is the empty string. `tag` escapes every word that comes from a run.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.pages import html
from fedkme.pages.html import number, short
from fedkme.pages.line_chart import Point, Series, lines
from fedkme.verdict import FORMS, lines_of
from sim.evaluation.releases import IMAGE_SIDES
from sim.families import Words, words_of
from sim.formatting import (
    Metrics,
    accessed_by_twins,
    accuracies,
    closeness,
    distance,
    method,
    methods_of,
    model,
    plan_lines,
    reading_lines,
    size,
    title,
    verdict,
)
from sim.report import columns, privacy

MOST_OWNERS = 40
MOST_IMAGES = 100
TOGETHER = "MMD² to D_v of the rows and the public seed set."
"""Caption where the record names no protocol."""
ALONE = "For the consumer alone. All of this follows from exact D_v: whoever has it can search for D_v."


@dataclass(frozen=True, slots=True, eq=False)
class SummaryFolder:
    """Contents of a run's folder.

    Attributes:
        metrics: values of metrics.json.
        rounds: lines of rounds.csv; the last one of an interrupted run may lack cells.
        config: text of run.toml.
        arrays: arrays of summary.npz: `x`, rows in the owners' units, and `y`, class indices.
        ended: time at which the run ended, in UTC.
    """

    metrics: Metrics
    rounds: Sequence[Mapping[str, str | None]]
    config: str
    arrays: Mapping[str, NDArray[Any]]
    ended: datetime


def render(run: SummaryFolder) -> str:
    """The whole page; the same bytes for the same run."""
    m = run.metrics
    words = words_of(m["protocol"])
    distances, values = _columns(m)
    sections = [
        ("Who saw what", privacy.who_saw_what(m.get("privacy", []))),
        ("How close the rows are to the consumer's", _closeness(m, words.together)),
        distances,
        ("Models trained on the summary", _downstream(m)),
        ("Faults", html.faults(m.get("faults", []))),
    ]
    details = [
        values,
        ("Privacy", _privacy(m)),
        ("Round by round", _curves(run, words)),
        ("Points accessed, by owner", _owners(run, words)),
        ("Payouts", _payouts(m, words)),
        ("The selected rows", _images(run.arrays)),
        ("Left out or changed while reading", html.notes(reading_lines(m.get("reading", {})))),
        ("Time and traffic", _cost(m, words)),
        ("Configuration: run.toml, resolved", html.listing(run.config)),
    ]
    head = html.joined([_head(run), _tiles(m, words)], "\n")
    return html.document(f"{m['scenario']}: fedkme run", head, sections, details)


def render_received(metrics: Metrics, arrays: Mapping[str, NDArray[Any]], arrived: datetime) -> str:
    """The page of a summary as its consumer knows it, which was not told whose rows came.

    Args:
        metrics: as `received_metrics` makes them.
        arrays: arrays of summary.npz.
        arrived: time at which the rows were written, in UTC.
    """
    m = metrics
    head = [
        html.tag("h1", f"{m['consumer']}: {m['run']}"),
        _verdict(m),
        html.about(f"{m['status']} · p = {m['p']} rows · γ = {number(m['gamma'])}"),
        html.written(arrived),
        *map(html.about, plan_lines(m)),
        html.banner(ALONE),
        *(html.banner(f"{m['rows']} of {m['p']} rows came.") for _ in range(m["status"] != "complete")),
    ]
    distances, values = _columns(m)
    sections = [
        ("Who saw what", privacy.who_saw_what(m.get("privacy", []))),
        ("How close the rows are to the consumer's", _closeness(m, TOGETHER)),
        ("What to train on", _training(m)),
        distances,
        ("Models trained on the summary", _downstream(m)),
    ]
    details = [values, ("Privacy", _privacy(m)), ("The selected rows", _images(arrays))]
    return html.document(f"{m['run']}: fedkme summary", html.joined(head, "\n"), sections, details)


def _verdict(m: Metrics) -> html.Html:
    """The verdict's two lines with a colour and a mark, and the reason below them; or what came out."""
    if not (reached := m.get("verdict")):
        return html.tag("div", html.tag("p", verdict(m)), class_="verdict")
    return html.judged(reached["grade"], lines_of(reached), reached["sentence"].replace("MMD^2", "MMD²"))


def _head(run: SummaryFolder) -> html.Html:
    m = run.metrics
    seed = "" if m.get("seed") is None else f" · seed {m['seed']}"
    words = (
        f"{title(m['protocol'])} · {m['status']} · engine {m.get('engine', '-')} · "
        f"K = {m['K']} owners · p = {m['p']} rows{seed}"
        f" · γ = {number(m.get('gamma'))} · d = {number(m.get('dimension'))}"
    )
    lines = [
        html.tag("h1", m["scenario"]),
        *map(html.banner, filter(None, [m.get("stand_in")])),
        _verdict(m),
        html.about(words),
        html.written(run.ended, run.config, "fedkme sim run run.toml"),
    ]
    if m["status"] != "complete":
        why = f": {m['reason'].rstrip('.')}" if m.get("reason") else ""
        lines.append(
            html.banner(f"The run was {m['status']} after round {m.get('rounds', 0)} of {m['p']}{why}.")
        )
    if m.get("points_accessed", {}).get("owners_agree") is False:
        lines.append(
            html.banner("Owners and curator disagree on the points accessed: one of them lost count.")
        )
    return html.joined([*lines, *map(html.about, plan_lines(m))], "\n")


def _tiles(m: Metrics, words: Words) -> html.Html:
    access = m.get("points_accessed", {})
    sound = [
        float(entry["epsilon"])
        for entry in m.get("privacy", [])
        if entry.get("accountant") == "sound" and "owners" in str(entry.get("observer"))
    ]
    shown = [
        ("MMD² to D_v", distance(m.get("mmd2", {}).get("summary")), _match(m)),
        ("points accessed", number(access.get("total")), f"{number(access.get('wasted'))} {words.unused}"),
    ]
    if words.ranked:
        shown.append(("ρ", number(access.get("rho")), "points accessed / (p + |D_v|)"))
    for name, accuracy in m.get("downstream", {}).items():
        shown.append((f"accuracy, {model(name)}", f"{accuracy:.1%}", "trained on the summary"))
    if sound:
        proof = "proven: see Privacy" if math.isfinite(max(sound)) else "nothing is proven: see Privacy"
        shown.append(("ε towards owners", short(max(sound)), proof))
    shown.append(words.tile(m))
    return html.tiles(shown)


def _match(m: Metrics) -> str:
    """Note on the first figure, whose form may not be the one that the verdict speaks of."""
    weighted = m.get("mmd2", {}).get("summary_weighted")
    forms = "" if weighted is None else f"of rows alike; weighted {distance(weighted)}; "
    return f"{forms}0 is a perfect match"


_TITLES = {
    "mmd2": "MMD² to D_v",
    "percent_over_greedy": "over greedy",
    "mmd2_counted": "with seed set",
    "mmd2_test": "to test rows",
    "effective": "effective rows",
}
_NOTES = {
    "percent_over_greedy": "Over greedy: by how much MMD² exceeds non-private greedy's.",
    "mmd2_test": "Test rows took no part in selection.",
    "effective": "Effective rows: 1 / sum of squared weights.",
}


def _closeness(m: Metrics, together: str) -> html.Html:
    drawings = [
        ("Returned rows", m.get("mmd2"), "MMD² to D_v, exact kernel. Further left is closer."),
        ("Returned rows and seed set together", m.get("mmd2_counted"), together),
    ]
    first, *more = (
        html.figure(title, html.scaled(f"{title}: MMD² to D_v by method", _method_bars(values)), caption)
        if values
        else html.Html()
        for title, values, caption in drawings
    )
    notes = [text for key, text in _NOTES.items() if m.get(key)]
    if twins := accessed_by_twins(m):
        notes.append(f"{twins.capitalize()}.")
    table = html.table(" ".join(notes), *closeness(m, _TITLES))
    return html.joined([first, html.folded("All methods in figures", html.joined([*more, table]))])


def _method_bars(values: Mapping[str, float]) -> list[html.Bar]:
    return [
        html.Bar(method(name), ((value, "main" if name.startswith("summary") else "other"),), distance(value))
        for name, value in values.items()
    ]


def _curves(run: SummaryFolder, words: Words) -> html.Html:
    if not words.ranked:
        return html.Html()  # there is one round
    estimates = tuple(Point(_cell(line, "round"), _cell(line, "mmd2_estimate")) for line in run.rounds)
    counts = run.metrics.get("points_accessed", {}).get("by_round", [])
    accessed = tuple(Point(at, count) for at, count in enumerate(counts, start=1))
    drawings = [
        (
            "MMD² as the curator sees it",
            lines("Estimate of MMD² after each round", "round", "MMD² estimate", [Series("", estimates)]),
            "Squared distance of the two released means of h1, with the noise that was added to them.",
        ),
        (
            "Points accessed in each round",
            lines("Rows revealed in each round", "round", "points", [Series("", accessed)], step=True),
            "Rows that reached the curator in the round. A summary of p rows takes at least p in all.",
        ),
    ]
    return html.pair(
        [html.figure(title, drawing, caption) for title, drawing, caption in drawings if drawing]
    )


def _owners(run: SummaryFolder, words: Words) -> html.Html:
    access = run.metrics.get("points_accessed", {})
    by_owner: Mapping[str, int] = access.get("by_owner", {})
    if not by_owner:
        return html.Html()
    used = Counter(line.get("owner") for line in run.rounds)
    shown = sorted(by_owner, key=lambda name: (-by_owner[name], name))[:MOST_OWNERS]
    rows = []
    for name in sorted(shown):
        chosen, sent = min(used[name], by_owner[name]), by_owner[name]
        parts = ((chosen, "main"), (sent - chosen, "waste")) if words.ranked else ((sent, "main"),)
        rows.append(html.Bar(name, parts, f"{sent} ({chosen} used)" if words.ranked else str(sent)))
    rest = len(by_owner) - len(shown)
    more = f" The {rest} owners that sent least are left out." if rest else ""
    drawing = html.bars("Points accessed of each owner", rows)
    facts = [
        ("points accessed", number(access.get("total"))),
        (words.unused, number(access.get("wasted"))),
        ("rows of D_v sent to the curator", number(access.get("validation_points"))),
        ("ρ = points accessed / (p + |D_v|)", number(access.get("rho"))),
        (words.bound, number(access.get("bound"))),
        (
            "owners and curator count the same",
            {True: "yes", False: "no"}.get(access.get("owners_agree"), "-"),
        ),
        *words.facts(run.metrics),
    ]
    figures = [html.figure("Rows sent", drawing, words.sent + more), html.table("", ("", ">"), facts)]
    return html.pair(figures)


def _columns(m: Metrics) -> tuple[tuple[str, html.Html], tuple[str, html.Html]]:
    """Sections that compare columns, and values of a few columns, with D_v's."""
    compared = m.get("columns", {})
    note = f"Real: D_v. The summary {FORMS.get(compared.get('form', ''), 'with repeats')}."
    distances = ("Columns and pairs of columns", columns.distances(compared, "summary", note))
    return distances, ("Values of a few columns", columns.shares(compared, "summary", "D_v", note))


def _downstream(m: Metrics) -> html.Html:
    by_name = accuracies(m)
    models = sorted({kind for scores in by_name.values() for kind in scores})
    rows = [
        (methods_of(name, m), *(f"{scores[kind]:.1%}" if kind in scores else "-" for kind in models))
        for name, scores in by_name.items()
        if scores
    ]
    caption = "Accuracy on the consumer's test rows of a model that saw nothing but the selected rows."
    return html.table(caption, ("trained on rows of", *(f">{model(kind)}" for kind in models)), rows)


TRAINING_HEADER = (
    *("trained on", ">right on held-out rows", ">interval"),
    *(">logistic", ">linear SVM", ">boosted"),
)
TRAINING_NOTE = (
    "Accuracy on rows of D_v that were held out, mean of three models; the interval allows for the choice "
    "among the candidates. Independent columns are the control: they know no relation of columns."
)


def training_rows(training: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Cells of the table of what to train on, the named candidate first."""
    return [
        (
            each["name"],
            f"{each['accuracy']:.1%}",
            f"{each['low']:.1%} to {each['high']:.1%}",
            *(f"{each['models'][name]:.1%}" for name in ("logistic", "linear_svm", "boosted")),
        )
        for each in training["candidates"]
    ]


def _training(m: Metrics) -> html.Html:
    if not (training := m.get("training")):
        return html.Html()
    return html.table(TRAINING_NOTE, TRAINING_HEADER, training_rows(training))


def _privacy(m: Metrics) -> html.Html:
    shown = privacy.section(
        m.get("privacy", []),
        "What each observer can learn of each data set, by the ledgers of this run. D_v: the rows of the "
        "consumer that the summary is to match.",
    )
    published = privacy.section(
        m.get("privacy_published", []),
        "What the paper's variant of this run (preset published) would claim, by its settings, and what is "
        "true of it.",
    )
    return html.joined([shown, privacy.NOTE if shown else "", published])


def _cost(m: Metrics, words: Words) -> html.Html:
    timing, traffic = m.get("timing", {}), m.get("bytes", {})
    rounds = [("round, median", "round_p50_ms", "ms"), ("round, 99th percentile", "round_p99_ms", "ms")]
    units = [
        ("start-up", "startup_s", "s"),
        ("launch to first round", "launch_s", "s"),
        *(rounds if words.ranked else [("the round", "round_p50_ms", "ms")]),
        ("whole run", "total_s", "s"),
    ]
    rows = [
        (name, f"{number(timing[key])} {unit}") for name, key, unit in units if timing.get(key) is not None
    ]
    if any(traffic.values()):
        rows += [(f"{key} over the wire", size(count)) for key, count in traffic.items()]
    return html.table("", ("", ">"), rows)


def _payouts(m: Metrics, words: Words) -> html.Html:
    shares, by_owner = m.get("payouts", {}), m.get("points_accessed", {}).get("by_owner", {})
    rows = [(name, number(by_owner.get(name)), f"{share:.1%}") for name, share in shares.items()]
    text = html.table("Shares go by rows sent, used or not.", ("owner", ">rows sent", ">share"), rows)
    values = m.get("curator_only", {}).get("value_by_owner", {})
    if not values or not words.ranked:  # nothing was chosen by a gain
        return text
    worth = html.table(
        "Sum of the marginal gains of an owner's selected rows.",
        ("owner", ">value"),
        [(name, number(value)) for name, value in values.items()],
    )
    why = " Paying by value would tell owners who won, hence something of each other's rows."
    warning = html.tag("p", html.tag("strong", html.Html("For the curator's eyes only.")), html.Html(why))
    return html.pair([html.tag("div", text), html.tag("div", warning, worth, class_="restricted")])


def _images(arrays: Mapping[str, NDArray[Any]]) -> html.Html:
    rows = arrays.get("x")
    if rows is None or rows.ndim != 2 or rows.shape[1] not in IMAGE_SIDES or not len(rows):
        return html.Html()
    labels, side = arrays.get("y"), IMAGE_SIDES[rows.shape[1]]
    ink = rows[:MOST_IMAGES].astype(np.float64) / (float(rows.max()) or 1.0)
    pixels = np.rint(255 * (1 - np.clip(ink, 0, 1))).astype(np.uint8).reshape(-1, side, side)
    items = []
    for position, image in enumerate(pixels):
        name = "" if labels is None else f"class {labels[position]}"
        picture = html.Html(f'<img src="{html.grey_png(image)}" alt="row {position + 1}">')
        items.append(html.tag("li", picture, name))
    more = f"The first {MOST_IMAGES} of {len(rows)} rows" if len(rows) > MOST_IMAGES else "All rows"
    return html.joined(
        [html.note(f"{more} that the consumer keeps."), html.tag("ul", *items, class_="sheet")]
    )


def _cell(line: Mapping[str, str | None], key: str) -> float:
    try:
        return float(line.get(key) or "nan")
    except ValueError:
        return math.nan
