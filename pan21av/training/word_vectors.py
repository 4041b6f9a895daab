"""Word vectors to start from: GloVe, word2vec or fastText as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..data.jsonlines import numbered_lines, opened
from ..data.vocabulary import FIRST, Vocabulary
from ..errors import InputError


def read_vectors(path: Path, vocabulary: Vocabulary, dim: int, spread: float = 0.0) -> tuple[np.ndarray, int]:
    """(rows, dim), NaN where unknown, and for how many listed words there was one.

    `spread` is the standard deviation that they are scaled to; 0 leaves them as they are.

    A word that has no vector of its own begins with that of its lower case.
    """
    table = np.full((vocabulary.word_rows, dim), np.nan, dtype=np.float32)
    rows: dict[str, list[int]] = {}  # a spelling -> words that may begin with its vector, the word itself first
    for word in vocabulary.words:
        rows.setdefault(word, []).insert(0, vocabulary.word_id(word))
        if word.lower() != word:
            rows.setdefault(word.lower(), []).append(vocabulary.word_id(word))
    exact = np.zeros(len(table), dtype=bool)
    with opened(path) as stream:
        for number, line in numbered_lines(stream):
            fields = (line or b"").decode("utf-8", "replace").split(" ")
            if number == 1 and len(fields) == 2:  # "count dim", the header of word2vec and fastText
                continue
            word = fields[0].lower() if vocabulary.lowercase else fields[0]
            mine = [row for row in rows.get(word, ()) if not exact[row]]
            if not mine:
                continue
            try:
                values = np.array(fields[1:], dtype=np.float32)
            except ValueError:
                raise InputError(f"{path}:{number}: not a word and numbers") from None
            if len(values) != dim:
                raise InputError(f"{path}:{number}: {len(values)} numbers, but model.word_dim is {dim}")
            table[mine] = values
            exact[vocabulary.word_id(word)] = True
    known = ~np.isnan(table[:, 0])
    if not known.any():
        raise InputError(f"{path}: holds none of the corpus's words")
    if spread:
        table[known] *= spread / table[known].std()
    return table, int(known[FIRST:].sum())
