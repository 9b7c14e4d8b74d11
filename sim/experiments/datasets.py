"""The labelled tables of DP-MERF and DP-HP besides Adult: public schemas, rows split over simulated owners.

Everything that turns rows into model space is written down here: bounds, names, logarithms of columns with a
long tail, the rates at which rows of a class are kept. None is learnt from rows when an experiment runs.
Where a code book gives bounds they are used; the principal components of `credit`, the amplitudes of
`epileptic` and the byte counts of `intrusion` have none, and their bounds are round numbers beyond which
values are clipped. The papers take such numbers from the private rows and do not pay for them.

Rows of a frequent class are left out at a public rate, by a coin for each row that its owner throws
(sim.experiments.adult says why); test rows are thinned alike, as in the papers' code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import DataError
from fedkme.tables.files import read_arrays, read_columns, table_from_columns
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table
from sim.experiments.adult import Split
from sim.experiments.census import census_categories

Groups = NDArray[Any] | None
"""For each row, what must not be on both sides of a split; None: rows are apart."""


@dataclass(frozen=True)
class Source:
    """One data set of the papers.

    Attributes:
        file: in the data folder.
        schema: public domain of its rows.
        read: rows that take part and their groups; rows that a public rule excludes are left out.
        kept: rate at which rows of each class are kept.
        test_share: of the rows.
        one_hot: categories that classifiers see as 0/1 columns, as they stand in the file; others by index.
    """

    file: str
    schema: Schema
    read: Callable[[Path, Schema], tuple[Table, Groups]]
    kept: tuple[float, ...]
    test_share: float
    one_hot: tuple[str, ...] = ()


def load(source: Source, folder: Path, owners: int, seed: int) -> Split:
    """Rows of a data set: part to test, the others to owners, at random by seed.

    Raises:
        DataError: the file is missing or of another form.
    """
    table, groups = source.read(folder / source.file, source.schema)
    source.schema.check(table, source.file)
    if table.labels is None:
        raise DataError(f"{source.file} has no labels", "Take the file of the data folder.")
    generator = np.random.default_rng(np.random.SeedSequence([seed, 1]))
    if groups is None:
        groups = np.arange(len(table))
    names = np.unique(groups)
    tested = generator.permutation(names)[: round(source.test_share * len(names))]
    is_test = np.isin(groups, tested)
    order = generator.permutation(len(table))
    kept = generator.random(len(table)) < np.asarray(source.kept)[table.labels]
    test, training = order[is_test[order]], order[~is_test[order]]
    parts = tuple(table.take(part[kept[part]]) for part in np.array_split(training, owners))
    return Split(parts, len(training), table.take(test[kept[test]]))


def _columns(path: Path, schema: Schema, changed: Mapping[str, Callable[[Any], Any]]) -> Table:
    cells = dict(read_columns(path, path.name))
    for name, change in changed.items():
        if name in cells:
            cells[name] = change(cells[name])
    return table_from_columns(cells, schema, path.name)


def _logged(cells: Any) -> Any:
    return np.log1p(np.asarray(cells, dtype=np.float64))


_CENSUS_NUMBERS = {
    "age": (0, 90),
    "wage_per_hour": (0, 10_000),
    "capital_gains": (0, 99_999),
    "capital_losses": (0, 5_000),
    "dividends_from_stocks": (0, 99_999),
    "num_persons_worked_for_employer": (0, 6),
    "weeks_worked_in_year": (0, 52),
}
_CENSUS_ORDER = (
    "age class_of_worker detailed_industry_recode detailed_occupation_recode education wage_per_hour "
    "enroll_in_edu_inst_last_wk marital_stat major_industry_code major_occupation_code race hispanic_origin "
    "sex member_of_labor_union reason_for_unemployment full_or_part_time_employment_stat capital_gains "
    "capital_losses dividends_from_stocks tax_filer_stat region_of_previous_residence "
    "state_of_previous_residence detailed_household_and_family_stat "
    "detailed_household_summary_in_household migration_code_change_in_msa migration_code_change_in_reg "
    "migration_code_move_within_reg live_in_this_house_1_year_ago migration_prev_res_in_sunbelt "
    "num_persons_worked_for_employer family_members_under_18 country_of_birth_father "
    "country_of_birth_mother country_of_birth_self citizenship own_business_or_self_employed "
    "fill_inc_questionnaire_for_veterans_admin veterans_benefits weeks_worked_in_year year"
)


def _census() -> Source:
    columns: list[Numeric | Category] = []
    for name in _CENSUS_ORDER.split():
        if name in _CENSUS_NUMBERS:
            columns.append(Numeric(name=name, bounds=_CENSUS_NUMBERS[name], integer=True))
        else:
            columns.append(Category(name=name, categories=census_categories(name)))
    schema = Schema(
        columns=tuple(columns),
        label=Label(name="income", classes=("- 50000.", "50000+.")),
        ignore=("instance_weight",),
    )
    return Source(
        "census_income_kdd_test.parquet", schema, lambda p, s: (_columns(p, s, {}), None), (0.4, 1.0), 0.2
    )


def _credit() -> Source:
    """DP-HP keeps 1 % of the 284,315 normal transactions; the file has 4,920 of them."""
    components = Numeric(name="V", bounds=(-8.0, 8.0), count=28, clip=True)
    amount = Numeric(name="Amount", bounds=(0.0, 10.0), clip=True)
    schema = Schema(columns=(components, amount), label=Label(name="Class", classes=("0", "1")))

    def read(path: Path, schema: Schema) -> tuple[Table, Groups]:
        cells = dict(read_columns(path, path.name))
        names = [f"V{i}" for i in range(1, 29)]
        if missing := {"Amount", "Class", *names} - set(cells):
            raise DataError(f"{path} has no column '{min(missing)}'", "Take the file of the data folder.")
        values = np.stack(
            [*(np.asarray(cells[n], np.float64) for n in names), _logged(cells["Amount"])], axis=1
        )
        return Table(values, np.asarray(cells["Class"], np.int64)), None

    return Source("creditcard_5412.parquet", schema, read, (2843 / 4920, 1.0), 0.2)


_CERVICAL_NUMBERS = {
    "Age": (10, 90, 25),
    "Number of sexual partners": (0, 30, 2),
    "First sexual intercourse": (10, 35, 17),
    "Num of pregnancies": (0, 12, 2),
    "Smokes (years)": (0, 40, 0),
    "Smokes (packs/year)": (0, 40, 0),
    "Hormonal Contraceptives (years)": (0, 30, 0),
    "IUD (years)": (0, 20, 0),
    "STDs (number)": (0, 5, 0),
    "STDs: Number of diagnosis": (0, 5, 0),
    "STDs: Time since first diagnosis": (0, 25, 0),
    "STDs: Time since last diagnosis": (0, 25, 0),
}
_CERVICAL_ORDER = (
    "Age;Number of sexual partners;First sexual intercourse;Num of pregnancies;Smokes;Smokes (years);"
    "Smokes (packs/year);Hormonal Contraceptives;Hormonal Contraceptives (years);IUD;IUD (years);STDs;"
    "STDs (number);STDs:condylomatosis;STDs:cervical condylomatosis;STDs:vaginal condylomatosis;"
    "STDs:vulvo-perineal condylomatosis;STDs:syphilis;STDs:pelvic inflammatory disease;STDs:genital herpes;"
    "STDs:molluscum contagiosum;STDs:AIDS;STDs:HIV;STDs:Hepatitis B;STDs:HPV;STDs: Number of diagnosis;"
    "STDs: Time since first diagnosis;STDs: Time since last diagnosis;Dx:Cancer;Dx:CIN;Dx:HPV;Dx;Hinselmann;"
    "Schiller;Citology"
)


def _cervical() -> Source:
    """Rows with ten missing cells or more are left out, as in the papers; public numbers fill other cells."""
    columns: list[Numeric | Category] = []
    for name in _CERVICAL_ORDER.split(";"):
        if name in _CERVICAL_NUMBERS:
            low, high, missing = _CERVICAL_NUMBERS[name]
            columns.append(Numeric(name=name, bounds=(low, high), missing=missing, clip=True))
        else:
            columns.append(Category(name=name, categories=("0", "1"), missing="0"))
    schema = Schema(columns=tuple(columns), label=Label(name="Biopsy", classes=("0", "1")))

    def read(path: Path, schema: Schema) -> tuple[Table, Groups]:
        cells = read_columns(path, path.name)
        table = table_from_columns(cells, schema, path.name)
        numbers = [np.asarray(column, np.float64) for column in cells.values()]
        return table.take(np.isnan(np.stack(numbers, axis=1)).sum(axis=1) < 10), None

    return Source("cervical_cancer.parquet", schema, read, (0.5, 1.0), 0.2)


def _epileptic() -> Source:
    """EEG of 500 recordings; chunks of one recording stay on one side of the split."""
    schema = Schema(
        columns=(Numeric(name="x", bounds=(-1000.0, 1000.0), count=178, clip=True),),
        label=Label(name="y", classes=("other", "seizure")),
    )

    def read(path: Path, schema: Schema) -> tuple[Table, Groups]:
        arrays = read_arrays(path, path.name)
        _need(path, arrays, "x", "y", "recording")
        return Table(arrays["x"], (arrays["y"] == 1).astype(np.int64)), arrays["recording"]

    return Source("epileptic_bonn.npz", schema, read, (1.0, 1.0), 0.3)


def _isolet() -> Source:
    """Spoken letters, vowels against the others; sites 1 to 4, as DP-HP's label file has them."""
    schema = Schema(
        columns=(Numeric(name="x", bounds=(-1.0, 1.0), count=617),),
        label=Label(name="y", classes=("consonant", "vowel")),
    )

    def read(path: Path, schema: Schema) -> tuple[Table, Groups]:
        arrays = read_arrays(path, path.name)
        _need(path, arrays, "x", "y", "site")
        mine = arrays["site"] <= 4
        vowel = np.isin(arrays["y"], [1, 5, 9, 15, 21])
        return Table(arrays["x"][mine], vowel[mine].astype(np.int64)), None

    return Source("isolet.npz", schema, read, (1.0, 1.0), 0.3)


