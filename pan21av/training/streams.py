"""Random numbers by name. Every use has a stream of its own, so that no two ever share their numbers, and a resumed
run draws what an unbroken one would have drawn.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import torch


class Stream(IntEnum):
    """What the numbers are for. The values are part of what makes a training repeatable: append, do not renumber."""

    # of the ensemble's seed: shared by all members
    SPLIT = 1
    FIXED_PAIRS = 2
    TABLE = 3
    COHORT = 4  # of COHORT_SEED
    MEMBER = 5
    LIMITS = 6
    SOURCES = 7
    NGRAM_POOL = 8
    SCALE_PAIRS = 9  # of COHORT_SEED
    KNOWN_TEXTS = 31  # of COHORT_SEED
    FOLDS = 33  # of COHORT_SEED
    # of a member's seed
    STAGE_ONE_WEIGHTS = 10
    NGRAMS = 11
    STAGE_ONE_EPOCH = 12
    STANDARDISATION = 13
    STAGE_TWO_WEIGHTS = 20
    VIEWS = 21
    HEAD_PAIRS = 23
    HEAD_EPOCH = 25
    O2D2_WEIGHTS = 26
    O2D2_EPOCH = 27
    PARTS = 28
    POPULATIONS = 29
    USUAL = 30
    KINDS = 32
    LAYOUT = 34


COHORT_SEED = 12  # one cohort for all ensembles of a corpus: only the members' embeddings of it differ


def _sequence(seed: int, stream: Stream, index: int) -> np.random.SeedSequence:
    # Always two keys: NumPy takes [s, 8] and [s, 8, 0] for the same.
    return np.random.SeedSequence(seed, spawn_key=(int(stream), index))


def numpy_stream(seed: int, stream: Stream, index: int = 0) -> np.random.Generator:
    """`index` tells epochs or draws of one stream apart."""
    return np.random.default_rng(_sequence(seed, stream, index))


def torch_stream(seed: int, stream: Stream, index: int = 0) -> None:
    """What torch draws from now on."""
    torch.manual_seed(int(_sequence(seed, stream, index).generate_state(1, np.uint64)[0] >> 1))


def member_seed(seed: int, number: int) -> int:
    """Of one member: member 7 of 9 is member 7 of 21."""
    return int(_sequence(seed, Stream.MEMBER, number).generate_state(1)[0]) >> 1
