"""Layout of DESIGN.md: directions of imports, needs of an owner's host, sizes of folders and modules."""

from __future__ import annotations

import ast
import dataclasses
import functools
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from fedkme import errors
from fedkme.errors import FedkmeError
from operate.cli import _VERBS
from tests.parties import WAIT_S
from tests.places import ROOT, WITHOUT_SIM, tree

ROLES = ("curator", "owner", "consumer")
MAY_IMPORT = {
    "fedkme": {"fedkme"},
    **{role: {"fedkme", role} for role in ROLES},
    "sim": {"fedkme", "sim", *ROLES},
    "operate": {"fedkme", "operate", "sim", *ROLES},
    "audit": {"fedkme", "audit", "operate", "sim", *ROLES},
    "lab": {"fedkme", "lab", "audit", "operate", "sim", *ROLES},
}
"""Packages, and those that each may import: three shelves stand on each other, product, audit/ and lab/."""
PRODUCT = ("fedkme", *ROLES, "sim", "operate")
"""Packages of the wheel `fedkme`."""
FLOORS = (
    (
        *("errors", "inputs", "arrays", "command_line", "durable", "extensions", "verbs", "config"),
        *("descriptions", "pages", "verdict"),
    ),
    ("store", "pki", "embeddings", "tables", "drafts"),
    ("features",),
    ("privacy",),
    ("party", "heads", "ops", "secagg", "sealed", "protocols", "releases", "moments", "answers"),
    ("cells", "margins", "protocol", "exchange", "sums", "directives", "documents", "ledgers", "watch"),
    ("wire", "__main__"),
)
"""Rooms of fedkme/, floor by floor, bottom to top: a room imports lower floors, and its own to its left."""
WINGS = {
    "values": {
        *("arrays", "errors", "config", "descriptions", "extensions", "tables", "drafts"),
        *("protocols", "protocol", "exchange", "directives", "documents", "verdict"),
    },
    "mathematics": {
        *("embeddings", "features", "privacy", "secagg", "sealed", "cells", "margins", "sums", "moments"),
        *("releases", "answers"),
    },
    "plumbing": {
        *("command_line", "verbs", "inputs", "durable", "store", "pki", "party", "heads", "ops", "ledgers"),
        *("pages", "watch", "wire", "__main__"),
    },
}
"""Rooms of fedkme/ by what they are for (docs/decisions/025)."""
FAMILIES = ("summary", "cells", "sums")
"""Folders of protocols' families, at each party that has a part of its own in them."""
LARGE = {
    "fedkme": 17,
    "fedkme/answers": 19,
    "fedkme/privacy": 13,
    "fedkme/tables": 15,
    "fedkme/wire": 13,
    "lab/bench": 17,
    "lab/experiments": 16,
    "audit/attacks": 23,
    "audit/replay": 17,
    "sim": 15,
}
"""Folders with more than a dozen modules: a method, mechanism, codec, benchmark, experiment, attack or part
of a replay is a file there."""
MANY = 12
TWO_MEANINGS = {
    "Clock": "an event of the ledger and the auction that it is of",
    "PrivAuction": "an event of the ledger and the auction that it is of",
}
"""Class names that stand twice."""
READS_MESSAGES = {
    **dict.fromkeys(
        ("codecs", "directives", "journals", "releases", "rows", "sealed", "summaries", "sums"), "codec"
    ),
    "owner.agent": "stream of an owner",
    "curator.owners.owner_service": "service for owners",
    "curator.owners.connection": "stream to an owner, in parts and with acknowledgements",
    "curator.consumers.summary_service": "service for consumers of summaries",
    "curator.consumers.release_service": "service for consumers of releases",
    "curator.consumers.stream": "stream of a consumer",
    "curator.server": "adds the services to a server",
    "curator.health": "service that names the others",
    "consumer.summary.client": "stream for a summary",
    "consumer.releases.client": "stream for a release",
    "consumer.runs": "calls about a consumer's runs",
    "operate.doctor.network": "call that probes a curator",
    "audit.streams": "adds the service for owners to a server",
    "lab.bench.fleet": "adds a benchmark's service to a server",
}
"""Modules that know the messages of protos/, with their part; those without a dot are of fedkme/wire/."""
WRITES_FILES = {
    "fedkme.command_line": "the null device in the place of a closed standard stream",
    "fedkme.durable": "each file that is written whole: synced, then named, then its folder synced",
    "fedkme.ops.logs": "appends log lines, which nothing is made of again",
    "fedkme.store.sqlite": "makes a store's file, which SQLite syncs; backups are renamed and synced",
}
"""Modules of parties that open a file for writing, or rename one, with why they may (issue 17, A2)."""
GENERATED = ROOT / "fedkme" / "wire" / "v1"


