"""Accountants: figures for events, as published and as proven (DESIGN.md, decision 4).

A ledger holds events only. An accountant composes them when somebody reads a figure, at any delta. Rounds of
a run must not call this package: the first numerical figure imports dp-accounting, which is slow.
"""

from fedkme.privacy.accountants.bound import Accountant as Accountant
from fedkme.privacy.accountants.bound import Bound as Bound
from fedkme.privacy.accountants.matrix import TOGETHER as TOGETHER
from fedkme.privacy.accountants.matrix import Cells as Cells
from fedkme.privacy.accountants.matrix import MatrixCell as MatrixCell
from fedkme.privacy.accountants.matrix import by_owner as by_owner
from fedkme.privacy.accountants.matrix import cells_of as cells_of
from fedkme.privacy.accountants.matrix import composed as composed
from fedkme.privacy.accountants.matrix import is_consumer as is_consumer
from fedkme.privacy.accountants.matrix import matrix as matrix
from fedkme.privacy.accountants.matrix import paid as paid
from fedkme.privacy.accountants.matrix import with_coalition as with_coalition
from fedkme.privacy.accountants.published import Published as Published
from fedkme.privacy.accountants.sound import Sound as Sound
