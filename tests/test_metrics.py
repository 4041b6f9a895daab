"""PAN's measures: against the official scores, scikit-learn and a slow literal implementation."""

import json
import lzma

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, f1_score, roc_auc_score
from support import SHARED, needs_shared

from pan21av.metrics import (
    PAN_KEYS,
    all_metrics,
    auc,
    auc_error,
    bootstrap_difference,
    bootstrap_intervals,
    calibration,
    pan_metrics,
    resamples,
)

values = st.lists(
    st.tuples(st.booleans(), st.one_of(st.just(0.5), st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.75, 1.0]))),
    min_size=2, max_size=60,
)  # fmt: skip


def literal_c_at_1(truth, answers):
    n, correct, unanswered = len(truth), 0.0, 0.0
    for t, a in zip(truth, answers, strict=True):
        if a == 0.5:
            unanswered += 1
        elif (a > 0.5) == t:
            correct += 1
    return (1 / n) * (correct + unanswered * correct / n)


def literal_f_05_u(truth, answers):
    tp = fn = fp = u = 0
    for t, a in zip(truth, answers, strict=True):
        if a == 0.5:
            u += 1
        elif a > 0.5:
            tp, fp = tp + t, fp + (not t)
        elif t:
            fn += 1
    return 1.25 * tp / (1.25 * tp + 0.25 * (fn + u) + fp) if tp else 0.0


@given(values)
def test_against_others(rows):
    truth, answers = (np.array(column) for column in zip(*rows, strict=True))
    assume(truth.any() and not truth.all())
    ours = pan_metrics(truth, answers)
    assert ours["auc"] == pytest.approx(roc_auc_score(truth, answers), abs=1e-12)
    assert ours["brier"] == pytest.approx(1 - brier_score_loss(truth, answers), abs=1e-12)
    assert ours["c@1"] == pytest.approx(literal_c_at_1(truth, answers), abs=1e-12)
    assert ours["f_05_u"] == pytest.approx(literal_f_05_u(truth, answers), abs=1e-12)
    answered = answers != 0.5
    if answered.any():
        expected = f1_score(truth[answered], answers[answered] > 0.5, zero_division=0)
        assert ours["F1"] == pytest.approx(expected, abs=1e-12)
    assert ours["overall"] == pytest.approx(np.mean([ours[k] for k in ("auc", "c@1", "f_05_u", "F1", "brier")]))


@needs_shared
@pytest.mark.parametrize("name", ["boenninghoff20-large", "kipnis20-small"])
def test_real_submissions(name):
    folder = SHARED / "evaluator"

    def read(file):
        with lzma.open(folder / file, "rt", encoding="utf-8") as lines:
            return {entry["id"]: entry for entry in map(json.loads, lines)}

    truth, answers = read("truth.jsonl.xz"), read(f"{name}.answers.jsonl.xz")
    ids = list(truth)
    ours = pan_metrics(
        np.array([truth[i]["same"] for i in ids]), np.array([answers[i]["value"] if i in answers else 0.5 for i in ids])
    )
    expected = json.loads((folder / "expected.json").read_text())[name]
    for key, value in ours.items():
        assert value == pytest.approx(expected[key], abs=1e-9), key


def test_calibration_by_hand():
    # Confidences 0.75 (three of four right) and 0.95 (one of two right).
    values = np.array([0.75, 0.75, 0.25, 0.25, 0.95, 0.05, 0.5])
    truth = np.array([True, True, False, True, True, True, False])
    figures = calibration(truth, values)
    assert figures["accuracy_answered"] == pytest.approx(4 / 6)
    assert figures["confidence_answered"] == pytest.approx((4 * 0.75 + 2 * 0.95) / 6)
    assert figures["ece_answered"] == pytest.approx((2 / 6) * abs(0.5 - 0.95))
    assert figures["mce_answered"] == pytest.approx(0.45)
    # The non-response is a decision for two authors at 0.5, here a right one, in a bin of its own.
    assert figures["accuracy"] == pytest.approx(5 / 7)
    assert figures["confidence"] == pytest.approx((4 * 0.75 + 2 * 0.95 + 0.5) / 7)
    assert figures["ece"] == pytest.approx((2 * 0.45 + 1 * 0.5) / 7)
    assert figures["mce"] == pytest.approx(0.5)


