"""Scores fitted outright, to pairs whose true posteriors we know."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
from support import random_network
from torch.distributions import MultivariateNormal
from torch.nn import functional as F

from pan21av.metrics import auc
from pan21av.network.embedding import EmbeddingPair
from pan21av.network.scores import BFS, DML, UAL
from pan21av.training.calibration import LabelledPairs
from pan21av.training.fit_dml import fit_dml
from pan21av.training.fit_plda import Sample, fit_plda
from pan21av.training.fit_ual import MAX_TRUST, fit_ual
from pan21av.training.heads import FITTED_DRAWS, fit_heads, judge
from pan21av.training.member import full_model
from pan21av.training.stage2 import StageTwo
from pan21av.training.streams import Stream

ALL_KNOWN = torch.tensor([True])


def test_dml_finds_the_kernel_that_made_the_pairs():
    """p(same) = exp(-0.4 d^2)"""
    g = torch.Generator().manual_seed(0)
    distance = torch.rand(1, 40_000, generator=g) * 3
    same = (torch.rand(1, 40_000, generator=g) < torch.exp(-0.4 * distance**2)).float()
    y = torch.zeros(1, 40_000, 2)
    dml = DML(1)
    pair = EmbeddingPair.of(y, torch.stack([distance.sqrt(), y[..., 0]], -1))
    fit_dml(dml, LabelledPairs(pair, same, ALL_KNOWN.expand(40_000)))
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
    pair = EmbeddingPair.of(tensor[:, first], tensor[:, second])
    return LabelledPairs(pair, same, ALL_KNOWN.expand(count)), first, second


def test_plda_comes_near_to_the_likelihood_ratio():
    """On authors that it did not see, nearly as good as the densities that made them."""
    rng = np.random.default_rng(0)
    y, author, source, between, within = two_covariance_data(rng, 500, 4)

    def sample(which):
        return Sample(torch.from_numpy(y[which]).float(), author[which], source[which])

    one, other, new = author < 210, (author >= 210) & (author < 425), author >= 425
    folds = [
        (sample(seen), plda_pairs(rng, y[rest], author[rest], source[rest])[0])
        for seen, rest in ((one, other), (other, one))
    ]
    torch.manual_seed(0)
    bfs = BFS(1, 8, 3).requires_grad_(False)
    of_folds = fit_plda(bfs, sample(~new), folds)
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
    assert len(of_folds) == 2
    for of_fold in of_folds:  # fewer authors, but the same shrinkage and scale
        assert loss(fitted) - 0.01 < loss(of_fold.log_ratio(pairs.pair)) < loss(ratio) + 0.04
    assert loss(ratio) < 0.6 < math.log(2), "the task can be solved at all"
    assert loss(fitted) < loss(ratio) + 0.02
    truth = pairs.same[0].bool().numpy()
    assert auc(truth, fitted[0].numpy()) > auc(truth, ratio[0].numpy()) - 0.02
    assert auc(truth, -pairs.pair.distance[0].numpy()) < auc(truth, fitted[0].numpy()) - 0.08


def test_directions_without_variance_do_no_harm():
    """Not in half precision either, in which an ensemble is kept."""
    rng = np.random.default_rng(0)
    y, author, source, _, _ = two_covariance_data(rng, 40, 3)
    y = np.concatenate([y, 1e-9 * rng.normal(size=(len(y), 3))], 1)
    pairs, _, _ = plda_pairs(rng, y, author, source, count=200)
    everyone = Sample(torch.from_numpy(y).float(), author, source)
    bfs = BFS(1, 11, 11).requires_grad_(False)
    fit_plda(bfs, everyone, [(everyone, pairs), (everyone, pairs)])
    assert torch.isfinite(bfs.projection.weight.half()).all()
    assert torch.isfinite(bfs.log_ratio(pairs.pair)).all()


def test_a_fold_without_pairs_or_authors_chooses_nothing():
    rng = np.random.default_rng(0)
    y, author, source, _, _ = two_covariance_data(rng, 40, 3)
    pairs, _, _ = plda_pairs(rng, y, author, source, count=200)

    def sample(which):
        return Sample(torch.from_numpy(y[which]).float(), author[which], source[which])

    everyone, nobody = sample(slice(None)), sample(slice(0, 0))
    empty = LabelledPairs(pairs.pair[:0], pairs.same[:, :0], pairs.known[:0])
    torch.manual_seed(0)
    one, other = BFS(1, 8, 3).requires_grad_(False), BFS(1, 8, 3).requires_grad_(False)
    fit_plda(one, everyone, [(everyone, pairs)])
    _, of_nobody = fit_plda(other, everyone, [(everyone, pairs), (nobody, empty)])
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name
    assert torch.isfinite(of_nobody.log_ratio(pairs.pair)).all()


# ---- UAL ----

EVIDENCE = torch.tensor([1.5, -0.8, 0.0, 0.4])  # how the logit of made-up pairs depends on what is told of them
OFFSET = torch.tensor([3.0, -10.0, 0.5, 100.0])
SPREAD = torch.tensor([0.1, 5.0, 1.0, 20.0])


def told_pairs(count, generator, known=None):
    """Pairs of which four numbers are told, of very different sizes; and their true posteriors (P). Vectors that say
    nothing."""
    x = torch.randn(count, len(EVIDENCE), generator=generator).clamp(-3, 3)
    truth = torch.sigmoid(x @ EVIDENCE + 0.3)
    same = (torch.rand(count, generator=generator) < truth).float()[None]
    y = torch.rand(2, 1, count, 3, generator=generator)
    pair = EmbeddingPair(y[0], y[1], (OFFSET + SPREAD * x)[None])
    return LabelledPairs(pair, same, ALL_KNOWN.expand(count) if known is None else known(x)), truth


def scores_for_told_pairs():
    torch.manual_seed(0)
    bfs, ual = BFS(1, 3, 2).requires_grad_(False), UAL(1, 3, len(EVIDENCE)).requires_grad_(False)
    bfs.within += 1  # so that it says something, if nothing that is true
    return bfs, ual


def fit_told_pairs(ual, bfs, pairs, **options):
    fit_ual(ual, pairs, bfs(pairs.pair), **options)


def test_ual_learns_what_evidence_means():
    generator = torch.Generator().manual_seed(3)
    bfs, ual = scores_for_told_pairs()
    fit_told_pairs(ual, bfs, told_pairs(20_000, generator)[0], steps=300)
    (pair, _, _), truth = told_pairs(2_000, generator)
    said = ual(pair, bfs(pair))[0]
    assert float((said - truth).abs().mean()) < 0.03


def logistic(start, evidence, p_bfs, pairs):
    """p = p_BFS sigmoid(s + t) + (1 - p_BFS) sigmoid(s - t), with s a weighted sum of standardised evidence."""
    weights, bias, trust = start
    told = pairs.pair.evidence[0].double().numpy()
    x = np.clip((evidence.double().numpy() - told.mean(0)) / told.std(0, ddof=1), -4, 4)
    s = x @ weights + bias

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    return p_bfs * sigmoid(s + trust) + (1 - p_bfs) * sigmoid(s - trust)


def test_ual_begins_as_a_logistic_regression():
    """While its hidden layer says nothing."""
    generator = torch.Generator().manual_seed(3)
    bfs, ual = scores_for_told_pairs()
    ual.logits.weight.zero_()
    pairs, held_out = told_pairs(4_000, generator)[0], told_pairs(2_000, generator)[0]
    fit_told_pairs(ual, bfs, pairs, steps=60)
    p_bfs = bfs(held_out.pair)
    assert p_bfs.std() > 0.01
    bias = ual.logits.bias[0].double().numpy()
    trust = 2 * bias[0]
    np.testing.assert_allclose(bias, np.array([1, -1, -1, 1]) * trust / 2, atol=1e-7)
    assert 0 <= trust <= MAX_TRUST
    start = (ual.direct.weight[0, :, 0].double().numpy(), float(ual.direct.bias[0, 0]), trust)
    expected = logistic(start, held_out.pair.evidence[0], p_bfs[0].double().numpy(), pairs)
    said = ual(held_out.pair, p_bfs)[0]
    np.testing.assert_allclose(said[0], expected, atol=1e-5)
    truth = held_out.same[0].numpy()
    cross_entropy = -np.mean(np.where(truth == 1, np.log(expected), np.log(1 - expected)))
    assert cross_entropy < math.log(2) - 0.1


def test_hidden_units_whisper_at_the_start():
    """They are there to be trained, but must not spoil what was fitted."""
    generator = torch.Generator().manual_seed(3)
    bfs, ual = scores_for_told_pairs()
    pairs, held_out = told_pairs(4_000, generator)[0], told_pairs(2_000, generator)[0]
    fit_told_pairs(ual, bfs, pairs, steps=60)
    assert ual.logits.weight.any()
    said = ual(held_out.pair, bfs(held_out.pair))[0]
    ual.logits.weight.zero_()
    torch.testing.assert_close(ual(held_out.pair, bfs(held_out.pair))[0], said, atol=0.03, rtol=0)


def test_evidence_beyond_what_calibration_had_counts_as_the_edge_of_it():
    generator = torch.Generator().manual_seed(3)
    bfs, ual = scores_for_told_pairs()
    pairs = told_pairs(4_000, generator)[0]
    fit_told_pairs(ual, bfs, pairs, steps=20)
    pair = pairs.pair[:50]
    far, further = (EmbeddingPair(pair.first, pair.second, pair.evidence + k * SPREAD) for k in (20, 2_000))
    half = torch.full((1, 50), 0.5)
    assert torch.equal(ual(far, half)[0], ual(further, half)[0])


# ---- kinds of text that a member knows ----


def test_familiar_kinds_are_told_by_the_evidence():
    """p(familiar) = sigmoid(2 x), where x is the second number told, in its deviations."""
    generator = torch.Generator().manual_seed(3)
    bfs, ual = scores_for_told_pairs()

    def known(x):
        return torch.rand(len(x), generator=generator) < torch.sigmoid(2 * x[:, 1])

    fit_told_pairs(ual, bfs, told_pairs(20_000, generator, known)[0], steps=20)
    pairs = told_pairs(2_000, generator, known)[0]
    x = (pairs.pair.evidence[0, :, 1] - OFFSET[1]) / SPREAD[1]
    familiar = ual.familiar(pairs.pair)[0]
    assert float((familiar - torch.sigmoid(2 * x)).abs().mean()) < 0.03


def test_who_knows_every_kind_says_so():
    generator = torch.Generator().manual_seed(3)
    bfs, ual = scores_for_told_pairs()
    fit_told_pairs(ual, bfs, told_pairs(500, generator)[0], steps=20)
    familiar = ual.familiar(told_pairs(100, generator)[0].pair)
    assert torch.equal(familiar, torch.full((1, 100), 4.0).sigmoid())


# ---- all of them, on authors that the encoder never saw ----


def mislabel_first_fold(calibration, draw, documents, rng):
    pairs = draw(documents, rng)
    return pairs._replace(same=1 - pairs.same) if documents is calibration.folds[0] else pairs


@pytest.fixture(scope="module")
def fitted(corpus):
    """{setting: (figures of every epoch, folds and pairs of them, network before, network)}"""

    def run(mislabelled=False, **changes):
        settings = corpus.settings.updated(
            {"heads": {"epochs": 3, "lr": 0.01, **changes}, "calibration": {"cohort": 6}}
        )
        prepared = corpus.prepared.for_sources([1])
        network = random_network(1, full_model(settings, prepared), vocabulary=prepared.vocabulary)
        for part in (network.dml, network.bfs, network.ual):
            for name, parameter in part.named_parameters():
                parameter.requires_grad_(not name.startswith("told"))
        calibration = StageTwo(network, prepared, settings, 7, torch.device("cpu")).calibration
        if mislabelled:
            monkey.setattr(calibration, "draw", partial(mislabel_first_fold, calibration, calibration.draw))
        before, records = copy.deepcopy(network.state_dict()), []
        folds = fit_heads(network, calibration, settings.heads, records.append, lambda: {"figure": 1.0})
        monkey.undo()
        drawn = [calibration.draw_many(fold.documents, FITTED_DRAWS, Stream.HEAD_PAIRS) for fold in folds]
        return records, list(zip(folds, drawn, strict=True)), before, network.requires_grad_(False)

    monkey = pytest.MonkeyPatch()
    return {
        "plain": run(), "faster": run(lr=0.03), "mislabelled": run(mislabelled=True),
    }  # fmt: skip


@pytest.mark.slow
def test_the_best_epoch_is_kept(fitted):
    """By the loss of the folds' scores on their folds; the start counts as well."""
    records, folds, _, network = fitted["plain"]
    assert [(r["stage"], r["epoch"], r["figure"]) for r in records] == [("heads", n, 1.0) for n in (1, 2, 3)]
    judged = [judge(fold, pairs) for fold, pairs in folds]
    said = torch.cat([each.p_ual for each in judged], 1)
    loss = float(F.binary_cross_entropy(said, torch.cat([each.pairs.same for each in judged], 1)))
    assert loss <= min(r["held_out_loss"] for r in records) + 1e-6
    assert not network.training


@pytest.mark.slow
def test_scores_of_a_fold_learn_from_the_others_alone(fitted):
    """Where the first fold's labels are all wrong, its own scores are right of what they learnt from, and those of the
    second fold, which learnt from the first, are wrong."""
    _, folds, _, _ = fitted["mislabelled"]
    (first, first_pairs), (second, second_pairs) = folds
    for scores, learnt_from, right in ((first, second_pairs, True), (second, first_pairs, False)):
        ranked = auc(learnt_from.same[0].bool().numpy(), judge(scores, learnt_from).p_ual[0].numpy())
        assert ranked > 0.6 if right else ranked < 0.4


@pytest.mark.slow
def test_only_scores_learn(fitted):
    _, _, before, network = fitted["plain"]
    after = network.state_dict()
    moved = {name.partition(".")[0] for name, tensor in after.items() if not torch.equal(tensor, before[name])}
    assert moved == {"dml", "bfs", "ual"}


@pytest.mark.slow
def test_which_kinds_are_familiar_is_not_learnt_by_gradients(fitted):
    """That would change what it means."""
    one, other = (fitted[name][3].ual.kind.state_dict() for name in ("plain", "faster"))
    assert all(torch.equal(one[name], other[name]) for name in one)
