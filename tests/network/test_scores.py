"""Scores against independent formulas: densities, and the equations written out."""

import math

import numpy as np
import pytest
import torch
from torch.distributions import MultivariateNormal

from pan21av.network.embedding import EmbeddingPair
from pan21av.network.evidence import n_evidence
from pan21av.network.scores import BFS, DML, O2D2, UAL, Told


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


def told_of(score, found: np.ndarray, m: int) -> np.ndarray:
    """Evidence as a score reads it: no more than four deviations from the mean."""
    return np.clip((found - score.told.mean[m].numpy()) * score.told.scale[m].numpy(), -4, 4)


def test_evidence_is_standardised_and_clipped():
    told = Told(1, 3).double()
    told.mean.data[0] = torch.tensor([1.0, 0.0, -100.0])
    told.scale.data[0] = torch.tensor([2.0, 0.5, 1.0])
    y = torch.zeros(1, 2, 5)
    found = told(EmbeddingPair(y, y, torch.tensor([[[1.5, -2.0, 0.0], [-7.0, 1000.0, -103.0]]], dtype=torch.double)))
    assert found.tolist() == [[[1.0, -1.0, 4.0], [-4.0, 4.0, -3.0]]]
    assert not any(parameter.requires_grad for parameter in told.parameters())


TOLD = n_evidence(1)
SCANT = TOLD - 9  # the column that says how little text there is: before the other four of length and four of kind


def some_evidence(pairs: int) -> torch.Tensor:
    """(2, pairs, TOLD); how little text there is, both members are told alike."""
    found = 5 * vectors(2, pairs, TOLD)[0]
    found[1, :, SCANT] = found[0, :, SCANT]
    return found


@pytest.mark.parametrize("told", [0, TOLD])
def test_ual_literally(told):
    """Hidden layer of the squares, or of evidence instead, 2 x 2 logits, softmax over the rows. Evidence also moves the
    log odds of one author directly, whatever was decided."""
    ual = spread(UAL(2, 5, told))
    assert ual.hidden.weight.shape == ((2, TOLD, 60) if told else (2, 5, 10))
    y1, y2 = vectors(2, 7, 5)
    pair = EmbeddingPair(y1, y2, some_evidence(7) if told else None)
    confusion, familiar = ual.confusion(pair), ual.familiar(pair)
    assert (familiar is None) == (not told)
    for m in range(2):
        for n in range(7):
            x = told_of(ual, pair.evidence[m, n].numpy(), m) if told else np.square((y1[m, n] - y2[m, n]).numpy())
            hidden = np.tanh(x @ ual.hidden.weight[m].numpy() + ual.hidden.bias[m].numpy())
            logits = (hidden @ ual.logits.weight[m].numpy() + ual.logits.bias[m].numpy()).reshape(2, 2)  # (j, i)
            odds = logits[1] - logits[0]  # of one author, in logarithms, for either decision
            if told:
                odds = odds + x @ ual.direct.weight[m].numpy()[:, 0] + float(ual.direct.bias[m, 0])
                known = 1 / (1 + math.exp(-(x @ ual.kind.weight[m].numpy()[:, 0] + float(ual.kind.bias[m, 0]))))
                assert float(familiar[m, n]) == pytest.approx(known, rel=1e-10)
            expected = 1 / (1 + np.exp(-odds))
            np.testing.assert_allclose(confusion[m, n, 1], expected, rtol=1e-8, atol=1e-12)
            np.testing.assert_allclose(confusion[m, n, 0], 1 - expected, rtol=1e-8, atol=1e-12)


# ---- O2D2 ----


@pytest.mark.parametrize("told", [0, TOLD])
def test_o2d2_literally(told):
    """[(y1 - y2)^2, (y1 + y2)^2, M], or [evidence, M, certainty] -> tanh 60 -> tanh 30 -> sigmoid; certainty counts
    directly as well, evidence says how much is asked of texts of that length, and a strange kind of text adds to it as
    much as a familiar one takes off."""
    o2d2 = spread(O2D2(2, 5, told))
    y1, y2 = vectors(2, 7, 5)
    evidence = some_evidence(7) if told else None
    confusion, p_ual = torch.rand(2, 7, 2, 2, dtype=torch.double), torch.rand(2, 7, dtype=torch.double)
    familiar = torch.rand(2, 7, dtype=torch.double) if told else None
    found = o2d2(EmbeddingPair(y1, y2, evidence), confusion, p_ual, familiar)
    for m in range(2):
        layers = [(layer.weight[m].numpy(), layer.bias[m].numpy()) for layer in o2d2.layers]
        assert [bias.shape for _, bias in layers] == [(60,), (30,), (1,)]
        for n in range(7):
            one, other, matrix = y1[m, n].numpy(), y2[m, n].numpy(), confusion[m, n].numpy().flatten()
            # How far the decision is from a coin's, 0 to 1.
            certainty = 2 * max(float(p_ual[m, n]), 1 - float(p_ual[m, n])) - 1
            if told:
                x = np.concatenate([told_of(o2d2, evidence[m, n].numpy(), m), matrix, [certainty]])
            else:
                x = np.concatenate([(one - other) ** 2, (one + other) ** 2, matrix])
            for weight, bias in layers[:-1]:
                x = np.tanh(x @ weight + bias)
            logit = (x @ layers[-1][0] + layers[-1][1])[0]
            if told:
                constant, linear, square, beyond = o2d2.least[m].tolist()
                scant = float(evidence[m, n, SCANT])  # as it is, not standardised
                logit += float(o2d2.direct[m, 0]) * certainty
                within = min(scant, 0.6)
                logit -= constant + linear * within + square * within**2 + beyond * (scant - within)
                logit += float(o2d2.strange[m, 0]) * (0.5 - float(familiar[m, n]))
            assert float(found[m, n]) == pytest.approx(1 / (1 + math.exp(-logit)), rel=1e-9)


def test_o2d2_is_as_certain_either_way():
    """What counts is how certain UAL is, not of what."""
    o2d2 = spread(O2D2(2, 5, TOLD))
    pair, confusion = EmbeddingPair(*vectors(2, 7, 5), some_evidence(7)), torch.rand(2, 7, 2, 2, dtype=torch.double)
    p = torch.tensor([0.0, 0.125, 0.25, 0.5, 0.75, 0.875, 1.0], dtype=torch.double).expand(2, 7)
    familiar = torch.rand(2, 7, dtype=torch.double)
    assert torch.equal(o2d2(pair, confusion, p, familiar), o2d2(pair, confusion, 1 - p, familiar))


def test_new_scores_ask_no_more_of_short_texts():
    o2d2 = O2D2(2, 5, TOLD)
    for parameter in (o2d2.least, o2d2.strange):
        assert not parameter.any()
        assert not parameter.requires_grad


def test_familiarity_is_told_the_last_of_the_evidence():
    """What comes before moves the posterior alone."""
    ual = spread(UAL(2, 5, 9, 6))
    g = torch.Generator().manual_seed(0)
    told, y = torch.randn(2, 8, 9, generator=g), torch.zeros(2, 8, 5)
    other = torch.cat([told[..., :3] + 1, told[..., 3:]], -1)
    one, moved = EmbeddingPair(y, y, told), EmbeddingPair(y, y, other)
    assert torch.equal(ual.familiar(one), ual.familiar(moved))
    p_bfs = torch.full((2, 8), 0.4)
    assert not torch.allclose(ual(one, p_bfs)[0], ual(moved, p_bfs)[0], atol=1e-4)
