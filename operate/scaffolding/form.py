"""Form on a page of this machine: own files, their columns, and a simulation of them.

It does what `fedkme schema draft`, `new scenario`, `schema check --fix`, `sim run` and `release auto` do, and
leaves their files. Who knows its address has files of this user read: the address has a secret, which only
the terminal shows, and submissions come from a page of that address.
"""

import queue
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from fedkme.drafts.dictionary import draft_files
from fedkme.drafts.writing import text_of
from fedkme.durable import replace
from fedkme.errors import ConfigError, FedkmeError
from fedkme.inputs import read_text
from fedkme.pages.html import Html, about, banner, document, joined, note, table, tag
from operate.scaffolding.folders import SCENARIO, SCHEMA, make, scenario_of
from operate.schema_cli import checked_files
from sim.config import load_simulation
from sim.match.target import simulate
from sim.progress import Progress, alive
from sim.release_config import load_planned
from sim.releases import simulate_release
from sim.watch import SimulationWatch

MOST_FILES = 200
"""Files that are offered, at most."""
_ENDINGS = (".csv", ".tsv", ".parquet", ".csv.gz", ".tsv.gz")
_CHOSEN = ("owner", "sample", "kind", "rows", "label", "epsilon")

Fields = Mapping[str, Sequence[str]]
"""All values of each field of a submission."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Simulation that was asked for.

    Attributes:
        watch: state of the simulation, for the page.
        scenario: file of the scenario.
        release: whether synthetic rows are wanted, and not a summary.
        assignments: keys of the scenario that the form set.
    """

    watch: SimulationWatch
    scenario: Path
    release: bool
    assignments: tuple[str, ...]


@dataclass(slots=True)
class SimulationForm:
    """Form with the simulation that was requested by it.

    Attributes:
        folder: folder whose files are offered, and where a folder is made for each simulation.
        place: path of the form in the page's address, which is a secret.
        requests: simulations that were asked for.
        watch: state of the last of them, for the page.
    """

    folder: Path
    place: str = field(default_factory=lambda: f"/form-{secrets.token_urlsafe(24)}")
    requests: queue.SimpleQueue[RunRequest] = field(default_factory=queue.SimpleQueue)
    watch: SimulationWatch = field(default_factory=SimulationWatch)
    _made: set[str] = field(default_factory=set)

    def answer(self, fields: Fields) -> str:
        """Answer a submission with a page; with an empty one once a simulation was asked for.

        Args:
            fields: fields of the submission; none: a new form.
        """
        try:
            if not fields:
                return _page(self._files({}))
            if "schema" not in fields:
                return _page(self._columns(fields, self._drafted(fields)))
            return self._started(fields)
        except FedkmeError as error:
            message = banner(f"{error.cause}. {error.remedy}")
            return _page(joined([message, self._files(fields)], "\n"))

    def _files(self, fields: Fields) -> Html:
        """First page: the party of each file, and the wanted result."""
        offered = self._offered()
        if not offered:
            return note(f"No file with rows is in {self.folder}: start the form in the folder of your files.")
        rows = [
            (
                name,
                _box("checkbox", "owner", name, fields, f"{name}: rows of an owner"),
                _box("radio", "sample", name, fields, f"{name}: the sample"),
            )
            for name in offered
        ]
        kinds = (
            ("release", "made-up rows like all owners' rows"),
            ("summary", "owners' rows like the sample"),
        )
        chosen = _one(fields, "kind") or "release"
        options = (
            tag("option", words, value=kind, selected="selected" if kind == chosen else "")
            for kind, words in kinds
        )
        return tag(
            "form",
            table(
                "Tick the file of each owner, and the sample: public rows, or your own.",
                ("file", "owner", "sample"),
                rows,
            ),
            tag("p", tag("label", "I want ", tag("select", *options, name="kind"))),
            _text("rows", "Number of rows: ", _one(fields, "rows") or "200"),
            _text("label", "Column that a model learns, if any: ", _one(fields, "label")),
            _text("epsilon", "Epsilon: ", _one(fields, "epsilon") or "1"),
            tag("p", tag("button", "Look at the columns", type="submit")),
            method="post",
        )

    def _columns(self, fields: Fields, made: Path, faults: str = "") -> Html:
        """Second page: the schema, which can be edited, and what the check of the files found."""
        findings, fits = (faults, False) if faults else _checked(made, fix=True)
        mended = "Every file fits: what is found below is mended, in this schema or in the file's settings."
        text = read_text(made / SCHEMA)
        hidden = (
            tag("input", type="hidden", name=name, value=value)
            for name in _CHOSEN
            for value in fields.get(name, ())
        )
        lines = str(min(text.count("\n") + 2, 40))
        area = tag("textarea", text, name="schema", rows=lines, aria_label="Schema")
        again = tag("input", type="checkbox", name="rehearsal", value="yes")
        return tag(
            "form",
            *hidden,
            tag("input", type="hidden", name="made", value=made.name),
            note(
                "Owners agree on this schema in public. FROM DATA was read in the sample: replace if private."
            ),
            area,
            note(mended if fits else "Not every file fits: edit this schema, or the files."),
            tag("pre", findings),
            tag("p", tag("label", again, " A rehearsal: baselines are compared; the noise protects nobody.")),
            tag("p", tag("button", "Start", type="submit")),
            method="post",
        )

    def _drafted(self, fields: Fields) -> Path:
        """Make a folder with the drafted schema and a scenario of the files.

        Raises:
            FedkmeError: a file is missing or cannot be read, or a choice is wrong.
        """
        names, chosen = fields.get("owner", ()), _one(fields, "sample")
        if unknown := {*names, *filter(None, [chosen])} - {*self._offered()}:
            raise ConfigError(f"there is no file {min(unknown)!r} to choose", "Reload the form.")
        if not names or not chosen:
            raise ConfigError("there are no files of owners, or no sample", "Tick both.")
        owners, sample = [self.folder / name for name in names], self.folder / chosen
        text = text_of(draft_files([sample], _one(fields, "label") or None))
        made = next(place for k in count(1) if not (place := self.folder / f"study-{k}").exists())
        make(made, {SCHEMA: text})
        self._made.add(made.name)
        scenario_of(made, made / SCHEMA, owners, sample, None)
        return made

    def _started(self, fields: Fields) -> str:
        """Write the edited schema and start the simulation; returns a page with faults, if there are any.

        Raises:
            FedkmeError: the schema cannot be read, or a wish is no number.
        """
        made = self.folder / _one(fields, "made")
        if made.name not in self._made:
            raise ConfigError("the form is not of this start", "Reload the form.")
        text = _one(fields, "schema").replace("\r\n", "\n")
        replace(made / SCHEMA, text.encode())
        try:
            findings, fits = _checked(made, fix=False)
        except FedkmeError as error:
            findings, fits = str(error), False
        if not fits:
            return _page(self._columns(fields, made, findings))
        release, rehearsal = _one(fields, "kind") != "summary", bool(_one(fields, "rehearsal"))
        size, epsilon = ("rows", "epsilon") if release else ("p", "privacy.epsilon")
        wishes = [f"{size}={_number(fields, 'rows')}", f"{epsilon}={_number(fields, 'epsilon')}"]
        if not rehearsal:
            wishes += ["noise=secure", *([] if release else ["baselines=[]"])]
        self.watch = SimulationWatch()
        self.requests.put(RunRequest(self.watch, made / SCENARIO, release, tuple(wishes)))
        return ""

    def _offered(self) -> list[str]:
        files = (
            path
            for pattern in ("*", "*/*")
            for path in self.folder.glob(pattern)
            if path.name.lower().endswith(_ENDINGS) and path.is_file()
            if not any(part.startswith(".") for part in path.relative_to(self.folder).parts)
        )
        return sorted(str(path.relative_to(self.folder)) for path in files)[:MOST_FILES]


