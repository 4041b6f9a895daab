"""Text to document vector: char-CNN + word vector per token type, then two BiLSTMs with attention.

Every parameter has a leading dimension M, the members of the ensemble: they share tokens and
shapes, so they run together. Training is the case M = 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from . import kernel
from .config import ModelConfig
from .documents import Batch
from .recurrent import Sequences, affine_rows, characters_native, characters_torch, pool_native, pool_torch
from .vocabulary import PAD, UNKNOWN

# Positions (members x windows x tokens) that the torch path holds at a time.
TORCH_POSITIONS = 2_000_000


@dataclass(frozen=True)
class Dropout:
    """Shares that are dropped in training. One mask serves all documents of a batch, so the two
    of a pair share theirs, and the projection of token types stays shared as well."""

    words: float = 0.0  # a token type loses its word vector, its characters stay
    cnn: float = 0.2
    lstm: float = 0.1
    attention: float = 0.1
    metric: float = 0.2


def uniform(*shape: int, bound: float) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


class BiLSTM(nn.Module):
    """BiLSTM and attention over sequences of rows. Gates in the order i, f, o, g."""

    def __init__(self, members: int, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.input = uniform(members, inputs, 2, 4, hidden, bound=(6 / (inputs + hidden)) ** 0.5)
        orthogonal = torch.empty(members * 8, hidden, hidden)
        for matrix in orthogonal:
            nn.init.orthogonal_(matrix)
        self.recurrent = nn.Parameter(
            orthogonal.view(members, 2, 4, hidden, hidden).transpose(2, 3).contiguous()  # (M, 2, H, 4, H)
        )
        self.bias = nn.Parameter(torch.zeros(members, 2, 4, hidden))
        with torch.no_grad():
            self.bias[:, :, 1] = 1.0  # remember, to begin with
        self.att_matrix = uniform(members, 2 * hidden, 2 * hidden, bound=(3 / (2 * hidden)) ** 0.5)
        self.att_bias = nn.Parameter(torch.zeros(members, 2 * hidden))
        self.att_vector = uniform(members, 2 * hidden, bound=(3 / (2 * hidden)) ** 0.5)

    def _dropped(self, dropout: Dropout | None, member: slice) -> tuple[Tensor, Tensor]:
        recurrent, matrix = self.recurrent[member], self.att_matrix[member]
        if dropout and self.training:
            ones = torch.ones_like(recurrent[..., :1, :1])
            recurrent = recurrent * F.dropout(ones, dropout.lstm)
            matrix = matrix * F.dropout(torch.ones_like(matrix[..., :1]), dropout.attention)
        return recurrent, matrix

    def native(
        self, inputs: Tensor, sequences: Sequences, member: int, dropout: Dropout | None, with_weights: bool
    ) -> tuple[Tensor, Tensor]:
        """One member: inputs (R, D) -> pooled (N, 2H), weights (N, longest)."""
        extra = kernel.padded(self.hidden) - self.hidden
        weight, bias = F.pad(self.input[member], (0, extra)), F.pad(self.bias[member], (0, extra))
        rows = affine_rows(inputs, weight.flatten(1), bias.flatten()).view(-1, 2, 4, self.hidden + extra)
        recurrent, matrix = self._dropped(dropout, slice(member, member + 1))
        return pool_native(
            rows, recurrent[0], matrix[0], self.att_bias[member], self.att_vector[member], sequences, with_weights
        )

    def stacked(self, inputs: Tensor, sequences: Sequences, dropout: Dropout | None) -> tuple[Tensor, Tensor]:
        """All members: inputs (M, R, D) -> pooled (M, N, 2H), weights (M, N, longest)."""
        members = len(inputs)
        rows = torch.baddbmm(self.bias.view(members, 1, -1), inputs, self.input.flatten(2))
        rows = rows.view(members, -1, 2, 4, self.hidden)
        recurrent, matrix = self._dropped(dropout, slice(None))
        longest = int(sequences.length.max())
        size = max(1, TORCH_POSITIONS // (members * longest))
        pooled, weights = [], []
        for at in range(0, len(sequences), size):
            part = Sequences(sequences.ids, sequences.start[at : at + size], sequences.length[at : at + size])
            out, weight = pool_torch(rows, recurrent, matrix, self.att_bias, self.att_vector, part)
            pooled.append(out)
            weights.append(F.pad(weight, (0, longest - weight.shape[-1])))
        return torch.cat(pooled, 1), torch.cat(weights, 1)


@dataclass(frozen=True)
class Encoding:
    vectors: Tensor  # (M, documents, 2 * document_hidden)
    token_weights: Tensor | None = None  # (M, windows, window_tokens)
    window_weights: Tensor | None = None  # (M, documents, longest)


class Encoder(nn.Module):
    def __init__(self, config: ModelConfig, members: int, word_rows: int, char_rows: int) -> None:
        super().__init__()
        self.config = config
        self.words = uniform(members, word_rows, config.word_dim, bound=0.5)
        self.chars = uniform(members, char_rows, config.char_dim, bound=(3 / config.char_dim) ** 0.5)
        fan = config.char_width * config.char_dim
        self.cnn = uniform(members, config.char_width, config.char_dim, config.char_filters, bound=(3 / fan) ** 0.5)
        self.cnn_bias = nn.Parameter(torch.zeros(members, config.char_filters))
        self.window = BiLSTM(members, config.word_dim + config.char_filters, config.window_hidden)
        self.document = BiLSTM(members, 2 * config.window_hidden, config.document_hidden)
        with torch.no_grad():
            self.words[:, PAD] = 0
            self.chars[:, PAD] = 0

    def forward(
        self, batch: Batch, *, dropout: Dropout | None = None, native: bool | None = None, with_weights: bool = False
    ) -> Encoding:
        """Encode the documents of a batch; `native` None takes the kernel where it can."""
        if native is None:
            native = kernel.available() and self.words.device.type == "cpu"
        if native:
            members = [self.member(m, batch, dropout, with_weights) for m in range(len(self.words))]
            if not with_weights:
                return Encoding(torch.stack([e.vectors for e in members]))
            return Encoding(*(torch.stack(parts) for parts in zip(*map(_fields, members), strict=True)))
        table = self._char_table(slice(None))
        spelling = characters_torch(table, self.cnn_bias, batch.chars)
        inputs = self._drop_inputs(self.words[:, self._seen(batch.words, dropout)], spelling, dropout)
        windows, token_weights = self.window.stacked(inputs, batch.windows, dropout)
        vectors, window_weights = self.document.stacked(
            self._drop(windows, dropout.lstm if dropout else 0), batch.documents, dropout
        )
        return Encoding(vectors, token_weights, window_weights) if with_weights else Encoding(vectors)

    def member(self, m: int, batch: Batch, dropout: Dropout | None, with_weights: bool) -> Encoding:
        """One member through the native kernel; shapes as in Encoding, without M."""
        table = self._char_table(slice(m, m + 1))[0]
        spelling = characters_native(table, self.cnn_bias[m], batch.chars)
        words = F.embedding(self._seen(batch.words, dropout), self.words[m])
        inputs = self._drop_inputs(words, spelling, dropout)
        windows, token_weights = self.window.native(inputs, batch.windows, m, dropout, with_weights)
        # Documents of like length together: the kernel works through them in blocks.
        order = torch.argsort(batch.documents.length, stable=True)
        documents = Sequences(batch.documents.ids, batch.documents.start[order], batch.documents.length[order])
        windows = self._drop(windows, dropout.lstm if dropout else 0)
        vectors, window_weights = self.document.native(windows, documents, m, dropout, with_weights)
        back = torch.argsort(order)
        if not with_weights:
            return Encoding(vectors[back])
        return Encoding(vectors[back], token_weights, window_weights[back])

    def _char_table(self, member: slice) -> Tensor:
        """What character c adds to each filter at each tap: (m, taps, chars, filters)."""
        chars = self.chars[member]
        known = (torch.arange(chars.shape[1], device=chars.device) != PAD)[:, None]
        return torch.einsum("mcd,mkdf->mkcf", chars * known, self.cnn[member])

    def _seen(self, words: Tensor, dropout: Dropout | None) -> Tensor:
        if not (self.training and dropout and dropout.words):
            return words
        return torch.where(torch.rand(words.shape, device=words.device) < dropout.words, UNKNOWN, words)

    def _drop(self, x: Tensor, share: float) -> Tensor:
        """One mask over the last dimension for everything in the batch."""
        if not (self.training and share):
            return x
        return x * F.dropout(torch.ones(x.shape[-1], device=x.device), share)

    def _drop_inputs(self, words: Tensor, spelling: Tensor, dropout: Dropout | None) -> Tensor:
        spelling = self._drop(spelling, dropout.cnn if dropout else 0)
        return self._drop(torch.cat([words, spelling], -1), dropout.lstm if dropout else 0)


def _fields(encoding: Encoding) -> tuple[Tensor | None, ...]:
    return encoding.vectors, encoding.token_weights, encoding.window_weights
