"""`fedkme referee`: run what is missing, print the table with what we lose first."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkme.errors import ConfigError, DataError
from fedkme.verbs import AsJson, Verbs, epilog, print_json

if TYPE_CHECKING:
    from lab.referee.checks import ChecksPlan
    from lab.referee.entrants import Entrant
    from lab.referee.figures import Figure
    from lab.referee.run import RefereePlan
    from lab.referee.tables import RefereeTable

app = Verbs()
Out = Annotated[Path, typer.Option(help="Folder of figures.csv; what it has already is not run again.")]
OUT = Path("runs/referee")
QUICK: Mapping[str, tuple[str, ...]] = {
    "acs": ("independent", "ours", "dpmm MST", "OpenDP MST"),
    "xor-2": ("independent", "ours", "dpmm MST"),
    "xor-3": ("independent", "ours"),
}
"""Entrants of `--quick` by table; on the XORs a published figure is the rival. Checks are in it, too."""
_JSON = "an object: lost_again (number), rows (place, verdict, ours, rival, published, ...), failures"


@app.callback(
    invoke_without_command=True,
    no_args_is_help=False,
    help="Score made rows by tests that others wrote; what we lose stands first.",
    epilog=epilog("fedkme referee --quick", "fedkme referee --tables adult --seeds 0,1,2 --json", json=_JSON),
)
def referee_command(
    context: typer.Context,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three tables, epsilon 1, one seed: minutes.")
    ] = False,
    tables: Annotated[str, typer.Option(help="Tables and checks, by commas; all by default.")] = "",
    entrants: Annotated[str, typer.Option(help="Entrants, by commas; all by default.")] = "",
    epsilon: Annotated[str, typer.Option(help="0.3,1,3.")] = "",
    seeds: Annotated[str, typer.Option(help="0,1,2.")] = "",
    python: Annotated[
        list[str] | None,
        typer.Option(help="NAME=PATH: interpreter of an environment that you made.", metavar="NAME=PATH"),
    ] = None,
    rival: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE: a rival's file, with --python NAME=PATH.", metavar="NAME=FILE"),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(help="sigstore-conformance=FOLDER, promtool=PROGRAM.", metavar="NAME=PATH"),
    ] = None,
    limit: Annotated[float | None, typer.Option(help="CPU seconds for an entrant; 900, quick 300.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Write lab/referee/won.csv anew.")] = False,
    short: Annotated[bool, typer.Option("--short", help="Rows lost; others counted by table.")] = False,
    out: Out = OUT,
    as_json: AsJson = False,
) -> None:
    """Run entrants and scores that OUT/figures.csv lacks, and compare ours with rivals.

    Tables whose file is not in the folder of the data, and tools whose environment was not made, are left out
    with a word. Exit status 1 if a row that was won before is lost.
    """
    if context.invoked_subcommand is not None:
        return
    from lab.referee.checks import CHECKS, ChecksPlan, paths_given
    from lab.referee.environments import interpreters
    from lab.referee.run import RefereePlan

    pythons = _pairs(python or (), "--python")
    own = _rivals(rival or (), pythons)
    tests = {check.table for check in CHECKS}
    names, only = _parts(tables), _known_entrants(entrants)
    chosen = _tables([name for name in names if name not in tests], tuple(QUICK) if quick else (), names)
    plan = RefereePlan(
        chosen,
        {name: [*_entrants(only, QUICK.get(name, ()) if quick else ()), *own] for name in chosen},
        _numbers(epsilon, "--epsilon") or ((1.0,) if quick else (0.3, 1.0, 3.0)),
        _seeds(seeds) or ((0,) if quick else (0, 1, 2)),
        interpreters(pythons),
        limit or (300.0 if quick else 900.0),
    )
    checks = ChecksPlan(
        [x for x in CHECKS if x.table in (names or tests) and x.entrant.name in (only or [x.entrant.name])],
        plan.seeds,
        plan.interpreters,
        paths_given(_pairs(given or (), "--given")),
        plan.limit,
    )
    _judge(plan, checks, out, keep, as_json, short)


def _judge(plan: RefereePlan, checks: ChecksPlan, out: Path, keep: bool, as_json: bool, short: bool) -> None:
    """Run a plan and print its table; leave with 1 if a row that was won is lost."""
    from lab.referee.checks import run_checks
    from lab.referee.figures import read_figures
    from lab.referee.run import referee

    wanted = {entrant.environment for every in plan.entrants.values() for entrant in every}
    wanted |= {score.environment for score in plan.scores if plan.tables}
    wanted |= {check.entrant.environment for check in checks.checks}
    for name in sorted(wanted - plan.interpreters.keys()):
        _say(f"{name} is left out: its environment was not made. Run: fedkme referee prepare {name}")
    run_checks(checks, out, read_figures(out), _say)
    shown = {*plan.tables, *(check.table for check in checks.checks)}
    _show(referee(plan, out, _say), shown, keep, as_json, short)


def _show(
    figures: Sequence[Figure], tables: Collection[str], keep: bool, as_json: bool, short: bool = False
) -> None:
    from lab.referee.standing import (
        LOST,
        as_markdown,
        counted,
        failures,
        lost_again,
        published_figures,
        read_won,
        standings,
        write_won,
    )

    figures = [figure for figure in figures if figure.run.table in tables]
    rows = standings(figures, published_figures())
    lost = lost_again(rows, read_won())
    if as_json:
        print_json(
            {"lost_again": len(lost), "rows": [asdict(x) for x in rows], "failures": failures(figures)}
        )
    else:
        typer.echo(as_markdown([row for row in rows if row.verdict == LOST] if short else rows))
        if short:
            typer.echo(counted(rows))
        for line in failures(figures):
            typer.echo(f"not there: {line}")
    for row in lost:
        table, epsilon, trust, name = row.place
        _say(f"was won before, and is lost: {name} on {table}, epsilon {epsilon:g}, {trust}")
    if keep:
        write_won(rows)
    elif lost:
        raise typer.Exit(1)


@app.verb("fedkme referee prepare", "fedkme referee prepare dpmm sdnist")
def prepare(
    names: Annotated[list[str] | None, typer.Argument(help="Environments; all by default.")] = None,
) -> None:
    """Make environments of other people's tools from PyPI, once, in build/referee; used offline later."""
    from lab.referee.environments import environments
    from lab.referee.environments import prepare as make

    def said(name: str) -> str:
        try:
            return f"{name}: {make(name)}"
        except DataError as error:
            if names:
                raise
            return f"{name} is left out: {error.cause}"  # the others are of use without it

    with ThreadPoolExecutor(2) as two:  # pip unpacks on one core
        for line in two.map(said, names or environments()):
            _say(line)


