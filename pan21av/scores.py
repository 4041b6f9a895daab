"""Two LEVs to a verdict of each member: DML, BFS, UAL and O2D2 (stacked over members M).

LEVs are (M, P, L) for P pairs. Everything is symmetric in the two documents, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .encoder import uniform

SOFTEN = 1e-6  # keeps covariances invertible


def affine(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(M, P, I) x (M, I, O) + (M, O) -> (M, P, O)"""
    return torch.baddbmm(bias[:, None], x, weight)


@dataclass(frozen=True)
class LevPair:
    """The LEVs of P pairs as the scores take them."""

    bare1: Tensor  # (M, P, L)
    bare2: Tensor
    y1: Tensor  # (M, P, L), in the pair's units (strangers.py), if there are any
    y2: Tensor
    lengths: Tensor | None = None  # (M, P, 2): how little text there is, and how uneven the two are

    @property
    def squares(self) -> Tensor:
        return (self.y1 - self.y2).square()

    @property
    def distance(self) -> Tensor:
        """(M, P)"""
        return self.squares.sum(-1)


class Linear(nn.Module):
    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = uniform(members, inputs, outputs, bound=(6 / (inputs + outputs)) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(members, outputs))

    def forward(self, x: Tensor) -> Tensor:
        return affine(x, self.weight, self.bias)


class DML(nn.Module):
    """Deep metric learning: p = exp(-gamma d^alpha) of the squared distance d."""

    def __init__(self, members: int, official: bool) -> None:
        super().__init__()
        self.official = official
        self.log_gamma = nn.Parameter(torch.full((members,), 0.09).log())
        self.log_alpha = nn.Parameter(torch.full((members,), 1.5).log())

    def forward(self, y1: Tensor, y2: Tensor) -> Tensor:
        """-> p_DML(same) (M, P)"""
        floor = 1e-8
        if self.official:
            distance = ((y1 - y2).square() + floor).sum(-1) + floor
        else:
            distance = (y1 - y2).square().sum(-1).clamp_min(floor)  # d^alpha has no slope at 0
        gamma, alpha = self.log_gamma.exp()[:, None], self.log_alpha.exp()[:, None]
        p = torch.exp(-gamma * distance**alpha)
        return p + floor if self.official else p


class BFS(nn.Module):
    """Bayes factor scoring with a two-covariance model: y' = s + n, s ~ N(mu, B^-1), n ~ N(0, W^-1)."""

    def __init__(self, members: int, lev_dim: int, dim: int, official: bool) -> None:
        super().__init__()
        self.official = official
        self.projection = Linear(members, lev_dim, dim)
        self.between = nn.Parameter(torch.zeros(members, dim, dim))
        self.within = nn.Parameter(torch.zeros(members, dim, dim))
        self.mean = nn.Parameter(torch.zeros(members, dim))
        with torch.no_grad():
            self.within.add_(0.5 * torch.eye(dim))  # authors vary more than an author does

    def project(self, y: Tensor) -> Tensor:
        projected = self.projection(y)
        return projected.relu() if self.official else projected.tanh()

    @staticmethod
    def precision(factor: Tensor) -> Tensor:
        """Positive definite from any square matrix: C C' + 1e-6 I, C upper triangular, diagonal exp."""
        upper = factor.triu(1) + torch.diag_embed(factor.diagonal(dim1=-2, dim2=-1).exp())
        return upper @ upper.mT + SOFTEN * torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)

    def log_likelihood_ratio(self, y1: Tensor, y2: Tensor) -> Tensor:
        """log p(y1, y2 | one author) - log p(y1, y2 | two authors) -> (M, P); y in LEV space."""
        z1, z2 = self.project(y1), self.project(y2)
        between, within = self.precision(self.between), self.precision(self.within)
        if self.official:
            return self._official(z1, z2, between, within)
        mean = (between @ self.mean[..., None]).squeeze(-1)  # B mu
        both, one = between + 2 * within, between + within
        chol_both, chol_one = torch.linalg.cholesky(both), torch.linalg.cholesky(one)
        chol_between = torch.linalg.cholesky(between)

        def quadratic(evidence: Tensor, chol: Tensor) -> Tensor:
            """g' S^-1 g = |L^-1 g|^2 with S = L L'"""
            g = evidence @ within + mean[:, None]
            return torch.linalg.solve_triangular(chol, g.mT, upper=False).square().sum(-2)

        def log_det(chol: Tensor) -> Tensor:
            return 2 * chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)

        constant = log_det(chol_one) - 0.5 * (log_det(chol_both) + log_det(chol_between) - (self.mean * mean).sum(-1))
        return (
            0.5 * quadratic(z1 + z2, chol_both)
            - 0.5 * (quadratic(z1, chol_one) + quadratic(z2, chol_one))
            + constant[:, None]
        )

    def _official(self, z1: Tensor, z2: Tensor, between: Tensor, within: Tensor) -> Tensor:
        """The published program's score; not a likelihood ratio, but its weights expect it."""
        soften = SOFTEN * torch.eye(between.shape[-1], dtype=between.dtype, device=between.device)
        lam = torch.linalg.inv(between + 2 * within + soften)
        gam = torch.linalg.inv(between + within + soften)
        b_mu = between @ self.mean[..., None]
        a = within @ lam @ within / 2
        g = within @ (lam - gam) @ within / 2
        c = within @ (lam - gam) @ b_mu
        k = (
            2 * torch.logdet(gam) - torch.logdet(between) - torch.logdet(lam)
            + (self.mean * b_mu.squeeze(-1)).sum(-1)
            + (b_mu.mT @ (lam - 2 * gam) @ b_mu).flatten() / 2
        )  # fmt: skip
        cross = 2 * ((z1 @ a) * z2).sum(-1)
        own = ((z1 @ g) * z1).sum(-1) + ((z2 @ g) * z2).sum(-1)
        return cross + own + ((z1 + z2) @ c).squeeze(-1) + k[:, None]

    def forward(self, y1: Tensor, y2: Tensor) -> Tensor:
        """-> logit of p_BFS(same) (M, P)"""
        return self.log_likelihood_ratio(y1, y2)


