"""The verbs of the Python API; each works in a notebook, a thread and a script."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import numpy as np

from consumer.results import alone, place_of
from fedkme.errors import ConfigError
from fedkme.protocols import AUTO
from fedkme.releases.choice import Task
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from sim.api.frames import NO_OWNERS, Rows, SchemaLike, owners_of, path_of, schema_of, table_of
from sim.api.progress import CallProgress, following
from sim.api.releases import ReleaseResult, load_release_result
from sim.api.summaries import SummaryResult, load_summary
from sim.api.sweeps import SweepTable
from sim.config import Baseline, Engine, SimulationSettings, assignments_of, load_simulation, simulation_of
from sim.match.target import simulate as run_simulation
from sim.release_config import plan_for, release_of
from sim.releases import simulate_release
from sim.report.write import REMEDY, read_object
from sim.scenarios.base import Scenario
from sim.sweep.grid import AxisValue, SweepSettings
from sim.sweep.run import sweep as run_sweep
from sim.sweep.table import FILE

_ARGUMENTS = {
    "summary.p": "rows",
    "summary.privacy.epsilon": "epsilon",
    "summary.privacy.delta": "delta",
    "release.kind": "method",
    "release.epsilon": "epsilon",
    "release.delta": "delta",
    "release.rows": "rows",
}
"""Argument of a call for each scenario key that it sets."""


def summarize(
    owners: Mapping[str, Rows] | Rows,
    validation: Rows,
    rows: int,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    real_rows: bool = True,
    schema: SchemaLike | None = None,
    site_column: str | None = None,
    test: Rows | None = None,
    public: Rows | None = None,
    seed: int | None = None,
    baselines: Sequence[Baseline] | None = None,
    out: str | Path | None = None,
    progress: bool = True,
    **settings: Any,
) -> SummaryResult:
    """Choose rows of owners that together look like a validation set; every party runs in this process.

    Examples:
        >>> import fedkme as fk
        >>> folder = "examples/own-files"
        >>> clinics = {name: f"{folder}/{name}.csv" for name in ("north", "south", "west")}
        >>> ours, schema = f"{folder}/validation.csv", f"{folder}/schema.toml"
        >>> run = fk.summarize(clinics, ours, rows=40, schema=schema)
        >>> len(run.rows), run.verdict is not None
        (40, True)

    Args:
        owners: rows of each owner by name (a-z, 0-9 and '-'), as data frames or files; or a single frame or
            file with a `site_column`.
        validation: D_v.
        rows: p, rows of the summary.
        epsilon: privacy budget of a row of D_v, and of an owner's row towards other owners.
        delta: delta of that epsilon.
        real_rows: False: no real row leaves an owner. Owners make a release, and its synthetic rows are
            chosen by exact D_v here, at no cost to D_v; they are for you alone (`fk.match`).
        schema: public columns of all rows.
        site_column: column of a single table that names the owner of each row.
        test: held-back rows that judge the summary.
        public: rows that every party has, D_init.
        seed: makes the call a simulation, which repeats and whose noise protects nobody; None: noise comes
            from the operating system.
        baselines: ways to choose rows without privacy, for comparison; only with a seed, and then None means
            all baselines.
        out: folder of the run, new or empty; default the next free runs/frames-N.
        progress: whether to show a bar.
        **settings: any other key of a scenario (docs/python.md), a table as a dict: `kernel={"gamma": 2.0}`.

    Raises:
        FedkmeError: a key is wrong, rows do not fit the schema, or the run failed; by number in
            docs/errors.md.
    """
    with following("summary", progress) as shown, _in_words_of_calls():
        domain, tables = _tables(owners, site_column, schema)
        written: dict[str, Any] = {
            **_frames(seed),
            "summary": {"p": rows, "real_rows": real_rows, "privacy": {"epsilon": epsilon, "delta": delta}},
            "baselines": _baselines(baselines, seed),
        }
        chosen = simulation_of(written, assignments_of(settings), "fedkme.summarize")
        parties = _scenario(domain, tables, validation, test, public)
        if not len(parties.validation):
            raise ConfigError("validation has no rows", "Give validation=, the rows to look like.")
        return _summary(chosen, out, shown, parties)


def simulate(
    scenario: str | Path = "digits",
    *,
    seed: int = 0,
    engine: Engine = "inprocess",
    out: str | Path | None = None,
    progress: bool = True,
    **settings: Any,
) -> SummaryResult:
    """Simulate a summary of a shipped scenario or a TOML file: `fk.simulate("digits", p=100)`.

    Examples:
        >>> run = simulate("digits", p=20, protocol="uniform", downstream=False, baselines=[])
        >>> run.rows.shape, run.metrics["points_accessed"]["total"]
        ((20, 65), 20)

    Args:
        scenario: name of a shipped scenario, or a file.
        seed: seed of everything random.
        engine: `inprocess`, `processes` for real parties over mutual TLS, or `ray` for owners in actors of a
            cluster; the same bits.
        out: folder of the run, new or empty; default the next free runs/NAME-N.
        progress: whether to show a bar.
        **settings: keys of the scenario, a table as a dict: `p=50, privacy={"epsilon": 3.0}`.

    Raises:
        FedkmeError: a key is wrong, a file is missing, or the run failed; by number in docs/errors.md.
    """
    with following("summary", progress) as shown, _in_words_of_calls():
        if not isinstance(scenario, str | Path):
            raise ConfigError("the scenario is neither a name nor a file", "Frames are for fk.summarize.")
        values = {"engine": engine, "seed": seed, **settings}
        return _summary(load_simulation(str(scenario), assignments_of(values)), out, shown)


def release(
    owners: Mapping[str, Rows] | Rows,
    *,
    method: str = AUTO,
    task: Task = "rows",
    secure: bool = False,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    schema: SchemaLike | None = None,
    site_column: str | None = None,
    rows: int | None = None,
    test: Rows | None = None,
    public: Rows | None = None,
    seed: int | None = None,
    out: str | Path | None = None,
    progress: bool = True,
    **settings: Any,
) -> ReleaseResult:
    """Make synthetic data with the statistics of all owners' rows; every party runs in this process.

    Examples:
        >>> import fedkme as fk
        >>> folder = "examples/own-files"
        >>> clinics = {name: f"{folder}/{name}.csv" for name in ("north", "south", "west")}
        >>> made = fk.release(clinics, schema=f"{folder}/schema.toml", rows=100, progress=False)
        >>> made.method, made.rows.columns.tolist()
        ('marginals', ['age', 'pressure', 'smoker', 'ill'])

    Args:
        owners: rows of each owner by name (a-z, 0-9 and '-'), as data frames or files; or a single frame or
            file with a `site_column`.
        method: a method of docs/releases.md; `auto` chooses by public facts, and `why` of the result gives
            the reason.
        task: use that `auto` chooses for: `rows`, or questions to a `kernel`'s embedding.
        secure: owners do not trust the curator: it sees noisy sums alone, by secure aggregation.
        epsilon: epsilon of the whole release, for any one row.
        delta: delta of that epsilon.
        schema: public columns of all rows.
        site_column: column of a single table that names the owner of each row.
        rows: number of synthetic rows; default by the method.
        test: held-back rows that judge the release, in a simulation.
        public: rows that every party has.
        seed: makes the call a simulation, as in `summarize`.
        out: folder of the run, new or empty; default the next free runs/METHOD-frames-N.
        progress: whether to show a bar.
        **settings: keys of the method; `pooling={"security": {"dropouts": 1}}` if an owner may be lost.

    Raises:
        FedkmeError: a key is wrong, rows do not fit the schema, or the run failed; by number in
            docs/errors.md.
    """
    with following("release", progress) as shown, _in_words_of_calls():
        if task not in (tasks := get_args(Task)):
            raise ConfigError(f"{str(task)!r} is no task", f"Known are {', '.join(tasks)}.")
        parties = _scenario(*_tables(owners, site_column, schema), None, test, public)
        given: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
        given |= {} if rows is None else {"rows": rows}
        write = _frames(seed)
        changes = [*(["pooling.security.dropouts=0"] if secure else []), *assignments_of(settings)]
        plan = plan_for(write | {"release": given}, changes, parties, task) if method == AUTO else None
        given["kind"] = method if plan is None else plan.method
        chosen = release_of(write | {"release": given}, changes, "fedkme.release")
        directory, metrics = simulate_release(chosen, _folder(out), shown, parties, plan)
        _say_incomplete(metrics, shown)
        return load_release_result(directory)


def sweep(
    scenario: str | Path,
    grid: Mapping[str, Sequence[AxisValue]],
    *,
    seeds: Iterable[int] = (0,),
    jobs: int | str = 1,
    out: str | Path = "runs/sweep",
    progress: bool = True,
    **settings: Any,
) -> SweepTable:
    """Simulate a scenario once for each combination: `fk.sweep("digits", {"p": [50, 100]}, seeds=range(3))`.

    Another call with the same folder runs only the runs that the folder's table lacks.

    Examples:
        >>> shown = {"protocol": "uniform", "downstream": False, "baselines": [], "progress": False}
        >>> table = sweep("digits", {"p": [10, 20]}, out="runs/sizes", **shown)
        >>> table.rows["set.p"].tolist()
        [10, 20]

    Args:
        scenario: name of a shipped scenario, or a file.
        grid: values of each axis; an axis is any key of a scenario.
        seeds: every combination runs once with each seed.
        jobs: runs at a time, each in a process of one thread; or `ray`, `ray://HOST:PORT`, `slurm`.
        out: folder of the table and the page.
        progress: whether to show a bar.
        **settings: keys of the scenario for all runs.

    Raises:
        FedkmeError: a key or value is wrong; raised before any run. A run that fails is a row of the table.
    """
    with following("sweep", progress) as shown, _in_words_of_calls():
        if not isinstance(grid, Mapping):
            raise ConfigError("the grid is no dict", 'Give the values of each key: {"p": [50, 100]}.')
        for key, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                cause = f"{key!r} has no list of values"
                raise ConfigError(cause, f'Give a list: {{"{key}": [{values!r}]}}.')
        chosen = SweepSettings(
            scenario=str(scenario),
            out=path_of(out),
            grid={key: tuple(values) for key, values in grid.items()},
            seeds=tuple(seeds),
            assignments=tuple(assignments_of(settings)),
            jobs=jobs,
        )
        result = run_sweep(chosen, shown.hear)
        if result.failures:
            shown.warn(f"{len(result.failures)} of {len(result.rows)} runs failed; `failures` has them")
        return SweepTable(chosen.out, tuple(row["key"] for row in result.rows))


def load(folder: str | Path) -> SummaryResult | ReleaseResult | SweepTable:
    """Open the result of an earlier call, or of a command, in a folder.

    Examples:
        >>> import fedkme as fk
        >>> run = fk.simulate("digits", p=10, protocol="uniform", downstream=False, baselines=[])
        >>> load(run.folder).rows.equals(run.rows)
        True

    Raises:
        ConfigError: the folder is not the folder of a run or a sweep.
    """
    place = path_of(folder)
    if (place / FILE).exists():
        return SweepTable(place)
    record, matched = place / "record.json", place / "consumer" / alone("metrics.json")
    released = (place / "release.npz").exists()
    stopped = not released and record.exists() and read_object(record).get("kind") == "release"
    if (released or stopped) and not matched.exists():
        return load_release_result(place)
    if place.is_dir() and not place_of(place, "metrics.json").exists():
        raise ConfigError(f"{place} is no folder of a run or a sweep", REMEDY)
    return load_summary(place)


@contextmanager
def _in_words_of_calls() -> Iterator[None]:
    """Rename scenario keys in errors to the arguments that set them."""
    try:
        yield
    except ConfigError as error:
        cause, remedy = (
            re.sub(r"'([a-z.]+)'", lambda key: f"'{_ARGUMENTS.get(key[1], key[1])}'", text)
            for text in (error.cause, error.remedy)
        )
        if meant := [f"'{name}'" for key, name in _ARGUMENTS.items() if f"'{key}'" in error.remedy]:
            remedy = f"Did you mean {meant[0]}?"
        raise ConfigError(cause, remedy.replace("another --out", "another out=")) from None


def _tables(
    owners: Mapping[str, Rows] | Rows, site_column: str | None, schema: SchemaLike | None
) -> tuple[Schema, dict[str, Table]]:
    """The schema and owners' rows; refuses missing owners before a missing schema."""
    if site_column is None and not isinstance(owners, Mapping):
        raise ConfigError("there are no owners", NO_OWNERS)
    domain = schema_of(schema)
    return domain, owners_of(owners, site_column, domain)