def modules(package: str) -> list[Path]:
    left_out = (GENERATED, ROOT / package / "tests")
    return [path for path in sorted((ROOT / package).rglob("*.py")) if not {*left_out} & {*path.parents}]


@dataclasses.dataclass(frozen=True, slots=True)
class ModuleFacts:
    """Facts of one module: what it imports (`from x import y` is x.y), its public classes, its strings."""

    imported: tuple[str, ...]
    classes: tuple[str, ...]
    strings: frozenset[str]
    writes: bool


@functools.cache
def facts(path: Path) -> ModuleFacts:
    """Facts of a module, wherever in it they stand, under TYPE_CHECKING too."""
    module, imports, strings = tree(path), list[str](), set[str]()
    calls = list[ast.Call]()
    for node in ast.walk(module):
        match node:
            case ast.Import():
                imports += (name.name for name in node.names)
            case ast.ImportFrom():
                assert not node.level, f"{path}: a relative import hides where it points"
                imports += (f"{node.module}.{name.name}" for name in node.names)
            case ast.Constant(value=str(text)):
                strings.add(text)
            case ast.Call():
                calls.append(node)
    classes = [node.name for node in module.body if isinstance(node, ast.ClassDef)]
    public = tuple(name for name in classes if not name.startswith("_"))
    return ModuleFacts(tuple(imports), public, frozenset(strings), any(map(writes_file, calls)))


def imported(path: Path) -> tuple[str, ...]:
    return facts(path).imported


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package: str) -> None:
    # DESIGN: "roles -> fedkme; sim, operate -> roles; audit, lab -> sim; roles never import each other".
    ours = set(MAY_IMPORT)
    wrong = {
        str(path.relative_to(ROOT)): names
        for path in modules(package)
        if (names := ({name.partition(".")[0] for name in imported(path)} & ours) - MAY_IMPORT[package])
    }
    assert modules(package)
    assert not wrong


def test_rooms_of_fedkme_import_downwards() -> None:
    rooms = [room for floor in FLOORS for room in floor]
    height = {room: place for place, room in enumerate(rooms)}
    upwards = {
        f"{name_of(path)} -> {name}"
        for path in modules("fedkme")
        for name in imported(path)
        if name.startswith("fedkme.") and len(name_of(path).split(".")) > 1
        if height.get(name.split(".")[1], -1) > height[name_of(path).split(".")[1]]
    }
    assert not upwards
    assert {name_of(path).split(".")[1] for path in modules("fedkme")[1:]} == set(rooms)
    assert sorted(rooms) == sorted(room for wing in WINGS.values() for room in wing)


def test_no_folders_import_each_other_in_a_circle() -> None:
    edges: defaultdict[str, set[str]] = defaultdict(set)
    for package in MAY_IMPORT:
        for path in modules(package):
            folder = path.parent.relative_to(ROOT).parts[:2]
            for name in imported(path):
                target = ROOT.joinpath(*name.split(".")[:2])
                if name.partition(".")[0] in MAY_IMPORT and target.is_dir() and len(folder) == 2:
                    edges["/".join(folder)].add(str(target.relative_to(ROOT)))
    edges = defaultdict(set, {folder: targets - {folder} for folder, targets in edges.items()})
    while ends := {folder for folder, targets in edges.items() if not targets & edges.keys()}:
        edges = defaultdict(set, {folder: targets for folder, targets in edges.items() if folder not in ends})
    assert not edges, "each of these is on a circle or imports one that is"