class UAL(nn.Module):
    """Uncertainty adaptation: a confusion matrix for each pair corrects the BFS posterior."""

    def __init__(self, members: int, lev_dim: int, knows_length: bool = False) -> None:
        super().__init__()
        self.hidden = Linear(members, lev_dim + 2 * knows_length, 2 * lev_dim)
        self.logits = Linear(members, 2 * lev_dim, 4)
        # Less text, less certain: how fast.
        self.slope = nn.Parameter(torch.zeros(members)) if knows_length else None

    def confusion(self, y1: Tensor, y2: Tensor, keep: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        """C[..., j, i] = p(H_j | decided for H_i): columns sum to one -> (M, P, 2, 2)

        `lengths` (M, P, 2) as in LevPair.
        """
        x = (y1 - y2).square()
        if lengths is not None:
            x = torch.cat([x, lengths], -1)
        hidden = torch.tanh(self.hidden(x))
        if keep is not None:
            hidden = hidden * keep
        logits = self.logits(hidden)
        if lengths is not None and self.slope is not None:
            logits = logits * (self.slope[:, None] * lengths[..., 0]).exp()[..., None]
        return logits.unflatten(-1, (2, 2)).softmax(-2)

    @staticmethod
    def correct(confusion: Tensor, p_bfs: Tensor) -> Tensor:
        """-> p_UAL(same) (M, P) from p_BFS(same)"""
        return confusion[..., 1, 0] * (1 - p_bfs) + confusion[..., 1, 1] * p_bfs


class O2D2(nn.Module):
    """Out-of-distribution detector: p(H2), "this pair cannot be decided"."""

    HIDDEN = (60, 30)

    def __init__(self, members: int, lev_dim: int) -> None:
        super().__init__()
        sizes = (2 * lev_dim + 4, *self.HIDDEN, 1)
        self.layers = nn.ModuleList(Linear(members, i, o) for i, o in pairwise(sizes))

    def logit(self, y1: Tensor, y2: Tensor, confusion: Tensor, dropout: float = 0.0) -> Tensor:
        """-> logit of p(H2) (M, P)"""
        x = torch.cat([(y1 - y2).square(), (y1 + y2).square(), confusion.flatten(-2)], -1)
        for layer in self.layers:
            x = layer(F.dropout(x, dropout, self.training))
            if layer is not self.layers[-1]:
                x = torch.tanh(x)
        return x.squeeze(-1)
