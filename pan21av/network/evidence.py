"""What UAL is told of a pair beside its vectors, and O2D2 most of it: how much text there is, how other texts lie, how
familiar the kind of text is.

A distance means little by itself. Two authors of one kind of text are nearer to each other than two of another, a
short text is far from everything, and texts of a kind that training had none of lie close together. So distances are
told as they are, against a cohort, and in products with measures of length; which of it matters is learnt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from .embedding import EmbeddingPair

TYPICAL_TOKENS = 1330.0  # of a text: lengths are measured against it
MIN_TOKENS = 10.0  # fewer count as so many
FEW_TOKENS = 500.0  # a text of so many tells half of its familiarity
COHORT_MEASURES = ("nearest", "mean", "deviation")  # of the distances of a document to the cohort

PER_DISTANCE = 3 * 5  # bare, less the nearest of the cohort, in the cohort's deviations; each with four factors
OF_POPULATION, OF_KIND = 4, 5
OF_LENGTH, OF_FAMILIARITY = 5, 4


def n_evidence(n_parts: int) -> int:
    return OF_POPULATION + OF_KIND + n_doubted(n_parts)


def n_doubted(n_parts: int) -> int:
    """The last of the evidence, so many numbers: what familiarity and O2D2 are told. All of it would make members leave
    open what they do not know, in place of being less sure of it."""
    return PER_DISTANCE * n_parts + OF_LENGTH + OF_FAMILIARITY


def scantness(pair: EmbeddingPair) -> Tensor:
    """(P): log of how little text there is, 0 for two texts of usual length."""
    assert pair.evidence is not None
    scant: Tensor = pair.evidence[0, :, -(OF_LENGTH + OF_FAMILIARITY)]
    return scant


def parabola(scant: Tensor) -> Tensor:
    """Scantness (P) -> the terms (P, 3) of a function of it."""
    return torch.stack([torch.ones_like(scant), scant, scant.square()], -1)


def evidence(
    distance: Tensor, cohort: Tensor, tokens: Tensor, norm: Tensor, strangeness: Tensor, neighbours: Tensor,
    population: Tensor,
) -> Tensor:  # fmt: skip
    """-> (M, P, E), the same with the two documents of a pair exchanged.

    Of P pairs: distances (M, P, parts); of their two documents the cohort's measures (2, M, P, parts, 3), tokens
    (2, P), and (2, M, P) the log norm of the last part, how strange the kind of text is, how far its last part is from
    the nearest of a population; how far a population is known (P), 0 to 1.
    """
    nearest, mean, deviation = cohort.unbind(-1)
    against = ((distance - mean) / deviation).sum(0) / 2
    distances = torch.cat([distance, distance - nearest.sum(0) / 2, against], -1)

    tokens = tokens.clamp_min(MIN_TOKENS)
    shorter = tokens.amin(0)
    scant = (TYPICAL_TOKENS / 2 * tokens.reciprocal().sum(0)).log()
    short, uneven = (shorter / TYPICAL_TOKENS).log(), (tokens[0].log() - tokens[1].log()).abs()
    lengths = torch.stack([scant, scant.square(), short, uneven, population], -1)
    factors = torch.stack([torch.ones_like(scant), scant, scant.square(), short, population], -1)  # (P, 5)

    gate = shorter / (shorter + FEW_TOKENS)
    size, strange, last = norm.sum(0) / 2, strangeness.sum(0) / 2, distance[..., -1]
    familiarity = torch.stack([torch.ones_like(last), last, size, last * size], -1) * gate[:, None]

    # A population of one's own kind says more than a cohort of all kinds, and where there is one, a strange kind is no
    # reason to doubt.
    near = torch.where(population > 0, last - neighbours.sum(0) / 2, 0.0)
    of_population = torch.stack([near, near * scant, near * short, near * population], -1)
    whole = strange * gate
    of_kind = torch.stack([whole, whole * last, whole * against[..., -1]], -1)
    of_kind = torch.cat([of_kind, of_kind[..., :2] * population[:, None]], -1)

    products = (distances[..., None, :] * factors[:, :, None]).flatten(-2)
    lengths = lengths.expand(len(distance), -1, -1)
    return torch.cat([of_population, of_kind, products, lengths, familiarity], -1)
