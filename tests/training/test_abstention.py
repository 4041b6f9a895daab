"""O2D2: labels by hand, and a detector that learns which decisions are wrong."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support import TINY

from pan21av.metrics import auc, pan_metrics
from pan21av.network.embedding import EmbeddingPair
from pan21av.network.network import Scores
from pan21av.network.scores import O2D2
from pan21av.training.abstention import fit_o2d2, labels
from pan21av.training.calibration import LabelledPairs
from pan21av.training.settings import AbstentionSettings


def test_labels_by_hand():
    """1 if the decision is wrong, or within eps of a half, the edge included."""
    p = torch.tensor([[0.9, 0.9, 0.1, 0.1, 0.5625, 0.4375, 0.6, 0.5]])
    same = torch.tensor([[1.0, 0, 1, 0, 1, 0, 1, 0]])
    found = labels(p, same, torch.tensor([0.0625, 0.125]))
    assert found.tolist() == [
        [0, 1, 1, 0, 1, 1, 0, 1],  # 0.5625 is exactly 0.0625 from a half
        [0, 1, 1, 0, 1, 1, 1, 1],
    ]


def test_exactly_a_half_decides_for_two_authors():
    """As everywhere: above it is one author. With no margin at all it is near, so undecidable whatever the truth."""
    assert labels(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.0, 1.0]]), torch.tensor([0.0])).tolist() == [[1, 1]]


# ---- fitting ----

DIM = TINY.lev_dim


class Made:
    """Pairs that a made-up network decides by their first number, wrongly where the second is far from 0."""

    seed, for_o2d2 = 3, np.zeros(0)

    @staticmethod
    def draw(count, generator):
        y = torch.rand(1, count, DIM, generator=generator) * 2 - 1
        decided = y[..., 0] > 0
        return LabelledPairs(EmbeddingPair.of(y, torch.zeros_like(y)), (decided ^ (y[..., 1].abs() > 0.6)).float())

    def epoch(self, documents, rng, batch):
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        for _ in range(8):
            yield self.draw(batch, generator)


def made_network():
    def p_ual(pair):
        return torch.sigmoid(2 * pair.first[..., 0])

    def confusion(pair):
        return torch.full((*pair.first.shape[:2], 2, 2), 0.5)

    network = SimpleNamespace(config=TINY, o2d2=O2D2(1, DIM), bfs=p_ual)
    network.ual = lambda pair, p: (p, confusion(pair))

    def score(pair):
        c, p = confusion(pair), p_ual(pair)
        return Scores(p, p, p, network.o2d2(pair, c), c)

    network.score = score
    return network


@pytest.fixture(scope="module")
def fitted():
    settings = AbstentionSettings(epochs=30, batch=120, lr=1e-2, lr_end=3e-3, dropout=0.05, eps_steps=3)
    network, generator, records = made_network(), torch.Generator().manual_seed(0), []
    validation = Made.draw(1_000, generator)
    eps = fit_o2d2(network, Made(), validation, settings, records.append)
    return network, validation, eps, records


def test_wrong_decisions_are_found(fitted):
    network, _, eps, records = fitted
    pairs = Made.draw(2_000, torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores = network.score(pairs.pair)
    truth = labels(scores.ual, pairs.same, torch.tensor([eps]))[0].bool().numpy()
    assert auc(truth, scores.o2d2[0].numpy()) > 0.95
    assert [(r["stage"], r["epoch"]) for r in records] == [("o2d2", n + 1) for n in range(30)]
    assert records[-1]["loss"] < 0.6 * records[0]["loss"]


def test_the_best_epoch_and_eps_are_kept(fitted):
    """By PAN's overall on the validation pairs, abstentions included."""
    network, validation, eps, records = fitted
    best = max(records, key=lambda r: r["overall"])
    assert eps == pytest.approx(best["eps"])
    assert min(abs(eps - candidate) for candidate in (0.05, 0.1, 0.15)) < 1e-6
    with torch.no_grad():
        scores = network.score(validation.pair)
    answers = np.where(scores.o2d2[0] >= 0.5, 0.5, scores.ual[0].double())
    truth = validation.same[0].bool().numpy()
    assert pan_metrics(truth, answers)["overall"] == pytest.approx(best["overall"], abs=1e-6)
    assert best["overall"] > pan_metrics(truth, scores.ual[0].double().numpy())["overall"]
