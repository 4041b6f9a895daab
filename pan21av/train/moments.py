"""Where the scores begin: what a few hundred authors that the encoder has never seen can teach.

DML is fitted outright (two numbers), BFS is given by the moments of the LEVs, UAL begins as a
weighted distance that corrects it. Gradients on all weights from a random start end far below.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..scores import BFS, DML, UAL, LevPair

SPREAD = 0.4  # standard deviation of the projections: where tanh is nearly linear
SHRINKS = (0.1, 0.3, 0.6, 0.9, 1.0)  # tried: how much depends on the number of authors and of dimensions
Pairs = tuple[LevPair, Tensor]  # and labels (1, P)
NUISANCE = 10.0  # weight of what sources differ in: a pair always shares it, so it must not count


def _group_means(y: Tensor, group: np.ndarray) -> tuple[Tensor, Tensor]:
    """Means (groups, L), and the mean of its group for every row (N, L)."""
    index = torch.from_numpy(np.unique(group, return_inverse=True)[1])
    counts = torch.bincount(index).to(y)
    means = torch.zeros(len(counts), y.shape[1], dtype=y.dtype).index_add_(0, index, y) / counts[:, None]
    return means, means[index]


@torch.no_grad()
def start_bfs(bfs: BFS, levs: Tensor, author: np.ndarray, source: np.ndarray, shrink: float) -> tuple[Tensor, Tensor]:
    """Project LEVs (N, L) on the directions that tell authors of one source apart best.

    `shrink` draws both covariances towards multiples of the identity: at 1 the score is a plain distance.
    Returns the variance of the projections (D) and the share of it that is between authors (D).
    """
    y = levs.double().cpu()
    _, own = _group_means(y, author)
    source_means, of_source = _group_means(y, source)
    freedom = max(1, len(y) - len(np.unique(author)))
    within = (y - own).T @ (y - own) / freedom
    total = (y - of_source).T @ (y - of_source) / len(y)
    mean = source_means.mean(0)
    nuisance = (source_means - mean).T @ (source_means - mean) / len(source_means)
    identity = torch.eye(y.shape[1], dtype=y.dtype)

    def shrunk(covariance: Tensor) -> Tensor:
        return (1 - shrink) * covariance + shrink * covariance.diagonal().mean() * identity

    noise = shrunk(within) + NUISANCE * nuisance
    whiten = torch.linalg.inv(torch.linalg.cholesky(noise + 1e-9 * identity))
    _, vectors = torch.linalg.eigh(whiten @ shrunk(total - within) @ whiten.T)
    projection = whiten.T @ vectors[:, -bfs.mean.shape[-1] :]
    scale = (projection.T @ (total + nuisance) @ projection).diagonal().clamp_min(1e-12).sqrt()
    projection = projection * (SPREAD / scale)
    bfs.projection.weight[0] = projection.float()
    bfs.projection.bias[0] = -(mean @ projection).float()
    bfs.mean.zero_()
    z = torch.tanh((y - mean) @ projection)
    noise_variance = (z - _group_means(z, author)[1]).square().sum(0) / freedom
    variance = (z - _group_means(z, source)[1]).square().mean(0)
    share = ((variance - noise_variance) / variance).clamp(0.01, 0.99)
    return variance.float(), ((1 - shrink) * share + shrink * share.mean()).float()


@torch.no_grad()
def settle_bfs(bfs: BFS, variance: Tensor, share: Tensor, pairs: Pairs) -> float:
    """Scale the between-author share so that the posterior fits pairs best; returns its cross-entropy.

    With the variance kept, this is a temperature that leaves the score an exact likelihood ratio.
    """
    pair, same = pairs

    def put(scale: float) -> float:
        between = scale * share
        bfs.within[0] = torch.diag(-0.5 * ((1 - between) * variance).log())
        bfs.between[0] = torch.diag(-0.5 * (between * variance).log())
        return float(F.binary_cross_entropy_with_logits(bfs(pair.bare1, pair.bare2), same))

    loss, best = min((put(scale), scale) for scale in np.linspace(0.05, 1, 39).tolist())
    put(best)
    return loss


def start_dml(dml: DML, pairs: Pairs, steps: int = 300) -> None:
    """Fit p = exp(-gamma d^alpha) to pairs by its cross-entropy, from a half at the median distance on."""
    pair, same = pairs
    with torch.no_grad():
        median = pair.distance.median()
        dml.log_gamma.copy_((math.log(2) / median ** dml.log_alpha.exp()).log())
    optimizer = torch.optim.Adam(dml.parameters(), lr=0.02)
    for _ in range(steps):
        loss = F.binary_cross_entropy(dml(pair.y1, pair.y2).clamp(1e-6, 1 - 1e-6), same)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


# BFS also counts what two texts have in common against the average of its authors; of texts unlike
# all of those everything seems in common. UAL sees differences only, so BFS may move it by so much.
MOST_TRUST = 0.5
RIDGES = (0.001, 0.01, 0.1, 1.0)  # tried


def start_ual(ual: UAL, bfs: BFS, pairs: Pairs, held_out: Pairs, steps: int = 300) -> float:
    """Fit what matters most of UAL: how far to trust BFS, and one weighted distance that corrects it.

    p = p_BFS sigmoid(g (k tanh(s / k) + b + t)) + (1 - p_BFS) sigmoid(g (k tanh(s / k) + b - t)), where s is a
    weighted sum of the squared differences: exactly a UAL whose first hidden unit is tanh(s / k). Where it
    knows how scant and uneven the texts are, s has terms for that, and g = exp(slope scantness); else g = 1.
    A few hundred authors cannot teach all of UAL's weights, but these. The ridge towards equal
    weights, and when to stop, are chosen on held-out pairs; returns their cross-entropy.
    """
    with torch.no_grad():
        features = [pair.squares[0] for pair, _ in (pairs, held_out)]
        mean, deviation = features[0].mean(0), features[0].std(0).clamp_min(1e-6)
        (x, x_held), (p, p_held), (lengths, lengths_held) = (
            [(f - mean) / deviation for f in features],
            [torch.sigmoid(bfs(pair.bare1, pair.bare2))[0] for pair, _ in (pairs, held_out)],
            [torch.zeros(len(f), 2).to(f) if pair.lengths is None else pair.lengths[0]
             for f, (pair, _) in zip(features, (pairs, held_out), strict=True)],
        )  # fmt: skip
    same, same_held = pairs[1][0], held_out[1][0]
    best, chosen = math.inf, None
    for ridge in RIDGES:
        trust, bias, log_k, slope = (torch.tensor(v, device=x.device, requires_grad=True) for v in (0.4, 0.0, 1.5, 0.0))
        amounts = torch.zeros(2, device=x.device, requires_grad=True)
        level = torch.tensor(-0.03, device=x.device, requires_grad=True)
        own = torch.zeros(x.shape[1], device=x.device, requires_grad=True)
        optimizer = torch.optim.Adam(
            [{"params": [trust, bias, log_k, slope, amounts], "lr": 0.03}, {"params": [level, own], "lr": 0.003}]
        )
        values = (trust, bias, log_k, slope, amounts, level, own)

        def posterior(
            x: Tensor, p: Tensor, lengths: Tensor, trust: Tensor, bias: Tensor, log_k: Tensor, slope: Tensor,
            amounts: Tensor, level: Tensor, own: Tensor,
        ) -> Tensor:  # fmt: skip
            k, trust, g = log_k.exp(), trust.clamp(0, MOST_TRUST), (slope * lengths[:, 0]).exp()
            s = k * torch.tanh((x @ (level + own) + lengths @ amounts) / k) + bias
            p_same = p * torch.sigmoid(g * (s + trust)) + (1 - p) * torch.sigmoid(g * (s - trust))
            return p_same.clamp(1e-6, 1 - 1e-6)

        for step in range(steps):
            loss = F.binary_cross_entropy(posterior(x, p, lengths, *values), same) + ridge * own.square().sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step % 10 == 9:
                with torch.no_grad():
                    now = float(F.binary_cross_entropy(posterior(x_held, p_held, lengths_held, *values), same_held))
                if now < best:
                    best, chosen = now, [value.detach().clone() for value in values]
    assert chosen is not None
    _put_ual(ual, mean, deviation, *chosen)
    return best


@torch.no_grad()
def _put_ual(
    ual: UAL, mean: Tensor, deviation: Tensor, trust: Tensor, bias: Tensor, log_k: Tensor, slope: Tensor,
    amounts: Tensor, level: Tensor, own: Tensor,
) -> None:  # fmt: skip
    """The other hidden units keep their random weights, but say next to nothing yet."""
    k, trust = log_k.exp(), trust.clamp(0, MOST_TRUST)
    weights = (level + own) / deviation / k
    ual.hidden.weight[0, : len(weights), 0], ual.hidden.bias[0, 0] = weights, -(mean @ weights)
    if ual.slope is not None:
        ual.hidden.weight[0, len(weights) :, 0], ual.slope[0] = amounts / k, slope
    ual.logits.weight.mul_(0.01)
    half = torch.stack([-k, -k, k, k]) / 2  # (j, i): towards "different" in the first row, "same" in the second
    ual.logits.weight[0, 0] = half
    ual.logits.bias[0] = torch.stack([trust - bias, -trust - bias, bias - trust, bias + trust]) / 2
