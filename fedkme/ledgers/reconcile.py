"""Check that the ledgers of a run are whole, and that both sides of each exchange wrote the same.

Mirrored are an owner's rows, sums and counts by cells to the curator and what they cost towards others, all
that a consumer discloses of D_v, and what owners hear of each other's rows: whoever sold rows in a round, or
was there when the run ended, has heard what was broadcast until then, and must have its lines. Of an owner
that was lost before it sold a row nothing tells what it heard. An owner's bids and counts, and
the rows that the curator delivers, are in one ledger only: there the chain shows what was changed, and
record.json, which holds the hash of the curator's last line at the end of its run, a cut.

A death leaves lines on one side, which is said and is no fault. A curator that was killed while owners opened
a sum charges all that it may have asked, and each whose vector was asked for and never came to its disk, in
lines that say that they are not certain. An owner writes before it sends: what it wrote alone may be on its
way in a run that is open at the curator, and never came in one in which it was lost, as record.json says.
Whoever would hide behind that hides no cost: the line stays in the ledger of the other side, and counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from fedkme.cells.disclosures import HISTOGRAM
from fedkme.ledgers.endings import Ends, emptied, gone, owner_of, read_record, runs_with_heads
from fedkme.ledgers.located import Found, folder_of, following_once, locate
from fedkme.privacy.events import (
    CURATOR,
    OWNERS,
    REQUEST,
    Disclosure,
    HashedRows,
    RawRows,
    SealedRows,
    is_validation,
    validation_of,
)
from fedkme.privacy.ledger import Entry, Follow
from fedkme.privacy.told import AUCTION, MEAN, PAYOUTS


@dataclass(frozen=True, slots=True)
class Verdict:
    """Finding about one ledger, or about a pair.

    Attributes:
        about: the file, or the two parties.
        fault: empty when all is well.
        lines: of a ledger; None for a pair.
        note: what differs and a death explains.
        absent: the party whose ledger, or the thing, that this could not be held against.
        empty: nothing was written that could be verified, and nothing says that there was.
    """

    about: str
    fault: str = ""
    lines: int | None = None
    note: str = ""
    absent: str = ""
    empty: bool = False

    @property
    def word(self) -> str:
        """One of four words, each of which means what it says."""
        if self.fault:
            return "FAULT"
        if self.absent:
            return "not given"
        return "nothing to verify" if self.empty else "OK"


def verify(directory: Path, others: Sequence[Path] = (), follow: Follow | None = None) -> list[Verdict]:
    """Check every chain of a run, and the curator's against each owner's and the consumer's.

    Args:
        directory: the run's folder.
        others: ledgers of parties that keep theirs elsewhere; their other runs are left out.
        follow: reads a ledger; None: each once.

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
            found = Found(party, path, entries)
            verdict = replace(verdict, fault=_misplaced(found) or _cut(found) or emptied(path, entries))
            ledgers.append(found)
        verdicts.append(verdict)
    verdicts += [Verdict(*each) for each in gone(directory, {party for party, _ in places})]
    if any(verdict.fault for verdict in verdicts):
        return verdicts  # a broken chain is the news; a comparison would repeat it
    compared, absent = _compared(_with_others(ledgers), records=True)
    verdicts += [Verdict(f"the ledger of {name}", absent=name) for name in absent]
    return [*verdicts, *compared]


