"""Audit of deployed noise sources: the origin of their bits, and no reuse of bits.

A source is tested in the processes that the product starts: fresh interpreters, and forks of a launcher's
template; in forks of this process after draws; and in threads. Faults that would show only in 2^40 draws are
found at the root: in a fork, a script replaces the bytes of the operating system.

* A call reads at least as many bits as its draws have entropy. A seeded generator, a buffer of bytes and
  noise kept for later read fewer bits, in this call or in the next.
* Equal bytes give equal draws, and other bytes give other draws: draws depend on the bytes alone, and the
  bytes are used.
* Bytes of a uniform number far below 2^-64 give a draw far out in the tail. A sampler in floating point has
  53 bits: it ends at 8.6 deviations of a Gaussian and 36.7 scales of Laplace, whatever it rounds to
  afterwards; a cut tail ends before.

Scripts are fixed, so these three checks are deterministic. Bytes of the system are those of `os.urandom` and
`os.getrandom`, which `secrets` and `random.SystemRandom` use too. `python -m audit.attacks.sources
MODULE:NAME` prints draws of the source that a function makes.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import os
import pickle
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from audit.attacks.finding import CheckResult, Effort
from audit.attacks.law import independence_finding, outcome_finding, repeat_finding
from consumer.settings import ConsumerSettings, RequestSettings
from curator.settings import CuratorSettings
from fedkme.errors import PartyFailedError
from fedkme.party import NoiseFor
from fedkme.privacy.events import CURATOR
from fedkme.privacy.noise import NoiseSource, SecureNoise
from owner.settings import OwnerSettings
from sim.engines.children import Child, Event
from sim.engines.template import AVAILABLE, Template

T = TypeVar("T")
Make = Callable[[], NoiseSource]
Draws = NDArray[Any]

PURPOSES = ("broadcast", "auction", "sums", "histogram", "pool", "draw", "picks", "target")
CALLS: Mapping[str, tuple[float, ...]] = {
    "uniform": (1.0,),
    "laplace": (31623.0, 0.01),
    "gaussian": (0.7, 2.0**26 + 1.0),
    "discrete_laplace": (2.0, 5000.0),
}
"""Methods of a source, with the scales to call them with."""
REACH = {"laplace": 60.0, "gaussian": 10.0, "discrete_laplace": 60.0}
"""Multiples of the scale that a draw must be able to reach: their chances, e^-60 and 1e-23, are below the
resolution of 53 bits and of 64 bits."""
_FAIL_S = 60
_SCRIPTS = 100
_LOW_BITS = 6


def deployed_sources() -> dict[str, NoiseFor]:
    """Randomness of a curator, an owner and a consumer, made by the code of their processes."""
    folder, schema = Path(), {"schema_file": Path("schema.toml"), "plaintext": True}
    owner = OwnerSettings(name="owner", curator="-", data=folder, **schema)
    request = RequestSettings(p=1)
    consumer = ConsumerSettings(curator="-", validation=folder, output=folder, request=request, **schema)
    return {
        CURATOR: CuratorSettings(directory=folder, **schema).noise_for(CURATOR),
        owner.name: owner.noise_for(owner.name),
        consumer.name: consumer.noise_for(consumer.name),
    }


def deployed() -> NoiseSource:
    """An owner's source for its histogram, made by the code of its process."""
    return deployed_sources()["owner"]("histogram")


def type_finding(make: Make, effort: Effort) -> CheckResult:
    """Count the parties' sources, for all purposes, that do not use the operating system. Exact."""
    sources = [make(), *(noise(purpose) for noise in deployed_sources().values() for purpose in PURPOSES)]
    other = sum(type(source) is not SecureNoise for source in sources)
    return CheckResult("law", "sources of another type than SecureNoise", other > 0, 0.0, float(other))


# Bytes of the operating system, by a script.


class _Script:
    """Scripted bytes in place of the system's, in all modules of this process; for use in a fork.

    Attributes:
        read: number of bytes read so far.
    """

    def __init__(self) -> None:
        """Replace the system's functions in all modules."""
        self.read = 0
        self.begin(0)
        real = [getattr(os, name) for name in ("urandom", "getrandom") if hasattr(os, name)]
        for module in list(sys.modules.values()):
            for name, value in list(getattr(module, "__dict__", {}).items()):
                if any(value is function for function in real):
                    setattr(module, name, self)

    def begin(self, seed: int, extreme: bool = False) -> None:
        """Start a script; an extreme script has zeros and small numbers among its words of 8 bytes."""
        self._random = np.random.Generator(np.random.Philox(seed))
        self._extreme = extreme
        self._left = b""

    def __call__(self, size: int, flags: int = 0) -> bytes:
        """The next bytes."""
        self.read += size
        while len(self._left) < size:
            self._left += self._words().tobytes()
        given, self._left = self._left[:size], self._left[size:]
        return given

    def _words(self) -> NDArray[np.uint64]:
        words = self._random.integers(2**64, size=64, dtype=np.uint64)
        if not self._extreme:
            return words
        kinds = self._random.random(len(words))
        small = (2.0**64 * np.exp(-self._random.uniform(8.0, 14.0, len(words)))).astype(np.uint64)
        return np.where(kinds < 0.4, np.uint64(0), np.where(kinds < 0.7, small, words))


