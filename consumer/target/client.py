"""A summary without a real row: asks for a release, then chooses its rows for D_v on this machine.

Privacy. Owners answer noisy sums alone, as in any release; what they pay is the release's. The request names
method, epsilon, delta and the schema's digest: a function of settings and of the public schema. D_v is read
before, so that a file that cannot be read costs owners nothing, and is first computed with once the release
is on disk: no byte that is sent depends on its rows (replace one row; tests/system/test_target.py compares
all messages of a consumer with two neighbouring D_v). A release that is in the output folder is used again,
so that owners pay once for any number of targets.
"""

from pathlib import Path

from consumer.releases.client import OPEN, ReleaseConsumerSettings
from consumer.releases.client import run as ask_release
from consumer.results import ALONE, lost_owners, remove_result, write_result
from consumer.settings import ConsumerSettings, RequestSettings
from consumer.summary.client import run as run_summary
from consumer.summary.offers import gamma_of
from consumer.summary.received import load_validation
from consumer.target.choosing import PoolChoice
from consumer.target.matching import DRAWN, Matched, match_rows
from fedkme.answers.folder import RELEASE, SYNTHETIC
from fedkme.config import validate
from fedkme.embeddings.kernels import domain_gamma
from fedkme.errors import ConfigError
from fedkme.ops.supervision import StatusReporter
from fedkme.ops.threads import in_thread, one_thread
from fedkme.party import PartySettings
from fedkme.releases.choice import method_for
from fedkme.releases.settings import ReleaseSettings, release_settings
from fedkme.tables.files import Examined, counted_persons, load_table
from fedkme.tables.schema import Schema, load_schema


def release_for(request: RequestSettings, schema: Schema) -> ReleaseSettings:
    """Release that a request for rows for a target asks for: the default method at the request's epsilon."""
    privacy = request.privacy
    values = {"kind": method_for(schema)[0], "rows": DRAWN, "group": privacy.group}
    return release_settings(values | {"epsilon": privacy.epsilon, "delta": privacy.delta})


async def run(settings: ConsumerSettings, reporter: StatusReporter) -> None:
    """Request a summary, of real rows or of rows for a target as the settings say, write it and judge it."""
    if settings.request.real_rows:
        await run_summary(settings, reporter)
    else:
        await run_target(settings, reporter)


async def run_target(settings: ConsumerSettings, reporter: StatusReporter) -> None:
    """Get a release, unless the output folder has one, and choose its rows for D_v.

    Raises:
        ConfigError: the release has other columns than the schema, or no rows.
        FedkmeError: the curator's refusal or failure, or a failure here; the same command goes on.
    """
    schema = load_schema(settings.schema_file)
    examined = load_validation(settings, schema)
    output = settings.output
    if (output / OPEN).exists() or not (output / RELEASE).exists():
        common = {name: getattr(settings, name) for name in PartySettings.model_fields}
        own = {"name": settings.name, "curator": settings.curator, "output": output}
        own |= {"schema_file": settings.schema_file, "release": release_for(settings.request, schema)}
        await ask_release(validate(ReleaseConsumerSettings, common | own, settings.name), reporter)
    else:
        line = f"the release in {output} is used again; another 'output' asks for another"
        reporter.say("resumed", run="", line=line)
    matched = await in_thread(lambda: choose_rows(settings, schema, examined))
    write_matched(matched, output, schema)
    verdict = matched.judged.verdict
    reporter.say("judged", run="", round=0, file=f"{output}/{ALONE}evaluation.json")
    reporter.say("verdict", run="", round=0, grade=verdict.grade, advice=verdict.advice)


def write_matched(matched: Matched, output: Path, schema: Schema) -> None:
    """Write rows for a target in a folder, in place of earlier ones.

    Raises:
        StoreError: a file cannot be written.
    """
    for earlier in output.glob(f"{ALONE}*"):
        remove_result(earlier)
    for name, content in matched.files(schema).items():
        write_result(output / name, content)


def choose_rows(settings: ConsumerSettings, schema: Schema, examined: Examined) -> Matched:
    """Choose rows of the release in the output folder for D_v, and judge them."""
    output, request = settings.output, settings.request
    if not (output / SYNTHETIC).exists():
        cause = f"{output} has a release without rows of equal weight"
        raise ConfigError(cause, "Choose another 'output' for another.")
    test = None if settings.test is None else load_table(settings.test, schema, settings.name)
    gamma = gamma_of(request.kernel, schema) or domain_gamma(schema.mean_squared_distance)
    with one_thread():
        drawn = load_table(output / SYNTHETIC, schema, "the release")
        return match_rows(
            PoolChoice(schema, drawn, examined.table, request.p, gamma),
            test=test,
            persons=counted_persons(examined, schema),
            train=settings.downstream,
            doubts=lost_owners(output),
        )
