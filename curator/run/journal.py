"""Journal of a run's inputs: written before any message that follows from an input leaves, and replayed.

A run at the curator is a function of the request, of owners' answers and losses, and of noise. A curator that
restarts runs the same code from its first line. The journal gives the run the same inputs again until they
end, and keeps ledger lines from being written twice. docs/decisions/004 has the argument.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.cells.histogram import on_integers
from fedkme.directives import Answer, Directive, Refusal
from fedkme.documents import CuratorEntry, KeptAnswer
from fedkme.errors import FedkmeError, StoreError
from fedkme.privacy.events import Disclosure
from fedkme.privacy.ledger import Ledger
from fedkme.privacy.noise import NoiseSource, SimulatedNoise
from fedkme.store import Store
from fedkme.store.journal import Journal
from fedkme.wire.journals import curator_entry_from_bytes, curator_entry_to_bytes

_KIND = "inputs"


class RunJournal:
    """Inputs of one run.

    Inputs are buffered; `commit` makes them durable, together with the ledger's lines.
    """

    def __init__(self, store: Store, run: str, ledger: Ledger) -> None:
        self._store = store
        self._run = run
        self._ledger = ledger
        self._journal = Journal(store, _KIND, curator_entry_to_bytes, curator_entry_from_bytes)
        self._entry = CuratorEntry()
        self._lines: list[Disclosure] = []
        self._dirty = False
        self._answers: dict[tuple[str, int], KeptAnswer] = {}
        self._draws: dict[str, deque[FloatArray]] = {}
        self._written: deque[bytes] = deque()
        for entry in self._journal.entries(run):
            self._answers |= {
                (entry_answer.owner, entry_answer.seq): entry_answer for entry_answer in entry.answers
            }
            for purpose, values in entry.draws:
                self._draws.setdefault(purpose, deque()).append(values)
            self._written += entry.lines

    @property
    def replaying(self) -> bool:
        """Check whether inputs of an earlier process are still left to replay."""
        return bool(self._answers) or any(self._draws.values()) or bool(self._written)

    def commit(self) -> None:
        """Make all inputs so far durable; called before any message leaves.

        Raises:
            StoreError: the store failed; no message may leave.
        """
        if not self._dirty:
            return
        with self._ledger.together(self._store):
            self._ledger.extend(self._lines)
            self._journal.append(self._run, self._entry)
        self._entry = CuratorEntry()
        self._lines.clear()
        self._dirty = False

    def answer(self, owner: str, directive: Directive) -> Answer | None:
        """Answer that an earlier process received for the directive; None where it received none.

        Raises:
            OwnerLostError: the earlier process lost the owner here.
            OwnerFaultError: the earlier process cut the owner off here.
            StoreError: the earlier process asked another question here.
        """
        record = self._answers.pop((owner, directive.seq), None)
        if record is None:
            return None
        if record.step != _step(directive):
            raise _another_version(self._run)
        if record.lost is not None:
            raise record.lost.error()
        return record.answer

    def keep_answer(
        self, owner: str, directive: Directive, answer: Answer | None = None, lost: FedkmeError | None = None
    ) -> None:
        """Add an answer to the journal, or the reason why there was none."""
        why = None if lost is None else Refusal.of(lost)
        self._entry.answers.append(KeptAnswer(owner, directive.seq, _step(directive), answer, why))
        self._dirty = True

    def draw(self, purpose: str, size: int) -> FloatArray | None:
        """Noise that an earlier process drew at this point, (size,); None where it drew none.

        Raises:
            StoreError: the earlier process drew another count of numbers here.
        """
        draws = self._draws.get(purpose)
        if not draws:
            return None
        values = draws.popleft()
        if len(values) != size:
            raise _another_version(self._run)
        return values

    def keep_draw(self, purpose: str, values: FloatArray) -> None:
        """Add noise to the journal before the noise is used."""
        self._entry.draws.append((purpose, values.copy()))
        self._dirty = True

    def extend(self, disclosures: Iterable[Disclosure]) -> None:
        """Write disclosures to the ledger with the next commit, unless an earlier process wrote them."""
        for disclosure in disclosures:
            digest = hashlib.sha256(disclosure.canonical()).digest()
            if self._written:
                if self._written.popleft() != digest:
                    raise _another_version(self._run)
                continue
            self._lines.append(disclosure)
            self._entry.lines.append(digest)
            self._dirty = True

    def head(self) -> dict[str, int | str]:
        """Length and last hash of the curator's ledger."""
        return self._ledger.head()


class JournaledNoise:
    """Noise of another source, kept in the journal before its use, so that a replay never draws again."""

    def __init__(self, source: NoiseSource, journal: RunJournal, purpose: str) -> None:
        self._source = source
        self._journal = journal
        self._purpose = purpose

    def uniform(self, size: int) -> FloatArray:
        """Draw from the source, or replay an earlier draw."""
        return self._draw(size, lambda: self._source.uniform(size))

    def laplace(self, scale: float, size: int) -> FloatArray:
        """Draw from the source, or replay an earlier draw."""
        return self._draw(size, lambda: self._source.laplace(scale, size))

    def gaussian(self, scale: float, size: int) -> FloatArray:
        """Draw from the source, or replay an earlier draw."""
        return self._draw(size, lambda: self._source.gaussian(scale, size))

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        """Draw from the source, or replay an earlier draw; whole numbers below 2^53 survive as floats."""
        source = on_integers(self._source)
        drawn = self._draw(size, lambda: source.discrete_laplace(scale, size).astype(np.float64))
        return drawn.astype(np.int64)

    def _draw(self, size: int, make: Callable[[], FloatArray]) -> FloatArray:
        earlier = self._journal.draw(self._purpose, size)
        if earlier is None:
            values = make()
            self._journal.keep_draw(self._purpose, values)
            return values
        if isinstance(self._source, SimulatedNoise):
            make()  # advance the seeded stream to where the earlier process left it
        return earlier


def _step(directive: Directive) -> str:
    return f"{directive.round} {directive.question}"


def _another_version(run: str) -> StoreError:
    cause = f"{run} cannot be continued: this process computes something else than the process that began it"
    remedy = "Finish the run with the release, the settings and the files it was begun with, or cancel it."
    return StoreError(cause, remedy)
