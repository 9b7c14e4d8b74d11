"""Croissant 1.1 metadata of a run's product (docs.mlcommons.org/croissant, 2026-01-29)."""

import csv
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from operate.dossier.facts import MISSING, Facts
from operate.dossier.registry import lines_of, product_of

_TERMS = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field"),
    *("fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath"),
    *("key", "md5", "parentField", "path", "recordSet", "references", "regex", "repeated", "replace"),
    *("samplingRate", "separator", "source", "subField", "transform"),
)
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "description": {"@container": "@language"},
    **{term: f"cr:{term}" for term in _TERMS},
}
"""The specification's context, appendix 1."""


def croissant(facts: Facts, home: Path) -> dict[str, Any]:
    """Describe the files of the product, and the columns of csv files.

    Args:
        facts: facts of the run.
        home: folder of the metadata; paths of files are relative to it.
    """
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": facts.name,
        "description": f"{product_of(facts)} Privacy: {'; '.join(lines_of(facts))}.",
        "citeAs": f"{MISSING} citation",
        "license": f"{MISSING} licence",
        "url": f"{MISSING} address at which the data are published",
        "creator": {"@type": "sc:Organization", "name": f"{MISSING} who publishes the data"},
        "datePublished": facts.day.isoformat(),
        "version": "1.0.0",
        "distribution": [_file(path, home) for path in facts.tables],
        "recordSet": [_records(path) for path in facts.tables if path.suffix == ".csv"],
    }


def _file(path: Path, home: Path) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "contentUrl": Path(os.path.relpath(path, home)).as_posix(),
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "text/csv" if path.suffix == ".csv" else "application/x-npz",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def _records(path: Path) -> dict[str, Any]:
    """Describe the columns of a table, with types inferred from cells; no value is included."""
    with path.open(encoding="utf-8", newline="") as lines:
        header, *rows = csv.reader(lines)
    cells = zip(*rows, strict=True) if rows else ((),) * len(header)
    columns = zip(header, map(_type_of, cells), strict=True)
    return {
        "@type": "cr:RecordSet",
        "@id": path.stem,
        "name": path.stem,
        "field": [_field(path, name, kind) for name, kind in columns],
    }


def _field(path: Path, name: str, kind: str) -> dict[str, Any]:
    source = {"fileObject": {"@id": path.name}, "extract": {"column": name}}
    return {
        "@type": "cr:Field",
        "@id": f"{path.stem}/{name}",
        "name": name,
        "dataType": kind,
        "source": source,
    }


def _type_of(cells: Iterable[str]) -> str:
    """Narrowest type that holds every cell; an empty cell is not an integer."""
    texts = set(cells)
    if all(text.removeprefix("-").isdecimal() for text in texts):
        return "sc:Integer"
    return "sc:Float" if all(_is_number(text) for text in texts - {""}) else "sc:Text"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
