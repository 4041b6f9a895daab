"""A fit against scikit-learn's logistic regression, folds that keep authors apart, and when nothing is kept."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from pan21av.errors import InputError
from pan21av.forensic import forensic_metrics, log_lr
from pan21av.metrics import calibration
from pan21av.recalibration import (
    FOLDS,
    STRENGTHS,
    auc_by_chance,
    author_folds,
    choose,
    fit,
    out_of_fold,
    recalibrate,
)
from pan21av.vote import PlattScaling


def population(pairs=300, authors=120, scale=1.0, shift=0.0, seed=0):
    """Half by one author. log LR is normal around +-2 with variance 4, so calibrated; then scaled and shifted."""
    rng = np.random.default_rng(seed)
    people = rng.integers(authors, size=(pairs, 2))
    people[: pairs // 2, 1] = people[: pairs // 2, 0]
    truth = people[:, 0] == people[:, 1]
    logits = scale * rng.normal(np.where(truth, 2, -2), 2) + shift
    return truth, 1 / (1 + np.exp(-logits)), people.astype(str)


def test_a_weak_penalty_is_logistic_regression():
    truth, values, _ = population(scale=2, shift=1)
    (ours,) = fit(truth, values, [1e-9])
    weight = np.where(truth, 1 / truth.sum(), 1 / (~truth).sum())
    theirs = LogisticRegression(C=1e9, tol=1e-10).fit(log_lr(values)[:, None], truth, sample_weight=weight)
    assert ours.scale == pytest.approx(theirs.coef_[0, 0], abs=1e-4)
    assert ours.shift == pytest.approx(theirs.intercept_[0], abs=1e-4)


def test_the_penalty_draws_to_no_change():
    truth, values, _ = population(scale=3, shift=1)
    away = [np.hypot(f.shift, f.scale - 1) for f in fit(truth, values, STRENGTHS)]
    assert all(np.diff(away) > 0)
    assert away[0] < 0.05


def test_what_was_moved_is_moved_back():
    truth, values, authors = population(pairs=2000, authors=900, scale=2, shift=1)
    found = recalibrate(truth, values, authors)
    # z = 2 x + 1 is undone by x = z / 2 - 1 / 2.
    assert found.calibration.scale == pytest.approx(0.5, abs=0.07)
    assert found.calibration.shift == pytest.approx(-0.5, abs=0.15)
    assert found.verdict == ""
    assert found.after["cllr"].high < found.before["cllr"].value
    assert found.after["ece"].value < 0.5 * found.before["ece"].value


def test_figures_are_those_of_the_other_modules():
    truth, values, authors = population(scale=2)
    values[::7] = 0.5
    found = recalibrate(truth, values, authors)
    assert found.before["cllr"].value == pytest.approx(forensic_metrics(truth, values)["cllr"], abs=1e-12)
    assert found.before["ece"].value == pytest.approx(calibration(truth, values)["ece_answered"], abs=1e-12)
    (judged,) = out_of_fold(truth, values, author_folds(authors), [found.strength])
    assert found.after["cllr"].value == pytest.approx(forensic_metrics(truth, judged)["cllr"], abs=1e-9)
    assert (judged[::7] == 0.5).all()
    assert (found.pairs, found.same, found.non_responses) == (300, truth.sum(), 43)
    for figure in (*found.before.values(), found.after["cllr"]):
        assert figure.low < figure.value < figure.high


def test_no_pair_is_judged_by_a_fit_that_saw_its_authors():
    """Labels of an author's pairs may turn: the answer to a pair of that author stays the same."""
    truth, values, authors = population(pairs=60, authors=30, scale=2)
    folds = author_folds(authors)
    (before,) = out_of_fold(truth, values, folds, [0.1])
    for row in (0, 59):
        touched = np.isin(authors, authors[row]).any(1)
        (after,) = out_of_fold(np.where(touched, ~truth, truth), values, folds, [0.1])
        assert after[row] == before[row]
        assert (after != before).any()
    sizes = np.bincount([folds[authors == name][0] for name in np.unique(authors)], minlength=FOLDS)
    assert sizes.max() - sizes.min() <= 1


def cllr_of_others(found, scale, shift):
    """Cllr before and after, on many pairs by other people of the population; what is not kept changes nothing."""
    truth, values, _ = population(pairs=20_000, authors=10**6, scale=scale, shift=shift, seed=999)
    moved = PlattScaling() if found.verdict else found.calibration
    return [forensic_metrics(truth, answers)["cllr"] for answers in (values, moved.apply(values))]


