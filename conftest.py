"""Conditions of every test: steady examples, marks by folder, no task whose failure nobody looked at.

Hypothesis repeats itself: the same examples in every run, and no clock on a shared machine. Compiled JAX
programs are kept between processes and runs, as a release compiles the same ones on each engine.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from tests.places import ROOT

settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")

# A shell's background job ignores ctrl-C, and so would every process of the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests compile hundreds of programs that run for milliseconds. Fusion emitters take a third of that time.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    " --xla_cpu_use_fusion_emitters=false",
)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax_cache"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

PROCESSES = (
    "tests/system",
    "tests/hosts",
    "tests/ops",
    "tests/hostile",
    "tests/curator/summary/test_drawn_and_kept.py",
    "tests/fedkme/pki/test_guide.py",
    "tests/fedkme/store/test_deaths.py",
    "tests/fedkme/store/test_postgres.py",
    "tests/fedkme/test_completion.py",
    "lab/tests/bench",
    "tests/sim/cluster/test_two_nodes.py",
    "tests/sim/engines/test_processes.py",
    "tests/sim/engines/test_template.py",
    "tests/sim/jobs",
    "tests/sim/progress/test_alive.py",
    "tests/sim/scenarios/test_example.py",
    "tests/sim/sweep/test_sweep.py",
    "tests/sim/test_watch.py",
    "tests/test_site.py",
    "tests/users",
)
"""Tests of parties, shells and builds in processes of their own, or over sockets."""
LONG = (
    "tests/consumer/releases",
    "tests/curator/releases",
    "tests/fedkme/features/test_maps.py",
    "tests/operate/dossier",
    "tests/sim/api/test_calls.py",
    "tests/sim/api/test_names.py",
    "audit/tests/attacks",
    "audit/tests/chaos",
    "lab/tests/experiments",
    "audit/tests/replay",
    "lab/tests/papers/test_reproduce.py",
    "lab/tests/papers/test_reproduce_sarpatwar.py",
)
"""Tests in one process that compile by JAX, train, repeat experiments, or audit by thousands of runs."""
FAST = "not processes and not long"
"""Selection of `make test-fast`; what it leaves out is not even imported."""


@cache
def _under(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(ROOT / place) for place in places)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave slow tests out of `make test-fast`."""
    left_out = config.option.markexpr == FAST and _under(collection_path, PROCESSES + LONG)
    return True if left_out else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folders."""
    for item in items:
        if _under(item.path, PROCESSES):
            item.add_marker(pytest.mark.processes)
        if _under(item.path, LONG):
            item.add_marker(pytest.mark.long)


class _Complaints(logging.Handler):
    """Keeps what asyncio says of a task that failed unseen or was forgotten."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        if "never retrieved" in line or "destroyed but it is pending" in line:
            self.lines.append(line)


@pytest.fixture(autouse=True)
def asyncio_has_no_complaints() -> Iterator[None]:
    """Fail a test in which a task's exception was never retrieved, or a pending task was destroyed.

    A coroutine that was never awaited is a RuntimeWarning, and these are errors (pyproject.toml).
    """
    complaints = _Complaints()
    logging.getLogger("asyncio").addHandler(complaints)
    yield
    logging.getLogger("asyncio").removeHandler(complaints)
    assert not complaints.lines