def verify_files(paths: Sequence[Path], follow: Follow | None = None) -> tuple[list[Verdict], list[str]]:
    """Check every chain of some ledgers, and the curator's against the others where it is among them.

    For `follow` see `verify`.

    Returns:
        What was found; and the parties whose ledgers tell of the same and were not given.

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
        found = Found(entries[0].party if entries else owner_of(path), path, entries)
        verdict = replace(verdict, fault=emptied(path, entries))
        verdicts.append(verdict)
        ledgers += [found] if not verdict.fault else []
    curators = [found for found in ledgers if found.party == CURATOR]
    told = any(found.entries for found in curators) or not any(found.entries for found in ledgers)
    missing = [] if curators and told else [CURATOR]  # an empty ledger says nothing of what others wrote
    if missing or any(verdict.fault for verdict in verdicts):
        return verdicts, missing
    compared, absent = _compared(ledgers, records=False)
    return [*verdicts, *compared], absent


def _compared(ledgers: Sequence[Found], records: bool) -> tuple[list[Verdict], list[str]]:
    """Compare each curator's ledger with those of its parties.

    Args:
        ledgers: whole ones, of one curator or more.
        records: what curators recorded of their runs lies beside their ledgers.

    Returns:
        What was found; and the parties whose ledgers tell of the same and were not given.
    """
    curators = [found for found in ledgers if found.party == CURATOR]
    parties = _merged([found for found in ledgers if found.party != CURATOR])
    verdicts = []
    for curator in curators:
        met = runs_with_heads(curator.path, [party.path for party in parties])
        ends = Ends.of(curator.path, folder_of(curator) if records else None)
        if records:
            ends = replace(ends, begun=met | _begun(ledgers))
        runs = _runs_of(curator) | ends.recorded | met
        if records:  # owners of a simulation met no other curator: whatever they have, it should have
            inside = curator.path.parent / "owners"
            runs |= _begun(party for party in parties if party.path.parent == inside)
        theirs = [party for party in parties if len(curators) == 1 or _met(curator, party, runs)]
        verdicts += [_compare(curator, party, runs, ends) for party in theirs]
    return verdicts, sorted({name for curator in curators for name in _absent(curator, parties)})


def _met(curator: Found, party: Found, runs: Set[str]) -> bool:
    """Check whether a party has lines of a curator's runs, or the curator has some about the party."""
    told = any(entry.disclosure.protected == party.party for entry in curator.entries)
    return told or any(run in runs for run, _ in by_run(party.entries))


def _runs_of(curator: Found) -> set[str]:
    """Runs of which a curator has a line: a sketch is of the run that it was made for."""
    runs = {entry.disclosure.run for entry in curator.entries}
    return (runs | {run.partition("/")[0] for run in runs}) - {REQUEST}


def _begun(ledgers: Iterable[Found]) -> set[str]:
    """Runs of which some ledger has a line about owners' rows: D_v may be told for one that never begins."""
    lines = (entry.disclosure for found in ledgers for entry in found.entries)
    return {about.run for about in lines if not is_validation(about.protected)}


def _chain(path: Path, follow: Follow) -> tuple[Verdict, Sequence[Entry]]:
    """Finding about a ledger by itself, and its entries where there is no fault."""
    entries, fault = follow(path)
    if fault is not None:
        return Verdict(str(path), f"line {fault.line}: {fault.what}"), ()
    return Verdict(str(path), lines=len(entries), empty=not entries), entries


def _absent(curator: Found, parties: Sequence[Found]) -> list[str]:
    """Parties that surely wrote down what the curator did, and have no ledger here."""
    heard = {
        about.protected
        for about in (entry.disclosure for entry in curator.entries)
        if about.certain
        and (_is_row(about) or _is_sums(about) or _is_histogram(about) or is_validation(about.protected))
    }
    kept = {name for party in parties for name in (party.party, validation_of(party.party))}
    return [_whose(name) for name in sorted(heard - kept)]


def _merged(parties: Sequence[Found]) -> list[Found]:
    """One of each party, with the entries of all its ledgers: a consumer has one in each output folder.

    What stands in two files, as of a copy, is one entry.
    """
    merged: dict[str, Found] = {}
    for found in parties:
        if (before := merged.get(found.party)) is not None:
            known = {entry.hash for entry in before.entries}
            more = [entry for entry in found.entries if entry.hash not in known]
            found = Found(found.party, before.path, [*before.entries, *more])
        merged[found.party] = found
    return list(merged.values())


def _with_others(ledgers: list[Found]) -> list[Found]:
    """Ledgers of a folder, with the entries of all that its curator has there in one."""
    first, *rest = ledgers
    own = [found for found in rest if found.party == CURATOR and found.path.parent == first.path.parent]
    return ledgers if not own else [*_merged([first, *own]), *(found for found in rest if found not in own)]


def by_run(entries: Sequence[Entry]) -> list[tuple[str, Entry]]:
    """Entries with their run; what was said before a run had a name belongs to the run that follows."""
    run, found = REQUEST, []
    for entry in reversed(entries):
        if entry.disclosure.run != REQUEST:
            run = entry.disclosure.run
        found.append((run, entry))
    return found[::-1]


def _whose(protected: str) -> str:
    return protected.removeprefix(validation_of(""))


def _misplaced(found: Found) -> str:
    if found.entries and found.entries[0].party != found.party:
        return f"line 1: this is the ledger of {found.entries[0].party}, in the place of {found.party}'s"
    return ""


