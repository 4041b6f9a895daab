"""A shift and scale of the answers' logits, fitted on labelled pairs of one's own and shrunk towards none.

On arrays of P pairs: `truth` (P) bool, `values` (P) in [0, 1], `authors` (P, 2). What is minimised is Cllr, in which
both kinds of pairs weigh alike, whatever their numbers; non-responses stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from .errors import InputError
from .forensic import log_lr
from .metrics import auc, bin_of, interval, resamples_by_author
from .vote import PlattScaling, answered, says_same

MIN_AUTHORS, MIN_PAIRS = 20, 30  # that were answered; pairs of either kind
FOLDS = 10
# How strongly shift and scale are drawn to 0 and 1: nats of loss for a squared distance of 2.
STRENGTHS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
MIN_SCALE, MAX_SCALE = 0.05, 20.0  # the order of answers is kept
# Standard errors. Found on calibration authors, source by source: a quarter raises the Cllr of other authors more
# often, one gains only two thirds as much.
CLOSE = 0.5
SAMPLES = 1000
# Of the samples must say that it helps. More likely than not is enough: to leave answers that mean too much or too
# little as they are is no safer than to move them a little.
MIN_SURELY = 0.5
CHANCE = 3.09  # deviations: an AUC so far above a half comes once in 1,000 times by chance
STEPS, CONVERGED = 50, 1e-9  # of Newton's method, which needs about five


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
    folds of its authors. The strength is chosen by that very figure, among nine that differ little."""

    calibration: PlattScaling
    strength: float
    pairs: int
    same: int
    authors: int
    non_responses: int
    before: dict[str, Figure]  # "cllr", "ece" of the answered
    after: dict[str, Figure]
    surely: float  # share of samples in which Cllr is lower after than before
    auc: float  # of the answers as they were
    auc_by_chance: float  # what wrong labels hardly ever reach

    @property
    def verdict(self) -> str:
        """Why it is not worth keeping; empty if it is."""
        if not self.auc > self.auc_by_chance:
            return (
                f"the answers tell nothing of these labels (AUC {self.auc:.3f}, and up to {self.auc_by_chance:.3f} may "
                "be chance); are they the labels of these pairs?"
            )
        if self.surely < MIN_SURELY:
            return f"it does not help (it lowers Cllr in {100 * self.surely:.0f} % of samples by author)"
        if not self.after["cllr"].value < 1:
            return f"it would be worth no more than saying nothing (Cllr {self.after['cllr']} out of fold; that is 1)"
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
    tried = out_of_fold(truth, values, author_folds(authors, seed), STRENGTHS)
    samples = [rows for rows in resamples_by_author(authors, SAMPLES, seed) if 0 < truth[rows].sum() < len(rows)]
    before, after = _costs(truth, values), _costs(truth, tried)
    drawn = np.array([_mean(truth[rows], after[:, rows]) for rows in samples])
    chosen = choose(_mean(truth, after), drawn)
    return Recalibration(
        fit(truth, values, STRENGTHS[chosen : chosen + 1])[0],
        STRENGTHS[chosen],
        len(truth),
        int(truth.sum()),
        len(np.unique(authors)),
        int((~there).sum()),
        _figures(truth, values, samples),
        _figures(truth, tried[chosen], samples),
        float(np.mean([_mean(truth[rows], before[rows]) for rows in samples] > drawn[:, chosen])),
        auc(truth, values),
        auc_by_chance(int(truth.sum()), int((~truth).sum())),
    )


def choose(cllr: np.ndarray, samples: np.ndarray) -> int:
    """Cllr out of fold of every strength (S), the strongest first, and in samples (n, S) -> which to take: the
    strongest that is not worse than the best by more than CLOSE standard errors of their difference. What is gained by
    a weaker one may well be chance."""
    best = int(np.argmin(cllr))
    error = np.std(samples - samples[:, [best]], axis=0)
    return int(np.argmax(cllr - cllr[best] <= CLOSE * error))


def auc_by_chance(same: int, different: int) -> float:
    """Which AUC labels without meaning reach once in 1,000 times (the test of Mann and Whitney)."""
    return 0.5 + CHANCE * float(np.sqrt((same + different + 1) / (12 * same * different)))


def fit(truth: np.ndarray, values: np.ndarray, strengths: Sequence[float]) -> list[PlattScaling]:
    """For every strength (S) the least Cllr, with a penalty for every step away from shift 0 and scale 1: ridge
    logistic regression, by Newton's method."""
    there, start = answered(values), np.array([0.0, 1.0])
    if not there.any():
        return [PlattScaling()] * len(strengths)
    weight = np.where(truth, 1 / max(1, int(truth.sum())), 1 / max(1, int((~truth).sum())))[there] / 2
    x = np.stack([np.ones(int(there.sum())), log_lr(values[there])], 1)  # (pairs, 2)
    same, penalty = truth[there], np.array(strengths)

    def loss(theta: np.ndarray) -> np.ndarray:
        wrong = np.logaddexp(0, np.where(same, -1, 1) * (theta @ x.T))
        return np.asarray(wrong @ weight + penalty / 2 * np.square(theta - start).sum(1))

    theta = np.repeat(start[None], len(penalty), 0)  # (S, 2)
    cost = loss(theta)
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-(theta @ x.T)))
        gradient = (weight * (p - same)) @ x + penalty[:, None] * (theta - start)
        hessian = np.einsum("sp,pi,pj->sij", weight * p * (1 - p), x, x) + penalty[:, None, None] * np.eye(2)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        while (worse := (loss(theta - step) > cost) & (np.abs(step).max(1) > CONVERGED)).any():
            step[worse] /= 2
        theta = theta - step
        cost = np.minimum(loss(theta), cost)
        if np.abs(step).max() < CONVERGED:
            break
    return [PlattScaling(float(shift), float(np.clip(scale, MIN_SCALE, MAX_SCALE))) for shift, scale in theta]


def author_folds(authors: np.ndarray, seed: int = 0) -> np.ndarray:
    """(P, 2): which of FOLDS each author belongs to; every fold has as many authors as another, or one more."""
    names, place = np.unique(authors, return_inverse=True)
    numbers = np.arange(len(names)) % FOLDS
    return np.asarray(np.random.default_rng(seed).permutation(numbers)[place.reshape(-1, 2)])


def out_of_fold(truth: np.ndarray, values: np.ndarray, folds: np.ndarray, strengths: Sequence[float]) -> np.ndarray:
    """Answers (S, P), for every strength, as fits recalibrate them that saw neither of the pair's folds."""
    judged = np.repeat(np.array(values, dtype=np.float64)[None], len(strengths), 0)
    for tested, learnt in _divisions(folds):
        for row, found in zip(judged, fit(truth[learnt], values[learnt], strengths), strict=True):
            row[tested] = found.apply(values[tested])
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
        "cllr": Figure(float(_mean(truth, cost)), *interval([_mean(truth[rows], cost[rows]) for rows in samples])),
        "ece": Figure(ece(slice(None)), *interval([ece(rows) for rows in samples])),
    }


def _costs(truth: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(..., P) bits: Cllr is the mean over the two kinds of pairs of the mean of these."""
    return np.asarray(np.logaddexp(0, np.where(truth, -1, 1) * log_lr(values)) / np.log(2))


def _mean(truth: np.ndarray, cost: np.ndarray) -> Any:
    """Cllr of costs (..., P): both kinds of pairs weigh alike."""
    return cost @ np.where(truth, 0.5 / truth.sum(), 0.5 / (~truth).sum())
