"""Dropout masks of every pair's own: their shapes and shares as published, and what they are put on."""

import numpy as np
import pytest
import torch
from support import TINY, random_network
from torch import nn

from pan21av.config import ModelConfig
from pan21av.data.batch import make_batch
from pan21av.network import layers, masked, recurrent
from pan21av.network.layers import Dropout
from pan21av.network.network import Network
from pan21av.training.settings import PRESETS

PAPER = PRESETS["paper"].dropout


def random_batch(config, lengths, seed=0):
    """Documents of so many tokens, of 40 types."""
    rng = np.random.default_rng(seed)
    words = rng.integers(2, 20, 40).astype(np.int64)
    chars = rng.integers(0, 20, (40, config.chars_per_token)).astype(np.int32)
    return make_batch(words, chars, [rng.integers(0, 40, n).astype(np.int32) for n in lengths], config)


@pytest.fixture
def drawn(monkeypatch):
    """(shape, share) of every mask that is drawn."""
    found, real = [], layers.draw_mask

    def draw(shape, share, like):
        found.append((tuple(shape), share))
        return real(shape, share, like)

    for module in (layers, masked):
        monkeypatch.setattr(module, "draw_mask", draw)
    return found


def test_the_published_shares():
    """Kept: 0.8 of characters, 0.9 in LSTMs and attention, 0.8 of document vectors, LEVs and UAL's two inputs."""
    assert (PAPER.cnn, PAPER.lstm, PAPER.attention, PAPER.metric) == (0.2, 0.1, 0.1, 0.2)
    assert (PAPER.per, PAPER.words) == ("pair", 0)
    assert PRESETS["compact"].dropout == Dropout(words=0.1, per="batch")


def test_shapes_at_the_papers_sizes(drawn):
    """Two pairs, the first of documents of 2 and 3 windows, the second of 1 and 1: four cells (pair, window)."""
    config = ModelConfig()
    made = Network(config, 1, 30, 30).train()
    made.use_dropout(PAPER)
    batch = random_batch(config, [50, 20, 75, 26])
    assert batch.documents.length.tolist() == [2, 1, 3, 1]
    pair = torch.tensor([0, 1, 0, 1])
    vectors = made.encode(batch, pair)
    made.encoder_part(vectors, pair)
    cells = 4
    assert drawn == [
        ((cells, 30, 15, 10), 0.2),  # window x token x character x 10
        ((cells, 2, 330), 0.1), ((cells, 2, 50), 0.1),  # token LSTM, each direction: in, state
        ((cells, 100), 0.1), ((cells, 100), 0.1),  # attention over tokens
        ((2, 2, 100), 0.1), ((2, 2, 50), 0.1),  # window LSTM
        ((2, 100), 0.1), ((2, 100), 0.1),  # attention over windows
        ((2, 100), 0.2),  # document vector
    ]  # fmt: skip


def test_a_mask_is_inverted_dropout():
    torch.manual_seed(0)
    mask = layers.draw_mask((200, 100), 0.2, torch.zeros(1))
    assert mask.unique().tolist() == pytest.approx([0, 1.25])
    assert float((mask == 0).float().mean()) == pytest.approx(0.2, abs=0.01)


def paired(made, texts, pair, seed=0):
    torch.manual_seed(seed)
    return made.encoder_part(made.encode(texts, pair), pair)[0]


@pytest.fixture
def tiny():
    made = random_network(1).train()
    made.use_dropout(Dropout(0, 0.3, 0.3, 0.3, 0.3, per="pair"))
    return made


def test_the_two_of_a_pair_have_the_same_masks_and_other_pairs_others(tiny):
    """One text four times: as both documents of a pair, and of another one."""
    batch = random_batch(TINY, [60])
    ids = batch.windows.ids.numpy()
    four = make_batch(batch.words.numpy(), batch.chars.numpy(), [ids] * 4, TINY)
    one = paired(tiny, four, torch.tensor([0, 1, 0, 1]))
    torch.testing.assert_close(one[0], one[2], atol=1e-6, rtol=0)
    torch.testing.assert_close(one[1], one[3], atol=1e-6, rtol=0)
    assert (one[0] - one[1]).abs().max() > 1e-2
    assert (one - paired(tiny, four, torch.tensor([0, 1, 0, 1]), seed=1)).abs().max() > 1e-2


def test_masks_differ_from_window_to_window(tiny):
    """A text of the same window again and again: what becomes of its windows differs."""
    seen = []
    real = masked.bilstm_attention
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masked, "bilstm_attention", lambda *args: (seen.append(real(*args)), seen[-1])[1])
        batch = random_batch(TINY, [3 * TINY.window_hop])
        batch.windows.start.zero_()
        tiny.encode(batch, torch.tensor([0]))
    assert seen[0].shape == (3, 2 * TINY.window_hidden)
    assert (seen[0][0] - seen[0][1]).abs().max() > 1e-3


