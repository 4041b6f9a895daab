"""How often a text uses the commonest words and letter pairs: what the LDA part of an embedding reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..config import ModelConfig
from .vocabulary import UNKNOWN


def count_frequencies(
    words: np.ndarray, chars: np.ndarray, documents: Sequence[np.ndarray], config: ModelConfig
) -> np.ndarray:
    """Relative frequencies (documents, features) float32 of words, then of pairs of letters.

    `words` (types) and `chars` (types, chars_per_token) are ids; `documents` positions (n) of types. Words
    are the unknown one and the `lda_words` commonest; letters the `lda_chars` commonest, all
    others and the word's ends being one more.
    """
    word = np.where(words <= config.lda_words + UNKNOWN, words - UNKNOWN, -1)
    base = config.lda_chars + 1
    letters = np.where((chars > UNKNOWN) & (chars <= config.lda_chars + UNKNOWN), chars - UNKNOWN, 0)
    letters = np.pad(letters.astype(np.int32), ((0, 0), (1, 1)))
    pairs = letters[:, :-1] * base + letters[:, 1:]  # 0: neither letter is a common one, not counted
    out = np.zeros((len(documents), config.lda_features), dtype=np.float32)
    word_columns, pair_columns = out[:, : config.lda_words + 1], out[:, config.lda_words + 1 :]
    for number, positions in enumerate(documents):
        types, counts = np.unique(positions, return_counts=True)
        index = word[types]
        known = index >= 0
        word_columns[number] = np.bincount(index[known], counts[known], config.lda_words + 1) / len(positions)
        spelled = pairs[types]
        weights = np.broadcast_to(counts[:, None], spelled.shape)
        pair_counts = np.bincount(spelled.ravel(), weights.ravel(), base * base)
        pair_counts[0] = 0
        pair_columns[number] = pair_counts / max(1.0, pair_counts.sum())
    return out
