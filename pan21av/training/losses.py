"""What is minimised. Each score is trained by its own loss only."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from ..network.embedding import EmbeddingPair
from ..network.scores import BFS, DML, UAL
from .settings import PairSettings


def dml_loss(p: Tensor, same: Tensor, settings: PairSettings) -> Tensor:
    """The paper's margins: a max(high - p, 0)^2 + (1 - a) max(p - low, 0)^2, mean over pairs (1, P)."""
    pull = F.relu(settings.dml_high - p).square()
    push = F.relu(p - settings.dml_low).square()
    return (same * pull + (1 - same) * push).mean()


def ual_loss(confusion: Tensor, p_ual: Tensor, same: Tensor, beta: float) -> Tensor:
    """Negative log-likelihood, minus beta times the entropy of the confusion matrix."""
    p = torch.where(same > 0.5, p_ual, 1 - p_ual).clamp_min(1e-7)
    entropy = -(confusion * confusion.clamp_min(1e-7).log()).sum((-1, -2))
    return (-p.log() - beta * entropy).mean()


class Heads(Protocol):
    """What learns from pairs of embeddings: a network's, the topic probe's, or a fold's."""

    @property
    def bfs(self) -> BFS: ...

    @property
    def ual(self) -> UAL: ...


def head_losses(heads: Heads, pair: EmbeddingPair, same: Tensor, ual_beta: float) -> tuple[Tensor, Tensor, Tensor]:
    """Losses of BFS and UAL on embeddings (1, P, L) that they do not change, UAL not changing BFS; and p_UAL (1, P)."""
    pair = pair.detach()
    logit = heads.bfs.log_ratio(pair)
    p_ual, confusion = heads.ual(pair, torch.sigmoid(logit).detach())
    bfs = F.binary_cross_entropy_with_logits(logit, same)
    return bfs, ual_loss(confusion, p_ual, same, ual_beta), p_ual.detach()


def contrastive_loss(y: Tensor, temperature: float) -> Tensor:
    """InfoNCE by distance: y (D, L), documents 2i and 2i + 1 by one author: each must find the other among all D."""
    distance = torch.cdist(y, y, compute_mode="donot_use_mm_for_euclid_dist").square()
    logits = (-distance / temperature).masked_fill(torch.eye(len(y), dtype=torch.bool, device=y.device), -torch.inf)
    partner = torch.arange(len(y), device=y.device) ^ 1
    return F.cross_entropy(logits, partner)


def all_pairs(dml: DML, y: Tensor) -> tuple[Tensor, Tensor]:
    """p_DML of all pairs of a contrastive batch y (D, L), and which of them are by one author, (P) each."""
    first, second = torch.triu_indices(len(y), len(y), 1, device=y.device)
    return dml(EmbeddingPair.of(y[None, first], y[None, second]))[0], second == (first ^ 1)


def all_pairs_loss(p: Tensor, same: Tensor) -> Tensor:
    """Cross-entropy of p (P), same and different authors weighing the same.

    The contrast above only ranks; this gives distances one scale for all documents.
    """
    p = p.clamp(1e-6, 1 - 1e-6)
    return -(p[same].log().mean() + torch.log1p(-p[~same]).mean()) / 2


def mean_records(records: list[dict[str, float]]) -> dict[str, float]:
    """Means over the steps of an epoch; what was never measured is left out."""
    measured = {name: [r[name] for r in records if not math.isnan(r[name])] for name in records[0]}
    return {name: sum(values) / len(values) for name, values in measured.items() if values}


def accuracy(said: Tensor, truth: Tensor) -> float:
    """Share of what is said rightly; chance is the share of the larger class."""
    return float((said == truth).float().mean())


def balanced_accuracy(said: Tensor, truth: Tensor) -> float:
    """Accuracy with both classes weighing the same, so that chance is a half; NaN without both."""
    rates = [(said == truth)[truth == side].float().mean() for side in (True, False) if (truth == side).any()]
    return float(torch.stack(rates).mean()) if len(rates) == 2 else float("nan")
