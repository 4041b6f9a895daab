"""Pairs as the authors' program draws them: in rounds, by three probabilities, and what cannot be met is not replaced.

An author's documents are keyed by topic ("fandom"). What the program does not know: pairs are drawn source by source,
and two documents of one work are no same-author pair. PAN's corpora have one source and name no works.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from ..data.pan import PAIR_KINDS
from .sampling import Catalogue


@dataclass(frozen=True)
class Rounds:
    """The probabilities (d1, d2, d3) of a draw, and which of the pairs are kept."""

    same_author: float  # d1: an author's turn tries a same-author pair; else one document goes to the pool
    cross_topic: float  # d2: of those, with two topics
    same_topic: float  # d3: a pair of the pool is of one topic
    kinds: tuple[str, ...] = PAIR_KINDS  # the others are dropped
    caps: tuple[tuple[str, float], ...] = ()  # a kind is cut to so many times SA_DF
    even: bool = False  # all kinds are cut to the smallest

    def draw(self, catalogue: Catalogue, documents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Pairs (p, 2) of document numbers in random order; no document occurs twice."""
        source = catalogue.source[documents]
        drawn: list[tuple[int, int]] = []
        fast = random.Random(int(rng.integers(1 << 62)))  # NumPy's takes ten times as long for a single number
        for number in np.unique(source):
            drawn += self._of_source(catalogue, documents[source == number], fast)
        pairs = rng.permutation(np.array(drawn, dtype=np.int64).reshape(-1, 2))
        works = catalogue.work[pairs]
        of_one_work = catalogue.same_author(pairs) & (works[:, 0] >= 0) & (works[:, 0] == works[:, 1])
        return self._cut(catalogue, pairs[~of_one_work])

    def _cut(self, catalogue: Catalogue, pairs: np.ndarray) -> np.ndarray:
        of = catalogue.kinds(pairs)
        counts = catalogue.count_kinds(pairs)
        limits = dict.fromkeys(self.kinds, len(pairs))
        limits |= {kind: int(factor * counts["SA_DF"]) for kind, factor in self.caps}
        if self.even:
            limits = dict.fromkeys(self.kinds, min(counts[kind] for kind in self.kinds))
        kept = [np.flatnonzero(of == kind)[:limit] for kind, limit in limits.items()]
        return pairs[np.sort(np.concatenate(kept))]

    def _of_source(self, catalogue: Catalogue, documents: np.ndarray, rng: random.Random) -> list[tuple[int, int]]:
        left: dict[int, Shelf] = defaultdict(Shelf)
        for document in documents.tolist():
            left[int(catalogue.author[document])].put(int(catalogue.topic[document]), document)
        pairs: list[tuple[int, int]] = []
        pool: list[int] = []
        authors = list(left)
        while authors:
            rng.shuffle(authors)
            for author in authors:
                self._turn(left[author], pairs, pool, rng)
            authors = [author for author in authors if left[author].topics]
        return pairs + self._pairs_of_pool(catalogue, pool, rng)

    def _turn(self, left: Shelf, pairs: list[tuple[int, int]], pool: list[int], rng: random.Random) -> None:
        """One action of one author; an impossible one is none."""
        if rng.random() >= self.same_author:
            pool.append(left.take(left.topics.pick(rng), rng))
        elif rng.random() < self.cross_topic:
            if len(left.topics) > 1:
                pairs.append(left.take_two_topics(rng))
        elif left.several:
            pairs.append(left.take_one_topic(rng))

    def _pairs_of_pool(self, catalogue: Catalogue, pool: list[int], rng: random.Random) -> list[tuple[int, int]]:
        """While two are left. Two by one author make a same-author pair."""
        left = Shelf()
        for document in pool:
            left.put(int(catalogue.topic[document]), document)
        pairs = []
        while len(left.topics) > 1 or left.several:
            # To draw an impossible one again ends with the other kind.
            within = bool(left.several) and (len(left.topics) == 1 or rng.random() < self.same_topic)
            pairs.append(left.take_one_topic(rng) if within else left.take_two_topics(rng))
        return pairs


# What the paper's table 1 is drawn by.
PUBLISHED = {
    "training": Rounds(0.7, 0.6, 0.6),
    "calibration": Rounds(0.95, 0.95, 0.7, caps=(("DA_SF", 1.5), ("DA_DF", 1.5))),
    "fixed calibration": Rounds(0.9, 0.9, 0.7, even=True),
    "validation": Rounds(0.9, 0.9, 0.7, kinds=("SA_DF", "DA_SF"), caps=(("DA_SF", 1.35),)),
}


class Shelf:
    """Documents by topic, to be taken at random: a topic evenly, then a document of it, each in constant time."""

    def __init__(self) -> None:
        self._documents: dict[int, list[int]] = {}
        self.topics = Bag()  # that have documents left
        self.several = Bag()  # that have two or more

    def put(self, topic: int, document: int) -> None:
        self._documents.setdefault(topic, []).append(document)
        (self.several if len(self._documents[topic]) == 2 else self.topics).add(topic)

    def take(self, topic: int, rng: random.Random) -> int:
        documents = self._documents[topic]
        at = int(len(documents) * rng.random())
        documents[at], documents[-1] = documents[-1], documents[at]
        if len(documents) == 2:
            self.several.remove(topic)
        elif len(documents) == 1:
            self.topics.remove(topic)
        return documents.pop()

    def take_one_topic(self, rng: random.Random) -> tuple[int, int]:
        topic = self.several.pick(rng)
        return self.take(topic, rng), self.take(topic, rng)

    def take_two_topics(self, rng: random.Random) -> tuple[int, int]:
        first = second = self.topics.pick(rng)
        while second == first:
            second = self.topics.pick(rng)
        return self.take(first, rng), self.take(second, rng)


class Bag:
    """A set that one can pick from evenly."""

    def __init__(self) -> None:
        self._items: list[int] = []
        self._at: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: int) -> None:
        if item not in self._at:
            self._at[item] = len(self._items)
            self._items.append(item)

    def remove(self, item: int) -> None:
        at, last = self._at.pop(item), self._items.pop()
        if last != item:
            self._items[at], self._at[last] = last, at

    def pick(self, rng: random.Random) -> int:
        return self._items[int(len(self._items) * rng.random())]
