"""What a text must be like for an ensemble to judge it, learnt from the texts that it was trained on."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..data.fitness import Limits, Shares
from .settings import Settings

MAX_DOCUMENTS = 2_000  # looked at
RAREST = 0.5  # per cent: the most extreme of the training texts are ignored, as not being what their label says
SLACK = 0.8  # other people's texts are stranger than those


def learn_limits(shares: Iterable[Shares]) -> Limits:
    """From the shares of training texts; `min_tokens` is left at 0, it follows from the settings."""
    rows = list(shares)
    words, common, unknown, foreign = (
        np.array([getattr(row, name) for row in rows]) for name in ("words", "common", "unknown", "foreign")
    )

    def least(values: np.ndarray) -> float:
        return round(SLACK * float(np.percentile(values, RAREST)), 4)

    return Limits(0, least(words), least(common), round(1 - least(1 - unknown), 4), round(1 - least(1 - foreign), 4))


def min_tokens(settings: Settings) -> int:
    """Of a text that something can be said of: as for the documents that training takes. Stage two learns from shorter
    crops, so that scores fade before they end."""
    return max(settings.data.min_tokens, settings.calibration.min_tokens)
