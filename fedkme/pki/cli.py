"""`fedkme pki`: an authority, and the certificates of parties. See docs/pki.md."""

import datetime
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from cryptography.hazmat.primitives import serialization

from fedkme.durable import create
from fedkme.errors import PkiError
from fedkme.inputs import SMALL, read_bytes
from fedkme.pki import requests
from fedkme.pki.authority import new_key
from fedkme.pki.certificates import Role, check_name, fingerprint, name_of
from fedkme.pki.files import PRIVATE, PUBLIC, keys_in
from fedkme.pki.folder import AuthorityFolder, Passphrase, explained, make_authority
from fedkme.pki.identity import Identity
from fedkme.pki.show import Facts, describe, describe_request, lines_of
from fedkme.pki.show import show as show_file
from fedkme.verbs import AsJson, Verbs, print_json

app = Verbs("Make an authority; issue, renew and revoke certificates of parties.")

_CENTURY = 36_500
AuthorityOption = Annotated[Path, typer.Option("--authority", help="The authority's folder.")]
PassphraseOption = Annotated[
    Path | None, typer.Option("--passphrase-file", help="Holds the passphrase of the authority's key.")
]
DaysOption = Annotated[int, typer.Option("--days", min=1, max=_CENTURY, help="How long it is to be valid.")]
HostOption = Annotated[
    list[str] | None, typer.Option("--host", help="A host name or address of a curator; repeat it for more.")
]
RoleOption = Annotated[Role, typer.Option("--role", help="What the party may act as.")]
_SHAPE = "a list of objects, one a certificate, request, key or list: party, role, expires, ..."
AgainOption = Annotated[
    bool, typer.Option("--again", help="The name gets another certificate beside its first.")
]


@app.verb('fedkme pki init authority --name "trial authority" --ask-passphrase', json=_SHAPE)
def init(
    directory: Annotated[Path, typer.Argument(help="A folder that is not there yet, or empty.")],
    name: Annotated[str, typer.Option(help="The authority's name.")] = "fedkme authority",
    days: DaysOption = 3650,
    passphrase_file: PassphraseOption = None,
    as_json: AsJson = False,
    ask_passphrase: Annotated[
        bool, typer.Option("--ask-passphrase", help="Encrypt the key; ask how.")
    ] = False,
) -> None:
    """Make an authority."""
    passphrase = None
    if passphrase_file is not None or ask_passphrase:
        passphrase = _passphrase(passphrase_file, confirm=True)()
    if not 0 < len(name) <= 64 or not name.isprintable():
        raise PkiError("that cannot be an authority's name", "Use 1 to 64 letters.")
    authority = make_authority(directory, name, datetime.timedelta(days=days), passphrase)
    _print([describe(authority.certificate)], as_json)


@app.verb(
    "fedkme pki issue lab --authority authority --role consumer --out lab.pem",
    "fedkme pki issue curator --authority authority --role curator --host example.org --out curator.pem",
    json=_SHAPE,
)
def issue(
    name: Annotated[str, typer.Argument(help="The party's name.")],
    authority: AuthorityOption,
    out: Annotated[Path, typer.Option(help="The bundle to write.")],
    host: HostOption = None,
    role: RoleOption = Role.OWNER,
    days: DaysOption = 365,
    again: AgainOption = False,
    passphrase_file: PassphraseOption = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and a certificate for a party: one file, to be carried to its host in secret."""
    with explained(), AuthorityFolder(authority).open(_passphrase(passphrase_file)) as signing:
        _refuse(out)
        identity = signing.issue(name, host or (), role, _days(days), new_key(), again=again)
        identity.save_bundle(out)
    _print([describe(identity.leaf)], as_json)


@app.verb("fedkme pki request north --out-request north.csr --out-key north.key", json=_SHAPE)
def request(
    name: Annotated[str, typer.Argument(help="The party's name.")],
    out_request: Annotated[Path, typer.Option(help="The request to write.")],
    out_key: Annotated[Path | None, typer.Option(help="The new key to write; it stays on this host.")] = None,
    key: Annotated[
        Path | None, typer.Option(help="A key or bundle to use again, instead of a new key.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and a request for a certificate on the party's host; the key stays there."""
    check_name(name)
    with explained():
        _refuse(out_request)
        if (key is None) == (out_key is None):
            cause = "a request needs either a new key or an old one"
            raise PkiError(cause, "Give one of --out-key and --key.")
        data = _key_in(key) if key is not None else new_key()
        csr = requests.make_request(name, data)
        if out_key is not None:
            create(out_key, data, PRIVATE)
        create(out_request, csr.public_bytes(serialization.Encoding.PEM), PUBLIC)
    _print([describe_request(csr)], as_json)


@app.verb(
    "fedkme pki approve north.csr --authority authority --fingerprint 3F:A2:... --out north.crt", json=_SHAPE
)
def approve(
    file: Annotated[Path, typer.Argument(metavar="REQUEST", help="What `fedkme pki request` wrote.")],
    authority: AuthorityOption,
    out: Annotated[Path, typer.Option(help="The certificate to write, for the party.")],
    fingerprint_said: Annotated[
        str, typer.Option("--fingerprint", help="The request's, as the party said it by another way.")
    ] = "",
    host: HostOption = None,
    role: RoleOption = Role.OWNER,
    days: DaysOption = 365,
    again: AgainOption = False,
    passphrase_file: PassphraseOption = None,
    as_json: AsJson = False,
) -> None:
    """Sign a request whose fingerprint the party has confirmed."""
    csr = requests.read_request(file)
    name = name_of(csr.subject)
    requests.check_fingerprint(fingerprint_said, csr, f"the request of {name!r}", "the party")
    folder = AuthorityFolder(authority)
    with explained(), folder.open(_passphrase(passphrase_file)) as signing:
        _refuse(out)
        signed = signing.certify(csr.public_key(), name, host or (), role, _days(days), again=again)
        pair = (signed, folder.certificate)
        create(
            out,
            b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in pair),
            PUBLIC,
        )
    _print([describe(signed), {"authority": fingerprint(folder.certificate)}], as_json)


