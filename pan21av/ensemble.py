"""The members' verdicts to one answer."""

from __future__ import annotations

import numpy as np

NON_RESPONSE = 0.5
UNDECIDABLE = 0.5  # a member abstains from this p(H2) on


def check_odd(members: int) -> None:
    if members % 2 == 0:
        raise ValueError(f"an ensemble needs an odd number of members for its majority vote, not {members}")


def abstaining(undecidable: np.ndarray) -> np.ndarray:
    """Which members cannot decide, from p_O2D2(H2)."""
    return np.asarray(~(undecidable < UNDECIDABLE))


def decide(p_same: np.ndarray, undecidable: np.ndarray) -> np.ndarray:
    """p_UAL(same) and p_O2D2(H2), both (M, P) -> answers (P) in [0, 1].

    Exactly 0.5 if a majority abstains, else the mean of the members that do not. A member whose
    numbers are not finite abstains.
    """
    check_odd(len(p_same))
    abstain = abstaining(undecidable) | ~np.isfinite(p_same)
    confident = ~abstain
    mean = np.where(confident, p_same, 0).sum(0, dtype=np.float64) / np.maximum(confident.sum(0), 1)
    return np.where(abstain.sum(0) > len(p_same) // 2, NON_RESPONSE, np.clip(mean, 0, 1))