@app.verb("fedkme referee rows adult --seed 1 --out adult-1")
def rows(
    table: Annotated[str, typer.Argument(help="Name of the table.")],
    out: Annotated[Path, typer.Option(help="Folder to write, new.")],
    epsilon: Annotated[float, typer.Option(help="For task.json.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the split.")] = 0,
) -> None:
    """Write what an entrant gets: train.csv, owners.txt, task.json; and test.csv, which it may not read."""
    from lab.referee.figures import RunKey
    from lab.referee.run import write_task

    chosen = _tables([table], ())[table]
    if out.exists():
        raise ConfigError(f"{out} exists", "Name a new folder by --out.")
    write_task(out, chosen, chosen.split(seed), RunKey(table, "yours", epsilon, "trusted", seed, ""))


@app.verb("fedkme referee add mine --csv made.csv --table adult", json=_JSON)
def add(
    name: Annotated[str, typer.Argument(help="Name of the entrant.")],
    csv: Annotated[Path, typer.Option("--csv", help="Rows that it made.")],
    table: Annotated[str, typer.Option(help="Table of which training rows it made them.")],
    epsilon: Annotated[float, typer.Option(help="Of its release.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of the split whose training rows it had.")] = 0,
    trust: Annotated[str, typer.Option(help="trusted or secure.")] = "trusted",
    out: Out = OUT,
    as_json: AsJson = False,
) -> None:
    """Score rows made elsewhere; they stand in the table from then on."""
    from lab.referee.entrants import OURS
    from lab.referee.environments import interpreters
    from lab.referee.figures import MADE, Figure, RunKey, append_figures, read_figures
    from lab.referee.run import RefereePlan, read_made, score_rows, write_task

    if name.startswith(OURS) or trust not in ("trusted", "secure"):
        raise ConfigError(f"'{name[:40]}', {trust[:20]}: no name and trust of an entrant", "Choose others.")
    chosen = _tables([table], ())
    if not csv.is_file():
        raise DataError(f"there is no file {csv}", "Name the rows by --csv.")
    digest = hashlib.sha256(csv.read_bytes()).hexdigest()[:8]
    key = RunKey(table, name, epsilon, trust, seed, digest)
    made = read_made(csv, chosen[table])
    folder, split = out / "made" / key.folder, chosen[table].split(seed)
    done = {(figure.run, figure.name, figure.scored) for figure in read_figures(out)}
    write_task(folder, chosen[table], split, key)
    shutil.copyfile(csv, folder / "made.csv")
    if (key, MADE, "") not in done:
        append_figures(out, [Figure(key, MADE, "", float(len(made)))])
    plan = RefereePlan(chosen, {}, (), (), interpreters({}))
    for figures in score_rows(plan, key, chosen[table], lambda: split, folder, done):
        append_figures(out, figures)
    everything = read_figures(out)
    if not as_json:
        for figure in everything:
            if figure.run == key:
                typer.echo(f"{figure.name}: {figure.value:.4g}{f' ({figure.note})' if figure.note else ''}")
    _show(everything, chosen, False, as_json)


