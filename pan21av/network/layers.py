"""What every part of the network is made of. All parameters have a leading dimension M, the members of the ensemble:
they share tokens and shapes, so they run together. Training is the case M = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Dropout:
    """Shares that are dropped in training.

    Per "batch" one mask serves all documents of a batch, so that the projection of token types stays shared, and the
    CNN's is on its filters. Per "pair" masks are as published (masked.py); contrast, which knows no pairs, has none.
    """

    words: float = 0.0  # a token type loses its word vector, its characters stay
    cnn: float = 0.0
    lstm: float = 0.0
    attention: float = 0.0
    metric: float = 0.0  # document vectors before the metric layer, LEVs before BFS, UAL's input and hidden layer
    per: str = "batch"  # "pair": the two documents of a pair have the same masks, other pairs others


def uniform(*shape: int, bound: float) -> nn.Parameter:
    return nn.Parameter(torch.empty(*shape).uniform_(-bound, bound))


def draw_mask(shape: Sequence[int], share: float, like: Tensor) -> Tensor:
    """Inverted dropout: zero with probability `share`, else raised by what is lost."""
    ones = torch.ones(*shape, device=like.device, dtype=like.dtype)
    return F.dropout(ones, share) if share else ones


def shared_mask(x: Tensor, share: float, training: bool) -> Tensor:
    """x with one mask over its last dimension for everything in it."""
    if not (training and share):
        return x
    return x * F.dropout(torch.ones(x.shape[-1], device=x.device, dtype=x.dtype), share)


def pair_mask(x: Tensor, pair: Tensor, share: float, training: bool) -> Tensor:
    """x (M, D, I) with a mask (I) for every `pair` (D)."""
    if not (training and share):
        return x
    return x * draw_mask((int(pair.max()) + 1, x.shape[-1]), share, x)[pair]


class Linear(nn.Module):
    """One affine layer per member, in the precision of its input."""

    def __init__(self, n_members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = uniform(n_members, inputs, outputs, bound=(6 / (inputs + outputs)) ** 0.5)
        self.bias = nn.Parameter(torch.zeros(n_members, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """(M, P, I) -> (M, P, O)"""
        return torch.baddbmm(self.bias[:, None].to(x.dtype), x, self.weight.to(x.dtype))
