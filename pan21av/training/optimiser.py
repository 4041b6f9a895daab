"""One step of gradient descent: Adam, each tensor's gradient clipped on its own, a rate that falls linearly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

SLOW = 0.1


def linear(start: float, end: float, at: float) -> float:
    """From `start` at 0 to `end` at 1, and no further."""
    return start + (end - start) * min(max(at, 0.0), 1.0)


class Optimiser:
    """`slow` parameters learn at a tenth of the rate."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], clip: float | None = None, slow: Iterable[nn.Parameter] = ()
    ) -> None:
        fast, slow = list(parameters), list(slow)
        self.parameters, self.clip = fast + slow, clip
        groups = [{"params": fast, "share": 1.0}, {"params": slow, "share": SLOW}]
        self.adam = torch.optim.Adam([group for group in groups if group["params"]])

    def step(self, loss: Tensor, rate: float) -> None:
        for group in self.adam.param_groups:
            group["lr"] = group["share"] * rate
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        if self.clip is not None:
            clip_each(self.parameters, self.clip)
        self.adam.step()

    def state_dict(self) -> dict[str, Any]:
        return self.adam.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.adam.load_state_dict(state)


def clip_each(parameters: Iterable[nn.Parameter], limit: float) -> None:
    for parameter in parameters:
        if parameter.grad is not None:
            norm = parameter.grad.norm()
            parameter.grad.mul_((limit / (norm + 1e-12)).clamp(max=1.0))
