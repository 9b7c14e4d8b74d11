"""Check that the ledgers of a run are whole, and that both sides of each exchange wrote the same.

Both sides have lines of: an owner's rows, sums and counts by cells to the curator, with their cost towards
others; all that a consumer discloses of D_v; and what owners learn of each other's rows. An owner that sold
rows in a round, or was there when the run ended, received all broadcasts until then, and must have their
lines. If an owner was lost before it sold a row, no record shows what it received. An owner's bids and
counts, and the rows that the curator delivers, are in one ledger only: there the chain shows a change, and
record.json, which holds the hash of the curator's last line at the end of its run, shows a cut.

The death of a party leaves lines on one side; these are reported as a note, not as a fault. A curator that
was killed while owners opened a sum charges every owner that it may have asked, and every owner whose vector
was asked for and never reached its disk, in lines that are marked as not certain. An owner writes before it
sends: a line that the owner alone has may be on its way in a run that is open at the curator, or never
arrived in a run in which the owner was lost, as record.json says. A party that hides behind this hides no
cost: the line stays in the other side's ledger, and counts.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from fedkme.cells.disclosures import HISTOGRAM
from fedkme.ledgers.discovery import Found, folder_of, following_once, locate
from fedkme.ledgers.run_endings import Ends, emptied, gone, owner_of, read_record, runs_with_heads
from fedkme.privacy.events import (
    CURATOR,
    OWNERS,
    Disclosure,
    HashedRows,
    RawRows,
    SealedRows,
    is_validation,
    validation_of,
)
from fedkme.privacy.ledger import Entry, Follow
from fedkme.privacy.summary_disclosures import AUCTION, MEAN


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of a check of one ledger, or of a pair.

    Attributes:
        about: the file, or the two parties.
        fault: description of the fault; empty without a fault.
        lines: number of the ledger's lines; None for a pair.
        note: differences that the death of a party explains.
        absent: the missing party or file that the comparison would need.
        empty: there is no line to verify, and no sign that there ever was one.
    """

    about: str
    fault: str = ""
    lines: int | None = None
    note: str = ""
    absent: str = ""
    empty: bool = False

    @property
    def word(self) -> str:
        """Result in a word: FAULT, not given, nothing to verify, or OK."""
        if self.fault:
            return "FAULT"
        if self.absent:
            return "not given"
        return "nothing to verify" if self.empty else "OK"


def verify(directory: Path, others: Sequence[Path] = (), follow: Follow | None = None) -> list[Verdict]:
    """Check every chain of a run, and the curator's ledger against each owner's and the consumer's.

    Args:
        directory: the run's folder.
        others: ledgers in other places; their lines of other runs are ignored.
        follow: reads a ledger; None: read each file once.

    Raises:
        ConfigError: the folder holds no curator's ledger.
        LedgerError: a file cannot be read.
    """
    follow = follow or following_once()
    verdicts, ledgers = [], list[Found]()
    places = locate(directory, follow, others)
    for party, path in places:
        verdict, entries = _chain(path, follow)
        if not verdict.fault:
            ledger = Found(party, path, entries)
            verdict = replace(verdict, fault=_misplaced(ledger) or _cut(ledger) or emptied(path, entries))
            ledgers.append(ledger)
        verdicts.append(verdict)
    verdicts += [Verdict(*each) for each in gone(directory, {party for party, _ in places})]
    if any(verdict.fault for verdict in verdicts):
        return verdicts  # a broken chain is the news; a comparison would repeat it
    compared, absent = _compared(_with_others(ledgers), records=True)
    verdicts += [Verdict(f"the ledger of {name}", absent=name) for name in absent]
    return [*verdicts, *compared]


def verify_files(paths: Sequence[Path], follow: Follow | None = None) -> tuple[list[Verdict], list[str]]:
    """Check the chains of single ledgers, and the curator's ledger, if given, against the others.

    For `follow` see `verify`.

    Returns:
        Verdicts; and the parties whose ledgers have the same lines and were not given.

    Raises:
        LedgerError: a file cannot be read.
    """
    follow = follow or following_once()
    verdicts, ledgers = [], list[Found]()
    for path in paths:
        verdict, entries = _chain(path, follow)
        if verdict.fault:
            verdicts.append(verdict)
            continue
        ledger = Found(entries[0].party if entries else owner_of(path), path, entries)
        verdict = replace(verdict, fault=emptied(path, entries))
        verdicts.append(verdict)
        ledgers += [ledger] if not verdict.fault else []
    curators = [ledger for ledger in ledgers if ledger.party == CURATOR]
    has_lines = any(ledger.entries for ledger in curators) or not any(ledger.entries for ledger in ledgers)
    # an empty ledger cannot confirm other parties' lines
    missing = [] if curators and has_lines else [CURATOR]
    if missing or any(verdict.fault for verdict in verdicts):
        return verdicts, missing
    compared, absent = _compared(ledgers, records=False)
    return [*verdicts, *compared], absent