_SERVICES = (
    "aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs exec finger ftp "
    "ftp_data gopher harvest hostnames http http_2784 http_443 http_8001 imap4 IRC iso_tsap klogin kshell "
    "ldap link login mtp name netbios_dgm netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 "
    "pop_3 printer private red_i remote_job rje shell smtp sql_net ssh sunrpc supdup systat telnet tftp_u "
    "tim_i time urh_i urp_i uucp uucp_path vmnet whois X11 Z39_50"
)
_INTRUSION_CATEGORIES = {
    "protocol_type": "icmp tcp udp",
    "service": _SERVICES,
    "flag": "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH",
    "land": "0 1",
    "logged_in": "0 1",
    "root_shell": "0 1",
    "is_host_login": "0 1",
    "is_guest_login": "0 1",
}
_INTRUSION_LOGS = [
    "duration",
    "src_bytes",
    "dst_bytes",
    "hot",
    "num_failed_logins",
    "num_compromised",
    "num_root",
    "num_file_creations",
    "num_shells",
    "num_access_files",
    "wrong_fragment",
    "urgent",
    "su_attempted",
]
_INTRUSION_COUNTS = {"count": 511, "srv_count": 511, "dst_host_count": 255, "dst_host_srv_count": 255}
_INTRUSION_ORDER = (
    "duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot "
    "num_failed_logins logged_in num_compromised root_shell su_attempted num_root num_file_creations "
    "num_shells num_access_files is_host_login is_guest_login count srv_count serror_rate "
    "srv_serror_rate rerror_rate srv_rerror_rate same_srv_rate diff_srv_rate srv_diff_host_rate "
    "dst_host_count dst_host_srv_count dst_host_same_srv_rate dst_host_diff_srv_rate "
    "dst_host_same_src_port_rate dst_host_srv_diff_host_rate dst_host_serror_rate "
    "dst_host_srv_serror_rate dst_host_rerror_rate dst_host_srv_rerror_rate"
)
_ATTACKS: Mapping[str, str] = {
    "normal": "normal",
    **dict.fromkeys(["back", "land", "neptune", "pod", "smurf", "teardrop"], "dos"),
    **dict.fromkeys(["ipsweep", "nmap", "portsweep", "satan"], "probe"),
    **dict.fromkeys(
        ["ftp_write", "guess_passwd", "imap", "multihop", "phf", "spy", "warezclient", "warezmaster"], "r2l"
    ),
    **dict.fromkeys(["buffer_overflow", "loadmodule", "perl", "rootkit"], "u2r"),
}


