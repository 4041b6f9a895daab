"""All members as one stacked network: documents to embeddings, pairs of them to scores."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from ..data.batch import Batch
from ..vote import SCORES
from .cohort import Cohort
from .embedding import Embedding, EmbeddingPair
from .encoder import Encoder
from .layers import Dropout, Linear, shared_mask
from .lda import LDA
from .scores import BFS, DML, O2D2, UAL


@dataclass(frozen=True)
class Scores:
    """What every member says of every pair: (M, P), probabilities of "same author"."""

    dml: Tensor
    bfs: Tensor
    ual: Tensor
    o2d2: Tensor  # probability of "cannot be decided"
    confusion: Tensor  # (M, P, 2, 2), UAL's

    def stacked(self) -> Tensor:
        """(4, M, P) in the order of SCORES, on the CPU"""
        return torch.stack([getattr(self, name) for name in SCORES]).cpu()


class Network(nn.Module):
    """M members with equal dimensions and one vocabulary."""

    def __init__(self, config: ModelConfig, n_members: int, word_rows: int, char_rows: int) -> None:
        super().__init__()
        self.config = config
        self.metric_dropout = 0.0
        self.encoder = Encoder(config, n_members, word_rows, char_rows)
        self.metric = Linear(n_members, 2 * config.document_hidden, config.lev_parts[0])
        self.lda = LDA(n_members, config) if config.lda_dim else None
        self.cohort = Cohort(n_members, config) if config.cohort else None
        self.dml = DML(n_members, config.variant)
        self.bfs = BFS(n_members, config.lev_dim, config.bfs_dim, config.variant)
        self.ual = UAL(n_members, config.lev_dim, knows_length=config.cohort > 0)
        self.o2d2 = O2D2(n_members, config.lev_dim)

    @property
    def n_members(self) -> int:
        return len(self.metric.weight)

    def member(self, m: int) -> Network:
        """One member as a network of its own, on the same memory."""
        slices = {id(p): nn.Parameter(p.detach()[m : m + 1], p.requires_grad) for p in self.parameters()}
        return copy.deepcopy(self, slices)

    def use_dropout(self, dropout: Dropout) -> None:
        """In training mode, from now on."""
        self.encoder.dropout = self.encoder.window.dropout = self.encoder.document.dropout = dropout
        self.metric_dropout = self.bfs.dropout = self.ual.dropout = dropout.metric

    def embed(self, batch: Batch) -> Embedding:
        return self.embed_vectors(self.encoder(batch).vectors, batch)

    def encoder_part(self, vectors: Tensor) -> Tensor:
        """Document vectors (M, D, 2H) -> the part of the LEV that comes from the encoder, in their precision."""
        return torch.tanh(self.metric(shared_mask(vectors, self.metric_dropout, self.training)))

    def embed_vectors(self, vectors: Tensor, batch: Batch) -> Embedding:
        """Document vectors (M, D, 2H) of a batch -> its embedding.

        In double precision: the last bits, which depend on the other documents of the batch, are then rounded away.
        """
        parts = [self.encoder_part(vectors.double())]
        if self.lda is not None:
            assert batch.frequencies is not None
            parts.append(torch.tanh(self.lda(batch.frequencies.double(), batch.tokens)))
        y = torch.cat(parts, -1)
        distance = None if self.cohort is None else self.cohort(y).float()
        return Embedding(y.float(), batch.tokens, self.config.lev_parts, distance)

    def score(self, pair: EmbeddingPair) -> Scores:
        p_bfs = self.bfs(pair)
        p_ual, confusion = self.ual(pair, p_bfs)
        return Scores(self.dml(pair), p_bfs, p_ual, self.o2d2(pair, confusion), confusion)
