"""A cohort: texts by other people, against which distances are measured (network/evidence.py).

It is adaptive score normalisation, as speaker verification has it: how far a document is from the nearest of a few
hundred texts that neither person wrote, and from all of them. The impostors method of authorship verification has the
same idea. The paper has none (`cohort` 0).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..config import ModelConfig

TOP_K = 10
MIN_DEVIATION = 1e-3


def cohort_measures(y: Tensor, cohort: Tensor, usable: Tensor | None = None) -> Tensor:
    """How documents (M, D, L) lie to a cohort (M, K, L), by squared distances: mean of the nearest, mean and standard
    deviation of all -> (M, D, 3). `usable` (D, K) says who of the cohort counts for which document."""
    squares = _squares(y, cohort)
    if usable is None:
        return _measures_of_all(squares)
    nearest = squares.masked_fill(~usable, torch.inf).topk(min(TOP_K, cohort.shape[1]), largest=False).values
    there = nearest.isfinite()
    near = nearest.where(there, 0.0).sum(-1) / there.sum(-1).clamp_min(1)
    count = usable.sum(-1).clamp_min(1)
    mean = squares.where(usable, 0.0).sum(-1) / count
    spread = ((squares - mean[..., None]).square().where(usable, 0.0).sum(-1) / count).sqrt()
    return torch.stack([near, mean, spread.clamp_min(MIN_DEVIATION)], -1)


def nearest_tenth(y: Tensor, texts: Tensor) -> Tensor:
    """Mean squared distance of documents (M, D, L) to the tenth of the texts (M, K, L) that is nearest -> (M, D)"""
    squares = _squares(y, texts)
    return squares.topk(max(1, texts.shape[1] // 10), largest=False).values.mean(-1)


def _squares(y: Tensor, texts: Tensor) -> Tensor:
    """Squared distances of documents (M, D, L) to texts (M, K, L) -> (M, D, K)"""
    return y.square().sum(-1)[..., None] + texts.square().sum(-1)[:, None] - 2 * y @ texts.mT


def _measures_of_all(squares: Tensor) -> Tensor:
    """The same where everybody counts: (M, D, K) -> (M, D, 3)"""
    size = squares.shape[-1]
    near = squares.topk(min(TOP_K, size), largest=False).values.mean(-1)
    mean = squares.sum(-1) / size
    spread = (squares - mean[..., None]).square_().sum(-1).div_(size).sqrt_()
    return torch.stack([near, mean, spread.clamp_min(MIN_DEVIATION)], -1)


class Cohort(nn.Module):
    """What the parts of the LEV of each cohort text were before they were made comparable, each member's own. Put
    there by stage two, not by gradients."""

    def __init__(self, n_members: int, config: ModelConfig) -> None:
        super().__init__()
        self.texts = nn.Parameter(torch.zeros(n_members, config.cohort, config.lev_dim), requires_grad=False)
