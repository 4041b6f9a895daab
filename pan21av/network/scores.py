"""Two embeddings to what each member says of them: DML, BFS, UAL and O2D2.

Called with an EmbeddingPair of P pairs, every score gives a probability (M, P), UAL its confusion matrices beside it;
it takes from the pair what it reads, owns its dropout, and is the same, to the last bit, with the two documents
exchanged.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .embedding import EmbeddingPair
from .evidence import parabola, scantness
from .layers import Linear

SOFTEN = 1e-6  # keeps covariances invertible
OPEN_UNTIL = 0.6  # scantness, of two texts of 730 tokens: see least_terms


class DML(nn.Module):
    """Deep metric learning: p = exp(-gamma d^alpha) of the squared distance d."""

    def __init__(self, n_members: int, variant: str = "paper") -> None:
        super().__init__()
        self.variant = variant
        self.log_gamma = nn.Parameter(torch.full((n_members,), 0.09).log())
        self.log_alpha = nn.Parameter(torch.full((n_members,), 1.5).log())

    def forward(self, pair: EmbeddingPair) -> Tensor:
        """-> p(same author) (M, P)"""
        floor = 1e-8
        gamma, alpha = self.log_gamma.exp()[:, None], self.log_alpha.exp()[:, None]
        if self.variant == "published":
            distance = (pair.squares + floor).sum(-1) + floor
            return torch.exp(-gamma * distance**alpha) + floor
        return torch.exp(-gamma * pair.distance.clamp_min(floor) ** alpha)  # d^alpha has no slope at 0


class BFS(nn.Module):
    """Bayes factor scoring: PLDA in its two-covariance form, y' = s + n, s ~ N(mu, B^-1), n ~ N(0, W^-1)."""

    def __init__(self, n_members: int, lev_dim: int, dim: int, variant: str = "paper") -> None:
        super().__init__()
        self.variant = variant
        self.dropout = 0.0
        self.projection = Linear(n_members, lev_dim, dim)
        self.between = nn.Parameter(torch.zeros(n_members, dim, dim))
        self.within = nn.Parameter(torch.zeros(n_members, dim, dim))
        self.mean = nn.Parameter(torch.zeros(n_members, dim))
        with torch.no_grad():
            self.within.add_(0.5 * torch.eye(dim))  # authors vary more than an author does

    def forward(self, pair: EmbeddingPair) -> Tensor:
        """-> p(same author) (M, P), for even odds"""
        return torch.sigmoid(self.log_ratio(pair))

    def log_ratio(self, pair: EmbeddingPair) -> Tensor:
        """log p(both | one author) - log p(both | two authors) -> (M, P); the logit of `forward`"""
        first, second = pair.first, pair.second
        if self.training and self.dropout:
            keep = F.dropout(torch.ones_like(first), self.dropout)  # shared by the two documents
            first, second = first * keep, second * keep
        z1, z2 = self.project(first), self.project(second)
        between, within = self.precision(self.between), self.precision(self.within)
        ratio = self._published if self.variant == "published" else self._exact
        return ratio(z1, z2, between, within)

    def project(self, y: Tensor) -> Tensor:
        projected: Tensor = self.projection(y)
        return projected.relu() if self.variant == "published" else projected.tanh()

    @staticmethod
    def precision(factor: Tensor) -> Tensor:
        """Positive definite from any square matrix: C C' + 1e-6 I, C upper triangular, diagonal exp."""
        upper = factor.triu(1) + torch.diag_embed(factor.diagonal(dim1=-2, dim2=-1).exp())
        return upper @ upper.mT + SOFTEN * torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)

    def _exact(self, z1: Tensor, z2: Tensor, between: Tensor, within: Tensor) -> Tensor:
        """The likelihood ratio of the two-covariance model, from projections (M, P, D)."""
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

    def _published(self, z1: Tensor, z2: Tensor, between: Tensor, within: Tensor) -> Tensor:
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


class Told(nn.Module):
    """The last numbers of the evidence (M, P, E), as many as are told, as scores read them: standardised, and clipped
    where calibration had nothing like it."""

    LIMIT = 4.0

    def __init__(self, n_members: int, size: int) -> None:
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(n_members, size), requires_grad=False)
        self.scale = nn.Parameter(torch.ones(n_members, size), requires_grad=False)

    def forward(self, pair: EmbeddingPair) -> Tensor:
        standard = (self.read(pair) - self.mean[:, None]) * self.scale[:, None]
        return standard.clamp(-self.LIMIT, self.LIMIT)

    def read(self, pair: EmbeddingPair) -> Tensor:
        assert pair.evidence is not None
        return pair.evidence[..., -self.mean.shape[-1] :]