def forked(work: Callable[[], T]) -> T:
    """Call a function in a fork of this process, and return its value.

    Raises:
        PartyFailedError: the function failed, or took a minute.
    """
    mine, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on other threads: the fork has none, and needs none
        pid = os.fork()
    if not pid:
        try:
            os.close(mine)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_FAIL_S)
            with os.fdopen(theirs, "wb") as file:
                pickle.dump(work(), file)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(theirs)
    with os.fdopen(mine, "rb") as file:
        pickled = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise PartyFailedError(f"a fork that draws noise ended with status {status}", "See its last lines.")
    value: T = pickle.loads(pickled)  # written by this process's own fork
    return value


def _methods(source: NoiseSource) -> list[tuple[str, float]]:
    return [(name, scale) for name, scales in CALLS.items() for scale in scales if hasattr(source, name)]


def _draw(source: Any, method: str, scale: float, size: int) -> Draws:
    return np.asarray(source.uniform(size) if method == "uniform" else getattr(source, method)(scale, size))


def step_of(method: str, scale: float) -> float:
    """Step of a draw's lattice: a power of two g <= 1 with 2^-24 scale < g <= 2^-23 scale, or 1."""
    if method in ("uniform", "discrete_laplace"):
        return 2.0**-53 if method == "uniform" else 1.0
    return float(min(1.0, 2.0 ** (math.ceil(math.log2(scale)) - 24)))


def entropy_of(method: str, scale: float) -> float:
    """Entropy of a draw in bits."""
    steps = scale / step_of(method, scale)
    if method == "uniform":
        return 53.0
    if method == "gaussian":
        return math.log2(steps * math.sqrt(2.0 * math.pi * math.e))
    stay = math.exp(-1.0 / steps)
    return math.log2((1.0 + stay) / (1.0 - stay)) + 2.0 * stay / (1.0 - stay**2) / steps / math.log(2.0)


def _read_by_calls(make: Make) -> float:
    """Least ratio, over calls, of the system's bits that a call reads to the entropy of its draws."""
    script, least = _Script(), math.inf
    source = make()
    for method, scale in _methods(source):
        for size in (16, 1, 1, 16):
            before = script.read
            _draw(source, method, scale, size)
            least = min(least, 8.0 * (script.read - before) / (size * entropy_of(method, scale)))
    return least


def entropy_finding(make: Make, effort: Effort) -> CheckResult:
    """Compare the system's bits that each call reads with the entropy of its draws. Exact."""
    least = forked(partial(_read_by_calls, make))
    what = "bits of the operating system that a call reads, over the entropy of its draws"
    return CheckResult("law", what, least < 1.0, 1.0, least)


def _by_script(make: Make, seed: int) -> list[bytes]:
    _Script().begin(seed)
    source = make()
    return [_draw(source, method, scale, 40).tobytes() for method, scale in _methods(source)]


def script_finding(make: Make, effort: Effort) -> CheckResult:
    """Draw twice by one script and once by another; the draws must be equal, and different. Exact."""
    first, again, other = (forked(partial(_by_script, make, seed)) for seed in (1, 1, 2))
    wrong = sum(a != b for a, b in zip(first, again, strict=True))
    wrong += sum(a == b for a, b in zip(first, other, strict=True))
    what = "calls whose draws are no function of the bytes of the operating system alone"
    return CheckResult("law", what, wrong > 0, 0.0, float(wrong))


def _reached(make: Make) -> dict[str, float]:
    """Farthest draw of each method, in scales, over extreme scripts; at the method's first scale."""
    farthest, script = dict.fromkeys(REACH, 0.0), _Script()
    for seed in range(_SCRIPTS):
        script.begin(seed, extreme=True)
        source = make()
        for method in {name for name, _ in _methods(source)} & REACH.keys():
            scale = CALLS[method][0]
            drawn = float(np.abs(_draw(source, method, scale, 1)).max()) / scale
            farthest[method] = max(farthest[method], drawn)
    return farthest


def reach_finding(make: Make, effort: Effort) -> CheckResult:
    """Compare the farthest draws with the distance that draws must be able to reach. Exact."""
    farthest = forked(partial(_reached, make))
    least = min(farthest[method] / REACH[method] for method in farthest if hasattr(make(), method))
    return CheckResult("law", "farthest draw, over what must be reachable", least < 1.0, 1.0, least)


