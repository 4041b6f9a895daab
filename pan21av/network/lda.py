"""Linear discriminant analysis of frequencies: classical stylometry beside the encoder.

The paper's network reads style from scratch, which takes more texts and time than most people
have. Frequencies of function words and letter pairs need neither: projected on the directions that
tell authors apart (and topics not), they are level with a network trained for half an hour. So a
member may have them as a second part of its LEV; the paper's has not (`lda_dim` 0).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..config import ModelConfig

PRIOR_TOKENS = 200  # a text counts as if that many tokens of average usage came with it
MAX_DEVIATIONS = 4.0  # z-scores are clipped there


def standardise(frequencies: Tensor, tokens: Tensor, background: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """Frequencies (..., D, F) of texts of `tokens` (D) -> z-scores of their square roots; short texts stay near 0."""
    weight = (tokens / (tokens + PRIOR_TOKENS))[:, None]
    smoothed = weight * frequencies + (1 - weight) * background
    return (smoothed.clamp_min(0).sqrt() - mean).mul(scale).clamp(-MAX_DEVIATIONS, MAX_DEVIATIONS)


class LDA(nn.Module):
    """Frequencies to the second part of the LEV, before its tanh. Set by training/fit_lda.py, not by gradients."""

    def __init__(self, n_members: int, config: ModelConfig) -> None:
        super().__init__()
        features = config.lda_features

        def fixed(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(n_members, *shape), requires_grad=False)

        # Frequencies that are usual, and where their square roots lie.
        self.background, self.mean, self.scale = fixed(features), fixed(features), fixed(features)
        self.weight = fixed(features, config.lda_dim)

    def forward(self, frequencies: Tensor, tokens: Tensor) -> Tensor:
        """(D, F), (D) -> (M, D, lda_dim)"""
        background, mean, scale = (p[:, None] for p in (self.background, self.mean, self.scale))
        z = standardise(frequencies, tokens, background, mean, scale)
        return z @ self.weight.to(z.dtype)
