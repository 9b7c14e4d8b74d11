"""DP-MERF: a released random-feature embedding of rows and labels, and a generator for it (Harder 2021).

A table is embedded as `fourier` (homogeneous: everything through one Gaussian kernel) or as `mixed`
(numbers through the kernel, categories as scaled one-hot codes through the public schema). With labels
the embedding has a column per class, (1/N) sum of phi(x_n) f(y_n)^T; one row moves one column, so the
matrix is one Gaussian query of diameter 2 and not C of them. A continuous label is one more numeric
column: the Gaussian kernel of (x, y) is the product of those of x and of y, so `fourier` without classes
is the joint embedding that the paper writes down. Images go in as pixels.

Class weights (for imbalance) are the class counts, released together with the embedding; see
curator.releases.joint for why Fourier features leave room for them at no cost. Training divides each
column by its weight, so that a rare class counts as much as a frequent one, and rows can be drawn in any
proportion.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from curator.releases.joint import JointPlan
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.maps import MapSpec
from fedkme.tables.schema import Schema

NAME = "DP-MERF (Harder 2021)"


@dataclass(frozen=True)
class MerfPlan(JointPlan):
    """Plan of DP-MERF: one embedding by the feature map of `spec`."""

    schema: Schema
    spec: FourierMapSpec | MixedSpec
    epsilon: float | None
    delta: float = 1e-5
    class_weights: bool = True

    @property
    @override
    def specs(self) -> tuple[MapSpec, ...]:
        return (self.spec,)
