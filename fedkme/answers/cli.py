"""`fedkme ask`: questions to a release, answered with intervals."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedkme.answers.answer import NOT_TOLD, Answer
from fedkme.answers.card import rows_of
from fedkme.answers.correlations import Target
from fedkme.answers.grammar import CALLS
from fedkme.errors import QuestionError
from fedkme.verbs import AsJson, Verbs, console, print_json, table_of

app = Verbs()


Folder = Annotated[
    Path,
    typer.Argument(metavar="RELEASE", help="A release's folder: a simulation's, or a consumer's output."),
]
Questions = Annotated[
    list[str] | None, typer.Argument(metavar="QUESTIONS", help="Questions, with ; between them.")
]
Other = Annotated[
    Path | None,
    typer.Option("--distance-to", metavar="RELEASE", help="Another release: tell how far apart both are."),
]
About = Annotated[
    Target | None,
    typer.Option(
        "--target",
        help="Subject of the intervals: the rows held, or the population that they were drawn from. "
        "Default: rows for count and sum, else the population.",
    ),
]


@app.verb(
    "fedkme ask runs/marginals-adult-1 'mean(age) by sex; corr(age, hours-per-week)'",
    "fedkme ask release \"share(income = '>50K' and age > 60); histogram(age, 10)\" --json",
    "fedkme ask release \"median(age) where sex in ('Female')\" --target rows",
    "fedkme ask runs/2025 --distance-to runs/2026",
    json="a list: question, group, estimate, low, high, noise, sampling, unseen, target, method, unit",
)
def ask(
    folder: Folder,
    questions: Questions = None,
    about: About = None,
    other: Other = None,
    as_json: AsJson = False,
) -> None:
    """Answer questions from a release, with 95 % intervals. This costs no privacy and contacts no owner.

    A question that fails is named at the end, with its error code; all other questions are answered.
    """
    from fedkme.answers.folder import AskedFolder

    if not questions and other is None:
        raise QuestionError("there is no question", "Give one, such as 'count()', or --distance-to RELEASE.")
    release = AskedFolder(folder)
    apart = [] if other is None else [release.distance(AskedFolder(other))]
    answers, failures = release.ask(questions, about) if questions else (list[Answer](), {})
    answers = apart + answers
    if answers or not failures:
        print_json([asdict(answer) for answer in answers]) if as_json else print_table(answers)
    named = [type(error)(f"{text}: {error.cause}", error.remedy) for text, error in failures.items()]
    if len(named) == 1 and not answers:
        raise next(iter(failures.values()))
    for failure in named[:-1]:
        typer.echo(failure, err=True)
    if named:
        raise named[-1]


ask.__doc__ = f"{ask.__doc__}\n\nCalls: {', '.join(CALLS)}; each with where CONDITION and by COLUMN."


def print_table(answers: Sequence[Answer]) -> None:
    """Print answers for a person, and how many of them noise hides."""
    several = len({answer.target for answer in answers}) > 1
    table = table_of(["", ">estimate", ">95 % interval", ">noise", ">sampling", ">unseen"])
    if several:
        table.add_column("about", justify="right", no_wrap=True)
    previous = ""
    for question, group, *figures in rows_of(answers):
        if group and question != previous:
            table.add_row(question)
        table.add_row(f"  {group}" if group else question, *figures[: len(table.columns) - 1])
        previous = question
    screen = console()
    screen.print(table)
    for method in dict.fromkeys(answer.method for answer in answers):
        screen.print(method, soft_wrap=True)
    hidden = sum(NOT_TOLD in answer.method and answer.noise >= answer.unseen for answer in answers)
    if hidden:
        screen.print(
            f"{hidden} of {len(answers)} answers say nothing, noise hides them: ask of larger groups, "
            "or of a release with a larger epsilon",
            soft_wrap=True,
        )
    if answers and not several:
        screen.print(f"intervals are about the {answers[0].target}; --target changes that")
    screen.print("noise, sampling: standard deviations; unseen: a bound; the interval includes all three")
