"""The `fedkme` command: the verbs of every role, each imported only when it is used.

What takes long to import is imported in functions, once a signal ends the process without a traceback.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence

TYPE_CHECKING = False  # `typing` takes long, too
if TYPE_CHECKING:
    from types import FrameType

    import typer

_VERBS = {
    "sim": ("sim.cli", "app", "simulate: real parties on this machine, baselines, metrics, a report"),
    "release": ("sim.release_cli", "app", "simulate: synthetic data from the pooled rows of owners"),
    "ask": ("fedkme.answers.cli", "app", "answer questions from a release, with intervals"),
    "match": ("sim.match.cli", "app", "choose a release's rows to look like yours, on your own machine"),
    "data": ("sim.data.cli", "app", "list the public data sets of scenarios and papers, and bring them"),
    "plan": ("sim.plan_cli", "app", "estimate what each protocol will reach; recommend one"),
    "curator": ("curator.cli", "app", "run the curator, which owners join and consumers call"),
    "owner": ("owner.cli", "app", "run a data owner beside its private rows"),
    "consumer": ("consumer.cli", "app", "ask a curator for data that match a validation set"),
    "pki": ("fedkme.pki.cli", "app", "make an authority; issue, renew and revoke certificates"),
    "schema": ("operate.schema_cli", "app", "draft a public schema from csv files, check files against it"),
    "new": ("operate.scaffolding.cli", "app", "make a scenario, or a party's folder, to begin with"),
    "kit": ("operate.scaffolding.cli", "kit_app", "make all that an owner's host begins with"),
    "doctor": ("operate.doctor.cli", "app", "find what would keep a party from working"),
    "audit": (
        "operate.audit_cli",
        "app",
        "check ledgers against each other, count their cost, attack the mechanisms",
    ),
    "dossier": (
        "operate.dossier.cli",
        "app",
        "write the papers of a run: registry entry, metadata, evaluation",
    ),
    "payout": ("operate.payout_cli", "app", "divide a sum among the owners of a finished run"),
    "runs": ("sim.cli", "runs_app", "list the simulations of a folder, with what each reached"),
    "report": ("sim.cli", "report_app", "write the HTML report of a run's folder"),
}
_LONG = {
    *("release", "match", "bench", "data", "plan", "doctor", "dossier", "referee", "sim run"),
    *("sim sweep", "sim reproduce", "referee prepare", "referee add"),
    *("audit attack", "audit replay", "audit verify", "audit ledger", "consumer summary", "consumer release"),
}
"""Verbs that take longer than a person waits without a sign."""
_STOPS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)
_CLEAR = "\r\033[K"
"""Signs that empty a terminal's line."""
_INTERRUPTED = "error 130 (interrupted): the command was interrupted. Give it again."
SHELLS = ("bash", "zsh", "fish")
"""Shells for which `fedkme completion SHELL` prints a script."""
_COMPLETE = "_FEDKME_COMPLETE"
"""Environment variable through which such a script asks for words."""
_HELP = (
    "usage: fedkme VERB ...\n\n"
    + "".join(f"  {verb:<10}{text}\n" for verb, (_, _, text) in _VERBS.items())
    + "  bench     measure speed and memory (in a clone of the repository)\n"
    + "  referee   score made rows by tests of others (in a clone of the repository)\n"
    + ("\n`fedkme VERB --help` says more, `fedkme completion bash` (zsh, fish) lets the tab key complete.\n")
)


def main() -> None:
    """Entry point of `fedkme`."""
    ours = [number for number in _STOPS if signal.getsignal(number) in _DEFAULTS]  # nohup's stay
    for number in ours:
        signal.signal(number, _end)
    from fedkme.command_line import explained, standard_streams

    with standard_streams(), explained():
        try:
            _main(ours)
        finally:
            for number in ours:
                if signal.getsignal(number) in (_end, *_DEFAULTS):  # nothing is left to clear away
                    signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> None:
    """End the process while it imports modules: Python shows an exception from there as a traceback."""
    os.write(2, f"{_CLEAR if os.isatty(2) else ''}{_INTERRUPTED}\n".encode())
    os._exit(130)


def _main(ours: Sequence[signal.Signals]) -> None:
    verb = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if _COMPLETE in os.environ:
        from operate.completion import complete

        complete({name: text for name, (_, _, text) in _VERBS.items()}, _load)
    elif verb == "completion":
        _print_completion(sys.argv[2:])
    elif verb in ("-h", "--help", "help"):
        sys.stdout.write(_HELP)
    elif verb == "--version":
        from fedkme import __version__

        sys.stdout.write(f"fedkme {__version__}\n")
    elif verb not in _VERBS and (verb.startswith("-") or not _is_registered(verb)):
        import difflib

        from fedkme.errors import CommandLineError

        close = difflib.get_close_matches(verb, _VERBS, n=1)
        hint = f"Did you mean '{close[0]}'?" if close else "`fedkme --help` lists them."
        raise CommandLineError(f"there is no verb '{verb}'", hint)
    else:
        with _begun(sys.argv[1:]):
            gc.disable()  # collections find nothing, and take a fifth of the time of imports
            try:
                app = _load(verb)
                gc.freeze()
            finally:
                gc.enable()
        from fedkme.command_line import interrupt_on, run_app

        interrupt_on(ours)  # the default would leave folders in /tmp
        run_app(app, f"fedkme {verb}", sys.argv[2:])


@contextlib.contextmanager
def _begun(words: Sequence[str]) -> Iterator[None]:
    """Show a first sign of life: imports take longer than a person waits for it.

    On a terminal the line disappears again; elsewhere only long verbs print the line, and it stays.
    """
    shown = sys.stderr.isatty()
    if shown:
        sys.stderr.write(f"fedkme {words[0]} ...")
    elif _LONG & {words[0], verb := " ".join(words[:2])} and "--help" not in words:
        sys.stderr.write(f"fedkme {verb if verb.isprintable() else words[0]} begins\n")
    sys.stderr.flush()
    try:
        yield
    finally:
        if shown:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()


def _print_completion(shells: Sequence[str]) -> None:
    if len(shells) != 1 or shells[0] not in SHELLS:
        sys.stderr.write(f"usage: fedkme completion {'|'.join(SHELLS)}\n")
        raise SystemExit(2)
    from operate.completion import script

    sys.stdout.write(script(shells[0], _COMPLETE))


def _is_registered(verb: str) -> bool:
    from fedkme.extensions import INSTRUMENTS, VERBS, entries

    return verb in {*INSTRUMENTS, *entries(VERBS)}


def _load(verb: str) -> typer.Typer:
    from fedkme.command_line import explained

    with explained():
        if verb not in _VERBS:
            from fedkme.verbs import missing_instrument, registered_verb

            if (registered := registered_verb(verb)) is None:
                raise missing_instrument(verb)
            return registered
        module, attribute, _ = _VERBS[verb]
        app: typer.Typer = getattr(importlib.import_module(module), attribute)
        return app
