"""PAN 2021's measures and calibration, on arrays: `truth` (n) bool, `values` (n) in [0, 1].

A value of exactly 0.5 is a non-response. Definitions as in PAN's evaluator of 2021-05-28.
"""

from __future__ import annotations

import numpy as np

PAN_KEYS = ("auc", "c@1", "f_05_u", "F1", "brier", "overall")


def auc(truth: np.ndarray, values: np.ndarray) -> float:
    """Area under the ROC curve from ranks (ties share their mean rank); NaN without both classes."""
    truth = np.asarray(truth, dtype=bool)
    positives = int(truth.sum())
    negatives = len(truth) - positives
    if not positives or not negatives:
        return float("nan")
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float((ranks[truth].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def c_at_1(truth: np.ndarray, values: np.ndarray) -> float:
    """Accuracy that credits non-responses with the accuracy of the rest."""
    answered = values != 0.5
    correct = int(((values > 0.5) == truth)[answered].sum())
    total = len(truth)
    return (correct + (total - int(answered.sum())) * correct / total) / total


def f_05_u(truth: np.ndarray, values: np.ndarray) -> float:
    """F0.5 in which non-responses count as false negatives."""
    answered = values != 0.5
    said = values > 0.5
    hits = int((said & truth & answered).sum())
    misses = int((~said & truth & answered).sum()) + int((~answered).sum())
    alarms = int((said & ~truth & answered).sum())
    return 1.25 * hits / (1.25 * hits + 0.25 * misses + alarms) if hits else 0.0


def f1(truth: np.ndarray, values: np.ndarray) -> float:
    """F1 of the answered trials."""
    answered = values != 0.5
    said, same = (values > 0.5)[answered], truth[answered]
    hits = int((said & same).sum())
    return 2 * hits / (int(said.sum()) + int(same.sum())) if hits else 0.0


def brier(truth: np.ndarray, values: np.ndarray) -> float:
    """Complement of the Brier score."""
    return float(1 - np.square(values - truth).mean())


def pan_metrics(truth: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """PAN's five measures and their mean, under PAN's own keys, unrounded."""
    truth, values = np.asarray(truth, dtype=bool), np.asarray(values, dtype=np.float64)
    scores = {
        "auc": auc(truth, values),
        "c@1": c_at_1(truth, values),
        "f_05_u": f_05_u(truth, values),
        "F1": f1(truth, values),
        "brier": brier(truth, values),
    }
    return {**scores, "overall": float(np.mean(list(scores.values())))}


def calibration(truth: np.ndarray, values: np.ndarray, bins: int = 10) -> dict[str, float]:
    """Accuracy, mean confidence, expected and maximal calibration error over bins of confidence in [0, 1].

    Confidence is the probability of the decision taken, max(p, 1 - p); non-responses are left out.
    """
    truth, values = np.asarray(truth, dtype=bool), np.asarray(values, dtype=np.float64)
    answered = values != 0.5
    truth, values = truth[answered], values[answered]
    if not len(values):
        return dict.fromkeys(("accuracy", "confidence", "ece", "mce"), float("nan"))
    confidence = np.maximum(values, 1 - values)
    correct = (values > 0.5) == truth
    index = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps, shares = [], []
    for b in np.unique(index):
        here = index == b
        gaps.append(abs(float(correct[here].mean() - confidence[here].mean())))
        shares.append(float(here.mean()))
    return {
        "accuracy": float(correct.mean()),
        "confidence": float(confidence.mean()),
        "ece": float(np.dot(gaps, shares)),
        "mce": max(gaps),
    }


def all_metrics(truth: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """PAN's measures, calibration and the share of non-responses."""
    share = float((np.asarray(values) == 0.5).mean())
    return {**pan_metrics(truth, values), **calibration(truth, values), "non_responses": share}
