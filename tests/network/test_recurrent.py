"""The native kernel against the torch path in float64, for every instruction set this CPU has."""

import pytest
import torch
from torch.nn import functional as F

from pan21av import kernel
from pan21av.recurrent import Sequences, characters_native, characters_torch, pool_native, pool_torch

if not kernel.available():
    pytest.skip("the native kernel was not built", allow_module_level=True)


@pytest.fixture(params=["base", "avx2", "avx512"])
def isa(request):
    if not kernel.use(request.param):
        pytest.skip(f"this CPU has no {request.param}")
    yield request.param
    kernel.use("best")


def problem(hidden, sequences, longest, rows=40, seed=0):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape, scale=1.0):
        return torch.randn(*shape, generator=g) * scale

    weights = [
        normal(rows, 2, 4, hidden),
        normal(2, hidden, 4, hidden, scale=hidden**-0.5),
        normal(2 * hidden, 2 * hidden, scale=hidden**-0.5),
        normal(2 * hidden, scale=0.1),
        normal(2 * hidden),
    ]
    length = torch.randint(1, longest + 1, (sequences,), generator=g, dtype=torch.int32)
    length[0] = longest
    ids = torch.randint(0, rows, (300 + longest,), generator=g, dtype=torch.int32)
    start = torch.randint(0, 300, (sequences,), generator=g)
    return weights, Sequences(ids, start, length)


def run_native(weights, sequences):
    rows, *rest = weights
    hidden = rows.shape[-1]
    return pool_native(F.pad(rows, (0, kernel.padded(hidden) - hidden)), *rest, sequences, True)


SIZES = [(50, 37, 30), (50, 25, 210), (1, 1, 1), (5, 3, 1), (7, 50, 12), (13, 5, 40), (33, 24, 9), (64, 49, 17)]


@pytest.mark.parametrize(("hidden", "sequences", "longest"), SIZES)
def test_forward(isa, hidden, sequences, longest):
    weights, seq = problem(hidden, sequences, longest)
    pooled, attention = run_native(weights, seq)
    expected, expected_attention = pool_torch(*(w.double()[None] for w in weights), seq)
    torch.testing.assert_close(pooled.double(), expected[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(attention.double(), expected_attention[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("longest", range(1, 211, 19))
def test_forward_of_all_lengths(isa, longest):
    weights, seq = problem(10, 30, longest, seed=longest)
    expected, _ = pool_torch(*(w.double()[None] for w in weights), seq)
    torch.testing.assert_close(run_native(weights, seq)[0].double(), expected[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize(("hidden", "sequences", "longest"), SIZES)
def test_gradients(isa, hidden, sequences, longest):
    weights, seq = problem(hidden, sequences, longest, seed=1)
    ours = [w.clone().requires_grad_() for w in weights]
    pooled, _ = run_native(ours, seq)
    direction = torch.randn(pooled.shape, generator=torch.Generator().manual_seed(2))
    pooled.backward(direction)
    theirs = [w.double()[None].requires_grad_() for w in weights]
    pool_torch(*theirs, seq)[0].backward(direction.double()[None])
    for mine, reference in zip(ours, theirs, strict=True):
        scale = reference.grad.abs().max().clamp_min(1e-3)
        torch.testing.assert_close(mine.grad.double() / scale, reference.grad[0] / scale, atol=1e-5, rtol=0)


def test_a_row_does_not_depend_on_its_neighbours(isa):
    weights, seq = problem(50, 60, 30)
    together, _ = run_native(weights, seq)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(3))
    for part in (order[:1], order[1:8], order):
        alone, _ = run_native(weights, Sequences(seq.ids, seq.start[part], seq.length[part]))
        assert torch.equal(alone, together[part])


def test_activations_to_a_millionth(isa):
    x = torch.cat(
        [torch.linspace(-40, 40, 160_000), torch.tensor([0.0, -0.0, 1e-30, -1e-30, 88.0, -88.0, 1e30, -1e30] * 16)]
    )
    tanh, sigmoid = kernel.activations(x)
    assert (tanh.double() - torch.tanh(x.double())).abs().max() < 1e-6
    assert (sigmoid.double() - torch.sigmoid(x.double())).abs().max() < 1e-6


@pytest.mark.parametrize(("letters", "taps", "filters"), [(15, 4, 30), (8, 3, 5), (1, 1, 1), (3, 5, 17)])
def test_characters(isa, letters, taps, filters):
    g = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 20, (200, letters), generator=g, dtype=torch.int32)
    lengths = torch.randint(1, letters + 1, (200, 1), generator=g)
    ids = torch.where(torch.arange(letters) < lengths, ids, 0).int()
    table, bias = torch.randn(taps, 20, filters, generator=g), torch.randn(filters, generator=g)
    table[:, 0] = 0
    ours = [table.clone().requires_grad_(), bias.clone().requires_grad_()]
    out = characters_native(*ours, ids)
    theirs = [table.double()[None].requires_grad_(), bias.double()[None].requires_grad_()]
    expected = characters_torch(*theirs, ids)
    torch.testing.assert_close(out.double(), expected[0], atol=1e-6, rtol=0)
    direction = torch.randn(out.shape, generator=g)
    out.backward(direction)
    expected.backward(direction.double()[None])
    theirs[0].grad[:, :, 0] = 0  # padding is no parameter
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad.double(), reference.grad[0], atol=1e-4, rtol=1e-5)


def test_wrong_shapes_are_refused():
    weights, seq = problem(8, 3, 4)
    with pytest.raises(ValueError, match="the kernel needs"):
        pool_native(weights[0][..., :-1], *weights[1:], seq, False)
