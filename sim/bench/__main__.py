"""`python -m sim.bench NAME SETTINGS`: one benchmark in this process, its result as a line of JSON.

`fedkme bench` runs each benchmark so: nothing else was imported, and BLAS has one thread, as it has in the parties.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict

from sim.bench.result import BenchSettings, Result
from sim.bench.rounds import measure_rounds

BENCHMARKS: Mapping[str, Callable[[BenchSettings], Result]] = {"rounds": measure_rounds}

if __name__ == "__main__":
    name, settings = sys.argv[1:]
    print(json.dumps(asdict(BENCHMARKS[name](BenchSettings.model_validate_json(settings)))))
