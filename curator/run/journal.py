"""Journal of what came into a run, written before anything that follows from it leaves, and replayed.

A run at the curator is a function of what was asked, of owners' answers and losses, and of noise. A curator
that starts again runs the same code from its first line; this module gives it the same inputs until they
end, and keeps its ledger from being written twice. docs/decisions/004 has the argument.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.cells.noise import on_integers
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
    """The inputs of one run.

    What is kept is buffered; `commit` makes it durable, together with the ledger's lines.
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
            self._answers |= {(kept.owner, kept.seq): kept for kept in entry.answers}
            for purpose, values in entry.draws:
                self._draws.setdefault(purpose, deque()).append(values)
            self._written += entry.lines

    @property
    def replaying(self) -> bool:
        """Check whether the run is still where it was before this process."""
        return bool(self._answers) or any(self._draws.values()) or bool(self._written)

    def commit(self) -> None:
        """Make everything durable that was kept so far; called before anything leaves.

        Raises:
            StoreError: it could not be; nothing may leave.
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
        """Answer that an owner gave when the run was here before; None when it was not.

        Raises:
            OwnerLostError: the owner was lost here.
            OwnerFaultError: it was broken off with.
            StoreError: the run was here and asked something else.
        """
        kept = self._answers.pop((owner, directive.seq), None)
        if kept is None:
            return None
        if kept.step != _step(directive):
            raise _another_version(self._run)
        if kept.lost is not None:
            raise kept.lost.error()
        return kept.answer

    def keep_answer(
        self, owner: str, directive: Directive, answer: Answer | None = None, lost: FedkmeError | None = None
    ) -> None:
        """Remember an answer, or why there was none."""
        why = None if lost is None else Refusal.of(lost)
        self._entry.answers.append(KeptAnswer(owner, directive.seq, _step(directive), answer, why))
        self._dirty = True

    def draw(self, purpose: str, size: int) -> FloatArray | None:
        """The numbers that were drawn when the run was here before, (size,); None when it was not.

        Raises:
            StoreError: the run was here and drew another number of them.
        """
        kept = self._draws.get(purpose)
        if not kept:
            return None
        values = kept.popleft()
        if len(values) != size:
            raise _another_version(self._run)
        return values

    def keep_draw(self, purpose: str, values: FloatArray) -> None:
        """Remember noise before it is used."""
        self._entry.draws.append((purpose, values.copy()))
        self._dirty = True

    def append(self, disclosure: Disclosure) -> None:
        """Append one disclosure, as `extend` does several."""
        self.extend([disclosure])

    def extend(self, disclosures: Iterable[Disclosure]) -> None:
        """Write events to the ledger with the next commit, unless they were when the run was here before."""
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
    """Noise of another source that is kept before it is used, and never drawn again."""

    def __init__(self, source: NoiseSource, journal: RunJournal, purpose: str) -> None:
        self._source = source
        self._journal = journal
        self._purpose = purpose

    def uniform(self, size: int) -> FloatArray:
        """Draw from the source, or take what it drew before."""
        return self._draw(size, lambda: self._source.uniform(size))

    def laplace(self, scale: float, size: int) -> FloatArray:
        """Draw from the source, or take what it drew before."""
        return self._draw(size, lambda: self._source.laplace(scale, size))

    def gaussian(self, scale: float, size: int) -> FloatArray:
        """Draw from the source, or take what it drew before."""
        return self._draw(size, lambda: self._source.gaussian(scale, size))

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        """Draw from the source, or take what it drew before; whole numbers below 2^53 survive as floats."""
        source = on_integers(self._source)
        drawn = self._draw(size, lambda: source.discrete_laplace(scale, size).astype(np.float64))
        return drawn.astype(np.int64)

    def _draw(self, size: int, make: Callable[[], FloatArray]) -> FloatArray:
        kept = self._journal.draw(self._purpose, size)
        if kept is None:
            values = make()
            self._journal.keep_draw(self._purpose, values)
            return values
        if isinstance(self._source, SimulatedNoise):
            make()  # a seeded stream goes on from where it was
        return kept


def _step(directive: Directive) -> str:
    return f"{directive.round} {directive.question}"


def _another_version(run: str) -> StoreError:
    return StoreError(
        f"{run} cannot be continued: this process computes something else than the one that began it",
        "Finish it with the release, the settings and the files that it was begun with, or cancel it.",
    )
