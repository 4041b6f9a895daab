"""A text without what it is about: how much a verdict rests on topic shows when content words are masked.

Words that any text has (the anchors of the n-grams, else the commonest of the vocabulary), numbers' and signs' places
stay. Every other word becomes a made-up one of its class: the same case, length and ending, "Xqxqxing" for "Sleeping".
So skeletons, lengths of words and of sentences are what they were; which word it was, neither its letters nor its
vector tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from .fitness import COMMON_WORDS
from .ngrams import ALPHA, DIGIT, ENDINGS, UPPER, kind
from .vocabulary import Vocabulary

# Letters that hardly ever follow each other, so that no n-gram counts them; taking turns, as a tokeniser may shorten
# runs of one.
FILLER = "xq"


def kept_words(vocabulary: Vocabulary) -> frozenset[str]:
    """Those that stay, in lower case."""
    pool = vocabulary.ngrams
    return frozenset(pool.anchors if pool is not None else (w.lower() for w in vocabulary.words[:COMMON_WORDS]))


def mask_token(token: str) -> str:
    """A token of the same class and length that says nothing else."""
    first = kind(token[0])
    if first & DIGIT:
        return "".join("01"[at % 2] if kind(c) & DIGIT else c for at, c in enumerate(token))
    if not first & ALPHA:
        return token
    low = token.lower()
    ending = next((e for e in ENDINGS if len(low) > len(e) + 1 and low.endswith(e)), "")
    stem = (FILLER * len(token))[: len(token) - len(ending)] + ending
    return "".join(_like(c, m) for c, m in zip(token, stem, strict=True))


def _like(char: str, filler: str) -> str:
    """The filler in the case of a letter; what is no letter stays."""
    return char if not kind(char) & ALPHA else filler.upper() if kind(char) & UPPER else filler


def mask(tokens: Sequence[str], kept: frozenset[str]) -> tuple[str, float]:
    """The masked text, tokens with a space between, and the share of the tokens that were masked."""
    masked = [token if token.lower() in kept else mask_token(token) for token in tokens]
    changed = sum(one != other for one, other in zip(tokens, masked, strict=True))
    return " ".join(masked), changed / max(1, len(tokens))
