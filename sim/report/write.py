"""A run directory as one page that opens anywhere, and as the lines that end a run on a terminal."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedkme import __version__
from fedkme.config import load_json
from fedkme.errors import ConfigError
from fedkme.inputs import read_text
from fedkme.pages.html import number
from fedkme.tables.files import read_arrays
from fedkme.verbs import table_of
from fedkme.verdict import FORMS, lines_of
from sim import formatting
from sim.evaluation.metrics import read_rounds
from sim.families import Words, words_of
from sim.report import privacy
from sim.report.release_page import ReleaseFolder, render_release
from sim.report.summary_page import SummaryFolder, render

REQUIRED: dict[str, type] = {"status": str, "scenario": str, "protocol": str, "K": int, "p": int}
LISTS = ("privacy", "privacy_published", "faults")
TABLES = (
    *("points_accessed", "cells", "mmd2", "mmd2_counted", "mmd2_test", "percent_over_greedy", "effective"),
    *("downstream", "downstream_baselines", "timing", "bytes", "payouts", "curator_only", "plan", "columns"),
)
OPTIONAL = dict.fromkeys(LISTS, list) | dict.fromkeys(TABLES, dict)
OF_RELEASES: tuple[dict[str, type], dict[str, type]] = (
    {"status": str, "scenario": str, "method": str, "K": int, "N": int, "rows": int},
    dict.fromkeys(("evaluation", "bytes", "timing"), dict)
    | dict.fromkeys(("privacy", "faults", "files", "lost"), list),
)
"""Keys that metrics.json of a release must and may have."""
REPORT = "report.html"
WIDEST = 100
"""Columns of a terminal that are used, at most."""
REMEDY = "Give the directory of a run that has ended."


def write_report(directory: Path) -> Path:
    """Write report.html of a summary or a release into its run directory, as far as the run got.

    Returns its path.

    It is one file, with no scripts and nothing loaded from elsewhere.

    Returns:
        The path of the page.

    Raises:
        ConfigError: metrics.json is missing, unreadable or not that of a run.
        DataError: summary.npz is there and cannot be read.
    """
    target = directory / REPORT
    target.write_text(_page(directory), encoding="utf-8")
    return target


def fault_of_report(directory: Path) -> tuple[str, str]:
    """Fault of the page of a run whose metrics.json holds, and why it cannot be told, if it cannot.

    A page has nothing that is not in the folder's files but the time at which they were written.

    Raises:
        ConfigError: see `write_report`.
    """
    text = read_text(directory / REPORT, errors="replace")
    made = re.search(r"<footer>fedkme (\S+)</footer>", text)
    if made is not None and made[1] != __version__:
        return "", f"fedkme {made[1]}, which made it"
    if _TIME.sub("", text) != _TIME.sub("", _page(directory)):
        return "it is not the page of this folder's files, which `fedkme report` makes", ""
    return "", ""


_TIME = re.compile(r"<time [^>]*>[^<]*</time>")


def _page(directory: Path) -> str:
    path = directory / "record.json"
    record = read_object(path) if path.exists() else {}
    return _release(directory, record) if record.get("kind") == "release" else _summary(directory)


def _summary(directory: Path) -> str:
    rows = directory / "consumer" / "summary.npz"
    summary = rows if rows.exists() else directory / "summary.npz"
    run = SummaryFolder(
        metrics=_read_metrics(directory / "metrics.json", REQUIRED, OPTIONAL),
        rounds=read_rounds(directory),
        config=_text(directory / "run.toml"),
        arrays=read_arrays(summary, "report") if summary.exists() else {},
        ended=modified(directory / "metrics.json"),
    )
    return render(run)


def modified(path: Path) -> datetime:
    """Time at which a file was written, in UTC: files of a run are not written again."""
    return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _release(directory: Path, record: formatting.Metrics) -> str:
    metrics = _read_metrics(directory / "metrics.json", *OF_RELEASES)
    return page_of_release(directory, metrics, record.get("owner_rows", {}))


def page_of_release(directory: Path, metrics: formatting.Metrics, owner_rows: Mapping[str, int]) -> str:
    """The page of a release whose files are in a folder.

    Args:
        directory: the folder.
        metrics: as metrics.json of a release has them.
        owner_rows: rows of each owner, where they are known.
    """
    files = [directory / str(name) for name in metrics.get("files", [])]
    card = next((file for file in files if file.name.endswith(".card.json") and file.exists()), None)
    release = ReleaseFolder(
        metrics=metrics,
        owner_rows=owner_rows,
        card={} if card is None else read_object(card),
        sizes={file.name: file.stat().st_size if file.exists() else None for file in files},
        config=_text(directory / "release.toml"),
        ended=modified(next(filter(Path.exists, [directory / "metrics.json", *files]), directory)),
    )
    return render_release(release)


def _text(path: Path) -> str:
    return read_text(path) if path.exists() else ""


def _read_metrics(path: Path, required: Mapping[str, type], optional: Mapping[str, type]) -> dict[str, Any]:
    metrics = read_object(path)
    for key, kind in (*required.items(), *optional.items()):
        missing = key not in metrics
        if (missing and key in required) or not (missing or isinstance(metrics[key], kind)):
            raise ConfigError(f"{path}: '{key}' is missing or of the wrong type", REMEDY)
    return metrics


def read_object(path: Path) -> dict[str, Any]:
    """Read a JSON object of a run's folder.

    Raises:
        ConfigError: the file cannot be read, or holds something else.
    """
    try:
        return load_json(path, None)  # a record of a million rows is large
    except ConfigError as error:
        raise ConfigError(error.cause, REMEDY) from None


def print_outcome(metrics: formatting.Metrics, console: Console) -> None:
    """Print a run's result, its quality, and the rows each party saw: a line each, for a first reader."""
    judged = lines_of(metrics.get("verdict"))
    privately = privacy.outcome(metrics.get("privacy", []))
    lines = [metrics.get("stand_in"), _outcome(metrics), *judged, _beside_random(metrics), *privately]
    for line in filter(None, [*lines, *formatting.reading_totals(metrics.get("reading", {}))]):
        print_line(line, console)
    if metrics.get("points_accessed", {}).get("owners_agree") is False:
        print_line(_DISAGREE, console)


