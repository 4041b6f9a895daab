"""The n-gram part of a member, and that of layout: discriminants between authors, blind to kind of text and topic.

Documents are counted in blocks and only their moments are kept, so memory does not grow with the corpus.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch

from ..data.ngrams import TOKEN_VIEWS, Pool
from ..network.ngram_part import NgramPart, standardise
from .discriminant import discriminants
from .prepared import TRAIN, Prepared, Span
from .sampling import Catalogue
from .settings import NgramSettings
from .streams import Stream, numpy_stream

# Views of which a member draws some; it has all of the others.
DRAWN = ("words", "pairs", "triples", "letters", "shapes", "layout")
LAYOUT = ("layout",)  # the views of the layout part
RANK_OFFSET = 200  # n-grams are drawn with weight 1 / (this + rank): common ones more often
SHRINK = 0.3  # of the within-author covariance towards its diagonal
TOPIC_WEIGHT = 3.0  # of what topics differ in: an author's texts on other topics must look alike
MIN_TOPIC_AUTHORS = 8  # topics of fewer authors say more of those authors than of themselves
RIDGE = 1e-4  # of the mean within-author variance
MIN_DEVIATION = 1e-5  # a feature that varies less says nothing
SCALE_DOCUMENTS = 6_000  # that usual frequencies and their spread are taken from
DOCUMENTS_PER_BLOCK = 512


def n_features(pool: Pool, settings: NgramSettings, views: Sequence[str] = TOKEN_VIEWS) -> int:
    """That a member reads."""
    return sum(_wanted(pool, settings, views).values())


def _wanted(pool: Pool, settings: NgramSettings, views: Sequence[str]) -> dict[str, int]:
    """How many of each view."""
    sizes = {view: pool.views[view].stop - pool.views[view].start for view in views}
    return {view: min(size, getattr(settings, view)) if view in DRAWN else size for view, size in sizes.items()}


def draw_features(
    pool: Pool, settings: NgramSettings, rng: np.random.Generator, views: Sequence[str] = TOKEN_VIEWS
) -> np.ndarray:
    """Numbers of a member's n-grams in the pool, sorted."""
    chosen = []
    for view, count in _wanted(pool, settings, views).items():
        start, size = pool.views[view].start, pool.views[view].stop - pool.views[view].start
        if not count:
            continue
        weights = 1 / (RANK_OFFSET + np.arange(size))
        chosen.append(start + rng.choice(size, count, replace=False, p=weights / weights.sum()))
    return np.sort(np.concatenate(chosen))


@torch.no_grad()
def fit_ngrams(
    part: NgramPart, prepared: Prepared, settings: NgramSettings, seed: int, views: Sequence[str] = TOKEN_VIEWS
) -> None:
    """Fit one member's part to the training texts of its sources."""
    pool = prepared.vocabulary.ngrams
    assert pool is not None
    rng = numpy_stream(seed, Stream.LAYOUT if views == LAYOUT else Stream.NGRAMS)
    part.index[0] = torch.from_numpy(draw_features(pool, settings, rng, views))
    documents = prepared.documents(TRAIN)
    _fit_scale(part, prepared, rng.permutation(documents)[:SCALE_DOCUMENTS])
    noise, total = _covariances(part, prepared, documents)
    projection, ratio = discriminants(noise, total, part.weight.shape[-1])
    # `ratio` is the variance of all documents over that of noise, so this is the share that is between authors: the
    # weight by which a two-covariance model would shrink what is seen of a text towards the mean.
    projection *= np.maximum(1 - 1 / ratio, 0.01)
    part.weight[0] = torch.as_tensor(projection, dtype=torch.float32)


def blocks(prepared: Prepared, documents: np.ndarray) -> Iterator[tuple[np.ndarray, torch.Tensor, torch.Tensor]]:
    """Documents, their frequencies (D, pool) and tokens (D), some at a time."""
    for at in range(0, len(documents), DOCUMENTS_PER_BLOCK):
        block = documents[at : at + DOCUMENTS_PER_BLOCK]
        counted, tokens = prepared.count_ngrams([Span(int(d), 0, prepared.model.max_tokens) for d in block])
        yield block, torch.from_numpy(counted), torch.from_numpy(tokens).float()


