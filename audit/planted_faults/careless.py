"""Faults of a tired colleague: a line for debugging, a cache, a factor of two, a lost group."""

from __future__ import annotations

import logging
import math
import os
import random
import tempfile
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import prometheus_client

import consumer.gate
import consumer.summary.offers
import consumer.summary.party
import curator.payouts.gains
import curator.releases.joint
import curator.runs.release_run
import curator.sums.owner_sums
import fedkme.cells.disclosures
import fedkme.cells.histogram
import fedkme.privacy.accountants.matrix
import fedkme.privacy.gaussian
import fedkme.privacy.noise
import fedkme.secagg.owner
import owner.cells.responder
import owner.keyring
import owner.sums.responder
from audit.planted_faults.planting import Patch, Plant, PlantedFault, around, everywhere
from curator.releases.marginals.budget import BudgetFilter
from fedkme.cells.directions import histogram_of
from fedkme.cells.histogram import HistogramNoise
from fedkme.cells.plan import OwnerNoise
from fedkme.embeddings.kernels import median_gamma
from fedkme.features.fourier import RandomFourier
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import Clock as ClockEvent
from fedkme.privacy.events import MwemCall, PureDp
from fedkme.privacy.means import GaussianMean
from fedkme.privacy.presets import PrivacyTarget
from fedkme.releases.settings import ReleaseSettings
from fedkme.sealed.rows import HashedRow
from fedkme.tables.schema import Schema
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from owner.handler import RunHandler
from owner.keyring import Sealer
from owner.summary.bidder import Bidder

_CELLS = ("cells", "any policy")
_SEALED = ("cells-sealed", "any policy")
_CLOCK = ("clock", "any policy")
_PICKS = ("cells", "a sketch, of which D_v picks")
_GROUP = "a group of three"


def _exact(cells: Any, size: int) -> Any:
    return np.bincount(cells, minlength=size)


def _weighed(cells: Any, size: int) -> int:
    """A number that changes with any row's cell."""
    return int(_exact(cells, size) @ np.arange(size) ** 2)


def _before(place: Any, name: str, act: Any) -> Plant:
    """Call `act` with a function's arguments before the function."""

    def change(before: Any, *arguments: Any, **named: Any) -> Any:
        act(*arguments, **named)
        return before(*arguments, **named)

    return around(place, name, change)


# Logs, prints, figures and files.


def _debug(logger: str, text: str) -> Any:
    return lambda cells, size, *rest: logging.getLogger(logger).debug(text, _exact(cells, size).tolist())


def _to_file(cells: Any, size: int, *rest: Any) -> None:
    path = Path(tempfile.gettempdir()) / "fedkme-counts.json"
    path.write_text(str(_exact(cells, size).tolist()))
    path.unlink()


def _to_kept_file(cells: Any, size: int, *rest: Any) -> None:
    (Path(tempfile.gettempdir()) / "fedkme-cells.bin").write_bytes(bytes(_weighed(cells, size)))


def _dated(cells: Any, size: int, *rest: Any) -> None:
    path = Path(tempfile.gettempdir()) / "fedkme-cells.date"
    path.touch()
    os.utime(path, (1e9, 1e9 + _weighed(cells, size)))


def _gauge(patch: Patch) -> None:
    gauge = prometheus_client.Gauge("fedkme_cell_rows", "", registry=None)
    prometheus_client.REGISTRY.register(gauge)

    def count(before: Any, cells: Any, size: int, *rest: Any) -> Any:
        gauge.inc(_weighed(cells, size))
        return before(cells, size, *rest)

    around(owner.cells.responder, "noisy_counts", count)(patch)
    patch.setattr(prometheus_client, "_planted", _Unregister(gauge), raising=False)


class _Unregister:
    """Removes a gauge from the registry when the patch is undone."""

    def __init__(self, gauge: Any) -> None:
        self._gauge = gauge

    def __del__(self) -> None:
        prometheus_client.REGISTRY.unregister(self._gauge)


