"""Extensions by entry points (docs/extending.md): what a package can do wrong ends in one numbered line."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from curator.summary.auctions.base import AUCTIONS
from curator.summary.settings import SummarySettings
from fedkme.config import validate
from fedkme.errors import ConfigError, ExtensionError
from fedkme.extensions import installed, registered
from fedkme.features.maps import MAPS
from fedkme.privacy.settings import MEANS, TARGETS
from fedkme.protocols import PROTOCOLS, names, variant
from fedkme.releases.settings import METHODS

ROW = "from fedkme.protocols import auction_protocol, release_protocol\n"
AUCTION = """
from typing import Literal
from curator.summary.auctions.base import WinnerOnlySettings
class Mine(WinnerOnlySettings):
    kind: Literal["{kind}"] = "{kind}"
"""
Install = Callable[..., None]
_numbers = itertools.count()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts packages on the path: their entry points, and one module each, which `{module}` stands for."""

    def forget() -> None:
        installed.cache_clear()
        registered.cache_clear()
        vars(PROTOCOLS).pop("_rows", None)

    def put(name: str, entries: Mapping[str, str], code: str = "") -> None:
        module = f"extension_{next(_numbers)}"
        (tmp_path / f"{module}.py").write_text(code.replace("{module}", module))
        about = tmp_path / f"{name}-1.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        lines = [f"[{group}]\n{line.replace('{module}', module)}\n" for group, line in entries.items()]
        (about / "entry_points.txt").write_text("\n".join(lines))
        forget()

    monkeypatch.syspath_prepend(tmp_path)
    yield put
    forget()


def auction(kind: str, called: str = "") -> tuple[dict[str, str], str]:
    code = f'{ROW}MINE = auction_protocol("{called or kind}", "mine", settings="{{module}}_settings:Mine")'
    return {"fedkme.auctions": f"{kind} = {{module}}:MINE"}, code


def test_an_auction_of_another_package_is_a_protocol_like_any_other(install: Install, tmp_path: Path) -> None:
    install("mine", *auction("mine"))
    assert {"mine", "mine-hashed"} <= set(names("auction"))
    assert variant("mine", sealed=True).hashed
    # An owner reads its row; the class is imported by the role that runs it, and only there.
    with pytest.raises(ExtensionError, match=r"'mine' is registered, and \w+:Mine cannot be imported"):
        AUCTIONS["mine"]
    for module in list(tmp_path.glob("extension_*.py")):
        module.with_name(f"{module.stem}_settings.py").write_text(AUCTION.format(kind="mine"))
    importlib.invalidate_caches()
    settings = validate(SummarySettings, {"auction": {"kind": "mine"}}, "run.toml")
    assert settings.row.name == "mine"
    plain = settings.model_dump(mode="json")
    assert SummarySettings.model_validate(plain) == settings
    assert SummarySettings.model_validate_json(settings.model_dump_json()) == settings
    with pytest.raises(ConfigError, match=r"'miine' is no auction\. Did you mean 'mine'"):
        validate(SummarySettings, {"auction": {"kind": "miine"}}, "run.toml")
    with pytest.raises(ConfigError, match=r"'auction.kinds' is not a key. Did you mean 'auction.kind'"):
        validate(SummarySettings, {"auction": {"kind": "mine", "kinds": 1}}, "run.toml")


@pytest.mark.parametrize(
    ("entries", "code", "words"),
    [
        ({"fedkme.auctions": "mine = {module}:MINE"}, "import nowhere", "No module named 'nowhere'"),
        ({"fedkme.auctions": "mine = {module}:MINE"}, "1 / 0", "ZeroDivisionError"),
        ({"fedkme.releases": "mine = {module}:OTHER"}, "", "AttributeError"),
        (
            {"fedkme.auctions": "mine = {module}:MINE"},
            "MINE = 'mine'",
            "'mine' in fedkme.auctions has no row",
        ),
        (*auction("mine", "yours"), "'mine' in fedkme.auctions has no row"),
        (
            {"fedkme.releases": "mine = {module}:MINE"},
            f'{ROW}MINE = auction_protocol("mine", "", settings="a:A")',
            "'mine' in fedkme.releases has no row",
        ),
        (*auction("clock"), "two protocols are called 'clock'"),
        (*auction("uniform-sealed"), "two protocols are called 'uniform-sealed'"),
    ],
)
def test_an_unusable_extension_is_one_line(
    install: Install, entries: Mapping[str, str], code: str, words: str
) -> None:
    install("mine", entries, code)
    with pytest.raises(ExtensionError, match=words) as raised:
        names()
    assert str(raised.value).startswith("error 14 (extension): ")
    assert "\n" not in str(raised.value)


def test_two_packages_with_one_name_are_refused(install: Install) -> None:
    install("first", *auction("mine"))
    install("second", *auction("mine"))
    with pytest.raises(ExtensionError, match=r"first and second both register 'mine' in fedkme\.auctions"):
        names()


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        (
            "gaussian = {module}:Mine",
            "class Mine: ...",
            "'gaussian' in fedkme.mechanisms is a name of fedkme",
        ),
        ("mine = {module}:Mine", "class Mine: ...", "'mine' is no subclass of MechanismSettings"),
        (
            "mine = {module}:Mine",
            "from fedkme.privacy.settings import ExactSettings as Mine",
            "the mechanism 'mine' calls itself 'exact'",
        ),
    ],
)
def test_a_class_that_contradicts_its_registration_is_refused(
    install: Install, entry: str, code: str, words: str
) -> None:
    install("mine", {"fedkme.mechanisms": entry}, code)
    for kinds in (MEANS, TARGETS):
        with pytest.raises(ExtensionError, match=words):
            kinds.model_validate({"mechanism": entry.partition(" ")[0]})


def test_every_row_has_its_classes() -> None:
    # The table of protocols names what stands behind a row; the roles import it, and so does this test.
    assert [kind.model_fields["kind"].default for kind in AUCTIONS.classes()] == list(AUCTIONS.table())
    assert [kind.model_fields["kind"].default for kind in METHODS.classes()] == list(METHODS.table())
    assert {row.base for row in PROTOCOLS.values() if row.settings} == {*AUCTIONS.table(), *METHODS.table()}
    assert [kind.model_fields["kind"].default for kind in MAPS.classes()] == list(MAPS.table())
