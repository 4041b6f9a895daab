"""A prepared corpus on disk, as the members read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from ..config import ModelConfig
from ..data.batch import Batch, make_batch
from ..data.counting import TypeTable
from ..data.fitness import Limits
from ..data.vocabulary import Vocabulary
from .drawings import draw
from .sampling import Catalogue
from .tokenising import LAYOUT, TOKENS

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
    """Tokens and layout stay on disk, and are read when they are asked for: mapped pages would count as a member's
    memory, and PAN20's fill gigabytes."""

    folder: Path
    model: ModelConfig
    offsets: np.ndarray  # (documents + 1), of tokens
    layout_offsets: np.ndarray  # (documents + 1), of symbols of layout; all 0 where it is not read
    type_words: np.ndarray  # (types) word ids
    type_chars: np.ndarray  # (types, chars_per_token) character ids
    catalogue: Catalogue
    split: np.ndarray  # (documents)
    vocabulary: Vocabulary
    vectors: np.ndarray | None  # (words, dim) to start from; NaN rows start at random
    development: np.ndarray  # (pairs, 2)
    validation: np.ndarray
    calibration: np.ndarray | None  # the same, four kinds alike; None unless pairs are drawn as in the paper
    drawing: str  # by which rule
    sources: list[str]
    limits: Limits  # what the training texts keep to
    fingerprint: str
    table: dict[str, Any]
    known: np.ndarray  # (sources) bool: those that a member is made of
    full_split: np.ndarray  # (documents), as if it were made of all

    @classmethod
    def load(cls, folder: Path, model: ModelConfig) -> Prepared:
        manifest = orjson.loads((folder / MANIFEST).read_bytes())
        arrays = np.load(folder / "documents.npz")
        vectors = folder / "vectors.npy"
        return cls(
            folder,
            model,
            arrays["offsets"],
            arrays["layout_offsets"],
            np.load(folder / "type_words.npy", mmap_mode="r"),
            np.load(folder / "type_chars.npy", mmap_mode="r"),
            Catalogue(*(arrays[name] for name in ("author", "topic", "work", "source"))),
            arrays["split"],
            Vocabulary.from_json((folder / "vocab.json").read_bytes()),
            np.load(vectors) if vectors.exists() else None,
            arrays["development"],
            arrays["validation"],
            arrays.get("calibration"),
            manifest.get("drawing", "balanced"),  # what there was before it was written down
            manifest["sources"],
            Limits.from_dict(manifest["limits"]),
            manifest["fingerprint"],
            manifest["table"],
            np.ones(len(manifest["sources"]), dtype=bool),
            arrays["split"],
        )

    def for_sources(self, numbers: Sequence[int]) -> Prepared:
        """As a member sees it that is made of these sources: training documents of the others are left out."""
        known = np.zeros(len(self.sources), dtype=bool)
        known[list(numbers)] = True
        left_out = (self.split == TRAIN) & ~known[self.catalogue.source]
        return replace(self, split=np.where(left_out, -1, self.split), known=known)

    @property
    def tokens(self) -> np.ndarray:
        """All of them: flat token types, int32, mapped."""
        return np.memmap(self.folder / TOKENS, dtype=np.int32, mode="r")

    @cached_property
    def types(self) -> list[str]:
        """The token types, as they are written."""
        return (self.folder / "types.txt").read_bytes().decode("utf-8", "surrogatepass").split("\n")

    @cached_property
    def _type_table(self) -> TypeTable:
        return self.vocabulary.counter.analyse(self.types)

    def documents(self, split: int) -> np.ndarray:
        return np.flatnonzero(self.split == split)

    def draw(self, purpose: str, documents: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Pairs (p, 2) of an epoch, for "training" or "calibration"."""
        return draw(self.drawing, purpose, self.catalogue, documents, rng)

    def length(self, document: int) -> int:
        return int(self.offsets[document + 1] - self.offsets[document])

    def tokens_read(self) -> np.ndarray:
        """(documents): those beyond the limit are not."""
        return np.minimum(np.diff(self.offsets), self.model.max_tokens)

    def tokens_of(self, span: Span) -> np.ndarray:
        """As a verifier reads them: no further than the limit."""
        start = int(self.offsets[span.document]) + span.first
        end = min(start + min(span.tokens, self.model.max_tokens), int(self.offsets[span.document + 1]))
        return np.fromfile(self.folder / TOKENS, dtype=np.int32, count=end - start, offset=4 * start)

    def layout_of(self, span: Span) -> np.ndarray:
        """The symbols (n) of its layout: as large a part of the document's as its tokens are, and at the same place."""
        tokens, symbols = self.length(span.document), np.diff(self.layout_offsets[span.document :][:2])[0]
        last = min(span.first + min(span.tokens, self.model.max_tokens), tokens)
        start, end = span.first * symbols // tokens, last * symbols // tokens
        first = int(self.layout_offsets[span.document] + start)
        return np.fromfile(self.folder / LAYOUT, dtype=np.uint8, count=int(end - start), offset=first)

    def count_ngrams(self, spans: Sequence[Span]) -> tuple[np.ndarray, np.ndarray]:
        """-> relative frequencies (spans, pool) and tokens read (spans)"""
        tokens = [self.tokens_of(span) for span in spans]
        return self._counted(tokens, [[span] for span in spans]), np.array([len(t) for t in tokens])

    def _counted(self, tokens: Sequence[np.ndarray], spans: Sequence[Sequence[Span]]) -> np.ndarray:
        layouts = None
        if self.vocabulary.ngrams is not None and self.vocabulary.ngrams.layout:
            layouts = [np.concatenate([self.layout_of(span) for span in document]) for document in spans]
        return self.vocabulary.counter.count(self._type_table, tokens, layouts)

    def batch(self, spans: Sequence[Span], config: ModelConfig) -> Batch:
        """What a network of `config` reads; types renumbered for this batch."""
        return self.batch_of_texts([[span] for span in spans], config)

    def batch_of_texts(self, spans: Sequence[Sequence[Span]], config: ModelConfig) -> Batch:
        """The same of documents that are several texts by one author."""
        texts = [[self.tokens_of(span) for span in document] for document in spans]
        parts = [np.concatenate(document) for document in texts]
        types, ids = np.unique(np.concatenate(parts), return_inverse=True)
        documents = np.split(ids.astype(np.int32), np.cumsum([len(p) for p in parts])[:-1])
        words, chars = self.type_words[types].astype(np.int64), self.type_chars[types].astype(np.int32)
        ngrams = self._counted(parts, spans) if config.ngram_dim else None
        return make_batch(words, chars, documents, config, ngrams, [[len(text) for text in d] for d in texts])
