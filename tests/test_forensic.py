"""Forensic measures: against formulas written out, scikit-learn's isotonic regression and ROC, and real submissions."""

import json
import lzma
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_curve
from support import SHARED, needs_shared

from pan21av.forensic import (
    CLIP,
    FORENSIC_KEYS,
    forensic_curves,
    forensic_intervals,
    forensic_metrics,
    log_lr,
    pool_adjacent_violators,
)
from pan21av.metrics import resamples, resamples_by_author

trials = st.lists(
    st.tuples(st.booleans(), st.one_of(st.just(0.5), st.floats(0, 1), st.sampled_from([0.0, 0.25, 0.75, 1.0]))),
    min_size=2, max_size=60,
)  # fmt: skip


def literal_cllr(truth, ratios):
    """Brümmer and du Preez (2006), as printed."""
    same = [np.log2(1 + 1 / lr) if lr else np.inf for t, lr in zip(truth, ratios, strict=True) if t]
    different = [np.log2(1 + lr) for t, lr in zip(truth, ratios, strict=True) if not t]
    return (sum(same) / len(same) + sum(different) / len(different)) / 2


def isotonic_ratios(truth, answers):
    """Posteriors by isotonic regression in which both kinds weigh alike, as likelihood ratios."""
    weight = np.where(truth, 1 / truth.sum(), 1 / (~truth).sum())
    p = IsotonicRegression(y_min=0, y_max=1).fit_transform(answers, truth.astype(float), sample_weight=weight)
    with np.errstate(divide="ignore"):
        return p / (1 - p)


def interpolated_eer(truth, answers):
    """Where misses and false alarms cross, by bisection on scikit-learn's ROC curve."""
    alarms, hits, _ = roc_curve(truth, answers, drop_intermediate=False)
    # On a parameter along the curve: rates may stand still.
    low, high = 0.0, len(alarms) - 1.0
    for _ in range(200):
        at = (low + high) / 2
        alarm, hit = (np.interp(at, np.arange(len(alarms)), rate) for rate in (alarms, hits))
        low, high = (at, high) if 1 - hit > alarm else (low, at)
    return float(np.interp(low, np.arange(len(alarms)), alarms))


def check(truth, answers, accuracy):
    ours = forensic_metrics(truth, answers)
    clipped = np.clip(answers, CLIP, 1 - CLIP)
    assert ours["cllr"] == pytest.approx(literal_cllr(truth, clipped / (1 - clipped)), abs=accuracy)
    assert ours["cllr_min"] == pytest.approx(literal_cllr(truth, isotonic_ratios(truth, clipped)), abs=accuracy)
    assert ours["cllr_cal"] == pytest.approx(ours["cllr"] - ours["cllr_min"], abs=1e-12)
    assert ours["eer"] == pytest.approx(interpolated_eer(truth, clipped), abs=accuracy)


@given(trials)
def test_against_others(rows):
    truth, answers = (np.array(column) for column in zip(*rows, strict=True))
    assume(truth.any() and not truth.all())
    # scikit-learn takes values for equal that differ by less than it can tell.
    answers = np.round(answers, 6)
    check(truth, answers, 1e-9)


@needs_shared
@pytest.mark.parametrize(
    ("name", "cllr", "cllr_min"),
    # What lir 1.3.1 (pypi.org/project/lir) says of them, clipped alike.
    [
        ("boenninghoff20-large", 0.3513235503440398, 0.3172063759998426),
        ("kipnis20-small", 0.6497854307230393, 0.643983488041318),
    ],
)
def test_real_submissions(name, cllr, cllr_min):
    def read(file):
        with lzma.open(SHARED / "evaluator" / file, "rt", encoding="utf-8") as lines:
            return {entry["id"]: entry for entry in map(json.loads, lines)}

    truth, answers = read("truth.jsonl.xz"), read(f"{name}.answers.jsonl.xz")
    same = np.array([entry["same"] for entry in truth.values()])
    values = np.array([answers[i]["value"] if i in answers else 0.5 for i in truth])
    check(same, values, 1e-6)
    ours = forensic_metrics(same, values)
    assert (ours["cllr"], ours["cllr_min"]) == pytest.approx((cllr, cllr_min), abs=1e-6)


def test_by_hand():
    """Ratios 3 and 1/3, right each: a cost of log2(4/3). PAV pools nothing and is perfect."""
    right = forensic_metrics(np.array([True, False]), np.array([0.75, 0.25]))
    assert right == pytest.approx({"cllr": np.log2(4 / 3), "cllr_min": 0, "cllr_cal": np.log2(4 / 3), "eer": 0})
    wrong = forensic_metrics(np.array([False, True]), np.array([0.75, 0.25]))
    assert wrong == pytest.approx({"cllr": 2, "cllr_min": 1, "cllr_cal": 1, "eer": 1})
    silent = forensic_metrics(np.array([True, False, False]), np.array([0.5, 0.5, 0.5]))
    assert silent == pytest.approx({"cllr": 1, "cllr_min": 1, "cllr_cal": 0, "eer": 0.5})


