"""Bitwise equal results on hosts that do not agree on their floating point: DESIGN.md, decision 1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.places import ROOT

COMMAND = (sys.executable, "-m", "tests.system.transcripts")


def back_ends() -> list[dict[str, str]]:
    """Environments that make one machine compute like others, as far as this one can.

    Another kernel of OpenBLAS sums in another order; without its vector loops numpy has other cosines,
    and the C library without FMA another tanh.
    """
    loops: list[str] = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    oldest = {
        "OPENBLAS_CORETYPE": "Prescott",
        "OPENBLAS_NUM_THREADS": "1",
        "NPY_DISABLE_CPU_FEATURES": " ".join(loops),
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F",
    }
    usual = {"OPENBLAS_NUM_THREADS": "2"}
    if {"AVX2", "X86_V3"} & set(loops):
        usual["OPENBLAS_CORETYPE"] = "Haswell"
    return [{"OPENBLAS_NUM_THREADS": "1"}, oldest, usual]


def test_other_back_ends_select_the_same_rows_bit_for_bit() -> None:
    children = [
        subprocess.Popen(COMMAND, cwd=ROOT, env=os.environ | change, stdout=subprocess.PIPE)
        for change in back_ends()
    ]
    outputs = [child.communicate()[0] for child in children]
    assert [child.returncode for child in children] == [0] * len(children)
    hosts: list[dict[str, Any]] = [json.loads(output) for output in outputs]
    for host in hosts:
        assert all(run["status"] == "complete" for run in host["transcripts"])
        assert json.dumps(host["transcripts"]) == json.dumps(hosts[0]["transcripts"])
    if len({host["fingerprint"] for host in hosts}) == 1:
        pytest.skip("equal, but this machine has one numerical back end only")


def test_a_release_in_one_process_has_the_bits_of_processes_with_any_number_of_threads() -> None:
    """A simulation's processes have one thread of linear algebra each, a deployed curator one a processor."""
    found = [
        subprocess.run(
            [*COMMAND, "release"],
            cwd=ROOT,
            env=os.environ | {"OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    ]
    one, two = (json.loads(each) for each in found)
    assert {"balog1/weighted.csv", "balog2/weighted.csv", "moments/synthetic.csv"} < one.keys()
    assert one == two
