"""Is a text one that an ensemble can know anything of? Long enough, in its language, made of words.

The limits are learnt in training (training/limits.py) and stored with the ensemble, so that one trained on German
guards German. An ensemble without limits, such as the authors' imported weights, turns nothing away.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from .tokeniser import Tokens
from .vocabulary import FIRST, UNKNOWN, Vocabulary

COMMON_WORDS = 100  # the commonest of a vocabulary: in any prose of its language every other word or so
MARGIN = 1.0  # standard errors that a share must be beyond its limit: short texts vary


@dataclass(frozen=True)
class Shares:
    """Of a text's tokens."""

    tokens: int
    words: float  # begin with a letter; the others are numbers, signs, mark-up
    common: float  # of the words, among the commonest of the vocabulary
    unknown: float  # of the words, not in the vocabulary
    foreign: float  # of the letters, not in the vocabulary

    @classmethod
    def of(cls, tokens: Tokens, vocabulary: Vocabulary) -> Shares:
        counts = np.bincount(tokens.ids, minlength=len(tokens.types)).astype(np.float64)
        is_word = np.array([token[0].isalpha() for token in tokens.types])
        ids = np.array([vocabulary.word_id(token) for token in tokens.types])
        words = counts * is_word
        letters = np.array([len(t) if t.isalpha() else sum(map(str.isalpha, t)) for t in tokens.types])
        # Most texts have none, and to look at every letter of every type takes longer than to tokenise them.
        unknown = {c for c in set("".join(tokens.types)) if c.isalpha() and not vocabulary.knows_char(c)}
        strange = np.array([sum(c in unknown for c in token) if unknown else 0 for token in tokens.types])
        n_words, n_letters = max(1.0, words.sum()), max(1.0, float(counts @ letters))
        common = (ids >= FIRST) & (ids < FIRST + COMMON_WORDS)
        return cls(
            len(tokens.ids),
            float(words.sum() / max(1, len(tokens.ids))),
            float(words @ common / n_words),
            float(words @ (ids == UNKNOWN) / n_words),
            float(counts @ strange / n_letters),
        )


@dataclass(frozen=True)
class Limits:
    """What a text must keep to."""

    min_tokens: int
    min_words: float
    min_common: float
    max_unknown: float
    max_foreign: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Limits:
        names = {field.name for field in fields(cls)}
        if set(values) != names or not all(isinstance(v, (int, float)) for v in values.values()):
            raise ValueError(f"limits of a text must be numbers: {', '.join(sorted(names))}")
        return cls(**values)

    def too_short(self, tokens: int) -> tuple[str, str] | None:
        """`fault` as far as the number of tokens goes."""
        if tokens >= self.min_tokens:
            return None
        count = "1 token" if tokens == 1 else f"{tokens} tokens"
        return "too short", f"too short: {count}, of at least {self.min_tokens} that are needed"

    def fault(self, shares: Shares) -> tuple[str, str] | None:
        """Why no decision is possible on such a text, (kind, words); None if it is."""
        if short := self.too_short(shares.tokens):
            return short
        words = max(1, round(shares.words * shares.tokens))
        # Before the share of words: in a script without spaces a token is half a sentence, and every other one a mark.
        if self._below(-shares.foreign, -self.max_foreign, words):
            return "language", f"another script: {shares.foreign:.0%} of its letters are unknown to this ensemble"
        if self._below(shares.words, self.min_words, shares.tokens):
            return (
                "no words",
                f"hardly any words: {shares.words:.0%} of its tokens; the rest is numbers, signs, mark-up",
            )
        if self._below(shares.common, self.min_common, words):
            return "language", f"another language: {shares.common:.0%} of its words are among the commonest of training"
        if self._below(-shares.unknown, -self.max_unknown, words):
            return "language", f"another language: {shares.unknown:.0%} of its words are unknown to this ensemble"
        return None

    @staticmethod
    def _below(share: float, limit: float, count: int) -> bool:
        """Beyond what chance could do to so many tokens at the limit."""
        error = math.sqrt(max(abs(limit) * (1 - abs(limit)), 1e-4) / max(1, count))
        return share < limit - MARGIN * error
