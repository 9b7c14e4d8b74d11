"""Holding ledgers against every head that anybody keeps.

A party that changed its ledger can make another log of heads, and sign it. It cannot change what others keep:
their notes and leaves, and the leaves of other logs that stand for its heads. So each log must be one and the
same wherever any of it is kept, its own openings must give all of its leaves, and its ledger must go through
all of its openings.
"""

from __future__ import annotations

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
    """Hold ledgers against the heads beside them, and against those of others.

    Args:
        ledgers: files of lines with heads in a file beside them, or stores.
        others: files of heads whose ledgers were not given.
        authority: see `check_heads`.
        follow: reads a ledger.

    Raises:
        LedgerError: a file cannot be read. A broken chain is left to `follow_chain`.
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
    """Check whether any of the heads that `check_files` reads are signed."""
    paths = [*map(heads_beside, ledgers), *others]
    return any(read_heads(path).chains for path in paths if path.is_file())


def check_heads(
    ledgers: Mapping[str, Sequence[Entry]], kept: Sequence[KeptHeads], authority: bytes | None = None
) -> list[Verdict]:
    """Hold ledgers against all heads.

    Args:
        ledgers: entries of the party whose heads a file has, by `KeptHeads.where`.
        kept: of all parties whose files there are.
        authority: PEM, for signatures; None: content alone is compared.
    """
    chains = [chain for each in kept for chain in each.chains]
    told: dict[str, list[tuple[str, Checkpoint]]] = {}
    verdicts = []
    for each in kept:
        for checkpoint, fault in (_verified(note, chains, authority) for note in each.notes):
            if fault:
                verdicts.append(Verdict(each.where, fault))
            else:
                told.setdefault(checkpoint.origin, []).append((each.where, checkpoint))
        for opening in each.openings:
            for origin, size, root in opening["heads"]:
                said = Checkpoint(origin, size, base64.b64decode(root))
                told.setdefault(origin, []).append((f"a head in {each.where}", said))
    logs = sorted({*told, *(origin for each in kept for origin in each.leaves)})
    return [*verdicts, *(_log(origin, told.get(origin, []), ledgers, kept) for origin in logs)]


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
    told: Sequence[tuple[str, Checkpoint]],
    ledgers: Mapping[str, Sequence[Entry]],
    kept: Sequence[KeptHeads],
) -> Verdict:
    own = next((each for each in kept if each.origin == origin), None)
    longest = max((each.leaves.get(origin, []) for each in kept), key=len)
    leaves = longest if own is None else own.leaves.get(origin, [])
    about = f"heads of {origin.partition('/')[2]}"
    for each in kept:
        theirs = each.leaves.get(origin, [])
        if theirs != leaves[: len(theirs)]:
            return Verdict(about, _differs(each.where, len(theirs), len(leaves)))
    roots = dict(enumerate(roots_of(leaves)))
    for where, checkpoint in told:
        if own is None:  # who keeps no leaves may know of later heads than who does
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
    for opening in (each for each in own.openings if each["origin"] == origin):
        last, digest = opening["entries"], opening["hash"]
        if last > len(entries):
            return Verdict(about, f"the ledger has {len(entries)} lines and head {opening['number']} {last}")
        if last and entries[last - 1].hash != digest:
            return Verdict(about, f"line {last} is another than that of head {opening['number']}")
    others = len({where for where, _ in told if where != own.where})
    return Verdict(
        f"{about}: {len(leaves)}, also with {others} others; {len(entries) - last} lines after the last"
    )


def _party(origin: str) -> str:
    """Name that the party of a log has in ledgers."""
    role, _, name = origin.partition("/")[2].partition("/")
    return CURATOR if role == Role.CURATOR else name


def _opened(own: KeptHeads, origin: str, leaves: Sequence[bytes]) -> str:
    """Reason why a party's openings are not those of its leaves, if they are not."""
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
