"""What a distance means: texts by strangers as the yardstick.

Two authors of one genre are nearer to each other than two of another, a short text is far from
everything, and texts of a kind that training had none of lie close together. So the distance of
two texts is measured in units of how far they lie from the nearest of a few hundred texts that
neither wrote (impostors, a cohort), and the scores are told how much text they judge by. The
paper has neither (`strangers` 0).

What they need of a document travels with its LEV, in columns behind it: tokens, then a unit for
each part of the LEV.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import ModelConfig
from .scores import LevPair

NEIGHBOURS = 10
LEAST_UNIT = 1e-4  # of the mean square of a difference; a text may be one of the strangers' own
TYPICAL_TOKENS = 1330  # of two texts with which scantness is 0
FEWEST_TOKENS = 300  # below, the logarithm would overstate what is missing


def nearness(y: Tensor, strangers: Tensor, parts: tuple[int, ...], usable: Tensor | None = None) -> Tensor:
    """Mean square, per number, of what tells documents (D, L) from the nearest strangers (K, L) -> (D, parts).

    `usable` (D, K) says which strangers count for which document.
    """
    units = []
    for mine, theirs in zip(y.split(parts, -1), strangers.to(y.dtype).split(parts, -1), strict=True):
        squares = mine.square().sum(-1)[:, None] + theirs.square().sum(-1) - 2 * mine @ theirs.T
        if usable is not None:
            squares = squares.masked_fill(~usable, torch.inf)
        nearest = squares.topk(min(NEIGHBOURS, len(strangers)), largest=False).values
        there = nearest.isfinite()
        mean = nearest.where(there, 0.0).sum(-1) / there.sum(-1)
        units.append((mean / mine.shape[-1]).clamp_min(LEAST_UNIT))
    return torch.stack(units, -1)


class Strangers(nn.Module):
    """The strangers' LEVs, each member's own. Put there by stage two, not by gradients."""

    def __init__(self, members: int, config: ModelConfig) -> None:
        super().__init__()
        self.parts = config.lev_parts
        self.levs = nn.Parameter(torch.zeros(members, config.strangers, config.lev_dim), requires_grad=False)

    def behind(self, m: int, y: Tensor, tokens: Tensor, usable: Tensor | None = None) -> Tensor:
        """One member: LEVs (D, L) of documents of so many tokens (D) -> the columns behind them (D, 1 + parts)."""
        units = nearness(y, self.levs[m], self.parts, usable)
        return torch.cat([tokens.to(y.dtype)[:, None], units], -1)

    def pair(self, first: Tensor, second: Tensor) -> LevPair:
        """LEVs with those columns, (M, P, L + 1 + parts) each."""
        width = sum(self.parts)
        bare1, bare2 = first[..., :width], second[..., :width]
        scales = []
        for n, size in enumerate(self.parts, width + 1):
            unit = (first[..., n] + second[..., n]) / 2
            scales.append(unit.rsqrt()[..., None].expand(*unit.shape, size))
        scale = torch.cat(scales, -1)
        n1, n2 = (document[..., width].clamp_min(FEWEST_TOKENS) for document in (first, second))
        scantness, unevenness = (TYPICAL_TOKENS / 2 * (1 / n1 + 1 / n2)).log(), (n1.log() - n2.log()).abs()
        return LevPair(bare1, bare2, bare1 * scale, bare2 * scale, torch.stack([scantness, unevenness], -1))
