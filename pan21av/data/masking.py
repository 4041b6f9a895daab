"""A text without what it is about: how much a verdict rests on topic shows when content words are exchanged.

Words that any text has (the anchors of the n-grams, and the commonest of the vocabulary), contractions and signs stay.
Every other word gives way to one drawn at random from the vocabulary's words of its class: the same case, size and
ending, common words more often. So skeletons and the lengths of sentences are what they were, while which words it had,
with their letters, is as in no text in particular. A blank in their place would not do: two texts full of blanks are
alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .characters import ALPHA, DIGIT, kind
from .ngrams import word_class
from .vocabulary import Vocabulary

KEPT_WORDS = 300  # the commonest: pronouns, auxiliaries and the like


class Masking:
    """Exchanges content words by those of a vocabulary, which lists the commonest first."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        anchors = vocabulary.ngrams.anchors if vocabulary.ngrams is not None else ()
        self.kept = frozenset([*anchors, *(word.lower() for word in vocabulary.words[:KEPT_WORDS])])
        self.words: dict[int, list[str]] = {}  # of each class
        weights: dict[int, list[float]] = {}
        for rank, word in enumerate(vocabulary.words, 1):
            if word.isalpha() and word.lower() not in self.kept:
                self.words.setdefault(word_class(word), []).append(word)
                weights.setdefault(word_class(word), []).append(1 / rank)  # Zipf's law
        self.shares = {number: np.array(some) / sum(some) for number, some in weights.items()}

    def mask(self, tokens: Sequence[str], seed: int) -> tuple[list[str], float]:
        """The tokens of a text with content words exchanged, and the share of them that were; another seed draws
        other words."""
        rng = np.random.default_rng(seed)
        masked = list(tokens)
        of_class: dict[int, list[int]] = {}
        for place, token in enumerate(tokens):
            if token.lower() in self.kept or "'" in token:
                continue
            if kind(token[0]) & DIGIT:
                masked[place] = "".join(str(rng.integers(10)) if kind(c) & DIGIT else c for c in token)
            elif kind(token[0]) & ALPHA:
                of_class.setdefault(word_class(token), []).append(place)
        exchanged = 0
        for number, places in sorted(of_class.items()):
            words = self.words.get(number)
            exchanged += len(places)
            drawn = rng.choice(len(words), len(places), p=self.shares[number]) if words else np.zeros(len(places), int)
            for place, which in zip(places, drawn.tolist(), strict=True):
                masked[place] = words[which] if words else _nameless(tokens[place])
        return masked, exchanged / max(1, len(tokens))


def _nameless(token: str) -> str:
    """Where the vocabulary has no word of a class: letters that hardly ever follow each other, so that nothing counts
    them, taking turns, as a tokeniser may shorten runs of one; its case stays."""
    filler = ("xq" * len(token))[: len(token)]
    return filler.upper() if token.isupper() else filler.capitalize() if token[0].isupper() else filler
