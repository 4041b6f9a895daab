"""The stylometric part of a member: a linear discriminant between authors, blind to source and topic."""

from __future__ import annotations

import numpy as np
import torch

from ..style import Style, standardise
from .pairs import Catalogue
from .prepare import TRAIN, Prepared

SHRINK = 0.5  # of the within-author covariance towards its diagonal
TOPIC = 3.0  # weight of what topics differ in: an author's texts on other topics must look alike
TOPIC_AUTHORS = 8  # topics of fewer authors say more of those authors than of themselves
AUTHORS = 0.8  # share of the training authors that a member's style is learnt from
GAIN = 2.0  # spread of the code before tanh: nearly signs, so that distances measure angles


def learn_style(style: Style, prepared: Prepared, seed: int) -> None:
    """Fit a member's Style to the training texts of its share of the authors: every member has its own."""
    rng = np.random.default_rng([seed, 12])
    documents = prepared.documents(TRAIN)
    author = prepared.catalogue.author[documents]
    authors = rng.permutation(np.unique(author))
    mine = np.isin(author, authors[: max(2, round(AUTHORS * len(authors)))])
    assert prepared.usage is not None
    fit(style, np.asarray(prepared.usage), np.diff(prepared.offsets), documents[mine], prepared.catalogue, rng)


@torch.no_grad()
def fit(style: Style, usage: np.ndarray, tokens: np.ndarray, documents: np.ndarray, catalogue: Catalogue,
        rng: np.random.Generator) -> None:  # fmt: skip
    """Fit one member's Style to `documents`, rows of `usage` (N, F) and `tokens` (N)."""
    frequency = torch.from_numpy(np.asarray(usage[documents], dtype=np.float32))
    count = torch.from_numpy(tokens[documents].astype(np.float32))
    usual = frequency.mean(0)
    zero, one = torch.zeros_like(usual), torch.ones_like(usual)
    roots = standardise(frequency, count, usual, zero, one)
    mean, deviation = roots.mean(0), roots.std(0)
    scale = torch.where(deviation > 1e-5, 1 / deviation.clamp_min(1e-5), zero)
    z = standardise(frequency, count, usual, mean, scale).double().numpy()
    author, source, topic = (column[documents] for column in (catalogue.author, catalogue.source, catalogue.topic))

    own, members_of = _means(z, author)
    several = members_of > 1
    spread = (z - own)[several]
    within = spread.T @ spread / max(1, several.sum() - len(np.unique(author[several])))
    of_source, _ = _means(z, source)
    inside = z - of_source
    total = inside.T @ inside / len(inside)
    source_means = np.unique(of_source, axis=0)
    nuisance = np.cov(source_means.T, bias=True) if len(source_means) > 1 else np.zeros_like(total)
    shared = [
        inside[topic == t].mean(0) for t in np.unique(topic) if len(np.unique(author[topic == t])) >= TOPIC_AUTHORS
    ]
    if shared:
        stacked = np.stack(shared)
        nuisance = nuisance + TOPIC * stacked.T @ stacked / len(stacked)

    noise = (1 - SHRINK) * within + SHRINK * np.diag(np.diag(within)) + nuisance
    noise[np.diag_indices(len(noise))] += 1e-4 * max(1e-9, within.diagonal().mean()) + 1e-9
    whiten = np.linalg.inv(np.linalg.cholesky(noise))
    _, vectors = np.linalg.eigh(whiten @ total @ whiten.T)
    projection = whiten.T @ vectors[:, -style.weight.shape[-1] :]
    # Turned at random, every dimension carries the same; then tanh treats them alike.
    rotation, _ = np.linalg.qr(rng.standard_normal((projection.shape[1], projection.shape[1])))
    projection = projection @ rotation
    projection *= GAIN / np.maximum((z @ projection).std(), 1e-9)
    for parameter, value in (
        (style.usual, usual),
        (style.mean, mean),
        (style.scale, scale),
        (style.weight, projection),
    ):
        parameter[0] = torch.as_tensor(value, dtype=torch.float32)


def _means(z: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean of its group for every row (N, F), and the size of its group (N)."""
    _, index, counts = np.unique(group, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), z.shape[1]))
    np.add.at(sums, index, z)
    return (sums / counts[:, None])[index], counts[index]