def _compared(ledgers: Sequence[Found], records: bool) -> tuple[list[Verdict], list[str]]:
    """Compare each curator's ledger with its parties' ledgers.

    Args:
        ledgers: ledgers without a fault, of one curator or more.
        records: whether the curators' records of their runs are beside their ledgers.

    Returns:
        Verdicts; and the parties whose ledgers have the same lines and were not given.
    """
    curators = [ledger for ledger in ledgers if ledger.party == CURATOR]
    parties = _merged([ledger for ledger in ledgers if ledger.party != CURATOR])
    verdicts = []
    for curator in curators:
        met = runs_with_heads(curator.path, [party.path for party in parties])
        ends = Ends.of(curator.path, folder_of(curator) if records else None)
        if records:
            ends = replace(ends, begun=met | _begun(ledgers))
        runs = _runs_of(curator) | ends.recorded | met
        if records:  # owners of a simulation have one curator, which must have all their runs
            inside = curator.path.parent / "owners"
            runs |= _begun(party for party in parties if party.path.parent == inside)
        theirs = [party for party in parties if len(curators) == 1 or _shares_runs(curator, party, runs)]
        verdicts += [_compare(curator, party, runs, ends) for party in theirs]
    return verdicts, sorted({name for curator in curators for name in _absent(curator, parties)})


def _shares_runs(curator: Found, party: Found, runs: Set[str]) -> bool:
    """Check whether a party has lines of a curator's runs, or the curator has lines about the party."""
    charged = any(entry.disclosure.protected == party.party for entry in curator.entries)
    return charged or any(entry.disclosure.run in runs for entry in party.entries)


def _runs_of(curator: Found) -> set[str]:
    """Runs of a curator's lines; a sketch counts as the run that it was made for."""
    runs = {entry.disclosure.run for entry in curator.entries}
    return runs | {run.partition("/")[0] for run in runs}


def _begun(ledgers: Iterable[Found]) -> set[str]:
    """Runs with a line about owners' rows in some ledger: lines about D_v exist before a run begins."""
    lines = (entry.disclosure for ledger in ledgers for entry in ledger.entries)
    return {about.run for about in lines if not is_validation(about.protected)}


def _chain(path: Path, follow: Follow) -> tuple[Verdict, Sequence[Entry]]:
    """Verdict on a ledger's chain, and its entries if there is no fault."""
    entries, fault = follow(path)
    if fault is not None:
        return Verdict(str(path), f"line {fault.line}: {fault.what}"), ()
    return Verdict(str(path), lines=len(entries), empty=not entries), entries


def _absent(curator: Found, parties: Sequence[Found]) -> list[str]:
    """Parties that must have lines like the curator's, and whose ledgers were not given."""
    heard = {
        about.protected
        for about in (entry.disclosure for entry in curator.entries)
        if about.certain and (_is_of_owner(about) or is_validation(about.protected))
    }
    names = {name for party in parties for name in (party.party, validation_of(party.party))}
    return [_party_of(name) for name in sorted(heard - names)]


def _merged(parties: Sequence[Found]) -> list[Found]:
    """Join the ledgers of each party: a consumer has a ledger in each output folder.

    An entry that is in two files, for example in a copy, counts once.
    """
    merged: dict[str, Found] = {}
    for ledger in parties:
        if (before := merged.get(ledger.party)) is not None:
            hashes = {entry.hash for entry in before.entries}
            more = [entry for entry in ledger.entries if entry.hash not in hashes]
            ledger = Found(ledger.party, before.path, [*before.entries, *more])
        merged[ledger.party] = ledger
    return list(merged.values())


def _with_others(ledgers: list[Found]) -> list[Found]:
    """Ledgers of a folder, with all of its curator's ledgers there joined into one."""
    first, *rest = ledgers
    own = [ledger for ledger in rest if ledger.party == CURATOR and ledger.path.parent == first.path.parent]
    return (
        ledgers if not own else [*_merged([first, *own]), *(ledger for ledger in rest if ledger not in own)]
    )


def _party_of(protected: str) -> str:
    return protected.removeprefix(validation_of(""))


def _misplaced(ledger: Found) -> str:
    if ledger.entries and ledger.entries[0].party != ledger.party:
        return f"line 1: this is the ledger of {ledger.entries[0].party}, in the place of {ledger.party}'s"
    return ""


