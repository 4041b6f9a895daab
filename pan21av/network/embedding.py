"""What a document becomes, and what two of them become as a pair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .evidence import evidence

Rows = slice | Sequence[int] | Tensor
MEMBERS, DOCUMENTS = 0, 1  # axes of a tensor (M, D, ...)


@dataclass(frozen=True)
class Embedding:
    """D documents as M members embed them."""

    vectors: Tensor  # (M, D, L): linguistic embedding vectors, the paper's LEV
    tokens: Tensor  # (D): how many were read
    parts: tuple[int, ...]  # widths of the parts of a vector: see ModelConfig.part_names
    cohort: Tensor | None = None  # (M, D, parts, 3), see cohort_measures; None without a cohort
    norm: Tensor | None = None  # (M, D): log norm of the last part before it was made one
    strangeness: Tensor | None = None  # (M, D): how far their kind of text is from those that the member knows
    neighbours: Tensor | None = None  # (M, D): how far their last part is from the nearest of the population
    population: Tensor | None = None  # (D): how far a population is known that they are from, 0 to 1

    OF_DOCUMENTS = ("tokens", "population")  # (D)
    OF_MEMBERS = ("vectors", "cohort", "norm", "strangeness", "neighbours")  # (M, D, ...)

    def __len__(self) -> int:
        return len(self.tokens)

    def _each(self, rows: Rows) -> dict[str, Tensor]:
        """What there is, of some documents."""
        found = {name: getattr(self, name) for name in (*self.OF_DOCUMENTS, *self.OF_MEMBERS)}
        return {
            name: tensor[rows] if name in self.OF_DOCUMENTS else tensor[:, rows]
            for name, tensor in found.items()
            if tensor is not None
        }

    def __getitem__(self, rows: Rows) -> Embedding:
        return Embedding(parts=self.parts, **self._each(rows))

    def to(self, device: torch.device) -> Embedding:
        return Embedding(parts=self.parts, **{k: v.to(device) for k, v in self._each(slice(None)).items()})

    def double(self) -> Embedding:
        return Embedding(parts=self.parts, **{k: v.double() for k, v in self._each(slice(None)).items()})

    @classmethod
    def join(cls, embeddings: Sequence[Embedding], dim: str) -> Embedding:
        """Of the same members, along `dim` "documents"; or of the same documents, along "members"."""
        axis = {"members": MEMBERS, "documents": DOCUMENTS}[dim]
        every = [embedding._each(slice(None)) for embedding in embeddings]
        joined = {}
        for name, first in every[0].items():
            if name in cls.OF_MEMBERS:
                joined[name] = torch.cat([each[name] for each in every], axis)
            else:
                joined[name] = torch.cat([each[name] for each in every]) if axis == DOCUMENTS else first
        return cls(parts=embeddings[0].parts, **joined)

    def pair(self, first: Rows, second: Rows) -> EmbeddingPair:
        """The documents of rows `first` (P) beside those of rows `second` (P)."""
        one, other = self[first], self[second]
        return EmbeddingPair(one.vectors, other.vectors, _evidence(one, other))


def _evidence(one: Embedding, other: Embedding) -> Tensor | None:
    if one.cohort is None or other.cohort is None:
        return None
    squares = (one.vectors - other.vectors).square().split(one.parts, -1)
    distance = torch.stack([part.sum(-1) for part in squares], -1)
    of_members, of_documents = torch.zeros_like(distance[..., 0]), torch.zeros_like(one.tokens)

    def both(first: Tensor | None, second: Tensor | None, unknown: Tensor) -> Tensor:
        return torch.stack([unknown if each is None else each for each in (first, second)])

    return evidence(
        distance,
        torch.stack([one.cohort, other.cohort]),
        torch.stack([one.tokens, other.tokens]),
        both(one.norm, other.norm, of_members),
        both(one.strangeness, other.strangeness, of_members),
        both(one.neighbours, other.neighbours, of_members),
        both(one.population, other.population, of_documents).amin(0),  # known of both, or of none
    )


@dataclass(frozen=True)
class EmbeddingPair:
    """P pairs as the scores read them."""

    first: Tensor  # (M, P, L)
    second: Tensor
    evidence: Tensor | None = None  # (M, P, E), see evidence.py; None without a cohort

    @classmethod
    def of(cls, first: Tensor, second: Tensor) -> EmbeddingPair:
        """Bare vectors (M, P, L), of which nothing else is known."""
        return cls(first, second)

    def __len__(self) -> int:
        return self.first.shape[1]

    def _map(self, function: Callable[[Tensor], Tensor]) -> EmbeddingPair:
        told = None if self.evidence is None else function(self.evidence)
        return EmbeddingPair(function(self.first), function(self.second), told)

    def __getitem__(self, pairs: Rows) -> EmbeddingPair:
        return self._map(lambda tensor: tensor[:, pairs])

    def detach(self) -> EmbeddingPair:
        return self._map(lambda tensor: tensor.detach())

    def expand(self, n_members: int) -> EmbeddingPair:
        """One member's pairs for so many that read the same."""
        return self._map(lambda tensor: tensor.expand(n_members, -1, -1))

    @staticmethod
    def join(pairs: Sequence[EmbeddingPair]) -> EmbeddingPair:
        told = [pair.evidence for pair in pairs if pair.evidence is not None]
        return EmbeddingPair(
            torch.cat([pair.first for pair in pairs], 1),
            torch.cat([pair.second for pair in pairs], 1),
            torch.cat(told, 1) if told else None,
        )

    @property
    def squares(self) -> Tensor:
        """(M, P, L)"""
        return (self.first - self.second).square()

    @property
    def distance(self) -> Tensor:
        """(M, P), squared"""
        return self.squares.sum(-1)
