"""Words and characters to ids: 0 is padding, 1 unknown."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import orjson

from .counting import Counter
from .ngrams import Pool

PAD, UNKNOWN = 0, 1
FIRST = 2  # id of the first listed word or character


@dataclass(frozen=True)
class Vocabulary:
    """The words and characters that a model knows, in the order of their ids from 2 on."""

    words: tuple[str, ...]
    chars: tuple[str, ...]
    lowercase: bool = True  # words are looked up in lower case; characters keep theirs
    ngrams: Pool | None = None  # for ensembles that read them
    _word_ids: dict[str, int] = field(init=False, repr=False, compare=False)
    _char_ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("words", "chars"):
            entries = getattr(self, name)
            if len(set(entries)) != len(entries):
                raise ValueError(f"the vocabulary lists some {name} twice")
            object.__setattr__(self, f"_{name[:-1]}_ids", {w: i for i, w in enumerate(entries, FIRST)})

    @property
    def word_rows(self) -> int:
        return len(self.words) + FIRST

    @property
    def char_rows(self) -> int:
        return len(self.chars) + FIRST

    @cached_property
    def counter(self) -> Counter:
        if self.ngrams is None:
            raise ValueError("the vocabulary has no n-grams")
        return Counter(self.ngrams)

    def word_id(self, token: str) -> int:
        return self._word_ids.get(token.lower() if self.lowercase else token, UNKNOWN)

    def knows_char(self, char: str) -> bool:
        return char in self._char_ids

    def ids(self, types: Sequence[str], chars_per_token: int) -> tuple[np.ndarray, np.ndarray]:
        """Word ids (types) int64 and character ids (types, chars_per_token) int32 of distinct tokens."""
        words = np.fromiter(map(self.word_id, types), dtype=np.int64, count=len(types))
        chars = np.zeros((len(types), chars_per_token), dtype=np.int32)
        known = self._char_ids
        for row, token in zip(chars, types, strict=True):
            codes = [known.get(c, UNKNOWN) for c in token[:chars_per_token]]
            row[: len(codes)] = codes
        return words, chars

    def to_json(self) -> bytes:
        # Lone surrogates can occur in text, but orjson writes valid UTF-8 only.
        values: dict[str, Any] = {"words": self.words, "chars": self.chars, "lowercase": self.lowercase}
        if self.ngrams is not None:
            values["ngrams"] = self.ngrams.to_dict()
        return orjson.dumps(values, option=orjson.OPT_INDENT_2)

    @classmethod
    def from_json(cls, data: bytes) -> Vocabulary:
        values = orjson.loads(data)
        if not isinstance(values, dict) or not {"words", "chars", "lowercase"} <= set(values):
            raise ValueError("a vocabulary needs words, chars and lowercase")
        for name in ("words", "chars"):
            if not isinstance(values[name], list) or not all(isinstance(w, str) for w in values[name]):
                raise ValueError(f"{name} of a vocabulary must be a list of strings")
        ngrams = values.get("ngrams")
        if ngrams is not None and not isinstance(ngrams, dict):
            raise ValueError("ngrams of a vocabulary must be lists by name")
        pool = None if ngrams is None else Pool.from_dict(ngrams)
        return cls(tuple(values["words"]), tuple(values["chars"]), bool(values["lowercase"]), pool)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.to_json()).hexdigest()

    @classmethod
    def build(cls, counts: Iterable[tuple[str, int]], *, words: int, chars: int, lowercase: bool = True) -> Vocabulary:
        """The most frequent words and characters of (token, count) pairs; ties alphabetically."""
        word_counts: dict[str, int] = {}
        char_counts: dict[str, int] = {}
        for token, count in counts:
            word = token.lower() if lowercase else token
            word_counts[word] = word_counts.get(word, 0) + count
            for char in token:
                char_counts[char] = char_counts.get(char, 0) + count
        return cls(_most_frequent(word_counts, words), _most_frequent(char_counts, chars), lowercase)


def _most_frequent(counts: dict[str, int], limit: int) -> tuple[str, ...]:
    valid = (w for w in counts if not any("\ud800" <= c <= "\udfff" for c in w))
    return tuple(sorted(valid, key=lambda w: (-counts[w], w))[:limit])
