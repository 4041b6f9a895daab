"""Losses by hand, and which weights each of them moves."""

import math

import numpy as np
import pytest
import torch
from support import TINY, random_network

from pan21av.network.embedding import Embedding, EmbeddingPair
from pan21av.network.scores import UAL
from pan21av.training.losses import (
    accuracy,
    all_pairs,
    all_pairs_loss,
    balanced_accuracy,
    contrastive_loss,
    dml_loss,
    head_losses,
    ual_loss,
)
from pan21av.training.settings import PairSettings, Settings
from pan21av.training.topic_probe import TopicProbe


def test_each_score_is_trained_by_its_own_loss_only():
    network = random_network(1).requires_grad_(True)
    vectors = torch.randn(1, 12, 2 * TINY.document_hidden, requires_grad=True)
    y = torch.tanh(network.metric(vectors))
    pair = Embedding(y, torch.full((12,), 500.0), TINY.lev_parts).pair(slice(0, 6), slice(6, None))
    same = torch.tensor([[1.0, 0, 1, 0, 1, 0]])
    bfs, ual, _ = head_losses(network, pair, same, 0.105)
    losses = {"dml": dml_loss(network.dml(pair), same, PairSettings()), "bfs": bfs, "ual": ual}
    groups = {
        "vectors": [vectors],
        **{n: list(getattr(network, n).parameters()) for n in ("metric", "dml", "bfs", "ual", "o2d2")},
    }

    def reaches(loss, parameters):
        gradients = torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True)
        return any(g is not None and g.abs().max() > 0 for g in gradients)

    reached = {name: {group for group, p in groups.items() if reaches(loss, p)} for name, loss in losses.items()}
    assert reached == {"dml": {"vectors", "metric", "dml"}, "bfs": {"bfs"}, "ual": {"ual"}}


def test_head_losses_by_hand():
    network = random_network(1)
    y = torch.rand(1, 8, TINY.lev_dim, generator=torch.Generator().manual_seed(0)) * 2 - 1
    pair, same = EmbeddingPair.of(y[:, :4], y[:, 4:]), torch.tensor([[1.0, 0, 1, 0]])
    scores = network.score(pair)
    bfs, ual, p_ual = head_losses(network, pair, same, 0.2)
    torch.testing.assert_close(p_ual, scores.ual)
    truth = same[0].bool().tolist()
    expected_bfs = [-math.log(p if t else 1 - p) for p, t in zip(scores.bfs[0].tolist(), truth, strict=True)]
    assert float(bfs) == pytest.approx(np.mean(expected_bfs), rel=1e-5)
    expected_ual = []
    for p, confusion, t in zip(scores.ual[0].tolist(), scores.confusion[0].tolist(), truth, strict=True):
        negative_entropy = sum(c * math.log(c) for row in confusion for c in row)
        expected_ual.append(-math.log(p if t else 1 - p) + 0.2 * negative_entropy)
    assert float(ual) == pytest.approx(np.mean(expected_ual), rel=1e-5)


def test_losses_by_hand():
    settings = PairSettings()
    p, same = torch.tensor([[0.95, 0.5, 0.05, 0.3]]), torch.tensor([[1.0, 1, 0, 0]])
    assert dml_loss(p, same, settings).item() == pytest.approx((0.41**2 + 0.21**2) / 4)
    confusion = torch.full((1, 1, 2, 2), 0.5)
    expected = -np.log(0.8) - 0.105 * (-4 * 0.5 * np.log(0.5))
    assert ual_loss(confusion, torch.tensor([[0.8]]), torch.ones(1, 1), 0.105).item() == pytest.approx(
        expected, rel=1e-5
    )


def test_contrast_by_hand():
    y = torch.tensor([[0.0], [1.0], [3.0], [5.0]])
    distance = (y - y.T) ** 2 / 2.0
    rows = []
    for i, partner in enumerate([1, 0, 3, 2]):
        others = [j for j in range(4) if j != i]
        rows.append(distance[i, partner] + torch.logsumexp(-distance[i, others], 0))
    assert contrastive_loss(y, 2.0).item() == pytest.approx(float(torch.stack(rows).mean()), rel=1e-5)


def test_all_pairs_by_hand():
    """Same- and different-author pairs weigh the same, however many there are of either."""
    network = random_network(1)
    gamma, alpha = float(network.dml.log_gamma.exp()), float(network.dml.log_alpha.exp())
    y = torch.rand(6, TINY.lev_dim, generator=torch.Generator().manual_seed(0))
    sums, counts = {True: 0.0, False: 0.0}, {True: 0, False: 0}
    for i in range(6):
        for j in range(i):
            same = i // 2 == j // 2
            p = math.exp(-gamma * float((y[i] - y[j]).square().sum()) ** alpha)
            sums[same] -= math.log(p if same else 1 - p)
            counts[same] += 1
    p, same = all_pairs(network.dml, y)
    assert (int(same.sum()), int((~same).sum())) == (counts[True], counts[False]) == (3, 12)
    expected = sum(sums[s] / counts[s] for s in sums) / 2
    assert all_pairs_loss(p, same).item() == pytest.approx(expected, rel=1e-4)