# Values.


def lattice_finding(make: Make, effort: Effort) -> CheckResult:
    """Count draws that are not whole multiples of the declared step. Exact."""
    source, off = make(), 0
    for method, scale in _methods(source):
        steps = _draw(source, method, scale, 500) / step_of(method, scale)
        off += int((steps != np.rint(steps)).sum())
    return CheckResult("law", "draws that are off the lattice", off > 0, 0.0, float(off))


def low_bits_finding(make: Make, effort: Effort) -> CheckResult:
    """Chi-square of the last bits of draws in steps, where a scale has 2^20 steps or more: uniform."""
    source, counts = make(), np.zeros(0, dtype=np.int64)
    for method, scale in _methods(source):
        step = step_of(method, scale)
        if scale / step < 2.0**20:
            continue
        steps = np.rint(_draw(source, method, scale, effort.trials(20_000)) / step).astype(np.int64)
        last = np.bincount(steps & (2**_LOW_BITS - 1), minlength=2**_LOW_BITS)
        counts = np.concatenate([counts, last])
    chances = np.full(len(counts), 1.0 / len(counts))
    return outcome_finding(counts, chances, effort.alpha, "the last bits of draws in steps")


def correlation_finding(make: Make, effort: Effort) -> CheckResult:
    """Correlate draws of two sources, and each draw with the next."""
    size = effort.trials(30_000)
    first, second = (make().gaussian(1.0, size) for _ in range(2))
    left, right = np.concatenate([first, first[:-1]]), np.concatenate([second, first[1:]])
    return independence_finding(left, right, effort.alpha, "two sources' draws, and of one and the next")


# State that two share.


def _stream(source: NoiseSource, method: str, scale: float) -> Draws:
    return np.concatenate([_draw(source, method, scale, 40) for _ in range(2)])


def _streams(source: NoiseSource) -> list[Draws]:
    return [_stream(source, method, scale) for method, scale in _methods(source)]


def _repeats(drawn: Sequence[Sequence[Draws]], calls: Sequence[tuple[str, float]], what: str) -> CheckResult:
    """Look in streams of the same calls for windows that come again."""
    findings = [
        repeat_finding(streams, entropy_of(method, scale), what)
        for (method, scale), streams in zip(calls, zip(*drawn, strict=True), strict=True)
    ]
    return max(findings, key=lambda finding: finding.measured)


def reuse_finding(make: Make, effort: Effort) -> CheckResult:
    """Look for draws that come again: of a source, of two, in threads, in forks after a draw."""
    source, drawn = make(), list[list[Draws]]()
    calls = _methods(source)
    drawn += [_streams(source), _streams(make())]
    drawn += _in_threads([make() for _ in range(2)] + [source] * 2)
    drawn += [forked(partial(_streams, source)) for _ in range(2)]
    drawn += [forked(lambda: _streams(make())) for _ in range(2)]
    drawn += [_streams(source), _streams(make())]
    return _repeats(drawn, calls, "sources, threads and forks")


def _in_threads(sources: Sequence[NoiseSource]) -> list[list[Draws]]:
    drawn: list[list[Draws]] = []
    together = threading.Barrier(len(sources))

    def work(source: NoiseSource) -> None:
        together.wait()
        drawn.append(_streams(source))

    threads = [threading.Thread(target=work, args=(source,)) for source in sources]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return drawn


def processes_finding(make: Make, effort: Effort) -> CheckResult:
    """Look for draws that come again between processes, started as launchers and hosts start parties."""
    drawn = asyncio.run(_in_processes(f"{make.__module__}:{make.__qualname__}"))
    return _repeats(drawn, _methods(make()), "processes, fresh and forked as parties are")


async def _in_processes(name: str) -> list[list[Draws]]:
    """Draws of two fresh interpreters and of two forks of a template."""
    heard: list[Event] = []
    with tempfile.TemporaryDirectory(prefix="fedkme-audit-") as folder:
        errors = Path(folder) / "stderr.txt"
        template = Template(errors) if AVAILABLE else None
        try:
            command, hosts = ["audit.attacks.sources", name], (None, None, template, template)
            children = [await Child.start("a source", command, errors, heard.append, host) for host in hosts]
            for child in children:
                if status := await child.ended():
                    raise child.died(status, errors)
        finally:
            if template is not None:
                template.close()
    return [[np.array(stream) for stream in event["streams"]] for event in heard]


def main() -> None:
    """Draw from a source, and print what was drawn."""
    module, _, name = sys.argv[1].partition(":")
    source = getattr(importlib.import_module(module), name)()
    streams = [stream.tolist() for stream in _streams(source)]
    sys.stdout.write(json.dumps({"event": "draws", "streams": streams}) + "\n")


if __name__ == "__main__":
    main()