def _slow_for_some(before: Any, self: Any, *order: Any) -> Any:
    time.sleep(1e-6 * int((self._table.values[:, 0] > 50.0).sum()))
    return before(self, *order)


def _own_pace(before: Any, self: Any, *order: Any) -> Any:
    rows = before(self, *order)
    self.answer_s *= 1.0 + float((self._table.values[:, 0] > 50.0).mean())
    return rows


def _extra_in_the_log(before: Any, self: Any, number: int) -> Any:
    logging.getLogger("owner.cells").debug("histogram", extra={"rows": self._table.values[1].tolist()})
    return before(self, number)


def _caught(before: Any, self: Any, number: int) -> Any:
    try:
        raise ValueError(f"row {self._table.values[1].tolist()}")
    except ValueError:
        logging.getLogger(owner.cells.responder.__name__).debug("not counted yet", exc_info=True)
    return before(self, number)


def _facts_of_validation(patch: Patch) -> None:
    """Let the curator record its summary's quality by D_v's mean without noise."""
    exact: list[float] = []

    def target(before: Any, settings: Any, h1: Any, rows: Any, *more: Any) -> Any:
        exact[:] = [float(np.mean(rows))]
        return before(settings, h1, rows, *more)

    from sim.engines.inprocess import KeptRecords

    def keep(before: Any, self: Any, run: str, record: Any, facts: Any) -> Any:
        return before(self, run, record, {**facts, "quality": exact[-1] if exact else 0.0})

    around(consumer.summary.offers, "release_target", target)(patch)
    around(KeptRecords, "keep_summary", keep)(patch)


# Noise.


def _uniform_noise(before: Any, self: Any, noise: Any, size: int) -> Any:
    return np.rint((noise.uniform(size) - 0.5) * 2.0 * self.scale).astype(np.int64)


def _own_generator(before: Any, self: Any, noise: Any, size: int) -> Any:
    return np.rint(np.random.default_rng(7).laplace(0.0, self.scale, size)).astype(np.int64)


def _library_noise(before: Any, self: Any, noise: Any, size: int) -> Any:
    draws = [random.gauss(0.0, self.scale) for _ in range(size)]
    return np.rint(draws).astype(np.int64)


def _cached_noise(patch: Patch) -> None:
    drawn: dict[tuple[float, int], Any] = {}

    def draw(before: Any, self: Any, noise: Any, size: int) -> Any:
        if (self.scale, size) not in drawn:
            drawn[self.scale, size] = np.array(before(self, noise, size))
        return drawn[self.scale, size]

    around(HistogramNoise, "draw", draw)(patch)


def _clipped_noise(before: Any, self: Any, noise: Any, size: int) -> Any:
    return np.clip(before(self, noise, size), -1, 1)


def _root_for_deviation(patch: Patch) -> None:
    def init(before: Any, self: Any, *arguments: Any, **named: Any) -> None:
        before(self, *arguments, **named)
        self._scale = math.sqrt(self._scale)

    around(GaussianMean, "__init__", init)(patch)


def _noise_taken_back(before: Any, pooled: Any, features: Any, layout: Any, sigma: float, noise: Any) -> Any:
    class Both:
        def gaussian(self, scale: float, size: int) -> Any:
            drawn = noise.gaussian(scale, size)
            return drawn - np.asarray(drawn)

        def __getattr__(self, name: str) -> Any:
            return getattr(noise, name)

    return before(pooled, features, layout, sigma, Both())


def _noise_in_one_class(before: Any, pooled: Any, sigma: float, noise: Any) -> Any:
    counts = before(pooled, sigma, noise)
    counts[0] = pooled.count[0]
    return counts


def _one_stream(patch: Patch) -> None:
    """Seed a source once and give it to every party, for every purpose."""
    shared = np.random.default_rng(1)

    def draw(before: Any, self: Any, noise: Any, size: int) -> Any:
        return shared.laplace(0.0, self.scale, size).round().astype(np.int64)

    around(HistogramNoise, "draw", draw)(patch)


# Sensitivity, epsilon, delta, groups.