def test_plain_accuracy():
    truth = torch.tensor([True] * 8 + [False] * 2)
    assert accuracy(truth, truth) == 1
    assert accuracy(torch.ones(10, dtype=torch.bool), truth) == pytest.approx(0.8)  # chance


def test_balanced_accuracy():
    truth = torch.tensor([True] * 8 + [False] * 2)
    assert balanced_accuracy(truth, truth) == 1
    assert balanced_accuracy(torch.ones(10, dtype=torch.bool), truth) == 0.5  # chance, not 0.8
    assert balanced_accuracy(torch.tensor([True] * 6 + [False] * 2 + [True, False]), truth) == pytest.approx(0.625)
    assert math.isnan(balanced_accuracy(truth[:8], truth[:8]))  # of one class only


# ---- the topic probe ----


@pytest.mark.parametrize("reversal", [0.0, 0.5])
def test_topic_probe_measures_or_reverses(reversal):
    torch.manual_seed(0)
    probe = TopicProbe(Settings(model=TINY, pairs=PairSettings(probe_reversal=reversal))).eval()
    vectors = torch.randn(1, 8, 2 * TINY.document_hidden, requires_grad=True)
    p = probe.dml(probe.pair(vectors[:, :4], vectors[:, 4:]))
    (gradient,) = torch.autograd.grad(p.sum(), vectors, allow_unused=True)
    plain = vectors.detach().requires_grad_()
    pair = EmbeddingPair.of(*torch.tanh(probe.metric(plain)).chunk(2, 1))
    expected = probe.dml(pair)
    torch.testing.assert_close(p, expected)  # what it says is the same either way
    (expected_gradient,) = torch.autograd.grad(expected.sum(), plain)
    if reversal:
        torch.testing.assert_close(gradient, -reversal * expected_gradient)
    else:
        assert gradient is None


def test_the_topic_probe_is_a_verifier_of_its_own():
    """DML + BFS + UAL, each trained by its own term; what it says is UAL's decision."""
    torch.manual_seed(0)
    probe = TopicProbe(Settings(model=TINY)).eval()
    first, second = torch.randn(2, 1, 6, 2 * TINY.document_hidden)
    same = torch.tensor([[1.0, 0, 1, 0, 1, 1]])
    loss, said = probe.loss(first, second, same)
    pair = probe.pair(first, second)
    bfs, ual, p_ual = head_losses(probe, pair, same, 0.105)
    torch.testing.assert_close(loss, dml_loss(probe.dml(pair), same, PairSettings()) + bfs + ual)
    assert torch.equal(said, p_ual > 0.5)
    learning = [p for p in probe.parameters() if p.requires_grad]
    assert all(g is not None for g in torch.autograd.grad(loss, learning, allow_unused=True))
    assert {n for n, p in probe.named_parameters() if not p.requires_grad} == {"dml.log_gamma", "dml.log_alpha"}


def test_the_topic_probe_has_masks_of_its_own_for_each_pair():
    """A fifth of the document vector, the same of both documents; BFS and UAL drop as the network's do."""
    probe = TopicProbe(Settings(model=TINY))
    assert (probe.dropout, probe.bfs.dropout, probe.ual.dropout) == (0.2, 0.2, 0.2)
    seen = []
    probe.metric.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    torch.manual_seed(0)
    ones = torch.ones(1, 300, 2 * TINY.document_hidden)
    probe.train().pair(ones, -ones)
    assert torch.equal(seen[0], -seen[1])
    assert seen[0].unique().tolist() == pytest.approx([0, 1.25])
    assert float((seen[0] == 0).float().mean()) == pytest.approx(0.2, abs=0.03)
    assert not torch.equal(seen[0][0, 0], seen[0][0, 1])


def test_ual_has_two_masks():
    """On its input, (y1 - y2)^2, and on its hidden layer: a fifth of either, in training only."""
    torch.manual_seed(0)
    ual, seen = UAL(1, 60), {}
    ual.dropout = 0.2
    for name in ("hidden", "logits"):
        getattr(ual, name).register_forward_pre_hook(lambda _, x, name=name: seen.update({name: x[0]}))
    pair = EmbeddingPair.of(torch.ones(1, 200, 60), torch.zeros(1, 200, 60))
    ual.train().confusion(pair)
    assert seen["hidden"].shape == (1, 200, 60)
    assert seen["logits"].shape == (1, 200, 120)
    for x in seen.values():
        assert float((x == 0).float().mean()) == pytest.approx(0.2, abs=0.02)
    assert seen["hidden"].unique().tolist() == pytest.approx([0, 1.25])
    ual.eval().confusion(pair)
    assert all((x != 0).all() for x in seen.values())
