"""Classical stylometry beside the encoder: how often a text uses the commonest words and letter pairs.

The paper's network reads style from scratch, which takes more texts and time than most people
have. Frequencies of function words and letter pairs need neither: projected on the directions that
tell authors apart (and topics not), they are level with a network trained for half an hour. So a
member may have them as a second source of its LEV; the paper's has not (`style_dim` 0).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from .config import ModelConfig
from .vocabulary import UNKNOWN

PRIOR_TOKENS = 200  # a text counts as if that many tokens of average usage came with it
CLIP = 4.0  # standard deviations


def frequencies(
    words: np.ndarray, chars: np.ndarray, documents: Sequence[np.ndarray], config: ModelConfig
) -> np.ndarray:
    """Relative frequencies (documents, features) float32 of words, then of pairs of letters.

    `words` (types) and `chars` (types, letters) are ids; `documents` positions (n) of types. Words
    are the unknown one and the `style_words` commonest; letters the `style_chars` commonest, all
    others and the word's ends being one more.
    """
    word = np.where(words <= config.style_words + UNKNOWN, words - UNKNOWN, -1)
    base = config.style_chars + 1
    letters = np.where((chars > UNKNOWN) & (chars <= config.style_chars + UNKNOWN), chars - UNKNOWN, 0)
    letters = np.pad(letters.astype(np.int32), ((0, 0), (1, 1)))
    pairs = letters[:, :-1] * base + letters[:, 1:]  # 0: neither letter is a common one, not counted
    out = np.zeros((len(documents), config.style_features), dtype=np.float32)
    for row, positions in zip(out, documents, strict=True):
        types, counts = np.unique(positions, return_counts=True)
        index = word[types]
        known = index >= 0
        row[: config.style_words + 1] = np.bincount(index[known], counts[known], config.style_words + 1) / len(
            positions
        )
        spelled = pairs[types]
        weights = np.broadcast_to(counts[:, None], spelled.shape)
        pair_counts = np.bincount(spelled.ravel(), weights.ravel(), base * base)
        pair_counts[0] = 0
        row[config.style_words + 1 :] = pair_counts / max(1.0, pair_counts.sum())
    return out


def standardise(usage: Tensor, tokens: Tensor, usual: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """Frequencies (..., D, F) of texts of `tokens` (D) -> z-scores of their square roots; short texts stay near 0."""
    weight = (tokens / (tokens + PRIOR_TOKENS))[:, None]
    return ((weight * usage + (1 - weight) * usual).clamp_min(0).sqrt() - mean).mul(scale).clamp(-CLIP, CLIP)


class Style(nn.Module):
    """Frequencies to the second part of the LEV, before its tanh. Set by `learn`, not by gradients."""

    def __init__(self, members: int, config: ModelConfig) -> None:
        super().__init__()
        features = config.style_features

        def fixed(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(members, *shape), requires_grad=False)

        self.usual, self.mean, self.scale = fixed(features), fixed(features), fixed(features)
        self.weight = fixed(features, config.style_dim)

    def forward(self, usage: Tensor, tokens: Tensor) -> Tensor:
        """(D, F), (D) -> (M, D, S)"""
        return torch.stack([self.member(m, usage, tokens) for m in range(len(self.weight))])

    def member(self, m: int, usage: Tensor, tokens: Tensor) -> Tensor:
        """(D, F), (D) -> (D, S)"""
        z = standardise(usage, tokens, self.usual[m], self.mean[m], self.scale[m])
        return z @ self.weight[m].to(z.dtype)
