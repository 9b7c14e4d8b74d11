"""`fedkme owner`: the verbs of an owner's host."""

import contextlib
import shlex
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from fedkme.errors import ConfigError
from fedkme.heads.files import export
from fedkme.ledgers.data_files import DataFiles, units_of
from fedkme.ops.supervision import Supervised, run_party
from fedkme.party import fault_of_name, load_settings
from fedkme.pki.identity import IdentityFile
from fedkme.protocols import fault_of_protocol, names
from fedkme.store import open_store
from fedkme.store.reading import read_store
from fedkme.tables.files import load_rows
from fedkme.tables.schema import load_schema
from fedkme.verbs import AsJson, LedgerFile, Verbs, console, print_json, print_result
from owner.agent import join as join_curator
from owner.consent.approvals import approve as write_approval
from owner.many import files_of, join_all, load_all
from owner.settings import OwnerSettings

app = Verbs("Run a data owner beside its private rows.")

Config = Annotated[Path, typer.Argument(help="OWNER.toml")]
GoesOn = Annotated[bool, typer.Option("--goes-on", help="They may share rows with some earlier data.")]


@app.verb("fedkme owner join owner.toml", "fedkme owner join north.toml south.toml others")
def join(
    configs: Annotated[
        list[Path],
        typer.Argument(metavar="CONFIG...", help="OWNER.toml, of each owner; a folder: all of it."),
    ],
    supervised: Supervised = False,
    new_journal: Annotated[
        bool, typer.Option("--new-journal", help="Join without the earlier journal, which is lost for good.")
    ] = False,
) -> None:
    """Load this owner's rows, join a curator, serve its runs until the curator ends the session.

    Several owners of one operator can join in one process, each with its own certificate, journal, policy and
    budgets; an owner that fails does not stop the others.
    """
    files = files_of(configs)
    if len(files) == 1:
        work = partial(join_curator, new_journal=new_journal)
        status = run_party(lambda: load_settings(OwnerSettings, files[0]), supervised, work, service=True)
    else:
        together = partial(join_all, supervised=supervised, new_journal=new_journal)
        status = run_party(lambda: load_all(files), supervised, together, service=True)
    raise typer.Exit(status)


@app.verb(
    "fedkme owner status owner.toml",
    "fedkme owner status owner.toml --json",
    json="an object: owner, runs, periods, limits, asked, ... (docs/owners.md)",
)
def status(config: Config, as_json: AsJson = False) -> None:
    """Print what left, to whom, what the policy still allows, and which runs wait for approval."""
    from owner.consent.status import read_status, show  # joining needs neither function

    settings = load_settings(OwnerSettings, config)
    with contextlib.closing(read_store(settings.journal, settings.name)) as store:
        report = read_status(settings, store)
    if as_json:
        print_json(report.to_json())
    else:
        show(report, console(), shlex.quote(str(config)))


@app.verb("fedkme owner ledger owner.toml --out north.jsonl", json="an object: file, party, lines")
def ledger(config: Config, out: LedgerFile, as_json: AsJson = False) -> None:
    """Write this owner's ledger to a file, for `fedkme audit verify` and `fedkme audit ledger`."""
    settings = load_settings(OwnerSettings, config)
    print_result(export(settings.journal, settings.name, out), as_json)


@app.verb(
    "fedkme owner approve owner.toml --consumer lab --protocol cells --rows 100",
    "fedkme owner approve owner.toml --consumer lab --protocol marginals --runs 3 --json",
    json="an object: id, consumer, protocol, rows, runs, file (its removal withdraws the approval)",
)
def approve(
    config: Config,
    consumer: Annotated[str, typer.Option(help="For whom.")],
    protocol: Annotated[str, typer.Option(help="By which protocol.")],
    rows: Annotated[
        int, typer.Option(min=0, help="Rows of the summary, at most; none for a release.", show_default=False)
    ] = 0,
    runs: Annotated[int, typer.Option(min=1, help="How many runs.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Approve runs of an owner whose policy says `approval = "manual"`; the owner then takes part in them."""
    settings = load_settings(OwnerSettings, config)
    if settings.policy.approval != "manual":
        cause = f"{config.name} asks for no approval"
        raise ConfigError(cause, "Set 'approval = \"manual\"' in [policy], and start the owner.")
    if fault := fault_of_name(consumer, "consumer") or fault_of_protocol(protocol):
        raise ConfigError(f"nothing was approved: {fault}", "Correct the name.")
    if (protocol in names("sums")) == (rows > 0):
        how = "no row leaves in a release" if rows else "a summary has rows"
        raise ConfigError(f"nothing was approved: {how}", "Give --rows for summaries alone.")
    approval = write_approval(settings.approvals, consumer, protocol, rows, runs)
    file = settings.approvals / f"{approval.id}.json"
    if as_json:
        print_json({**asdict(approval), "file": file})
    else:
        typer.echo(
            f"{settings.name} takes part in {approval.what}: {runs}; "
            f"to take that back before it is used, remove {file}"
        )


@app.verb(
    "fedkme owner resync owner.toml --curator curator.jsonl --heads south.heads",
    json="an object: runs, lines, heads (what was restored)",
)
def resync(
    config: Config,
    curator: Annotated[Path, typer.Option(help="LEDGER.jsonl of the curator, its .heads beside it.")],
    heads: Annotated[list[Path] | None, typer.Option(help="FILE.heads of another party; repeat.")] = None,
    as_json: AsJson = False,
) -> None:
    """Restore what a store from a backup lost, and charge it to budgets. Stop the owner's process before."""
    from owner.consent.resync import resync as give_back  # it imports accountants

    settings = load_settings(OwnerSettings, config)
    own = None if settings.identity is None else IdentityFile(settings.identity).identity
    with contextlib.closing(open_store(settings.journal, settings.name, settings.durability)) as store:
        restored = give_back(settings.name, store, curator, heads or (), lambda: own)
    if as_json:
        print_json(asdict(restored))
        return
    typer.echo(
        f"{settings.name} has {restored.heads} heads and {restored.lines} lines of {len(restored.runs)} runs "
        "again; lines that no other party holds are lost"
    )


@app.verb(
    "fedkme owner new-data owner.toml", json="an object: name, earlier (how many files)", name="new-data"
)
def new_data(config: Config, goes_on: GoesOn = False, as_json: AsJson = False) -> None:
    """Begin budgets anew for a data file without rows of earlier files. Stop the owner's process before."""
    from owner.consent.history import files_of_runs  # it imports accountants

    settings = load_settings(OwnerSettings, config)
    schema = load_schema(settings.schema_file)
    units = units_of(load_rows(settings.data, schema, settings.name, of_persons=True), schema)
    with contextlib.closing(open_store(settings.journal, settings.name, settings.durability)) as store:
        apart = DataFiles(store).begin_anew(settings.name, units, files_of_runs(store), goes_on)
    if as_json:
        print_json({"name": settings.name, "earlier": apart})
        return
    typer.echo(f"budgets of {settings.name} count no run over {apart} earlier files; lines and rows stay")
