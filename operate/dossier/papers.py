"""Papers of a run: the templates beside this module, filled with the run's facts.

- `registry.yaml`: entry for OpenDP's registry of deployments of differential privacy, in its schema's order
  (github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml, 2026-07-15).
- `croissant.json`: Croissant 1.1 metadata of the product (docs.mlcommons.org/croissant, 2026-01-29).
- `nist-800-226.md`: page after NIST SP 800-226 (2025), "Guidelines for Evaluating Differential Privacy
  Guarantees", in the order of its pyramid: epsilon and unit at the top, threats below, then data collection.
"""

import csv
import hashlib
import io
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from fedkme import __version__
from fedkme.inputs import open_input, read_bytes, read_text
from fedkme.privacy.accounting import PrivacyStatement
from fedkme.verdict import lines_of
from operate.dossier.facts import MISSING, Facts

Words = Mapping[str, str | None]
"""Texts of a template's placeholders; a line with a placeholder of None is left out."""


def papers_of(facts: Facts, home: Path) -> dict[str, str]:
    """Write the papers, by file name.

    Args:
        facts: facts of the run.
        home: folder of the papers; paths of the product's files are relative to it.
    """
    words = _words(facts)
    quoted = {
        key: None if text is None else json.dumps(text, ensure_ascii=False)[1:-1]
        for key, text in words.items()
    }
    metadata: dict[str, Any] = json.loads(_filled("croissant.json", quoted))
    metadata["distribution"] = [_file(path, home) for path in facts.tables]
    metadata["recordSet"] = [_records(path) for path in facts.tables if path.suffix == ".csv"]
    return {
        "registry.yaml": _filled("registry.yaml", quoted | _numbers(facts)),
        "croissant.json": json.dumps(metadata, indent=2, ensure_ascii=False) + "\n",
        "nist-800-226.md": _filled("nist-800-226.md", words),
    }


def _filled(name: str, words: Words) -> str:
    lines = map(Template, read_text(Path(__file__).with_name(name)).splitlines())
    kept = (line for line in lines if None not in {words[key] for key in line.get_identifiers()})
    return "".join(f"{line.substitute(words)}\n" for line in kept)


def _numbers(facts: Facts) -> dict[str, str | None]:
    """Make what stands without quotes in the registry's entry; without a bound there are no parameters.

    The slug is of name, curators and year, as the registry's tests demand (its scripts/update_slug.py). They
    read it by a regular expression, so it has quotes only where YAML needs them.
    """
    parts = facts.name, f"{MISSING} who publishes the data", str(facts.day.year)
    slug = "-".join(re.sub(r"\W+", "-", part.lower()) for part in parts).replace("_", "-")
    plain = re.fullmatch(r"[a-z][a-z0-9-]*-\d{4}", slug) is not None
    bounded = _bounded(facts)
    return {
        "slug": slug if plain else json.dumps(slug, ensure_ascii=False),
        "tier": "1" if bounded is None else "3",
        "epsilon": None if bounded is None else yaml_number(bounded.epsilon),
        "delta": None if bounded is None else yaml_number(bounded.delta),
    }


def yaml_number(value: float) -> str:
    """Write a number as every reader of YAML takes it: readers of YAML 1.1 take 1e-05 for text."""
    text = repr(value)
    return text.replace("e", ".0e") if "." not in text else text


def _bounded(facts: Facts) -> PrivacyStatement | None:
    """Statement about the product, if it has a bound."""
    return facts.product if facts.product is not None and math.isfinite(facts.product.epsilon) else None


def _words(facts: Facts) -> dict[str, str | None]:
    """Make the texts that papers share, and those of one paper."""
    product, bounded, statements = facts.product, _bounded(facts), facts.statements
    relations = dict.fromkeys(one.neighbouring for one in statements if one.neighbouring != "any")
    status = facts.record.get("status") or facts.metrics.get("status")
    seen = [
        f"  - of {one.protected}, by {one.observer}: {one.raw_points}" for one in statements if one.raw_points
    ]
    return {
        "name": facts.name,
        "version": __version__,
        "day": facts.day.isoformat(),
        "kind": "Synthetic data" if facts.is_release else "Dataset",
        "product": _product(facts),
        "security": _security(facts.record),
        "composition": _composition(facts.runs),
        "mechanisms": "; ".join(facts.mechanisms),
        "kinds": "\n".join(f"- {line}" for line in facts.mechanisms) or None,
        "variant": None if bounded is None else "Approximate DP" if bounded.delta else "Pure DP",
        "unit": product.unit if product else f"{MISSING} unit",
        "relation": f"Neighbouring relation: {product.neighbouring}; sizes are public."
        if product
        else f"{MISSING} neighbouring relation",
        "statements": "; ".join(map(_sentence, statements)) or "The ledgers hold no disclosure.",
        "unbounded": "; ".join(_sentence(one) for one in statements if math.isinf(one.epsilon)) or "nothing",
        "releases": "Many releases" if len(facts.runs) > 1 else "One release",
        "status": f"Status: {status}"
        if status
        else f"{MISSING} how the run ended; no record is in the folder",
        "table": "\n".join(map(_row, statements)) or None,
        "units": ", ".join(dict.fromkeys(one.unit for one in statements)) or "none",
        "relations": ", ".join(relations) or "any, since nothing was disclosed",
        "observers": ", ".join(dict.fromkeys(one.observer for one in statements)) or "none",
        "utility": "\n".join(_utility(facts.metrics)) or None,
        "randomness": _SIMULATED if facts.simulated else _DEPLOYED,
        "seen": "\n".join(["- Rows that were seen as they are:", *seen])
        if seen
        else "- No row was seen as it is, by the ledgers.",
    }


