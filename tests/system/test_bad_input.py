"""Issue 2, "Bad input", as a person meets it: one line with cause and remedy, a number, nothing lost."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import sim.engines.processes
from fedkme.errors import (
    CommandLineError,
    ConfigError,
    ConnectionFailedError,
    DataError,
    FedkmeError,
    IdentityError,
    NotEnoughRowsError,
    SchemaError,
    StoreError,
)
from fedkme.tables.files import save_table
from fedkme.tables.schema import Person
from fedkme.tables.table import Table
from operate.cli import main
from tests.parties import HERE, MIXED, curator_values, owner_values, write_config
from tests.system.launches import HEADER, write_own_files

Refused = Callable[..., str]

GOOD = f"{HEADER}\n40,yes,no\n50,no,yes\n"


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must fail with an expected error; its last line."""

    def run(kind: type[FedkmeError], *arguments: object, lines: int | None = 1) -> str:
        monkeypatch.setattr(sys, "argv", ["fedkme", *map(str, arguments)])
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as caught:
            main()
        out, err = capsys.readouterr()
        assert caught.value.code == kind.code
        assert not out
        stages = ("fedkme ", "reading the rows of every party: ")
        said = [line for line in err.splitlines() if not line.startswith(stages)]
        assert lines is None or len(said) == lines
        assert re.fullmatch(rf"error {kind.code} \({kind.title}\): .+[^.]\. .+[.?]", said[-1])
        return said[-1]

    return run


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (f"{HEADER}\n40,yes,no\n77,no\n", "1 lines with more or fewer cells"),
        ("age,ill\n40,no\n", "no column 'smoker'"),
        ("age,smoker,ill,name\n40,yes,no,Ann\n", "does not describe column 'name'"),
        (f"{HEADER}\n40,yes,no\nnan,yes,no\n", "NaN, infinity or an empty cell"),
        (f"{HEADER}\n40,yes,no\n-inf,yes,no\n", "NaN, infinity or an empty cell"),
        (f"{HEADER}\n40,yes,no\n,yes,no\n", "NaN, infinity or an empty cell"),
        (f"{HEADER}\n40,yes,no\n777,yes,no\n", "outside the public bounds"),
        (f"{HEADER}\n40,yes,no\nNestor,yes,no\n", "text where a number belongs"),
        (f"{HEADER}\n40,yes,no\n77,rarely,no\n", "a name not in the schema"),
        (f"{HEADER}\n40,yes,no\n77,yes,perhaps\n", "a name not in the schema"),
    ],
    ids=map(str, range(10)),  # else the rows would be in the name of the folder, and in the message with it
)
def test_rows_that_do_not_fit(tmp_path: Path, refused: Refused, rows: str, words: str) -> None:
    # "Wrong shapes, NaN or infinity, values outside the schema, unknown categories"; errors.py: never a
    # private value.
    scenario = write_own_files(tmp_path, {"north": 20, "south": 20}, south=rows)
    line = refused(DataError, "sim", "run", scenario, "--out", tmp_path / "run")
    assert words in line
    assert "south" in line
    said = line.replace(str(tmp_path), "")  # a folder whose name has digits is no private value
    assert not re.search("77|Nestor|rarely|perhaps|Ann|inf[^i]", said)
    assert not (tmp_path / "run").exists()


def test_arrays_of_another_shape(tmp_path: Path, refused: Refused) -> None:
    scenario = write_own_files(tmp_path, {"north": 20, "south": 20})
    save_table(tmp_path / "south.npz", Table(np.ones((5, 3))))
    line = refused(DataError, "sim", "run", scenario, "--set", "scenario.owners.south=south.npz")
    assert "south: the rows have shape (5, 3) and the schema has 2 columns" in line


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (MIXED.replace('["yes", "no"]\n[label]', '["yes", "yes"]\n[label]'), "lists a category twice"),
        (MIXED.replace("[0, 120]", "[120, 0]"), "the bounds of column 'age'"),
    ],
)
def test_an_inconsistent_schema(tmp_path: Path, refused: Refused, schema: str, words: str) -> None:
    scenario = write_own_files(tmp_path, {"north": 20}, schema=schema)
    assert words in refused(SchemaError, "sim", "run", scenario)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("seeds = 10", "sedes = 10", "'scenario.sedes' is not a key. Did you mean 'scenario.seeds'?"),
        ("p = 12", f"p = {10**30}", "'summary.p' is wrong: it should be less than 9223372036854775808"),
        ("p = 12", "p = 12\nquorun = 2", "'summary.quorun' is not a key. Did you mean 'summary.quorum'?"),
        ("p = 12", "", "'summary.p' is missing"),
        ("p = 12", "p = 0", "'summary.p' is wrong"),
        ("p = 12", "p = ", "is not TOML"),
        ('kind = "csv"', 'kind = "cvs"', "'scenario.kind' is wrong: there is no 'cvs'. Did you mean 'csv'?"),
        (
            '[scenario.owners]\nnorth = "north.csv"\n',
            'owners = [{name = "north", path = "north.csv"}, {name = "north", path = "south.csv"}]\n',
            "two owners have the name 'north'",
        ),
        ('north = "north.csv"', 'North = "north.csv"', "'scenario.owners.North' is wrong"),
        ("north.csv", "nowhere.csv", "nowhere.csv"),
        ("schema.toml", "nowhere.toml", "nowhere.toml"),
    ],
)
def test_a_wrong_scenario(tmp_path: Path, refused: Refused, before: str, after: str, words: str) -> None:
    # "Duplicate owner names, unknown keys in a TOML file."
    scenario = write_own_files(tmp_path, {"north": 20})
    text = scenario.read_text()
    assert before in text
    scenario.write_text(text.replace(before, after))
    assert words in refused(ConfigError, "sim", "run", scenario, "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("p", "has no '='"),
        ("=3", "has no '='"),
        ("quorun=3", "'quorun' is not a key. Did you mean 'summary.quorum'?"),
        ("pp=3", "'pp' is not a key. Did you mean 'summary.p'?"),
        ("gama=3", "'gama' is not a key. Did you mean 'summary.kernel.gamma'?"),
        ("p.q=3", "'p' is not a table"),
        ("seed.x.y=3", "'seed' is wrong"),
        ("engine.x=1", "'engine' is not a table"),
        ("p=many", "'p' is wrong"),
        ("engine=proceses", "'engine' is wrong"),
        ("features.dimension=141", "paired features need an even dimension"),
        ("kernel.gamma=-1", "gamma must be positive"),
        ("kernel.gamma=nan", "it is not finite"),
    ],
)
def test_a_wrong_assignment(tmp_path: Path, refused: Refused, assignment: str, words: str) -> None:
    arguments = ("--engine", "inprocess", "--set", assignment, "--out", tmp_path / "run")
    line = refused(ConfigError, "sim", "run", "digits", *arguments, lines=None)
    assert words in line