class UAL(nn.Module):
    """Uncertainty adaptation: a confusion matrix for each pair corrects the BFS posterior.

    It reads the squared differences, as in the paper; or, where there is `told` evidence of so many numbers, that; of
    these `doubted` tell how familiar the kind of text is.
    """

    HIDDEN_TOLD = 60

    def __init__(self, n_members: int, lev_dim: int, told: int = 0, doubted: int = 0) -> None:
        super().__init__()
        self.dropout = 0.0
        self.told = Told(n_members, told) if told else None
        inputs, hidden = (told, self.HIDDEN_TOLD) if told else (lev_dim, 2 * lev_dim)
        self.hidden = Linear(n_members, inputs, hidden)
        self.logits = Linear(n_members, hidden, 4)
        # What needs no hidden layer.
        self.direct = Linear(n_members, told, 1) if told else None
        # How familiar the kind of text is. It moves nothing here: O2D2 asks for it.
        self.kind = Linear(n_members, doubted or told, 1) if told else None

    def forward(self, pair: EmbeddingPair, p_bfs: Tensor) -> tuple[Tensor, Tensor]:
        """-> p(same author) (M, P), and the confusion matrices that it comes from (M, P, 2, 2)"""
        confusion = self.confusion(pair)
        return self.correct(confusion, p_bfs), confusion

    def confusion(self, pair: EmbeddingPair) -> Tensor:
        """C[..., j, i] = p(H_j | decided for H_i): columns sum to one -> (M, P, 2, 2)"""
        x = pair.squares if self.told is None else self.told(pair)
        if self.training and self.dropout and self.told is None:
            x = F.dropout(x, self.dropout)
        logits = self.logits(F.dropout(torch.tanh(self.hidden(x)), self.dropout, self.training)).unflatten(-1, (2, 2))
        if self.direct is not None:
            towards = self.direct(x)[..., None] / 2
            logits = logits + torch.cat([-towards, towards], -2)
        return logits.softmax(-2)

    def familiar(self, pair: EmbeddingPair) -> Tensor | None:
        """-> p(the pair is of a kind of text that the member was made of) (M, P); None where nothing is told"""
        if self.told is None or self.kind is None:
            return None
        told = self.told(pair)
        kind: Tensor = self.kind(told[..., -self.kind.weight.shape[1] :]).squeeze(-1)
        return torch.sigmoid(kind)

    @staticmethod
    def correct(confusion: Tensor, p_bfs: Tensor) -> Tensor:
        """p_BFS (M, P) -> p(same author) (M, P)"""
        return confusion[..., 1, 0] * (1 - p_bfs) + confusion[..., 1, 1] * p_bfs


def least_terms(scant: Tensor) -> Tensor:
    """Scantness of text (P) -> (P, 4): a parabola in it up to OPEN_UNTIL, and how far it is beyond.

    On short texts most decisions are poor, yet to leave all of them open helps nobody. On the shortest, members doubt
    for no common reason: a majority hardly ever abstains together, and the mean of the others is no better than that of
    all. So there ever fewer pairs are left open.
    """
    within = scant.clamp_max(OPEN_UNTIL)
    return torch.cat([parabola(within), (scant - within)[:, None]], -1)


class O2D2(nn.Module):
    """Out-of-distribution detector: p(H2), "this pair cannot be decided".

    It reads squared differences and sums and UAL's confusion matrix, as in the paper; or, where there is `told`
    evidence of so many numbers, that in place of the squares, and how certain UAL is.
    """

    HIDDEN = (60, 30)

    def __init__(self, n_members: int, lev_dim: int, told: int = 0) -> None:
        super().__init__()
        self.dropout = 0.0  # before each layer
        self.told = Told(n_members, told) if told else None
        sizes = (told + 5 if told else 2 * lev_dim + 4, *self.HIDDEN, 1)
        self.layers = nn.ModuleList(Linear(n_members, i, o) for i, o in pairwise(sizes))
        # Of how certain UAL is, without a hidden layer.
        self.direct = nn.Parameter(torch.zeros(n_members, 1)) if told else None
        # What a strange kind of text adds: there a member has to be surer.
        self.strange = nn.Parameter(torch.zeros(n_members, 1), requires_grad=False) if told else None
        # How undecidable a pair of its length must be at least: see least_terms.
        self.least = nn.Parameter(torch.zeros(n_members, 4), requires_grad=False) if told else None

    def forward(self, pair: EmbeddingPair, confusion: Tensor, p_ual: Tensor, familiar: Tensor | None) -> Tensor:
        """-> p(undecidable) (M, P)"""
        return torch.sigmoid(self.logit(pair, confusion, p_ual, familiar))

    def logit(self, pair: EmbeddingPair, confusion: Tensor, p_ual: Tensor, familiar: Tensor | None) -> Tensor:
        """What UAL says: its confusion matrices (M, P, 2, 2), posterior and familiarity (M, P) -> (M, P)"""
        certainty = (2 * p_ual - 1).abs()
        if self.told is None:
            parts = [pair.squares, (pair.first + pair.second).square(), confusion.flatten(-2)]
        else:
            parts = [self.told(pair), confusion.flatten(-2), certainty[..., None]]
        x = torch.cat(parts, -1)
        for layer in self.layers:
            x = layer(F.dropout(x, self.dropout, self.training))
            if layer is not self.layers[-1]:
                x = torch.tanh(x)
        logit = x.squeeze(-1)
        if self.direct is None or self.strange is None or self.least is None or familiar is None:
            return logit
        least = self.least @ least_terms(scantness(pair)).T
        return logit + self.direct * certainty + self.strange * (0.5 - familiar) - least
