"""Scores against independent formulas."""

import pytest
import torch
from conftest import TINY, random_members
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import MultivariateNormal

from pan21av.scores import BFS, DML, UAL


@pytest.mark.parametrize(("lev", "dim", "seed"), [(60, 40, 0), (9, 4, 1), (3, 1, 2), (20, 12, 3)])
def test_bfs_is_the_likelihood_ratio(lev, dim, seed):
    """Against the joint density of both vectors under one and under two authors."""
    torch.manual_seed(seed)
    bfs = BFS(2, lev, dim, official=False).double()
    for parameter in bfs.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    y1, y2 = torch.randn(2, 2, 7, lev, dtype=torch.double)
    ratio = bfs.log_likelihood_ratio(y1, y2)
    for m in range(2):
        between = torch.linalg.inv(bfs.precision(bfs.between[m]))
        within = torch.linalg.inv(bfs.precision(bfs.within[m]))
        mean, z1, z2 = bfs.mean[m], bfs.project(y1)[m], bfs.project(y2)[m]
        total = between + within
        joint = torch.cat([torch.cat([total, between], 1), torch.cat([between, total], 1)])
        one = MultivariateNormal(mean.repeat(2), joint).log_prob(torch.cat([z1, z2], -1))
        alone = MultivariateNormal(mean, total)
        two = alone.log_prob(z1) + alone.log_prob(z2)
        torch.testing.assert_close(ratio[m], one - two, atol=1e-5, rtol=1e-5)


def test_dml_formula():
    dml = DML(1, official=False)
    y1, y2 = torch.randn(2, 1, 50, 6)
    distance = torch.cdist(y1[0][:, None], y2[0][:, None]).flatten() ** 2
    torch.testing.assert_close(dml(y1, y2)[0], torch.exp(-0.09 * distance**1.5), atol=1e-6, rtol=1e-5)
    assert dml(y1, y1).min() > 0.999
    (gradient,) = torch.autograd.grad(dml(y1.requires_grad_(), y1.detach()).sum(), y1)
    assert torch.isfinite(gradient).all()


def test_ual_columns_sum_to_one_and_correct_is_a_distribution():
    torch.manual_seed(0)
    ual = UAL(3, 9)
    y1, y2 = torch.randn(2, 3, 40, 9)
    confusion = ual.confusion(y1, y2)
    torch.testing.assert_close(confusion.sum(-2), torch.ones(3, 40, 2))
    p = torch.rand(3, 40)
    same = ual.correct(confusion, p)
    posterior = (confusion @ torch.stack([1 - p, p], -1)[..., None]).squeeze(-1)  # sum over i of M[j, i] p(i)
    torch.testing.assert_close(posterior[..., 1], same)
    torch.testing.assert_close(posterior.sum(-1), torch.ones(3, 40))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12))
def test_scores_are_symmetric_and_probabilities(seed, pairs):
    members = random_members(3)
    generator = torch.Generator().manual_seed(seed)
    y1, y2 = torch.rand(2, 3, pairs, TINY.lev_dim, generator=generator) * 2 - 1
    one, other = members.score(members.pair(y1, y2)), members.score(members.pair(y2, y1))
    for name in ("dml", "bfs", "ual", "confusion", "o2d2"):
        values = getattr(one, name)
        assert torch.equal(values, getattr(other, name)), name
        assert ((values >= 0) & (values <= 1)).all(), name
