"""Issue 35, item A.5: hints that read a file once they are pasted, table by table."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.config import toml_text
from fedkme.drafts.drafting import draft
from fedkme.drafts.words import meanings, means_nothing, names_matched
from fedkme.drafts.writing import text_of
from fedkme.errors import DataError
from fedkme.tables.data_file import DataFile
from fedkme.tables.files import load_table
from fedkme.tables.schema import load_schema
from fedkme.tables.text import text_columns
from tests.fedkme.drafts.own_files import OWNER, SCHEMA, rows, typed, write

HINTS: dict[str, tuple[str, list[str], str]] = {
    "m and w": ("sex", ["m", "w"], 'map = {m = "male", w = "female"}'),
    "m and f": ("sex", ["M", "F"], 'map = {F = "female", M = "male"}'),
    "hombre, mujer": ("sex", ["Hombre", "mujer"], 'map = {Hombre = "male", mujer = "female"}'),
    "férfi, nő": ("sex", ["férfi", "nő"], "map = {"),
    "m, w and d": ("sex", ["m", "w", "m", "w", "d"], 'map = {m = "male", w = "female"}'),
    "ja, nein": ("ill", ["ja", "Nein"], 'map = {Nein = "no", ja = "yes"}'),
    "oui, non": ("ill", ["oui", "non"], 'map = {non = "no", oui = "yes"}'),
    "tak, nie": ("ill", ["tak", "nie"], 'map = {nie = "no", tak = "yes"}'),
    "kyllä, ei": ("ill", ["kyllä", "ei"], "map = {"),
    "true, false": ("ill", ["TRUE", "FALSE"], 'map = {FALSE = "no", TRUE = "yes"}'),
    "0 and 1": ("ill", ["0", "1"], 'map = {0 = "no", 1 = "yes"}'),
    "other case": ("ill", ["No ", "YES"], 'map = {No = "no", YES = "yes"}'),
    "kg": ("weight", ["61.5 kg", "70 kg"], 'units = ["kg"]'),
    "€ and a comma": ("weight", ["€ 61,5", "€ 70,5"], 'decimal = ","'),
    "years": ("age", ["61 Jahre", "7 Jahre"], 'units = ["Jahre"]'),
    "a comma": ("weight", ["61,5", "70,25"], 'decimal = ","'),
    "<5 and >90": ("weight", ["61", "<5", ">90", "70"], 'na = ["<5", ">90"]'),
    "errors of a sheet": ("weight", ["61", "#DIV/0!", "#REF!", "70"], 'na = ["#DIV/0!", "#REF!"]'),
    "k. A.": ("sex", ["female", "k. A.", "male"], 'na = ["k. A."]'),
    "s/o": ("age", ["20", "s/o", "30"], 'na = ["s/o"]'),
    "not available": ("seen", ["2021-01-02", "not available"], 'na = ["not available"]'),
    "unbekannt": ("sex", ["female", "unbekannt", "male"], 'na = ["unbekannt"]'),
    "nd": ("weight", ["61", "nd"], 'na = ["nd"]'),
    "a code": ("age", ["61", "-9", "32"], 'age.na = ["-9"]'),
    "European days": ("seen", ["13.01.2021", "02.03.2021"], 'format = "%d.%m.%Y"'),
    "months in French": ("seen", ["13 janv. 2021", "2 août 2021"], "format = "),
    "months in German": ("seen", ["13. März 2021", "2. Okt. 2021"], "format = "),
    "American days": ("seen", ["01/13/2021", "03/02/2021"], 'format = "%m/%d/%Y"'),
}


@pytest.mark.parametrize("case", HINTS)
def test_a_hint_reads_the_file_once_it_is_pasted(folder: Path, case: str) -> None:
    # "Table-driven; each with a test of a file that fails before and reads after pasting".
    column, cells, hint = HINTS[case]
    columns = rows()
    columns[column] = [cells[n % len(cells)] for n in range(60)]
    write("own.csv", columns, sep=";")
    Path("owner.toml").write_text(OWNER + 'data = {path = "own.csv", sep = ";"}\n')
    output = typed("check", "schema.toml", "owner.toml", code=DataError.code)
    line = output.partition("this may read it: ")[2].splitlines()[0]
    assert hint in line or hint in f"{column}.{line.partition(column)[2].lstrip('= {')}", line
    assert "read so, it has no faults" in output
    Path("owner.toml").write_text(OWNER + line + "\n")
    typed("check", "schema.toml", "owner.toml", "--fix")  # the schema, which may have to allow empty cells
    assert "own.csv: 60 rows, no faults" in typed("check", "schema.toml", "owner.toml")
    table = load_table(
        DataFile.model_validate(tomllib.loads(line)["data"]), load_schema(Path("schema.toml")), "x"
    )
    place = load_schema(Path("schema.toml")).names.index(column) if column != "ill" else 0
    assert len(np.unique(table.values[:, place])) > 1


@pytest.mark.parametrize(
    ("cells", "kept"),
    [
        (["Male", "male", "MALE", "female"], ["Male", "female"]),
        (["true", "T", "ja", "1", "0", "no"], ["True", "no"]),
        (["New York", "new  york", "Köln", "köln"], ["New York", "Köln"]),
        (["Köln", "KÃ¶ln", "GroÃŸenhain", "Großenhain"], ["Köln", "Großenhain"]),  # of two encodings
        (["a", "A"], ["a"]),
        (["a", "b", "Ä"], []),
        (["1", "0", "2"], []),
        (["x", "y"], []),  # both may mean yes
    ],
)
def test_a_draft_asks_about_spellings_and_check_reads_them(
    folder: Path, cells: list[str], kept: list[str]
) -> None:
    # A column of yes and no, written in ten ways, became ten classes, and nobody was asked.
    write("own.csv", rows() | {"sex": [cells[n % len(cells)] for n in range(60)]})
    for label in ([], ["--label", "sex"]):
        asked = re.search(r"one name in several spellings \((.*)\)\?", typed("draft", "own.csv", *label))
        assert bool(asked) == bool(kept)
    if len(kept) > 1:
        text = SCHEMA.replace('["female", "male"]', toml_text(kept))
        Path("schema.toml").write_text(text, encoding="utf-8")
        Path("owner.toml").write_text(OWNER + 'data = "own.csv"\n')
        typed("check", "schema.toml", "owner.toml", "--fix")
        assert "own.csv: 60 rows, no faults" in typed("check", "schema.toml", "owner.toml")
        assert load_schema(Path("schema.toml")).columns[1].model_dump()["categories"] == tuple(kept)


@pytest.mark.parametrize(
    ("name", "header", "guessed"),
    [
        ("weight", "Weight", False),
        ("weight", "WEIGHT (kg)", False),
        ("weight", "weight_", False),
        ("seen", "Séen", False),
        ("weight", "Gewicht", True),
        ("sex", "Geschlecht", True),
        ("age", "edad", True),
        ("seen", "besuchsdatum", True),  # the last that is left
        ("weight", "weight_g", True),  # the schema may mean kg
    ],
)
def test_a_column_is_found_by_its_name_and_a_guess_is_confirmed(
    folder: Path, name: str, header: str, guessed: bool
) -> None:
    # "column names that differ by case, blanks, underscores, accents, or by a translation that the user must
    # confirm".
    write("own.csv", {header if key == name else key: cells for key, cells in rows().items()})
    Path("owner.toml").write_text(OWNER + 'data = "own.csv" # rows\n')
    output = typed("check", "schema.toml", "owner.toml", code=DataError.code)
    assert f"{name} = {{from = {toml_text(header)}}}" in output
    assert ("# confirm" in output) == guessed
    output = typed("check", "schema.toml", "owner.toml", "--fix", code=DataError.code if guessed else 0)
    assert ("not written, for these are guesses" in output) == guessed
    assert ("from" in Path("owner.toml").read_text()) != guessed
    typed("check", "schema.toml", "owner.toml", "--fix", "--confirm")
    assert "no faults" in typed("check", "schema.toml", "owner.toml")
    assert "# rows" in Path("owner.toml").read_text()


def test_units_are_said_to_be_left_away_and_other_ones_are_confirmed(folder: Path) -> None:
    # Acres below a schema in hectares were "no faults": the numbers were read as they stood, without a word.
    acres = {"weight": [f"{each} ac" for each in rows()["weight"]]}
    write("own.csv", rows() | acres)
    Path("owner.toml").write_text(OWNER + "data = { path = 'own.csv', units = ['ac'] }\n")
    output = typed("check", "schema.toml", "owner.toml")
    assert "column 'weight': 60 cells are with 'ac', which is left away: no number is converted" in output
    Path("schema.toml").write_text(SCHEMA.replace('"weight"', '"weight (kg)"'), encoding="utf-8")
    write("own.csv", {{"weight": "weight (lb)"}.get(key, key): cells for key, cells in rows().items()})
    Path("owner.toml").write_text(OWNER + "data = 'own.csv'\n")
    output = typed("check", "schema.toml", "owner.toml", "--fix", code=DataError.code)
    assert (
        "column 'weight (kg)': lb in own.csv. Convert all to one unit, then say 'from' or 'units'" in output
    )
    assert "lb" not in Path("owner.toml").read_text()


def test_numbers_that_are_all_tiny_are_asked_about(folder: Path) -> None:
    # .45 of one site below 45 % of the others: inside the bounds, so that means were off without a word.
    for share, asked in ((0.01, True), (1.0, False), (0.0, False)):
        cells = [f"{share * (50 + n):.4f}" for n in range(60)]
        write("own.csv", rows() | {"weight": cells})
        output = typed("check", "schema.toml", "own.csv")
        assert ("column 'weight': 60 cells are tiny beside the bounds" in output) == asked


def test_days_that_may_be_months_are_said_to_be(folder: Path) -> None:
    write("own.csv", rows() | {"seen": [f"0{1 + n % 9}/0{1 + n % 7}/2021" for n in range(60)]})
    Path("owner.toml").write_text(OWNER + 'data = "own.csv"\n')
    output = typed("check", "schema.toml", "owner.toml", code=DataError.code)
    assert re.search(r'seen = \{format = "%[dm]/%[dm]/%Y"\}\}\}  # or day and month swapped, in seen', output)
    output = typed("check", "schema.toml", "own.csv", code=DataError.code)
    assert re.search(r"column 'seen': format = \"%[dm]/%[dm]/%Y\"  # or day and month swapped", output)


def test_a_schema_with_a_mark_of_byte_order_is_edited(folder: Path) -> None:
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8-sig")
    write("own.csv", rows() | {"age": ["" if n == 3 else str(20 + n) for n in range(60)]})
    typed("check", "schema.toml", "own.csv", "--fix")
    assert load_schema(Path("schema.toml")).gaps


def test_a_few_days_that_are_none_do_not_hide_the_form_of_the_others(folder: Path) -> None:
    days = ["13.01.2021" if n % 2 else "02.03.2021" for n in range(59)]
    write("own.csv", rows() | {"seen": [*days, "31.02.2021"]})
    Path("owner.toml").write_text(OWNER + 'data = "own.csv"\n')
    typed("check", "schema.toml", "owner.toml", "--fix")
    column = tomllib.loads(Path("owner.toml").read_text())["data"]["columns"]["seen"]
    assert column == {"format": "%d.%m.%Y", "na": ["31.02.2021"]}


@pytest.mark.parametrize(
    ("cells", "names", "expected"),
    [
        ({"h", "m"}, ("female", "male"), {"h": "male", "m": "female"}),
        ({"F", "N"}, ("M", "W"), {"F": "M", "N": "W"}),
        ({"Homme", "Femme"}, ("w", "m"), {"Homme": "m", "Femme": "w"}),
        ({"m", "Female"}, ("female", "male"), {"Female": "female", "m": "male"}),
        ({"ja", "nein", "früher"}, ("no", "yes"), {"ja": "yes", "nein": "no"}),
        ({"0", "1", "2"}, ("no", "yes"), {}),  # a count, or a code
        ({"e"}, ("yes", "no"), {}),  # yes in Turkish, no in Finnish
        ({"m"}, ("female", "male"), {}),  # a man in German, a woman in Spanish
        ({"male"}, ("f", "m"), {"male": "m"}),
        ({"Koln"}, ("Köln", "Bonn"), {"Koln": "Köln"}),
        ({"A", "ä"}, ("a", "Ä"), {"A": "a", "ä": "Ä"}),  # another case before another accent
        ({"1234", "501"}, ("01234", "00501", "98101"), {"1234": "01234", "501": "00501"}),  # of a spreadsheet
        ({"01234"}, ("1234", "98101"), {"01234": "1234"}),
        ({"1"}, ("01", "001"), {}),
    ],
)
def test_words_are_mapped_where_they_are_clear(
    cells: set[str], names: Sequence[str], expected: dict[str, str]
) -> None:
    assert meanings(cells, names) == expected


PAIRS = ("mf", "mw", "mv", "mk", "mz", "mn", "hf", "hm", "fn")  # male and female in one language each


@pytest.mark.parametrize("own", [*PAIRS, *map(str.upper, PAIRS)])
def test_letters_for_male_and_female_keep_apart_between_languages(folder: Path, own: str) -> None:
    # Of a Spanish file with h and m, the edit mapped h to a schema's m, male: all women were men.
    for names in PAIRS:
        beside = {*own} & {*names}
        found = meanings({*own} - beside, names, beside)
        assert [found.get(cell, cell) for cell in own] == [*names]
    Path("schema.toml").write_text(SCHEMA.replace('["female", "male"]', '["f", "m"]'), encoding="utf-8")
    write("own.csv", rows() | {"sex": [own[n % 3 == 0] for n in range(60)]})
    Path("owner.toml").write_text(OWNER + '[data]\npath = "own.csv"\n')
    typed("check", "schema.toml", "owner.toml", "--fix", code=None)
    reading = DataFile.model_validate(tomllib.loads(Path("owner.toml").read_text())["data"])
    table = load_table(reading, load_schema(Path("schema.toml")), "north")
    assert text_columns(table, load_schema(Path("schema.toml")))["sex"] == [
        "mf"[n % 3 == 0] for n in range(60)
    ]


def test_words_for_nothing_depend_on_the_column() -> None:
    assert means_nothing("ND", among_numbers=True)
    assert not means_nothing("ND", among_numbers=False)  # a state
    assert not means_nothing("<5", among_numbers=False)  # a group of ages
    assert all(
        means_nothing(word, among_numbers=False)
        for word in ("N/A", "Keine Angabe", "brak danych", "#NV", "./.", "_")
    )
    assert not any(means_nothing(word, among_numbers=False) for word in ("+", "++", "**", "<", "a/b"))
    assert names_matched(["Alter"], ["sex", "AGE"]) == ({"Alter": "AGE"}, {"Alter"})
    assert names_matched(["age"], ["sex"]) == ({}, set())


@pytest.mark.parametrize("key", ["other = true", "nullable = true"])
def test_a_code_is_found_beside_a_category_for_others_or_for_gaps(folder: Path, key: str) -> None:
    # The category "other" was a word among numbers, so that 99 was none of the codes, and counted as a name.
    text = SCHEMA.replace('categories = ["female", "male"]', f'categories = ["0", "1"]\n{key}')
    Path("schema.toml").write_text(text, encoding="utf-8")
    write("own.csv", rows() | {"sex": [("0", "1", "1", "0", "99")[n % 5] for n in range(60)]})
    assert 'sex = {na = ["99"]}' in typed("check", "schema.toml", "own.csv", code=None)


@given(st.integers(40, 90), st.integers(2, 12), st.integers(0, 99))
def test_numbers_of_persons_by_any_name_are_doubted(persons: int, rows: int, seed: int) -> None:
    # 545 men of eight years each, called nr, were a number: epsilon was for a year of a man.
    random = np.random.default_rng(seed)
    numbers = np.repeat(random.choice(9000, persons, replace=False), rows)
    panel = {
        "nr": numbers,
        "wage": random.poisson(40, len(numbers)),
        "year": numbers,
        "t": np.tile(range(rows), persons),
    }
    drafted = draft({name: [str(value) for value in column] for name, column in panel.items()})
    guesses = drafted.guesses
    assert "persons" in guesses["nr"]
    assert f'# column = "nr"\n# rows = {rows} ' in text_of(drafted)
    assert not any("persons" in guess for name, guess in guesses.items() if name != "nr")


@pytest.mark.parametrize(
    ("name", "persons"), [("student", True), ("individual", True), ("patient_no", True), ("visits", False)]
)
def test_numbers_that_are_named_as_persons_are_doubted(name: str, persons: bool) -> None:
    numbers = np.random.default_rng(1).integers(0, 120, 900)
    drafted = draft({name: [str(value) for value in numbers], "sex": ["f", "m"] * 450})
    said = drafted.guesses.get(name, "") + drafted.left_out.get(name, "")
    assert ("persons" in said) == persons
