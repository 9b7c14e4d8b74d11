"""`python -m sim.jobs.worker`: tasks come as lines of JSON, results go back as lines of JSON.

It ends when its input does: with the process that started it, whatever ended that.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys

from sim.jobs.tasks import perform


def main() -> None:
    """Answer every line."""
    answers = sys.stdout
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else a run's folder in /tmp would be left
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        for line in sys.stdin:
            result = perform(*json.loads(line))
            answers.write(json.dumps(result) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
