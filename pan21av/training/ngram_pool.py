"""Which n-grams an ensemble knows: those that most documents have, in the mean over sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..data import layout
from ..data.ngrams import (
    CLASSES,
    SHAPE_BITS,
    SHAPE_LENGTHS,
    Pool,
    is_letter_gram,
    letter_grams,
    shape,
    shape_gram,
)  # fmt: skip
from .settings import NgramSettings

DOCUMENTS_PER_SOURCE = 300  # looked at

Tokens = Sequence[np.ndarray]  # documents as token type numbers (n)


def build_pool(types: Sequence[str], sources: Sequence[Tokens], settings: NgramSettings) -> Pool:
    """From documents of each source; `types` are what their numbers stand for."""
    used = np.unique(np.concatenate([np.unique(document) for source in sources for document in source]))
    names, lower = _numbered([types[t].lower() for t in used])
    word_of = np.zeros(len(types), dtype=np.int64)
    word_of[used] = lower

    shares = _shares(sources, lambda document: word_of[document])
    sound = np.array([_sound(name) for name in names])
    words, everywhere = shares.mean(0) * sound, shares.min(0) * sound
    anchors = [names[i] for i in _ranked(everywhere, words)[: settings.anchors]]
    pool = Pool(tuple(names[i] for i in _ranked(words)[: settings.pool_words]), tuple(anchors), (), (), ())

    symbol_of = np.zeros(len(types), dtype=np.int64)
    symbol_of[used] = [pool.symbol(types[t]) for t in used]
    n = len(pool.symbols)

    def skeletons(length: int, limit: int) -> tuple[str, ...]:
        def numbers(document: np.ndarray) -> np.ndarray:
            symbols = symbol_of[document]
            joined = np.zeros(max(0, len(symbols) - length + 1), dtype=np.int64)
            for at in range(length):
                joined = joined * n + symbols[at : at + len(joined)]
            return joined

        found, share = _sparse_shares(sources, numbers)
        best = found[_ranked(share)[:limit]]
        places = [n**at for at in reversed(range(length))]
        return tuple(" ".join(pool.symbols[number // place % n] for place in places) for number in best.tolist())

    shape_of = np.zeros(len(types), dtype=np.int64)
    shape_of[used] = [shape(types[t]) for t in used]

    def shapes(limit: int) -> tuple[str, ...]:
        def numbers(document: np.ndarray) -> np.ndarray:
            return layout.gram_numbers(shape_of[document], SHAPE_BITS, SHAPE_LENGTHS)

        found, share = _sparse_shares(sources, numbers)
        return tuple(map(shape_gram, found[_ranked(share)[:limit]].tolist()))

    grams, flat, first = _grams(types, used)

    def letters(document: np.ndarray) -> np.ndarray:
        mine = np.unique(document)
        return np.concatenate([flat[first[t] : first[t + 1]] for t in mine])

    shares = _shares(sources, letters, len(grams)).mean(0)
    return Pool(
        pool.words,
        pool.anchors,
        skeletons(2, settings.pool_pairs),
        skeletons(3, settings.pool_triples),
        tuple(grams[i] for i in _ranked(shares)[: settings.pool_letters]),
        shapes(settings.pool_shapes) if settings.pool_shapes else (),
    )


def common_layout(sources: Sequence[Tokens], limit: int) -> tuple[str, ...]:
    """From the symbols of documents' layout, of each source."""
    found, share = _sparse_shares(sources, layout.gram_numbers)
    return tuple(map(layout.gram_of, found[_ranked(share)[:limit]].tolist()))


def _sound(name: str) -> bool:
    """Lone surrogates can occur in text, but cannot be written down; and classes have names of their own."""
    return name not in CLASSES and not any("\ud800" <= c <= "\udfff" for c in name)


def _numbered(names: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Distinct names, and which of them each is."""
    index: dict[str, int] = {}
    numbers = [index.setdefault(name, len(index)) for name in names]
    return list(index), np.array(numbers, dtype=np.int64)


def _grams(types: Sequence[str], used: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Distinct letter n-grams; those of all types one after the other as numbers, and where each type's begin."""
    index: dict[str, int] = {}
    flat: list[int] = []
    counts = np.zeros(len(types) + 1, dtype=np.int64)
    for t in used.tolist():
        mine = {gram for gram in letter_grams(types[t]) if is_letter_gram(gram) and _sound(gram)}
        numbers = sorted(index.setdefault(gram, len(index)) for gram in sorted(mine))
        flat += numbers
        counts[t + 1] = len(numbers)
    return list(index), np.array(flat, dtype=np.int64), np.cumsum(counts)


def _shares(
    sources: Sequence[Tokens], numbers: Callable[[np.ndarray], np.ndarray], size: int | None = None
) -> np.ndarray:
    """(sources, features): the share of a source's documents that have the feature."""
    found = [[np.unique(numbers(document)) for document in source] for source in sources]
    size = size or 1 + max((int(f.max()) for source in found for f in source if len(f)), default=-1)
    return np.stack([np.bincount(np.concatenate(source), minlength=size) / len(source) for source in found])


def _sparse_shares(
    sources: Sequence[Tokens], numbers: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Features that occur, as numbers, and the share of documents that have them in the mean over sources."""
    found, weights = [], []
    for source in sources:
        each = np.concatenate([np.unique(numbers(document)) for document in source])
        features, counts = np.unique(each, return_counts=True)
        found.append(features)
        weights.append(counts / len(source) / len(sources))
    features, index = np.unique(np.concatenate(found), return_inverse=True)
    return features, np.bincount(index, np.concatenate(weights))


def _ranked(share: np.ndarray, tie: np.ndarray | None = None) -> np.ndarray:
    """Features with a share at all, the largest first, equal ones by `tie` or else as they come."""
    order = np.lexsort((np.arange(len(share)), -(share if tie is None else tie), -share))
    return order[share[order] > 0]
