"""Words that people write in tables, by meaning, in the languages of Europe: for hints alone.

A hint turns such a word into a setting that a person can see. Readers of rows do not use these tables.
"""

import difflib
import itertools
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fedkme.inputs import read_text
from fedkme.tables.dates import ENGLISH, english

_RANGE = re.compile(r"\d+")
_DAY_OF_RANGE = re.compile(r"(?P<first>[A-Z][a-z]{2})?\W{0,2}(?P<day>\d{1,2})\W{0,2}(?P<last>[A-Z][a-z]{2})?")
"""Pattern of a day that a spreadsheet writes without a year: 14-Oct, Oct-14, 14. Oct."""
_HUMP = re.compile(r"(?<=[a-zà-ÿ])(?=[A-ZÀ-Ý])")
"""Place between the words of weightKg."""
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"})
_LOOK_ALIKE = str.maketrans("авекмнорстухіјѕαεικνορτυχ‐‑‒–—−’‘`´", "abekmhopctyxijsaeikvoptux------''''")
_SIGNS = str.maketrans({"ø": "o", "đ": "d", "ł": "l", "æ": "ae", "œ": "oe", "ı": "i"})
_UNIT_BEHIND = re.compile(r"\s*[(\[][^()\[\]]*[)\]]$")
"""Pattern of a unit behind a column's name, as in "weight (kg)"."""
_BRACKETS = re.compile(r"[(\[].*[)\]]$")
_RANGES = {
    "month": ((1.0, 12.0), (0.0, 11.0)),
    "day": ((1.0, 31.0),),
    "hour": ((0.0, 23.0), (0.0, 24.0)),
    "minute": ((0.0, 59.0), (0.0, 60.0)),
    "week": ((1.0, 53.0), (0.0, 53.0)),
    "quarter": ((1.0, 4.0),),
}
"""Ranges of parts of dates and times: rounded outwards, made rows would have an hour 27 and a minute 60."""


def plain(text: str) -> str:
    """Text without case, accents and blanks, for comparison."""
    return "".join(_without_accents(text).split())


def _without_accents(text: str) -> str:
    split = unicodedata.normalize("NFKD", text.casefold().translate(_SIGNS))
    return "".join(sign for sign in split if not unicodedata.combining(sign))


def _read_again(text: str, of: str = "utf-8") -> str:
    """Text as it was where another encoding of its bytes was taken: Köln for KÃ¶ln."""
    for encoding in ("cp1252", "latin-1"):
        with suppress(UnicodeError):
            return text.encode(encoding).decode(of)
    return text


def _in_old_code(cell: str, names: Iterable[str]) -> list[str]:
    """Names that a cell is in the code of DOS or of old Macs: Köln for K”ln."""
    return [name for name in names if name in (_read_again(cell, "cp850"), _read_again(cell, "mac_roman"))]


def _as_typed(text: str) -> str:
    """Text without what keyboards write in several ways: umlauts, dashes, apostrophes, look-alikes."""
    return plain(text.casefold().translate(_LOOK_ALIKE).translate(_UMLAUTS))


def _without_zeros(text: str) -> str:
    """Digits as a spreadsheet or a float leaves a code: 1067 for 01067, and 1067.0."""
    return digits.lstrip("0") if (digits := text.removesuffix(".0")).isdecimal() else text


def _months_and_days(cell: str, names: Iterable[str]) -> list[str]:
    """Names that are the range of numbers of which a spreadsheet made a day: 10-14 for 14-Oct."""
    day = _DAY_OF_RANGE.fullmatch(english(cell))
    if day is None or (month := (day["first"] or day["last"])) not in ENGLISH:
        return []
    ends = {int(day["day"]), 1 + ENGLISH.index(month)}
    return [
        name
        for name in names
        if {*map(int, _RANGE.findall(name))} == ends and not re.search(r"[^\W\d]", name)
    ]


def plain_name(name: str) -> str:
    """Name of a column without case, accents, blanks, underscores and a unit behind it."""
    bare = _UNIT_BEHIND.sub("", name) or name
    return re.sub(r"[\W_]+", "", plain(bare)) or plain(name)