def _beside_random(m: formatting.Metrics) -> str:
    """Accuracy of models trained on the form judged, or its distance to D_v, beside that of random rows."""
    reached = m.get("verdict") or {}
    best = next(
        (name for name in FORMS if reached.get("grades", {}).get(name, "") == reached.get("grade")), "alike"
    )
    form, rival = ("summary", "uniform") if best == "alike" else (f"summary_{best}", "uniform_weighted")
    ours, random = ((formatting.accuracies(m).get(name) or {}) for name in (form, rival))
    how, mmd2 = "" if best == "alike" else f" {FORMS[best]}", m.get("mmd2", {})
    if ours:
        kinds = sorted(ours)
        models = ", ".join(f"{formatting.model(kind)} {ours[kind]:.1%}" for kind in kinds)
        text = f"Right on test rows when trained on these rows{how}: {models}"
        others = ", ".join(f"{random[kind]:.1%}" for kind in kinds if kind in random)
    elif form in mmd2:
        text = f"Squared distance to D_v{how} (MMD^2): {formatting.distance(mmd2[form])}"
        others = formatting.distance(mmd2[rival]) if rival in mmd2 else ""
    else:
        return ""
    weighed = "" if best == "alike" else ", with weights"
    return text + (f"; as many rows drawn at random{weighed}: {others}." if others else ".")


_DISAGREE = "  owners and curator disagree on the rows accessed: see the ledger"


