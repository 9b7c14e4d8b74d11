"""Descriptions of all configurations: JSON Schema for editors, and the page of docs that lists every key.

Both come from the settings classes: types, defaults, limits, and the docstring of each attribute.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from consumer.releases.client import ReleaseConsumerSettings
from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from fedkme.config import Settings
from fedkme.descriptions import DescribedSchema, Table, about, keys_text, title_of, wrapped
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


def page() -> str:
    """Text of docs/reference/configuration.md: every key of every configuration."""
    lines = [_HEAD]
    tables: dict[str, Table] = {}
    for kind, (_, what) in KINDS.items():
        described = json_schema(kind)
        tables |= {title_of(name): table for name, table in described.pop("$defs", {}).items()}
        lines.append(
            f"## {kind}\n\n{wrapped(f'{what[0].upper()}{what[1:]}.')}\n\n{keys_text(described, tables)}"
        )
    lines.append("## Tables inside")
    for title, table in sorted(tables.items()):
        lines.append(f"### {title}\n\n{wrapped(about(table))}\n\n{keys_text(table, tables)}")
    return "\n\n".join(line.strip("\n") for line in lines) + "\n"


_HEAD = """# Every key of every configuration

Made of the settings by `make reference`: do not edit. `fedkme schema json KIND` prints the JSON Schema of a
kind of file, by which editors complete and check TOML (those with taplo: `#:schema FILE` in the first line).
"""
