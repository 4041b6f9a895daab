"""The recurrent arithmetic through the native kernel: one member after another, padded to whole vectors.

One member a thread keeps its weights in the cache; verifier.py hands members to threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..data.batch import Sequences
from . import kernel

if TYPE_CHECKING:
    from .recurrent import Weights

# Below a handful of rows, BLAS libraries take other paths, which round differently (seen up to 3 rows).
MIN_ROWS = 16


def bilstm_attention(
    inputs: Tensor, weights: Weights, sequences: Sequences, attention: bool
) -> tuple[Tensor, Tensor | None]:
    """As in recurrent.py; a result does not depend on the other sequences, to the last bit."""
    # Sequences of like length together: the kernel works through them in blocks.
    order = torch.argsort(sequences.length, stable=True)
    back = torch.argsort(order)
    ordered = sequences[order]
    members = [
        _pool(rows, member, ordered, attention)
        for rows, member in zip(inputs, map(type(weights), *weights), strict=True)
    ]
    pooled = torch.stack([states[back] for states, _ in members])
    return pooled, torch.stack([weight[back] for _, weight in members]) if attention else None


def _pool(inputs: Tensor, weights: Weights, sequences: Sequences, attention: bool) -> tuple[Tensor, Tensor]:
    """One member, weights without M: (R, I) -> pooled (N, 2H), attention (N, longest), empty unless asked for."""
    weight, bias, recurrent, att_matrix, att_bias, att_vector = weights
    hidden = recurrent.shape[1]
    columns = kernel.padded(2 * hidden) - 2 * hidden
    rows = affine_rows(inputs, kernel.packed(weight).flatten(1), kernel.packed(bias).flatten())
    pooled, attended = _Pool.apply(
        rows.unflatten(1, (2, -1)),
        kernel.packed(recurrent),
        F.pad(att_matrix, (0, columns)),
        F.pad(att_bias, (0, columns)),
        F.pad(att_vector, (0, columns)),
        sequences,
        attention,
    )
    return pooled, attended


def affine_rows(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (N, I) weight (I, O) + bias (O), where a row of the result does not depend on the other rows."""
    if len(x) < MIN_ROWS:
        return torch.addmm(bias, F.pad(x, (0, 0, 0, MIN_ROWS - len(x))), weight)[: len(x)]
    return torch.addmm(bias, x, weight)


class _Pool(torch.autograd.Function):
    """The backward pass recomputes, so only inputs are kept."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, recurrent: Tensor, matrix: Tensor, bias: Tensor, vector: Tensor,
                sequences: Sequences, attention: bool) -> Any:  # fmt: skip
        ctx.args = kernel.SequenceArgs(
            rows, sequences.ids, sequences.start, sequences.length, recurrent, matrix, bias, vector
        )
        pooled, weights = ctx.args.forward(attention)
        if weights is None:
            weights = pooled.new_empty(len(pooled), 0)
        ctx.mark_non_differentiable(weights)
        return pooled, weights

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return *ctx.args.backward(grads[0]), None, None


def char_cnn(table: Tensor, bias: Tensor, ids: Tensor) -> Tensor:
    """As in recurrent.py."""
    filters = table.shape[-1]
    extra = kernel.padded(filters) - filters
    table, bias = F.pad(table, (0, extra)), F.pad(bias, (0, extra))
    return torch.stack([_Characters.apply(*member, ids) for member in zip(table, bias, strict=True)])[..., :filters]


class _Characters(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, bias: Tensor, ids: Tensor) -> Tensor:
        out, argmax = kernel.chars_forward(ids, table, bias)
        ctx.save_for_backward(ids, out, argmax)
        ctx.taps, ctx.chars = table.shape[:2]
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        ids, out, argmax = ctx.saved_tensors
        return *kernel.chars_backward(ids, ctx.chars, ctx.taps, out, argmax, grads[0]), None
