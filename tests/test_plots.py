"""The numbers behind the pictures by hand; the pictures themselves as far as they can be read from their axes."""

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pan21av.forensic import Curve, forensic_curves
from pan21av.plots import (
    agreement,
    coverage,
    coverage_curve,
    det,
    draw,
    posteriors,
    probit,
    reliability,
    reliability_bins,
    roc,
    roc_curve,
    yerror_limits,
)

pytest.importorskip("matplotlib")


@pytest.fixture
def figure():
    from matplotlib.figure import Figure

    return Figure()


def test_reliability_bins_by_hand():
    truth = np.array([True, False, True, True, False, True])
    values = np.array([0.95, 0.91, 0.5, 0.12, 0.18, 1.0])
    said, true, counts = reliability_bins(truth, values)
    np.testing.assert_allclose(said, [0.15, (0.95 + 0.91 + 1) / 3])
    np.testing.assert_allclose(true, [0.5, 2 / 3])
    assert counts.tolist() == [2, 3]


def test_reliability_shows_them(figure):
    axes = figure.subplots()
    reliability(axes, np.array([True, False, True]), np.array([0.9, 0.92, 0.1]))
    points = axes.lines[1].get_xydata()
    np.testing.assert_allclose(points, [[0.1, 1], [0.91, 0.5]])
    assert [text.get_text() for text in axes.texts] == ["1", "2"]


def test_error_bars_stay_within_the_axes():
    low, high = yerror_limits(np.array([0.0, 0.1, 0.5, 1.0]), np.array([0.2, 0.2, 0.2, 0.2]))
    np.testing.assert_allclose(low, [0, 0.1, 0.2, 0.2])
    np.testing.assert_allclose(high, [0.2, 0.2, 0.2, 0])


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0])), min_size=2))
def test_the_area_under_the_roc_curve_is_the_auc(rows):
    truth, values = (np.array(column) for column in zip(*rows, strict=True))
    if truth.all() or not truth.any():
        return
    x, y = roc_curve(truth, values)
    assert np.trapezoid(y, x) == pytest.approx(roc_auc_score(truth, values))


def test_systems_side_by_side(figure):
    truth, one = np.array([True, True, False, False]), np.array([0.9, 0.8, 0.2, 0.1])
    left, right = figure.subplots(1, 2)
    roc(left, truth, one, "one", {"other": 1 - one})
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["one AUC 1.000", "other AUC 0.000"]
    assert [np.trapezoid(y, x) for x, y in (line.get_data() for line in left.lines[1:])] == [1, 0]
    reliability(right, truth, one, "one", {"other": 1 - one})
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["one", "other"]


def test_coverage_by_hand():
    share, accuracy = coverage_curve(np.array([0.9, 0.1, 0.5, 0.3]), np.array([False, True, False, True]))
    assert share.tolist() == [0.25, 0.5, 0.75, 1.0]
    np.testing.assert_allclose(accuracy, [1, 1, 2 / 3, 0.5])


def test_agreement_by_hand(figure):
    """Three members, four pairs; of the last nothing is known."""
    details = np.zeros((4, 4, 3))
    details[:, 2] = [[0.9, 0.8, 0.7], [0.9, 0.8, 0.2], [0.1, 0.2, 0.9], [np.nan] * 3]
    details[:, 3] = [[0.1, 0.1, 0.1], [0.1, 0.6, 0.1], [0.6, 0.6, 0.1], [np.nan] * 3]
    truth = np.array([True, False, False, True])
    agreement(figure, truth, np.array([0.8, 0.6, 0.5, 0.5]), details)
    left, right, twin = figure.axes
    assert {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in left.patches} == {2: 2, 3: 1}
    # Camps of two: the first says one author and is wrong, the second says two and is right.
    np.testing.assert_allclose(twin.lines[0].get_xydata(), [[2, 0.5], [3, 1]])
    assert [bar.get_height() for bar in right.patches] == [1, 1, 1, 0]


def test_posteriors_leave_out_what_is_unknown(figure):
    details = np.full((2, 4, 3), np.nan)
    details[0, 2] = [0.1, 0.2, 0.3]
    posteriors(figure, np.array([True, False]), np.array([0.2, 0.5]), np.array(["SA_SF", "DA_DF"]), details)
    assert [axes.get_title() for axes in figure.axes] == ["without O2D2", "with O2D2 (as answered)"]
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert sorted(labels) == ["DA_DF", "SA_SF"]


def test_all_pictures(tmp_path):
    rng = np.random.default_rng(0)
    truth, values, details = rng.random(20) < 0.5, rng.random(20), rng.random((20, 4, 3))
    details[3] = np.nan
    names = draw(tmp_path, truth, values, None, details)
    assert names == ["reliability.png", "roc.png", "coverage.png", "posteriors.png", "agreement.png"]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in tmp_path.iterdir())


def test_nothing_was_answered(figure):
    truth, values, details = np.array([True, True]), np.array([0.5, 0.5]), np.full((2, 4, 1), np.nan)
    left, middle, right = figure.subplots(1, 3)
    reliability(left, truth, values)
    roc(middle, truth, values)
    coverage(right, truth, values, details)
    assert len(left.lines[1].get_xydata()) == 0
    assert [line.get_label() for line in right.lines] == ["by distance from 0.5", "by O2D2"]  # no point "as answered"
    posteriors(figure, truth, values, None, details)


def test_forensic_pictures(tmp_path):
    truth, values = np.arange(40) % 2 == 0, np.random.default_rng(0).random(40)
    names = draw(tmp_path, truth, values, None, None, curves=forensic_curves(truth, values, []))  # without limits
    assert {"tippett.png", "det.png", "pav.png"} <= set(names)
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in names)


def test_axes_of_a_det_curve_are_normal_deviates(figure):
    """One that is normal with equal variances is a line of slope -1 through -d'."""
    rates = np.array([0.01, 0.1, 0.4])
    normal = NormalDist()
    misses = np.array([normal.cdf(-1.5 - normal.inv_cdf(rate)) for rate in rates])
    axes = figure.subplots()
    det(axes, Curve(rates, misses, misses, misses))
    x, y = axes.lines[1].get_data()
    np.testing.assert_allclose(x + y, -1.5, atol=1e-9)
    assert np.isfinite(probit(np.array([0, 1]))).all()