def carry_out(request: RunRequest) -> int:
    """Run the requested simulation; returns its exit code, which page and terminal show."""
    shown = Progress(sys.stderr)
    shown.watch = request.watch
    try:
        with alive(shown.note):
            if request.release:
                settings, parties, plan = load_planned(str(request.scenario), request.assignments, "rows")
                directory, released = simulate_release(settings, None, shown, parties, plan)
                code = int(released["code"])
            else:
                chosen = load_simulation(str(request.scenario), request.assignments)
                directory, metrics = simulate(chosen, None, shown)
                code = int(metrics["code"])
    except FedkmeError as error:
        request.watch.fail(str(error))
        shown.note(str(error))
        return error.code
    shown.note(f"report: {directory / 'report.html'}")
    return code


def _checked(made: Path, *, fix: bool) -> tuple[str, bool]:
    """Check a folder's files against its schema, or mend both first; return findings, and whether all fit."""
    lines, left = checked_files(made / SCHEMA, [made / SCENARIO], fix=fix)
    return "\n".join(lines), not left


def _page(body: Html) -> str:
    title = "A simulation of your own files"
    head = joined([tag("h1", title), about("Every party runs on this machine; no row leaves it.")])
    return document(f"fedkme: {title.lower()}", head, [("Files, columns, start", body)])


def _one(fields: Fields, name: str) -> str:
    return next(iter(fields.get(name, ())), "").strip()


def _number(fields: Fields, name: str) -> str:
    """Text of a number.

    Raises:
        ConfigError: it is none.
    """
    try:
        return f"{float(_one(fields, name)):g}"
    except ValueError:
        raise ConfigError(f"{name} is not a number", "Write one, such as 1 or 200.") from None


def _box(kind: str, name: str, value: str, fields: Fields, label: str) -> Html:
    ticked = "checked" if value in fields.get(name, ()) else ""
    return tag("input", type=kind, name=name, value=value, checked=ticked, aria_label=label)


def _text(name: str, label: str, value: str) -> Html:
    return tag("p", tag("label", label, tag("input", type="text", name=name, value=value)))