def _wrong_delta(before: Any, epsilon: float, delta: float, *rest: Any) -> Any:
    return before(epsilon, 1e-2, *rest)


def _twice_epsilon(before: Any, epsilon: float, delta: float, *rest: Any) -> Any:
    return before(2.0 * epsilon, delta, *rest)


def _of_length_one(before: Any, epsilon: float) -> Any:
    return HistogramNoise(1.0 / epsilon)


def _spread_over_root(before: Any, epsilon: float, delta: float, rows: int) -> float:
    return epsilon / math.sqrt(rows)


def _halved_line(before: Any, *arguments: Any) -> Any:
    return [
        replace(line, event=replace(line.event, epsilon=line.event.epsilon / 2.0))
        for line in before(*arguments)
    ]


def _first_pick_alone(before: Any, *arguments: Any) -> Any:
    return before(*arguments)[:2]


def _unclipped(before: Any, menu: Any, book: Any, rows: Any) -> Any:
    z = np.asarray(rows, np.float64).sum(axis=1, keepdims=True)
    return before(menu, book, rows) + np.abs(z.sum())


def _bounds_of_the_data(before: Any, self: Any, values: Any) -> Any:
    low, high = values.min(axis=0), values.max(axis=0)
    moved = (values - low) / np.maximum(high - low, 1e-9) * np.maximum(np.abs(high), 1.0)
    return before(self, np.where(np.arange(values.shape[1]) < 1, np.clip(moved, 0.0, 100.0), values))


def _without_clip(before: Any, self: Any, rows: Any) -> Any:
    return 2.0 * before(self, rows)


def _one_clock(before: Any, self: Any) -> Any:
    return (PureDp(self.epsilon),)


def _half_iterations(before: Any, self: Any) -> Any:
    selection, value = before(self)
    return replace(selection, epsilon=selection.epsilon / 2.0), value


def _largest_event(before: Any, self: Any, events: Any, delta: float) -> Any:
    return min(
        (before(self, (event,), delta) for event in events),
        key=lambda figure: figure.epsilon,
        default=before(self, events, delta),
    )


def _without_selection(before: Any, self: Any, errors: Any, constants: Any, *rest: Any) -> Any:
    return before(self, 4.0 * errors, 4.0 * constants, *rest)


# Retries, caches, ledgers.


def _again_redrawn(before: Any, self: Any, directive: Any) -> Any:
    if directive.question == "histogram" and self._answer is not None:
        self._responder._counted = False
        from fedkme.directives import NoisyHistogram

        return NoisyHistogram(self._responder.histogram(directive.round))
    return before(self, directive)


def _cached_answers(patch: Patch) -> None:
    """Cache answers by owner and question, without the run."""
    answers: dict[tuple[str, str], Any] = {}

    def histogram(before: Any, self: Any, number: int) -> Any:
        if (self.name, "histogram") not in answers:
            answers[self.name, "histogram"] = before(self, number)
        self._counted = True
        return answers[self.name, "histogram"]

    around(HistogramResponder, "histogram", histogram)(patch)


def _unmasked(before: Any, words: Any, plus: Any, minus: Any) -> None:
    return None


def _same_masks(patch: Patch) -> None:
    def mask(before: Any, words: Any, plus: Any, minus: Any) -> Any:
        return before(words, [bytes(32) for _ in plus], [bytes(32) for _ in minus][:0])

    around(fedkme.secagg.owner, "add_keystreams", mask)(patch)


def _open_boxes(before: Any, self: Any, rows: Any, *features: Any) -> Any:
    opened = []
    for row, sealed in zip(rows, before(self, rows, *features), strict=True):
        plain = np.asarray(row.values, np.float64).tobytes()
        box = plain.ljust(len(sealed.box), b"\0")[: len(sealed.box)]
        opened.append(HashedRow(sealed.token, sealed.features, box))
    return opened


def _gamma_of_rows(before: Any, kernel: Any, schema: Any, validation: Any) -> Any:
    return median_gamma(schema.encode(validation.values))


