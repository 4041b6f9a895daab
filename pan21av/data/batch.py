"""Documents as the encoder reads them: token types, windows over tokens, documents over windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..config import ModelConfig
from .tokeniser import Tokens
from .vocabulary import Vocabulary


@dataclass(frozen=True)
class Sequences:
    """Sequence n is ids[start[n] : start[n] + length[n]], length >= 1."""

    ids: Tensor  # flat, int32
    start: Tensor  # (N) int64
    length: Tensor  # (N) int32

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, which: slice | Tensor) -> Sequences:
        return Sequences(self.ids, self.start[which], self.length[which])

    def to(self, device: torch.device) -> Sequences:
        return Sequences(self.ids.to(device), self.start.to(device), self.length.to(device))


@dataclass(frozen=True)
class Batch:
    """Several documents, none empty."""

    words: Tensor  # (types) int64: word id of each distinct token
    chars: Tensor  # (types, chars_per_token) int32
    windows: Sequences  # over token types, the windows of all documents in order
    documents: Sequences  # over those windows
    tokens: Tensor  # (documents) float32: how many were read
    ngrams: Tensor | None = None  # (documents, pool): relative frequencies; None where nobody reads them

    def to(self, device: torch.device) -> Batch:
        return Batch(
            self.words.to(device),
            self.chars.to(device),
            self.windows.to(device),
            self.documents.to(device),
            self.tokens.to(device),
            None if self.ngrams is None else self.ngrams.to(device),
        )


def window_spans(tokens: int, config: ModelConfig) -> list[tuple[int, int]]:
    """(start, length) of the overlapping windows over `tokens` tokens, at most `max_windows`.

    Every token up to the limit is covered. As in the published program a window begins at every
    hop, so the last may hold only tokens that the one before it holds as well.
    """
    ends = min(tokens, config.max_windows * config.window_hop)
    return [(start, min(config.window_tokens, tokens - start)) for start in range(0, ends, config.window_hop)]


def make_batch(
    words: np.ndarray,
    chars: np.ndarray,
    documents: Sequence[np.ndarray],
    config: ModelConfig,
    ngrams: np.ndarray | None = None,
    texts: Sequence[Sequence[int]] | None = None,
) -> Batch:
    """Cut documents, given as positions (n) of type ids, into windows.

    `texts` says how many tokens each text of a document has, where some are of several: no window goes over the end
    of a text, and each may be as long as a document.
    """
    starts, lengths, counts = [], [], []
    offset = 0
    for parts in texts or [(len(document),) for document in documents]:
        counts.append(0)
        for tokens in parts:
            spans = window_spans(tokens, config)
            starts += [offset + start for start, _ in spans]
            lengths += [length for _, length in spans]
            counts[-1] += len(spans)
            offset += tokens
    ends = np.cumsum(counts, dtype=np.int64)
    return Batch(
        torch.from_numpy(words),
        torch.from_numpy(chars),
        Sequences(
            torch.from_numpy(np.concatenate(documents).astype(np.int32, copy=False)),
            torch.tensor(starts, dtype=torch.int64),
            torch.tensor(lengths, dtype=torch.int32),
        ),
        Sequences(
            torch.arange(len(starts), dtype=torch.int32),
            torch.from_numpy(ends - np.array(counts)),
            torch.tensor(counts, dtype=torch.int32),
        ),
        torch.tensor([len(document) for document in documents], dtype=torch.float32),
        None if ngrams is None else torch.from_numpy(ngrams),
    )


def batch_of(documents: Sequence[Tokens], vocabulary: Vocabulary, config: ModelConfig) -> Batch:
    """A batch whose types are the distinct tokens of all documents together."""
    index: dict[str, int] = {}
    merged = []
    for document in documents:
        local = np.array([index.setdefault(t, len(index)) for t in document.types], dtype=np.int32)
        merged.append(local[document.ids if document.texts else document.ids[: config.max_tokens]])
    words, chars = vocabulary.ids(list(index), config.chars_per_token)
    ngrams = None
    if config.ngram_dim:
        counter = vocabulary.counter
        ngrams = counter.count(counter.analyse(list(index)), merged, [document.layout for document in documents])
    texts = [read.texts or (len(document),) for read, document in zip(documents, merged, strict=True)]
    return make_batch(words, chars, merged, config, ngrams, texts)
