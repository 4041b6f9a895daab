"""Forensic measures: what answers are worth as likelihood ratios. On arrays: `truth` (n) bool, `values` (n) in [0, 1].

An answer p is a posterior at even prior odds, so its likelihood ratio (LR) is p / (1 - p), and that of a non-response
is 1. Answers are first clipped to [CLIP, 1 - CLIP]: no LR is larger than a million, and an answer of 0 or 1 that is
wrong costs 20 bits instead of infinitely many. Every measure weighs the two kinds of pairs alike, whatever their
numbers. Definitions: Brümmer and du Preez, Application-independent evaluation of speaker detection, 2006.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from .metrics import interval

CLIP = 1e-6
FORENSIC_KEYS = ("cllr", "cllr_min", "cllr_cal", "eer")
_BY_PAV = ("cllr_min", "cllr_cal")
POINTS = 41  # of a curve


def log_lr(values: np.ndarray) -> np.ndarray:
    """Natural logarithm of the likelihood ratio of answers (n)."""
    p = np.clip(values, CLIP, 1 - CLIP)
    return np.asarray(np.log(p) - np.log1p(-p))


def pool_adjacent_violators(same: np.ndarray, different: np.ndarray) -> np.ndarray:
    """How many pairs of either kind have the value k, values ascending (K each, none without pairs) -> where the
    blocks begin (B) in which isotonic regression makes the share of `same` rise.

    In every round all runs of neighbours whose shares do not rise are pooled at once: they end up in one block in
    whatever order one pools. Whole numbers, so that equal shares are equal.
    """
    starts = np.arange(len(same))
    while True:
        violates = same[:-1] * different[1:] >= same[1:] * different[:-1]
        if not violates.any():
            return starts
        kept = np.flatnonzero(np.append(True, ~violates))
        starts, same, different = starts[kept], np.add.reduceat(same, kept), np.add.reduceat(different, kept)


@dataclass(frozen=True)
class Tally:
    """How many pairs of either kind have one of K likelihood ratios, ascending; there are pairs of each."""

    log_lr: np.ndarray  # (K)
    same: np.ndarray  # (K) whole numbers
    different: np.ndarray

    @property
    def misses(self) -> np.ndarray:
        """(K + 1) share of same-author pairs below a threshold that rises from below all ratios to above them."""
        return np.append(0, np.cumsum(self.same)) / self.same.sum()

    @property
    def alarms(self) -> np.ndarray:
        """(K + 1) share of different-author pairs at or above it."""
        return 1 - np.append(0, np.cumsum(self.different)) / self.different.sum()

    def cllr(self) -> float:
        """Log-likelihood-ratio cost in bits: 0 is perfect, 1 is what LR = 1 costs for all, more does harm."""
        return self._cost(np.logaddexp(0, -self.log_lr), np.logaddexp(0, self.log_lr))

    def cllr_min(self) -> float:
        """Cllr of the best rising recalibration, which PAV finds: the part of Cllr that is lack of discrimination."""
        same, different = self._blocks()[1:]
        rates = same / same.sum(), different / different.sum()
        # No pair of a kind is in a block where its own cost is infinite.
        with np.errstate(divide="ignore"):
            cost = np.log1p(rates[1] / rates[0]), np.log1p(rates[0] / rates[1])
        return sum(float(np.dot(r[r > 0], c[r > 0])) for r, c in zip(rates, cost)) / (2 * float(np.log(2)))

    def eer(self) -> float:
        """Equal error rate: where the two kinds of errors are equally frequent, on straight lines between the points
        of the ROC curve."""
        misses, alarms = self.misses, self.alarms
        gap = misses - alarms
        k = int(np.argmax(gap >= 0))  # never 0: there the gap is -1
        part = gap[k - 1] / (gap[k - 1] - gap[k])
        return float(misses[k - 1] + part * (misses[k] - misses[k - 1]))

    def recalibrated(self) -> tuple[np.ndarray, np.ndarray]:
        """Answers at which PAV's answers change (B), and PAV's answers from there on, at even prior odds."""
        starts, same, different = self._blocks()
        rates = same / same.sum(), different / different.sum()
        return 1 / (1 + np.exp(-self.log_lr[starts])), rates[0] / (rates[0] + rates[1])

    def _blocks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        starts = pool_adjacent_violators(self.same, self.different)
        return starts, np.add.reduceat(self.same, starts), np.add.reduceat(self.different, starts)

    def _cost(self, same: np.ndarray, different: np.ndarray) -> float:
        mean = np.dot(self.same, same) / self.same.sum() + np.dot(self.different, different) / self.different.sum()
        return float(mean / (2 * np.log(2)))


def tally(truth: np.ndarray, values: np.ndarray) -> Tally | None:
    """None without pairs of both kinds."""
    return next(tallies(truth, values, [np.arange(len(truth))]))


def tallies(truth: np.ndarray, values: np.ndarray, samples: Iterable[np.ndarray]) -> Iterator[Tally | None]:
    """Of samples, each the rows of its trials. Values are sorted but once, so that a sample costs a count."""
    distinct, place = np.unique(log_lr(np.asarray(values, dtype=np.float64)), return_inverse=True)
    cell = place + len(distinct) * np.asarray(truth, dtype=bool)
    for rows in samples:
        different, same = np.bincount(cell[rows], minlength=2 * len(distinct)).reshape(2, -1)
        there = (different + same) > 0
        usable = bool(same.any() and different.any())
        yield Tally(distinct[there], same[there], different[there]) if usable else None


def _figures(counted: Tally | None) -> dict[str, float]:
    if counted is None:
        return dict.fromkeys(FORENSIC_KEYS, float("nan"))
    cllr, least = counted.cllr(), counted.cllr_min()
    return {"cllr": cllr, "cllr_min": least, "cllr_cal": cllr - least, "eer": counted.eer()}


def forensic_metrics(truth: np.ndarray, values: np.ndarray) -> dict[str, float]:
    """Cllr, Cllr_min, their difference (the calibration loss) and EER; NaN without pairs of both kinds."""
    return _figures(tally(truth, values))


def forensic_intervals(
    truth: np.ndarray, values: np.ndarray, samples: Iterable[np.ndarray]
) -> dict[str, tuple[float, float]]:
    """95 % intervals of the same; none without samples.

    PAV fits a sample, in which trials come several times, closer than as many fresh trials. What depends on it is too
    good in all samples: its interval has their spread, but lies about the measure itself.
    """
    drawn = [_figures(counted) for counted in tallies(truth, values, samples) if counted is not None]
    if not drawn:
        return {}
    measured, intervals = forensic_metrics(truth, values), {}
    for key in FORENSIC_KEYS:
        found = [figures[key] for figures in drawn]
        low, high = interval(found)
        shift = measured[key] - float(np.mean(found)) if key in _BY_PAV else 0.0
        intervals[key] = max(0.0, low + shift), high + shift
    return intervals


@dataclass(frozen=True)
class Curve:
    """y at POINTS x or fewer, between the limits of 95 % of the samples; NaN without any."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray


