"""Initial values against the published numbers."""

import math

import pytest
import torch

from pan21av.config import ModelConfig
from pan21av.network.embedding import EmbeddingPair
from pan21av.network.network import Network
from pan21av.network.scores import DML
from pan21av.training.initial import PlainDML, keep_logarithms, published_start
from pan21av.training.optimiser import Optimiser
from pan21av.training.settings import PRESETS, Settings
from pan21av.training.stage1 import StageOne
from pan21av.training.topic_probe import TopicProbe


@pytest.fixture(scope="module")
def start():
    """(network, probe) at the paper's sizes."""
    torch.manual_seed(0)
    network, probe = Network(ModelConfig(), 1, 50, 302), TopicProbe(Settings())
    words = network.encoder.words.detach().clone()
    published_start(network, probe)
    assert torch.equal(network.encoder.words, words)  # from word vectors, where there are any
    return network, probe


def spread_evenly(tensor, bound):
    """Uniform in [-bound, bound]: within, up to the edges, and a variance of a third of the bound squared."""
    values = tensor.detach().flatten()
    assert float(values.abs().max()) <= bound
    assert float(values.max()) > 0.75 * bound
    assert float(values.min()) < -0.75 * bound
    assert float(values.var()) == pytest.approx(bound**2 / 3, rel=0.4 if len(values) < 100 else 0.2)


UNIFORM = {
    "encoder.cnn": 0.1,
    "encoder.window.input": 0.05, "encoder.window.recurrent": 0.05,
    "encoder.document.input": 0.05, "encoder.document.recurrent": 0.05,
    "encoder.window.att_matrix": 0.03, "encoder.window.att_vector": 0.03,
    "encoder.document.att_matrix": 0.03, "encoder.document.att_vector": 0.03,
    "metric.weight": 0.4, "bfs.projection.weight": 0.4, "bfs.mean": 0.0001,
    "ual.hidden.weight": math.sqrt(6 / (60 + 120)), "ual.logits.weight": math.sqrt(6 / (120 + 4)),
    "o2d2.layers.0.weight": math.sqrt(6 / (124 + 60)), "o2d2.layers.1.weight": math.sqrt(6 / (60 + 30)),
    "o2d2.layers.2.weight": math.sqrt(6 / (30 + 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", UNIFORM)
def test_uniform(start, name):
    spread_evenly(start[0].get_parameter(name), UNIFORM[name])


@pytest.mark.parametrize("name", ["metric.weight", "bfs.projection.weight", "ual.hidden.weight", "ual.logits.weight"])
def test_the_fandom_verifiers(start, name):
    spread_evenly(start[1].get_parameter(name), UNIFORM[name])
    assert not torch.equal(start[0].get_parameter(name), start[1].get_parameter(name))


def test_characters(start):
    """The unknown one too; the padding is constant zero."""
    chars = start[0].encoder.chars[0]
    assert not chars[0].any()
    assert chars[1].all()
    spread_evenly(chars[1:], 0.03)


def test_biases(start):
    """Of the LSTMs in the order of the gates i, f, o, g; all others are zero."""
    network, _ = start
    for lstm in (network.encoder.window, network.encoder.document):
        for direction in lstm.bias[0]:
            assert [gate.unique().tolist() for gate in direction] == [[0], [2.5], [1], [0]]
    others = [p for scores in start for n, p in scores.named_parameters() if "bias" in n and not n.endswith("w.bias")]
    assert sum(p.any() for p in others if p.dim() == 2) == 0
    assert len(others) > 8


def test_the_forget_gate_is_the_second(start):
    """With all inputs at zero a state c becomes sigmoid(2.5) c in a step, and is shown by sigmoid(1)."""
    lstm = start[0].encoder.window
    i, f, o, g = lstm.bias[0, 0, :, 0].detach()
    c = 0.7 * torch.sigmoid(f) + torch.sigmoid(i) * torch.tanh(g)
    assert float(c) == pytest.approx(0.7 / (1 + math.exp(-2.5)), rel=1e-6)
    assert float(torch.sigmoid(o)) == pytest.approx(1 / (1 + math.exp(-1)), rel=1e-6)


@pytest.mark.parametrize(("which", "diagonal"), [("within", 1.02), ("between", 0.98)])
def test_factors_of_covariances(start, which, diagonal):
    for scores in start:
        factor = getattr(scores.bfs, which)[0].detach()
        torch.testing.assert_close(factor.diagonal(), torch.full((40,), math.log(diagonal)))
        above = factor[torch.triu_indices(40, 40, 1).unbind()]
        assert 0 <= float(above.min()) < 0.001
        assert 0.019 < float(above.max()) <= 0.02
        assert float(above.mean()) == pytest.approx(0.01, rel=0.1)
        # C C' of an upper triangular C with this diagonal: its last entry is the square of that.
        assert float(scores.bfs.precision(factor)[-1, -1]) == pytest.approx(diagonal**2 + 1e-6, rel=1e-5)


def test_the_kernel(start):
    """0.09 and 1.5, trained as they are: the gradient is that of gamma, not of its logarithm."""
    network, probe = start
    assert isinstance(network.dml, PlainDML)
    assert network.dml.gamma.item() == pytest.approx(0.09)
    assert network.dml.alpha.item() == pytest.approx(1.5)
    pair = EmbeddingPair.of(torch.zeros(1, 1, 1), torch.full((1, 1, 1), 2.0))
    p = network.dml(pair)
    assert p.item() == pytest.approx(math.exp(-0.09 * 4**1.5), rel=1e-5)
    (gradient,) = torch.autograd.grad(p.sum(), network.dml.gamma)
    assert gradient.item() == pytest.approx(-(4**1.5) * p.item(), rel=1e-5)
    # The fandom verifier's stays there.
    assert not any(p.requires_grad for p in probe.dml.parameters())
    assert probe.dml.log_gamma.exp().item() == pytest.approx(0.09)
    assert probe.dml.log_alpha.exp().item() == pytest.approx(1.5)


def test_the_kernel_stays_positive():
    dml = PlainDML(DML(1))
    optimiser = Optimiser(dml.parameters(), positive=dml.parameters())
    optimiser.step(dml.gamma.sum() + dml.alpha.sum(), 1.0)  # a step of one down
    assert dml.gamma.item() == pytest.approx(1e-6)
    assert dml.alpha.item() == pytest.approx(0.5)
    optimiser.step(-dml.gamma.sum(), 0.01)
    assert dml.gamma.item() >= 1e-6


def test_what_is_stored_are_logarithms():
    network = Network(ModelConfig(), 1, 5, 5)
    names = set(network.state_dict())
    network.dml = PlainDML(network.dml)
    with torch.no_grad():
        network.dml.gamma.fill_(0.2)
    keep_logarithms(network)
    assert set(network.state_dict()) == names
    assert network.dml.log_gamma.exp().item() == pytest.approx(0.2)
    assert network.dml.log_alpha.exp().item() == pytest.approx(1.5)


@pytest.mark.parametrize(("preset", "published"), [("paper", True), ("compact", False)])
def test_who_starts_so(corpus, preset, published):
    assert (PRESETS[preset].pairs.init == "published") is published
    settings = corpus.settings.updated({"pairs": {"init": PRESETS[preset].pairs.init}})
    network = StageOne(corpus.prepared, settings, 5, torch.device("cpu")).state.network
    assert isinstance(network.dml, PlainDML) is published
    assert (float(network.encoder.window.input.abs().max()) <= 0.05) is published
