"""Sampling: which documents are for what, and pairs of them: anew every epoch for training, once for validation.

The pairs are drawn by our rule, "balanced"; published_drawing.py has the paper's, drawings.py chooses.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ..data.pan import PAIR_KINDS, pair_kinds


@dataclass(frozen=True)
class Catalogue:
    """Author, topic, work and source of every document as numbers (n); work -1 is unknown."""

    author: np.ndarray
    topic: np.ndarray
    work: np.ndarray
    source: np.ndarray

    def same_author(self, pairs: np.ndarray) -> np.ndarray:
        return np.asarray(self.author[pairs[:, 0]] == self.author[pairs[:, 1]])

    def same_topic(self, pairs: np.ndarray) -> np.ndarray:
        return np.asarray(self.topic[pairs[:, 0]] == self.topic[pairs[:, 1]])

    def kinds(self, pairs: np.ndarray) -> np.ndarray:
        """(p) of PAIR_KINDS"""
        return pair_kinds(self.same_author(pairs), self.same_topic(pairs))

    def count_kinds(self, pairs: np.ndarray) -> dict[str, int]:
        kinds = self.kinds(pairs)
        return {kind: int((kinds == kind).sum()) for kind in PAIR_KINDS}

    def may_pair(self, a: int, b: int) -> bool:
        """Two documents of one work share plot and names: they say nothing of authorship."""
        return bool(self.work[a] < 0 or self.work[a] != self.work[b])


@dataclass(frozen=True)
class Drawing:
    """Probabilities of section "pairs" of the paper; caps are multiples of the same-author count."""

    same_author: float = 0.7  # spend two documents of an author on a same-author pair
    cross_topic: float = 0.6  # of those, with different topics if the author has them
    same_topic: float = 0.6  # different-author pairs within a topic
    cap: float | None = None  # of each different-author kind
    balanced: bool = False  # as many same- as different-author pairs, also where there is one source
    strict: bool = False  # SA_DF and DA_SF; others only of authors and topics that have no such pair


FOR_TRAINING = Drawing()
FOR_CALIBRATION = Drawing(0.95, 0.95, 0.7, cap=1.5)
FOR_SCORES = Drawing(0.5, 0.95, 0.7, balanced=True)  # posteriors should assume even odds
FOR_VALIDATION = Drawing(1.0, 1.0, 1.0, cap=1.0, strict=True)


def draw_pairs(catalogue: Catalogue, documents: np.ndarray, drawing: Drawing, rng: np.random.Generator) -> np.ndarray:
    """Pairs (p, 2) of document numbers in random order; no document occurs twice."""
    same, pool = _same_author_pairs(catalogue, documents, drawing, rng)
    different = _different_author_pairs(catalogue, pool, drawing, rng, len(same))
    pairs = rng.permutation(np.array(same + different, dtype=np.int64).reshape(-1, 2))
    several = len(np.unique(catalogue.source[pairs[:, 0]])) > 1
    return balanced(catalogue, pairs) if drawing.balanced or several else pairs


def per_source(catalogue: Catalogue, pairs: np.ndarray, limit: int) -> np.ndarray:
    """At most `limit` pairs of a source, so that a large one does not decide what all learn; 0: all."""
    if not limit or not len(pairs):
        return pairs
    source = catalogue.source[pairs[:, 0]]
    kept = [np.flatnonzero(source == number)[:limit] for number in np.unique(source)]
    return pairs[np.sort(np.concatenate(kept))]


def balanced(catalogue: Catalogue, pairs: np.ndarray) -> np.ndarray:
    """As many same- as different-author pairs of each source: otherwise the typography of a
    source rich in either would tell the answer."""
    same, source = catalogue.same_author(pairs), catalogue.source[pairs[:, 0]]
    keep = np.zeros(len(pairs), dtype=bool)
    for s in np.unique(source):
        each = [np.flatnonzero((source == s) & (same == label)) for label in (True, False)]
        fewer = min(map(len, each))
        for numbers in each:
            keep[numbers[:fewer]] = True
    return pairs[keep]


def _same_author_pairs(
    catalogue: Catalogue, documents: np.ndarray, drawing: Drawing, rng: np.random.Generator
) -> tuple[list[tuple[int, int]], list[int]]:
    """Same-author pairs, and the documents left for the others."""
    by_author: dict[int, list[int]] = defaultdict(list)
    for document in rng.permutation(documents):
        by_author[int(catalogue.author[document])].append(int(document))
    pairs, pool = [], []
    topic = catalogue.topic
    for left in by_author.values():
        # In a validation draw an author either gives one pair or serves in the others, half and half.
        if drawing.strict and rng.random() < 1 / 3:
            pool += left
            continue
        single_topic = len({int(topic[d]) for d in left}) == 1
        while len(left) > 1:
            first = left.pop()
            if rng.random() >= drawing.same_author:
                pool.append(first)
                continue
            partners = [d for d in left if catalogue.may_pair(first, d)]
            cross = [d for d in partners if topic[d] != topic[first]]
            within = [d for d in partners if topic[d] == topic[first]]
            wanted = cross if rng.random() < drawing.cross_topic else within
            chosen = wanted or cross or within
            if drawing.strict and not single_topic:
                chosen = cross
            if not chosen:
                pool.append(first)
                continue
            left.remove(chosen[0])
            pairs.append((first, chosen[0]))
        pool += left
    return pairs, pool


def _different_author_pairs(
    catalogue: Catalogue, pool: list[int], drawing: Drawing, rng: np.random.Generator, same: int
) -> list[tuple[int, int]]:
    """Pairs within one source: typography would give the answer away otherwise."""
    cap = np.inf if drawing.cap is None else drawing.cap * same
    order = [int(d) for d in rng.permutation(np.array(pool, dtype=np.int64))]
    by_source: dict[int, list[int]] = defaultdict(list)
    by_topic: dict[tuple[int, int], list[int]] = defaultdict(list)
    for document in order:
        by_source[int(catalogue.source[document])].append(document)
        by_topic[int(catalogue.source[document]), int(catalogue.topic[document])].append(document)
    authors_of = {key: len({int(catalogue.author[d]) for d in documents}) for key, documents in by_topic.items()}
    used: set[int] = set()
    pairs = []
    counts = [0, 0]  # other topic, same topic
    for first in order:
        if first in used:
            continue
        source, topic = int(catalogue.source[first]), int(catalogue.topic[first])
        within = rng.random() < drawing.same_topic
        for same_topic in (within, not within):
            if counts[same_topic] >= cap:
                continue
            if drawing.strict and not same_topic and authors_of[source, topic] > 1:
                continue
            candidates = by_topic[source, topic] if same_topic else by_source[source]
            partner = _take_partner(catalogue, first, candidates, used, other_topic=not same_topic)
            if partner is not None:
                used |= {first, partner}
                pairs.append((first, partner))
                counts[same_topic] += 1
                break
    return pairs


def _take_partner(
    catalogue: Catalogue, first: int, candidates: list[int], used: set[int], *, other_topic: bool
) -> int | None:
    while candidates and candidates[-1] in used:
        candidates.pop()
    for document in reversed(candidates[-200:]):  # far enough: one author or topic never fills it all
        if document in used or catalogue.author[document] == catalogue.author[first]:
            continue
        if other_topic and catalogue.topic[document] == catalogue.topic[first]:
            continue
        return document
    return None


def fixed_pairs(catalogue: Catalogue, documents: np.ndarray, rng: np.random.Generator, limit: int) -> np.ndarray:
    """Balanced pairs for validation: same author across topics, different authors within one, as far
    as the corpus has them (a blogger may have a single topic; it then serves with that)."""
    pairs = draw_pairs(catalogue, documents, FOR_VALIDATION, rng)
    same = catalogue.same_author(pairs)
    each = min(int(same.sum()), int((~same).sum()), limit // 2 if limit else len(pairs))
    kept = np.concatenate([np.flatnonzero(same)[:each], np.flatnonzero(~same)[:each]])
    return rng.permutation(pairs[np.sort(kept)])


def split_documents(catalogue: Catalogue, by_topic: bool, train_share: float, rng: np.random.Generator) -> np.ndarray:
    """0 training, 1 calibration, 2 validation, -1 left out, for every document (n).

    By topic, as in the paper: topics are dealt out, an author belongs to every set that has one of the author's topics,
    coins leave one of them, and documents whose author and topic landed apart are left out.
    """

    def deal(names: np.ndarray) -> np.ndarray:
        """A set for every number 0..max: the exact shares, in random order."""
        count = int(names.max()) + 1
        order = rng.permutation(count)
        sets = np.zeros(count, dtype=np.int64)
        first = round(train_share * count)
        sets[order[first : (first + count) // 2 + (first + count) % 2]] = 1
        sets[order[(first + count) // 2 + (first + count) % 2 :]] = 2
        return sets

    if not by_topic:
        # Authors of one document only tell authors apart: dealt separately, shares stay even.
        documents_of = np.bincount(catalogue.author)
        sets = np.empty(len(documents_of), dtype=np.int64)
        keys = np.stack([_source_of_author(catalogue), documents_of > 1], 1)
        for key in np.unique(keys, axis=0):
            members = np.flatnonzero((keys == key).all(1))
            sets[members] = deal(np.arange(len(members)))
        return sets[catalogue.author]
    topic_set = deal(catalogue.topic)[catalogue.topic]
    author_set = _toss(catalogue.author, topic_set, rng)[catalogue.author]
    return np.where(topic_set == author_set, topic_set, -1)


def _toss(author: np.ndarray, topic_set: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The set (authors) of each: a fair coin between calibration and validation for those who are in both, then one
    between training and what is left. How many documents they have in either does not matter."""
    within = np.zeros((int(author.max()) + 1, 3), dtype=bool)
    within[author, topic_set] = True
    training, calibration, validation = within.T
    heads = rng.random((2, len(within))) < 0.5
    rest = np.where(calibration & (~validation | heads[0]), 1, 2)
    return np.where(training & (~(calibration | validation) | heads[1]), 0, rest)


def _source_of_author(catalogue: Catalogue) -> np.ndarray:
    source = np.zeros(int(catalogue.author.max()) + 1, dtype=np.int64)
    source[catalogue.author] = catalogue.source
    return source
