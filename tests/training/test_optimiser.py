"""Rates, and clipping of each tensor on its own."""

import copy

import pytest
import torch
from torch import nn

from pan21av.training.optimiser import Optimiser, clip_each, linear


@pytest.mark.parametrize(("at", "rate"), [(-1, 6e-4), (0, 6e-4), (0.5, 4e-4), (1, 2e-4), (7, 2e-4)])
def test_rates_fall_and_stop(at, rate):
    assert linear(6e-4, 2e-4, at) == pytest.approx(rate)


def test_tensors_are_clipped_on_their_own():
    parameters = [nn.Parameter(torch.zeros(2)) for _ in range(3)]
    parameters[0].grad, parameters[1].grad = torch.tensor([30.0, 40.0]), torch.tensor([0.3, 0.4])
    clip_each(parameters, 5.0)
    torch.testing.assert_close(parameters[0].grad, torch.tensor([3.0, 4.0]))
    torch.testing.assert_close(parameters[1].grad, torch.tensor([0.3, 0.4]))


def test_a_step_is_adams():
    """Its first step is the rate, against the sign of the gradient; the rate is that of the call."""
    parameter = nn.Parameter(torch.tensor([1.0, -1.0]))
    optimiser = Optimiser([parameter])
    optimiser.step((parameter * torch.tensor([3.0, -0.01])).sum(), 0.1)
    torch.testing.assert_close(parameter.detach(), torch.tensor([0.9, -0.9]), atol=1e-5, rtol=0)
    again = Optimiser([nn.Parameter(parameter.detach().clone())])
    again.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    for one in (optimiser, again):
        (p,) = one.parameters
        one.step(p.square().sum(), 0.02)
    assert torch.equal(parameter, again.parameters[0]), "its memory of earlier gradients travels with the state"