@pytest.mark.parametrize(("scale", "shift"), [(1, 1), (2, -0.5)])
def test_200_pairs_lower_cllr_of_other_people(scale, shift):
    """In four draws of five at least, and in their mean by half of what a perfect calibration would give."""
    gains = []
    for seed in range(5):
        found = recalibrate(*population(pairs=200, authors=80, scale=scale, shift=shift, seed=seed))
        before, after = cllr_of_others(found, scale, shift)
        gains.append(before - after)
    truth, values, _ = population(pairs=20_000, authors=10**6, seed=999)
    perfect = before - forensic_metrics(truth, values)["cllr"]
    assert (np.array(gains) > 0).sum() >= 4
    assert 0.5 * perfect < np.mean(gains) < perfect


def test_calibrated_answers_are_left_alone_or_hardly_moved():
    kept, harm = [], []
    for seed in range(5):
        found = recalibrate(*population(pairs=200, authors=80, seed=seed))
        before, after = cllr_of_others(found, 1, 0)
        kept.append(not found.verdict)
        harm.append(after - before)
        if found.verdict:
            assert "it does not help (it lowers Cllr in " in found.verdict
    assert np.mean(kept) <= 0.5
    assert np.mean(harm) < 0.002  # of a Cllr of 0.5


@pytest.mark.parametrize(("scale", "shift"), [(1, 0), (3, 1)])
def test_nothing_is_learnt_from_shuffled_labels(scale, shift):
    """Saying 0.5 to all would lower Cllr to 1: that is no calibration."""
    for seed in range(3):
        truth, values, authors = population(pairs=200, authors=80, scale=scale, shift=shift, seed=seed)
        found = recalibrate(np.random.default_rng(seed).permutation(truth), values, authors)
        assert found.before["cllr"].value > 1
        assert "the answers tell nothing of these labels (AUC 0." in found.verdict


def test_labels_that_are_the_wrong_way_round():
    truth, values, authors = population()
    assert "the answers tell nothing of these labels (AUC 0.0" in recalibrate(~truth, values, authors).verdict


def test_what_chance_reaches():
    """Labels without meaning reach that AUC once in 1,000 draws: 20 in 20,000, give or take 4 or 5."""
    rng, (same, different) = np.random.default_rng(0), (60, 90)
    ranks = np.array([rng.choice(same + different, same, replace=False).sum() for _ in range(20_000)])
    aucs = (ranks - same * (same - 1) / 2) / (same * different)  # ranks from 0
    assert 6 <= (aucs > auc_by_chance(same, different)).sum() <= 36


def test_the_strongest_shrinkage_that_is_nearly_as_good():
    cllr, errors = np.array([0.80, 0.74, 0.72, 0.70, 0.71]), np.array([0.1, 0.1, 0.1, 0.0, 0.1])
    samples = cllr + np.array([[1.0], [-1.0]]) * errors  # standard errors of the differences from the fourth
    assert choose(cllr, samples) == 1  # 0.04 worse than the best, and 0.05 is half a standard error
    assert choose(cllr, cllr + 0.3 * (samples - cllr)) == 3


@pytest.mark.parametrize(
    ("pairs", "authors", "silent", "message"),
    [
        (300, 19, 0, "19 authors"),
        (58, 100, 0, "29 pairs of one author and 29 of two that were answered; it takes 20, 30 and 30"),
        (100, 100, 45, "5 pairs of one author"),
    ],
)
def test_too_few(pairs, authors, silent, message):
    truth, values, names = population(pairs, authors)
    truth = np.arange(pairs) < pairs // 2  # whatever the draw was
    values[:silent] = 0.5
    with pytest.raises(InputError, match=f"too few to calibrate on: .*{message}"):
        recalibrate(truth, values, names)


def test_how_answers_are_moved():
    moved = PlattScaling(shift=1, scale=2).apply(np.array([0.5, 0.5 + 1e-9, 0.0, 1.0, 0.8]))
    sigmoid = 1 / (1 + np.exp(-(2 * np.log(4) + 1)))
    np.testing.assert_allclose(moved, [0.5, 1 / (1 + np.exp(-1)), 0, 1, sigmoid], rtol=1e-7)
    values = np.random.default_rng(0).random(50)
    np.testing.assert_array_equal(PlattScaling().apply(values), values)
    faulty = {"shift": float("nan"), "scale": 1}, {"shift": 0, "scale": 0}, {"shift": 0, "scale": -1}
    for entry in (*faulty, {"shift": 0, "scale": 1, "support": -1}, {"shift": 0, "scale": 1, "support": float("inf")}):
        with pytest.raises(ValueError, match="its calibration has a shift of"):
            PlattScaling.from_dict(entry)


def test_two_one_after_the_other():
    first, then = PlattScaling(0.3, 1.5, -0.4), PlattScaling(-0.2, 0.7)
    values, share = np.array([0.01, 0.2, 0.5, 0.6, 0.99]), np.array([0.5, 0.6, 0.7, 0.8, 1.0])
    np.testing.assert_allclose(
        then.after(first).apply(values, share), then.apply(first.apply(values, share)), rtol=1e-12
    )
    assert then.after(PlattScaling()) == then
