"""The paper's fandom verifier: how much topic is left in the document vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..network.embedding import EmbeddingPair
from ..network.layers import Linear, draw_mask
from ..network.scores import BFS, DML, UAL
from ..vote import NON_RESPONSE
from .losses import dml_loss, head_losses
from .settings import Settings


class TopicProbe(nn.Module):
    """A second metric layer, DML, BFS and UAL that predict "same topic" from the document vectors: they only measure
    what topic is left in them, unless the gradient is reversed into the encoder. The kernel of DML stays as it starts,
    at 0.09 and 1.5."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        model = settings.model.encoder_alone
        self.settings, self.dropout = settings.pairs, settings.dropout.metric
        self.metric = Linear(1, 2 * model.document_hidden, model.lev_dim)
        self.dml = DML(1).requires_grad_(False)
        self.bfs = BFS(1, model.lev_dim, model.bfs_dim)
        self.ual = UAL(1, model.lev_dim)
        self.bfs.dropout = self.ual.dropout = self.dropout

    def loss(self, first: Tensor, second: Tensor, same: Tensor) -> tuple[Tensor, Tensor]:
        """Of document vectors (1, P, 2H) of both sides and the truth `same` (1, P): its loss DML + BFS + UAL, and what
        UAL says (1, P) bool"""
        pair = self.pair(first, second)
        bfs, ual, p_ual = head_losses(self, pair, same, self.settings.ual_beta)
        return dml_loss(self.dml(pair), same, self.settings) + bfs + ual, p_ual > NON_RESPONSE

    def pair(self, first: Tensor, second: Tensor) -> EmbeddingPair:
        """With masks of its own for each pair: the two documents have the same."""
        first, second = self._seen(first), self._seen(second)
        if self.training and self.dropout:
            mask = draw_mask(first.shape, self.dropout, first)
            first, second = first * mask, second * mask
        return EmbeddingPair.of(torch.tanh(self.metric(first)), torch.tanh(self.metric(second)))

    def _seen(self, vectors: Tensor) -> Tensor:
        reversal, x = self.settings.probe_reversal, vectors.detach()
        return (1 + reversal) * x - reversal * vectors if reversal else x  # equal to x, gradient -reversal
