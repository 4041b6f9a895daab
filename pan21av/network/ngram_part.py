"""The parts of the LEV that come from n-grams: classical stylometry beside the encoder.

The paper's network reads style from scratch, which takes more texts and time than most people have. Frequencies of
n-grams (data/ngrams.py) need neither: projected on the directions that tell authors apart (and topics and kinds of
text not), they tell more than an encoder of some minutes. Those of layout, how a text is typed (data/layout.py), make a
second part of the same kind: transcripts and print have the layout of somebody else, so how much it counts is learnt
apart. The paper has no such parts (`ngram_dim` and `layout_dim` 0).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from .kinds import Kinds

PRIOR_TOKENS = 200  # a text counts as if that many tokens of average usage came with it
DOCUMENTS = 64  # at a time: what is computed of them stays in a cache
MAX_DEVIATIONS = 4.0  # z-scores are clipped there


def standardise(frequencies: Tensor, tokens: Tensor, background: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """Frequencies (..., D, F) of texts of `tokens` (D) -> z-scores of their square roots; short texts stay near 0."""
    weight = (tokens / (tokens + PRIOR_TOKENS))[:, None]
    z = (weight * frequencies).add_((1 - weight) * background)  # the rest in place: it is as large as all weights
    return z.clamp_min_(0).sqrt_().sub_(mean).mul_(scale).clamp_(-MAX_DEVIATIONS, MAX_DEVIATIONS)


class NgramPart(nn.Module):
    """Frequencies of a pool to a vector. Set by training/fit_ngrams.py, not by gradients."""

    def __init__(self, n_members: int, config: ModelConfig) -> None:
        super().__init__()
        features = config.ngram_features

        def fixed(*shape: int, dtype: torch.dtype = torch.float32) -> nn.Parameter:
            return nn.Parameter(torch.zeros(n_members, *shape, dtype=dtype), requires_grad=False)

        self.index = fixed(features, dtype=torch.int32)  # which n-grams of the pool a member reads
        # Frequencies that are usual, and where their square roots lie.
        self.background, self.mean, self.scale = fixed(features), fixed(features), fixed(features)
        self.weight = fixed(features, config.ngram_dim)
        self.kinds = Kinds(n_members, config) if config.kinds else None

    def forward(self, frequencies: Tensor, tokens: Tensor) -> Tensor:
        """(D, pool), (D) -> (M, D, ngram_dim), in the precision of `tokens`; where kinds are known, one number more:
        how strange the kind of text is."""
        weight = self.weight.to(tokens.dtype)
        projected = []
        for each in zip(frequencies.split(DOCUMENTS), tokens.split(DOCUMENTS), strict=True):
            z = self.z_scores(*each)
            projected.append(z @ weight)
            if self.kinds is not None:
                projected[-1] = torch.cat([projected[-1], self.kinds(z)[..., None]], -1)
        return torch.cat(projected, 1)

    def z_scores(self, frequencies: Tensor, tokens: Tensor) -> Tensor:
        """(D, pool), (D) -> (M, D, F)"""
        mine = torch.stack([frequencies[:, index.long()] for index in self.index])
        mine = mine.to(torch.promote_types(mine.dtype, tokens.dtype))
        background, mean, scale = (p[:, None] for p in (self.background, self.mean, self.scale))
        return standardise(mine, tokens, background, mean, scale)