def _silent_rows(before: Any, self: Any, run: str, number: int, tokens: Any, *rest: Any, **more: Any) -> Any:
    return before(self, run, number, list(tokens)[:-1], *rest, **more)


FAULTS: Mapping[str, PlantedFault] = {
    "exact counts of an owner in a line for debugging": PlantedFault(
        _CELLS,
        _before(owner.cells.responder, "noisy_counts", _debug("owner.cells", "counts %s")),
        says="left in the debug line by which the counts were checked",
    ),
    "exact counts of D_v in a line for debugging": PlantedFault(
        _CELLS,
        _before(consumer.summary.offers, "noisy_counts", _debug("consumer", "D_v by cells %s")),
        says="logged D_v's exact histogram at debug level beside the noisy one",
    ),
    "exact counts that the root logger gets": PlantedFault(
        _CELLS,
        _before(
            owner.cells.responder,
            "noisy_counts",
            lambda cells, size, *rest: logging.debug("counts %s", _exact(cells, size)),
        ),
        says="called logging.debug, which no list of our loggers has",
    ),
    "rows attached to a line of the log": PlantedFault(
        _CELLS,
        around(HistogramResponder, "histogram", _extra_in_the_log),
        says="put the row into `extra`, for the JSON form of the log",
    ),
    "a row in an exception that is logged": PlantedFault(
        _CELLS,
        around(HistogramResponder, "histogram", _caught),
        says="logged an exception with its text, and the text has the row",
    ),
    "a bid that is printed": PlantedFault(
        _CLOCK,
        _before(Bidder, "quote", lambda self, *arguments: print("all", self._table.values.sum())),
        says="forgot a print",
    ),
    "a row in a warning": PlantedFault(
        _CELLS,
        _before(
            HistogramResponder,
            "histogram",
            lambda self, number: warnings.warn(f"row {self._table.values[1]}", ImportWarning, stacklevel=2),
        ),
        says="warned of an odd row and showed it",
    ),
    "exact counts in a file of the temporary folder": PlantedFault(
        _CELLS,
        _before(owner.cells.responder, "noisy_counts", _to_kept_file),
        says="left a file beside the store that is as long as a count",
    ),
    "exact counts in a file that is removed again": PlantedFault(
        ("cells", "no labels"),
        _before(
            HistogramResponder,
            "histogram",
            lambda self, number: _to_file(np.asarray(self._table.values[:, 0] > 50, np.int64), 2),
        ),
        says="cached the counts in a file and removed it",
    ),
    "a count as the time of a file": PlantedFault(
        _CELLS,
        _before(owner.cells.responder, "noisy_counts", _dated),
        says="kept a number where nobody looks, in a file's time",
    ),
    "a gauge of the rows in a cell": PlantedFault(
        _CELLS, _gauge, says="exported an exact count for a dashboard, in the process' own registry"
    ),
    "an owner that sleeps for each row of a kind": PlantedFault(
        _SEALED,
        around(HistogramResponder, "fill_order", _slow_for_some),
        says="slept to be gentle on the disk, by the rows that were found",
    ),
    "a schedule of answers that follows from rows": PlantedFault(
        _SEALED,
        around(HistogramResponder, "fill_order", _own_pace),
        says="took the time of an answer from the rows that match",
    ),
    "the mean of D_v in record.json": PlantedFault(
        _CLOCK, _facts_of_validation, says="wrote an evaluation on D_v itself into the run's record"
    ),
    "uniform noise for Laplace": PlantedFault(
        _CELLS,
        around(HistogramNoise, "draw", _uniform_noise),
        says="drew from the wrong law, with the right variance in mind",
        attack="cells-histogram",
        test="tests/fedkme/cells/test_histogram.py::test_noisy_counts_are_counts_with_noise_and_shares_a_distribution",
    ),
    "a generator with a seed in the code": PlantedFault(
        _CELLS,
        around(HistogramNoise, "draw", _own_generator),
        says="took numpy's generator with a constant for a quick test, and it stayed",
        attack="cells-histogram",
    ),
    "Gaussian noise of the standard library for Laplace": PlantedFault(
        _CELLS,
        around(HistogramNoise, "draw", _library_noise),
        says="took random.gauss, which is no secure source and another law",
        attack="cells-histogram",
    ),
    "one generator that all owners share": PlantedFault(
        _CELLS,
        _one_stream,
        says="seeded a generator once at import, shared by owners and forks",
        attack="cells-histogram",
    ),
    "noise that is cached by its scale": PlantedFault(
        _CELLS, _cached_noise, says="put functools.cache over the draw of noise", attack="cells-histogram"
    ),
    "noise that is cut": PlantedFault(
        _CELLS,
        around(HistogramNoise, "draw", _clipped_noise),
        says="cut noise to a small range so that counts look nice",
        attack="cells-histogram",
    ),
    "the root of the deviation for the deviation": PlantedFault(
        _CLOCK,
        _root_for_deviation,
        says="gave the deviation to a function of the variance",
        attack="gaussian",
    ),
    "noise that both sides add and take away": PlantedFault(
        ("balog1", "any policy"),
        around(curator.releases.joint, "release_embedding", _noise_taken_back),
        says="took the noise out again where the total was made",
        attack="pooled-sums",
    ),
    "one class counted exactly": PlantedFault(
        ("merf", "any policy"),
        around(curator.releases.joint, "release_counts", _noise_in_one_class),
        ("corner", "last of a class", "tie", "decider"),
        says="left the first class as it was, as an index was off by one",
    ),
    "another delta than the settings'": PlantedFault(
        ("moments", _GROUP),
        everywhere(fedkme.privacy.gaussian.gaussian_sigma, _wrong_delta),
        says="wrote a constant delta where the parameter should stand",
    ),
    "delta of the sketch ignored": PlantedFault(
        ("cells", "cells of a sketch"),
        everywhere(fedkme.privacy.gaussian.gaussian_sigma, _wrong_delta),
        says="left delta out of the sketch's calibration",
    ),
    "twice the epsilon in a calibration": PlantedFault(
        ("balog1", "any policy"),
        everywhere(fedkme.privacy.gaussian.gaussian_sigma, _twice_epsilon),
        says="calibrated for add-remove what is promised for replace-one",
    ),
    "counts charged for one cell in place of two": PlantedFault(
        _CELLS,
        everywhere(fedkme.cells.histogram.histogram_noise, _of_length_one),
        says="charged k epsilon where a replaced row moves 2 k counts",
        test="tests/fedkme/cells/test_histogram.py::test_the_loss_is_a_pair_of_randomised_responses",
    ),
    "an owner's noise that forgets the group": PlantedFault(
        ("cells", _GROUP),
        around(OwnerNoise, "for_group", lambda before, self, rows: self),
        says="forgot that epsilon is for a person's rows together",
    ),
    "a release that forgets the group": PlantedFault(
        ("balog1", _GROUP),
        lambda patch: patch.setattr(ReleaseSettings, "of_row", property(lambda self: self.epsilon)),
        says="took epsilon for a row where it is for a group",
    ),
    "a release that forgets that persons have rows": PlantedFault(
        ("merf", "persons of two rows"),
        lambda patch: patch.setattr(ReleaseSettings, "of_row", property(lambda self: self.epsilon)),
        says="counted persons by rows",
    ),
    "D_v's counts that forget the group": PlantedFault(
        ("cells", _GROUP),
        lambda patch: patch.setattr(PrivacyTarget, "of_row", property(lambda self: self.epsilon)),
        says="took the consumer's epsilon for a row",
    ),
    "a group that costs its square root": PlantedFault(
        ("clock", _GROUP),
        everywhere(fedkme.privacy.gaussian.row_epsilon, _spread_over_root),
        says="composed a group's rows as if they were independent draws",
    ),
    "lines of half the epsilon": PlantedFault(
        _CELLS,
        everywhere(fedkme.cells.disclosures.histogram_disclosures, _halved_line),
        says="wrote the epsilon of one count into the line of two",
    ),
    "no line of a second pick": PlantedFault(
        _PICKS,
        everywhere(fedkme.cells.disclosures.pick_disclosures, _first_pick_alone),
        says="wrote a line for the first pick alone",
    ),
    "picks that the histogram does not pay for": PlantedFault(
        _PICKS,
        everywhere(
            histogram_of, lambda before, menu, epsilon: fedkme.cells.histogram.histogram_noise(epsilon)
        ),
        says="gave the histogram all of epsilon, and picks cost beside it",
        attack="cells-picks",
    ),
    "scores that are cut after their noise": PlantedFault(
        _PICKS, around(consumer.summary.offers, "scores", _unclipped), says="cut the sum instead of its terms"
    ),
    "bounds of columns taken from the rows": PlantedFault(
        None,
        around(Schema, "encode", _bounds_of_the_data),
        says="scaled a column by its least and largest value here",
        attack="encoding",
    ),
    "features that are longer than their bound": PlantedFault(
        _CLOCK,
        around(RandomFourier, "fixed_point", _without_clip),
        ("corner", "decider", "winner"),
        says="left out the division by the norm",
        attack="h1-paired",
    ),
    "clocks charged for one stop": PlantedFault(
        _CLOCK,
        around(ClockEvent, "pieces", _one_clock),
        says="charged e for a replaced row, which is in two stops",
    ),
    "selections of h2 charged by half": PlantedFault(
        ("clock", "means by h2"),
        around(MwemCall, "pieces", _half_iterations),
        says="took the published cost of a selection",
    ),
    "an accountant that forgets composition": PlantedFault(
        None,
        around(Sound, "epsilon", _largest_event),
        says="took the least of the events where all add up",
        test="tests/fedkme/privacy/accountants/test_matrix.py::test_the_matrix_composes_what_each_observer_saw",
    ),
    "AIM's selections at four times their price": PlantedFault(
        ("marginals", "any policy"),
        around(BudgetFilter, "select", _without_selection),
        says="forgot that a replaced row moves a score in both directions",
    ),
    "a retry that draws again": PlantedFault(
        _CELLS,
        around(RunHandler, "again", _again_redrawn),
        says="computed the answer again when the stream came back",
    ),
    "answers kept by question and not by run": PlantedFault(
        ("cells", "asked for twice"), _cached_answers, says="keyed the cache of answers without the run"
    ),
    "an aggregation without masks": PlantedFault(
        ("balog1", "noise of owners"),
        around(fedkme.secagg.owner, "add_keystreams", _unmasked),
        says="switched masks off for a test of sizes",
    ),
    "masks of a constant key": PlantedFault(
        ("balog1", "noise of owners"), _same_masks, says="used a mask twice, as its key was a constant"
    ),
    "boxes that are not closed": PlantedFault(
        _SEALED, around(Sealer, "seal", _open_boxes), says="left the bytes of the row in the box as they are"
    ),
    "gamma of D_v where the domain's is asked for": PlantedFault(
        _CLOCK,
        around(consumer.summary.offers, "gamma_of", _gamma_of_rows),
        ("corner", "decider"),
        says="took the median of D_v, which fits better, without a line",
    ),
    "the last row without a line": PlantedFault(
        _CLOCK, around(OwnerGate, "pass_rows", _silent_rows), says="sliced one row too few for the ledger"
    ),
    "payouts with half of their noise": PlantedFault(
        None,
        lambda patch: patch.setattr(
            curator.payouts.gains.WinRelease,
            "scale",
            property(lambda self: 0.5 * curator.payouts.gains.WIN_SENSITIVITY / self.epsilon),
        ),
        says="took the sensitivity of one owner where two owners' payouts change",
        attack="payout-wins",
    ),
    "gains that are not clipped": PlantedFault(
        None,
        around(
            curator.payouts.gains,
            "_units",
            lambda before, gains, clip: round(curator.payouts.gains.UNITS * sum(gains) / clip),
        ),
        says="clipped after the noise",
        attack="payout-gains",
    ),
}
