"""The region's process: a curator's, and beside it a stream to the curator above."""

from __future__ import annotations

import contextlib

from curator.party import CuratorParty
from curator.runs.context import RunContext
from curator.server import serve as serve_owners
from fedkme.ops.supervision import StatusReporter
from fedkme.store import open_store
from fedkme.wire.absence import curator_calls
from fedkme.wire.dial import own_identity
from owner.agent import parts_of
from owner.agent import serve as serve_above
from region.below import Below
from region.party import open_region
from region.settings import RegionSettings


async def serve(settings: RegionSettings, reporter: StatusReporter) -> None:
    """Serve owners, and the curator above, until told to stop or that one says farewell.

    Raises:
        FedkmeError: as a curator, or as an owner.
    """
    above = settings.above

    async def attend(party: CuratorParty, context: RunContext) -> None:
        address = await reporter.hear() if above.curator == "-" else above.curator
        above.check_address(address)
        own = own_identity(above.identity, reporter)
        with contextlib.closing(open_store(above.journal, above.name, above.durability)) as store:
            below = Below(
                name=above.name,
                above=address,
                members=context.members,
                schema=context.schema,
                store=context.store,
                ledger=context.ledger,
                heads=party.heads,
                quorum=settings.quorum,
                connect_s=settings.connect_s,
                most_sums=above.policy.most_sums,
                left=context.left,
            )
            region = open_region(
                below, store, above.noise_for(above.name), above.policy, **parts_of(above, own)
            )
            calls = curator_calls(above, address, own, reporter)
            await serve_above(above.name, calls, region.open(address), store, reporter)

    await serve_owners(settings, reporter, attend)
