"""Dates in a form of strptime, with names of months in the languages of Europe."""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import AfterValidator

from fedkme.tables.cells import date_of, day_of, days_of

_MONTHS = (
    "jan january januar jänner jaen janner janv janvier ene enero gen gennaio janeiro januari tammi tammikuu "
    "tammikuuta sty stycznia styczeń led leden ledna ianuarie ιαν янв января",
    "feb february februar feber févr fevr fév février febrero febbraio fev fevereiro februari helmi helmikuu "
    "helmikuuta lut luty lutego úno únor února februarie φεβ фев февраля",
    "mar march mär märz maerz mrz mars marzo março maart mrt maalis maaliskuu maaliskuuta marca marzec bře "
    "březen března martie μαρ мар марта",
    "apr april avr avril abr abril aprile huhti huhtikuu huhtikuuta kwi kwietnia kwiecień dub duben dubna "
    "aprilie απρ апр апреля",
    "may mai mayo mag maggio maio mei maj toukokuu touko toukokuuta maja kvě květen května μαι μαϊ мая май",
    "jun june juni juin junio giu giugno junho kesä kesäkuu kesäkuuta cze czerwca czerwiec čvn červen června "
    "iunie ιουν июн июня",
    "jul july juli juil juillet julio lug luglio julho heinä heinäkuu heinäkuuta lip lipca lipiec čvc "
    "červenec července iulie ιουλ июл июля",
    "aug august août aout ago agosto augustus augusti elo elokuu elokuuta sie sierpnia sierpień srp srpen "
    "srpna αυγ авг августа",
    "sep sept september septembre septiembre setiembre set settembre setembro syys syyskuu syyskuuta wrz "
    "września wrzesień zář září septembrie σεπ сен сент сентября",
    "oct october okt oktober octobre octubre ott ottobre out outubro loka lokakuu lokakuuta paź paz "
    "października październik říj říjen října octombrie οκτ окт октября",
    "nov november novembre noviembre novembro marras marraskuu marraskuuta lis listopad listopada noiembrie "
    "νοε ноя нояб ноября",
    "dec december dez dezember déc décembre dic diciembre dicembre dezembro des desember joulu joulukuu "
    "joulukuuta gru grudnia grudzień pro prosinec prosince decembrie δεκ дек декабря",
)
_WEEKDAYS = (
    "mon monday tue tues tuesday wed wednesday thu thur thurs thursday fri friday sat saturday sun sunday "
    "mo montag di dienstag mi mittwoch do donnerstag fr freitag sa samstag sonnabend so sonntag lun lundi "
    "mardi mer mercredi jeu jeudi ven vendredi sam samedi dim dimanche lunes martes mié miércoles jue jueves "
    "vie viernes sáb sábado dom domingo lunedì martedì mercoledì giovedì venerdì sabato domenica"
)
_WORD = re.compile(r"[^\W\d_]+\.?")
_ORDINAL = re.compile(r"(?<=\d)(st|nd|rd|th|er|º|ª|\.)(?=[\s,]|$)", re.IGNORECASE)
_BREAKS = re.compile(r"^[\s,]+")
ENGLISH = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
"""Names of months as strptime reads them."""
_BY_CHANCE = 15
"""Count of different days from which it is no chance that all are above 12: three in five are."""
HALF_SWAPPED = (
    "days up to 12 in another form than those above: a spreadsheet swapped day and month",
    "Take the days from their source, as text.",
)
"""Description and remedy of such days."""


def _plain(word: str) -> str:
    decomposed = unicodedata.normalize("NFD", word.casefold().rstrip("."))
    return "".join(sign for sign in decomposed if not unicodedata.combining(sign))


_BY_WORD = {
    _plain(word): name for name, words in zip(ENGLISH, _MONTHS, strict=True) for word in words.split()
}
_BY_DAY = frozenset(map(_plain, _WEEKDAYS.split())) - _BY_WORD.keys()


def day_in_form(text: str, form: str) -> date:
    """Day that a text states in a form of strptime.

    Where the form has %b, a month is named in any of these languages, short or long, a weekday before the
    day is skipped, and so are the endings of "13th", "1er" and "13.".

    Raises:
        ValueError: the text has another form.
    """
    return datetime.strptime(english(text) if "%b" in form else text, form).date()


def english(text: str) -> str:
    """Text with the names of months as strptime reads them, without weekday and endings of ordinals."""
    text = _ORDINAL.sub("", _WORD.sub(_month, text))
    return _BREAKS.sub("", text)


def _month(match: re.Match[str]) -> str:
    word = _plain(match[0])
    if word in _BY_DAY and not match.string[: match.start()].strip():
        return ""
    return _BY_WORD.get(word, match[0])


def _date_form(form: str) -> str:
    day = datetime(2024, 11, 1, 10, tzinfo=UTC)  # a form of months stands for their first days
    try:
        whole = day_in_form(day.strftime(form), form) == day.date()
    except ValueError:
        whole = False
    if not whole:
        raise ValueError(f"{form!r} is no form of year, month and day, such as '%d.%m.%Y'")
    return form


DateForm = Annotated[str, AfterValidator(_date_form)]
"""Form of dates, as Python's strptime takes it."""


def day_within(day: date, form: str, bounds: tuple[float, float]) -> float:
    """Days since 1970 of a day; one of two digits of a year is of the century in which the bounds are."""
    days = days_of(day)
    if "%y" in form and not bounds[0] <= days <= bounds[1]:
        for years in (-100, 100):
            with suppress(ValueError):  # 29 February
                if bounds[0] <= (other := days_of(day.replace(year=day.year + years))) <= bounds[1]:
                    return other
    return days


def of_two_digits(years: Sequence[int]) -> Sequence[int]:
    """Years of the last century for those to come, if all are nearer to each other then: births, not ends."""
    now = datetime.now(UTC).year
    moved = [year - 100 if year > now else year for year in years]
    return moved if max(moved) - min(moved) <= max(years) - min(years) else years


def date_reader(
    own: str | None, public: str | None, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Callable[[str], float]:
    """Reader of dates in the file's own form, else in ISO 8601, else in the schema's form."""
    forms = [form for form in (own, "", public) if form is not None]

    def day(text: str) -> float:
        for form in forms if text else ():
            with suppress(ValueError):
                return day_within(day_in_form(text, form), form, bounds) if form else day_of(text)
        if text:
            raise ValueError
        return math.nan

    return day


def half_swapped(cells: Sequence[str], *forms: str | None) -> list[int]:
    """Places of days in ISO form of which a spreadsheet swapped day and month, as it could not in all others.

    It takes 03/04/2021 for a day in its own order, and leaves 13/04/2021 as text. So no day in ISO form is
    above 12, and each in the column's own form is: too many for chance.
    """
    swappable = [form for form in forms if form and "%d" in form and "%m" in form]
    moments, texts = dict[str, float](), set[str]()
    for cell in {*cells} if swappable else ():
        for form in swappable:
            with suppress(ValueError):
                if day_in_form(cell, form).day <= 12:
                    return []
                texts.add(cell)
        if cell and cell not in texts:
            with suppress(ValueError):
                moments[cell] = day_of(cell)
    if len(texts) < _BY_CHANCE or len(moments) < _BY_CHANCE:
        return []
    if any(int(date_of(day)[-2:]) > 12 for day in moments.values()):
        return []
    return [place for place, cell in enumerate(cells) if cell in moments]
