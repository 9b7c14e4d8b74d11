"""Roster of the owners that are still in a run.

Owners are asked in the order of their names and answers are kept in that order, so that no result depends on
which answer came first. An owner that is lost or answers with a fault leaves the run, and a line says why;
below the quorum the run stops. An owner whose answer fails here in a way that was not foreseen leaves, too:
it shall not end the run of others. If all fail so, the fault is this program's.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from fedkme.documents import Fault
from fedkme.errors import (
    BudgetError,
    FedkmeError,
    IdentityError,
    OwnerFaultError,
    OwnerLostError,
    PolicyError,
    QuorumError,
    SealedBoxError,
    SecureAggregationError,
)


class Named(Protocol):
    """Session of one owner, in any kind of run."""

    @property
    def name(self) -> str:
        """The owner's name."""

    @property
    def at_once(self) -> bool:
        """True where the owner is in this process and answers without waiting."""


Port = TypeVar("Port", bound=Named)
Answer = TypeVar("Answer")
Argument = TypeVar("Argument")


WAITING_S = 2.0
"""Seconds between two reports of how many owners have answered a question."""
LOG = logging.getLogger("curator")
LEAVING = (OwnerLostError, OwnerFaultError, BudgetError, PolicyError, SecureAggregationError, SealedBoxError)
"""Errors with which an owner leaves a run that goes on without it."""


_REFUSED = (BudgetError.code, PolicyError.code)
REFUSED = "They run, and do not allow it: ask for a run that costs less, or agree on more with the owners."
"""Remedy where owners are too few because of their own limits."""


async def _answer_or_error(
    call: Callable[[Port, Argument], Awaitable[Answer]], port: Port, argument: Argument
) -> Answer | Exception:
    try:
        # The call is made here: a task that is cancelled before it begins leaves no unawaited coroutine.
        return await call(port, argument)
    except Exception as error:
        return error


async def _report(answers: Sequence[asyncio.Task[Any]], waiting: Callable[[int, int], None]) -> None:
    """Report from time to time how many owners have answered, until cancelled."""
    while True:
        await asyncio.sleep(WAITING_S)
        waiting(sum(answer.done() for answer in answers), len(answers))


def _is_unforeseen(answer: object) -> bool:
    return isinstance(answer, Exception) and not isinstance(answer, FedkmeError)


class Roster(Generic[Port]):
    """Live owners in canonical order; faults of owners that left go to `faults`.

    Attributes:
        waiting: called with the owners that have answered and those asked, while a question takes long.
    """

    waiting: Callable[[int, int], None] | None = None

    def __init__(
        self, ports: Sequence[Port], quorum: int, observe: Callable[[Fault], None], faults: list[Fault]
    ) -> None:
        names = Counter(port.name for port in ports)
        if repeated := sorted(name for name, times in names.items() if times > 1):
            raise IdentityError(f"two owners are called {repeated[0]!r}", "Give every owner its own name.")
        self._ports = {port.name: port for port in sorted(ports, key=lambda port: port.name)}
        self._quorum = quorum
        self._observe = observe
        self._faults = faults

    @property
    def names(self) -> list[str]:
        """Names of the live owners, sorted."""
        return list(self._ports)

    def __len__(self) -> int:
        return len(self._ports)

    def below_quorum(self) -> QuorumError | None:
        """Error of a run with too few owners left to go on, or None."""
        if len(self._ports) >= self._quorum:
            return None
        left = "1 owner is" if len(self._ports) == 1 else f"{len(self._ports)} owners are"
        last = f"; the last to leave: {self._faults[-1].line.rstrip('.')}" if self._faults else ""
        remedy = "The rows gathered so far are kept; start the missing owners and run again."
        if self._faults and all(fault.code in _REFUSED for fault in self._faults):
            remedy = REFUSED
        return QuorumError(f"{left} left and the quorum is {self._quorum}{last}", remedy)

    async def ask(
        self,
        round_number: int,
        call: Callable[[Port, Argument], Awaitable[Answer]],
        arguments: Mapping[str, Argument],
    ) -> dict[str, Answer]:
        """Ask the owners named in `arguments` at the same time; owners that fail leave the run.

        Returns:
            Answers of the owners that gave one, in the order of names.
        """
        names = sorted(name for name in arguments if name in self._ports)
        calls = (_answer_or_error(call, self._ports[name], arguments[name]) for name in names)
        if all(self._ports[name].at_once for name in names):
            # owners in this process never pause, so give others a chance to stop the run
            await asyncio.sleep(0)
            answers = [await answer for answer in calls]  # a task per owner would cost more than its answer
        elif self.waiting is None:
            answers = await asyncio.gather(*calls)
        else:
            tasks = [asyncio.ensure_future(answer) for answer in calls]
            reporting = asyncio.ensure_future(_report(tasks, self.waiting))
            try:
                answers = await asyncio.gather(*tasks)
            finally:
                reporting.cancel()
        good: dict[str, Answer] = {}
        alone = not all(_is_unforeseen(answer) for answer in answers)
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, LEAVING):
                self.remove(round_number, name, answer)
            elif isinstance(answer, Exception) and _is_unforeseen(answer) and alone:
                LOG.error("the answer of %s failed in a way that was not foreseen", name, exc_info=answer)
                cause = f"{name}: its answer failed at the curator in a way that was not foreseen"
                self.remove(round_number, name, OwnerFaultError(cause, "The curator's log says where"))
            elif isinstance(answer, Exception):
                raise answer
            else:
                good[name] = answer
        return good

    def remove(self, round_number: int, name: str, error: FedkmeError) -> None:
        """Remove an owner from the run for good, with the error that says why."""
        fault = Fault(round_number, name, error.code, str(error))
        del self._ports[name]
        self._faults.append(fault)
        self._observe(fault)
