"""Where UAL begins: a weighted distance that corrects BFS, as far as a few hundred authors can teach it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..network.scores import BFS, UAL
from .calibration import LabelledPairs
from .optimiser import Optimiser

# BFS also counts what two texts have in common against the average of its authors; of texts unlike
# all of those everything seems in common. UAL sees differences only, so BFS may move it by so much.
MAX_TRUST = 0.5
RIDGES = (0.001, 0.01, 0.1, 1.0)  # tried
LR = 0.03
STEPS_PER_LOOK = 10  # at the held-out pairs


class _Start(nn.Module):
    """p = p_BFS sigmoid(g (k tanh(s / k) + b + t)) + (1 - p_BFS) sigmoid(g (k tanh(s / k) + b - t)), where s is a
    weighted sum of the squared differences: exactly a UAL whose first hidden unit is tanh(s / k). Where it knows how
    scant and uneven the texts are, s has terms for that, and g = exp(slope scantness); else g = 1.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.trust, self.bias, self.log_k, self.slope = (nn.Parameter(torch.tensor(v)) for v in (0.4, 0.0, 1.5, 0.0))
        self.lengths = nn.Parameter(torch.zeros(2))
        self.level = nn.Parameter(torch.tensor(-0.03))  # the weight that all differences share
        self.own = nn.Parameter(torch.zeros(dim))  # what each has of its own

    def forward(self, data: _Data) -> Tensor:
        """-> p(same author) (P)"""
        k, trust, g = self.log_k.exp(), self.trust.clamp(0, MAX_TRUST), (self.slope * data.lengths[:, 0]).exp()
        s = k * torch.tanh((data.x @ (self.level + self.own) + data.lengths @ self.lengths) / k) + self.bias
        p = data.p_bfs * torch.sigmoid(g * (s + trust)) + (1 - data.p_bfs) * torch.sigmoid(g * (s - trust))
        return p.clamp(1e-6, 1 - 1e-6)

    @torch.no_grad()
    def put(self, ual: UAL, mean: Tensor, deviation: Tensor) -> None:
        """Into a UAL whose other hidden units keep their random weights, but say next to nothing yet."""
        k, trust, bias = self.log_k.exp(), self.trust.clamp(0, MAX_TRUST), self.bias
        weights = (self.level + self.own) / deviation / k
        first = torch.cat([weights, self.lengths / k]) if ual.slope is not None else weights
        ual.hidden.weight[0, :, 0], ual.hidden.bias[0, 0] = first, -(mean @ weights)
        if ual.slope is not None:
            ual.slope[0] = self.slope
        ual.logits.weight.mul_(0.01)
        # (j, i): towards "different" in the first row, "same" in the second
        ual.logits.weight[0, 0] = torch.stack([-k, -k, k, k]) / 2
        ual.logits.bias[0] = torch.stack([trust - bias, -trust - bias, bias - trust, bias + trust]) / 2


@dataclass(frozen=True)
class _Data:
    x: Tensor  # (P, L): squared differences, standardised
    lengths: Tensor  # (P, 2)
    p_bfs: Tensor  # (P)
    same: Tensor  # (P)


def fit_ual(ual: UAL, bfs: BFS, pairs: LabelledPairs, held_out: LabelledPairs, steps: int = 300) -> float:
    """Fit what matters most of UAL: how far to trust BFS, and one weighted distance that corrects it.

    A few hundred authors cannot teach all of UAL's weights, but these. The ridge towards equal weights, and when to
    stop, are chosen on held-out pairs; returns their cross-entropy.
    """
    with torch.no_grad():
        squares = pairs.pair.squares[0]
        mean, deviation = squares.mean(0), squares.std(0).clamp_min(1e-6)

        def data(labelled: LabelledPairs) -> _Data:
            x, lengths = (labelled.pair.squares[0] - mean) / deviation, labelled.pair.lengths
            lengths = torch.zeros(len(x), 2).to(x) if lengths is None or ual.slope is None else lengths
            return _Data(x, lengths, bfs(labelled.pair)[0], labelled.same[0])

        seen, unseen = data(pairs), data(held_out)
    best, chosen = math.inf, _Start(squares.shape[1]).to(squares.device)
    state = chosen.state_dict()
    for ridge in RIDGES:
        start = _Start(squares.shape[1]).to(squares.device)
        few = [start.trust, start.bias, start.log_k, start.slope, start.lengths]
        optimiser = Optimiser(few, slow=[start.level, start.own])  # one weight for every difference
        for step in range(1, steps + 1):
            loss = F.binary_cross_entropy(start(seen), seen.same) + ridge * start.own.square().sum()
            optimiser.step(loss, LR)
            if step % STEPS_PER_LOOK == 0:
                with torch.no_grad():
                    now = float(F.binary_cross_entropy(start(unseen), unseen.same))
                if now < best:
                    best, state = now, {name: value.clone() for name, value in start.state_dict().items()}
    chosen.load_state_dict(state)
    chosen.put(ual, mean, deviation)
    return best
