"""The LDA part of a member: a linear discriminant between authors, blind to source and topic."""

from __future__ import annotations

import numpy as np
import torch

from ..network.lda import LDA, standardise
from .discriminant import Scatter, discriminants
from .prepared import TRAIN, Prepared
from .sampling import Catalogue
from .streams import Stream, numpy_stream

SHRINK = 0.5  # of the within-author covariance towards its diagonal
TOPIC_WEIGHT = 3.0  # of what topics differ in: an author's texts on other topics must look alike
MIN_TOPIC_AUTHORS = 8  # topics of fewer authors say more of those authors than of themselves
AUTHOR_SHARE = 0.8  # of the training authors: every member has its own
GAIN = 2.0  # spread of the code before tanh: nearly signs, so that distances measure angles
MIN_DEVIATION = 1e-5  # a feature that varies less says nothing


def fit_lda(lda: LDA, prepared: Prepared, seed: int) -> None:
    """Fit one member's LDA to the training texts of its share of the authors."""
    assert prepared.frequencies is not None
    rng = numpy_stream(seed, Stream.LDA)
    documents = prepared.documents(TRAIN)
    author = prepared.catalogue.author[documents]
    authors = rng.permutation(np.unique(author))
    mine = documents[np.isin(author, authors[: max(2, round(AUTHOR_SHARE * len(authors)))])]
    fit_documents(lda, np.asarray(prepared.frequencies), prepared.tokens_read(), mine, prepared.catalogue, rng)


@torch.no_grad()
def fit_documents(
    lda: LDA, frequencies: np.ndarray, tokens: np.ndarray, documents: np.ndarray, catalogue: Catalogue,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Fit to `documents`, rows of `frequencies` (N, F) and `tokens` (N)."""
    frequency = torch.from_numpy(np.asarray(frequencies[documents], dtype=np.float32))
    count = torch.from_numpy(tokens[documents].astype(np.float32))
    background = frequency.mean(0)
    zero, one = torch.zeros_like(background), torch.ones_like(background)
    roots = standardise(frequency, count, background, zero, one)
    mean, deviation = roots.mean(0), roots.std(0)
    scale = torch.where(deviation > MIN_DEVIATION, 1 / deviation.clamp_min(MIN_DEVIATION), zero)
    z = standardise(frequency, count, background, mean, scale).double().numpy()
    author, source, topic = (column[documents] for column in (catalogue.author, catalogue.source, catalogue.topic))
    scatter = Scatter.of(z, author, source)
    within = scatter.within
    noise = (1 - SHRINK) * within + SHRINK * np.diag(np.diag(within)) + scatter.between_sources
    noise += _between_topics(scatter.inside, author, topic)
    noise[np.diag_indices(len(noise))] += 1e-4 * max(1e-9, within.diagonal().mean()) + 1e-9
    projection = discriminants(noise, scatter.total, lda.weight.shape[-1])
    # Turned at random, every dimension carries the same; then tanh treats them alike.
    rotation, _ = np.linalg.qr(rng.standard_normal((projection.shape[1], projection.shape[1])))
    projection = projection @ rotation
    projection *= GAIN / np.maximum((z @ projection).std(), 1e-9)
    lda.background[0], lda.mean[0], lda.scale[0] = background, mean, scale
    lda.weight[0] = torch.as_tensor(projection, dtype=torch.float32)


def _between_topics(inside: np.ndarray, author: np.ndarray, topic: np.ndarray) -> np.ndarray:
    """Weighted second moment (F, F) of the means of topics that several authors write about."""
    shared = [t for t in np.unique(topic) if len(np.unique(author[topic == t])) >= MIN_TOPIC_AUTHORS]
    if not shared:
        return np.zeros((inside.shape[1], inside.shape[1]))
    means = np.stack([inside[topic == t].mean(0) for t in shared])
    return np.asarray(TOPIC_WEIGHT * means.T @ means / len(means))
