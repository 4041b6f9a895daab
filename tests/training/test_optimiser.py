"""Rates, and clipping of each tensor on its own."""

import copy

import pytest
import torch
from torch import nn

from pan21av.network.encoder import BiLSTM
from pan21av.training.optimiser import Optimiser, clip_each, linear
from pan21av.training.settings import PRESETS
from pan21av.training.stage1 import StageOne


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


def test_slices_are_clipped_on_their_own():
    """The LSTMs' stacked tensors, one slice for each direction and gate as in the published program."""
    lstm = BiLSTM(1, 3, 2)
    torch.manual_seed(0)
    sizes = torch.tensor([[0.1, 30.0, 2.0, 400.0], [7.0, 0.2, 5.5, 1.0]])  # of directions and gates
    layouts = {"input": sizes[None, None, :, :, None], "recurrent": sizes[None, :, None, :, None]}
    layouts["bias"] = sizes[None, :, :, None]
    apart = {getattr(lstm, name): dims for name, dims in lstm.GATES.items()}
    for name, size in layouts.items():
        parameter = getattr(lstm, name)
        parameter.grad = torch.randn_like(parameter) * size
    before = {name: getattr(lstm, name).grad.clone() for name in layouts}
    clip_each(apart, 5.0, apart)
    for direction in range(2):
        for gate in range(4):
            where = {
                "input": (0, slice(None), direction, gate), "recurrent": (0, direction, slice(None), gate),
                "bias": (0, direction, gate),
            }  # fmt: skip
            for name, index in where.items():
                old, new = before[name][index], getattr(lstm, name).grad[index]
                norm = float(old.norm())
                torch.testing.assert_close(new, old * min(1, 5 / norm))


@pytest.mark.parametrize(("preset", "slices"), [("paper", True), ("compact", False)])
def test_who_clips_slices(corpus, preset, slices):
    chosen = PRESETS[preset].pairs
    assert chosen.clip == 5
    settings = corpus.settings.updated({"pairs": {"clip_per": chosen.clip_per}})
    optimiser = StageOne(corpus.prepared, settings, 5, torch.device("cpu")).state.optimiser
    assert bool(optimiser.apart) is slices
    assert len(optimiser.apart) == (6 if slices else 0)
    assert optimiser.clip == 5


def test_adam_is_the_published_one():
    (group,) = Optimiser([nn.Parameter(torch.zeros(1))]).adam.param_groups
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.9, 0.999), 1e-8, 0)