def _say(words: str) -> None:
    typer.echo(words, err=True)
    sys.stderr.flush()


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _tables(
    given: Sequence[str], usual: Sequence[str], with_checks: Sequence[str] = ()
) -> dict[str, RefereeTable]:
    """Tables by name whose files are here; others are left out with a word."""
    from lab.referee.tables import tables

    every = tables()
    names = given or () if with_checks else given or list(usual) or list(every)
    for name in names:
        if name not in every:
            raise ConfigError(f"there is no table '{name[:40]}'", f"Choose of {', '.join(every)}.")
        if not every[name].is_here():
            _say(f"{name} is left out: {every[name].file} is not in the folder of the data ($FEDKME_DATA).")
    here = {name: every[name] for name in names if every[name].is_here()}
    if not here and len(given) == len(with_checks):
        raise DataError("no table has its file", "Set FEDKME_DATA to the folder of the public data.")
    return here


def _known_entrants(text: str) -> list[str]:
    """Names of entrants of tables or checks."""
    from lab.referee.checks import CHECKS
    from lab.referee.entrants import ENTRANTS

    entrants = dict.fromkeys([*ENTRANTS, *(check.entrant.name for check in CHECKS)])
    for name in _parts(text):
        if name not in entrants:
            raise ConfigError(f"there is no entrant '{name[:40]}'", f"Choose of {', '.join(entrants)}.")
    return _parts(text)


def _entrants(only: Sequence[str], usual: Sequence[str]) -> list[Entrant]:
    from lab.referee.entrants import ENTRANTS

    return [ENTRANTS[name] for name in only or usual or ENTRANTS if name in ENTRANTS]


def _rivals(given: Sequence[str], pythons: Mapping[str, Path]) -> list[Entrant]:
    """Rivals of the user's own files."""
    from lab.referee.entrants import ENTRANTS, Entrant

    rivals = _pairs(given, "--rival")
    for name, file in rivals.items():
        if name in ENTRANTS or name not in pythons or not file.is_file():
            remedy = f"Give --rival {name}=FILE of a new name, and --python {name}=PATH."
            raise ConfigError(f"the rival {name[:40]} cannot be run", remedy)
    return [Entrant(name, file.absolute(), name) for name, file in rivals.items()]


def _pairs(given: Sequence[str], option: str) -> dict[str, Path]:
    pairs = dict[str, Path]()
    for pair in given:
        name, equals, path = pair.partition("=")
        if not (name and equals and path):
            raise ConfigError(f"{option} {pair[:60]!r} is no NAME=PATH", f"Give it as {option} dpmm=PATH.")
        pairs[name] = Path(path)
    return pairs


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in _parts(text))
    except ValueError:
        numbers = (0.0,)
    if not all(0 < value < 1000 for value in numbers):
        raise ConfigError(f"{option} {text[:40]!r} is no list of positive numbers", "Give it as 0.3,1,3.")
    return numbers


def _seeds(text: str) -> tuple[int, ...]:
    if not all(part.isdecimal() and int(part) < 10**9 for part in _parts(text)):
        raise ConfigError(f"--seeds {text[:40]!r} is no list of whole numbers", "Give it as 0,1,2.")
    return tuple(int(part) for part in _parts(text))
