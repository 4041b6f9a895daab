import numpy as np
import pytest
import torch
from support import random_network

from pan21av.training import calibration as calibration_module
from pan21av.training import ensemble_scale
from pan21av.training.calibration import jury_documents
from pan21av.training.ensemble_scale import FEWEST, MOST, fit_scale, jury_pairs, jury_scores, learn_calibration
from pan21av.training.member import full_model
from pan21av.training.prepared import CALIBRATE
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


@pytest.fixture(autouse=True, scope="module")
def a_jury_of_few():
    """The small corpus of the tests would have none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration_module, "MIN_JURY", 1)
        patch.setattr(calibration_module, "JURY_SHARE", 0.5)
        yield


@pytest.fixture(scope="module")
def stage_two(corpus):
    settings, prepared = corpus.settings, corpus.prepared
    network = random_network(1, full_model(settings, prepared), vocabulary=prepared.vocabulary)
    return StageTwo(network, prepared, settings, 3, torch.device("cpu"))


def test_a_small_corpus_keeps_nobody_apart(corpus, monkeypatch):
    monkeypatch.setattr(calibration_module, "MIN_JURY", 100)
    assert len(jury_documents(corpus.prepared)) == 0
    assert len(jury_pairs(corpus.prepared)) == 0


def test_no_member_learns_from_the_jury(corpus, stage_two):
    calibration, author = stage_two.calibration, corpus.prepared.catalogue.author
    authors = [
        {int(a) for a in author[documents]}
        for documents in (jury_documents(corpus.prepared), calibration.for_scores, calibration.for_o2d2)
    ]
    everybody = {int(a) for a in author[corpus.prepared.documents(CALIBRATE)]}
    assert set.union(*authors) == everybody
    assert sum(map(len, authors)) == len(everybody)
    assert len(authors[0]) == round(0.5 * len(everybody)) > 0
    assert {int(a) for a in author[jury_pairs(corpus.prepared)].flatten()} <= authors[0]


def test_what_a_member_says_of_the_jury_is_what_it_says_of_these_pairs(corpus, stage_two):
    """In each condition: nothing is known, or a population of the source."""
    views, pairs = stage_two.calibration.views, jury_pairs(corpus.prepared)
    found = jury_scores(stage_two.network, stage_two.calibration)
    for condition in range(views.n_conditions):
        rows = [views.rows(side, 0, condition) for side in pairs.T]
        with torch.no_grad():
            scores = stage_two.network.score(views.embedding.pair(*rows))
        here = slice(condition * len(pairs), (condition + 1) * len(pairs))
        np.testing.assert_allclose(found["jury_ual"][here], scores.ual[0].numpy(), rtol=1e-6)
        np.testing.assert_allclose(found["jury_o2d2"][here], scores.o2d2[0].numpy(), rtol=1e-6)
    assert len(found["jury_ual"]) == views.n_conditions * len(pairs)


def test_kinds_that_a_member_does_not_know_count_as_such(corpus, monkeypatch):
    """Two of three members know all sources and are always right; the third is as often wrong. Asked alone, of a source
    that is strange to it only, it keeps the factor down."""
    monkeypatch.setattr(ensemble_scale, "FEWEST", 1)
    truth = corpus.prepared.catalogue.same_author(jury_pairs(corpus.prepared))
    assert 0 < truth.sum() < len(truth)
    rng = np.random.default_rng(0)
    right = np.where(truth, 0.8, 0.2)
    wrong = np.where(rng.random(len(truth)) < 0.5, 0.8, 0.2)
    scores = {"jury_ual": np.stack([right, right, wrong]), "jury_o2d2": np.zeros((3, len(truth)))}
    knows = np.ones((3, len(corpus.prepared.sources)), dtype=bool)
    all_known = learn_calibration(scores, corpus.prepared, knows)
    knows[2] = False
    one_stranger = learn_calibration(scores, corpus.prepared, knows)
    assert all_known.scale > one_stranger.scale


def test_one_member_alone_and_the_papers_rule_stay_as_they_are(corpus):
    knows = np.ones((3, len(corpus.prepared.sources)), dtype=bool)
    assert learn_calibration({}, corpus.prepared, knows) is None
    assert learn_calibration({"jury_ual": np.zeros((1, 3))}, corpus.prepared, knows[:1]) is None