def test_bins_are_open_below_and_closed_above():
    """At 0.6 in (0.5, 0.6]: with 0.55, of which one is right, and not with 0.65."""
    figures = calibration(np.array([True, False, True]), np.array([0.6, 0.55, 0.65]))
    assert figures["ece"] == pytest.approx((2 * abs(0.5 - 0.575) + 1 * 0.35) / 3)
    one_side = calibration(np.array([True, False]), np.array([0.0, 1.0]))
    assert one_side["ece"] == one_side["mce"] == 1


def test_where_there_is_nothing_to_measure():
    truth = np.array([True, False])
    silent = all_metrics(truth, np.array([0.5, 0.5]))
    assert (silent["auc"], silent["c@1"], silent["F1"], silent["f_05_u"], silent["brier"]) == (0.5, 0, 0, 0, 0.75)
    assert silent["non_responses"] == 1
    assert np.isnan([silent[f"{key}_answered"] for key in ("accuracy", "confidence", "ece", "mce")]).all()
    assert [silent[key] for key in ("accuracy", "confidence", "ece", "mce")] == [0.5, 0.5, 0, 0]
    one_class = pan_metrics(truth | True, np.array([0.9, 0.2]))
    assert np.isnan(one_class["auc"])
    assert one_class["c@1"] == 0.5


# ---- the bootstrap: against what statistics say of its intervals ----


def test_the_interval_of_an_accuracy():
    """c@1 without non-responses is an accuracy p: its 95 % are p +- 1.96 sqrt(p (1 - p) / n)."""
    truth = np.random.default_rng(1).random(2000) < 0.5
    values = np.where(np.arange(2000) < 1600, truth, ~truth) * 0.8 + 0.1
    low, high = bootstrap_intervals(truth, values, resamples(2000, 1000))["c@1"]
    half = 1.96 * (0.8 * 0.2 / 2000) ** 0.5
    assert low == pytest.approx(0.8 - half, abs=half / 10)
    assert high == pytest.approx(0.8 + half, abs=half / 10)


def test_samples_are_drawn_with_replacement_and_can_be_drawn_again():
    drawn = resamples(1000, 50, seed=3)
    np.testing.assert_array_equal(drawn, resamples(1000, 50, seed=3))
    assert (drawn != resamples(1000, 50, seed=4)).any()
    assert drawn.shape == (50, 1000)
    # A sample misses a row with probability (1 - 1/n)^n, about 1/e.
    shares = [len(np.unique(rows)) / 1000 for rows in drawn]
    assert np.mean(shares) == pytest.approx(1 - 1 / np.e, abs=0.01)


def test_no_samples_no_intervals():
    truth, values = np.array([True, False]), np.array([0.9, 0.2])
    assert bootstrap_intervals(truth, values, resamples(2, 0)) == {}
    assert np.isnan(bootstrap_difference(truth, values, values, resamples(2, 0))).all()
    assert set(bootstrap_intervals(truth, values, resamples(2, 5))) == set(PAN_KEYS)


def test_differences_are_paired():
    """Both are measured on the same samples: of a system with itself nothing is left, though its score varies."""
    rng = np.random.default_rng(0)
    truth, values = rng.random(200) < 0.5, rng.random(200)
    samples = resamples(200, 100)
    assert bootstrap_difference(truth, values, values, samples) == (0, 0)
    low, high = bootstrap_difference(truth, values, np.where(truth, 0.9, 0.1), samples)
    assert 0 < low < high


def test_the_standard_error_of_an_auc_is_what_it_scatters_by():
    """Of pairs whose values are exponential, as Hanley and McNeil take them to be: AUC = rate / (1 + rate)."""
    rng, rate, same, different = np.random.default_rng(0), 4.0, 60, 90
    truth = np.arange(same + different) < same
    drawn = [
        auc(truth, rng.exponential(np.where(truth, rate, 1.0)))  # the mean of one kind is so many times the other's
        for _ in range(3_000)
    ]
    assert np.mean(drawn) == pytest.approx(rate / (1 + rate), abs=0.005)
    assert auc_error(rate / (1 + rate), same, different) == pytest.approx(np.std(drawn), rel=0.06)
