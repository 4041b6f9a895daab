"""The recurrent arithmetic in plain torch: any device, any precision, all members stacked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from ..data.batch import Sequences

if TYPE_CHECKING:
    from .recurrent import Weights

MAX_POSITIONS = 2_000_000  # members x sequences x steps that are held at a time


def bilstm_attention(
    inputs: Tensor, weights: Weights, sequences: Sequences, attention: bool
) -> tuple[Tensor, Tensor | None]:
    """As in recurrent.py."""
    n_members, hidden = len(inputs), weights.bias.shape[-1]
    rows = torch.baddbmm(weights.bias.view(n_members, 1, -1), inputs, weights.input.flatten(2))
    rows = rows.view(n_members, -1, 2, 4, hidden)
    longest = int(sequences.length.max())
    size = max(1, MAX_POSITIONS // (n_members * longest))
    pooled, attended = [], []
    for at in range(0, len(sequences), size):
        states, alive = _states(rows, weights.recurrent, sequences[at : at + size])
        energy = torch.tanh(states @ weights.att_matrix[:, None] + weights.att_bias[:, None, None])
        energy = (energy * weights.att_vector[:, None, None]).sum(-1)
        weight = torch.softmax(energy.masked_fill(~alive, -torch.inf), -1)
        pooled.append((weight[..., None] * states).sum(2))
        attended.append(F.pad(weight, (0, longest - weight.shape[-1])))
    return torch.cat(pooled, 1), torch.cat(attended, 1) if attention else None


def _states(rows: Tensor, recurrent: Tensor, sequences: Sequences) -> tuple[Tensor, Tensor]:
    """Rows in gate space (M, R, 2, 4, H) -> states of both directions (M, N, T, 2H), and which exist (N, T)."""
    n_members, _, _, _, hidden = rows.shape
    length = sequences.length.long()
    time = torch.arange(int(length.max()), device=rows.device)
    alive = time < length[:, None]
    both = []
    for direction in (0, 1):
        # Step s reads position s forwards, length - 1 - s backwards; past the end any will do.
        position = torch.where(alive, length[:, None] - 1 - time, 0) if direction else time.expand_as(alive)
        position = torch.where(alive, position, 0)
        ids = sequences.ids[sequences.start[:, None] + position].long()
        weight = recurrent[:, direction].reshape(n_members, hidden, 4 * hidden)
        gate_rows = rows[:, :, direction].reshape(n_members, -1, 4 * hidden)
        h = c = rows.new_zeros(n_members, len(length), hidden)
        states = []
        for s in range(len(time)):
            gates = torch.baddbmm(gate_rows[:, ids[:, s]], h, weight)
            i, f, o = torch.sigmoid(gates[..., : 3 * hidden]).split(hidden, dim=-1)
            c = f * c + i * torch.tanh(gates[..., 3 * hidden :])
            h = o * torch.tanh(c)
            states.append(h)
        out = torch.stack(states, 2)  # (M, N, T, H)
        if direction:
            out = out.gather(2, position[None, :, :, None].expand_as(out))  # the map is its own inverse
        both.append(out)
    return torch.cat(both, -1), alive


def char_cnn(table: Tensor, bias: Tensor, ids: Tensor) -> Tensor:
    """As in recurrent.py."""
    taps = table.shape[1]
    padded = F.pad(ids.long(), (taps - 1, taps - 1))
    positions = padded.shape[1] - taps + 1
    sums = torch.stack([table[:, k][:, padded[:, k : k + positions]] for k in range(taps)]).sum(0)
    return torch.tanh(sums.amax(2) + bias[:, None])  # sums (M, types, positions, F)
