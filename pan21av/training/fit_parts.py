"""How much each part of the LEV counts beside the others."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .optimiser import Optimiser

LR, STEPS = 0.05, 200


def fit_part_scale(distances: Tensor, same: Tensor) -> Tensor:
    """Squared distances (P, parts), truth (P) -> factors (parts) for vectors, under which the distance of all parts
    together tells most: a logistic regression with weights that are not negative."""
    spread = distances.std(0).clamp_min(1e-9)
    x, centre = distances / spread, (distances / spread).mean(0)
    weights, bias = nn.Parameter(torch.ones(x.shape[1])), nn.Parameter(torch.zeros(()))
    optimiser = Optimiser([weights, bias])
    for _ in range(STEPS):
        logit = bias - (x - centre) @ weights.clamp_min(0.01)
        optimiser.step(F.binary_cross_entropy_with_logits(logit, same), LR)
    return (weights.detach().clamp_min(0.01) / spread).sqrt()
