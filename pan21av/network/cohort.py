"""Cohort normalisation: what a distance means, measured against texts by other people.

Two authors of one genre are nearer to each other than two of another, a short text is far from
everything, and texts of a kind that training had none of lie close together. So the distance of
two texts is divided by how far they lie from the nearest of a few hundred texts that neither
wrote (embedding.py). It follows adaptive score normalisation of speaker verification, which takes
the top of a cohort as well, but divides by a mean and subtracts nothing: not "s-norm". The
impostors method of authorship verification has the same idea. The paper has none (`cohort` 0).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..config import ModelConfig

TOP_K = 10
MIN_DISTANCE = 1e-4  # mean square of a difference; a text may be one of the cohort's own


def cohort_distance(y: Tensor, cohort: Tensor, parts: tuple[int, ...], usable: Tensor | None = None) -> Tensor:
    """Mean square, per number, of what tells documents (M, D, L) from the nearest of a cohort (M, K, L): (M, D, parts).

    Each part of the vectors has its own distance. `usable` (D, K) says who of the cohort counts for which document.
    """
    distances = []
    for mine, theirs in zip(y.split(parts, -1), cohort.to(y.dtype).split(parts, -1), strict=True):
        squares = mine.square().sum(-1)[..., None] + theirs.square().sum(-1)[:, None] - 2 * mine @ theirs.mT
        if usable is not None:
            squares = squares.masked_fill(~usable, torch.inf)
        nearest = squares.topk(min(TOP_K, cohort.shape[1]), largest=False).values
        there = nearest.isfinite()
        mean = nearest.where(there, 0.0).sum(-1) / there.sum(-1)
        distances.append((mean / mine.shape[-1]).clamp_min(MIN_DISTANCE))
    return torch.stack(distances, -1)


class Cohort(nn.Module):
    """The cohort's LEVs, each member's own. Put there by stage two, not by gradients."""

    def __init__(self, n_members: int, config: ModelConfig) -> None:
        super().__init__()
        self.parts = config.lev_parts
        self.levs = nn.Parameter(torch.zeros(n_members, config.cohort, config.lev_dim), requires_grad=False)

    def forward(self, y: Tensor, usable: Tensor | None = None) -> Tensor:
        """LEVs (M, D, L) -> their cohort distances (M, D, parts)"""
        return cohort_distance(y, self.levs, self.parts, usable)