def test_certainty_is_finite():
    np.testing.assert_allclose(log_lr(np.array([0.0, 0.5, 1.0])), [-np.log(1e6), 0, np.log(1e6)], rtol=1e-6)
    sure = forensic_metrics(np.array([True, False]), np.array([0.0, 0.0]))
    assert sure["cllr"] == pytest.approx(np.log2(1e6) / 2, abs=1e-5)


def test_one_kind_of_pairs_only():
    assert np.isnan(list(forensic_metrics(np.array([True, True]), np.array([0.3, 0.7])).values())).all()
    assert forensic_curves(np.array([True, True]), np.array([0.3, 0.7]), []) == {}


@given(st.lists(st.sampled_from([(0, 1), (1, 0), (2, 1), (1, 3)]), min_size=1, max_size=30))
def test_pools_as_one_by_one(counts):
    """The textbook's way: pool two neighbours, begin again."""
    same, different = (np.array(column) for column in zip(*counts, strict=True))
    blocks = [([k], s, d) for k, (s, d) in enumerate(counts)]
    k = 0
    while k + 1 < len(blocks):
        (one, s, d), (other, t, e) = blocks[k], blocks[k + 1]
        if s / (s + d) >= t / (t + e):
            blocks[k : k + 2] = [(one + other, s + t, d + e)]
            k = max(k - 1, 0)
        else:
            k += 1
    assert pool_adjacent_violators(same, different).tolist() == [members[0] for members, _, _ in blocks]


def test_intervals_cover_what_is_true():
    """Scores that are normal with means +1 and -1 and variance 1 are ratios 2x: their EER is Phi(-1)."""
    rng = np.random.default_rng(0)
    truth = np.arange(3000) < 1000
    x = rng.normal(np.where(truth, 1, -1))
    values = 1 / (1 + np.exp(-2 * x))
    same = 2 * np.random.default_rng(1).normal(1, 1, 10**6)
    cllr = np.logaddexp(0, -same).mean() / np.log(2)  # by symmetry that of the other kind
    intervals = forensic_intervals(truth, values, resamples(3000, 500))
    for key, expected in (("eer", NormalDist().cdf(-1)), ("cllr", cllr), ("cllr_min", cllr)):
        low, high = intervals[key]
        assert low < expected < high, key
        assert high - low < 0.1
    measured = forensic_metrics(truth, values)
    assert all(intervals[key][0] <= measured[key] <= intervals[key][1] for key in FORENSIC_KEYS)
    assert forensic_intervals(truth, values, []) == {}


def test_samples_by_author_are_wider_where_authors_repeat():
    """Ten pairs of each author that all get the same answer are worth one."""
    rng = np.random.default_rng(2)
    truth = np.repeat(np.arange(60) % 2 == 0, 10)
    values = np.repeat(np.clip(rng.normal(np.where(truth[::10], 0.6, 0.4), 0.2), 0.05, 0.95), 10)
    people = np.repeat(np.arange(60), 10).astype(str)
    by_author = resamples_by_author(np.stack([people, people], 1), 300)
    widths = [np.diff(forensic_intervals(truth, values, s)["cllr"])[0] for s in (by_author, resamples(600, 300))]
    assert widths[0] == pytest.approx(np.sqrt(10) * widths[1], rel=0.25)


def test_curves_by_hand():
    truth = np.array([True, True, True, False, False])
    values = np.array([0.9, 0.8, 0.3, 0.6, 0.1])
    curves = forensic_curves(truth, values, resamples(5, 20))
    same, different, det, pav = (curves[name] for name in ("tippett_same", "tippett_different", "det", "pav"))
    # Ratios 9, 4, 3/7 against 3/2, 1/9: at LR = 1 two of three are above, and one of two.
    middle = np.flatnonzero(np.isclose(same.x, 0))[0]
    assert (same.y[middle], different.y[middle]) == pytest.approx((2 / 3, 1 / 2))
    assert (same.y[0], different.y[0], same.y[-1], different.y[-1]) == pytest.approx((1, 1, 1 / 3, 0))
    assert (same.low <= same.y).all()
    assert (same.high >= same.y).all()
    # Below one false alarm in two the pair at 0.3 is missed; with one, nothing needs be at most a third.
    assert det.y[np.searchsorted(det.x, 0.25)] == pytest.approx(1 / 3)
    # PAV: 0.1 is different, 0.3 and 0.6 pool to (1/3) : (1/2), 0.8 and 0.9 are same.
    assert dict(zip(pav.x.round(6).tolist(), pav.y.tolist())) == pytest.approx(
        {0.1: 0, 0.3: 0.4, 0.6: 0.4, 0.8: 1, 0.9: 1}
    )
