"""Validation figures, by independent sums; and that the card holds them."""

import numpy as np
import pytest

from pan21av.metrics import all_metrics
from pan21av.training.report import figures, histogram, row

TRUTH = np.array([True, True, True, False, False, False])
SCORES = {
    "dml": np.array([[0.9, 0.8, 0.4, 0.3, 0.6, 0.1], [0.7, 0.9, 0.6, 0.2, 0.3, 0.4], [0.2, 0.9, 0.6, 0.2, 0.3, 0.4]]),
    "ual": np.array([[0.9, 0.8, 0.4, 0.3, 0.6, 0.1], [0.7, 0.9, 0.6, 0.2, 0.7, 0.4], [0.2, 0.9, 0.6, 0.2, 0.3, 0.9]]),
    "o2d2": np.array([[0.1, 0.2, 0.7, 0.1, 0.8, 0.1], [0.1, 0.1, 0.6, 0.2, 0.5, 0.1], [0.9, 0.1, 0.1, 0.2, 0.1, 0.8]]),
}
SCORES["bfs"] = SCORES["dml"][::-1]


def test_members_alone_and_together():
    found = figures(TRUTH, SCORES)
    assert list(found) == ["dml", "bfs", "ual", "o2d2", "ensemble", "ensemble_o2d2"]
    correct = [np.mean((p > 0.5) == TRUTH) for p in SCORES["dml"]]
    assert found["dml"]["accuracy"] == pytest.approx(np.mean(correct))
    assert found["dml"]["deviation"]["accuracy"] == pytest.approx(np.std(correct))
    assert found["bfs"]["accuracy"] == pytest.approx(found["dml"]["accuracy"])
    # The mean of all, and then the vote: a majority abstains from the third and the fifth pair.
    together = np.mean(SCORES["ual"], 0)
    assert found["ensemble"] == all_metrics(TRUTH, together)
    voted = [0.8, np.mean([0.8, 0.9, 0.9]), 0.5, np.mean([0.3, 0.2, 0.2]), 0.5, np.mean([0.1, 0.4])]
    assert found["ensemble_o2d2"] == pytest.approx(all_metrics(TRUTH, np.array(voted)))
    alone = [np.where(o >= 0.5, 0.5, p) for p, o in zip(SCORES["ual"], SCORES["o2d2"], strict=True)]
    expected = [all_metrics(TRUTH, p)["c@1"] for p in alone]
    assert found["o2d2"]["c@1"] == pytest.approx(np.mean(expected))


def test_rows_have_intervals_where_there_are_both_kinds():
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2 == 0
    answers = np.clip(truth * 0.3 + rng.uniform(0, 0.7, 60), 0, 1)
    found = row(truth, answers)
    assert found["pairs"] == 60
    for name in ("auc", "overall"):
        low, high = found["intervals"][name]
        assert low < found[name] < high
        assert 0.02 < high - low < 0.4
    assert row(truth[::2], answers[::2])["intervals"] == {}


def test_histogram_counts_every_pair_once():
    distances = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 8.0])
    found = histogram(TRUTH, distances, bins=4)
    assert found["edges"] == pytest.approx([0, 2, 4, 6, 8], rel=1e-3)
    assert found["same"] == [3, 0, 0, 0]  # 0, 1 and 2: the edges lie a little beyond whole numbers
    assert found["different"] == [0, 2, 0, 1]
