"""The encoder with dropout masks of every pair's own, as published; in training only.

Such masks end the sharing of projected token types: every position has an input of its own. The kernel's weights are
the same for all sequences, so this is plain torch, some windows at a time, and what it computed on the way forward it
computes again on the way back, if they are many: memory does not grow with the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from ..data.batch import Batch
from ..data.vocabulary import PAD
from .layers import Dropout, draw_mask
from .recurrent import Weights

if TYPE_CHECKING:
    from .encoder import Encoder

POSITIONS = 30_000  # tokens that are held at a time


class Masks(NamedTuple):
    """Of N sequences, the same at all their steps."""

    input: Tensor  # (N, 2, I): of x, for each direction
    state: Tensor  # (N, 2, H): of h(t-1)
    attention: Tensor  # (N, 2H): of h before the attention's matrix
    energy: Tensor  # (N, 2H): of tanh(..) before its vector

    @classmethod
    def draw(cls, count: int, weights: Weights, dropout: Dropout) -> Masks:
        inputs, hidden = weights.input.shape[1], weights.bias.shape[-1]
        like = weights.bias
        return cls(
            draw_mask((count, 2, inputs), dropout.lstm, like),
            draw_mask((count, 2, hidden), dropout.lstm, like),
            draw_mask((count, 2 * hidden), dropout.attention, like),
            draw_mask((count, 2 * hidden), dropout.attention, like),
        )

    def of(self, rows: Tensor) -> Masks:
        return Masks(*(mask[rows] for mask in self))


def encode(encoder: Encoder, batch: Batch, pair: Tensor) -> Tensor:
    """Document vectors (1, D, 2H). Documents of one `pair` (D) have the same masks; window w of either has those of
    window w."""
    documents, device = batch.documents, batch.words.device
    document = torch.repeat_interleave(torch.arange(len(documents), device=device), documents.length)
    number = torch.arange(len(document), device=device) - documents.start[document]
    cell = pair[document] * int(documents.length.max()) + number
    cells, row = cell.unique(return_inverse=True)  # a cell: window w of a pair
    words = encoder.hide_words(batch.words)
    size = max(1, POSITIONS // (2 * int(batch.windows.length.max())))
    at, parts = [], []
    for first in range(0, len(cells), size):
        here = ((row >= first) & (row < first + size)).nonzero()[:, 0]
        count = min(size, len(cells) - first)
        at.append(here)
        arguments = (encoder, batch, words, here, row[here] - first, count)
        # A single part takes no more memory if it is kept, and half of the time.
        alone = count == len(cells)
        parts.append(_windows(*arguments) if alone else checkpoint(_windows, *arguments, use_reentrant=False))
    windows = torch.cat(parts)[torch.argsort(torch.cat(at))]
    weights = encoder.document.weights
    masks = Masks.draw(int(pair.max()) + 1, weights, encoder.dropout).of(pair)
    steps, alive = _steps(documents.start, documents.length)
    return bilstm_attention(windows[steps], alive, weights, masks)[None]


def _windows(encoder: Encoder, batch: Batch, words: Tensor, here: Tensor, row: Tensor, count: int) -> Tensor:
    """Windows `here` (n), of which each has the masks of its `row` among `count` -> (n, 2H)"""
    steps, alive = _steps(batch.windows.start[here], batch.windows.length[here])
    types = batch.windows.ids[steps].long()
    chars = batch.chars[types].long()
    share = encoder.dropout.cnn
    spelled = F.embedding(chars, encoder.chars[0]) * (chars != PAD)[..., None]
    letters = draw_mask((count, *spelled.shape[1:]), share, spelled)  # cells x tokens x characters x dimensions
    spelling = _char_cnn(spelled * letters[row], encoder.cnn[0], encoder.cnn_bias[0])
    x = torch.cat([F.embedding(words[types], encoder.words[0]), spelling], -1)
    weights = encoder.window.weights
    return bilstm_attention(x, alive, weights, Masks.draw(count, weights, encoder.dropout).of(row))


def _steps(start: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Where the steps of sequences are (N, longest), past the end any; and which of them exist."""
    time = torch.arange(int(length.max()), device=length.device)
    alive = time < length[:, None]
    return start[:, None] + torch.where(alive, time, 0), alive


def _char_cnn(letters: Tensor, filters: Tensor, bias: Tensor) -> Tensor:
    """(n, T, letters, dim), filters (taps, dim, F), bias (F) -> tanh of the maximum over positions (n, T, F)"""
    taps, dim, _ = filters.shape
    padded = F.pad(letters.flatten(0, 1), (0, 0, taps - 1, taps - 1))
    found = padded.unfold(1, taps, 1).mT.flatten(2) @ filters.reshape(taps * dim, -1)  # (n T, positions, F)
    return torch.tanh(found.amax(1) + bias).unflatten(0, letters.shape[:2])


def bilstm_attention(x: Tensor, alive: Tensor, weights: Weights, masks: Masks) -> Tensor:
    """Inputs (N, T, I) at the steps that are `alive` (N, T) -> pooled states (N, 2H), of the only member."""
    w = Weights(*(tensor[0] for tensor in weights))
    states = torch.cat([_states(x, alive, w, masks, direction) for direction in (0, 1)], -1)
    energy = torch.tanh((states * masks.attention[:, None]) @ w.att_matrix + w.att_bias)
    energy = (energy * masks.energy[:, None]) @ w.att_vector
    weight = torch.softmax(energy.masked_fill(~alive, -torch.inf), -1)
    return (weight[..., None] * states).sum(1)


def _states(x: Tensor, alive: Tensor, w: Weights, masks: Masks, direction: int) -> Tensor:
    """-> (N, T, H). Backwards, the state stays zero until the sequence's end is met."""
    hidden = w.bias.shape[-1]
    rows = (x * masks.input[:, direction, None]) @ w.input[:, direction].flatten(1) + w.bias[direction].flatten()
    recurrent, mask = w.recurrent[direction].flatten(1), masks.state[:, direction]
    order = range(x.shape[1])
    h = c = x.new_zeros(len(x), hidden)
    steps, exists, states = rows.unbind(1), alive[..., None].to(x.dtype).unbind(1), [h] * x.shape[1]
    for t in reversed(order) if direction else order:
        gates = torch.addmm(steps[t], h * mask, recurrent)
        i, f, o = torch.sigmoid(gates[:, : 3 * hidden]).split(hidden, dim=-1)
        c = (f * c + i * torch.tanh(gates[:, 3 * hidden :])) * exists[t]
        h = o * torch.tanh(c)
        states[t] = h
    return torch.stack(states, 1)
