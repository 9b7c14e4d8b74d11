"""Issue 12, B12: what a curator's death in the middle of an adaptive release does to ledgers and budgets.

Which pairs of columns marginals ask owners for in a round follows from noisy answers before. A curator that
drew that noise again would tell owners of two draws for the price of one; and owners, which hold a number to
its question, would leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from curator.sums.owner_sums import OwnerSums
from curator.sums.session import SumSession
from curator.sums.settings import SecuritySettings
from fedkme.errors import SecureAggregationError
from fedkme.ledgers.reconcile import verify
from fedkme.privacy.events import OWNERS as OTHERS
from fedkme.privacy.ledger import read_ledger
from fedkme.sums.values import SumQuery
from tests.system.release_market import OWNERS, Held, ReleaseMarket, release_market

TABLES: Mapping[str, Any] = {"kind": "marginals", "epsilon": 5.0, "seed": 3}
QUESTIONS = 9
MOMENTS: Mapping[str, Any] = {"kind": "moments", "epsilon": 20.0, "seed": 3}
ROWS = 150


def come(at: ReleaseMarket) -> None:
    for name in OWNERS:
        at.owner(name, ROWS, simulation_seed=0)


class Asked:
    """Questions that owners were sent, by number; the run waits at the end of a question, or at its begin.

    Attributes:
        questions: questions of one owner, with repeats.
        held: where the run waits.
    """

    def __init__(self, patch: pytest.MonkeyPatch, number: int) -> None:
        self.questions: list[tuple[int, SumQuery]] = []
        self.held = Held()
        embed, propose = SumSession.embed, SumSession.propose

        async def embedding(session: SumSession, asked: int, query: SumQuery, *said: int) -> Any:
            if session.name == OWNERS[0]:
                self.questions.append((asked, query))
            answer = await embed(session, asked, query, *said)
            if asked == number:
                await self.held.wait()
            return answer

        async def proposing(
            session: SumSession, asked: int, parameters: Any, query: SumQuery, moves: int
        ) -> Any:
            if session.name == OWNERS[0]:
                self.questions.append((asked, query))
            if asked == number:
                await self.held.wait()
            return await propose(session, asked, parameters, query, moves)

        patch.setattr(SumSession, "embed", embedding)
        patch.setattr(SumSession, "propose", proposing)


def faults(folder: Path) -> list[str]:
    others = sorted(folder.glob("owner-*.jsonl"))
    assert len(others) == len(OWNERS)
    return [verdict.fault for verdict in verify(folder / "runs", others) if verdict.fault]


@pytest.mark.parametrize(
    ("request_of", "number", "questions", "file"),
    [
        pytest.param(TABLES, 2, QUESTIONS, "release.npz", id="marginals-2"),
        pytest.param(TABLES, 3, QUESTIONS, "release.npz", id="marginals-3"),
        # Decision 022: the second question of moments follows from noisy answers to the first.
        pytest.param(MOMENTS, 2, 2, "synthetic.npz", id="moments-2"),
    ],
)
@pytest.mark.parametrize("security", [None, SecuritySettings()], ids=["trusted", "secure"])
async def test_answers_are_drawn_once_however_often_the_curator_dies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    security: SecuritySettings | None,
    request_of: Mapping[str, Any],
    number: int,
    questions: int,
    file: str,
) -> None:
    # Its noise is the operating system's: whatever it draws again is different.
    async with release_market(tmp_path, security, simulation_seed=None) as at:
        come(at)
        with monkeypatch.context() as patch:
            before = Asked(patch, number)
            asking = at.asks(**request_of)
            await before.held.reached()
            await at.crash(at.image())
        after = Asked(monkeypatch, 0)
        await at.start()
        await asking
    assert (tmp_path / "consumer" / file).exists()
    assert [asked for asked, _ in before.questions] == list(range(1, number + 1))
    # Owners take part in no aggregation of a number twice: it is asked again under the next.
    first = number if security is None else number + 1
    assert [asked for asked, _ in after.questions] == list(range(first, first + questions + 1 - number))
    assert before.questions[-1][1] == after.questions[0][1]
    assert not faults(tmp_path)
    for name in OWNERS:
        lines = [entry.disclosure for entry in read_ledger(tmp_path / f"{name}.jsonl")]
        assert sum(line.nonce.startswith("sums ") for line in lines) == questions
        assert sum(line.observer == OTHERS for line in lines) == 1


async def test_an_aggregation_that_was_under_way_is_given_up_with_what_came_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with release_market(tmp_path, SecuritySettings()) as at:
        come(at)
        with monkeypatch.context() as patch:
            held, endorse = Held(), SumSession.endorse

            async def endorsing(session: SumSession, asked: int, *rest: Any) -> Any:
                if asked == 2:
                    await held.wait()
                return await endorse(session, asked, *rest)

            patch.setattr(SumSession, "endorse", endorsing)
            asking = at.asks(**TABLES)
            await held.reached()
            await at.crash(at.image())
        await at.start()
        with pytest.raises(SecureAggregationError, match="it costs again"):
            await asking
    assert not faults(tmp_path)


async def test_a_curator_that_dies_with_every_answer_asks_nobody_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with release_market(tmp_path, simulation_seed=None) as at:
        come(at)
        with monkeypatch.context() as patch:
            held, answers = Held(), list[Any]()

            def counted(ask: Any) -> Any:
                async def answered(sums: OwnerSums, *question: Any) -> Any:
                    answers.append(answer := await ask(sums, *question))
                    if len(answers) == QUESTIONS:
                        await held.wait()
                    return answer

                return answered

            for name in ("marginals", "parities", "products"):
                patch.setattr(OwnerSums, name, counted(getattr(OwnerSums, name)))
            asking = at.asks(**TABLES)
            await held.reached()
            await at.crash(at.image())
        after = Asked(monkeypatch, 0)
        await at.start()
        await asking
    assert after.questions == []
    assert not faults(tmp_path)
