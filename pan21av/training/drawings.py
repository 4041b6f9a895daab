"""Which rule pairs are drawn by, as `data.drawing` names it.

"published": as in the paper (published_drawing.py). "balanced": ours (sampling.py), for corpora of several sources with
coarse topics: as many same- as different-author pairs of each source, and documents go where they can.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .published_drawing import PUBLISHED
from .sampling import FOR_CALIBRATION, FOR_TRAINING, Catalogue, balanced, draw_pairs, fixed_pairs

DRAWINGS = ("published", "balanced")


def draw(
    drawing: str, purpose: str, catalogue: Catalogue, documents: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Pairs (p, 2) of an epoch, for "training" or "calibration"."""
    if drawing == "published":
        return PUBLISHED[purpose].draw(catalogue, documents, rng)
    ours = {"training": FOR_TRAINING, "calibration": FOR_CALIBRATION}
    return draw_pairs(catalogue, documents, ours[purpose], rng)


def draw_fixed(
    drawing: str, catalogue: Catalogue, calibration: np.ndarray, validation: np.ndarray, rng: np.random.Generator,
    limit: int = 0, validation_draws: int = 1,
) -> dict[str, np.ndarray]:  # fmt: skip
    """The pairs that all members share: of validation, of development (calibration and validation together), each up to
    a limit, 0 for none; as in the paper also of calibration, for its tables 2 and 3.

    Where pairs are balanced, those of validation may be drawn several times, each draw up to the limit: a document is
    then in several pairs, so that small sources have enough of them. As published, every document is used once.
    """
    documents = {"validation": validation, "development": np.sort(np.concatenate([calibration, validation]))}
    if drawing != "published":
        fixed = {name: fixed_pairs(catalogue, numbers, rng, limit) for name, numbers in documents.items()}
        more = [fixed_pairs(catalogue, validation, rng, limit) for _ in range(1, validation_draws)]
        return {**fixed, "validation": balanced(catalogue, distinct([fixed["validation"], *more]))}
    rule = PUBLISHED["validation"]
    fixed = {name: rule.draw(catalogue, numbers, rng)[: limit or None] for name, numbers in documents.items()}
    return {**fixed, "calibration": PUBLISHED["fixed calibration"].draw(catalogue, calibration, rng)}


def distinct(draws: Sequence[np.ndarray]) -> np.ndarray:
    """Pairs (p, 2) of several draws, each once, in the order in which they were drawn."""
    pairs = np.concatenate(draws)
    _, first = np.unique(np.sort(pairs, 1), axis=0, return_index=True)
    return pairs[np.sort(first)]