def same_unit(unit: str) -> str:
    """Unit by the first of its synonyms."""
    return _SAME_UNITS.get(plain(unit), plain(unit))


def unit_of(name: str) -> str:
    """Unit that a column's name ends with, by the first of its synonyms; "" for none known."""
    *_, one, two = "", *re.split(r"[\s_.(\[]+", _HUMP.sub(" ", name.rstrip(")] ")))
    known = [plain(unit) for unit in (f"{one}/{two}", f"{one}{two}", two) if plain(unit) in UNITS]
    return same_unit(known[0]) if known and known[0] != plain(name) else ""


def in_other_units(names: Iterable[str]) -> bool:
    """Check whether names of columns end with different units: weight_kg and "Weight (lb)"."""
    return len({unit_of(name) for name in names} - {""}) > 1


def _words(text: str) -> frozenset[str]:
    return frozenset(plain(word) for word in text.split(",") if word.strip())


_FILE = tomllib.loads(read_text(Path(__file__).parent / "words.toml"))
YES = _words(_FILE["yes"])
NO = _words(_FILE["no"])
MALE = _words(_FILE["male"])
FEMALE = _words(_FILE["female"])
_SIDED = YES | NO | MALE | FEMALE
ANYWHERE = frozenset(word.strip() for word in _FILE["anywhere"].split(","))
"""Words for an empty cell in any column, in small letters."""
NOTHING = _words(_FILE["anywhere"]) | _words(_FILE["nothing"]) | _words(_FILE["errors"])
"""Words for an empty cell, with errors of spreadsheets."""
STATES = _words(_FILE["states"])
"""Words of these that may be a class of a label."""
NOT_MEASURED = _words(_FILE["not_measured"])
"""Words for an empty cell in columns of numbers and of days alone: elsewhere ND may be a state."""
UNITS = _words(_FILE["units"])
"""Units and currencies that stand before or behind a number."""
_SAME_UNITS: dict[str, str] = {
    unit: line.split(",")[0] for line in _FILE["same_units"] for unit in _words(line)
}
SCALES = _words(_FILE["scales"])
"""Units and words behind some numbers of a column that make these no like of those without."""
NOUNS = {meaning: frozenset(words.split()) for meaning, words in _FILE["nouns"].items()}
"""Words in names of columns, by what the columns tell."""
_CALENDAR = {word: _RANGES[part] for part, words in _FILE["calendar"].items() for word in words.split()}
_Sides = tuple[frozenset[str], frozenset[str]]
_SEXES = ("mf", "mw", "mv", "mk", "mz", "mn", "hf", "hm", "fn")
"""Letters for male and female in one column: m and w in German, h and m in Spanish, f and n in Hungarian."""
_REFUSED = re.compile(r"([789])\1*")
"""Pattern of the only number among names: 9, 99, 888."""
_CENSORED = re.compile(
    r"([<>≤≥]=?|(under|over|unter|über|ab|bis|plus de|moins de|más de|menos de|at least|up to) )"
    r"\s*[\d.,]+\+?|"
    r"[\d.,]+ ?(\+|(or|and|und|et|y|e) (more|over|above|older|under|less|younger|mehr|älter|plus|más|oltre))"
)
"""Pattern of a number with a known bound on one side: `<5`, `>90`, `90+`."""
_NO_WORD = re.compile(r"[-./?_|\\:\u2013\u2014]+")
"""Pattern of signs alone, such as ./. of a genotype; not of + or *, which may stand once, twice or thrice."""
_TRIED, _KINDS, _SHARE = 20, 5, 0.25
"""Texts by which a form of days is told; kinds, and share of cells, of what is no day among them."""
_NO_DAY = re.compile(r"(0{4}|9{4}|0{2}|9{2})([-./ ])(00|99)\2(0{4}|9{4}|0{2}|9{2})( 00:00(:00)?)?")
_COLUMNS = [frozenset(map(plain_name, line.split(","))) for line in _FILE["columns"]]


def is_no_day(text: str) -> bool:
    """Check for a day of zeros or nines, in any order of its parts: 0000-00-00, 99/99/99."""
    return _NO_DAY.fullmatch(text) is not None