def _intrusion() -> Source:
    """KDD Cup 1999: logarithms of counts without a bound; the smallest class, u2r, is left out."""
    columns: list[Numeric | Category] = []
    for name in _INTRUSION_ORDER.split():
        if name in _INTRUSION_CATEGORIES:
            columns.append(Category(name=name, categories=tuple(_INTRUSION_CATEGORIES[name].split())))
        elif name in _INTRUSION_LOGS:
            top = 20.0 if name.endswith("bytes") else 11.0 if name == "duration" else 7.0
            columns.append(Numeric(name=name, bounds=(0.0, top), clip=True))
        else:
            top = float(_INTRUSION_COUNTS.get(name, 1))
            columns.append(Numeric(name=name, bounds=(0.0, top), clip=True))
    schema = Schema(
        columns=tuple(columns),
        label=Label(name="label", classes=("normal", "dos", "probe", "r2l", "u2r")),
        ignore=("num_outbound_cmds",),
    )
    kept = schema.model_copy(update={"label": Label(name="label", classes=schema.classes[:4])})

    def read(path: Path, _: Schema) -> tuple[Table, Groups]:
        named = dict.fromkeys(_INTRUSION_LOGS, _logged)
        named["label"] = lambda cells: [_ATTACKS.get(str(cell), str(cell)) for cell in cells]
        table = _columns(path, schema, named)
        assert table.labels is not None
        return table.take(table.labels < 4), None

    return Source("kddcup99_10pct.parquet", kept, read, (1.0, 0.3, 1.0, 1.0), 0.2)


