"""BiLSTM and attention over many sequences: what the token and the window level share.

A sequence is a slice of a flat id array, an id selects a row already projected to gate space
(so the input product is paid once per distinct row). `pool` runs the native kernel where it
can and the same arithmetic in torch elsewhere; both are differentiable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from . import kernel


@dataclass(frozen=True)
class Sequences:
    """Sequence n is ids[start[n] : start[n] + length[n]], length >= 1."""

    ids: Tensor  # flat, int32
    start: Tensor  # (N) int64
    length: Tensor  # (N) int32

    def __len__(self) -> int:
        return len(self.start)

    def to(self, device: torch.device) -> Sequences:
        return Sequences(self.ids.to(device), self.start.to(device), self.length.to(device))


# Below a handful of rows, BLAS libraries take other paths, which round differently (seen up to 3 rows).
FEWEST_ROWS = 16


def affine_rows(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x (N, I) weight (I, O) + bias (O), where a row of the result does not depend on the other rows."""
    if len(x) < FEWEST_ROWS:
        return torch.addmm(bias, F.pad(x, (0, 0, 0, FEWEST_ROWS - len(x))), weight)[: len(x)]
    return torch.addmm(bias, x, weight)


class _NativePool(torch.autograd.Function):
    """One member through the kernel; the backward pass recomputes, so only inputs are kept."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, recurrent: Tensor, matrix: Tensor, bias: Tensor, vector: Tensor,
                sequences: Sequences, with_weights: bool) -> Any:  # fmt: skip
        ctx.args = kernel.SequenceArgs(
            rows, sequences.ids, sequences.start, sequences.length, recurrent, matrix, bias, vector
        )
        pooled, weights = ctx.args.forward(with_weights)
        if weights is None:
            weights = pooled.new_empty(0, 0)
        ctx.mark_non_differentiable(weights)
        return pooled, weights

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return *ctx.args.backward(grads[0]), None, None


def pool_native(
    rows: Tensor, recurrent: Tensor, matrix: Tensor, bias: Tensor, vector: Tensor,
    sequences: Sequences, with_weights: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One member. rows (R, 2, 4, stride) padded, the weights natural:
    recurrent (2, H, 4, H), matrix (2H, 2H), bias and vector (2H).
    Returns pooled (N, 2H) and weights (N, longest), empty unless asked for.
    """
    hidden = recurrent.shape[1]
    units, columns = rows.shape[-1] - hidden, kernel.padded(2 * hidden) - 2 * hidden
    pooled, weights = _NativePool.apply(
        rows,
        F.pad(recurrent, (0, units)),
        F.pad(matrix, (0, columns)),
        F.pad(bias, (0, columns)),
        F.pad(vector, (0, columns)),
        sequences,
        with_weights,
    )
    return pooled, weights


def pool_torch(
    rows: Tensor, recurrent: Tensor, matrix: Tensor, bias: Tensor, vector: Tensor, sequences: Sequences
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """All members stacked, any device. rows (M, R, 2, 4, H), recurrent (M, 2, H, 4, H),
    matrix (M, 2H, 2H), bias and vector (M, 2H).
    Returns pooled (M, N, 2H) and weights (M, N, longest).
    """
    members, _, _, _, hidden = rows.shape
    length = sequences.length.long()
    steps = int(length.max())
    time = torch.arange(steps, device=rows.device)
    alive = time < length[:, None]  # (N, T)
    both = []
    for direction in (0, 1):
        # Step s reads position s forwards, length - 1 - s backwards; past the end any will do.
        position = torch.where(alive, length[:, None] - 1 - time, 0) if direction else time.expand_as(alive)
        position = torch.where(alive, position, 0)
        ids = sequences.ids[sequences.start[:, None] + position].long()
        weight = recurrent[:, direction].reshape(members, hidden, 4 * hidden)
        gate_rows = rows[:, :, direction].reshape(members, -1, 4 * hidden)
        h = c = rows.new_zeros(members, len(length), hidden)
        states = []
        for s in range(steps):
            gates = torch.baddbmm(gate_rows[:, ids[:, s]], h, weight)
            i, f, o = torch.sigmoid(gates[..., : 3 * hidden]).split(hidden, dim=-1)
            c = f * c + i * torch.tanh(gates[..., 3 * hidden :])
            h = o * torch.tanh(c)
            states.append(h)
        out = torch.stack(states, 2)  # (M, N, T, H)
        if direction:
            out = out.gather(2, position[None, :, :, None].expand_as(out))  # the map is its own inverse
        both.append(out)
    states_both = torch.cat(both, -1)
    energy = (torch.tanh(states_both @ matrix[:, None] + bias[:, None, None]) * vector[:, None, None]).sum(-1)
    weights = torch.softmax(energy.masked_fill(~alive, -torch.inf), -1)
    return (weights[..., None] * states_both).sum(2), weights


class _NativeCharacters(torch.autograd.Function):
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


def characters_native(table: Tensor, bias: Tensor, ids: Tensor) -> Tensor:
    """One member. table (taps, chars, F), bias (F), ids (types, letters) int32 -> (types, F)."""
    filters = table.shape[-1]
    extra = kernel.padded(filters) - filters
    out: Tensor = _NativeCharacters.apply(F.pad(table, (0, extra)), F.pad(bias, (0, extra)), ids)
    return out[:, :filters]


def characters_torch(table: Tensor, bias: Tensor, ids: Tensor) -> Tensor:
    """All members stacked: table (M, taps, chars, F), bias (M, F) -> (M, types, F)."""
    taps = table.shape[1]
    padded = F.pad(ids.long(), (taps - 1, taps - 1))
    positions = padded.shape[1] - taps + 1
    sums = sum(table[:, k][:, padded[:, k : k + positions]] for k in range(taps))
    assert isinstance(sums, Tensor)  # (M, types, positions, F)
    return torch.tanh(sums.amax(2) + bias[:, None])
