"""What a document becomes, and what two of them become as a pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

TYPICAL_TOKENS = 1330  # of both texts of a pair that is not short of text: `lengths` is 0 there
MIN_TOKENS = 300  # below, the logarithm would overstate what is missing

Rows = slice | Sequence[int] | Tensor


@dataclass(frozen=True)
class Embedding:
    """D documents as M members embed them."""

    vectors: Tensor  # (M, D, L): linguistic embedding vectors, the paper's LEV
    tokens: Tensor  # (D): how many were read
    parts: tuple[int, ...]  # widths of the parts of a vector: the encoder's, and the LDA's where there is one
    cohort_distance: Tensor | None = None  # (M, D, parts), to the nearest of the cohort; None without one

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, rows: Rows) -> Embedding:
        distance = None if self.cohort_distance is None else self.cohort_distance[:, rows]
        return Embedding(self.vectors[:, rows], self.tokens[rows], self.parts, distance)

    @classmethod
    def empty(cls, n_members: int, parts: tuple[int, ...], *, cohort: bool) -> Embedding:
        """Of no documents."""
        distance = torch.zeros(n_members, 0, len(parts)) if cohort else None
        return cls(torch.zeros(n_members, 0, sum(parts)), torch.zeros(0), parts, distance)

    def to(self, device: torch.device) -> Embedding:
        distance = None if self.cohort_distance is None else self.cohort_distance.to(device)
        return Embedding(self.vectors.to(device), self.tokens.to(device), self.parts, distance)

    @staticmethod
    def join(embeddings: Sequence[Embedding], dim: str) -> Embedding:
        """Of the same members, along `dim` "documents"; or of the same documents, along "members"."""
        axis = {"members": 0, "documents": 1}[dim]
        first = embeddings[0]
        distances = [e.cohort_distance for e in embeddings if e.cohort_distance is not None]
        return Embedding(
            torch.cat([e.vectors for e in embeddings], axis),
            torch.cat([e.tokens for e in embeddings]) if axis else first.tokens,
            first.parts,
            torch.cat(distances, axis) if distances else None,
        )

    def pair(self, first: Rows, second: Rows) -> EmbeddingPair:
        """The documents of rows `first` (P) beside those of rows `second` (P)."""
        one, other = self[first], self[second]
        scaled_one, scaled_other = one.vectors, other.vectors
        if one.cohort_distance is not None and other.cohort_distance is not None:
            scale = ((one.cohort_distance + other.cohort_distance) / 2).rsqrt()
            widths = torch.tensor(self.parts, device=scale.device)
            scale = scale.repeat_interleave(widths, -1)  # (M, P, parts) -> (M, P, L)
            scaled_one, scaled_other = one.vectors * scale, other.vectors * scale
        return EmbeddingPair(
            one.vectors, other.vectors, scaled_one, scaled_other, pair_lengths(one.tokens, other.tokens)
        )


def pair_lengths(one: Tensor, other: Tensor) -> Tensor:
    """Tokens (P) of either text -> (P, 2): log of how much text is missing, log of how uneven the two are."""
    one, other = one.clamp_min(MIN_TOKENS), other.clamp_min(MIN_TOKENS)
    scantness = (TYPICAL_TOKENS / 2 * (1 / one + 1 / other)).log()
    return torch.stack([scantness, (one.log() - other.log()).abs()], -1)


@dataclass(frozen=True)
class EmbeddingPair:
    """P pairs as the scores read them; made by Embedding.pair, which alone normalises."""

    first: Tensor  # (M, P, L), as embedded: what BFS reads
    second: Tensor
    scaled_first: Tensor  # (M, P, L), over the cohort distance where there is one: what DML, UAL and O2D2 read
    scaled_second: Tensor
    lengths: Tensor | None = None  # (P, 2), see pair_lengths

    @classmethod
    def of(cls, first: Tensor, second: Tensor) -> EmbeddingPair:
        """Bare vectors (M, P, L), of which nothing else is known."""
        return cls(first, second, first, second)

    def __len__(self) -> int:
        return self.first.shape[1]

    def __getitem__(self, pairs: slice) -> EmbeddingPair:
        return EmbeddingPair(
            self.first[:, pairs],
            self.second[:, pairs],
            self.scaled_first[:, pairs],
            self.scaled_second[:, pairs],
            None if self.lengths is None else self.lengths[pairs],
        )

    @staticmethod
    def join(pairs: Sequence[EmbeddingPair]) -> EmbeddingPair:
        lengths = [pair.lengths for pair in pairs if pair.lengths is not None]
        return EmbeddingPair(
            torch.cat([pair.first for pair in pairs], 1),
            torch.cat([pair.second for pair in pairs], 1),
            torch.cat([pair.scaled_first for pair in pairs], 1),
            torch.cat([pair.scaled_second for pair in pairs], 1),
            torch.cat(lengths) if lengths else None,
        )

    def detach(self) -> EmbeddingPair:
        return EmbeddingPair(
            self.first.detach(), self.second.detach(), self.scaled_first.detach(), self.scaled_second.detach(),
            self.lengths,
        )  # fmt: skip

    def expand(self, n_members: int) -> EmbeddingPair:
        """One member's pairs for so many that read the same."""

        def wide(one: Tensor) -> Tensor:
            return one.expand(n_members, -1, -1)

        return EmbeddingPair(
            wide(self.first), wide(self.second), wide(self.scaled_first), wide(self.scaled_second), self.lengths
        )

    @property
    def squares(self) -> Tensor:
        """(M, P, L)"""
        return (self.scaled_first - self.scaled_second).square()

    @property
    def distance(self) -> Tensor:
        """(M, P), squared"""
        return self.squares.sum(-1)
