"""Text to document vector: char-CNN + word vector per token type, then two BiLSTMs with attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..config import ModelConfig
from ..data.batch import Batch, Sequences
from ..data.vocabulary import PAD, UNKNOWN
from . import masked, recurrent
from .layers import Dropout, shared_mask, uniform


class BiLSTM(nn.Module):
    """BiLSTM and attention over sequences of rows. Gates in the order i, f, o, g."""

    # Dimensions of direction and gate: the published program has a tensor for each of them.
    GATES: ClassVar = {"input": (2, 3), "recurrent": (1, 3), "bias": (1, 2)}

    def __init__(self, n_members: int, inputs: int, hidden: int) -> None:
        super().__init__()
        self.dropout = Dropout()
        self.input = uniform(n_members, inputs, 2, 4, hidden, bound=(6 / (inputs + hidden)) ** 0.5)
        orthogonal = torch.empty(n_members * 8, hidden, hidden)
        for matrix in orthogonal:
            nn.init.orthogonal_(matrix)
        self.recurrent = nn.Parameter(
            orthogonal.view(n_members, 2, 4, hidden, hidden).transpose(2, 3).contiguous()  # (M, 2, H, 4, H)
        )
        self.bias = nn.Parameter(torch.zeros(n_members, 2, 4, hidden))
        with torch.no_grad():
            self.bias[:, :, 1] = 1.0  # remember, to begin with
        self.att_matrix = uniform(n_members, 2 * hidden, 2 * hidden, bound=(3 / (2 * hidden)) ** 0.5)
        self.att_bias = nn.Parameter(torch.zeros(n_members, 2 * hidden))
        self.att_vector = uniform(n_members, 2 * hidden, bound=(3 / (2 * hidden)) ** 0.5)

    def forward(
        self, inputs: Tensor | recurrent.TypeRows, sequences: Sequences, *, attention: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Rows (M, R, I) -> pooled (M, N, 2H), attention (M, N, longest) if asked for"""
        return recurrent.bilstm_attention(inputs, self._masked_weights(), sequences, attention=attention)

    @property
    def weights(self) -> recurrent.Weights:
        return recurrent.Weights(
            self.input, self.bias, self.recurrent, self.att_matrix, self.att_bias, self.att_vector
        )  # fmt: skip

    def _masked_weights(self) -> recurrent.Weights:
        """As they are, or in training with masks on the states that enter a product."""
        states: Tensor = self.recurrent
        matrix: Tensor = self.att_matrix
        if self.training:
            states = states * F.dropout(torch.ones_like(states[..., :1, :1]), self.dropout.lstm)
            matrix = matrix * F.dropout(torch.ones_like(matrix[..., :1]), self.dropout.attention)
        return self.weights._replace(recurrent=states, att_matrix=matrix)


@dataclass(frozen=True)
class Encoding:
    vectors: Tensor  # (M, documents, 2 * document_hidden)
    token_attention: Tensor | None = None  # (M, windows, window_tokens)
    window_attention: Tensor | None = None  # (M, documents, longest)


class Encoder(nn.Module):
    def __init__(self, config: ModelConfig, n_members: int, word_rows: int, char_rows: int) -> None:
        super().__init__()
        self.dropout = Dropout()
        self.words = uniform(n_members, word_rows, config.word_dim, bound=0.5)
        self.chars = uniform(n_members, char_rows, config.char_dim, bound=(3 / config.char_dim) ** 0.5)
        fan = config.char_width * config.char_dim
        self.cnn = uniform(n_members, config.char_width, config.char_dim, config.char_filters, bound=(3 / fan) ** 0.5)
        self.cnn_bias = nn.Parameter(torch.zeros(n_members, config.char_filters))
        self.window = BiLSTM(n_members, config.word_dim + config.char_filters, config.window_hidden)
        self.document = BiLSTM(n_members, 2 * config.window_hidden, config.document_hidden)
        with torch.no_grad():
            self.words[:, PAD] = 0
            self.chars[:, PAD] = 0

    def forward(self, batch: Batch, *, attention: bool = False, pair: Tensor | None = None) -> Encoding:
        """`pair` (D): which pair each document belongs to, for dropout masks per pair."""
        if self.training and pair is not None and self.dropout.per == "pair":
            return Encoding(masked.encode(self, batch, pair))
        spelling = recurrent.char_cnn(self._char_table(), self.cnn_bias, batch.chars)
        words = self.hide_words(batch.words)
        types = recurrent.TypeRows(self.words, words, self._drop(spelling, self.dropout.cnn))
        masked_types = self._drop(types.joined(), self.dropout.lstm) if self.training and self.dropout.lstm else types
        windows, tokens_seen = self.window(masked_types, batch.windows, attention=attention)
        documents, windows_seen = self.document(
            self._drop(windows, self.dropout.lstm), batch.documents, attention=attention
        )
        return Encoding(documents, tokens_seen, windows_seen)

    def _char_table(self) -> Tensor:
        """What character c adds to each filter at each tap: (M, taps, chars, filters)."""
        known = (torch.arange(self.chars.shape[1], device=self.chars.device) != PAD)[:, None]
        return torch.einsum("mcd,mkdf->mkcf", self.chars * known, self.cnn)

    def hide_words(self, words: Tensor) -> Tensor:
        """(types) -> the same, in training some of them unknown"""
        if self.training and self.dropout.words:
            hidden = torch.rand(words.shape, device=words.device) < self.dropout.words
            words = torch.where(hidden, UNKNOWN, words)
        return words

    def _drop(self, x: Tensor, share: float) -> Tensor:
        return shared_mask(x, share, self.training)
