"""Charges of one run of sums: on disk before owners are asked, and in the ledger once vectors came.

A process that dies, or whose disk fails, between the two leaves the charges to the next process, which asks
again. A run that ends in any other way has the charges written to the ledger (docs/decisions/006).

**Disclosures** to the curator in a run of sums, in the same words as in the owners' ledgers.

Lines wait here until the run's release is kept: both go to disk in one transaction (docs/decisions/006). A
vector that came counts even if no release is made, so lines are also written when a run fails. A vector that
may have left an owner and never came counts too: that of each owner that was asked, in this attempt or an
earlier one, and did not refuse. Such vectors are charged in lines that are marked as not certain.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fedkme.privacy.events import Disclosure, Event
from fedkme.privacy.ledger import Ledger, disclosures_in, lines_from_json, lines_to_json
from fedkme.protocol import Invitation
from fedkme.store import Store
from fedkme.sums.disclosures import release_disclosures, vector_disclosure
from fedkme.sums.vector import SumVector


class SumDisclosures:
    """Curator's side of one run's disclosures; no line is written twice in a run."""

    def __init__(
        self, invitation: Invitation, written: Iterable[Disclosure] = (), expected: Iterable[Disclosure] = ()
    ) -> None:
        """Open the disclosures of one run.

        Args:
            invitation: the run's invitation to owners.
            written: lines of the run that an earlier process wrote: an owner that is asked again for the same
                bits writes no further line either.
            expected: lines of `at_most` in an earlier attempt.
        """
        self._invitation = invitation
        self._written = set(written)
        self._seen: set[str] = set()
        self._came: dict[Disclosure, None] = {}  # a set that keeps the order
        self._before = dict.fromkeys(expected)
        self._expected: dict[Disclosure, None] = {}

    def expect(
        self, number: int, owners: Iterable[str], vector: SumVector, event: Event | None = None
    ) -> None:
        """Note that owners are about to be asked for vectors; arguments are those of `receive_vector`."""
        self._before |= self._expected
        self._expected = dict.fromkeys(
            line for owner in owners for line in self._lines(number, owner, vector, event)
        )

    def receive_vector(self, number: int, owner: str, vector: SumVector, event: Event | None = None) -> None:
        """Note an owner's vector that came; its first also charges the run's cost towards the consumer.

        Args:
            number: number of the question.
            owner: owner of the vector.
            vector: the vector that was asked for.
            event: event of the total under secure aggregation; None: the vector came in the clear.
        """
        self._came |= dict.fromkeys(self._lines(number, owner, vector, event))
        self._seen.add(owner)

    def decline(self, owner: str) -> None:
        """Note that an owner refused to send a vector, and so wrote no line."""
        self._expected = {line: None for line in self._expected if line.protected != owner}

    def at_most(self) -> list[Disclosure]:
        """Unwritten lines of vectors that came or may be on their way, also from an earlier attempt."""
        return self._unwritten({**self._came, **self._before, **self._expected})

    def came(self) -> list[Disclosure]:
        """Unwritten lines of vectors that came, sorted by question and owner."""
        return self._unwritten(self._came)

    def doubtful(self) -> list[Disclosure]:
        """Lines of vectors that may have left and never came."""
        lines = [line for line in self.at_most() if line not in self._came]
        return [replace(line, certain=False) for line in lines]

    def wrote(self, lines: Iterable[Disclosure]) -> None:
        """Note lines that are on disk."""
        self._written.update(lines)

    def _unwritten(self, lines: Iterable[Disclosure]) -> list[Disclosure]:
        unwritten = [line for line in lines if line not in self._written]
        return sorted(unwritten, key=lambda line: (line.round, line.protected))

    def _lines(self, number: int, owner: str, vector: SumVector, event: Event | None) -> list[Disclosure]:
        invitation = self._invitation
        # An owner's first vector carries the cost of the run. It need not answer question 1: where an owner
        # gave no key, the question was asked again under the next number.
        line = vector_disclosure(owner, invitation, number, vector, event)
        return [line] if owner in self._seen else [line, *release_disclosures(owner, invitation)]


ASKED, DOUBTFUL = "asked/", "doubtful/"
"""Keys of the number of a run's last aggregation (owners take part in no aggregation twice), and of the lines
that owners may have written in an attempt whose lines are not in the curator's ledger yet."""
Settle = Callable[[Callable[[], None]], None]
"""Writes the ledger's lines so far to disk, in one transaction with the writes of its argument."""


class SumCharges:
    """Charges of one run.

    Attributes:
        gate: records the disclosure of every vector.
        interrupted: True where an earlier attempt was not settled: owners may have sent its vectors, even if
            all vectors came and are written.
    """

    def __init__(
        self,
        invitation: Invitation,
        ledger: Ledger,
        store: Store,
        written: Iterable[Disclosure] = (),
        outlives: bool = True,
    ) -> None:
        """Take over the charges of an earlier process.

        Args:
            invitation: the run's invitation to owners.
            ledger: the curator's ledger.
            store: the store of the ledger.
            written: lines about the run that are in the ledger.
            outlives: True where the run goes on in a later process if this process dies.
        """
        self._run, self._ledger, self._store, self._outlives = invitation.run, ledger, store, outlives
        self.interrupted = store.get(DOUBTFUL + invitation.run) is not None
        self.gate = SumDisclosures(invitation, written, _doubtful_lines(store, invitation.run))

    @property
    def last(self) -> int:
        """Number of the last aggregation that owners may know of; 0 before the first."""
        return int(self._store.get(ASKED + self._run) or b"0")

    def propose(self, number: int) -> None:
        """Store the number of an aggregation, before any owner learns of it."""
        self._store.put(ASKED + self._run, b"%d" % number)

    def before_vectors(self) -> None:
        """Store the lines that owners may write, before any owner can send its vector."""
        if self._outlives:
            lines = json.dumps(lines_to_json(self.gate.at_most()))
            self._store.put(DOUBTFUL + self._run, lines.encode("ascii"))

    def settle(self, keep: Callable[[], None] = lambda: None) -> None:
        """Charge vectors that came or may have left; `keep` runs in the same transaction."""

        def keep_and_clear() -> None:
            keep()
            self._store.delete(DOUBTFUL + self._run)

        self._write([*self.gate.came(), *self.gate.doubtful()], keep_and_clear)

    def end(self, keep: Callable[[], None] = lambda: None) -> None:
        """Settle for good: no further aggregation follows."""

        def keep_and_clear() -> None:
            keep()
            self._store.delete(ASKED + self._run)

        self.settle(keep_and_clear)

    def suspend(self) -> None:
        """Charge vectors that came: a later attempt receives the others, or charges them as possible."""
        self._write(self.gate.came(), lambda: None)

    def _write(self, lines: Sequence[Disclosure], keep: Callable[[], None]) -> None:
        with self._ledger.together(self._store):
            self._ledger.extend(lines)
            keep()
        self.gate.wrote(lines)  # last: if the store fails, the lines are still unwritten


def charge_ended(ledger: Ledger, store: Store, run: str) -> None:
    """Charge vectors that may have left in a finished run whose last attempt was not settled."""
    doubtful = [replace(line, certain=False) for line in _doubtful_lines(store, run)]
    with ledger.together(store):
        written = {*disclosures_in(entry.line for entry in store.ledger())} if doubtful else ()
        ledger.extend(line for line in doubtful if line not in written)
        for key in (ASKED, DOUBTFUL):
            store.delete(key + run)


def _doubtful_lines(store: Store, run: str) -> list[Disclosure]:
    return lines_from_json(json.loads(store.get(DOUBTFUL + run) or b"[]"))
