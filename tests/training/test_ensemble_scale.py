import numpy as np
import pytest
import torch
from support import random_network

from pan21av.training.ensemble_scale import FEWEST, MOST, calibration_pairs, fit_scale, out_of_fold
from pan21av.training.member import full_model
from pan21av.training.stage2 import StageTwo


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def answers(factor, pairs=20_000, members=3):
    """Members who agree, all too timid by a factor; nobody abstains."""
    rng = np.random.default_rng(0)
    logit = 2 * rng.normal(size=pairs)
    truth = rng.random(pairs) < sigmoid(factor * logit)
    return np.tile(sigmoid(logit), (members, 1)), np.zeros((members, pairs)), truth


@pytest.mark.parametrize("factor", [1.0, 1.3, 1.8])
def test_the_factor_that_answers_lack(factor):
    assert fit_scale(*answers(factor)) == pytest.approx(factor, abs=0.06)


def test_it_neither_blunts_nor_sharpens_without_bound():
    assert fit_scale(*answers(0.5)) == 1.0
    assert fit_scale(*answers(3.5)) == MOST


def test_few_pairs_teach_nothing():
    assert fit_scale(*answers(1.8, pairs=FEWEST - 1)) == 1.0


def test_who_is_not_to_be_asked_and_who_abstains_do_not_count():
    """One member of three is asked and does not abstain. The others are always wrong, and sure of it."""
    p_same, p_undecidable, truth = answers(1.5)
    p_same[1:] = np.where(truth, 0.01, 0.99)
    p_same[1], p_undecidable[1] = np.nan, np.nan
    p_undecidable[2] = 0.5
    assert fit_scale(p_same, p_undecidable, truth) == pytest.approx(1.5, abs=0.06)


def test_pairs_that_most_abstain_on_do_not_count():
    """Half of the pairs have labels at random, and two of three members leave them open."""
    p_same, p_undecidable, truth = answers(1.5)
    truth[::2] = np.random.default_rng(1).random(len(truth[::2])) < 0.5
    p_undecidable[:2, ::2] = 0.9
    assert fit_scale(p_same, p_undecidable, truth) == pytest.approx(1.5, abs=0.08)


def test_a_member_is_asked_of_authors_that_its_scores_do_not_know(corpus):
    settings, prepared = corpus.settings, corpus.prepared
    network = random_network(1, full_model(settings, prepared), vocabulary=prepared.vocabulary)
    calibration = StageTwo(network, prepared, settings, 3, torch.device("cpu")).calibration
    pairs, author = calibration_pairs(prepared), prepared.catalogue.author
    p_same, p_undecidable = out_of_fold(network, calibration)
    known = {int(author[d]) for d in calibration.for_scores}
    expected = [int(author[a]) not in known and int(author[b]) not in known for a, b in pairs]
    assert np.isfinite(p_same).tolist() == np.isfinite(p_undecidable).tolist() == expected
    assert 0 < sum(expected) < len(pairs)
