"""Which sources a member is made of: every source is known to a majority of the members and new to several."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from .streams import Stream, numpy_stream

FEWEST = 3  # sources that can be dealt out: of two, nobody could be without one and still know what sources differ in


def n_known(n_sources: int, share: float) -> int:
    """Of so many sources, to a member."""
    return math.ceil(share * n_sources - 1e-9) if n_sources >= FEWEST else n_sources


def deal_sources(n_sources: int, share: float, seed: int) -> Iterator[np.ndarray]:
    """For member 1, 2, ...: the numbers of the sources it knows, `share` of all, rounded up.

    A member gets the sources that were dealt least often, at random among equals: so they stay even for any number
    of members, and member 7 of 9 is member 7 of 21.
    """
    each = n_known(n_sources, share)
    rng, dealt = numpy_stream(seed, Stream.SOURCES), np.zeros(n_sources, dtype=np.int64)
    while True:
        mine = np.sort(np.lexsort((rng.random(n_sources), dealt))[:each])
        dealt[mine] += 1
        yield mine
