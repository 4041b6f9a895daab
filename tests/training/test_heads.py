"""Scores fitted outright, to pairs whose true posteriors we know."""

import math

import numpy as np
import pytest
import torch
from support import random_network
from torch.distributions import MultivariateNormal
from torch.nn import functional as F

from pan21av.metrics import auc
from pan21av.network.embedding import EmbeddingPair
from pan21av.network.scores import BFS, DML, UAL
from pan21av.training.calibration import Calibration, LabelledPairs, compute_views
from pan21av.training.fit_dml import fit_dml
from pan21av.training.fit_plda import fit_plda
from pan21av.training.fit_ual import MAX_TRUST, fit_ual
from pan21av.training.heads import HELD_OUT_DRAWS, fit_heads
from pan21av.training.prepared import CALIBRATE
from pan21av.training.streams import Stream


def test_dml_finds_the_kernel_that_made_the_pairs():
    """p(same) = exp(-0.4 d^2)"""
    g = torch.Generator().manual_seed(0)
    distance = torch.rand(1, 40_000, generator=g) * 3
    same = (torch.rand(1, 40_000, generator=g) < torch.exp(-0.4 * distance**2)).float()
    y = torch.zeros(1, 40_000, 2)
    dml = DML(1)
    fit_dml(dml, LabelledPairs(EmbeddingPair.of(y, torch.stack([distance.sqrt(), y[..., 0]], -1)), same))
    assert dml.log_gamma.exp().item() == pytest.approx(0.4, rel=0.05)
    assert dml.log_alpha.exp().item() == pytest.approx(2.0, rel=0.05)


def two_covariance_data(rng, authors, each):
    """Vectors of authors of two sources: 2 of 8 dimensions tell authors apart, another one a little, but sources much
    more."""
    between = np.diag([0.04, 0.03, 0.005, 0, 0, 0, 0, 0])
    within = 0.02 * np.eye(8) + 0.01  # the noise is correlated
    author = np.repeat(np.arange(authors), each)
    own = rng.multivariate_normal(np.zeros(8), between, authors)
    y = own[author] + rng.multivariate_normal(np.zeros(8), within, len(author))
    source = author % 2
    y[:, 2] += 1.5 * source
    return y, author, source, between, within


def plda_pairs(rng, y, author, source, count=3_000):
    pairs = []
    for _ in range(count):
        i = rng.integers(len(y))
        same = rng.random() < 0.5
        partners = author == author[i] if same else (author != author[i]) & (source == source[i])
        partners[i] = False
        pairs.append((i, rng.choice(np.flatnonzero(partners))))
    first, second = np.array(pairs).T
    tensor = torch.from_numpy(y).float()[None]
    same = torch.from_numpy(author[first] == author[second]).float()[None]
    return LabelledPairs(EmbeddingPair.of(tensor[:, first], tensor[:, second]), same), first, second


def test_plda_comes_near_to_the_likelihood_ratio():
    """On authors that it did not see, nearly as good as the densities that made them."""
    rng = np.random.default_rng(0)
    y, author, source, between, within = two_covariance_data(rng, 500, 4)
    seen = author < 350
    middle, new = (author >= 350) & (author < 425), author >= 425
    held_out, _, _ = plda_pairs(rng, y[middle], author[middle], source[middle])
    torch.manual_seed(0)
    bfs = BFS(1, 8, 3).requires_grad_(False)
    fit_plda(bfs, torch.from_numpy(y[seen]).float(), author[seen], source[seen], held_out)
    pairs, first, second = plda_pairs(rng, y[new], author[new], source[new])
    z = y[new].copy()
    z[:, 2] -= 1.5 * source[new]  # the densities know the sources
    total = torch.from_numpy(between + within)
    joint = torch.from_numpy(np.block([[between + within, between], [between, between + within]]))
    one, other = torch.from_numpy(z[first]), torch.from_numpy(z[second])
    alone = MultivariateNormal(torch.zeros(8).double(), total)
    ratio = MultivariateNormal(torch.zeros(16).double(), joint).log_prob(torch.cat([one, other], -1))
    ratio = (ratio - alone.log_prob(one) - alone.log_prob(other)).float()[None]

    def loss(logit):
        return float(F.binary_cross_entropy_with_logits(logit, pairs.same))

    fitted = bfs.log_ratio(pairs.pair)
    assert loss(ratio) < 0.6 < math.log(2), "the task can be solved at all"
    assert loss(fitted) < loss(ratio) + 0.02
    truth = pairs.same[0].bool().numpy()
    assert auc(truth, fitted[0].numpy()) > auc(truth, ratio[0].numpy()) - 0.02
    assert auc(truth, -pairs.pair.distance[0].numpy()) < auc(truth, fitted[0].numpy()) - 0.1


def pairs_by_length(count, generator):
    """Pairs whose logit is 2 exp(-0.5 scantness) (1 - distance + 0.7 scantness + unevenness)."""
    scantness = torch.rand(count, generator=generator) * 3 - 1.5
    distance = torch.rand(count, generator=generator) * 4 - 1
    unevenness = torch.rand(count, generator=generator)
    logit = 2 * torch.exp(-0.5 * scantness) * (1 - distance + 0.7 * scantness + unevenness)
    same = (torch.rand(count, generator=generator) < logit.sigmoid()).float()[None]
    y1, y2 = torch.zeros(1, count, 3), torch.zeros(1, count, 3)
    y2[..., 0] = (distance + 1).sqrt()
    pair = EmbeddingPair(y1, y2, y1, y2, torch.stack([scantness, unevenness], -1))
    return LabelledPairs(pair, same), logit.sigmoid()


