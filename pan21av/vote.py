"""The members' scores to one answer. What 0.5 means, and when a member abstains, is decided here alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

SCORES = ("dml", "bfs", "ual", "o2d2")  # what every member says of a pair, in this order wherever they are stored
NON_RESPONSE = 0.5  # "I cannot tell"; above it one author, below it two
MIN_UNDECIDABLE = 0.5  # a member abstains from this p_O2D2 on


def check_odd(n_members: int) -> None:
    if n_members % 2 == 0:
        raise ValueError(f"an ensemble needs an odd number of members for its majority vote, not {n_members}")


def answered(values: np.ndarray) -> np.ndarray:
    """Which of the answers are no non-responses."""
    return np.asarray(values != NON_RESPONSE)


def says_same(values: np.ndarray) -> np.ndarray:
    """Which of the probabilities stand for one author."""
    return np.asarray(values > NON_RESPONSE)


@dataclass(frozen=True)
class PlattScaling:
    """What becomes of the logits of answers: (scale + support x share) x logit + shift, where `share` is that of the
    members who did not abstain. Training finds what the mean of its members lacks; labelled pairs of somebody's own
    give a shift and a scale."""

    shift: float = 0.0
    scale: float = 1.0
    support: float = 0.0

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> PlattScaling:
        shift, scale, support = float(entry["shift"]), float(entry["scale"]), float(entry.get("support", 0))
        # An answer has at least half of the members behind it.
        if not (np.isfinite([shift, scale, support]).all() and min(scale + support / 2, scale + support) > 0):
            raise ValueError(f"its calibration has a shift of {shift}, a scale of {scale} and a support of {support}")
        return cls(shift, scale, support)

    def after(self, first: PlattScaling) -> PlattScaling:
        """Both in one: `first`, then this, which must not ask for shares."""
        if self.support:
            raise ValueError("the second of two scalings cannot know shares")
        return PlattScaling(self.shift + self.scale * first.shift, self.scale * first.scale, self.scale * first.support)

    def apply(self, answers: np.ndarray, share: np.ndarray | float = 1.0) -> np.ndarray:
        """Answers (P) anew, and the share (P) of members behind each; a non-response stays one, and what moves nothing
        leaves every bit as it is."""
        if self == PlattScaling():
            return answers
        with np.errstate(divide="ignore", over="ignore"):
            logits = np.log(answers) - np.log1p(-answers)
            moved = 1 / (1 + np.exp(-((self.scale + self.support * share) * logits + self.shift)))
        return np.where(answered(answers), moved, NON_RESPONSE)


@dataclass(frozen=True)
class Votes:
    """The vote of M members on P pairs."""

    answers: np.ndarray  # (P) in [0, 1]; exactly 0.5 where a majority abstains
    abstains: np.ndarray  # (M, P) bool
    same: np.ndarray  # (P) how many of the others are for one author
    different: np.ndarray  # (P)


def vote(p_same: np.ndarray, p_undecidable: np.ndarray, calibration: PlattScaling | None = None) -> Votes:
    """p_UAL and p_O2D2, both (M, P): a non-response if more than half of the members abstain, else the mean of the
    others, recalibrated. A member whose numbers are not finite abstains. M is odd; one member alone makes an ensemble
    too."""
    check_odd(len(p_same))
    abstains = ~(p_undecidable < MIN_UNDECIDABLE) | ~np.isfinite(p_undecidable) | ~np.isfinite(p_same)
    confident = ~abstains
    mean = np.where(confident, p_same, 0).sum(0, dtype=np.float64) / np.maximum(confident.sum(0), 1)
    answers = np.where(abstains.sum(0) > len(p_same) // 2, NON_RESPONSE, np.clip(mean, 0, 1))
    if calibration is not None:
        answers = calibration.apply(answers, confident.mean(0))
    same = (confident & says_same(p_same)).sum(0)
    return Votes(answers, abstains, same, confident.sum(0) - same)
