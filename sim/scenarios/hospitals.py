"""Scenario `hospitals`: heart disease in four real hospitals; one looks for patients like its own."""

from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedkme.config import Settings
from fedkme.errors import DataError
from fedkme.tables.files import read_columns, table_from_columns
from fedkme.tables.table import Table
from sim.scenarios.base import Fraction, Scenario, cut, domain, generator, locate, random_rows
from sim.scenarios.stand_ins import STAND_IN, StandIn, invented_columns

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_SITE = "hospital"


class Hospitals(Settings):
    """Heart disease in four hospitals."""

    kind: Literal["hospitals"] = "hospitals"
    path: StandIn | Path
    """A .parquet or .csv with the 13 usual columns, `num` and `hospital`; `stand-in`: invented rows."""
    target: Literal["cleveland", "hungarian", "switzerland", "va"] = "hungarian"
    """The hospital whose patients the consumer looks for."""
    validation_fraction: Fraction = 0.25
    """Share of the target's rows that is D_v."""
    test_fraction: Fraction = 0.25
    """Share of the target's rows that is the test set; the rest belongs to the target as an owner."""
    seeds: int = Field(default=150, ge=0)
    """Seed rows, drawn uniformly from the public domain: no row of a patient is public."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.validation_fraction + self.test_fraction > 1:
            raise ValueError("'validation_fraction' and 'test_fraction' add up to more than 1")
        return self

    def build(self, seed: int) -> Scenario:
        """Give every hospital its rows; the target owns what D_v and the test set leave of its rows.

        Raises:
            ConfigError: no such file.
            DataError: the file does not fit the schema.
        """
        schema = domain("hospitals")
        if self.path == STAND_IN:
            columns = invented_columns(schema, dict.fromkeys(HOSPITALS, 300), _SITE)
        else:
            columns = read_columns(locate(self.path, "path"), "hospitals")
        patients = table_from_columns(columns, schema, "hospitals")
        schema.check(patients, "hospitals")
        if patients.labels is None or _SITE not in columns:
            cause = f"hospitals: the file has no column '{_SITE}' or no column 'num'"
            raise DataError(cause, "Give a file with both.")
        site = np.asarray(columns[_SITE])
        rows = {name: np.flatnonzero(site == name) for name in HOSPITALS}
        own = rows[self.target]
        validation, rest = cut(
            patients.labels, own, self.validation_fraction, generator(seed, "hospitals", "validation")
        )
        share = self.test_fraction / (1 - self.validation_fraction)
        test, rows[self.target] = cut(patients.labels, rest, share, generator(seed, "hospitals", "test"))
        return Scenario(
            name="hospitals",
            schema=schema,
            owners={name: patients.take(rows[name]) for name in HOSPITALS},
            validation=Table(patients.values[validation]),
            test=patients.take(test),
            seeds=random_rows(schema, self.seeds, generator(seed, "hospitals", "seeds")),
        )
