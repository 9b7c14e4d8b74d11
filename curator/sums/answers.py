"""Noisy answers of owners, stored on disk before a method makes its next question from them.

A curator that dies between two questions goes on with its stored answers. If the noise were drawn again, the
next question, which owners see, would follow from a second draw: two releases for the price of one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
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


@dataclass(frozen=True, eq=False, repr=False)
class NoisyAnswer:
    """Noisy answer to one question.

    Attributes:
        question: digest of the question and its noise.
        number: number under which owners were asked last.
        drawn: numbers of the curator's noise that were drawn so far.
        owners: owners whose rows are in the answer.
        tables: noisy counts, then the deviation of the noise in each table; or noisy sums, then their
            deviations and N, then the event's multiplier.
        asked: m_j of the owners that were in the run when the question was made: it may follow from N. None
            in stores of earlier releases.
    """

    question: str
    number: int
    drawn: int
    owners: tuple[str, ...]
    tables: Tables
    asked: Mapping[str, int] | None = None

    def to_bytes(self) -> bytes:
        """Encode the answer for the disk."""
        about = {name: getattr(self, name) for name in ("question", "number", "drawn", "owners", "asked")}
        text = np.frombuffer(json.dumps(about).encode("ascii"), dtype=np.uint8)
        tables: dict[str, NDArray[Any]] = {f"table{n}": table for n, table in enumerate(self.tables)}
        return npz_bytes({"about": text, **tables})

    @classmethod
    def from_bytes(cls, data: bytes) -> NoisyAnswer:
        """Read what `to_bytes` wrote."""
        arrays = npz_arrays(data, "an answer of owners")
        about = json.loads(arrays.pop("about").tobytes())
        about["owners"] = tuple(about["owners"])
        return cls(**about, tables=[arrays[f"table{n}"] for n in range(len(arrays))])


class Answers:
    """Noisy answers of one run, in the order of its questions."""

    def __init__(
        self, stored: Sequence[NoisyAnswer] = (), keep: Callable[[NoisyAnswer], None] = lambda answer: None
    ) -> None:
        """Begin with the answers of an earlier process.

        Args:
            stored: these answers.
            keep: writes an answer to disk, with its ledger lines; after that the next question may be asked.
        """
        self._stored = list(stored)
        self._keep = keep

    @property
    def asked(self) -> Mapping[str, int] | None:
        """Owners of the next stored answer, as its question was made; None: the next one is not stored."""
        return self._stored[0].asked if self._stored else None

    async def of(self, question: str, ask: Callable[[], Awaitable[NoisyAnswer]]) -> Tables:
        """Tables that answer a question: the stored answer, or the answer of `ask`.

        Raises:
            StoreError: the earlier process asked another question at this place.
        """
        if self._stored:
            answer = self._stored.pop(0)
            if answer.question != question:
                raise StoreError(
                    "a release cannot be continued: this process asks owners for something else than the one "
                    "that began the release",
                    "Finish it with the version of fedkme that it was begun with, or ask again.",
                )
            return answer.tables
        answer = await ask()
        self._keep(answer)
        return answer.tables


def question_of(vector: SumVector, sigmas: Sequence[float]) -> str:
    """Digest of a question with its noise."""
    return hashlib.sha256(f"{vector.digest} {[float(sigma) for sigma in sigmas]}".encode()).hexdigest()


def answer_tables(release: JointRelease) -> Tables:
    """Convert a release of embeddings to tables: the means; deviations and N; the event's multiplier."""
    noise = [*(embedding.sigma for embedding in release.embeddings), float(release.embeddings[0].rows)]
    multiplier = [release.event.noise_multiplier] if isinstance(release.event, Gaussian) else []
    return [*(embedding.mean for embedding in release.embeddings), np.array(noise), np.array(multiplier)]


def answered_release(tables: Tables, query: SumQuery) -> JointRelease:
    """Convert the tables of `answer_tables` back to the release that answers a question."""
    *means, noise, multiplier = tables
    embeddings = tuple(
        ReleasedEmbedding(spec, query.layout, mean, float(sigma), int(noise[-1]))
        for spec, mean, sigma in zip(query.specs, means, noise, strict=False)
    )
    return JointRelease(embeddings, None, Gaussian(float(multiplier[0])) if len(multiplier) else None)
