"""`python -m sim.sweep.worker`: settings come as lines of JSON, rows go back as lines of JSON.

It ends when its input does: with the sweep that started it, whatever ended that.
"""

from __future__ import annotations

import contextlib
import json
import sys

from sim.config import SimulationSettings
from sim.sweep.measure import measure


def main() -> None:
    """Answer every line."""
    answers = sys.stdout
    with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        for line in sys.stdin:
            row = measure(SimulationSettings.model_validate(json.loads(line)))
            answers.write(json.dumps(row) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
