"""Noisy answers of owners from which a method makes its next question: each is on disk before it does.

A curator that dies between two questions goes on with the answers that it had. Were their noise drawn again,
the next question, which owners see, would follow from another draw: two for the price of one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator.releases.joint import JointRelease
from fedkme.errors import StoreError
from fedkme.features.sums import ReleasedEmbedding
from fedkme.privacy.events import Gaussian
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.npz import npz_arrays, npz_bytes

Tables = list[NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class NoisyAnswer:
    """NoisyAnswer to one question.

    Attributes:
        question: digest of it, with its noise.
        number: under which owners were asked last.
        drawn: numbers of the curator's noise that were drawn so far.
        owners: whose rows are in it.
        tables: noisy counts, and last the deviation of the noise in each table; or noisy sums and what is
            known of their noise.
    """

    question: str
    number: int
    drawn: int
    owners: tuple[str, ...]
    tables: Tables

    def to_bytes(self) -> bytes:
        """Encode it for the disk."""
        about = {"question": self.question, "number": self.number, "drawn": self.drawn, "owners": self.owners}
        text = np.frombuffer(json.dumps(about).encode("ascii"), dtype=np.uint8)
        tables: dict[str, NDArray[Any]] = {f"table{n}": table for n, table in enumerate(self.tables)}
        return npz_bytes({"about": text, **tables})

    @classmethod
    def from_bytes(cls, kept: bytes) -> NoisyAnswer:
        """Read what `to_bytes` wrote."""
        arrays = npz_arrays(kept, "an answer of owners")
        about = json.loads(arrays.pop("about").tobytes())
        about["owners"] = tuple(about["owners"])
        return cls(**about, tables=[arrays[f"table{n}"] for n in range(len(arrays))])


class Answers:
    """The noisy answers of one run, in the order of its questions."""

    def __init__(
        self, kept: Sequence[NoisyAnswer] = (), keep: Callable[[NoisyAnswer], None] = lambda answer: None
    ) -> None:
        """Begin with what an earlier process kept.

        Args:
            kept: its answers.
            keep: puts one on disk, with what it cost; when it returns, what follows may be asked.
        """
        self._left = list(kept)
        self._keep = keep

    async def of(self, question: str, ask: Callable[[], Awaitable[NoisyAnswer]]) -> Tables:
        """The tables that answer a question: those that were kept, or what `ask` brings.

        Raises:
            StoreError: an earlier process asked something else at this place.
        """
        if self._left:
            answer = self._left.pop(0)
            if answer.question != question:
                raise StoreError(
                    "a release cannot be continued: this process asks owners for something else than the one "
                    "that began it",
                    "Finish it with the release of fedkme that it was begun with, or ask again.",
                )
            return answer.tables
        answer = await ask()
        self._keep(answer)
        return answer.tables


def question_of(vector: SumVector, sigmas: Sequence[float]) -> str:
    """Digest of a question with its noise."""
    return hashlib.sha256(f"{vector.digest} {[float(sigma) for sigma in sigmas]}".encode()).hexdigest()


def answer_tables(made: JointRelease) -> Tables:
    """A release of embeddings alone as tables: their means, deviations and N, the event's multiplier."""
    known = [*(each.sigma for each in made.embeddings), float(made.embeddings[0].rows)]
    multiplier = [made.event.noise_multiplier] if isinstance(made.event, Gaussian) else []
    return [*(each.mean for each in made.embeddings), np.array(known), np.array(multiplier)]


def answered_release(tables: Tables, query: SumQuery) -> JointRelease:
    """Read what `answer_tables` made of the answer to a question."""
    *means, known, multiplier = tables
    embeddings = tuple(
        ReleasedEmbedding(spec, query.layout, mean, float(sigma), int(known[-1]))
        for spec, mean, sigma in zip(query.specs, means, known, strict=False)
    )
    return JointRelease(embeddings, None, Gaussian(float(multiplier[0])) if len(multiplier) else None)
