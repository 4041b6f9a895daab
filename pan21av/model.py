"""All members as one stacked network: documents to LEVs, pairs of LEVs to scores."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .config import ModelConfig
from .documents import Batch
from .encoder import Encoder
from .scores import BFS, DML, O2D2, UAL, LevPair, Linear
from .strangers import Strangers
from .style import Style


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
        self.metric = Linear(members, 2 * config.document_hidden, config.lev_dim - config.style_dim)
        self.style = Style(members, config) if config.style_dim else None
        self.strangers = Strangers(members, config) if config.strangers else None
        self.dml = DML(members, official)
        self.bfs = BFS(members, config.lev_dim, config.bfs_dim, official)
        self.ual = UAL(members, config.lev_dim, knows_length=config.strangers > 0)
        self.o2d2 = O2D2(members, config.lev_dim)

    def lev(self, vectors: Tensor, batch: Batch | None = None) -> Tensor:
        """Document vectors (M, D, 2H) of a batch -> linguistic embedding vectors (M, D, L) and what belongs to them."""
        parts = [self.metric(vectors)]
        if self.style is not None:
            assert batch is not None
            assert batch.usage is not None
            parts.append(self.style(batch.usage, batch.tokens))
        y = torch.tanh(torch.cat(parts, -1))
        if self.strangers is None:
            return y
        assert batch is not None
        behind = [self.strangers.behind(m, y[m], batch.tokens) for m in range(self.count)]
        return torch.cat([y, torch.stack(behind)], -1)

    def member_lev(self, m: int, vectors: Tensor, batch: Batch) -> Tensor:
        """One member: vectors (D, 2H) -> (D, L). In double precision: the last bits, which depend on
        the other documents of the batch, are then rounded away."""
        bias, weight = self.metric.bias[m].double(), self.metric.weight[m].double()
        parts = [torch.addmm(bias, vectors.double(), weight)]
        if self.style is not None:
            assert batch.usage is not None
            parts.append(self.style.member(m, batch.usage.double(), batch.tokens))
        y = torch.cat(parts, -1).tanh()
        if self.strangers is not None:
            y = torch.cat([y, self.strangers.behind(m, y, batch.tokens)], -1)
        return y.float()

    def pair(self, first: Tensor, second: Tensor) -> LevPair:
        """What `lev` gave for the first and second documents of P pairs, (M, P, ...) each, side by side."""
        if self.strangers is None:
            return LevPair(first, second, first, second)
        return self.strangers.pair(first, second)

    def score(self, pair: LevPair) -> Scores:
        p_bfs = torch.sigmoid(self.bfs(pair.bare1, pair.bare2))
        confusion = self.ual.confusion(pair.y1, pair.y2, lengths=pair.lengths)
        p_ual = self.ual.correct(confusion, p_bfs)
        undecidable = torch.sigmoid(self.o2d2.logit(pair.y1, pair.y2, confusion))
        return Scores(self.dml(pair.y1, pair.y2), p_bfs, p_ual, confusion, undecidable)
