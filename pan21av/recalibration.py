"""A shift and scale of the answers' logits, fitted on labelled pairs of one's own and shrunk towards none.

On arrays of P pairs: `truth` (P) bool, `values` (P) in [0, 1], `authors` (P, 2). What is minimised is Cllr, in which
both kinds of pairs weigh alike, whatever their numbers; non-responses stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from .errors import InputError
from .forensic import log_lr
from .metrics import bin_of, interval, resamples_by_author
from .vote import PlattScaling, answered, says_same

MIN_AUTHORS, MIN_PAIRS = 20, 30  # that were answered; pairs of either kind
FOLDS = 10
# How strongly shift and scale are drawn to 0 and 1: nats of loss for a squared distance of 2. Infinity: not moved.
STRENGTHS = (float("inf"), 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
MIN_SCALE, MAX_SCALE = 0.05, 20.0  # the order of answers is kept
SAMPLES = 1000
MIN_SURELY = 0.95  # of the samples must say that it helps
STEPS = 50  # of Newton's method, which needs about five


@dataclass(frozen=True)
class Figure:
    value: float
    low: float  # 95 % interval, samples drawn by author
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Recalibration:
    """What was fitted on all pairs, and what it is worth: `after` has each pair judged by a fit that saw none of the
    folds of its authors. The strength is chosen by that very figure, among ten that differ little."""

    calibration: PlattScaling
    strength: float
    pairs: int
    same: int
    authors: int
    non_responses: int
    before: dict[str, Figure]  # "cllr", "ece" of the answered
    after: dict[str, Figure]
    surely: float  # share of samples in which Cllr is lower after than before

    @property
    def verdict(self) -> str:
        """Why it is not worth keeping; empty if it is."""
        if self.surely < MIN_SURELY:
            return (
                f"it does not help beyond error (it lowers Cllr in {100 * self.surely:.0f} % of samples by author, and "
                f"{100 * MIN_SURELY:.0f} % are asked for)"
            )
        if not self.after["cllr"].high < 1:
            return (
                f"the answers tell nothing of these labels (Cllr {self.after['cllr']} out of fold, and 1 is what "
                "saying nothing costs)"
            )
        return ""


def recalibrate(truth: np.ndarray, values: np.ndarray, authors: np.ndarray, *, seed: int = 0) -> Recalibration:
    """InputError with the numbers if there are too few pairs or authors to learn from."""
    there = answered(values)
    counts = len(np.unique(authors[there])), int(truth[there].sum()), int((~truth[there]).sum())
    if counts[0] < MIN_AUTHORS or min(counts[1:]) < MIN_PAIRS:
        raise InputError(
            f"too few to calibrate on: {counts[0]} authors, {counts[1]} pairs of one author and {counts[2]} of two "
            f"that were answered; it takes {MIN_AUTHORS}, {MIN_PAIRS} and {MIN_PAIRS}"
        )
    folds = author_folds(authors, seed)
    tried = {strength: out_of_fold(truth, values, folds, strength) for strength in STRENGTHS}
    strength = min(STRENGTHS, key=lambda strength: _mean(truth, _costs(truth, tried[strength])))
    samples = [rows for rows in resamples_by_author(authors, SAMPLES, seed) if 0 < truth[rows].sum() < len(rows)]
    gain = _costs(truth, values) - _costs(truth, tried[strength])
    return Recalibration(
        fit(truth, values, strength),
        strength,
        len(truth),
        int(truth.sum()),
        len(np.unique(authors)),
        int((~there).sum()),
        _figures(truth, values, samples),
        _figures(truth, tried[strength], samples),
        float(np.mean([_mean(truth[rows], gain[rows]) > 0 for rows in samples])) if samples else 0.0,
    )


def fit(truth: np.ndarray, values: np.ndarray, strength: float) -> PlattScaling:
    """The least Cllr, with a penalty for every step away from shift 0 and scale 1: ridge logistic regression, by
    Newton's method."""
    there = answered(values)
    if strength == float("inf") or not there.any():
        return PlattScaling()
    weight = np.where(truth, 1 / max(1, int(truth.sum())), 1 / max(1, int((~truth).sum())))[there] / 2
    x = np.stack([np.ones(int(there.sum())), log_lr(values[there])], 1)  # (pairs, 2)
    same, start = truth[there], np.array([0.0, 1.0])

    def loss(theta: np.ndarray) -> float:
        wrong = np.logaddexp(0, np.where(same, -1, 1) * (x @ theta))
        return float(weight @ wrong + strength / 2 * np.square(theta - start).sum())

    theta, cost = start, loss(start)
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-(x @ theta)))
        gradient = x.T @ (weight * (p - same)) + strength * (theta - start)
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + strength * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        while (new := loss(theta - step)) > cost and np.abs(step).max() > 1e-9:
            step = step / 2
        theta, cost = theta - step, min(new, cost)
        if np.abs(step).max() < 1e-9:
            break
    return PlattScaling(float(theta[0]), float(np.clip(theta[1], MIN_SCALE, MAX_SCALE)))


def author_folds(authors: np.ndarray, seed: int = 0) -> np.ndarray:
    """(P, 2): which of FOLDS each author belongs to; every fold has as many authors as another, or one more."""
    names, place = np.unique(authors, return_inverse=True)
    numbers = np.arange(len(names)) % FOLDS
    return np.asarray(np.random.default_rng(seed).permutation(numbers)[place.reshape(-1, 2)])


def out_of_fold(truth: np.ndarray, values: np.ndarray, folds: np.ndarray, strength: float) -> np.ndarray:
    """Answers (P) as fits recalibrate them that saw neither of the pair's folds."""
    judged = np.array(values, dtype=np.float64)
    for tested, learnt in _divisions(folds):
        judged[tested] = fit(truth[learnt], values[learnt], strength).apply(values[tested])
    return judged


def _divisions(folds: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs (P) bool to judge, and those to learn from, for every two folds that pairs come from."""
    low, high = folds.min(1), folds.max(1)
    for one, other in combinations_with_replacement(range(FOLDS), 2):
        tested = (low == one) & (high == other)
        if tested.any():
            yield tested, ~np.asarray(np.isin(folds, (one, other)).any(1))


def _figures(truth: np.ndarray, values: np.ndarray, samples: Sequence[np.ndarray]) -> dict[str, Figure]:
    cost = _costs(truth, values)
    # The expected calibration error is the sum over bins of |sum of (correct - confidence)|, over all that was
    # answered: what is summed does not change from sample to sample.
    there, confidence = answered(values), np.maximum(values, 1 - values)
    gap = np.where(there, (says_same(values) == truth) - confidence, 0)
    place = bin_of(confidence)

    def ece(rows: np.ndarray | slice) -> float:
        return float(np.abs(np.bincount(place[rows], gap[rows])).sum() / max(1, int(there[rows].sum())))

    return {
        "cllr": Figure(_mean(truth, cost), *interval([_mean(truth[rows], cost[rows]) for rows in samples])),
        "ece": Figure(ece(slice(None)), *interval([ece(rows) for rows in samples])),
    }


def _costs(truth: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(P) bits: Cllr is the mean over the two kinds of pairs of the mean of these."""
    return np.asarray(np.logaddexp(0, np.where(truth, -1, 1) * log_lr(values)) / np.log(2))


def _mean(truth: np.ndarray, cost: np.ndarray) -> float:
    return float((np.bincount(truth, cost, 2) / np.bincount(truth, minlength=2)).mean())
