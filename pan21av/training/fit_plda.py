"""Where BFS begins: PLDA, given by the moments of embeddings of authors that the encoder has never seen.

Gradients on all weights from a random start end far below.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..network.scores import BFS
from .calibration import LabelledPairs
from .discriminant import Scatter, discriminants, group_means

SPREAD = 0.4  # standard deviation of the projections: where tanh is nearly linear
SHRINKS = (0.1, 0.3, 0.6, 0.9, 1.0)  # tried: how much depends on the number of authors and of dimensions
SCALES = np.linspace(0.05, 1, 20).tolist()  # tried: of the share of the variance that is between authors
LARGEST = 6e4  # that half precision holds, nearly
SOURCE_WEIGHT = 10.0  # of what sources differ in


class Sample(NamedTuple):
    """LEVs of known authors and sources."""

    levs: Tensor  # (N, L)
    author: np.ndarray  # (N)
    source: np.ndarray  # (N)


@torch.no_grad()
def fit_plda(bfs: BFS, everyone: Sample, folds: Sequence[tuple[Sample, LabelledPairs]]) -> list[BFS]:
    """Fit BFS to everyone. How far to shrink and to scale is chosen on the folds: pairs, and all LEVs by other authors.
    Returns what was learnt from these, in the same way, for each fold. A corpus may be too small to leave any, or to
    choose by: then it is everyone's LEVs, and a plain distance."""
    losses = np.zeros((len(SHRINKS), len(SCALES)))
    losses[:-1] += 1e-9
    tried: list[list[tuple[BFS, _Spread]]] = []
    for others, pairs in folds:
        tried.append([])
        for row, shrink in enumerate(SHRINKS):
            one = copy.deepcopy(bfs)
            spread = _project(one, others if len(others.levs) else everyone, shrink)
            tried[-1].append((one, spread))
            for at, scale in enumerate(SCALES if len(pairs.pair) else []):
                _settle(one, spread, scale)
                losses[row, at] += float(F.binary_cross_entropy_with_logits(one.log_ratio(pairs.pair), pairs.same))
    n, k = (int(best) for best in np.unravel_index(losses.argmin(), losses.shape))
    for of_fold in tried:
        _settle(*of_fold[n], SCALES[k])
    _settle(bfs, _project(bfs, everyone, SHRINKS[n]), SCALES[k])
    return [of_fold[n][0] for of_fold in tried]


class _Spread(NamedTuple):
    """Of projections."""

    variance: np.ndarray  # (D)
    share: np.ndarray  # (D): of it, that is between authors


def _project(bfs: BFS, sample: Sample, shrink: float) -> _Spread:
    """Project LEVs on the directions that tell authors of one source apart best.

    `shrink` draws both covariances towards multiples of the identity: at 1 the score is a plain distance.
    """
    levs, author, source = sample
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
    # In half precision, as it will be shipped. Of few authors some directions have next to no variance.
    bfs.projection.weight[0] = torch.from_numpy(projection.clip(-LARGEST, LARGEST)).half().float()
    bfs.projection.bias[0] = -torch.from_numpy(mean @ projection).float()
    bfs.mean.zero_()
    z = np.tanh((y - mean) @ projection)
    authors, own = group_means(z, author)
    sources, home = group_means(z, source)
    noise_variance = np.square(z - authors[own]).sum(0) / max(1, len(z) - len(authors))
    variance = np.square(z - sources[home]).mean(0)
    share = np.clip((variance - noise_variance) / variance, 0.01, 0.99)
    return _Spread(variance, (1 - shrink) * share + shrink * share.mean())


def _settle(bfs: BFS, spread: _Spread, scale: float) -> None:
    """Scale the between-author share: with the variance kept, a temperature that leaves the score an exact likelihood
    ratio."""
    between = scale * spread.share
    bfs.within[0] = torch.diag(torch.from_numpy(-0.5 * np.log((1 - between) * spread.variance)).float())
    bfs.between[0] = torch.diag(torch.from_numpy(-0.5 * np.log(between * spread.variance)).float())
