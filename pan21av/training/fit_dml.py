"""DML fitted outright: its two numbers."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from ..network.scores import DML
from .calibration import LabelledPairs
from .optimiser import Optimiser

LR = 0.02


def fit_dml(dml: DML, pairs: LabelledPairs, steps: int = 300) -> None:
    """Fit p = exp(-gamma d^alpha) to pairs by its cross-entropy, from a half at the median distance on."""
    with torch.no_grad():
        median = pairs.pair.distance.median()
        dml.log_gamma.copy_((math.log(2) / median ** dml.log_alpha.exp()).log())
    optimiser = Optimiser(dml.parameters())
    for _ in range(steps):
        optimiser.step(F.binary_cross_entropy(dml(pairs.pair).clamp(1e-6, 1 - 1e-6), pairs.same), LR)
