"""Scores against independent formulas: densities, and the equations written out."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal

from pan21av.network.embedding import EmbeddingPair
from pan21av.network.scores import BFS, DML, O2D2, UAL


def spread(module, seed=0):
    """The module in double precision, with weights that are not at their start."""
    module = module.double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.double)
    return module.requires_grad_(False)


def vectors(*shape, seed=0):
    return torch.rand(2, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.double) * 2 - 1


# ---- DML ----


def test_dml_formula():
    dml = DML(1)
    y1, y2 = vectors(1, 50, 6).float()
    distance = torch.cdist(y1[0][:, None], y2[0][:, None]).flatten() ** 2
    expected = torch.exp(-0.09 * distance**1.5)
    torch.testing.assert_close(dml(EmbeddingPair.of(y1, y2))[0], expected, atol=1e-6, rtol=1e-5)


def test_dml_at_distance_zero():
    """d^alpha has no slope there: the gradient must be finite all the same."""
    dml = DML(1)
    y, _ = vectors(1, 5, 6).float()
    p = dml(EmbeddingPair.of(y.requires_grad_(), y.detach()))
    assert p.min() > 0.999
    assert torch.isfinite(torch.autograd.grad(p.sum(), y)[0]).all()


def test_published_kernel_literally():
    """exp(-alpha D^beta) + 1e-8, D = sum((y1 - y2)^2 + 1e-8) + 1e-8; its alpha and beta are our gamma and alpha."""
    dml = spread(DML(2, "published"))
    y1, y2 = vectors(2, 9, 5)
    y2[:, 0] = y1[:, 0]  # where only the small terms are left
    found = dml(EmbeddingPair.of(y1, y2))
    for m in range(2):
        alpha, beta = math.exp(dml.log_gamma[m]), math.exp(dml.log_alpha[m])
        for n in range(9):
            d = 1e-8
            for a, b in zip(y1[m, n].tolist(), y2[m, n].tolist(), strict=True):
                d += (a - b) ** 2 + 1e-8
            assert float(found[m, n]) == pytest.approx(math.exp(-alpha * d**beta) + 1e-8, rel=1e-13, abs=0)


# ---- BFS ----


@pytest.mark.parametrize(("lev", "dim", "seed"), [(60, 40, 0), (9, 4, 1), (3, 1, 2), (20, 12, 3)])
def test_bfs_is_the_likelihood_ratio(lev, dim, seed):
    """Against the joint density of both vectors under one and under two authors."""
    bfs = spread(BFS(2, lev, dim), seed)
    y1, y2 = 2 * vectors(2, 7, lev, seed=seed)
    ratio = bfs.log_ratio(EmbeddingPair.of(y1, y2))
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
    torch.testing.assert_close(bfs(EmbeddingPair.of(y1, y2)), 1 / (1 + (-ratio).exp()))


def numpy_precision(factor):
    """C C' + 1e-6 I, C the upper triangle with its diagonal exponentiated."""
    dim = len(factor)
    c = np.zeros((dim, dim))
    for i in range(dim):
        for j in range(i, dim):
            c[i, j] = math.exp(factor[i, j]) if i == j else factor[i, j]
    return c @ c.T + 1e-6 * np.eye(dim)


def test_published_score_literally():
    """LLR = y1'A y2 + y2'A y1 + y1'G y1 + y2'G y2 + (y1 + y2)'c + k; not a likelihood ratio, but what it computes."""
    dim = 4
    bfs = spread(BFS(2, 9, dim, "published"), seed=3)
    x1, x2 = vectors(2, 6, 9, seed=4)
    found = bfs.log_ratio(EmbeddingPair.of(x1, x2))
    for m in range(2):
        precision_b, precision_w = (numpy_precision(f[m].numpy()) for f in (bfs.between, bfs.within))
        b, w, mu = precision_b, precision_w, bfs.mean[m].numpy()
        lam = np.linalg.inv(b + 2 * w + 1e-6 * np.eye(dim))
        gam = np.linalg.inv(b + w + 1e-6 * np.eye(dim))
        a = w @ lam @ w / 2
        g = w @ (lam - gam) @ w / 2
        c = w @ (lam - gam) @ b @ mu
        log_det = {name: math.log(np.linalg.det(s)) for name, s in (("gam", gam), ("b", b), ("lam", lam))}
        k = 2 * log_det["gam"] - log_det["b"] - log_det["lam"] + mu @ b @ mu
        k += (b @ mu) @ (lam - 2 * gam) @ (b @ mu) / 2
        weight, bias = bfs.projection.weight[m].numpy(), bfs.projection.bias[m].numpy()
        for n in range(6):
            y1, y2 = (np.maximum(x[m, n].numpy() @ weight + bias, 0) for x in (x1, x2))
            expected = y1 @ a @ y2 + y2 @ a @ y1 + y1 @ g @ y1 + y2 @ g @ y2 + (y1 + y2) @ c + k
            assert float(found[m, n]) == pytest.approx(expected, rel=1e-9, abs=1e-9)