def _cut(found: Found) -> str:
    """Describe where the curator's ledger was cut or changed since its runs were recorded, if it was."""
    directory = folder_of(found)
    if found.party != CURATOR or directory is None:
        return ""
    for folder in (directory, *sorted(directory.glob("run-*"))):
        head = read_record(folder).get("ledger")
        if head is None:
            continue
        where, count = folder / "record.json", head["entries"]
        if count > len(found.entries):
            return f"line {len(found.entries)}: {where} says that entry {count} was written"
        if count and found.entries[count - 1].hash != head["hash"]:
            return f"line {count}: {where} says that another entry was written here"
    return ""


def _compare(curator: Found, party: Found, runs: Set[str], ends: Ends) -> Verdict:
    """Compare two ledgers over these runs: a ledger may hold others, with another curator."""
    theirs = [entry for run, entry in by_run(party.entries) if run in runs and _is_mirrored(entry, party)]
    ours = [entry for entry in curator.entries if _is_mirrored(entry, party)]
    heard = [entry for run, entry in by_run(party.entries) if run in runs and _is_heard(entry, party)]
    unasked, missing = _parted(_extra(ours, theirs), lambda entry: not entry.disclosure.certain)
    unheard, alone = _parted(_extra(theirs, ours), lambda entry: ends.explains(party.party, entry.disclosure))
    faults = [
        f"{here.path}, line {entry.seq}: {_spelled(entry.disclosure)} is not in {there.path}"
        for here, there, extra in (
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


def _parted(entries: Iterable[Entry], fits: Callable[[Entry], bool]) -> tuple[list[Entry], list[Entry]]:
    """Entries that fit, and the others."""
    found = list(entries)
    return [entry for entry in found if fits(entry)], [entry for entry in found if not fits(entry)]


def _is_row(about: Disclosure) -> bool:
    """Check that it is an owner's row that came to the curator, or in a box through it to the consumer."""
    row = about.nonce.startswith("row ") and isinstance(about.event, RawRows | HashedRows | SealedRows)
    return row and not is_validation(about.protected)


def _is_sums(about: Disclosure) -> bool:
    """Check that it belongs to a run of sums: an owner's vector, or what is released of all of them."""
    return about.nonce.startswith(("sums ", "release ")) and not is_validation(about.protected)


def _is_histogram(about: Disclosure) -> bool:
    """Check that it is an owner's histogram by cells, towards the curator or, by orders, towards others."""
    return about.nonce.startswith(HISTOGRAM) and not is_validation(about.protected)


def _is_mirrored(entry: Entry, party: Found) -> bool:
    about = entry.disclosure
    if about.protected == validation_of(party.party):
        return True
    return about.protected == party.party and (_is_row(about) or _is_sums(about) or _is_histogram(about))


def _is_heard(entry: Entry, party: Found) -> bool:
    """Check that it is what the curator told an owner of others' rows; an owner need not hear everything."""
    about = entry.disclosure
    return about.protected == about.observer == OWNERS and party.party != CURATOR


def _due(curator: Found, party: Found, stayed: Mapping[str, Set[str]]) -> list[Entry]:
    """Lines about others' rows that an owner must have, since it was told of what they are about."""
    sold: dict[str, set[int]] = {}
    for about in (entry.disclosure for entry in curator.entries):
        if about.protected == party.party and _is_row(about):
            sold.setdefault(about.run, set()).add(about.round)

    def is_due(about: Disclosure) -> bool:
        rounds = sold.get(about.run, set())
        if about.nonce.startswith(AUCTION):
            return about.round in rounds
        # A line of all rounds, as of payouts, is of round 1: whoever sold a row has heard of it.
        return about.round <= max(rounds, default=0) or party.party in stayed.get(about.run, ())

    return [
        entry
        for entry in curator.entries
        if entry.disclosure.nonce.startswith((AUCTION, MEAN, PAYOUTS))
        and _is_heard(entry, party)
        and is_due(entry.disclosure)
    ]


def _extra(entries: Iterable[Entry], others: Iterable[Entry]) -> list[Entry]:
    """Entries that the others do not have, or not as often."""
    left, extra = Counter(other.disclosure for other in others), []
    for entry in entries:
        if left[entry.disclosure]:
            left[entry.disclosure] -= 1
        else:
            extra.append(entry)
    return extra


def _spelled(about: Disclosure) -> str:
    return f"'{about.event.kind}' of {about.protected} in {about.run}, round {about.round} ({about.nonce})"
