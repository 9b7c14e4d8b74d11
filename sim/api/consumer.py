"""Requests of a deployed consumer from a program; results have the types of a simulation's results."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from consumer.releases.client import ReleaseConsumerSettings, release_settings_of
from consumer.releases.client import run as ask_release
from consumer.settings import ConsumerSettings
from consumer.target.client import run as ask_summary
from fedkme.config import load_toml, override, validate
from fedkme.errors import IncompleteSummaryError, NotJudgedError
from fedkme.ops.logs import unforeseen
from fedkme.ops.supervision import StatusReporter
from fedkme.party import resolve_paths
from sim.api.frames import path_of
from sim.api.progress import CallProgress, following
from sim.api.releases import ReleaseResult
from sim.api.summaries import SummaryResult
from sim.config import assignments_of
from sim.interrupts import Interrupts
from sim.match.run import report_rows
from sim.report.received import report_release


class Consumer:
    """Consumer of a deployment, by its configuration file: CONSUMER.toml of docs/deploy.md.

    A call asks the curator and waits for the end of the run. After a failure the same call goes on with the
    same request. After a success another call is another request, for which D_v pays again; `last` reads the
    result that came, at no cost.

    Examples:
        >>> from pathlib import Path
        >>> file = Path("lab.toml")
        >>> _ = file.write_text('curator = "curator.example:7700"')
        >>> lab = Consumer(file)
        >>> run = lab.summary(p=60)  # doctest: +SKIP
    """

    def __init__(self, config: str | Path) -> None:
        """Read a configuration.

        Raises:
            ConfigError: there is no such file, or the file is not TOML.
        """
        self.config = path_of(config, "file")
        self._values = load_toml(self.config)

    def summary(self, *, progress: bool = True, **request: Any) -> SummaryResult:
        """Ask for a summary: `fk.Consumer("lab.toml").summary(p=60)`.

        Args:
            progress: whether to show a bar.
            **request: keys of `[request]` in place of the file's, a table as a dict.

        Raises:
            FedkmeError: the curator's refusal or failure, or a failure here; by number in docs/errors.md.
        """
        with following("summary", progress) as shown:
            settings = self._summary_settings(request)
            try:
                with Interrupts() as interrupts:
                    interrupts.run(ask_summary(settings, CallReporter(settings.name, shown)))
            except (IncompleteSummaryError, NotJudgedError) as error:
                shown.warn(str(error))
            return _summary_of(settings)

    def release(self, *, progress: bool = True, **release: Any) -> ReleaseResult:
        """Ask for a release: `fk.Consumer("lab.toml").release(epsilon=0.5)`.

        Args:
            progress: whether to show a bar.
            **release: keys of `[release]` in place of the file's.

        Raises:
            FedkmeError: the curator's refusal or failure, or a failure here; by number in docs/errors.md.
        """
        with following("release", progress) as shown:
            settings = self._release_settings(release)
            with Interrupts() as interrupts:
                interrupts.run(ask_release(settings, CallReporter(settings.name, shown)))
            return _release_of(settings)

    def last(self) -> SummaryResult | ReleaseResult:
        """The result in the output folder; no party is asked.

        Raises:
            ConfigError: the folder has no result.
        """
        if "release" in self._values:
            return _release_of(self._release_settings({}))
        return _summary_of(self._summary_settings({}))

    def _summary_settings(self, request: Mapping[str, Any]) -> ConsumerSettings:
        return resolve_paths(
            validate(ConsumerSettings, self._changed("request", request), self._name), self.config
        )

    def _release_settings(self, release: Mapping[str, Any]) -> ReleaseConsumerSettings:
        return release_settings_of(self._changed("release", release), self.config)

    @property
    def _name(self) -> str:
        return self.config.name

    def _changed(self, table: str, values: Mapping[str, Any]) -> dict[str, Any]:
        return override(self._values, assignments_of({table: values} if values else {}))


class CallReporter(StatusReporter):
    """Reports a consumer's work to the caller in place of a log."""

    def __init__(self, name: str, shown: CallProgress) -> None:
        super().__init__(name, supervised=False)
        self._shown = shown

    def say(self, event: str, **fields: Any) -> None:
        """Show an event, or keep it as a warning."""
        match event:
            case "warning":
                self._shown.warn(fields["line"])
            case "progress" if "fraction" in fields:
                self._shown.stage(fields["stage"], fields["line"], fields["fraction"])
            case _:
                self._shown.note(fields.get("line", event))

    def unforeseen(self, error: Exception) -> None:
        """Warn of the type and place of an unexpected error, without its text."""
        self._shown.warn(f"unforeseen: {unforeseen(error)}")


def _summary_of(settings: ConsumerSettings) -> SummaryResult:
    schema, metrics = report_rows(settings)
    return SummaryResult(settings.output, settings.output, schema, metrics)


def _release_of(settings: ReleaseConsumerSettings) -> ReleaseResult:
    return ReleaseResult(settings.output, report_release(settings))
