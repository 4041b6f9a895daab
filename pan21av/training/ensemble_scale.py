"""How much surer all members together may be than each of them.

Each member's posterior is calibrated by itself. The mean of members that differ is right more often than it says, the
more so the more they are, so its logit is multiplied by one factor. That is learnt from what all members say of pairs
of calibration authors that none of them learnt from, on kinds of text that they know and, by those that do not know
it, on others; with and without a population.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from ..network.network import Network
from ..vote import MIN_UNDECIDABLE, PlattScaling
from .calibration import Calibration, jury_documents
from .prepared import Prepared
from .sampling import fixed_pairs
from .streams import COHORT_SEED, Stream, numpy_stream

DRAWS = 6  # of pairs as validation has them
FEWEST = 200  # pairs that a factor can be learnt from
MOST = 2.0  # times: what seems to ask for more is chance, or a fault elsewhere
NEWTON_STEPS = 30
CLIP = 1e-6


def jury_pairs(prepared: Prepared) -> np.ndarray:
    """(P, 2): the same for all members."""
    documents = jury_documents(prepared)
    draws = [
        fixed_pairs(prepared.catalogue, documents, numpy_stream(COHORT_SEED, Stream.SCALE_PAIRS, n), len(documents))
        for n in range(DRAWS)
    ]
    return np.concatenate(draws)


@torch.no_grad()
def jury_scores(network: Network, calibration: Calibration) -> dict[str, np.ndarray]:
    """What one member says of these pairs, whole texts, in every condition: p_UAL and p_O2D2 (conditions x P)."""
    pairs, views = jury_pairs(calibration.prepared), calibration.views
    conditions = np.repeat(np.arange(views.n_conditions), len(pairs))
    rows = [views.rows(np.tile(side, views.n_conditions), 0, conditions) for side in pairs.T]
    scores = network.score(views.embedding.pair(*rows))
    return {f"jury_{name}": getattr(scores, name)[0].cpu().numpy() for name in ("ual", "o2d2")}


def learn_calibration(
    scores: Mapping[str, np.ndarray], prepared: Prepared, knows: np.ndarray
) -> PlattScaling | None:  # fmt: skip
    """Of the ensemble's answers, from what its members (M, P) say, who know some of the sources (M, sources); None
    where their scores are stage one's own, as in the paper: there nothing is added to its rule."""
    if "jury_ual" not in scores or len(scores["jury_ual"]) == 1:
        return None
    p_same, p_undecidable = (scores[f"jury_{name}"].astype(np.float64) for name in ("ual", "o2d2"))
    pairs = jury_pairs(prepared)
    conditions = p_same.shape[1] // max(1, len(pairs))
    truth = np.tile(prepared.catalogue.same_author(pairs), conditions)
    known = knows[:, np.tile(prepared.catalogue.source[pairs[:, 0]], conditions)]
    strange = np.where(known, np.nan, p_same)
    return PlattScaling(
        scale=fit_scale(
            np.concatenate([p_same, strange], 1),
            np.concatenate([p_undecidable, p_undecidable], 1),
            np.concatenate([truth, truth]),
        )
    )


def fit_scale(p_same: np.ndarray, p_undecidable: np.ndarray, truth: np.ndarray) -> float:
    """p_UAL and p_O2D2 (M, P) of members, p_UAL NaN of those that are not to be asked -> the factor, 1 to MOST, by
    which the logit of their mean predicts `truth` (P) best."""
    asked = ~np.isnan(p_same)
    confident = asked & (p_undecidable < MIN_UNDECIDABLE)
    decided = (confident.sum(0) > 0) & (2 * confident.sum(0) >= asked.sum(0))
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
