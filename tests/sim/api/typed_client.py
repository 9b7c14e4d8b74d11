"""A client of the Python API, for `make lint`: mypy --strict finds the names, their types, and two mistakes.

Not run, as its files are not there. A mistake that mypy no longer finds is an ignored error that is not
needed, which is an error too. That the packages are typed when installed, tests/test_dist.py checks.
"""

import fedkme as fk


def right() -> None:
    run = fk.simulate("digits", p=10, seed=3)
    grade: str = run.verdict.grade if run.verdict else "none"
    release: fk.ReleaseResult = fk.release({"north": "north.csv"}, schema="schema.toml", epsilon=1)
    error: float | None = release.ask(lambda rows: rows["age"] > 50).error
    lab = fk.Consumer("lab.toml")
    try:
        print(lab.summary(p=60).rows, grade, error)
    except fk.FedkmeError as failure:
        print(failure.code, failure.remedy)


def wrong() -> None:
    fk.simulate("digits", seed="three")  # type: ignore[arg-type]
    fk.summarise  # type: ignore[attr-defined]  # noqa: B018
