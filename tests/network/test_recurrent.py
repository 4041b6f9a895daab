"""The recurrent arithmetic: the reference against torch's own layers, the kernel against the reference in float64,
for every instruction set that this CPU has."""

from dataclasses import replace

import pytest
import torch
from support import TINY
from torch import nn
from torch.nn import functional as F

from pan21av.config import MAX_CHAR_POSITIONS
from pan21av.data.batch import Sequences
from pan21av.network import kernel, native, recurrent, reference
from pan21av.network.recurrent import TypeRows, Weights

needs_kernel = pytest.mark.skipif(not kernel.available(), reason="the native kernel was not built")


@pytest.fixture(params=["base", "avx2", "avx512"])
def isa(request):
    if not kernel.available():
        pytest.skip("the native kernel was not built")
    if not kernel.use(request.param):
        pytest.skip(f"this CPU has no {request.param}")
    with recurrent.only("kernel"):
        yield request.param
    kernel.use("best")


def problem(hidden, sequences, longest, rows=40, n_members=2, seed=0):
    g = torch.Generator().manual_seed(seed)

    def normal(*shape, scale=1.0):
        return torch.randn(n_members, *shape, generator=g) * scale

    inputs = normal(rows, 6)
    weights = Weights(
        input=normal(6, 2, 4, hidden, scale=6**-0.5),
        bias=normal(2, 4, hidden, scale=0.5),
        recurrent=normal(2, hidden, 4, hidden, scale=hidden**-0.5),
        att_matrix=normal(2 * hidden, 2 * hidden, scale=hidden**-0.5),
        att_bias=normal(2 * hidden, scale=0.1),
        att_vector=normal(2 * hidden),
    )
    length = torch.randint(1, longest + 1, (sequences,), generator=g, dtype=torch.int32)
    length[0] = longest
    ids = torch.randint(0, rows, (300 + longest,), generator=g, dtype=torch.int32)
    start = torch.randint(0, 300, (sequences,), generator=g)
    return inputs, weights, Sequences(ids, start, length)


def in_double(inputs, weights):
    return inputs.double(), Weights(*(w.double() for w in weights))


def spelled(letters, types, chars, seed=0):
    """Character ids of tokens of all lengths up to `letters`, padded with 0."""
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, chars, (types, letters), generator=g, dtype=torch.int32)
    lengths = torch.randint(1, letters + 1, (types, 1), generator=g)
    return torch.where(torch.arange(letters) < lengths, ids, 0).int()


# ---- the reference ----


def test_the_reference_is_torchs_lstm_with_attention():
    inputs, weights, sequences = problem(7, 12, 9)
    inputs, weights = in_double(inputs, weights)
    pooled, attention = reference.bilstm_attention(inputs, weights, sequences, True)
    order = [0, 1, 3, 2]  # torch has i, f, g, o; we have i, f, o, g
    for m in range(2):
        lstm = nn.LSTM(6, 7, bidirectional=True).double()
        with torch.no_grad():
            for way, suffix in ((0, ""), (1, "_reverse")):
                getattr(lstm, "weight_ih_l0" + suffix).copy_(weights.input[m, :, way, order].flatten(1).T)
                getattr(lstm, "weight_hh_l0" + suffix).copy_(weights.recurrent[m, way][:, order].flatten(1).T)
                getattr(lstm, "bias_ih_l0" + suffix).copy_(weights.bias[m, way, order].flatten())
                getattr(lstm, "bias_hh_l0" + suffix).zero_()
            for n, (start, length) in enumerate(zip(sequences.start, sequences.length, strict=True)):
                states, _ = lstm(inputs[m, sequences.ids[start : start + length].long()])
                energy = torch.tanh(states @ weights.att_matrix[m] + weights.att_bias[m]) @ weights.att_vector[m]
                weight = torch.softmax(energy, 0)
                torch.testing.assert_close(pooled[m, n], weight @ states)
                torch.testing.assert_close(attention[m, n, :length], weight)
                assert not attention[m, n, length:].any()


