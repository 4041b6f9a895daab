import numpy as np
import pytest
import torch
from support import random_network

from pan21av.training.ensemble_scale import FEWEST, LEAST, MOST, calibration_pairs, fit_scale, out_of_fold
from pan21av.training.heads import Fold
from pan21av.training.member import full_model
from pan21av.training.stage2 import StageTwo


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def answers(factor, pairs=20_000, members=4):
    """Members who agree, all too timid by a factor; of every other pair half of the members abstain. The factor is that
    of pairs that nobody abstains on, and that of the others, where it is not the same."""
    rng = np.random.default_rng(0)
    logit = 2 * rng.normal(size=pairs)
    whole, half = factor if isinstance(factor, tuple) else (factor, factor)
    truth = rng.random(pairs) < sigmoid(np.where(np.arange(pairs) % 2, half, whole) * logit)
    undecidable = np.zeros((members, pairs))
    undecidable[: members // 2, 1::2] = 0.5
    return np.tile(sigmoid(logit), (members, 1)), undecidable, truth


def fitted(p_same, p_undecidable, truth, asked=None):
    """The factors where all members are confident, and where half of them are."""
    found = fit_scale(p_same, p_undecidable, truth, asked or [np.ones(p_same.shape, dtype=bool)])
    assert found.shift == 0
    return found.scale + found.support, found.scale + found.support / 2


@pytest.mark.parametrize("factor", [1.0, 1.3, 1.8])
def test_the_factor_that_answers_lack(factor):
    assert fitted(*answers(factor)) == pytest.approx((factor, factor), abs=0.08)


def test_the_more_members_are_confident_the_surer_they_may_be_together():
    assert fitted(*answers((1.7, 0.9))) == pytest.approx((1.7, 0.9), abs=0.08)


def test_what_is_asked_for_has_bounds():
    assert fitted(*answers(0.4)) == pytest.approx((LEAST, LEAST))
    assert fitted(*answers((3.5, 1.2))) == pytest.approx((MOST, 1.2), abs=0.06)


def test_few_pairs_teach_nothing():
    assert fitted(*answers(1.8, pairs=FEWEST - 1)) == (1.0, 1.0)


def test_who_is_not_asked_does_not_count():
    """One member of five is always wrong, and sure of it."""
    p_same, p_undecidable, truth = answers(1.5)
    p_same = np.concatenate([p_same, np.where(truth, 0.01, 0.99)[None]])
    p_undecidable = np.concatenate([p_undecidable, np.zeros((1, len(truth)))])
    asked = np.ones(p_same.shape, dtype=bool)
    asked[4] = False
    assert fitted(p_same, p_undecidable, truth, [asked]) == pytest.approx((1.5, 1.5), abs=0.08)
    p_undecidable[4] = 0.5  # or who abstains
    p_undecidable[0] = 0.0
    p_undecidable[3, 1::2] = 0.5
    found = fit_scale(p_same, p_undecidable, truth, [np.ones(p_same.shape, dtype=bool)])
    assert found.scale + 0.8 * found.support == pytest.approx(1.5, abs=0.08)


def test_pairs_that_most_abstain_on_do_not_count():
    """Half of the pairs have labels at random, and three of four members leave them open."""
    p_same, p_undecidable, truth = answers(1.5)
    p_undecidable[:] = 0
    truth[::2] = np.random.default_rng(1).random(len(truth[::2])) < 0.5
    p_undecidable[:3, ::2] = 0.9
    assert fitted(p_same, p_undecidable, truth)[0] == pytest.approx(1.5, abs=0.08)


def test_every_way_to_judge_counts():
    """One is right of both kinds of pairs, the other was asked of nothing."""
    made = answers((1.7, 0.9))
    everyone = np.ones(made[0].shape, dtype=bool)
    assert fitted(*made, [everyone, ~everyone]) == fitted(*made, [everyone])


def test_a_pair_is_judged_by_scores_that_know_neither_author(corpus):
    settings, prepared = corpus.settings, corpus.prepared
    author = prepared.catalogue.author
    network = random_network(1, full_model(settings, prepared), vocabulary=prepared.vocabulary)
    calibration = StageTwo(network, prepared, settings, 3, torch.device("cpu")).calibration
    pairs = calibration_pairs(prepared)
    for documents, of_fold in zip(calibration.folds, pairs, strict=True):
        assert len(of_fold)
        assert set(author[of_fold.flatten()]) <= set(author[documents])
    # The scores of either fold say the same of everything.
    folds = [Fold(documents, Says(0.5), Says(p)) for documents, p in zip(calibration.folds, (0.25, 0.75), strict=True)]
    p_same, p_undecidable = out_of_fold(network, calibration, folds)
    assert p_same.tolist() == [0.25] * len(pairs[0]) + [0.75] * len(pairs[1])
    assert ((p_undecidable > 0) & (p_undecidable < 1)).all()


class Says:
    """The same of all pairs."""

    def __init__(self, p):
        self.p = p

    def __call__(self, pair, p_bfs=None):
        said = torch.full((1, len(pair)), self.p)
        return said if p_bfs is None else (said, torch.full((1, len(pair), 2, 2), 0.5))

    def familiar(self, pair):
        return torch.full((1, len(pair)), 0.5)