_COVTYPE_NUMBERS = {
    "Elevation": (1800, 3900),
    "Aspect": (0, 360),
    "Slope": (0, 66),
    "Horizontal_Distance_To_Hydrology": (0, 1400),
    "Vertical_Distance_To_Hydrology": (-180, 610),
    "Horizontal_Distance_To_Roadways": (0, 7200),
    "Hillshade_9am": (0, 255),
    "Hillshade_Noon": (0, 255),
    "Hillshade_3pm": (0, 255),
    "Horizontal_Distance_To_Fire_Points": (0, 7200),
}


def _covtype() -> Source:
    """Forest cover: the 4 and the 40 columns of 0 and 1 are the codes of two categories."""
    areas = tuple(str(i) for i in range(1, 5))
    soils = tuple(str(i) for i in range(1, 41))
    numbers = [Numeric(name=n, bounds=b, integer=True, clip=True) for n, b in _COVTYPE_NUMBERS.items()]
    schema = Schema(
        columns=(
            *numbers,
            Category(name="Wilderness_Area", categories=areas),
            Category(name="Soil_Type", categories=soils),
        ),
        label=Label(name="Cover_Type", classes=tuple(str(i) for i in range(1, 8))),
    )

    def read(path: Path, schema: Schema) -> tuple[Table, Groups]:
        cells = dict(read_columns(path, path.name))
        kept = {name: cells[name] for name in (*_COVTYPE_NUMBERS, "Cover_Type") if name in cells}
        for name, codes in (("Wilderness_Area", areas), ("Soil_Type", soils)):
            if missing := {name + code for code in codes} - set(cells):
                raise DataError(f"{path} has no column '{min(missing)}'", "Take the file of the data folder.")
            hot = np.stack([np.asarray(cells[name + code], np.int64) for code in codes], axis=1)
            kept[name] = hot.argmax(axis=1) + 1
        return table_from_columns(kept, schema, path.name), None

    return Source(
        "covtype_kaggle15120.parquet", schema, read, (1.0,) * 7, 0.3, ("Wilderness_Area", "Soil_Type")
    )


def _need(path: Path, arrays: Mapping[str, Any], *names: str) -> None:
    if missing := set(names) - set(arrays):
        raise DataError(f"{path} has no array '{min(missing)}'", "Take the file of the data folder.")


SOURCES: Mapping[str, Callable[[], Source]] = {
    "census": _census,
    "credit": _credit,
    "cervical": _cervical,
    "epileptic": _epileptic,
    "isolet": _isolet,
    "intrusion": _intrusion,
    "covtype": _covtype,
}
"""By the papers' names."""
