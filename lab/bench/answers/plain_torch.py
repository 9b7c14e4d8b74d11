"""The plain training step of `releases` in torch: the same loss, network, sizes and schedule.

Its numbers are drawn from the same distributions, but are its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from curator.releases.generators import Training

Layers = Sequence[Mapping[str, Any]]


def torch_in(start: Layers, omega: NDArray[Any], goal: NDArray[Any], training: Training) -> float:
    """Train from initial layers; CPU seconds of a step of the second half."""
    layers = [
        {name: torch.tensor(np.asarray(x)).requires_grad_() for name, x in each.items()} for each in start
    ]
    optimiser = torch.optim.Adam([x for layer in layers for x in layer.values()], training.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimiser, training.steps, 0.01 * training.learning_rate
    )
    half, options = training.steps // 2, {"dtype": torch.float32}
    missed = partial(error, layers, torch.tensor(omega, **options), torch.tensor(goal, **options))
    shape = (training.batch // 2, len(layers[0]["w"]) - 1)
    for number in range(training.steps):
        if number == half:
            began = time.process_time()
        optimiser.zero_grad()
        torch.dot(missed(torch.randn(shape)), missed(torch.randn(shape))).backward()
        optimiser.step()
        schedule.step()
    return (time.process_time() - began) / half


def error(layers: Layers, omega: Any, goal: Any, code: Any) -> Any:
    """Error of the mean features of generated rows."""
    x = torch.cat([code, torch.ones((len(code), 1))], dim=1)
    for layer in layers[:-1]:
        x = torch.nn.functional.layer_norm(x @ layer["w"], layer["g"].shape, layer["g"], layer["b"], 1e-5)
        x = torch.relu(x)
    line = 0.5 + 0.25 * (x @ layers[-1]["w"] + layers[-1]["b"])
    points = line.clip(0.0, 1.0) + 0.05 * (line - line.detach())
    angles = points @ omega
    features = torch.cat([angles.cos(), angles.sin()], dim=1) * omega.shape[1] ** -0.5
    return goal - features.mean(dim=0)
