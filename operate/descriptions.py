"""JSON Schema of all configurations, for editors.

It comes from the settings classes: types, defaults, limits, and the docstring of each attribute.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from consumer.releases.client import ReleaseConsumerSettings
from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from fedkme.config import Settings
from fedkme.descriptions import DescribedSchema
from fedkme.tables.schema import Schema
from owner.settings import OwnerSettings
from sim.config import SimulationSettings
from sim.release_config import ReleaseSimulation

KINDS: Mapping[str, tuple[type[Settings], str]] = {
    "schema": (Schema, "a public schema, SCHEMA.toml"),
    "owner": (OwnerSettings, "OWNER.toml of `fedkme owner join`"),
    "curator": (CuratorSettings, "CURATOR.toml of `fedkme curator serve`"),
    "consumer": (ConsumerSettings, "CONSUMER.toml of `fedkme consumer summary`"),
    "consumer-release": (ReleaseConsumerSettings, "CONSUMER.toml of `fedkme consumer release`"),
    "scenario": (SimulationSettings, "a scenario of `fedkme sim run`"),
    "release-scenario": (ReleaseSimulation, "release.toml of a run of `fedkme release`"),
}
"""Kinds of configurations, as `fedkme schema json` names them: settings class and description."""


def json_schema(kind: str) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a kind of configuration."""
    model, what = KINDS[kind]
    schema = TypeAdapter(model).json_schema(by_alias=True, schema_generator=DescribedSchema)
    if kind == "scenario":  # settings of `fedkme release`, by method
        schema["properties"]["release"] = {
            "type": "object",
            "description": "Settings of releases, by method.",
        }
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **schema,
        "title": f"fedkme: {what.replace('`', '')}",
    }
