"""`fedkme data`: list the public data sets, and bring them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkme.errors import ConfigError, ConnectionFailedError, DataError, FedkmeError
from fedkme.verbs import AsJson, Verbs, print_json
from sim.data.catalogue import PublicSet, catalogue
from sim.data.folder import data_file, folder_to_fill

app = Verbs()


@app.verb(
    "fedkme data",
    "fedkme data adult mnist",
    "fedkme data adult --from downloads",
    json="a list: name, file, what, rows, columns, licence, source, used, content, path (null: not here)",
)
def data(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Sets to bring, or all.", autocompletion=lambda: [*catalogue()]
        ),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--from", help="Folder of the sources' files, brought by hand.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to fill; default $FEDKME_DATA, or data where it is not set.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the public data sets of scenarios and experiments; with names, bring these.

    A set comes from its source's addresses, or from --from. The SHA-256 of each of the source's files is
    checked; then the file that scenarios read is made, and its content checked. Of a set that is here, the
    content is checked.
    """
    sets = catalogue()
    wanted = [*sets] if names == ["all"] else names or []
    if unknown := [name for name in wanted if name not in sets]:
        raise ConfigError(f"there is no data set '{unknown[0]}'", f"Choose among {', '.join(sets)}, or all.")
    code = 0
    for name in wanted:
        try:
            _bring(name, folder, out, partial(typer.echo, err=as_json))
        except FedkmeError as error:
            typer.echo(f"{name}: {error}", err=True)
            code = error.code
    if as_json:
        print_json([_entry(name, out) for name in wanted or sets])
    elif not wanted:
        typer.echo("\n".join(line for name in sets for line in _lines(name, out)))
        typer.echo("`fedkme data NAME` brings one, `fedkme data all` all.")
    raise typer.Exit(code)


def _bring(name: str, folder: Path | None, out: Path | None, say: Callable[[str], None]) -> None:
    """Bring a set, or check the file that is here.

    Raises:
        FedkmeError: it did not come, or the file that is here has another content.
    """
    from sim.data.fetching import fault_of_content, fetch, from_folder, make_file

    wanted = catalogue()[name]
    path = _path(wanted, out)
    if path.is_file():
        if fault := fault_of_content(wanted, path):
            raise DataError(f"{path}: {fault}", "Move it away and bring the set again.")
        say(f"{name}: {path} is here and checked")
        return
    say(f"{name}: {wanted.what}; licence {wanted.licence}, {wanted.source}")
    try:
        originals = {
            original.name: fetch(original, say) if folder is None else from_folder(original, folder)
            for original in wanted.originals
        }
    except (ConnectionFailedError, DataError) as error:
        raise type(error)(error.cause, f"{wanted.by_hand(name)}.") from None
    say(f"{name}: {make_file(wanted, originals, out or folder_to_fill())}")


def _path(wanted: PublicSet, out: Path | None) -> Path:
    return data_file(wanted.file) if out is None else out / wanted.file


def _entry(name: str, out: Path | None) -> dict[str, Any]:
    wanted = catalogue()[name]
    shown = wanted.model_dump(
        include={"file", "what", "rows", "columns", "licence", "source", "used", "content"}
    )
    path = _path(wanted, out)
    return {"name": name, **shown, "path": path if path.is_file() else None}


def _lines(name: str, out: Path | None) -> list[str]:
    """Three lines about a set: its file, its content, its source."""
    wanted, path = catalogue()[name], _path(catalogue()[name], out)
    return [
        f"{name:<11}{wanted.file}: {path if path.is_file() else 'not here'}",
        f"{'':<11}{wanted.what}; {wanted.rows} x {wanted.columns}; {wanted.licence}; for {wanted.used}",
        f"{'':<11}{wanted.source}; SHA-256 of the content {wanted.content}",
    ]
