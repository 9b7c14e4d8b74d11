"""Check of ledgers against all stored heads.

A party that changed its ledger can make another log of heads, and sign it. The party cannot change what other
parties store: its notes and leaves, and the leaves of other logs that stand for its heads. So all copies of a
log must agree, the party's openings must give all of its leaves, and its ledger must match all of its
openings.
"""

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedkme.errors import LedgerError
from fedkme.heads.files import KeptHeads, heads_beside, read_heads
from fedkme.heads.log import canonical, commitment
from fedkme.heads.notes import Checkpoint, check_signature, read_note, roots_of
from fedkme.ledgers.reconcile import Verdict
from fedkme.pki.certificates import Role
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import Entry, Follow, follow_chain


def check_files(
    ledgers: Sequence[Path],
    others: Sequence[Path] = (),
    authority: bytes | None = None,
    follow: Follow = follow_chain,
) -> list[Verdict]:
    """Check ledgers against the heads beside them, and against other parties' heads.

    Args:
        ledgers: ledgers' files with files of heads beside them, or stores.
        others: files of heads whose ledgers were not given.
        authority: see `check_heads`.
        follow: reads a ledger.

    Raises:
        LedgerError: a file cannot be read. A ledger with a broken chain is skipped.
    """
    read, entries = [], {}
    for ledger in ledgers:
        if (path := heads_beside(ledger)).is_file() and path not in others:
            read.append(read_heads(path))
            lines, fault = follow(ledger)
            if fault is None:
                entries[str(path)] = lines
    return check_heads(entries, [*read, *map(read_heads, others)], authority)


def are_signed(ledgers: Sequence[Path], others: Sequence[Path] = ()) -> bool:
    """Check whether any head that `check_files` reads is signed."""
    paths = [*map(heads_beside, ledgers), *others]
    return any(read_heads(path).chains for path in paths if path.is_file())


def check_heads(
    ledgers: Mapping[str, Sequence[Entry]], files: Sequence[KeptHeads], authority: bytes | None = None
) -> list[Verdict]:
    """Check ledgers against all heads.

    Args:
        ledgers: entries of parties' ledgers, by `KeptHeads.where` of the party's heads.
        files: contents of all files of heads.
        authority: PEM, for signatures; None: compare contents alone.
    """
    chains = [chain for heads in files for chain in heads.chains]
    claims: dict[str, list[tuple[str, Checkpoint]]] = {}
    verdicts = []
    for heads in files:
        for checkpoint, fault in (_verified(note, chains, authority) for note in heads.notes):
            if fault:
                verdicts.append(Verdict(heads.where, fault))
            else:
                claims.setdefault(checkpoint.origin, []).append((heads.where, checkpoint))
        for opening in heads.openings:
            for origin, size, root in opening["heads"]:
                checkpoint = Checkpoint(origin, size, base64.b64decode(root))
                claims.setdefault(origin, []).append((f"a head in {heads.where}", checkpoint))
    logs = sorted({*claims, *(origin for heads in files for origin in heads.leaves)})
    return [*verdicts, *(_log(origin, claims.get(origin, []), ledgers, files) for origin in logs)]


def _verified(note: str, chains: Sequence[bytes], authority: bytes | None) -> tuple[Checkpoint, str]:
    try:
        checkpoint, signatures = read_note(note)
        if authority is not None:
            for signer in {checkpoint.origin, *(name for name, _ in signatures)}:
                check_signature(checkpoint, signatures, signer, chains, authority)
    except LedgerError as error:
        return Checkpoint("", 0, b""), error.cause
    return checkpoint, ""


def _log(
    origin: str,
    claims: Sequence[tuple[str, Checkpoint]],
    ledgers: Mapping[str, Sequence[Entry]],
    files: Sequence[KeptHeads],
) -> Verdict:
    own = next((heads for heads in files if heads.origin == origin), None)
    longest = max((heads.leaves.get(origin, []) for heads in files), key=len)
    leaves = longest if own is None else own.leaves.get(origin, [])
    about = f"heads of {origin.partition('/')[2]}"
    for heads in files:
        theirs = heads.leaves.get(origin, [])
        if theirs != leaves[: len(theirs)]:
            return Verdict(about, _differs(heads.where, len(theirs), len(leaves)))
    roots = dict(enumerate(roots_of(leaves)))
    for where, checkpoint in claims:
        if own is None:  # a party without the log's leaves may have later heads than one with leaves
            roots.setdefault(checkpoint.size, checkpoint.root)
        if roots.get(checkpoint.size) != checkpoint.root:
            return Verdict(about, _differs(where, checkpoint.size, max(roots)))
    if own is None:
        return Verdict(f"{about}: {max(roots)}, kept by others alone", absent=_party(origin))
    if fault := _opened(own, origin, leaves):
        return Verdict(about, fault)
    entries = ledgers.get(own.where)
    if entries is None:
        return Verdict(f"{about}: {len(leaves)}; its ledger was not given", absent=_party(origin))
    last = 0
    for opening in (heads for heads in own.openings if heads["origin"] == origin):
        last, digest = opening["entries"], opening["hash"]
        if last > len(entries):
            return Verdict(about, f"the ledger has {len(entries)} lines and head {opening['number']} {last}")
        if last and entries[last - 1].hash != digest:
            return Verdict(about, f"line {last} is another than that of head {opening['number']}")
    others = len({where for where, _ in claims if where != own.where})
    return Verdict(
        f"{about}: {len(leaves)}, also with {others} others; {len(entries) - last} lines after the last"
    )


def _party(origin: str) -> str:
    """Name of a log's party in ledgers."""
    role, _, name = origin.partition("/")[2].partition("/")
    return CURATOR if role == Role.CURATOR else name


def _opened(own: KeptHeads, origin: str, leaves: Sequence[bytes]) -> str:
    """Reason why a party's openings do not match its leaves; empty if they match."""
    openings = [opening for opening in own.openings if opening["origin"] == origin]
    if [opening.get("number") for opening in openings] != list(range(1, len(leaves) + 1)):
        cause = "its store came from a backup, or it hides them"
        return f"{own.where} opens {len(openings)} heads of {len(leaves)}: {cause}"
    for opening, leaf in zip(openings, leaves, strict=True):
        if commitment(canonical(opening)) != leaf:
            return f"head {opening['number']} is opened as another than it was"
    return ""


def _differs(where: str, theirs: int, ours: int) -> str:
    if theirs > ours:
        return f"{where} has {theirs} of them and the party {ours}: lines were cut, or a backup restored"
    return f"{where} has another head {theirs}: lines were changed, or there are two ledgers"
