"""How much surer all members together may be than each of them.

Each member's posterior is calibrated by itself. The mean of members that differ is right more often than it says, so
its logit is multiplied by one factor. That is learnt from pairs of calibration authors, each judged by the members
whose scores learnt from neither author.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from ..network.network import Network
from ..vote import MIN_UNDECIDABLE, PlattScaling
from .calibration import Calibration
from .prepared import CALIBRATE, Prepared
from .sampling import fixed_pairs
from .streams import COHORT_SEED, Stream, numpy_stream

DRAWS = 4  # of pairs as validation has them
FEWEST = 200  # pairs that a factor can be learnt from
MOST = 2.0  # times: what seems to ask for more is chance, or a fault elsewhere
NEWTON_STEPS = 30
CLIP = 1e-6


def calibration_pairs(prepared: Prepared) -> np.ndarray:
    """(P, 2): the same for all members."""
    documents = prepared.documents(CALIBRATE)
    draws = [
        fixed_pairs(prepared.catalogue, documents, numpy_stream(COHORT_SEED, Stream.SCALE_PAIRS, n), len(documents))
        for n in range(DRAWS)
    ]
    return np.concatenate(draws)


@torch.no_grad()
def out_of_fold(network: Network, calibration: Calibration) -> tuple[np.ndarray, np.ndarray]:
    """What one member says of these pairs, whole texts: p_UAL and p_O2D2 (P), NaN where its scores know an author."""
    pairs, author = calibration_pairs(calibration.prepared), calibration.prepared.catalogue.author
    scores = network.score(calibration.views.embedding.pair(*(calibration.views.rows(side) for side in pairs.T)))
    learnt = np.isin(author[pairs], author[calibration.for_scores]).any(1)
    p_same, p_undecidable = (p[0].cpu().numpy() for p in (scores.ual, scores.o2d2))
    return np.where(learnt, np.nan, p_same), np.where(learnt, np.nan, p_undecidable)


def learn_calibration(scores: Mapping[str, np.ndarray], prepared: Prepared) -> PlattScaling | None:
    """Of the ensemble's answers, from what its members (M, P) say; None where their scores are stage one's own, which
    know no calibration author, as in the paper: there nothing is added to its rule."""
    if "fold_ual" not in scores or len(scores["fold_ual"]) == 1:
        return None
    truth = prepared.catalogue.same_author(calibration_pairs(prepared))
    return PlattScaling(scale=fit_scale(scores["fold_ual"], scores["fold_o2d2"], truth))


def fit_scale(p_same: np.ndarray, p_undecidable: np.ndarray, truth: np.ndarray) -> float:
    """p_UAL and p_O2D2 (M, P) of members, NaN of those that are not to be asked -> the factor, 1 to MOST, by which the
    logit of their mean predicts `truth` (P) best."""
    asked = ~np.isnan(p_same)
    confident = asked & (np.nan_to_num(p_undecidable, nan=1.0) < MIN_UNDECIDABLE)
    decided = 2 * confident.sum(0) >= np.maximum(asked.sum(0), 1)
    if decided.sum() < FEWEST:
        return 1.0
    mean = np.where(confident, p_same, 0).sum(0)[decided] / confident.sum(0)[decided]
    mean, same, scale = mean.clip(CLIP, 1 - CLIP), truth[decided], 1.0
    logit = np.log(mean / (1 - mean))
    for _ in range(NEWTON_STEPS):
        p = 1 / (1 + np.exp(-scale * logit))
        slope, curvature = ((same - p) * logit).sum(), (p * (1 - p) * logit**2).sum()
        scale = float(np.clip(scale + slope / max(curvature, 1e-9), 0.1, 2 * MOST))
    return float(np.clip(scale, 1.0, MOST))
