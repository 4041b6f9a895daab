"""The published program's initial values. What is not named here starts as in the layers: UAL and O2D2 Glorot uniform,
biases at zero."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..data.vocabulary import PAD
from ..network.encoder import BiLSTM
from ..network.network import Network
from ..network.scores import BFS, DML
from .topic_probe import TopicProbe

FORGET, OUTPUT = 1, 2  # gates
FORGET_BIAS, OUTPUT_BIAS = 2.5, 1.0


@torch.no_grad()
def published_start(network: Network, probe: TopicProbe) -> None:
    """Of all that stage one trains but the word vectors; gamma and alpha start at 0.09 and 1.5 anyhow, and are trained
    as they are."""
    encoder = network.encoder
    assert encoder is not None
    assert network.metric is not None
    _uniform(encoder.chars, 0.03)
    encoder.chars[:, PAD] = 0
    _uniform(encoder.cnn, 0.1)
    for lstm in (encoder.window, encoder.document):
        _start_lstm(lstm)
    for scores in (network, probe):
        assert scores.metric is not None
        _uniform(scores.metric.weight, 0.4)
        _start_bfs(scores.bfs)
    network.dml = PlainDML(network.dml)


def _uniform(tensor: Tensor, bound: float) -> None:
    tensor.uniform_(-bound, bound)


def _start_lstm(lstm: BiLSTM) -> None:
    _uniform(lstm.input, 0.05)
    _uniform(lstm.recurrent, 0.05)
    lstm.bias.zero_()
    lstm.bias[:, :, FORGET] = FORGET_BIAS
    lstm.bias[:, :, OUTPUT] = OUTPUT_BIAS
    _uniform(lstm.att_matrix, 0.03)
    _uniform(lstm.att_vector, 0.03)


def _start_bfs(bfs: BFS) -> None:
    _uniform(bfs.projection.weight, 0.4)
    for factor, diagonal in ((bfs.within, 1.02), (bfs.between, 0.98)):
        factor.copy_((0.02 * torch.rand_like(factor)).triu(1))
        factor.diagonal(dim1=-2, dim2=-1).fill_(math.log(diagonal))
    _uniform(bfs.mean, 0.0001)


class PlainDML(DML):
    """DML whose gamma and alpha are trained as they are, not as logarithms, which are what is stored. Nothing else
    keeps them positive than who takes the steps."""

    def __init__(self, dml: DML) -> None:
        nn.Module.__init__(self)
        self.variant = dml.variant
        self.gamma = nn.Parameter(dml.log_gamma.detach().exp())
        self.alpha = nn.Parameter(dml.log_alpha.detach().exp())

    @property
    def log_gamma(self) -> Tensor:  # type: ignore[override]
        return self.gamma.log()

    @property
    def log_alpha(self) -> Tensor:  # type: ignore[override]
        return self.alpha.log()

    def stored(self) -> DML:
        dml = DML(len(self.gamma), self.variant).to(self.gamma.device)
        with torch.no_grad():
            dml.log_gamma.copy_(self.log_gamma)
            dml.log_alpha.copy_(self.log_alpha)
        return dml


def keep_logarithms(network: Network) -> None:
    """As it is stored and shipped."""
    if isinstance(network.dml, PlainDML):
        network.dml = network.dml.stored()