def _frames(seed: int | None) -> dict[str, Any]:
    """Settings of every run on a caller's rows."""
    noise = "secure" if seed is None else "seeded"
    return {"scenario": {"kind": "frames"}, "engine": "inprocess", "noise": noise, "seed": seed or 0}


def _baselines(names: Sequence[Baseline] | None, seed: int | None) -> list[Baseline]:
    """Names of the baselines.

    Raises:
        ConfigError: baselines are asked for without a seed: the rows may be real.
    """
    if seed is None and names:
        cause = "baselines look at owners' rows without any noise"
        raise ConfigError(cause, "Give seed= to say that this is a simulation.")
    if isinstance(names, str):
        raise ConfigError("baselines is a list: ['" + names + "']", "Put the name into a list.")
    if names is None and seed is not None:
        return list(SimulationSettings.model_fields["baselines"].default)
    return list(names or ())


def _scenario(
    schema: Schema,
    owners: Mapping[str, Table],
    validation: Rows | None,
    test: Rows | None,
    public: Rows | None,
) -> Scenario:
    nothing = Table(np.empty((0, schema.width)))
    return Scenario(
        name="frames",
        schema=schema,
        owners=owners,
        validation=nothing if validation is None else table_of(validation, schema, "validation"),
        test=nothing if test is None else table_of(test, schema, "test", private=False),
        seeds=None if public is None else table_of(public, schema, "public", private=False),
    )


def _summary(
    settings: SimulationSettings, out: str | Path | None, shown: CallProgress, parties: Scenario | None = None
) -> SummaryResult:
    directory, metrics = run_simulation(settings, _folder(out), shown, parties)
    _say_incomplete(metrics, shown)
    return load_summary(directory)


def _say_incomplete(metrics: Mapping[str, Any], shown: CallProgress) -> None:
    if metrics["code"]:
        shown.warn(f"the run is {metrics['status']} (error {metrics['code']}): {metrics['reason']}")


def _folder(out: str | Path | None) -> Path | None:
    return None if out is None else path_of(out)