def _cut(ledger: Found) -> str:
    """Describe where the curator's ledger was cut or changed since its runs were recorded, if it was."""
    directory = folder_of(ledger)
    if ledger.party != CURATOR or directory is None:
        return ""
    for folder in (directory, *sorted(directory.glob("run-*"))):
        head = read_record(folder).get("ledger")
        if head is None:
            continue
        where, count = folder / "record.json", head["entries"]
        if count > len(ledger.entries):
            return f"line {len(ledger.entries)}: {where} says that entry {count} was written"
        if count and ledger.entries[count - 1].hash != head["hash"]:
            return f"line {count}: {where} says that another entry was written here"
    return ""


def _compare(curator: Found, party: Found, runs: Set[str], ends: Ends) -> Verdict:
    """Compare two ledgers over the given runs; a party may have other runs with another curator."""
    theirs = [entry for entry in party.entries if entry.disclosure.run in runs and _is_mirrored(entry, party)]
    ours = [entry for entry in curator.entries if _is_mirrored(entry, party)]
    heard = [entry for entry in party.entries if entry.disclosure.run in runs and _is_heard(entry, party)]
    unasked, missing = _partition(_extra(ours, theirs), lambda entry: not entry.disclosure.certain)
    unheard, alone = _partition(
        _extra(theirs, ours), lambda entry: ends.explains(party.party, entry.disclosure)
    )
    faults = [
        f"{holder.path}, line {entry.seq}: {_description(entry.disclosure)} is not in {other.path}"
        for holder, other, extra in (
            (party, curator, alone),
            (curator, party, missing),
            (party, curator, _extra(heard, curator.entries)),
            (curator, party, _extra(_due(curator, party, ends.stayed), party.entries)),
        )
        for entry in extra[:1]
    ]
    notes = [
        *([f"{len(unasked)} more that it may have been asked for as {CURATOR} stopped"] if unasked else []),
        *([f"{len(unheard)} of its own did not reach {CURATOR}, or not yet"] if unheard else []),
    ]
    about = f"{party.party} and {CURATOR}: {len(theirs) + len(heard)} events"
    nothing = not (theirs or heard or ours or notes)
    return Verdict(about, "; ".join(faults), note="; ".join(notes), empty=nothing)


def _partition(entries: Iterable[Entry], fits: Callable[[Entry], bool]) -> tuple[list[Entry], list[Entry]]:
    """Split entries into fitting ones and the rest."""
    candidates = list(entries)
    return [entry for entry in candidates if fits(entry)], [entry for entry in candidates if not fits(entry)]


def _is_row(about: Disclosure) -> bool:
    """Check for an owner's row that went to the curator, or sealed through the curator to the consumer."""
    row = about.nonce.startswith("row ") and isinstance(about.event, RawRows | HashedRows | SealedRows)
    return row and not is_validation(about.protected)


def _is_of_owner(about: Disclosure) -> bool:
    """Check for a line that an owner writes, too: a row, a vector or release of sums, or a histogram."""
    begins = ("sums ", "release ", HISTOGRAM)
    return _is_row(about) or (about.nonce.startswith(begins) and not is_validation(about.protected))


def _is_mirrored(entry: Entry, party: Found) -> bool:
    about = entry.disclosure
    own = about.protected == party.party and _is_of_owner(about)
    return own or about.protected == validation_of(party.party)


def _is_heard(entry: Entry, party: Found) -> bool:
    """Check for a broadcast about others' rows to an owner; an owner need not receive every broadcast."""
    about = entry.disclosure
    return about.protected == about.observer == OWNERS and party.party != CURATOR


def _due(curator: Found, party: Found, stayed: Mapping[str, Set[str]]) -> list[Entry]:
    """Lines about others' rows that an owner must have, because it received the broadcasts."""
    sold: dict[str, set[int]] = {}
    for about in (entry.disclosure for entry in curator.entries):
        if about.protected == party.party and _is_row(about):
            sold.setdefault(about.run, set()).add(about.round)

    def is_due(about: Disclosure) -> bool:
        rounds = sold.get(about.run, set())
        if about.nonce.startswith(AUCTION):
            return about.round in rounds
        return about.round <= max(rounds, default=0) or party.party in stayed.get(about.run, ())

    return [
        entry
        for entry in curator.entries
        if entry.disclosure.nonce.startswith((AUCTION, MEAN))
        and _is_heard(entry, party)
        and is_due(entry.disclosure)
    ]


def _extra(entries: Iterable[Entry], others: Iterable[Entry]) -> list[Entry]:
    """Entries that are missing among the others, or occur there less often."""
    unmatched, extra = Counter(other.disclosure for other in others), []
    for entry in entries:
        if unmatched[entry.disclosure]:
            unmatched[entry.disclosure] -= 1
        else:
            extra.append(entry)
    return extra


def _description(about: Disclosure) -> str:
    return f"'{about.event.kind}' of {about.protected} in {about.run}, round {about.round} ({about.nonce})"
