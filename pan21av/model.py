"""All members as one stacked network: documents to LEVs, pairs of LEVs to scores."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .config import ModelConfig
from .encoder import Encoder
from .scores import BFS, DML, O2D2, UAL, Linear


@dataclass(frozen=True)
class Scores:
    """What every member says of every pair: (M, P), probabilities of "same author"."""

    dml: Tensor
    bfs: Tensor
    ual: Tensor
    confusion: Tensor  # (M, P, 2, 2)
    o2d2: Tensor  # probability of "cannot be decided"

    def cpu(self) -> Scores:
        return Scores(*(t.cpu() for t in (self.dml, self.bfs, self.ual, self.confusion, self.o2d2)))


class Members(nn.Module):
    """M members with equal dimensions and one vocabulary."""

    def __init__(self, config: ModelConfig, members: int, word_rows: int, char_rows: int) -> None:
        super().__init__()
        official = config.variant == "official"
        self.config, self.count = config, members
        self.encoder = Encoder(config, members, word_rows, char_rows)
        self.metric = Linear(members, 2 * config.document_hidden, config.lev_dim)
        self.dml = DML(members, official)
        self.bfs = BFS(members, config.lev_dim, config.bfs_dim, official)
        self.ual = UAL(members, config.lev_dim)
        self.o2d2 = O2D2(members, config.lev_dim)

    def lev(self, vectors: Tensor) -> Tensor:
        """Document vectors (M, D, 2H) -> linguistic embedding vectors (M, D, L)."""
        return torch.tanh(self.metric(vectors))

    def score(self, y1: Tensor, y2: Tensor) -> Scores:
        """LEVs (M, P, L) of the first and second documents of P pairs."""
        p_bfs = torch.sigmoid(self.bfs(y1, y2))
        confusion = self.ual.confusion(y1, y2)
        p_ual = self.ual.correct(confusion, p_bfs)
        undecidable = torch.sigmoid(self.o2d2.logit(y1, y2, confusion))
        return Scores(self.dml(y1, y2), p_bfs, p_ual, confusion, undecidable)
