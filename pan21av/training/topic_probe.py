"""The paper's fandom verifier: how much topic is left in the document vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..network.embedding import EmbeddingPair
from ..network.layers import Linear
from ..network.scores import BFS, DML
from .losses import dml_loss
from .settings import Settings


class TopicProbe(nn.Module):
    """A second DML + BFS head that predicts "same topic" from the document vectors: it only
    measures what topic is left in them, unless its gradient is reversed into the encoder."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        model = settings.model.encoder_alone
        self.settings = settings.pairs
        self.metric = Linear(1, 2 * model.document_hidden, model.lev_dim)
        self.dml = DML(1)
        self.bfs = BFS(1, model.lev_dim, model.bfs_dim)

    def forward(self, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        """Document vectors (1, P, 2H) of both sides -> p_DML(same topic), logit of p_BFS (1, P)"""
        pair = EmbeddingPair.of(*(torch.tanh(self.metric(self._seen(side))) for side in (first, second)))
        return self.dml(pair), self.bfs.log_ratio(pair.detach())

    def loss(self, first: Tensor, second: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
        """Its loss with the truth `same` (1, P), and what BFS says (1, P) bool"""
        p, logit = self(first, second)
        return dml_loss(p, same, self.settings) + F.binary_cross_entropy_with_logits(logit, same), logit > 0

    def _seen(self, vectors: Tensor) -> Tensor:
        reversal, x = self.settings.probe_reversal, vectors.detach()
        return (1 + reversal) * x - reversal * vectors if reversal else x  # equal to x, gradient -reversal