def print_summary(metrics: formatting.Metrics, console: Console) -> None:
    """Print every figure of a run in plain characters."""
    words = words_of(metrics["protocol"])
    lines = [_outcome(metrics), *formatting.plan_lines(metrics), _table(metrics)]
    lines += [*_access(metrics, words), *_privacy(metrics)]
    lines += [*_cost(metrics, words), *formatting.reading_lines(metrics.get("reading", {}))]
    lines += [f"Verdict: {reached['sentence']}."] if (reached := metrics.get("verdict")) else []
    for line in lines:
        if isinstance(line, str):
            print_line(line, console)
        elif line is not None:
            console.print(line, width=min(console.width, WIDEST))


def print_line(line: str, console: Console) -> None:
    """Print a line in as many as it takes; what begins with spaces is indented further."""
    indent = "    " if line.startswith(" ") else ""
    console.print(Text(fill(line, min(console.width, WIDEST), subsequent_indent=indent)))


def _outcome(m: formatting.Metrics) -> str:
    rows = f"{m.get('rounds', 0)} of {m['p']} rows" if m["status"] != "complete" else f"{m['p']} rows"
    seed = "" if m.get("seed") is None else f", seed {m['seed']}"
    why = f" ({m['reason']})" if m.get("reason") else ""
    engine = f", engine {m['engine']}" if m.get("engine") else ""
    owners = f"{m['K']} owner{'s' if m['K'] > 1 else ''}"
    return f"{m['scenario']}: {m['status']}{why}, {rows}, {owners}{engine}{seed}"


def _table(m: formatting.Metrics) -> Table | None:
    """One line per way of selecting rows; empty columns are left out."""
    if not m.get("mmd2"):
        return None
    titles = {"mmd2": "MMD^2", "percent_over_greedy": "vs greedy", "mmd2_counted": "+ seeds"}
    header, rows = formatting.closeness(m, {**titles, "mmd2_test": "to test"})
    by_name = formatting.accuracies(m)
    kinds = sorted({kind for scores in by_name.values() for kind in scores})
    table = table_of(["", *header[1:], *(f">{formatting.model(kind)}" for kind in kinds)])
    for name, row in zip(m["mmd2"], rows, strict=True):
        scores = by_name.get(name, {})
        cells = (f"{scores[kind]:.1%}" if kind in scores else "" for kind in kinds)
        table.add_row(*row, *cells, style="bold" if name == "summary" else "")
    return table


def _access(m: formatting.Metrics, words: Words) -> list[str]:
    access = m.get("points_accessed")
    if not access:
        return []
    line = words.line(m)
    if (effective := m.get("effective", {}).get("summary_weighted")) is not None:
        line += f"; with weights as good as {number(effective)} rows alike (effective sample size)"
    if twins := formatting.accessed_by_twins(m):
        line += f"; {twins}"
    return [line, _DISAGREE] if access.get("owners_agree") is False else [line]


def _privacy(m: formatting.Metrics) -> list[str]:
    shown = privacy.lines(m.get("privacy", []))
    if shown:
        shown.insert(0, "privacy, by the run's ledgers (only 'sound' is proven; inf: no bound)")
    if published := m.get("privacy_published"):
        shown += [
            "the variant as published (preset=published) would claim, by its settings, and what is true of it"
        ]
        shown += privacy.lines(published)
    return shown


def _cost(m: formatting.Metrics, words: Words) -> list[str]:
    timing, traffic = m.get("timing", {}), m.get("bytes", {})
    if not timing:
        return []
    moved = ""
    if any(traffic.values()):
        moved = "; " + ", ".join(f"{formatting.size(traffic.get(way))} {way}" for way in ("sent", "received"))
    p50, p99 = (number(timing.get(f"round_{percentile}_ms")) for percentile in ("p50", "p99"))
    rounds = f"rounds {p50} ms median, {p99} ms p99" if words.ranked else f"one round, {p50} ms"
    return [f"time {number(timing.get('total_s'))} s, {rounds}{moved}"]
