"""Owners of one table with a column of sites, which names each row's owner."""

import re
import unicodedata
from collections.abc import Iterable, Mapping

import numpy as np

from fedkme.errors import DataError
from fedkme.party import fault_of_name
from fedkme.tables.cells import Cells, normal, texts
from sim.scenarios.base import Rows

_LONGEST = 56
"""Most characters of a site's name, so that a prefix and a number still fit."""

_SIGNS = re.compile(r"[\s_./-]+")
"""Signs for which people write one another in a site's name."""


def rows_by_site(columns: Mapping[str, Cells], site_column: str, least_rows: int = 1) -> dict[str, Rows]:
    """Rows of each site, ascending, by owner's name; the name is made from the site's.

    Args:
        columns: columns of the table.
        site_column: the column of sites.
        least_rows: leave out sites with fewer rows.

    Raises:
        DataError: there is no such column, a cell of the column is empty, two sites look alike, or no site
            has `least_rows` rows.
    """
    if site_column not in columns:
        cause = f"the table has no column '{site_column}' to tell sites apart"
        raise DataError(cause, f"Its columns: {', '.join(columns)}; correct scenario.site_column.")
    names = np.array([*map(normal, texts(columns[site_column]))], dtype=str)
    if nobody := int(np.sum(names == "")):
        cause = f"column '{site_column}' of sites is empty, rows: {nobody}"
        raise DataError(cause, "Fill these cells, or remove the rows: each row is somebody's.")
    sites, site_of, counts = np.unique(names, return_inverse=True, return_counts=True)
    alike: dict[str, str] = {}
    for site in sites.tolist():
        if (other := alike.setdefault(_SIGNS.sub(" ", site.casefold()), site)) != site:
            cause = f"'{other}' and '{site}' in column '{site_column}' look like one site"
            raise DataError(cause, "Write its name in one way; if they are two, call one otherwise.")
    rows = np.split(np.argsort(site_of, kind="stable"), np.cumsum(counts)[:-1])
    large = {str(site): own for site, own in zip(sites, rows, strict=True) if len(own) >= least_rows}
    if not large:
        cause = f"no site of column '{site_column}' has {least_rows} rows"
        raise DataError(cause, "Give a table with more rows, or a smaller scenario.least_rows.")
    return {name: large[site] for site, name in owner_names_of(large).items()}


def owner_names_of(sites: Iterable[str]) -> dict[str, str]:
    """Unique, valid names of owners by site, in the order of `sites`.

    "Köln, Süd" is `koln-sud`; a second site of that name is `koln-sud-2`.
    """
    names: dict[str, str] = {}
    for site in sites:
        base, number = owner_name_of(site), 2
        name = base
        while name in names.values():
            name, number = f"{base}-{number}", number + 1
        names[site] = name
    return names


def owner_name_of(site: str) -> str:
    """Make an owner's name from the name of a site or a file: Köln, Süd is `koln-sud`."""
    plain = unicodedata.normalize("NFKD", site).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain)[:_LONGEST].strip("-") or "site"
    return f"site-{name}" if fault_of_name(name, "owner") else name
