"""Entry of a run for OpenDP's registry of deployments of differential privacy.

Its schema: github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml (2026-07-15).
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedkme import __version__
from fedkme.privacy.accounting import PrivacyStatement
from operate.dossier.facts import MISSING, Facts, bound_of


def registry_entry(facts: Facts) -> dict[str, Any]:
    """Make a draft of the entry; without a bound it has the reason in place of parameters.

    Fields have the order of the schema, as the registry's tests demand.
    """
    product = facts.product
    bounded = product is not None and math.isfinite(product.epsilon)
    basic = _basic(facts)
    return {
        "url_slug": _slug(basic),
        "status": "Draft",
        "tier": 3 if bounded else 1,
        "deployment": {
            "basic": basic,
            "dp_variant": _variant(facts, product if bounded else None),
            "privacy_loss": _loss(facts, product),
            "deployment_model": _model(facts),
            "accounting": _accounting(facts),
            "implementation": _implementation(facts),
            "administrative": {
                "notes": f"Written by fedkme {__version__} from the run's ledgers. {MISSING} the date of "
                "publication; the one above is of the run's record.",
                "registry_authors": [f"{MISSING} who fills out this entry"],
            },
        },
    }


def _slug(basic: Mapping[str, Any]) -> str:
    """Slug of name, curators and year, as the registry's tests demand (its scripts/update_slug.py)."""
    words = basic["name"], "-".join(basic["data_curators"]), basic["publication_date"][:4]
    return "-".join(re.sub(r"\W+", "-", word.lower()) for word in words).replace("_", "-")


def yaml_text(value: Mapping[str, Any]) -> str:
    """Write maps, lists of scalars, text and numbers as YAML, with text in double quotes as in JSON.

    Slugs, which end in a year, have no quotes: the registry's tests read them by a regular expression.
    """
    return "\n".join(_lines(value, "")) + "\n"


def _lines(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield f"{indent}{key}:"
            yield from _lines(inner, indent + "  ")
        elif isinstance(inner, list):
            yield f"{indent}{key}:"
            yield from (f"{indent}  - {_scalar(each)}" for each in inner)
        else:
            yield f"{indent}{key}: {_scalar(inner)}"


def _scalar(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9-]*-\d{4}", value):
        return value
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    small = isinstance(value, float) and "e" in text and "." not in text
    return text.replace("e", ".0e") if small else text  # readers of YAML 1.1 take 1e-05 for text


def _basic(facts: Facts) -> dict[str, Any]:
    return {
        "name": facts.name,
        "data_curators": [f"{MISSING} who publishes the data"],
        "intended_use": f"{MISSING} purpose",
        "data_product_type": "Synthetic data" if facts.is_release else "Dataset",
        "data_product_region": f"{MISSING} region that the data describe",
        "description": product_of(facts),
        "publication_date": facts.day.isoformat(),
    }


def product_of(facts: Facts) -> str:
    """Describe the product in one or two sentences."""
    owners = len(facts.record.get("owner_rows", ())) or facts.metrics.get("K")
    of = f" of {owners} owners" if owners else " of several owners"
    by = f" by the protocol {facts.protocol}" if facts.protocol else ""
    what = f"Statistics and synthetic data{of}" if facts.is_release else f"Rows{of} as they are, chosen"
    return f"{what}{by}. {'A simulation.' if facts.simulated else ''}".strip()


def _variant(facts: Facts, bounded: PrivacyStatement | None) -> dict[str, Any]:
    name = {"variant_name": "Approximate DP" if bounded.delta else "Pure DP"} if bounded else {}
    return name | {
        "data_domain": "Rows of a public schema, on which the parties agreed before the run.",
        "unprotected_quantities": "Numbers of owners and of their rows, and what is listed without a bound: "
        + ("; ".join(lines_of(facts, bounded=False)) or "nothing")
        + ".",
    }


def _loss(facts: Facts, product: PrivacyStatement | None) -> dict[str, Any]:
    bounded = product is not None and math.isfinite(product.epsilon)
    parameters: dict[str, Any] = {}
    if product is not None and bounded:
        parameters = {"privacy_parameters": {"epsilon": product.epsilon, "delta": product.delta}}
    return {
        "privacy_unit": product.unit if product else f"{MISSING} unit",
        "privacy_unit_details": f"Neighbouring relation: {product.neighbouring}; sizes are public."
        if product
        else f"{MISSING} neighbouring relation",
        **parameters,
        "privacy_parameters_details": "; ".join(lines_of(facts)) or "The ledgers hold no disclosure.",
    }


def lines_of(facts: Facts, bounded: bool | None = None) -> list[str]:
    """Statements in words: all, or only those with a bound (True) or without (False)."""
    return [
        f"{one.protected} ({one.unit}) against {one.observer}: {bound_of(one)}, rows seen {one.raw_points}"
        for one in facts.statements
        if bounded is None or math.isfinite(one.epsilon) is bounded
    ]


def _model(facts: Facts) -> dict[str, Any]:
    many = len(facts.runs) > 1
    return {
        "model_name": "Federated",
        "model_name_details": security_of(facts.record),
        "actors": "Owners hold the rows; a curator runs the protocol; a consumer gets the product. What each "
        "can learn of each data set stands under the parameters.",
        "release_type": "Many releases" if many else "One release",
        "release_type_details": f"{MISSING} whether the same rows will be used again",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
    }


def security_of(record: Mapping[str, Any]) -> str:
    """Say in a sentence how far the curator is trusted in sums over owners."""
    match record.get("security"):
        case {"dropouts": dropouts, "colluders": colluders}:
            return (
                "Sums over owners are made by secure aggregation, with the owners' own noise in them; up to "
                f"{dropouts} owners may be lost, and noise covers {colluders} that side with the curator."
            )
        case _:
            return "No secure aggregation is recorded; what the curator sees stands in its statements."


def _accounting(facts: Facts) -> dict[str, Any]:
    return {
        "post_processing": f"{MISSING} whatever is done with the product after the run",
        "composition": composition_of(facts.runs),
    }


def composition_of(runs: Sequence[str]) -> str:
    """Say in a sentence how losses add up, and over which runs."""
    names = ", ".join(runs[:8]) + (f" and {len(runs) - 8} more" if len(runs) > 8 else "")
    return (
        f"Everything that the ledgers hold of {names or 'no run'} is composed by fedkme's sound accountant, "
        "for each pair of a data set and an observer. What the same rows cost in runs of other ledgers is "
        "not in it."
    )


def _implementation(facts: Facts) -> dict[str, Any]:
    return {
        "preprocessing_and_hyperparameter_tuning": f"{MISSING} what was done with the rows before the run",
        "mechanisms": "; ".join(facts.mechanisms) + f". fedkme {__version__}.",
        "justification": f"{MISSING} why these parameters",
    }
