"""How much surer all members together may be than each of them.

Each member's posterior is calibrated by itself. The mean of members that differ is right more often than it says, so
its logit is multiplied by a factor, which is the larger, the more of them do not abstain. That is learnt from pairs of
calibration authors, judged by scores that learnt from neither author; once by all members, and once by those that do
not know the source, so that it holds for kinds of text that few of them or none know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from ..network.network import Network
from ..vote import MIN_UNDECIDABLE, PlattScaling
from .calibration import Calibration, deal_folds
from .heads import Fold
from .prepared import Prepared
from .sampling import fixed_pairs
from .streams import COHORT_SEED, Stream, numpy_stream

DRAWS = 4  # of pairs as validation has them
FEWEST = 200  # pairs that something can be learnt from
LEAST, MOST = 0.7, 2.0
RIDGE = 1.0
NEWTON_STEPS = 30
CLIP = 1e-6


def calibration_pairs(prepared: Prepared) -> list[np.ndarray]:
    """(P, 2) of each fold, the same for all members."""

    def draw(documents: np.ndarray, n: int) -> np.ndarray:
        rng = numpy_stream(COHORT_SEED, Stream.SCALE_PAIRS, n)
        return fixed_pairs(prepared.catalogue, documents, rng, len(documents))

    return [np.concatenate([draw(documents, n) for n in range(DRAWS)]) for documents in deal_folds(prepared)]


@torch.no_grad()
def out_of_fold(network: Network, calibration: Calibration, folds: Sequence[Fold]) -> tuple[np.ndarray, np.ndarray]:
    """What one member says of these pairs, whole texts, by scores that know neither author: p_UAL and p_O2D2 (P)."""
    views, prepared, said = calibration.views, calibration.prepared, []
    for fold, pairs in zip(folds, calibration_pairs(prepared), strict=True):
        pair = views.embedding.pair(*(views.rows(side) for side in pairs.T))
        p_ual, confusion = fold.ual(pair, fold.bfs(pair))
        said.append(torch.cat([p_ual, network.o2d2(pair, confusion, p_ual, fold.ual.familiar(pair))]))
    p_same, p_undecidable = torch.cat(said, 1).cpu().numpy()
    return p_same, p_undecidable


def learn_calibration(
    scores: Mapping[str, np.ndarray], prepared: Prepared, knows: np.ndarray
) -> PlattScaling | None:  # fmt: skip
    """Of the ensemble's answers, from what its members (M, P) say, of whom each `knows` (M, sources) some sources; None
    where their scores are stage one's own, which know no calibration author, as in the paper: there nothing is added to
    its rule."""
    if "fold_ual" not in scores or len(scores["fold_ual"]) == 1:
        return None
    pairs = np.concatenate(calibration_pairs(prepared))
    truth, knows = prepared.catalogue.same_author(pairs), knows[:, prepared.catalogue.source[pairs[:, 0]]]
    return fit_scale(scores["fold_ual"], scores["fold_o2d2"], truth, [np.ones_like(knows), ~knows])


def fit_scale(
    p_same: np.ndarray, p_undecidable: np.ndarray, truth: np.ndarray, asked: Sequence[np.ndarray]
) -> PlattScaling:
    """p_UAL and p_O2D2 (M, P), and who is asked (M, P) bool, for each of several ways to judge the pairs -> the scaling
    by which the logit of the mean of the confident, and their share, predict `truth` (P) best."""
    answers, labels = [], []
    for members in asked:
        confident = members & (p_undecidable < MIN_UNDECIDABLE) & np.isfinite(p_same)
        decided = (2 * confident.sum(0) >= members.sum(0)) & members.any(0)
        count = confident.sum(0)[decided]
        mean = (np.where(confident, p_same, 0).sum(0, dtype=np.float64)[decided] / count).clip(CLIP, 1 - CLIP)
        logit = np.log(mean / (1 - mean))
        answers.append(np.stack([logit, logit * count / members.sum(0)[decided]], 1))
        labels.append(truth[decided])
    x, same = np.concatenate(answers), np.concatenate(labels)
    if len(same) < FEWEST:
        return PlattScaling()
    weights = np.array([1.0, 0.0])
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + np.exp(-x @ weights))
        curvature = (x * (p * (1 - p))[:, None]).T @ x + RIDGE * np.eye(2)
        weights = weights + np.linalg.solve(curvature, x.T @ (same - p) - RIDGE * (weights - [1, 0]))
    # By how much if a half of them is confident, and if all are: what seems to ask for more is chance, or a fault
    # elsewhere.
    half, whole = np.clip([weights @ [1, 0.5], weights @ [1, 1]], LEAST, MOST)
    return PlattScaling(0.0, float(2 * half - whole), float(2 * (whole - half)))
