"""PAN 2021's measures and calibration, on arrays: `truth` (n) bool, `values` (n) in [0, 1].

Definitions as in PAN's evaluator of 2021-05-28; what a non-response is, vote.py says.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .vote import answered, says_same

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


def auc_error(value: float, same: int, different: int) -> float:
    """Standard error of an AUC of so many pairs of either kind (Hanley and McNeil 1982), as if all were independent."""
    first, second = value / (2 - value), 2 * value**2 / (1 + value)
    variance = value * (1 - value) + (same - 1) * (first - value**2) + (different - 1) * (second - value**2)
    return float(np.sqrt(max(0.0, variance) / (same * different)))


def c_at_1(truth: np.ndarray, values: np.ndarray) -> float:
    """Accuracy that credits non-responses with the accuracy of the rest."""
    there = answered(values)
    correct = int((says_same(values) == truth)[there].sum())
    total = len(truth)
    return (correct + (total - int(there.sum())) * correct / total) / total


def f_05_u(truth: np.ndarray, values: np.ndarray) -> float:
    """F0.5 in which non-responses count as false negatives."""
    there, said = answered(values), says_same(values)
    hits = int((said & truth & there).sum())
    misses = int((~said & truth & there).sum()) + int((~there).sum())
    alarms = int((said & ~truth & there).sum())
    return 1.25 * hits / (1.25 * hits + 0.25 * misses + alarms) if hits else 0.0


def f1(truth: np.ndarray, values: np.ndarray) -> float:
    """F1 of the answered trials."""
    there = answered(values)
    said, same = says_same(values)[there], truth[there]
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


CALIBRATION_KEYS = ("accuracy", "confidence", "ece", "mce")


def calibration(truth: np.ndarray, values: np.ndarray, bins: int = 10) -> dict[str, float]:
    """Accuracy, mean confidence, expected and maximal calibration error over bins of confidence: of all trials, as in
    the paper, and with names in `_answered` of those that were answered.

    Confidence is the probability of the decision taken, max(p, 1 - p). A non-response counts as a decision for two
    authors with confidence 0.5, which no answer has: it is in a bin of its own. `ece_p` is the expected error of the
    answered over bins of the probability itself, where errors on the two sides of a half do not cancel.
    """
    truth, values = np.asarray(truth, dtype=bool), np.asarray(values, dtype=np.float64)
    there = answered(values)
    ece_p = float(np.dot(*_gaps(truth[there], values[there], bins))) if there.any() else float("nan")
    of_answered = _confidence_figures(truth[there], values[there], bins)
    return {
        **_confidence_figures(truth, values, bins),
        **{f"{key}_answered": value for key, value in of_answered.items()},
        "ece_p": ece_p,
    }


def _confidence_figures(truth: np.ndarray, values: np.ndarray, bins: int) -> dict[str, float]:
    if not len(values):
        return dict.fromkeys(CALIBRATION_KEYS, float("nan"))
    confidence = np.maximum(values, 1 - values)
    correct = says_same(values) == truth
    gaps, shares = _gaps(correct, confidence, bins)
    figures = float(correct.mean()), float(confidence.mean()), float(np.dot(gaps, shares)), max(gaps)
    return dict(zip(CALIBRATION_KEYS, figures, strict=True))


def bin_of(probabilities: np.ndarray, bins: int = 10) -> np.ndarray:
    """Which of the bins (k / bins, (k + 1) / bins]; 0 is in the first."""
    return np.maximum(np.searchsorted(np.arange(bins + 1) / bins, probabilities, side="left") - 1, 0)


def _gaps(outcomes: np.ndarray, probabilities: np.ndarray, bins: int) -> tuple[list[float], list[float]]:
    """In each bin (k / bins, (k + 1) / bins] that is in use: how far the mean outcome is from the mean probability, and
    the bin's share."""
    index = bin_of(probabilities, bins)
    gaps, shares = [], []
    for b in np.unique(index):
        here = index == b
        gaps.append(abs(float(outcomes[here].mean() - probabilities[here].mean())))
        shares.append(float(here.mean()))
    return gaps, shares


def all_metrics(truth: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """PAN's measures, calibration and the share of non-responses."""
    share = float((~answered(np.asarray(values))).mean())
    return {**pan_metrics(truth, values), **calibration(truth, values), "non_responses": share}


def resamples(trials: int, count: int, seed: int = 0) -> np.ndarray:
    """Row numbers (count, trials) drawn with replacement: the bootstrap's samples, the same for every system."""
    return np.random.default_rng(seed).integers(trials, size=(count, trials), dtype=np.int32)


def resamples_by_author(authors: np.ndarray, count: int, seed: int = 0) -> list[np.ndarray]:
    """The same for pairs of texts by `authors` (P, 2): authors are drawn with replacement, and a pair comes as often
    as its author does, or as its two authors do together."""
    numbers, pairs = np.unique(authors, return_inverse=True)
    first, second = pairs.reshape(-1, 2).T
    rng, samples = np.random.default_rng(seed), []
    for _ in range(count):
        times = np.bincount(rng.integers(len(numbers), size=len(numbers)), minlength=len(numbers))
        often = np.where(first == second, times[first], times[first] * times[second])
        samples.append(np.repeat(np.arange(len(first)), often))
    return samples


def interval(drawn: list[float]) -> tuple[float, float]:
    """The middle 95 % of what the samples gave; NaN without any."""
    if not drawn:
        return float("nan"), float("nan")
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    return float(low), float(high)


def bootstrap_intervals(
    truth: np.ndarray, values: np.ndarray, samples: Iterable[np.ndarray]
) -> dict[str, tuple[float, float]]:
    """95 % intervals of PAN's measures; none without samples."""
    drawn = [pan_metrics(truth[rows], values[rows]) for rows in samples if len(rows)]  # of authors: may hold no pair
    return {key: interval([figures[key] for figures in drawn]) for key in PAN_KEYS if drawn}


def bootstrap_difference(
    truth: np.ndarray, one: np.ndarray, other: np.ndarray, samples: Iterable[np.ndarray]
) -> tuple[float, float]:
    """95 % interval of the difference in `overall`, other minus one, on the same samples."""
    return interval(
        [
            pan_metrics(truth[rows], other[rows])["overall"] - pan_metrics(truth[rows], one[rows])["overall"]
            for rows in samples
        ]
    )