def forensic_curves(truth: np.ndarray, values: np.ndarray, samples: Iterable[np.ndarray]) -> dict[str, Curve]:
    """What the pictures show; nothing without pairs of both kinds.

    "tippett_same", "tippett_different": the share of pairs of a kind whose log10 LR is at least x. "det": the share
    of same-author pairs missed where x of the different-author pairs are false alarms. "pav": what PAV makes of an
    answer x, at even prior odds.
    """
    whole = tally(truth, values)
    if whole is None:
        return {}
    ends = np.abs(whole.log_lr).max() or 1.0
    answers = 1 / (1 + np.exp(-np.repeat(whole.log_lr, whole.same + whole.different)))
    grids = {
        "tippett_same": np.linspace(-ends, ends, POINTS) / np.log(10),
        "tippett_different": np.linspace(-ends, ends, POINTS) / np.log(10),
        "det": 1 / (1 + np.exp(-np.linspace(-7, 7, POINTS))),  # dense where rates are small
        "pav": np.unique(np.quantile(answers, np.linspace(0, 1, POINTS), method="nearest")),
    }

    def read(counted: Tally) -> dict[str, np.ndarray]:
        misses, alarms = counted.misses, counted.alarms
        at = np.searchsorted(counted.log_lr, grids["tippett_same"] * np.log(10) - 1e-9)
        change, said = counted.recalibrated()
        return {
            "tippett_same": 1 - misses[at],
            "tippett_different": alarms[at],
            "det": np.interp(grids["det"], alarms[::-1], misses[::-1]),
            "pav": said[np.maximum(np.searchsorted(change, grids["pav"] + 1e-12) - 1, 0)],
        }

    drawn = [read(counted) for counted in tallies(truth, values, samples) if counted is not None]
    curves = {}
    for name, y in read(whole).items():
        limits = np.full((2, len(y)), np.nan)
        if drawn:
            limits = np.percentile([sample[name] for sample in drawn], [2.5, 97.5], axis=0)
        curves[name] = Curve(grids[name], y, *limits)
    return curves
