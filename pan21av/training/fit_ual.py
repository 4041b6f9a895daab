"""Where UAL begins: a logistic regression on the evidence, which corrects BFS."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..network.scores import UAL, Told
from .calibration import LabelledPairs
from .optimiser import Optimiser

MAX_TRUST = 4.0  # by how much BFS may move the logit
RIDGE = 1e-5
KIND_RIDGE = 1e-3
SURE = 4.0
LR = 0.03


class _Start(nn.Module):
    """p = p_BFS sigmoid(s + t) + (1 - p_BFS) sigmoid(s - t), where s is a weighted sum of the evidence: exactly a UAL
    whose hidden layer says nothing yet."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.trust, self.bias = nn.Parameter(torch.tensor(0.4)), nn.Parameter(torch.tensor(0.0))
        self.weights = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor, p_bfs: Tensor) -> Tensor:
        """Evidence (P, E), p_BFS (P) -> p(same author) (P)"""
        s, trust = x @ self.weights + self.bias, self.trust.clamp(0, MAX_TRUST)
        p = p_bfs * torch.sigmoid(s + trust) + (1 - p_bfs) * torch.sigmoid(s - trust)
        return p.clamp(1e-6, 1 - 1e-6)

    @torch.no_grad()
    def put(self, ual: UAL) -> None:
        assert ual.direct is not None
        trust = self.trust.clamp(0, MAX_TRUST)
        ual.direct.weight[0, :, 0], ual.direct.bias[0, 0] = self.weights, self.bias
        ual.logits.weight.mul_(0.01)
        # (j, i): towards "different" in the first row, "same" in the second
        ual.logits.bias[0] = torch.stack([trust, -trust, -trust, trust]) / 2


@torch.no_grad()
def fit_told(told: Told, pairs: LabelledPairs) -> None:
    """How evidence is standardised."""
    evidence = told.read(pairs.pair)
    told.mean.copy_(evidence.mean(1))
    deviation = evidence.std(1)  # what never varied has nothing to say when it does
    told.scale.copy_(torch.where(deviation > 1e-6, 1 / deviation.clamp_min(1e-6), 0.0))


def fit_kind(ual: UAL, pairs: LabelledPairs, steps: int = 200) -> None:
    """Which kinds of text the member knows: a logistic regression on the evidence. Where it knows all, it says so."""
    assert ual.told is not None
    assert ual.kind is not None
    with torch.no_grad():
        ual.kind.weight.zero_()
        ual.kind.bias.fill_(SURE)
        x, known = ual.told(pairs.pair)[0, :, -ual.kind.weight.shape[1] :], pairs.known.float()
    if known.min() == known.max():
        return
    weights, bias = nn.Parameter(torch.zeros_like(x[0])), nn.Parameter(x.new_zeros(()))
    optimiser = Optimiser([weights, bias])
    for _ in range(steps):
        loss = F.binary_cross_entropy_with_logits(x @ weights + bias, known)
        optimiser.step(loss + KIND_RIDGE * weights.square().sum(), LR)
    with torch.no_grad():
        ual.kind.weight[0, :, 0], ual.kind.bias[0, 0] = weights, bias


def fit_ual(ual: UAL, pairs: LabelledPairs, p_bfs: Tensor, steps: int = 600) -> None:
    """Fit what matters most of UAL: how far to trust BFS, which says p_bfs (1, P), and what the evidence says. BFS must
    not know the authors of the pairs."""
    assert ual.told is not None
    fit_told(ual.told, pairs)
    fit_kind(ual, pairs)
    with torch.no_grad():
        x = ual.told(pairs.pair)[0]
    start = _Start(x.shape[1]).to(x.device)
    optimiser = Optimiser(start.parameters())
    for _ in range(steps):
        loss = F.binary_cross_entropy(start(x, p_bfs[0]), pairs.same[0])
        optimiser.step(loss + RIDGE * start.weights.square().sum(), LR)
    start.put(ual)
