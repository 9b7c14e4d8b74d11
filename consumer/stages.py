"""Reports of how far owners' release is, as a consumer hears them from its curator."""

import time

from fedkme.exchange import StageProgress
from fedkme.ops.spans import StageTime
from fedkme.ops.supervision import StatusReporter


class StageReports:
    """Reports stages of one call, with the time that a stage takes from here."""

    def __init__(self, reporter: StatusReporter) -> None:
        self._reporter = reporter
        self._times = StageTime()

    def show(self, run: str, progress: StageProgress) -> None:
        """Report a stage of a run."""
        since = self._times.left(progress.stage, progress.fraction, time.monotonic())
        self._reporter.say(
            "progress",
            run=run,
            round=0,
            stage=progress.stage,
            line=f"{progress.line}; {since}" if since else progress.line,
            fraction=progress.fraction,
        )
