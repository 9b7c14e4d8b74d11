"""The contract of a release method that pools embeddings (`EmbeddingMethod`)."""

from __future__ import annotations

import asyncio
import math

import pytest

from audit.contracts.rows import MIXED, random_table
from audit.in_memory import OwnersInMemory
from curator.releases.method import Method, make_method
from fedkme.errors import DataError, NotEnoughRowsError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import ExactStatistic
from fedkme.protocols import PROTOCOLS
from fedkme.releases.file import from_bytes
from fedkme.releases.settings import METHODS, ReleaseSettings, settings_from_json, settings_to_json
from fedkme.tables.schema import Schema

_ROWS = 2000


class ReleaseContract:
    """Tests of any method that pools embeddings; a subclass gives the fixture `settings`, at epsilon 1."""

    @pytest.fixture
    def settings(self) -> ReleaseSettings:
        """Settings of the method, small enough to train in a second."""
        raise NotImplementedError

    @pytest.fixture
    def schema(self) -> Schema:
        """The public domain; MIXED unless a subclass says otherwise."""
        return MIXED

    def test_it_has_a_row_and_settings_that_travel(self, settings: ReleaseSettings, schema: Schema) -> None:
        """Owners agree to it by its row; a request carries its settings as JSON."""
        row = PROTOCOLS[settings.kind]
        assert (row.family, row.rows) == ("sums", "none")
        assert METHODS[settings.kind] is type(settings)
        assert settings_from_json(settings_to_json(settings)) == settings
        assert _made(settings, schema).protocol == settings.kind

    def test_pooling_over_owners_gives_the_release_of_one_that_holds_everything(
        self, settings: ReleaseSettings, schema: Schema
    ) -> None:
        """5 or 20 owners make the same release as one that holds everything, to the last bit."""
        one = from_bytes(_asked(settings, schema, 1))
        for owners in (5, 20):
            several = from_bytes(_asked(settings, schema, owners))
            assert several.owners == owners
            for left, right in zip(one.embeddings, several.embeddings, strict=True):
                assert left.map_spec == right.map_spec
                assert left.mean.tobytes() == right.mean.tobytes()
            assert (one.masses is None) == (several.masses is None)
            if one.masses is not None and several.masses is not None:
                assert one.masses.tobytes() == several.masses.tobytes()

    def test_the_same_release_gives_the_same_files(self, settings: ReleaseSettings, schema: Schema) -> None:
        """A curator that died finishes the run again."""
        release = _asked(settings, schema)
        first, second = (_made(settings, schema).finish(release, lambda *_: None) for _ in range(2))
        assert dict(first.files) == dict(second.files)
        assert first.files["release.npz"] == release
        assert first.rows > 0

    def test_the_plan_costs_what_the_release_costs(self, settings: ReleaseSettings, schema: Schema) -> None:
        """Owners decide by the plan; ledgers have the event."""
        event = from_bytes(_asked(settings, schema)).event
        assert event is not None
        for events in (_made(settings, schema).planned(), (event,)):
            bound = Sound().epsilon(events, settings.delta)
            assert bound.epsilon == pytest.approx(settings.epsilon, rel=1e-5)

    def test_without_noise_the_plan_is_an_exact_statistic(
        self, settings: ReleaseSettings, schema: Schema
    ) -> None:
        """Epsilon inf is no guarantee, and says so."""
        exact = settings.model_copy(update={"epsilon": math.inf})
        assert all(isinstance(event, ExactStatistic) for event in _made(exact, schema).planned())
        assert from_bytes(_asked(exact, schema)).event is None

    @pytest.mark.parametrize("count", [3, 40])
    def test_too_few_rows_name_an_epsilon_that_is_usable(
        self, settings: ReleaseSettings, schema: Schema, count: int
    ) -> None:
        """Owners are not asked where the answer would be noise."""
        owners = OwnersInMemory(random_table(schema, count), schema, 3)
        small = settings.model_copy(update={"epsilon": 0.01})
        with pytest.raises(NotEnoughRowsError, match=f"{count} rows are too few at epsilon 0.01") as raised:
            asyncio.run(_made(small, schema).ask(owners))
        assert owners.asked == 0
        usable = float(raised.value.remedy.split("epsilon ")[1].split(" ")[0])
        assert usable > 0.01
        enough = _made(settings.model_copy(update={"epsilon": usable}), schema)
        assert from_bytes(asyncio.run(enough.ask(owners))).rows == count
        assert owners.asked > 0

    def test_owners_without_rows_are_not_asked(self, settings: ReleaseSettings, schema: Schema) -> None:
        """N is public: nothing is computed where it is 0."""
        owners = OwnersInMemory(random_table(schema, 0), schema, 2)
        with pytest.raises(NotEnoughRowsError, match="no rows"):
            asyncio.run(_made(settings, schema).ask(owners))
        assert owners.asked == 0

    def test_bytes_that_are_no_release_are_refused(self, settings: ReleaseSettings, schema: Schema) -> None:
        """A curator's journal may be damaged."""
        with pytest.raises(DataError):
            _made(settings, schema).finish(b"nothing", lambda *_: None)


def _made(settings: ReleaseSettings, schema: Schema) -> Method:
    return make_method(settings, schema, random_table(schema, 80, seed=9), 7)


def _asked(settings: ReleaseSettings, schema: Schema, owners: int = 5) -> bytes:
    table = random_table(schema, _ROWS)
    return asyncio.run(_made(settings, schema).ask(OwnersInMemory(table, schema, owners)))