def no_days(
    counts: Mapping[str, int], nothing: Collection[str], forms_of: Callable[[Iterable[str]], Collection[str]]
) -> list[str]:
    """Texts beside days that are none, such as "unknown", 2021-05-00 or 2021-02-30, if they are of few kinds.

    Args:
        counts: number of cells with each text.
        nothing: texts that stand for an empty cell.
        forms_of: forms of dates that fit all texts.
    """
    texts = sorted((text for text in counts if text and text not in nothing), key=lambda text: -counts[text])
    likely = Counter(form for text in texts[:_TRIED] for form in forms_of([text]))
    for form, _ in likely.most_common():
        others = [text for text in texts if form not in forms_of([text])]
        if len(others) <= _KINDS and sum(map(counts.__getitem__, others)) <= _SHARE * sum(counts.values()):
            return others
    return []


def means_nothing(text: str, *, among_numbers: bool) -> bool:
    """Check whether a cell is a word for an empty cell, an error of a spreadsheet, or a censored number."""
    word = plain(text)
    if word in NOTHING or _NO_WORD.fullmatch(word) or is_no_day(text):
        return True
    return among_numbers and (word in NOT_MEASURED or _CENSORED.fullmatch(text.casefold()) is not None)


def meanings(cells: Iterable[str], names: Iterable[str], beside: Iterable[str] = ()) -> dict[str, str]:
    """Match cells to names: one word in other case, accents or encoding; words for yes, no, male and female.

    A spreadsheet takes the zeros before a postal code away: such cells are matched, too.

    Args:
        cells: distinct cells of a column that are no names.
        names: categories or classes of the schema.
        beside: names that other cells of the column are.

    Returns:
        Names by cell, for cells that clearly stand for a name. A word for yes or no, male or female is
        matched if all other cells are such words, or if both are there beside a third; but 0, 1 and 2 may
        mean anything. Beside h, the cell m is a woman, whatever the name m is.
    """
    names, same = tuple(names), dict[str, str]()
    sided = [name for name in names if len(word := plain(name)) == 1 or word in _SIDED]
    for form in (str.casefold, plain, _read_again, _without_zeros, _as_typed):
        by_form = _grouped(names, form)
        found = {cell: by_form.get(form(cell), []) for cell in sorted(cells) if cell not in same}
        same |= {cell: listed[0] for cell, listed in found.items() if len(listed) == 1}
    garbled = {
        cell: _months_and_days(cell, names) or _in_old_code(cell, names) for cell in {*cells} - {*same}
    }
    same |= {cell: listed[0] for cell, listed in garbled.items() if len(listed) == 1}
    others = [cell for cell in sorted(cells) if cell not in same]
    everything = [*same, *others, *beside]
    truth = YES - NO, NO - YES
    for (first, second), sides in ((truth, truth), *_sexes(everything, sided)):
        ends = [[name for name in sided if plain(name) in side] for side in sides]
        clear = [cell for cell in others if plain(cell) in first | second]
        both = all(any(plain(cell) in side for cell in everything) for side in (first, second))
        alone = len(clear) == len(others) or (both and not any(cell.isdecimal() for cell in clear))
        if [len(end) for end in ends] == [1, 1] and clear and alone:
            read = {
                cell: ends[plain(cell) in second][0] for cell in everything if plain(cell) in first | second
            }
            return same | {cell: name for cell, name in read.items() if cell != name}
    return same


def doubts(names: Iterable[str]) -> str:
    """Remark on names that may be one name in several spellings, or none as 8 and 9 after 1 to 5; or ""."""
    names = list(names)
    plains = {plain(name) for name in names}
    truth = plains <= YES | NO and not plains.isdisjoint(NO - YES) and not plains.isdisjoint(YES - NO)
    spellings = _grouped(
        names, _side if truth else lambda name: " ".join(_read_again(name).casefold().split())
    )
    several = "; ".join(", ".join(each) for each in spellings.values() if len(each) > 1)
    remark = f"one name in several spellings ({several})? Keep one, then `check` says how to read it"
    return remark if several else _no_answers(names)


