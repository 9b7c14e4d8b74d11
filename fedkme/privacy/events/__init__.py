"""Events: descriptions of what a mechanism did, with everything that an accountant needs and no figures.

Ledgers hold events for years. So the meaning of a kind never changes, and no field is ever renamed; a
mechanism that does something else gets another kind. Accountants (fedkme.privacy.accountants) turn events
into figures. This package is light enough for the path of an owner's round.

A noise multiplier is the standard deviation (Gaussian) or scale (Laplace) over the sensitivity *under the
relation of the disclosure*. Under replace-one the sensitivity is the diameter; no accountant doubles it
again. `count` is a number of releases, each of which may depend on earlier releases.
"""

from fedkme.privacy.events.disclosures import CONSUMER as CONSUMER
from fedkme.privacy.events.disclosures import CURATOR as CURATOR
from fedkme.privacy.events.disclosures import OWNERS as OWNERS
from fedkme.privacy.events.disclosures import PUBLIC as PUBLIC
from fedkme.privacy.events.disclosures import RESERVED as RESERVED
from fedkme.privacy.events.disclosures import VALIDATION as VALIDATION
from fedkme.privacy.events.disclosures import Disclosure as Disclosure
from fedkme.privacy.events.disclosures import disclosure_from_json as disclosure_from_json
from fedkme.privacy.events.disclosures import is_validation as is_validation
from fedkme.privacy.events.disclosures import validation_of as validation_of
from fedkme.privacy.events.mechanisms import CHOICE_SLACK as CHOICE_SLACK
from fedkme.privacy.events.mechanisms import MWEM_ITERATION_COST as MWEM_ITERATION_COST
from fedkme.privacy.events.mechanisms import BoundedRange as BoundedRange
from fedkme.privacy.events.mechanisms import Clock as Clock
from fedkme.privacy.events.mechanisms import Composed as Composed
from fedkme.privacy.events.mechanisms import Event as Event
from fedkme.privacy.events.mechanisms import ExactStatistic as ExactStatistic
from fedkme.privacy.events.mechanisms import Gaussian as Gaussian
from fedkme.privacy.events.mechanisms import HashedRows as HashedRows
from fedkme.privacy.events.mechanisms import Laplace as Laplace
from fedkme.privacy.events.mechanisms import MwemCall as MwemCall
from fedkme.privacy.events.mechanisms import MwemRelation as MwemRelation
from fedkme.privacy.events.mechanisms import MwemSchedule as MwemSchedule
from fedkme.privacy.events.mechanisms import PrivAuction as PrivAuction
from fedkme.privacy.events.mechanisms import PureDp as PureDp
from fedkme.privacy.events.mechanisms import RawRows as RawRows
from fedkme.privacy.events.mechanisms import Relation as Relation
from fedkme.privacy.events.mechanisms import SealedRows as SealedRows
from fedkme.privacy.events.mechanisms import event_from_json as event_from_json
from fedkme.privacy.events.mechanisms import in_sequence as in_sequence
from fedkme.privacy.events.mechanisms import leaves as leaves
from fedkme.privacy.events.mechanisms import repeated as repeated
