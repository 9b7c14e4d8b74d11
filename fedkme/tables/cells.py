"""Cells of files and frames: how a day is written and read."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator

_EPOCH = date(1970, 1, 1)
_TIME = r"(?:[01]?\d|2[0-4]):[0-5]\d(?::(?:[0-5]\d|60)(?:[.,]\d+)?)?"
_DAY = re.compile(
    rf"(\d{{4}})-(\d\d?)-(\d\d?)(?:(?: +|T){_TIME}(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?)?", re.ASCII
)
"""Pattern of a day in ISO 8601, padded or not, alone or before a time with or without its zone."""


def day_of(text: str) -> float:
    """Days from 1970-01-01 to a date such as 2024-12-31 or 2024-7-1; a time may follow.

    Raises:
        ValueError: the text is no date.
    """
    match = _DAY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:20]!r} is no date; write it as 2024-12-31")
    return days_of(date(*map(int, match.groups())))


def days_of(day: date) -> float:
    """Days from 1970-01-01."""
    return float(day.toordinal() - _EPOCH.toordinal())


def date_of(days: float) -> str:
    """ISO 8601 date at a number of days after 1970-01-01."""
    return (_EPOCH + timedelta(days=round(days))).isoformat()


def _date_form(form: str) -> str:
    day = date(2024, 11, 28)
    try:
        whole = datetime.strptime(day.strftime(form), form).date() == day
    except ValueError:
        whole = False
    if not whole:
        raise ValueError(f"{form!r} is no form of year, month and day, such as '%d.%m.%Y'")
    return form


DateForm = Annotated[str, AfterValidator(_date_form)]
"""Form of dates, as Python's strptime takes it."""