def _no_answers(names: Sequence[str]) -> str:
    numbers = sorted(int(name) for name in names if name.isdecimal() and len(name) < 5)
    scale, rest = [n for n in numbers if n < 7], [n for n in numbers if n >= 7]
    steps = len(scale) >= 3 and scale[0] in (0, 1) and scale[-1] - scale[0] == len(scale) - 1
    if len(numbers) == len(names) and steps and rest and rest[0] > scale[-1] + 1 and rest[-1] <= 9:
        return f"{', '.join(map(str, rest))}: no answer? Then list them under 'na'"
    single = [name for name in names if name.isdecimal()]
    if len(single) == 1 < len(names) - 1 and _REFUSED.fullmatch(single[0]):
        return f"{single[0]}: no answer? Then list it under 'na'"
    return ""


def _side(name: str) -> str:
    word = plain(name)
    return "yes" if word in YES - NO else "no" if word in NO - YES else word


def _grouped(names: Iterable[str], form: Callable[[str], str]) -> dict[str, list[str]]:
    """Names by their form."""
    grouped: dict[str, list[str]] = {}
    for name in names:
        grouped.setdefault(form(name), []).append(name)
    return grouped


def _sexes(cells: Sequence[str], names: Sequence[str]) -> Iterable[tuple[_Sides, _Sides]]:
    """Words for male and female among the cells, and among the names, each with letters of one language.

    A letter alone, such as m, is male in one language and female in another: it is read in none.
    """
    of_cells, of_names = ([pair for pair in _SEXES if _letters(each) <= set(pair)] for each in (cells, names))
    letters = _letters(cells)
    if (
        len({*map(plain, cells)}) == len(letters) == 1
        and len({pair.index(min(letters)) for pair in of_cells}) > 1
    ):
        return
    for pair, other in itertools.product(of_cells, of_names):
        yield (MALE | {pair[0]}, FEMALE | {pair[1]}), (MALE | {other[0]}, FEMALE | {other[1]})


def _letters(cells: Iterable[str]) -> set[str]:
    return {word for cell in cells if len(word := plain(cell)) == 1 and word in "".join(_SEXES)}


def names_matched(missing: Sequence[str], header: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """Match columns that are missing to a header by likeness; by a name with another unit last.

    Returns:
        Names in the header by missing column; the columns that were guessed, by likeness or a translation.
    """
    matched: dict[str, str] = {}
    guesses: set[str] = set()
    finders = (_alike, _close, _translated)
    for finder, any_unit in ((finder, any_unit) for any_unit in (False, True) for finder in finders):
        for name in (each for each in missing if each not in matched):
            free = [each for each in header if each not in matched.values()]
            if match := finder(name, [each for each in free if any_unit or not in_other_units((name, each))]):
                matched[name] = match
                guesses |= {name} if finder is not _alike else set()
    return matched, guesses


def _alike(name: str, header: Sequence[str]) -> str:
    """Name in other signs; "" where what stands in brackets differs."""
    same = [each for each in header if plain_name(each) == plain_name(name)]
    same = [each for each in same if len({plain(m[0]) for m in map(_BRACKETS.search, (name, each)) if m}) < 2]
    return same[0] if len(same) == 1 else ""


def _close(name: str, header: Sequence[str]) -> str:
    by_name = {plain_name(each): each for each in header}
    close = difflib.get_close_matches(plain_name(name), by_name, n=1, cutoff=0.8)
    return by_name[close[0]] if close and len(plain(name)) > 3 else ""


def _translated(name: str, header: Sequence[str]) -> str:
    same = [each for each in header if any({plain_name(name), plain_name(each)} <= one for one in _COLUMNS)]
    return same[0] if len(same) == 1 else ""


def words_of(name: str) -> list[str]:
    """Words of a column's name in order, in small letters without accents; birthMonth has two."""
    return re.findall(r"[^\W\d_]+", _without_accents(_HUMP.sub(" ", name)))


def of_calendar(name: str, low: float, high: float) -> tuple[float, float] | None:
    """Bounds of a part of dates or times by its name, such as birth_month or HourOfDay; None for others."""
    words = words_of(name)
    if not words or "per" in words:
        return None
    ranges = _CALENDAR.get(words[0] if words[1:2] == ["of"] else words[-1], ())
    return next((ends for ends in ranges if ends[0] <= low and ends[1] / 2 < high <= ends[1]), None)
