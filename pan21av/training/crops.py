"""Which part of a document is read: random lengths and places."""

from __future__ import annotations

import numpy as np

from .prepared import Prepared, Span
from .settings import PairSettings


class Crops:
    def __init__(self, prepared: Prepared, rng: np.random.Generator) -> None:
        self.prepared, self.rng = prepared, rng

    def whole(self, document: int) -> Span:
        return Span(document, 0, self.prepared.model.max_tokens)

    def random(self, document: int, shortest: int, longest: int) -> Span:
        """So many windows, drawn evenly on a logarithmic scale, anywhere in the document."""
        windows = round(float(np.exp(self.rng.uniform(np.log(shortest), np.log(longest + 1)))) - 0.5)
        count = self.prepared.model.tokens_in(max(1, min(windows, longest)))
        spare = self.prepared.length(document) - count
        return Span(document, int(self.rng.integers(spare + 1)) if spare > 0 else 0, count)

    def of_any_length(self, document: int, shortest: int) -> Span:
        """So many tokens up to all, drawn evenly on a logarithmic scale, anywhere in the document."""
        length = min(self.prepared.length(document), self.prepared.model.max_tokens)
        count = round(float(np.exp(self.rng.uniform(np.log(min(shortest, length)), np.log(length)))))
        return Span(document, int(self.rng.integers(self.prepared.length(document) - count + 1)), count)

    def for_pair(self, document: int, settings: PairSettings) -> Span:
        """The paper's: the whole document; if beyond the limit, half of the time from a random window on. Or a
        random length, where the settings say so."""
        if settings.min_windows:
            return self.random(document, settings.min_windows, settings.max_windows)
        count = self.prepared.model.tokens_in(settings.max_windows)
        spare = self.prepared.length(document) - count
        if spare <= 0 or self.rng.random() >= settings.crop_share:
            return Span(document, 0, count)
        hop = self.prepared.model.window_hop
        return Span(document, hop * int(self.rng.integers(spare // hop + 1)), count)