# ---- UAL ----


def test_ual_columns_sum_to_one_and_correct_is_a_distribution():
    ual = spread(UAL(3, 9))
    pair = EmbeddingPair.of(*vectors(3, 40, 9))
    confusion = ual.confusion(pair)
    torch.testing.assert_close(confusion.sum(-2), torch.ones(3, 40, 2, dtype=torch.double))
    p = torch.rand(3, 40, dtype=torch.double)
    same = ual.correct(confusion, p)
    posterior = (confusion @ torch.stack([1 - p, p], -1)[..., None]).squeeze(-1)  # sum over i of M[j, i] p(i)
    torch.testing.assert_close(posterior[..., 1], same)
    torch.testing.assert_close(posterior.sum(-1), torch.ones(3, 40, dtype=torch.double))
    torch.testing.assert_close(ual(pair, p)[0], same)


@pytest.mark.parametrize("knows_length", [False, True])
def test_ual_literally(knows_length):
    """Hidden layer of the squares (and lengths), 2 x 2 logits, less certain for less text, softmax over the rows."""
    ual = spread(UAL(2, 5, knows_length))
    y1, y2 = vectors(2, 7, 5)
    lengths = vectors(7)[0][:, None] * torch.tensor([1.0, -2.0], dtype=torch.double) if knows_length else None
    found = ual.confusion(EmbeddingPair(y1, y2, y1, y2, lengths))
    for m in range(2):
        for n in range(7):
            x = np.square((y1[m, n] - y2[m, n]).numpy())
            if knows_length:
                x = np.concatenate([x, lengths[n].numpy()])
            hidden = np.tanh(x @ ual.hidden.weight[m].numpy() + ual.hidden.bias[m].numpy())
            logits = hidden @ ual.logits.weight[m].numpy() + ual.logits.bias[m].numpy()
            if knows_length:
                logits = logits * math.exp(float(ual.slope[m]) * float(lengths[n, 0]))
            odds = np.exp(logits).reshape(2, 2)  # (j, i)
            np.testing.assert_allclose(found[m, n], odds / odds.sum(0), rtol=1e-10)


# ---- O2D2 ----


def test_o2d2_literally():
    """[(y1 - y2)^2, (y1 + y2)^2, M] -> tanh 60 -> tanh 30 -> sigmoid."""
    o2d2 = spread(O2D2(2, 5))
    y1, y2 = vectors(2, 7, 5)
    confusion = torch.rand(2, 7, 2, 2, dtype=torch.double)
    found = o2d2(EmbeddingPair.of(y1, y2), confusion)
    for m in range(2):
        layers = [(layer.weight[m].numpy(), layer.bias[m].numpy()) for layer in o2d2.layers]
        assert [bias.shape for _, bias in layers] == [(60,), (30,), (1,)]
        for n in range(7):
            one, other = y1[m, n].numpy(), y2[m, n].numpy()
            x = np.concatenate([(one - other) ** 2, (one + other) ** 2, confusion[m, n].numpy().flatten()])
            for weight, bias in layers[:-1]:
                x = np.tanh(x @ weight + bias)
            expected = 1 / (1 + math.exp(-(x @ layers[-1][0] + layers[-1][1])[0]))
            assert float(found[m, n]) == pytest.approx(expected, rel=1e-10)