def test_what_is_not_there(tmp_path: Path, refused: Refused) -> None:
    assert "Did you mean 'digits'?" in refused(ConfigError, "sim", "run", "digit")
    assert "neither a shipped scenario nor a file" in refused(ConfigError, "sim", "run", "x/nowhere.toml")
    assert "there is no file" in refused(ConfigError, "owner", "join", tmp_path / "nowhere.toml")
    assert "cannot be read" in refused(ConfigError, "report", tmp_path)


def test_a_folder_that_holds_something(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "thesis.txt").write_text("ten years of work")
    line = refused(ConfigError, "sim", "run", "digits", "--out", tmp_path)
    assert "is there already and not empty" in line
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    refused(ConfigError, "sim", "run", "digits", "--out", tmp_path / "thesis.txt")
    refused(ConfigError, "sim", "run", "digits", "--out", tmp_path / "thesis.txt" / "run")
    assert (tmp_path / "thesis.txt").read_text() == "ten years of work"


def test_an_unknown_verb(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["fedkme", "sin"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err == (
        "error 2 (command line): there is no verb 'sin'. Did you mean 'sim'?\n"
    )


@pytest.mark.parametrize(
    ("words", "cause", "remedy"),
    [
        ("sim rnu digits", "no such command 'rnu'", "Did you mean 'run'?"),
        ("sim zzz", "no such command 'zzz'", "`fedkme sim --help` lists what there is."),
        ("release marginal digits", "no such command 'marginal'", "Did you mean 'marginals'?"),
        (
            "sim run digits --epsilon 1",
            "no such option: --epsilon",
            "Keys of a scenario go by `--set KEY=VALUE`;",
        ),
        ("sim run digits --sed 1", "no such option: --sed", "Did you mean --seed?"),
        ("sim run", "missing argument 'SCENARIO'", "`fedkme sim run --help` lists"),
        ("sim run digits --seed", "option '--seed' requires an argument", "`--help` of the verb lists"),
        (
            "sim run digits --baselines x",
            "invalid value for '--baselines': 'x' is not one of 'quick', 'none'",
            "`fedkme sim run --help` lists",
        ),
        ("report", "missing argument 'directory'", "`fedkme report --help` lists"),
    ],
)
def test_a_wrong_command_line_says_what_to_type(
    refused: Refused, words: str, cause: str, remedy: str
) -> None:
    line = refused(CommandLineError, *words.split(), lines=None)
    assert f": {cause}. {remedy}" in line.replace("{", "").replace("}", "")


def test_values_of_the_command_line_are_named_as_typed_and_not_after_the_file(
    tmp_path: Path, refused: Refused
) -> None:
    scenario = write_own_files(tmp_path, {"north": 20, "south": 20})
    for words, cause in (
        (("--set", "p"), "--set 'p' has no '='"),
        (("--set", "privacy.epsilon=0"), "'privacy.epsilon' is wrong: it should be greater than 0"),
    ):
        assert f"): {cause}. " in refused(ConfigError, "sim", "run", scenario, *words)
    line = refused(ConfigError, "release", "marginals", scenario, "--epsilon", "0")
    assert "): 'epsilon' is wrong: it should be greater than 0. " in line


def test_a_scenario_s_folder_is_taken_for_the_scenario_in_it(tmp_path: Path, refused: Refused) -> None:
    scenario = write_own_files(tmp_path / "study", {"north": 20})
    line = refused(ConfigError, "sim", "run", scenario.parent)
    assert line.endswith(f"is a folder. Give {scenario}.")


def test_a_file_with_another_separator_says_so(tmp_path: Path, refused: Refused) -> None:
    scenario = write_own_files(tmp_path, {"north": 20}, north=f"{HEADER}\n40,yes,no\n".replace(",", ";"))
    line = refused(DataError, "sim", "run", scenario)
    assert "It has one column: say with 'sep' what stands between cells" in line


@pytest.mark.parametrize("engine", ["processes", "inprocess"])
def test_more_rows_than_there_are(tmp_path: Path, refused: Refused, engine: str) -> None:
    # Issue 2, item 7: "p may exceed the rows there are (a clear error before round 1)".
    scenario = write_own_files(tmp_path / "files", {"north": 7, "south": 4})
    arguments = ("--engine", engine, "--out", tmp_path / "run", "--set", "baselines=[]")
    line = refused(NotEnoughRowsError, "sim", "run", scenario, *arguments, lines=None)
    assert re.search(
        r"12 rows are asked for and the (2 owners have|owners have at most) 11. Ask for at most 11", line
    )
    assert not (tmp_path / "run" / "record.json").exists(), "refused by the plan: D_v was not offered"


@pytest.mark.parametrize("engine", ["processes", "inprocess"])
def test_a_gamma_from_seeds_that_there_are_not(tmp_path: Path, refused: Refused, engine: str) -> None:
    scenario = write_own_files(tmp_path / "files", {"north": 20})
    changes = ("kernel.gamma=median-seeds", "scenario.seeds=0", "baselines=[]")
    arguments = [word for change in changes for word in ("--set", change)]
    line = refused(ConfigError, "sim", "run", scenario, "--engine", engine, *arguments, lines=None)
    assert "gamma is to come from the seed set" in line


def test_an_error_inside_a_party_reaches_the_user(
    tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The same one line and number, with the party's name once, although the party is another process.
    scenario = write_own_files(tmp_path / "files", {"north": 20, "south": 20})

    def spoil(path: Path, table: Table, person: Person | None = None) -> None:
        spoilt = path.parent.name == "south"
        save_table(path, Table(table.values[:, :1], table.labels) if spoilt else table, person)

    monkeypatch.setattr(sim.engines.processes, "save_table", spoil)
    line = refused(DataError, "sim", "run", scenario, "--out", tmp_path / "run", lines=None)
    assert line.startswith(
        "error 12 (data): south: the rows have shape (20, 1) and the schema has 2 columns."
    )


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (ConfigError, "plaintext = false", "neither 'identity' nor 'plaintext'"),
        (ConfigError, 'identity = "x"', "exclude each other"),
        (ConfigError, 'curator = "10.0.0.1:1"', "plaintext is refused"),
        (ConfigError, 'curator = "localhost.eu:1"', "is refused for"),
        (
            ConfigError,
            'curator = "10.0.0.1:1"\nplaintext = false\nidentity = "x"\nsimulation_seed = 3',
            "seeded randomness is refused",
        ),
        (ConfigError, "jurnal = 3", "Did you mean 'journal'?"),
        (StoreError, 'journal = "no/such/folder.db"', "cannot be opened"),
        (IdentityError, 'plaintext = false\nidentity = "nowhere"', "cannot be read"),
        (DataError, 'data = "none.csv"', "cannot be read"),
        (ConnectionFailedError, "connect_s = 0.1", "no curator answered"),
    ],
)
def test_a_wrong_party_file(
    tmp_path: Path, refused: Refused, kind: type[FedkmeError], text: str, words: str
) -> None:
    # DESIGN, decision 5: mixing simulation and real noise is an error, not a flag; fedkme/party.py.
    (tmp_path / "schema.toml").write_text(MIXED)
    (tmp_path / "north.csv").write_text(GOOD)
    config = write_config(tmp_path / "owner.toml", owner_values(HERE, "north", "127.0.0.1:1"), text)
    assert words in refused(kind, "owner", "join", config, lines=None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('listen = "0.0.0.0:0"', "plaintext is refused for 0.0.0.0:0"),
        ('listen = "127.0.0.1:99999"', "'127.0.0.1:99999' is not host:port"),
        ('listen = "127.0.0.1"', "'127.0.0.1' is not host:port"),
        ('listen = "127.0.0.1:0"\nruns = 0', "'runs' is wrong"),
        ("[summary]\np = 5", "'summary.p' is not a key"),
    ],
)
def test_a_wrong_curator_file(tmp_path: Path, refused: Refused, text: str, words: str) -> None:
    (tmp_path / "schema.toml").write_text(MIXED)
    config = write_config(tmp_path / "curator.toml", curator_values(HERE), text)
    assert words in refused(ConfigError, "curator", "serve", config, lines=None)


def test_a_port_that_is_taken(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "schema.toml").write_text(MIXED)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = write_config(tmp_path / "curator.toml", curator_values(HERE, listen=address))
        line = refused(ConfigError, "curator", "serve", config, lines=None)
    assert f"{address} cannot be listened on" in line
