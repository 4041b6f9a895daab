"""The recurrent arithmetic through the native kernel: one member after another, padded to whole vectors.

One member a thread keeps its weights in the cache; verifier.py hands members to threads.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..data.batch import Sequences
from . import kernel

if TYPE_CHECKING:
    from .recurrent import TypeRows, Weights

# Below a handful of rows, BLAS libraries take other paths, which round differently (seen up to 3 rows).
MIN_ROWS = 16
_kept = threading.local()


def bilstm_attention(
    inputs: Tensor | TypeRows, weights: Weights, sequences: Sequences, attention: bool
) -> tuple[Tensor, Tensor | None]:
    """As in recurrent.py; a result does not depend on the other sequences, to the last bit."""
    # Sequences of like length together: the kernel works through them in blocks.
    order = torch.argsort(sequences.length, stable=True)
    back = torch.argsort(order)
    ordered = sequences[order]
    members = [
        _pool(_gate_rows(inputs, number, member), member, ordered, attention)
        for number, member in enumerate(map(type(weights), *weights))
    ]
    pooled = torch.stack([states[back] for states, _ in members])
    return pooled, torch.stack([weight[back] for _, weight in members]) if attention else None


def _gate_rows(inputs: Tensor | TypeRows, number: int, weights: Weights) -> Tensor:
    """The input of one member, weights without M, projected to gate space: (R, 2, G)"""
    weight, bias = kernel.packed(weights.input).flatten(1), kernel.packed(weights.bias).flatten()
    if isinstance(inputs, Tensor):
        rows = affine_rows(inputs[number], weight, bias)
    else:
        words, which, own = inputs.words[number], inputs.which, inputs.own[number]
        first, rest = weight.split([words.shape[1], own.shape[1]])
        if len(which) < len(words):
            rows = affine_rows(words[which], first, bias)
        else:
            rows = _gathered(affine_rows(words, first, bias), which)
        rows = affine_rows(own, rest, rows)
    return rows.unflatten(1, (2, -1))


def _gathered(rows: Tensor, which: Tensor) -> Tensor:
    """rows[which], in memory that this thread keeps where no gradients are wanted: a fresh block of this size is mapped
    page by page, which takes longer than the product."""
    if torch.is_grad_enabled():
        return rows.index_select(0, which)
    kept: Tensor | None = getattr(_kept, "rows", None)
    if kept is None or kept.shape[1] != rows.shape[1] or len(kept) < len(which):
        with torch.inference_mode(False):  # or only that mode might write to it
            kept = _kept.rows = torch.empty(len(which), rows.shape[1])
    return torch.index_select(rows, 0, which, out=kept[: len(which)])


def _pool(rows: Tensor, weights: Weights, sequences: Sequences, attention: bool) -> tuple[Tensor, Tensor]:
    """One member: (R, 2, G) -> pooled (N, 2H), attention (N, longest), empty unless asked for."""
    _, _, recurrent, att_matrix, att_bias, att_vector = weights
    hidden = recurrent.shape[1]
    columns = kernel.padded(2 * hidden) - 2 * hidden
    pooled, attended = _Pool.apply(
        rows,
        kernel.packed(recurrent),
        F.pad(att_matrix, (0, columns)),
        F.pad(att_bias, (0, columns)),
        F.pad(att_vector, (0, columns)),
        sequences,
        attention,
    )
    return pooled, attended


def affine_rows(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (N, I) weight (I, O) + bias (O), where a row of the result does not depend on the other rows.

    A bias (N, O), one for every row, becomes the result."""
    if len(x) < MIN_ROWS:
        missing = (0, 0, 0, MIN_ROWS - len(x))
        bias = F.pad(bias, missing) if bias.dim() == 2 else bias
        return torch.addmm(bias, F.pad(x, missing), weight)[: len(x)]
    return bias.addmm_(x, weight) if bias.dim() == 2 else torch.addmm(bias, x, weight)


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
