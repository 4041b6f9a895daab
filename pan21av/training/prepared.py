"""A prepared corpus on disk, as the members read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..config import ModelConfig
from ..data.batch import Batch, make_batch
from ..data.fitness import Limits
from ..data.vocabulary import Vocabulary
from .sampling import Catalogue

TRAIN, CALIBRATE, VALIDATE = 0, 1, 2
SPLITS = {"training": TRAIN, "calibration": CALIBRATE, "validation": VALIDATE}
MANIFEST = "manifest.json"


class Span(NamedTuple):
    """A part of a document; one that is too long ends with it."""

    document: int
    first: int  # token
    tokens: int


@dataclass(frozen=True)
class Prepared:
    """The large arrays are mapped from disk."""

    folder: Path
    model: ModelConfig
    tokens: np.ndarray  # flat token types, int32
    offsets: np.ndarray  # (documents + 1)
    type_words: np.ndarray  # (types) word ids
    type_chars: np.ndarray  # (types, chars_per_token) character ids
    catalogue: Catalogue
    split: np.ndarray  # (documents)
    vocabulary: Vocabulary
    vectors: np.ndarray | None  # (words, dim) to start from; NaN rows start at random
    frequencies: np.ndarray | None  # (documents, features), of the tokens that are read
    development: np.ndarray  # (pairs, 2)
    validation: np.ndarray
    sources: list[str]
    limits: Limits  # what the training texts keep to
    fingerprint: str
    table: dict[str, Any]

    @classmethod
    def load(cls, folder: Path, model: ModelConfig) -> Prepared:
        manifest = orjson.loads((folder / MANIFEST).read_bytes())
        arrays = np.load(folder / "documents.npz")
        vectors, frequencies = folder / "vectors.npy", folder / "frequencies.npy"
        return cls(
            folder,
            model,
            np.memmap(folder / "tokens.i32", dtype=np.int32, mode="r"),
            arrays["offsets"],
            np.load(folder / "type_words.npy", mmap_mode="r"),
            np.load(folder / "type_chars.npy", mmap_mode="r"),
            Catalogue(*(arrays[name] for name in ("author", "topic", "work", "source"))),
            arrays["split"],
            Vocabulary.from_json((folder / "vocab.json").read_bytes()),
            np.load(vectors) if vectors.exists() else None,
            np.load(frequencies, mmap_mode="r") if frequencies.exists() else None,
            arrays["development"],
            arrays["validation"],
            manifest["sources"],
            Limits.from_dict(manifest["limits"]),
            manifest["fingerprint"],
            manifest["table"],
        )

    def documents(self, split: int) -> np.ndarray:
        return np.flatnonzero(self.split == split)

    def length(self, document: int) -> int:
        return int(self.offsets[document + 1] - self.offsets[document])

    def tokens_read(self) -> np.ndarray:
        """(documents): those beyond the limit are not."""
        return np.minimum(np.diff(self.offsets), self.model.max_tokens)

    def batch(self, spans: list[Span], *, frequencies: bool = True) -> Batch:
        """Types renumbered for this batch; `frequencies` False leaves them uncounted."""
        parts = []
        for document, first, count in spans:
            start = int(self.offsets[document]) + first
            end = start + min(count, self.model.max_tokens)  # as a verifier reads it: frequencies, too, end there
            parts.append(self.tokens[start : min(end, int(self.offsets[document + 1]))])
        flat = np.concatenate(parts)
        types, ids = np.unique(flat, return_inverse=True)
        documents = np.split(ids.astype(np.int32), np.cumsum([len(p) for p in parts])[:-1])
        words, chars = self.type_words[types].astype(np.int64), self.type_chars[types].astype(np.int32)
        return make_batch(words, chars, documents, self.model, frequencies=frequencies)