@app.verb("fedkme pki accept north.crt --key north.key --fingerprint 9B:04:... --out north.pem", json=_SHAPE)
def accept(
    file: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="What `fedkme pki approve` wrote.")],
    key: Annotated[Path, typer.Option(help="The key that the request was made with, or a bundle.")],
    out: Annotated[Path, typer.Option(help="The bundle to write.")],
    fingerprint_said: Annotated[
        str, typer.Option("--fingerprint", help="The authority's, as it was said by another way.")
    ] = "",
    over: Annotated[bool, typer.Option("--over", help="Replace the bundle, for a renewal.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put key and certificate together on the party's host, after checking the authority's fingerprint."""
    with explained():
        identity = requests.accept(file, _key_in(key), fingerprint_said)
        identity.save_bundle(out, over=over)
    _print([describe(identity.leaf)], as_json)


@app.verb("fedkme pki renew north.pem --authority authority --days 365", json=_SHAPE)
def renew(
    bundle: Annotated[Path, typer.Argument(help="The bundle, or folder, of a party.")],
    authority: AuthorityOption,
    out: Annotated[
        Path | None, typer.Option(help="A bundle to write; by default the old one is replaced.")
    ] = None,
    fresh_key: Annotated[bool, typer.Option("--new-key", help="With another key.")] = False,
    days: DaysOption = 365,
    passphrase_file: PassphraseOption = None,
    as_json: AsJson = False,
) -> None:
    """Issue a party's certificate again; a process that uses the bundle takes up the new one by itself."""
    old = Identity.load(bundle, current=False)
    with explained(), AuthorityFolder(authority).open(_passphrase(passphrase_file)) as signing:
        if out is not None:
            _refuse(out)
        identity = signing.renew(old, _days(days), new_key() if fresh_key else old.key)
        if out is None and bundle.is_dir():
            identity.save(bundle)
        else:
            identity.save_bundle(out or bundle, over=out is None)
    _print([describe(identity.leaf)], as_json)


@app.verb("fedkme pki revoke north --authority authority", json=_SHAPE)
def revoke(
    authority: AuthorityOption,
    what: Annotated[
        list[str] | None,
        typer.Argument(help="Names, serial numbers, or files; none: extend the list's validity."),
    ] = None,
    days: DaysOption = 90,
    passphrase_file: PassphraseOption = None,
    as_json: AsJson = False,
) -> None:
    """Add certificates to the revocation list, and sign the list."""
    folder = AuthorityFolder(authority)
    certificates = [certificate for word in what or () for certificate in folder.find(word)]
    with explained(), folder.open(_passphrase(passphrase_file)) as signing:
        signing.revoke(certificates, _days(days))
    file = authority / "revoked.pem"
    revoked = [
        {"revoked": f"{name_of(certificate.subject)} {certificate.serial_number:x}"}
        for certificate in certificates
    ]
    _print([*revoked, *show_file(file)], as_json)
    typer.echo(f"Copy {file} to where the curator's 'revoked' points.", err=as_json)


@app.verb("fedkme pki show authority", "fedkme pki show north.pem --json", json=_SHAPE)
def show(
    path: Annotated[Path, typer.Argument(help="A folder or file of `fedkme pki`.")], as_json: AsJson = False
) -> None:
    """Show a folder or file: names, roles, expiry, fingerprints; never a key."""
    _print(show_file(path), as_json)


def _print(things: Iterable[Facts], as_json: bool) -> None:
    if as_json:
        print_json(list(things))
        return
    for line in lines_of(things):
        typer.echo(line)


def _days(days: int) -> datetime.timedelta:
    return datetime.timedelta(days=days)


def _refuse(out: Path) -> None:
    """Refuse an output file that cannot be written, before anything is signed: no signature can be undone."""
    if os.path.lexists(out):
        raise FileExistsError(None, None, str(out))
    if not (out.parent.is_dir() and os.access(out.parent, os.W_OK)):
        raise PkiError(f"{out.parent} is no folder that can be written", "Make it first, or choose another.")


def _key_in(path: Path) -> bytes:
    if keys := keys_in(read_bytes(path, SMALL)):
        return keys[0]
    raise PkiError(f"{path} has no key", "Name the file that --out-key wrote, or a bundle.")


def _passphrase(file: Path | None, *, confirm: bool = False) -> Passphrase:
    """Return a function that reads the passphrase when the key needs one."""

    def get() -> bytes:
        if file is None:
            text: str = typer.prompt(
                "Passphrase of the authority's key", hide_input=True, confirmation_prompt=confirm, err=True
            )
            passphrase = text.encode()
        else:
            with explained():
                passphrase = read_bytes(file, SMALL).partition(b"\n")[0].strip()
        if not passphrase:
            raise PkiError("the passphrase is empty", "Give one.")
        return passphrase

    return get
