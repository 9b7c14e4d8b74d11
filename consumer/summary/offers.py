"""Offers of D_v that a consumer makes once it knows the run's plan: g~, a histogram, or its rows."""

from __future__ import annotations

import numpy as np

from consumer.gate import ConsumerGate
from consumer.settings import RequestSettings
from fedkme.cells.codebook import code_book_from_json
from fedkme.cells.histogram import histogram_noise, noisy_counts
from fedkme.cells.noise import on_integers
from fedkme.errors import ConfigError
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.party import NoiseFor
from fedkme.privacy.settings import release_target
from fedkme.sealed.secret_fourier import SecretFourier
from fedkme.tables.row import Row
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.v1 import summaries_pb2 as pb


def make_offer(
    request: RequestSettings,
    plan: pb.Plan,
    features: FourierSpec | SecretFourier,
    schema: Schema,
    validation: Table,
    noise_for: NoiseFor,
    gate: ConsumerGate,
) -> list[pb.ConsumerMessage]:
    """g~, or D_v by cells, or D_v, and what is declared about it."""
    run = plan.run
    if request.share == "rows":
        if isinstance(features, SecretFourier):
            raise ConfigError(
                "the curator chooses by hashes that it cannot make, so that D_v is of no use to it",
                "Set 'share' to \"embedding\", or ask a curator that sees rows.",
            )
        gate.pass_rows(run, len(validation))
        outgoing = [pb.ConsumerMessage(validation=part) for part in codecs.rows_to_wire(_rows(validation))]
    elif plan.HasField("cells"):
        book = code_book_from_json(codecs.code_book_from_wire(plan.cells), schema)
        how = histogram_noise(request.privacy.epsilon)
        cells = book.cells_of(schema.encode(validation.values))
        counts = noisy_counts(cells, book.cells, how, on_integers(noise_for("histogram")))
        gate.pass_histogram(run, how.event)
        outgoing = [pb.ConsumerMessage(histogram=codecs.histogram_to_wire(counts))]
    else:
        h1 = features if isinstance(features, SecretFourier) else RandomFourier(features)
        encoded, noise = schema.encode(validation.values), noise_for("target")
        target, cost = release_target(request.target, h1, encoded, noise)
        gate.pass_target(run, target, cost)
        outgoing = [pb.ConsumerMessage(target=codecs.mean_to_wire(target))]
    outgoing[0].disclosures.extend(event.canonical().decode("ascii") for event in gate.declared)
    return outgoing


def _rows(table: Table) -> list[Row]:
    return [Row(index, values.astype(np.float64), None) for index, values in enumerate(table.values)]
