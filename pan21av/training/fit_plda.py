"""Where BFS begins: PLDA, given by the moments of embeddings of authors that the encoder has never seen.

Gradients on all weights from a random start end far below.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..network.scores import BFS
from .calibration import LabelledPairs
from .discriminant import Scatter, discriminants, group_means

SPREAD = 0.4  # standard deviation of the projections: where tanh is nearly linear
SHRINKS = (0.1, 0.3, 0.6, 0.9, 1.0)  # tried: how much depends on the number of authors and of dimensions
SOURCE_WEIGHT = 10.0  # of what sources differ in


def fit_plda(bfs: BFS, levs: Tensor, author: np.ndarray, source: np.ndarray, held_out: LabelledPairs) -> None:
    """Fit BFS to LEVs (N, L) of known authors and sources; how far to shrink is chosen on held-out pairs."""

    def fit(shrink: float) -> float:
        variance, share = _project(bfs, levs, author, source, shrink)
        return _settle(bfs, variance, share, held_out)

    fit(min(SHRINKS, key=fit))


@torch.no_grad()
def _project(
    bfs: BFS, levs: Tensor, author: np.ndarray, source: np.ndarray, shrink: float
) -> tuple[np.ndarray, np.ndarray]:
    """Project LEVs on the directions that tell authors of one source apart best.

    `shrink` draws both covariances towards multiples of the identity: at 1 the score is a plain distance.
    Returns the variance of the projections (D) and the share of it that is between authors (D).
    """
    y = levs.double().cpu().numpy()
    scatter = Scatter.of(y, author, source)
    identity = np.eye(y.shape[1])

    def shrunk(covariance: np.ndarray) -> np.ndarray:
        return np.asarray((1 - shrink) * covariance + shrink * covariance.diagonal().mean() * identity)

    noise = shrunk(scatter.within) + SOURCE_WEIGHT * scatter.between_sources + 1e-9 * identity
    projection, _ = discriminants(noise, shrunk(scatter.total - scatter.within), bfs.mean.shape[-1])
    scale = np.sqrt(
        np.maximum((projection.T @ (scatter.total + scatter.between_sources) @ projection).diagonal(), 1e-12)
    )
    projection = projection * (SPREAD / scale)
    mean = scatter.source_means.mean(0)
    bfs.projection.weight[0] = torch.from_numpy(projection).float()
    bfs.projection.bias[0] = -torch.from_numpy(mean @ projection).float()
    bfs.mean.zero_()
    z = np.tanh((y - mean) @ projection)
    authors, own = group_means(z, author)
    sources, home = group_means(z, source)
    noise_variance = np.square(z - authors[own]).sum(0) / max(1, len(z) - len(authors))
    variance = np.square(z - sources[home]).mean(0)
    share = np.clip((variance - noise_variance) / variance, 0.01, 0.99)
    return variance, (1 - shrink) * share + shrink * share.mean()


@torch.no_grad()
def _settle(bfs: BFS, variance: np.ndarray, share: np.ndarray, pairs: LabelledPairs) -> float:
    """Scale the between-author share so that the posterior fits pairs best; returns its cross-entropy.

    With the variance kept, this is a temperature that leaves the score an exact likelihood ratio.
    """

    def put(scale: float) -> float:
        between = scale * share
        bfs.within[0] = torch.diag(torch.from_numpy(-0.5 * np.log((1 - between) * variance)).float())
        bfs.between[0] = torch.diag(torch.from_numpy(-0.5 * np.log(between * variance)).float())
        return float(F.binary_cross_entropy_with_logits(bfs.log_ratio(pairs.pair), pairs.same))

    loss, best = min((put(scale), scale) for scale in np.linspace(0.05, 1, 39).tolist())
    put(best)
    return loss
