"""The seam to the native kernel: nobody else knows that there are two implementations.

BiLSTM and attention over many sequences serve the token and the window level alike. A sequence is a slice of a flat
id array, an id selects an input row: the input product is paid once per distinct row, and only the recurrent one at
every position. Both implementations are differentiable and agree to 1e-5.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..data.batch import Sequences
from . import kernel, native, reference

_allowed: tuple[str, ...] = ("kernel", "reference")


class Weights(NamedTuple):
    """Of a BiLSTM with attention; gates in the order i, f, o, g."""

    input: Tensor  # (M, I, 2, 4, H)
    bias: Tensor  # (M, 2, 4, H)
    recurrent: Tensor  # (M, 2, H, 4, H)
    att_matrix: Tensor  # (M, 2H, 2H)
    att_bias: Tensor  # (M, 2H)
    att_vector: Tensor  # (M, 2H)


class TypeRows(NamedTuple):
    """Input rows of token types: row r is words[which[r]], and then own[r]. Most types of a long text are no words of
    the vocabulary; they share a vector, whose product is paid once."""

    words: Tensor  # (M, V, word_dim)
    which: Tensor  # (R) int64
    own: Tensor  # (M, R, I - word_dim)

    def joined(self) -> Tensor:
        """(M, R, I)"""
        return torch.cat([torch.stack([F.embedding(self.which, table) for table in self.words]), self.own], -1)


def uses_kernel(device: torch.device, dtype: torch.dtype = torch.float32) -> bool:
    """Whether the kernel computes there: it was built, and the numbers are single precision on the CPU."""
    if "kernel" not in _allowed or not kernel.available():
        return False
    return device.type == "cpu" and dtype is torch.float32


def _backend(x: Tensor) -> ModuleType:
    if uses_kernel(x.device, x.dtype):
        return native
    if "reference" not in _allowed:
        raise RuntimeError("the kernel alone is allowed, but cannot compute this")
    return reference


@contextmanager
def only(name: str) -> Iterator[None]:
    """ "kernel" or "reference" alone, for tests and benchmarks."""
    global _allowed
    before, _allowed = _allowed, (name,)
    try:
        yield
    finally:
        _allowed = before


def bilstm_attention(
    inputs: Tensor | TypeRows, weights: Weights, sequences: Sequences, *, attention: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Input rows (M, R, I) -> pooled states (M, N, 2H), and the attention (M, N, longest) if asked for."""
    backend = _backend(weights.input)
    if isinstance(inputs, TypeRows) and backend is reference:
        inputs = inputs.joined()
    pooled, weight = backend.bilstm_attention(inputs, weights, sequences, attention)
    return pooled, weight


def char_cnn(table: Tensor, bias: Tensor, ids: Tensor) -> Tensor:
    """tanh(max over positions) of a CNN over token types, as table look-ups.

    `table` (M, taps, chars, F) is what a character adds to each filter at each tap, `bias` (M, F),
    `ids` (types, chars_per_token) int32 -> (M, types, F)
    """
    out: Tensor = _backend(table).char_cnn(table, bias, ids)
    return out