def test_without_shares_it_is_the_encoder_as_it_is(monkeypatch):
    """To rounding, gradients too; in one piece or in several, with windows and documents of all lengths."""
    made = random_network(1).requires_grad_(True).train()
    batch, pair = random_batch(TINY, [5, 60, 100, 13, 170, 12]), torch.tensor([0, 1, 2, 0, 1, 2])
    with recurrent.only("reference"):
        expected = made.encode(batch)
    weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(0))
    names, parameters = zip(*made.encoder.named_parameters(), strict=True)
    gradients = torch.autograd.grad((expected * weights).sum(), parameters)
    made.use_dropout(Dropout(per="pair"))
    for positions in (30_000, 100):
        monkeypatch.setattr(masked, "POSITIONS", positions)
        found = made.encode(batch, pair)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
        again = torch.autograd.grad((found * weights).sum(), parameters)
        for name, one, other in zip(names, again, gradients, strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-3, msg=name)


def test_pieces_draw_their_masks_once(monkeypatch, tiny):
    """What is computed again on the way back has the masks of the way forward: the gradient is that of the value."""
    monkeypatch.setattr(masked, "POSITIONS", 60)
    tiny.double()
    batch, pair = random_batch(TINY, [60, 80]), torch.tensor([0, 0])
    bias = tiny.encoder.window.bias
    bias.requires_grad_(True)

    def value():
        torch.manual_seed(3)
        return tiny.encode(batch, pair).square().sum()

    (gradient,) = torch.autograd.grad(value(), bias)
    for index in [(0, 0, 1, 2), (0, 1, 3, 4)]:
        with torch.no_grad():
            bias[index] += 1e-5
            above = value()
            bias[index] -= 2e-5
            below = value()
            bias[index] += 1e-5
        assert float((above - below) / 2e-5) == pytest.approx(float(gradient[index]), rel=1e-4)


def test_where_masks_are_put(monkeypatch):
    """By a slow literal pass over one window of one document, from the equations."""
    torch.manual_seed(0)
    made = random_network(1).train()
    w = recurrent.Weights(*(t[0] for t in made.encoder.window.weights))
    hidden, inputs, steps = TINY.window_hidden, w.input.shape[0], 5
    x = torch.randn(1, steps, inputs)
    shapes = ((1, 2, inputs), (1, 2, hidden), (1, 2 * hidden), (1, 2 * hidden))
    masks = masked.Masks(*((torch.rand(shape) < 0.5).float() * 2 for shape in shapes))
    found = masked.bilstm_attention(x, torch.ones(1, steps, dtype=torch.bool), made.encoder.window.weights, masks)
    states = torch.zeros(steps, 2, hidden)
    for d, order in ((0, range(steps)), (1, reversed(range(steps)))):
        h = c = torch.zeros(hidden)
        for t in order:
            gate = {}
            for number, name in enumerate("ifog"):
                seen = (x[0, t] * masks.input[0, d]) @ w.input[:, d, number]
                gate[name] = seen + (h * masks.state[0, d]) @ w.recurrent[d, :, number] + w.bias[d, number]
            c = torch.sigmoid(gate["f"]) * c + torch.sigmoid(gate["i"]) * torch.tanh(gate["g"])
            h = torch.sigmoid(gate["o"]) * torch.tanh(c)
            states[t, d] = h
    states = states.flatten(1)
    energy = torch.stack(
        [masks.energy[0] * torch.tanh((h * masks.attention[0]) @ w.att_matrix + w.att_bias) @ w.att_vector
         for h in states]
    )  # fmt: skip
    torch.testing.assert_close(found[0], torch.softmax(energy, 0) @ states, atol=1e-5, rtol=1e-4)


def test_masks_of_characters_come_before_the_convolution():
    """A character that is dropped at all dimensions is as good as none."""
    config = TINY
    made = random_network(1)
    letters = torch.randn(1, 2, config.chars_per_token, config.char_dim)
    none = letters.clone()
    none[:, :, 3] = 0
    out = masked._char_cnn(none, made.encoder.cnn[0], made.encoder.cnn_bias[0])
    conv = nn.functional.conv1d(
        none[0].mT, made.encoder.cnn[0].permute(2, 1, 0), padding=config.char_width - 1
    )  # (tokens, filters, positions)
    expected = torch.tanh(conv + made.encoder.cnn_bias[0, :, None]).amax(-1)
    torch.testing.assert_close(out[0], expected, atol=1e-5, rtol=1e-4)


def test_only_training_has_masks(tiny, drawn):
    batch = random_batch(TINY, [60, 30])
    tiny.eval()
    one, other = (tiny.encoder_part(tiny.encode(batch, torch.tensor([0, 0])), torch.tensor([0, 0])) for _ in "ab")
    assert torch.equal(one, other)
    assert not drawn
