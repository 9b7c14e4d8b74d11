from fedkme.errors import FedkmeError as FedkmeError
from fedkme.errors import FedkmeWarning as FedkmeWarning
from fedkme.tables.schema import Schema as Schema
from sim.api.checks import SchemaCheck as SchemaCheck
from sim.api.checks import check as check
from sim.api.consumer import Consumer as Consumer
from sim.api.drafts import SchemaDraft as SchemaDraft
from sim.api.drafts import draft_schema as draft_schema
from sim.api.matches import match as match
from sim.api.releases import ReleaseResult as ReleaseResult
from sim.api.selection import SelectionResult as SelectionResult
from sim.api.selection import select as select
from sim.api.summaries import SummaryResult as SummaryResult
from sim.api.sweeps import SweepTable as SweepTable
from sim.api.verbs import load as load
from sim.api.verbs import release as release
from sim.api.verbs import simulate as simulate
from sim.api.verbs import summarize as summarize
from sim.api.verbs import sweep as sweep

__all__: list[str]
__version__: str