def _fit_scale(part: NgramPart, prepared: Prepared, documents: np.ndarray) -> None:
    """What is usual, and where square roots of smoothed frequencies lie."""
    index = part.index[0].long()
    rows, tokens = [], []
    for _, frequencies, lengths in blocks(prepared, documents):
        rows.append(frequencies[:, index])
        tokens.append(lengths)
    frequency, count = torch.cat(rows), torch.cat(tokens)
    background = frequency.mean(0)
    zero = torch.zeros_like(background)
    roots = standardise(frequency, count, background, zero, torch.ones_like(background))  # below 1: nothing is clipped
    mean, deviation = roots.mean(0), roots.std(0)
    scale = torch.where(deviation > MIN_DEVIATION, 1 / deviation.clamp_min(MIN_DEVIATION), zero)
    part.background[0], part.mean[0], part.scale[0] = background, mean, scale


def _covariances(part: NgramPart, prepared: Prepared, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(F, F) of what must not count, and of all documents inside their sources."""
    catalogue = prepared.catalogue
    documents = documents[np.lexsort((documents, catalogue.author[documents]))]  # authors together
    size = part.index.shape[1]
    moment, of_authors = np.zeros((size, size)), np.zeros((size, size))
    groups = _Groups(catalogue, documents, size)
    author_sum, author_count, author = np.zeros(size), 0, -1
    sums: list[np.ndarray] = []

    for block, frequencies, lengths in blocks(prepared, documents):
        z = part.z_scores(frequencies, lengths)[0]
        moment += (z.T @ z).double().numpy()
        rows = z.double().numpy()
        groups.add(block, rows)
        # The sum of each author's rows over the root of their number: its second moment is that of the means.
        for number, row in zip(catalogue.author[block].tolist(), rows, strict=True):
            if number != author:
                if author_count:
                    sums.append(author_sum / np.sqrt(author_count))
                author_sum, author_count, author = np.zeros(size), 0, number
            author_sum, author_count = author_sum + row, author_count + 1
        if sums:
            stacked = torch.from_numpy(np.stack(sums)).float()
            of_authors += (stacked.T @ stacked).double().numpy()
            sums.clear()
    last = author_sum / np.sqrt(author_count)
    of_authors += np.outer(last, last)

    n_authors = len(np.unique(catalogue.author[documents]))
    within = (moment - of_authors) / max(1, len(documents) - n_authors)
    counts, means = groups.source_counts, groups.source_means()
    total = (moment - (means * counts[:, None]).T @ means) / len(documents)
    centred = means - means.mean(0)
    noise = (1 - SHRINK) * within + SHRINK * np.diag(np.diag(within))
    noise += centred.T @ centred / len(centred)  # a pair always shares its source: what sources differ in is noise
    noise += groups.between_topics()
    noise[np.diag_indices(size)] += RIDGE * max(1e-9, within.diagonal().mean()) + 1e-9
    return noise, total


class _Groups:
    """Sums of documents by source, and by topics that several authors write about."""

    def __init__(self, catalogue: Catalogue, documents: np.ndarray, size: int) -> None:
        self.source = catalogue.source
        self.sources, self.source_counts = np.unique(catalogue.source[documents], return_counts=True)
        self.source_sums = np.zeros((len(self.sources), size))
        cells = np.unique(np.stack([catalogue.topic[documents], catalogue.author[documents]], 1), axis=0)
        topics, authors = np.unique(cells[:, 0], return_counts=True)
        self.topics = topics[authors >= MIN_TOPIC_AUTHORS]
        self.topic = catalogue.topic
        # Documents of a topic in each source: a topic's mean is taken without those of its sources.
        self.mixture = np.zeros((len(self.topics), len(self.sources)))
        for row, topic in enumerate(self.topics):
            here = documents[catalogue.topic[documents] == topic]
            np.add.at(self.mixture[row], np.searchsorted(self.sources, catalogue.source[here]), 1)
        self.topic_sums = np.zeros((len(self.topics), size))

    def add(self, documents: np.ndarray, rows: np.ndarray) -> None:
        np.add.at(self.source_sums, np.searchsorted(self.sources, self.source[documents]), rows)
        topic = self.topic[documents]
        shared = np.isin(topic, self.topics)
        np.add.at(self.topic_sums, np.searchsorted(self.topics, topic[shared]), rows[shared])

    def source_means(self) -> np.ndarray:
        return np.asarray(self.source_sums / self.source_counts[:, None])

    def between_topics(self) -> np.ndarray:
        """Weighted second moment (F, F) of the topics' means inside their sources."""
        size = self.topic_sums.shape[1]
        if not len(self.topics):
            return np.zeros((size, size))
        means = (self.topic_sums - self.mixture @ self.source_means()) / self.mixture.sum(1, keepdims=True)
        return np.asarray(TOPIC_WEIGHT * means.T @ means / len(means))
