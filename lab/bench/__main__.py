"""`python -m lab.bench NAME SETTINGS`: one benchmark in this process, its result as a line of JSON.

`fedkme bench` runs each benchmark so: in an interpreter of its own, whose BLAS has one thread as in the
parties.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict

from curator.releases.method import need_packages
from fedkme.errors import FedkmeError
from fedkme.releases.settings import MerfSettings
from lab.bench.costs import measure_costs
from lab.bench.journals import measure_journals
from lab.bench.ray import measure_ray
from lab.bench.result import BenchSettings, Result
from lab.bench.rounds import measure_rounds
from lab.bench.scale import measure_scale
from lab.bench.secagg import measure_secagg
from lab.bench.selecting.measure import measure_select
from lab.bench.soak import measure_soak
from lab.bench.startup import measure_startup
from lab.bench.sums import measure_sums


def _releases(settings: BenchSettings) -> Result:
    need_packages(MerfSettings)
    from lab.bench.answers.training import measure_releases

    return measure_releases(settings)


_BENCHMARKS: Mapping[str, Callable[[BenchSettings], Result]] = {
    "rounds": measure_rounds,
    "costs": measure_costs,
    "startup": measure_startup,
    "scale": measure_scale,
    "sums": measure_sums,
    "secagg": measure_secagg,
    "select": measure_select,
    "soak": measure_soak,
    "journals": measure_journals,
    "ray": measure_ray,
    "releases": _releases,
}

if __name__ == "__main__":
    name, settings = sys.argv[1:]
    try:
        result = _BENCHMARKS[name](BenchSettings.model_validate_json(settings))
    except FedkmeError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.code) from None
    print(json.dumps(asdict(result)))
