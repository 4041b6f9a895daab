"""Documents as the encoder reads them: token types, windows over tokens, documents over windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .config import ModelConfig
from .recurrent import Sequences
from .style import frequencies
from .text import Tokens, window_spans
from .vocabulary import Vocabulary


@dataclass(frozen=True)
class Batch:
    """Several documents, none empty."""

    words: Tensor  # (types) int64: word id of each distinct token
    chars: Tensor  # (types, letters) int32
    windows: Sequences  # over token types, the windows of all documents in order
    documents: Sequences  # over those windows
    tokens: Tensor  # (documents) how many were read
    usage: Tensor | None = None  # (documents, features): see style.py; None if the model has no use for it

    def to(self, device: torch.device) -> Batch:
        usage = None if self.usage is None else self.usage.to(device)
        return Batch(
            self.words.to(device),
            self.chars.to(device),
            self.windows.to(device),
            self.documents.to(device),
            self.tokens.to(device),
            usage,
        )


def make_batch(words: np.ndarray, chars: np.ndarray, documents: Sequence[np.ndarray], config: ModelConfig) -> Batch:
    """Cut documents, given as positions (n) of type ids, into windows."""
    starts, lengths, counts = [], [], []
    offset = 0
    for document in documents:
        spans = window_spans(len(document), config.window_tokens, config.window_hop, config.max_windows)
        starts += [offset + start for start, _ in spans]
        lengths += [length for _, length in spans]
        counts.append(len(spans))
        offset += len(document)
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
        torch.from_numpy(frequencies(words, chars, documents, config)) if config.style_dim else None,
    )


def batch_of_tokens(documents: Sequence[Tokens], vocabulary: Vocabulary, config: ModelConfig) -> Batch:
    """A batch whose types are the distinct tokens of all documents together."""
    index: dict[str, int] = {}
    merged = []
    for document in documents:
        local = np.array([index.setdefault(t, len(index)) for t in document.types], dtype=np.int32)
        merged.append(local[document.ids[: config.max_tokens]])
    words, chars = vocabulary.ids(list(index), config.letters)
    return make_batch(words, chars, merged, config)
