"""A simulated summary without a real row: a release of the same owners, then rows for the target.

The release is a whole run of the release protocol, by either engine, with its ledgers, page and record; the
rows for the target are in the consumer's folder beside it, and its metrics are the result.
"""

from pathlib import Path
from typing import Any

from consumer.summary.offers import gamma_of
from consumer.target.client import release_for
from curator.planning.releases import ReleasePlan
from curator.sums.settings import SumSettings
from fedkme.config import validate
from fedkme.errors import ConfigError
from fedkme.protocols import AUTO
from sim.config import LaunchSettings, SimulationSettings
from sim.engines.run_folder import write_configuration
from sim.formatting import Metrics
from sim.match.run import MatchSettings, TargetRows, match_folder
from sim.progress import Follower
from sim.release_config import ReleaseSimulation, plan_for
from sim.releases import simulate_release
from sim.run import rows_of
from sim.run import simulate as simulate_real_rows
from sim.scenarios.base import Scenario


def simulate(
    settings: SimulationSettings, out: Path | None, progress: Follower, scenario: Scenario | None = None
) -> tuple[Path, Metrics]:
    """Run a simulation of real rows (`sim.run.simulate`), or of rows for a target where the settings say so.

    Raises:
        FedkmeError: the run failed; its partial results are in the folder.
    """
    run = simulate_target if led_to_target(settings, progress) else simulate_real_rows
    return run(settings, out, progress, scenario)


def led_to_target(settings: SimulationSettings, progress: Follower) -> bool:
    """Check whether a run makes rows for a target: as asked, or as an owner's policy leaves no other way.

    With `protocol = "auto"` an owner that lets no row leave would refuse each run of a summary. So the plan
    takes rows for the target, in which that owner takes part.
    """
    summary = settings.summary
    if not summary.real_rows or summary.protocol != AUTO:
        return not summary.real_rows
    closed = [name for name, policy in settings.policies.items() if policy.rows == "none"]
    if closed:
        who = ", ".join("owners" if name == "all" else name for name in closed[:3])
        progress.note(f"plan: rows for the target, none of them real; no row may leave {who}")
    return bool(closed)


def simulate_target(
    settings: SimulationSettings, out: Path | None, progress: Follower, scenario: Scenario | None = None
) -> tuple[Path, Metrics]:
    """Release, then choose rows for the target; returns the consumer's folder and its metrics.

    Raises:
        FedkmeError: the release failed, or its rows could not be chosen; what is there stays.
    """
    scenario = rows_of(settings, scenario, progress)
    given = {name: getattr(settings, name) for name in LaunchSettings.model_fields}
    pooling = SumSettings(security=settings.security)
    release = release_for(settings.summary, scenario.schema)
    simulation = ReleaseSimulation(**given, release=release, pooling=pooling)
    directory, made = simulate_release(simulation, out, progress, scenario, _plan(simulation, scenario))
    if not made["files"] or made["code"]:
        raise ConfigError(f"the release is {made['status']}: {made['reason']}", "See its folder.")
    write_configuration(directory, settings)
    consumer = directory / "consumer"
    validation = scenario.validation
    gamma = gamma_of(settings.summary.kernel, scenario.schema)
    metrics = match_folder(
        directory,
        consumer,
        TargetRows(validation),
        validate(MatchSettings, {"rows": settings.summary.p, "gamma": gamma}, "the target"),
        progress,
        test=scenario.test if settings.downstream and len(scenario.test) else None,
        train=settings.downstream,
    )
    run = {key: made[key] for key in ("K", "N", "engine", "seed", "bytes", "timing", "faults") if key in made}
    return directory, metrics | settings.named | run


def _plan(settings: ReleaseSimulation, scenario: Scenario) -> ReleasePlan:
    """Reason for the method, for the run's lines."""
    values: dict[str, Any] = settings.model_dump(mode="json", include={*LaunchSettings.model_fields})
    return plan_for(values | {"release": {"epsilon": settings.release.epsilon}}, [], scenario, "rows")