@pytest.mark.slow
def test_ual_learns_what_length_means():
    generator = torch.Generator().manual_seed(3)
    torch.manual_seed(0)
    bfs, ual = BFS(1, 3, 2).requires_grad_(False), UAL(1, 3, knows_length=True).requires_grad_(False)
    bfs.projection.weight.zero_()  # says nothing: UAL must do it all
    fit_ual(ual, bfs, pairs_by_length(20_000, generator)[0], pairs_by_length(5_000, generator)[0], steps=800)
    (pair, _), truth = pairs_by_length(2_000, generator)
    said = ual(pair, torch.full((1, 2_000), 0.5))[0]
    assert float((said - truth).abs().mean()) < 0.03
    assert float(ual.slope) == pytest.approx(-0.5, abs=0.12)


@pytest.mark.parametrize("knows_length", [False, True])
def test_what_was_fitted_is_what_ual_says(knows_length):
    """The fitted formula is exactly a UAL: its loss on the held-out pairs is that of the network."""
    generator = torch.Generator().manual_seed(3)
    torch.manual_seed(0)
    bfs, ual = BFS(1, 3, 2).requires_grad_(False), UAL(1, 3, knows_length).requires_grad_(False)
    ual.logits.weight.zero_()  # the other hidden units say nothing at all, here
    held_out = pairs_by_length(2_000, generator)[0]
    loss = fit_ual(ual, bfs, pairs_by_length(4_000, generator)[0], held_out, steps=60)
    said = ual(held_out.pair, bfs(held_out.pair))[0]
    assert float(F.binary_cross_entropy(said, held_out.same)) == pytest.approx(loss, rel=1e-4)
    before = float(F.binary_cross_entropy(torch.full_like(said, 0.5), held_out.same))
    assert loss < before - 0.1
    # BFS may only move it by so much: logit +- MAX_TRUST.
    sure = [ual(held_out.pair, torch.full_like(said, p))[0].logit() for p in (0.0, 1.0)]
    scantness = held_out.pair.lengths[:, 0]
    g = (float(ual.slope) * scantness).exp() if knows_length else torch.ones_like(scantness)
    assert ((sure[1] - sure[0]) / g).abs().max() <= 2 * MAX_TRUST + 1e-3


# ---- all of them, on authors that the encoder never saw ----


@pytest.fixture(scope="module")
def fitted(corpus):
    """(figures of every epoch, held-out pairs, network) for a given scale of UAL's logits."""
    device = torch.device("cpu")

    def run(logit_scale: float):
        settings = corpus.settings.updated({"heads": {"logit_scale": logit_scale, "epochs": 3, "lr": 0.01}})
        network = random_network(1, settings.model, vocabulary=corpus.prepared.vocabulary)
        network.requires_grad_(True).eval()
        rng = np.random.default_rng(0)
        documents = corpus.prepared.documents(CALIBRATE)
        views = compute_views(network, corpus.prepared, documents, settings, rng, device)
        calibration = Calibration(views, corpus.prepared, settings, 7, device)
        records = []
        fit_heads(network, calibration, settings.heads, records.append, lambda: {"figure": 1.0})
        held_out = calibration.draw_many(calibration.for_o2d2, HELD_OUT_DRAWS, Stream.HELD_OUT_PAIRS)
        return records, held_out, network.requires_grad_(False)

    return {scale: run(scale) for scale in (1.0, 0.5)}


@pytest.mark.slow
def test_the_best_epoch_is_kept(fitted):
    """By the loss on the other half of the authors; the start counts as well."""
    records, held_out, network = fitted[1.0]
    assert [(r["stage"], r["epoch"], r["figure"]) for r in records] == [("heads", n, 1.0) for n in (1, 2, 3)]
    loss = float(F.binary_cross_entropy(network.score(held_out.pair).ual, held_out.same))
    least = min(r["held_out_loss"] for r in records)
    assert loss <= least + 1e-6
    assert not network.training


@pytest.mark.slow
def test_logits_are_scaled_at_the_end(fitted):
    (_, _, one), (_, _, other) = fitted[1.0], fitted[0.5]
    for mine, theirs in zip(one.ual.logits.parameters(), other.ual.logits.parameters(), strict=True):
        torch.testing.assert_close(0.5 * mine, theirs)
    for name, tensor in one.state_dict().items():
        if not name.startswith("ual.logits"):
            assert torch.equal(tensor, other.state_dict()[name]), name


@pytest.mark.slow
def test_the_encoder_is_left_alone(fitted, corpus):
    _, _, network = fitted[1.0]
    before = random_network(1, corpus.settings.model, vocabulary=corpus.prepared.vocabulary).state_dict()
    moved = {n.partition(".")[0] for n, tensor in network.state_dict().items() if not torch.equal(tensor, before[n])}
    assert moved == {"dml", "bfs", "ual"}
