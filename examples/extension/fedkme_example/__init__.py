"""Rows of the protocols that this package brings: what an owner agrees to by their names.

An owner's host reads these rows and imports nothing else of an auction or a release method.
"""

from fedkme.protocols import auction_protocol, release_protocol

BEST_TWO = auction_protocol(
    "best-two",
    "Algorithm 3, the two best bidders are asked",
    settings="fedkme_example.best_two:BestTwoSettings",
)
NORMAL = release_protocol(
    "normal",
    "rows of independent normal columns",
    settings="fedkme_example.settings:NormalSettings",
    method="fedkme_example.normal:NormalRows",
)
