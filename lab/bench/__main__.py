"""`python -m lab.bench NAME SETTINGS`: one benchmark in this process, its result as a line of JSON.

`fedkme bench` runs each benchmark so: in an interpreter of its own, whose BLAS has one thread as in the
parties.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from importlib import import_module

from fedkme.errors import FedkmeError
from lab.bench.result import BenchSettings

if __name__ == "__main__":
    name, settings = sys.argv[1:]
    try:
        result = import_module(f"lab.bench.{name}").measure(BenchSettings.model_validate_json(settings))
    except FedkmeError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(error.code) from None
    print(json.dumps(asdict(result)))