def test_the_reference_in_pieces(monkeypatch):
    """Long inputs are worked through in pieces, to bound the memory; nobody can tell from the result."""
    problem_ = problem(5, 30, 12)
    whole = reference.bilstm_attention(*problem_, True)
    monkeypatch.setattr(reference, "MAX_POSITIONS", 100)
    pieces = reference.bilstm_attention(*problem_, True)
    for one, other in zip(whole, pieces, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def test_the_reference_is_torchs_convolution():
    g = torch.Generator().manual_seed(0)
    table, bias = torch.randn(2, 4, 20, 5, generator=g).double(), torch.randn(2, 5, generator=g).double()
    table[:, :, 0] = 0  # padding adds nothing
    ids = spelled(8, 50, 20)
    one_hot = F.one_hot(ids.long(), 20).double().mT  # (types, chars, letters)
    for m, out in enumerate(reference.char_cnn(table, bias, ids)):
        filtered = F.conv1d(one_hot, table[m].permute(2, 1, 0), bias[m], padding=3)
        torch.testing.assert_close(out, torch.tanh(filtered.amax(-1)))


# ---- the kernel ----

SIZES = [(50, 37, 30), (50, 25, 210), (1, 1, 1), (5, 3, 1), (7, 50, 12), (13, 5, 40), (33, 24, 9), (64, 49, 17)]


@pytest.mark.parametrize(("hidden", "sequences", "longest"), SIZES)
def test_forward(isa, hidden, sequences, longest):
    inputs, weights, seq = problem(hidden, sequences, longest)
    pooled, attention = recurrent.bilstm_attention(inputs, weights, seq, attention=True)
    expected, expected_attention = reference.bilstm_attention(*in_double(inputs, weights), seq, True)
    torch.testing.assert_close(pooled.double(), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(attention.double(), expected_attention, atol=1e-5, rtol=0)


@pytest.mark.parametrize("longest", range(1, 211, 19))
def test_forward_of_all_lengths(isa, longest):
    inputs, weights, seq = problem(10, 30, longest, n_members=1, seed=longest)
    pooled, attention = recurrent.bilstm_attention(inputs, weights, seq)
    expected, _ = reference.bilstm_attention(*in_double(inputs, weights), seq, False)
    torch.testing.assert_close(pooled.double(), expected, atol=1e-5, rtol=0)
    assert attention is None


@pytest.mark.parametrize(("hidden", "sequences", "longest"), SIZES)
def test_gradients(isa, hidden, sequences, longest):
    inputs, weights, seq = problem(hidden, sequences, longest, seed=1)
    ours = [x.clone().requires_grad_() for x in (inputs, *weights)]
    pooled, _ = recurrent.bilstm_attention(ours[0], Weights(*ours[1:]), seq)
    direction = torch.randn(pooled.shape, generator=torch.Generator().manual_seed(2))
    pooled.backward(direction)
    theirs = [x.double().requires_grad_() for x in (inputs, *weights)]
    reference.bilstm_attention(theirs[0], Weights(*theirs[1:]), seq, False)[0].backward(direction.double())
    for name, mine, expected in zip(("rows", *Weights._fields), ours, theirs, strict=True):
        scale = expected.grad.abs().max().clamp_min(1e-3)
        torch.testing.assert_close(
            mine.grad.double() / scale, expected.grad / scale, atol=1e-5, rtol=0, msg=lambda m, name=name: f"{name} {m}"
        )


def test_a_row_does_not_depend_on_its_neighbours(isa):
    """Nor on the rows of types that occur in other documents only: so answers do not depend on batches."""
    inputs, weights, seq = problem(50, 60, 30, rows=200)
    together, _ = recurrent.bilstm_attention(inputs, weights, seq)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(3))
    for part in (order[:1], order[1:8], order):
        alone, _ = recurrent.bilstm_attention(inputs, weights, seq[part])
        assert torch.equal(alone, together[:, part])
    for n in order[:20]:
        used, ids = seq.ids[seq.start[n] : seq.start[n] + seq.length[n]].long().unique(return_inverse=True)
        bare = Sequences(ids.int(), torch.tensor([0]), seq.length[n : n + 1])
        alone, _ = recurrent.bilstm_attention(inputs[:, used], weights, bare)
        assert torch.equal(alone[:, 0], together[:, n])


def type_rows(rows, words, seed=6):
    """A problem whose rows are words of a vocabulary, many of them the same, each with something of its own."""
    inputs, weights, seq = problem(10, 40, 12, rows=rows)
    g = torch.Generator().manual_seed(seed)
    which = torch.randint(words, (rows,), generator=g)
    types = TypeRows(torch.randn(2, words, 4, generator=g), which, inputs[..., 4:])
    return types, weights, seq


@pytest.mark.parametrize(("rows", "words"), [(40, 9), (40, 100), (12, 5), (12, 20)])
def test_rows_in_two_parts(isa, rows, words):
    """Values and gradients are those of the parts side by side, with more words than rows and with fewer."""
    types, weights, seq = type_rows(rows, words)
    table, own = (x.clone().requires_grad_() for x in (types.words, types.own))
    pooled, _ = recurrent.bilstm_attention(TypeRows(table, types.which, own), weights, seq)
    theirs = [x.double().requires_grad_() for x in (types.words, types.own)]
    side_by_side = torch.cat([theirs[0][:, types.which], theirs[1]], -1)
    expected, _ = reference.bilstm_attention(*in_double(side_by_side, weights), seq, False)
    torch.testing.assert_close(pooled.double(), expected, atol=1e-5, rtol=0)
    direction = torch.randn(pooled.shape, generator=torch.Generator().manual_seed(2))
    pooled.backward(direction)
    expected.backward(direction.double())
    for mine, other in zip((table, own), theirs, strict=True):
        torch.testing.assert_close(mine.grad.double(), other.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_rows_in_two_parts_do_not_depend_on_what_was_computed_before(isa, mode):
    """Nor on whether the batch has more types than the vocabulary has words, or fewer than a product likes."""
    types, weights, seq = type_rows(200, 30)
    expected, _ = recurrent.bilstm_attention(types, weights, seq)  # with gradients, in memory of its own
    with mode():
        for part in (torch.arange(40), torch.arange(1), torch.arange(5, 9), torch.arange(40)):
            found, _ = recurrent.bilstm_attention(types, weights, seq[part])
            assert torch.equal(found, expected[:, part])
        for n in range(10):
            used, ids = seq.ids[seq.start[n] : seq.start[n] + seq.length[n]].long().unique(return_inverse=True)
            bare = Sequences(ids.int(), torch.tensor([0]), seq.length[n : n + 1])
            few = TypeRows(types.words, types.which[used], types.own[:, used])
            alone, _ = recurrent.bilstm_attention(few, weights, bare)
            assert torch.equal(alone[:, 0], expected[:, n])


def test_activations_to_a_millionth(isa):
    x = torch.cat(
        [torch.linspace(-40, 40, 160_000), torch.tensor([0.0, -0.0, 1e-30, -1e-30, 88.0, -88.0, 1e30, -1e30] * 16)]
    )
    tanh, sigmoid = kernel.activations(x)
    assert (tanh.double() - torch.tanh(x.double())).abs().max() < 1e-6
    assert (sigmoid.double() - torch.sigmoid(x.double())).abs().max() < 1e-6


def compare_char_cnn(table, bias, ids):
    """Values and gradients of the kernel and of the reference."""
    ours = [table.clone().requires_grad_(), bias.clone().requires_grad_()]
    out = recurrent.char_cnn(*ours, ids)
    theirs = [table.double().requires_grad_(), bias.double().requires_grad_()]
    expected = reference.char_cnn(*theirs, ids)
    torch.testing.assert_close(out.double(), expected, atol=1e-6, rtol=0)
    direction = torch.randn(out.shape, generator=torch.Generator().manual_seed(4))
    out.backward(direction)
    expected.backward(direction.double())
    theirs[0].grad[:, :, 0] = 0  # padding is no parameter
    for mine, reference_ in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad.double(), reference_.grad, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(("letters", "taps", "filters"), [(15, 4, 30), (8, 3, 5), (1, 1, 1), (3, 5, 17)])
def test_characters(isa, letters, taps, filters):
    g = torch.Generator().manual_seed(0)
    table, bias = torch.randn(2, taps, 20, filters, generator=g), torch.randn(2, filters, generator=g)
    table[:, :, 0] = 0
    compare_char_cnn(table, bias, spelled(letters, 200, 20))


def longest_tokens(taps=4, chars=400):
    """As many positions as the kernel can tell apart, and a table whose maxima lie at any of them."""
    g = torch.Generator().manual_seed(5)
    letters = MAX_CHAR_POSITIONS + 1 - taps
    ids = torch.stack([1 + torch.randperm(chars - 1, generator=g)[:letters] for _ in range(200)]).int()
    table, bias = torch.randn(1, taps, chars, 16, generator=g), torch.randn(1, 16, generator=g)
    table[:, 1:] *= 0.1  # the first tap decides: the last letter stands under it at the last position alone
    table[:, :, 0] = 0
    return table, bias, ids


def test_gradients_at_the_last_position_that_can_be_told_apart(isa):
    table, bias, ids = longest_tokens()
    _, argmax = kernel.chars_forward(ids, table[0], bias[0])
    assert int(argmax.max()) == MAX_CHAR_POSITIONS - 1, "the test is about that position"
    compare_char_cnn(table, bias, ids)


@needs_kernel
def test_longer_tokens_are_refused():
    """A place of a maximum beyond 8 bits would send its gradient elsewhere, silently."""
    table, bias, ids = longest_tokens()
    with pytest.raises(ValueError, match="256 positions of a token apart, not 257"):
        kernel.chars_forward(torch.cat([ids, ids[:, :1]], 1), table[0], bias[0])


def test_a_model_with_longer_tokens_is_refused():
    letters = MAX_CHAR_POSITIONS + 1 - TINY.char_width
    assert replace(TINY, chars_per_token=letters).chars_per_token == letters
    with pytest.raises(ValueError, match=r"model\.chars_per_token \+ char_width must be at most 257"):
        replace(TINY, chars_per_token=letters + 1)


@needs_kernel
def test_wrong_shapes_are_refused():
    inputs, weights, seq = problem(8, 3, 4)
    rows = torch.zeros(len(inputs[0]), 2, kernel.padded(4 * 8) + 1)
    with pytest.raises(ValueError, match=r"rows has shape .* the kernel needs"):
        kernel.SequenceArgs(rows, seq.ids, seq.start, seq.length, weights.recurrent[0], *(w[0] for w in weights[3:]))
    with pytest.raises(ValueError, match=r"contiguous torch\.float32"):
        native.bilstm_attention(*in_double(inputs, weights), seq, False)


# ---- which of the two ----


@needs_kernel
def test_only_one_of_them_and_then_both_again():
    inputs, weights, seq = problem(8, 3, 4)
    expected, _ = reference.bilstm_attention(inputs, weights, seq, False)
    with recurrent.only("reference"):
        assert torch.equal(recurrent.bilstm_attention(inputs, weights, seq)[0], expected)
        assert not recurrent.uses_kernel(inputs.device)
    native_, _ = native.bilstm_attention(inputs, weights, seq, False)
    assert not torch.equal(native_, expected), "or the line above proves nothing"
    assert torch.equal(recurrent.bilstm_attention(inputs, weights, seq)[0], native_)
    doubles = in_double(inputs, weights)
    with pytest.raises(RuntimeError, match="kernel alone is allowed"), recurrent.only("kernel"):
        recurrent.bilstm_attention(*doubles, seq)
    assert recurrent.bilstm_attention(*doubles, seq)[0].dtype is torch.float64  # by the reference


def test_without_a_kernel_the_reference_computes(monkeypatch):
    inputs, weights, seq = problem(8, 3, 4)
    monkeypatch.setattr(kernel, "library", lambda: None)
    expected, _ = reference.bilstm_attention(inputs, weights, seq, False)
    assert torch.equal(recurrent.bilstm_attention(inputs, weights, seq)[0], expected)
    with pytest.raises(RuntimeError, match="was not built"):
        kernel.instruction_set()
