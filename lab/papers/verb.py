"""`fedkme sim reproduce`, before anything is computed: jax takes seconds to import, and help needs none."""

from __future__ import annotations

import typer

from fedkme.verbs import Verbs, epilog

_EPILOG = epilog(
    "fedkme sim reproduce sarpatwar-fig1 --quick",
    "fedkme sim reproduce sarpatwar-fig1 --data train.csv --jobs 8 --out runs/allstate",
    "fedkme sim reproduce dphp-table2 --quick --only data=adult",
    json="an object: code, out (the folder), results (by name: verdict, the file, and every value)",
)
app = Verbs()


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
    epilog=_EPILOG,
)
def reproduce(context: typer.Context) -> None:
    """Compute a figure or table of the papers: sarpatwar-fig1, balog-fig1, merf-adult, ..., all."""
    from lab.papers.cli import reproduce_command

    inner = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    inner.command(epilog=_EPILOG)(reproduce_command)
    inner(args=context.args, prog_name="fedkme sim reproduce")
