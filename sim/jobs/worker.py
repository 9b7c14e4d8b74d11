"""`python -m sim.jobs.worker`: reads tasks as lines of JSON, writes results as lines of JSON.

It ends at the end of its input, and so with the process that started it.
"""

import contextlib
import json
import signal
import sys

from fedkme.command_line import interrupt_on
from sim.jobs.tasks import perform


def main() -> None:
    """Run the task of every line."""
    answers = sys.stdout
    interrupt_on([signal.SIGTERM])  # so that a run's folder in /tmp is removed
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        for line in sys.stdin:
            result = perform(*json.loads(line))
            answers.write(json.dumps(result) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