def test_no_modules_import_each_other_in_a_circle() -> None:
    paths = {name_of(path): path for package in MAY_IMPORT for path in modules(package)}
    points = {
        name: {target if target in paths else target.rpartition(".")[0] for target in imported(path)} - {name}
        for name, path in paths.items()
    }
    while ends := {name for name, targets in points.items() if not targets & points.keys()}:
        points = {name: targets for name, targets in points.items() if name not in ends}
    assert not points, "each of these is on a circle or imports one that is"


def writes_file(call: ast.Call) -> bool:
    """Check whether a call writes to a file by other means than `fedkme.durable`, or renames one."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    said = (*call.args, *(word.value for word in call.keywords))
    if name in ("open", "fdopen"):
        modes = [str(each.value) for each in said if isinstance(each, ast.Constant)]
        flags = {each.attr for value in said for each in ast.walk(value) if isinstance(each, ast.Attribute)}
        written = any(re.fullmatch("[rwxabt+]*[wxa+][bt+]*", mode) for mode in modes)
        return written or bool(name == "open" and flags & {"O_WRONLY", "O_RDWR", "O_CREAT"})
    if name == "replace":
        return isinstance(call.func, ast.Attribute) and _is_rename(call)
    return name in ("write_text", "write_bytes", "tofile", "savez", "savez_compressed", "mkstemp", "rename")


def _is_rename(call: ast.Call) -> bool:
    """Tell Path.replace(target) and os.replace from those of strings, dates and data classes."""
    of_os = isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "os"
    return of_os or (len(call.args) == 1 and not call.keywords)


def test_parties_write_files_by_the_helper_that_survives_a_loss_of_power() -> None:
    writers = {name_of(path) for role in ("fedkme", *ROLES) for path in modules(role) if facts(path).writes}
    assert writers == set(WRITES_FILES)


def test_files_are_read_by_the_helper_that_waits_for_no_pipe() -> None:
    # A named pipe or /dev/zero in the place of a file made verbs wait for ever, or fill the memory.
    readers = set()
    for package in PRODUCT:
        for path in modules(package):
            for call in (node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)):
                name = (
                    call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                )
                of_path = isinstance(call.func, ast.Attribute) and name in ("read_text", "read_bytes")
                modes = [each.value for each in call.args if isinstance(each, ast.Constant)]
                if of_path or (name == "open" and {*modes} & {"r", "rb", "rt"}):
                    readers.add(name_of(path))
    assert readers == {"operate.doctor.installation"}  # a list of an installed package


NOISE = {
    "fedkme/party.py": "hands a source to each party, by its settings alone",
    "fedkme/privacy/noise.py": "defines the sources",
    "fedkme/privacy/settings.py": "asks a mechanism for its cost, and gives it no rows",
    "curator/sums/owner_sums.py": "SumDisclosures",
    "curator/summary/run.py": "SummaryDisclosures",
    "curator/runs/summary_run.py": "RunJournal, which writes the run's lines",
    "curator/server.py": "passes the curator's on to its runs",
    "owner/party.py": "OwnerGate",
    "owner/runs.py": "RowPools, whose choice of places reads no row",
    "owner/agent.py": "passes the owner's on to its party",
    "consumer/summary/client.py": "passes the consumer's on to its party",
    "consumer/summary/offers.py": "ConsumerGate",
    "sim/engines/inprocess.py": "passes each party's on to it",
}
"""Modules that make or ask for a source of noise for rows, each with the gate before what it draws."""
_INSTRUMENTS = ("attacks", "replay", "chaos", "bench", "experiments", "papers", "planning")
"""Folders of sim/ that attack or measure mechanisms on rows of their own."""


def test_noise_is_drawn_behind_gates_alone() -> None:
    # Issue 33, item 5: payouts drew noise about owners' rows beside every ledger and budget.
    makers = {"SecureNoise", "SimulatedNoise", "simulated", "noise_for", "_noise_for"}
    found = set()
    for package in ("fedkme", *ROLES, "sim"):
        for path in modules(package):
            place = path.relative_to(ROOT)
            if place.parts[:2] == ("fedkme", "testing") or set(place.parts) & set(_INSTRUMENTS):
                continue
            calls = (node.func for node in ast.walk(tree(path)) if isinstance(node, ast.Call))
            names = {
                call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls
            }
            if names & makers and place.as_posix() != "sim/sweep/measure.py":  # whose `simulated` is a run
                found.add(place.as_posix())
    assert found == NOISE.keys()


def test_an_installation_without_pytest_has_all_verbs() -> None:
    # audit.contracts and audit.planted_faults need pytest; no verb does.
    importers = {
        name_of(path)
        for package in MAY_IMPORT
        for path in modules(package)
        if any(name.startswith(("audit.contracts", "pytest")) for name in imported(path))
    }
    assert {
        name for name in importers if not name.startswith(("audit.contracts", "audit.planted_faults"))
    } == set()


def test_messages_of_the_wire_are_read_by_codecs_services_and_streams() -> None:
    # docs/decisions/011: everything else, up to the owner's handlers and the curator's runs, sees values.
    readers = {
        name_of(path).removeprefix("fedkme.wire.")
        for package in MAY_IMPORT
        for path in modules(package)
        if any(name.startswith("fedkme.wire.v1") for name in imported(path))
    }
    assert readers == set(READS_MESSAGES)


def test_folders_are_small() -> None:
    sizes: Counter[str] = Counter()
    for package in MAY_IMPORT:
        sizes.update(
            str(path.parent.relative_to(ROOT)) for path in modules(package) if path.stem != "__init__"
        )
    assert not {folder: size for folder, size in sizes.items() if size > LARGE.get(folder, MANY)}


def test_families_are_named_alike_at_curator_and_owner() -> None:
    for family in FAMILIES:
        assert all((ROOT / role / family / "__init__.py").exists() for role in ("curator", "owner"))


def test_a_class_name_has_one_meaning() -> None:
    places: defaultdict[str, set[str]] = defaultdict(set)
    for package in MAY_IMPORT:
        for path in modules(package):
            for name in facts(path).classes:
                places[name].add(name_of(path))
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not {name: found for name, found in twice.items() if name not in TWO_MEANINGS}


def test_one_file_of_fedkme_knows_the_roles_by_name() -> None:
    # docs/decisions/018: the names of the Python API, looked up when they are first used.
    module = rf"({'|'.join(PRODUCT[1:])})(\.\w+)+"
    naming = {
        path.name
        for path in modules("fedkme")
        if any(re.fullmatch(module, string) for string in facts(path).strings)
    }
    assert naming == {"__init__.py"}


def test_the_product_has_its_verbs_without_the_other_shelves() -> None:
    places = {module.partition(".")[0] for module, _, _ in _VERBS.values()}
    assert places <= set(PRODUCT)


BLOCKED = """
import owner.agent, owner.cli, curator.server, curator.cli, consumer.summary.client, consumer.cli, operate.cli
slow = {"dp_accounting", "jax", "rich", "scipy"} & sys.modules.keys()
assert not slow, slow
"""


def test_the_base_installation_is_enough_for_the_parties_and_they_start_quickly() -> None:
    # DESIGN, dependencies: what an owner's host needs; scikit-learn, pandas and matplotlib are of [sim]. What
    # is slow to import waits until something needs it.
    subprocess.run([sys.executable, "-c", WITHOUT_SIM + BLOCKED], check=True, cwd=ROOT, timeout=WAIT_S)


def test_modules_are_short() -> None:
    # CONVENTIONS: "modules under about 300 lines"; 400 is where about ends.
    long = {
        str(path.relative_to(ROOT)): lines
        for package in MAY_IMPORT
        for path in modules(package)
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 400
        if path.parent.name != "planted_faults"  # a list
    }
    assert not long


def test_every_exit_code_is_explained_once() -> None:
    # "Numbered exits with a help page": docs/errors.md has a heading for each number, and no other.
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, FedkmeError) and kind is not FedkmeError
    ]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
    assert all(code == 2 or 10 <= code <= 130 for code in codes)
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    explained = [int(number) for number in re.findall(r"^## (\d+) ", text, re.MULTILINE)]
    assert sorted(explained) == sorted(codes)
