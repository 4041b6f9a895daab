"""One step of gradient descent: Adam, each tensor's (or slice's) gradient clipped on its own, a rate that falls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

SLOW = 0.1
LEAST = 1e-6  # of what has to stay positive
Apart = Mapping[nn.Parameter, tuple[int, ...]]


def linear(start: float, end: float, at: float) -> float:
    """From `start` at 0 to `end` at 1, and no further."""
    return start + (end - start) * min(max(at, 0.0), 1.0)


class Optimiser:
    """`slow` parameters learn at a tenth of the rate. `clip` is the largest norm of a tensor's gradient, 0 for any;
    of the parameters in `apart` that of each slice along these dimensions. `positive` ones are kept so."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], clip: float = 0.0, slow: Iterable[nn.Parameter] = (),
        apart: Apart | None = None, positive: Iterable[nn.Parameter] = (),
    ) -> None:  # fmt: skip
        fast, slow = list(parameters), list(slow)
        self.parameters, self.clip, self.apart, self.positive = fast + slow, clip, apart or {}, list(positive)
        groups = [{"params": fast, "share": 1.0}, {"params": slow, "share": SLOW}]
        self.adam = torch.optim.Adam([group for group in groups if group["params"]])

    def step(self, loss: Tensor, rate: float) -> None:
        for group in self.adam.param_groups:
            group["lr"] = group["share"] * rate
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        if self.clip:
            clip_each(self.parameters, self.clip, self.apart)
        self.adam.step()
        with torch.no_grad():
            for parameter in self.positive:
                parameter.clamp_(min=LEAST)

    def state_dict(self) -> dict[str, Any]:
        return self.adam.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.adam.load_state_dict(state)


def clip_each(parameters: Iterable[nn.Parameter], limit: float, apart: Apart | None = None) -> None:
    """Every gradient to a norm of at most `limit`: as a whole, or each slice along the dimensions that `apart` says."""
    for parameter in parameters:
        if parameter.grad is None:
            continue
        norm = parameter.grad.norm()
        if apart and parameter in apart:
            others = [d for d in range(parameter.dim()) if d not in apart[parameter]]
            norm = torch.linalg.vector_norm(parameter.grad, dim=others, keepdim=True)
        parameter.grad.mul_((limit / (norm + 1e-12)).clamp(max=1.0))