_SIMULATED = """A simulation: unless its settings say `noise = "secure"`, noise follows from their seed, and
  whoever knows the seed can take it off. Deployed, the same settings cost the same."""
_DEPLOYED = "Parties off loopback draw noise from the operating system alone, by exact integer samplers."


def _product(facts: Facts) -> str:
    owners = len(facts.record.get("owner_rows", ())) or facts.metrics.get("K")
    of = f" of {owners} owners" if owners else " of several owners"
    by = f" by the protocol {facts.protocol}" if facts.protocol else ""
    what = f"Statistics and synthetic data{of}" if facts.is_release else f"Rows{of} as they are, chosen"
    return f"{what}{by}. {'A simulation.' if facts.simulated else ''}".strip()


def _security(record: Mapping[str, Any]) -> str:
    """Say how far the curator is trusted in sums over owners."""
    match record.get("security"):
        case {"dropouts": dropouts, "colluders": colluders}:
            return (
                "Sums over owners are made by secure aggregation, with the owners' own noise in them; up to "
                f"{dropouts} owners may be lost, and noise covers {colluders} that side with the curator."
            )
        case _:
            return "No secure aggregation is recorded; what the curator sees stands in its statements."


def _composition(runs: Sequence[str]) -> str:
    """Say how losses add up, and over which runs."""
    names = ", ".join(runs[:8]) + (f" and {len(runs) - 8} more" if len(runs) > 8 else "")
    return (
        f"Everything that the ledgers hold of {names or 'no run'} is composed by fedkme's sound accountant, "
        "for each pair of a data set and an observer. What the same rows cost in runs of other ledgers is "
        "not in it."
    )


def _sentence(statement: PrivacyStatement) -> str:
    bound = f"epsilon {statement.epsilon:.4g} at delta {statement.delta:g}"
    if math.isinf(statement.epsilon):
        bound = f"no bound ({statement.reason})"
    whose = f"{statement.protected} ({statement.unit}) against {statement.observer}"
    return f"{whose}: {bound}, rows seen {statement.raw_points}"


def _row(statement: PrivacyStatement) -> str:
    bounded = math.isfinite(statement.epsilon)
    epsilon, delta = (f"{statement.epsilon:.4g}", f"{statement.delta:g}") if bounded else ("no bound", "-")
    reason = statement.reason.replace("|", "/")
    return (
        f"| {statement.protected} | {statement.unit} | {statement.observer} | {epsilon} | {delta} "
        f"| {statement.raw_points} | {reason} |"
    )


def _utility(metrics: Mapping[str, Any]) -> Iterator[str]:
    verdict = metrics.get("verdict")
    if verdict:
        yield f"- Verdict of the run: {' '.join(lines_of(verdict))} ({verdict['sentence']}.)"
    for name, value in (metrics.get("mmd2") or {}).items():
        if name.startswith("summary") and isinstance(value, float):
            yield f"- MMD^2 of {name} to the validation set: {value:.3g}"
    columns = (metrics.get("evaluation") or {}).get("columns") or {}
    if "mean" in columns:
        mean, largest = columns["mean"], columns["largest"]
        yield f"- Distance of columns to owners' rows: mean {mean:.3g}, largest {largest:.3g}"


def _file(path: Path, home: Path) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "contentUrl": Path(os.path.relpath(path, home)).as_posix(),
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "text/csv" if path.suffix == ".csv" else "application/x-npz",
        "sha256": hashlib.sha256(read_bytes(path)).hexdigest(),
    }


def _records(path: Path) -> dict[str, Any]:
    """Describe the columns of a table, with types inferred from cells; no value is included."""
    with io.TextIOWrapper(open_input(path), "utf-8", newline="") as lines:
        header, *rows = csv.reader(lines)
    cells = zip(*rows, strict=True) if rows else ((),) * len(header)
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{path.stem}/{name}",
            "name": name,
            "dataType": _type_of(column),
            "source": {"fileObject": {"@id": path.name}, "extract": {"column": name}},
        }
        for name, column in zip(header, cells, strict=True)
    ]
    return {"@type": "cr:RecordSet", "@id": path.stem, "name": path.stem, "field": fields}


_NUMBERS = {
    "sc:Integer": re.compile(r"-?(0|[1-9]\d*)", re.ASCII),
    "sc:Float": re.compile(r"(-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?)?", re.ASCII),
}
"""Types of numbers; digits such as 01067 are names, and would lose the 0."""


def _type_of(cells: Iterable[str]) -> str:
    """Narrowest type that holds every cell; an empty cell is not an integer."""
    texts = set(cells)
    fitting = (name for name, pattern in _NUMBERS.items() if all(map(pattern.fullmatch, texts)))
    return next(fitting, "sc:Text") if any(texts) else "sc:Text"
