"""How strange a kind of text is to a member: how far its n-grams are from those of the kinds that it was made of.

What tells authors apart must not depend on the kind of text, so the n-gram part is blind to it. But how near two
authors of one kind usually lie does depend on it, and nobody knows that of a kind he has never read. So the same
z-scores are also projected on the directions in which the known kinds differ most, and the distance to the nearest of
them is told to the scores (network/evidence.py). The paper has no such thing (`kinds` 0).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..config import ModelConfig


class Kinds(nn.Module):
    """Set by training/fit_kinds.py, not by gradients."""

    def __init__(self, n_members: int, config: ModelConfig) -> None:
        super().__init__()

        def fixed(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(n_members, *shape), requires_grad=False)

        directions = max(1, config.kinds - 1)
        self.weight = fixed(config.ngram_features, directions)
        self.centres = fixed(config.kinds, directions)  # where texts of each kind lie

    def forward(self, z: Tensor) -> Tensor:
        """z-scores of n-grams (M, D, F) -> distance to the nearest kind, in deviations of texts of one kind (M, D)"""
        there, centres = z @ self.weight.to(z.dtype), self.centres.to(z.dtype)
        squares = (there[:, :, None] - centres[:, None]).square().sum(-1)
        return squares.amin(-1).sqrt()
