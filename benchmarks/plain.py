"""The same answers as pan21av, the plain way: one member after another, nn.LSTM over every position.

A fair opponent, not a straw man: distinct documents are encoded once and token types embedded once.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from pan21av.data.batch import Batch, Sequences
from pan21av.network.encoder import BiLSTM
from pan21av.network.network import Network

ORDER = (0, 1, 3, 2)  # ours i, f, o, g; torch's i, f, g, o


class PlainBiLSTM(nn.Module):
    """BiLSTM and attention with torch's own modules, weights copied from member m."""

    def __init__(self, ours: BiLSTM, m: int) -> None:
        super().__init__()
        inputs, hidden = ours.input.shape[1], ours.input.shape[-1]
        self.lstm = nn.LSTM(inputs, hidden, batch_first=True, bidirectional=True)
        with torch.no_grad():
            for d, suffix in enumerate(("", "_reverse")):
                weights = {
                    "weight_ih_l0": ours.input[m, :, d][:, ORDER, :].reshape(inputs, -1).T,
                    "weight_hh_l0": ours.recurrent[m, d][:, ORDER, :].reshape(hidden, -1).T,
                    "bias_ih_l0": ours.bias[m, d][ORDER, :].flatten(),
                    "bias_hh_l0": torch.zeros(4 * hidden),
                }
                for name, value in weights.items():
                    getattr(self.lstm, name + suffix).copy_(value)
        self.matrix, self.bias, self.vector = (
            nn.Parameter(p[m].clone()) for p in (ours.att_matrix, ours.att_bias, ours.att_vector)
        )

    def forward(self, x: Tensor, length: Tensor) -> Tensor:
        """x (N, T, D) -> (N, 2H)"""
        states = pack_padded_sequence(x, length.cpu().long(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(states)[0], batch_first=True)
        energy = torch.tanh(states @ self.matrix + self.bias) @ self.vector
        past = torch.arange(states.shape[1]) >= length[:, None]
        return (energy.masked_fill(past, -torch.inf).softmax(-1)[..., None] * states).sum(1)


class PlainEncoder(nn.Module):
    """One member's encoder."""

    def __init__(self, network: Network, m: int) -> None:
        super().__init__()
        encoder = network.encoder
        self.words, self.chars = (nn.Parameter(p[m].clone()) for p in (encoder.words, encoder.chars))
        taps, dim, filters = encoder.cnn.shape[1:]
        self.cnn = nn.Conv1d(dim, filters, taps, padding=taps - 1)
        with torch.no_grad():
            self.chars[0] = 0  # padding
            self.cnn.weight.copy_(encoder.cnn[m].permute(2, 1, 0))
            self.cnn.bias.copy_(encoder.cnn_bias[m])
        self.window, self.document = PlainBiLSTM(encoder.window, m), PlainBiLSTM(encoder.document, m)

    def forward(self, batch: Batch) -> Tensor:
        """-> document vectors (documents, 2H)"""
        letters = F.embedding(batch.chars.long(), self.chars, padding_idx=0)
        spelling = torch.tanh(self.cnn(letters.mT)).amax(-1)
        types = torch.cat([F.embedding(batch.words, self.words), spelling], -1)
        windows = self.window(types[_rectangle(batch.windows)], batch.windows.length)
        return self.document(windows[_rectangle(batch.documents)], batch.documents.length)


def _rectangle(sequences: Sequences) -> Tensor:
    """Ids (N, longest), anything past the end."""
    steps = torch.arange(int(sequences.length.max()))
    position = (sequences.start[:, None] + steps).clamp_max(len(sequences.ids) - 1)
    return sequences.ids[position].long()


@torch.inference_mode()
def plain_vectors(network: Network, batches: list[Batch], numbers: list[int]) -> Tensor:
    """Embedding vectors (len(numbers), documents, L) of some members, one after another."""
    found = []
    for m in numbers:
        encoder = PlainEncoder(network, m)
        documents = torch.cat([encoder(batch) for batch in batches])
        found.append(torch.tanh(documents @ network.metric.weight[m] + network.metric.bias[m]))
    return torch.stack(found)
