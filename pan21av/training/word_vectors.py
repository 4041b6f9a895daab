"""Word vectors to start from: GloVe, word2vec or fastText as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..data.jsonlines import numbered_lines, opened
from ..data.vocabulary import FIRST, UNKNOWN, Vocabulary
from ..errors import InputError

SPREAD = 0.3  # standard deviation that vectors are scaled to: that of random ones


def read_vectors(path: Path, vocabulary: Vocabulary, dim: int) -> tuple[np.ndarray, int]:
    """(rows, dim), NaN where unknown, and for how many listed words there was one."""
    table = np.full((vocabulary.word_rows, dim), np.nan, dtype=np.float32)
    with opened(path) as stream:
        for number, line in numbered_lines(stream):
            fields = (line or b"").decode("utf-8", "replace").split(" ")
            if number == 1 and len(fields) == 2:  # "count dim", the header of word2vec and fastText
                continue
            row = vocabulary.word_id(fields[0])
            if row == UNKNOWN or not np.isnan(table[row, 0]):
                continue
            try:
                values = np.array(fields[1:], dtype=np.float32)
            except ValueError:
                raise InputError(f"{path}:{number}: not a word and numbers") from None
            if len(values) != dim:
                raise InputError(f"{path}:{number}: {len(values)} numbers, but model.word_dim is {dim}")
            table[row] = values
    known = ~np.isnan(table[:, 0])
    if not known.any():
        raise InputError(f"{path}: holds none of the corpus's words")
    table[known] *= SPREAD / table[known].std()
    return table, int(known[FIRST:].sum())
