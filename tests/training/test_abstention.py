"""O2D2: labels by hand, and a detector that learns which decisions are wrong."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support import TINY, random_network

from pan21av.metrics import auc, pan_metrics
from pan21av.network import scores
from pan21av.network.embedding import EmbeddingPair
from pan21av.network.evidence import scantness
from pan21av.network.network import Scores
from pan21av.network.scores import O2D2
from pan21av.training import abstention
from pan21av.training.abstention import SAMPLE_DRAWS, Usual, _quantile, fit_o2d2, labels
from pan21av.training.calibration import LabelledPairs
from pan21av.training.heads import Fold, judge, unfitted
from pan21av.training.member import full_model
from pan21av.training.optimiser import Optimiser
from pan21av.training.settings import PRESETS, AbstentionSettings
from pan21av.training.stage2 import StageTwo
from pan21av.training.streams import Stream


def test_labels_by_hand():
    """1 if the decision is wrong, or within eps of a half, the edge included."""
    p = torch.tensor([[0.9, 0.9, 0.1, 0.1, 0.5625, 0.4375, 0.6, 0.5]])
    same = torch.tensor([[1.0, 0, 1, 0, 1, 0, 1, 0]])
    found = labels(p, same, torch.tensor([[0.0625], [0.125]]))
    assert found.tolist() == [
        [0, 1, 1, 0, 1, 1, 0, 1],  # 0.5625 is exactly 0.0625 from a half
        [0, 1, 1, 0, 1, 1, 1, 1],
    ]


def test_exactly_a_half_decides_for_two_authors():
    """As everywhere: above it is one author. With no margin at all it is near, so undecidable whatever the truth."""
    assert labels(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0]])).tolist() == [[1, 1]]


def test_every_pair_may_have_a_margin_of_its_own():
    p, same = torch.full((1, 4), 0.625), torch.ones(1, 4)
    margins = torch.tensor([[0.0, 0.1, 0.125, 0.2], [0.2, 0.2, 0.0, 0.0]])
    assert labels(p, same, margins).tolist() == [[0, 0, 1, 1], [1, 1, 0, 0]]


# ---- what is usual at a length ----


def test_posteriors_are_usually_nearer_to_a_half_where_there_is_little_text():
    """Here |p - 1/2| = 0.4 - 0.1 s, of either sign: a quarter of it is missing at s = 1."""
    scant = torch.linspace(-1, 3, 400)
    p = 0.5 + (0.4 - 0.1 * scant) * torch.where(torch.arange(400) % 2 == 0, 1.0, -1.0)
    usual = Usual(p, scant)
    found = usual(torch.tensor([0.0, 1.0, 2.0, 3.0]))
    torch.testing.assert_close(found, torch.tensor([1.0, 0.75, 0.5, 0.25]), atol=1e-4, rtol=0)
    # More text than usual makes no margin wider, and none ever vanishes.
    torch.testing.assert_close(
        usual(torch.tensor([-1.0, 3.9, 9.0])), torch.tensor([1.0, 0.05, 0.05]), atol=1e-4, rtol=0
    )


def test_texts_of_one_length():
    usual = Usual(torch.tensor([0.9, 0.1, 0.7, 0.2]), torch.zeros(4))
    assert usual(torch.zeros(2)).tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_the_share_that_lies_below_a_quantile(level):
    """At every length, although values there differ in mean and spread."""
    generator = torch.Generator().manual_seed(0)
    scant = torch.rand(6_000, generator=generator) * 4 - 1
    values = scant + 0.5 * scant.square() + (1 + 0.5 * scant) * torch.randn(6_000, generator=generator).abs()
    terms = torch.stack([torch.ones_like(scant), scant, scant.square()], -1)
    below = values < terms @ _quantile(terms, values, level)
    assert below.float().mean().item() == pytest.approx(level, abs=0.01)
    for low in (-1, 0, 1, 2):
        here = (scant >= low) & (scant < low + 1)
        assert below[here].float().mean().item() == pytest.approx(level, abs=0.05)


def test_a_quantile_does_not_depend_on_where_it_is_computed():
    """Where in memory the numbers lie is chance: a member that is trained again must be the same, to the last bit."""
    generator = torch.Generator().manual_seed(0)
    scant, values = torch.rand(400, generator=generator) * 4 - 1, torch.randn(400, generator=generator)
    terms = torch.stack([torch.ones_like(scant), scant, scant.square()], -1)

    def moved(tensor, by):
        place = torch.empty(tensor.numel() + by)[by:].view(tensor.shape)
        return place.copy_(tensor)

    found = {tuple(_quantile(moved(terms, by), moved(values, 3 * by), 0.85).tolist()) for by in range(16)}
    assert len(found) == 1


# ---- fitting ----

DIM = TINY.lev_dim


class Made:
    """Pairs that a made-up network decides by their first number, wrongly where the second is far from 0."""

    seed = 3

    @staticmethod
    def draw(count, generator):
        y = torch.rand(1, count, DIM, generator=generator) * 2 - 1
        decided = y[..., 0] > 0
        same = (decided ^ (y[..., 1].abs() > 0.6)).float()
        known = torch.rand(count, generator=generator) < 0.5
        return LabelledPairs(EmbeddingPair.of(y, torch.zeros_like(y)), same, known)

    def epoch(self, documents, rng, batch):
        generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
        for _ in range(8):
            yield self.draw(batch, generator)


class MadeUAL:
    told = None

    def __call__(self, pair, p):
        return p, torch.full((*p.shape, 2, 2), 0.5)

    def familiar(self, pair):
        return None


def made_network():
    def p_ual(pair):
        return torch.sigmoid(2 * pair.first[..., 0])

    network = SimpleNamespace(config=TINY, o2d2=O2D2(1, DIM), bfs=p_ual, ual=MadeUAL())

    def score(pair):
        p, confusion = network.ual(pair, p_ual(pair))
        return Scores(p, p, p, network.o2d2(pair, confusion, p, None), confusion)

    network.score = score
    return network


def folds_of(network):
    return [Fold(np.zeros(0), network.bfs, network.ual)]


@pytest.fixture(scope="module")
def fitted():
    settings = AbstentionSettings(epochs=30, batch=120, lr=1e-2, lr_end=3e-3, dropout=0.05, eps_steps=3)
    network, generator, records = made_network(), torch.Generator().manual_seed(0), []
    validation = Made.draw(1_000, generator)
    eps = fit_o2d2(network, Made(), folds_of(network), validation, settings, records.append)
    return network, validation, eps, records


def test_wrong_decisions_are_found(fitted):
    network, _, eps, records = fitted
    pairs = Made.draw(2_000, torch.Generator().manual_seed(1))
    with torch.no_grad():
        scores = network.score(pairs.pair)
    truth = labels(scores.ual, pairs.same, torch.tensor([[eps]]))[0].bool().numpy()
    assert auc(truth, scores.o2d2[0].numpy()) > 0.95
    assert [(r["stage"], r["epoch"]) for r in records] == [("o2d2", n + 1) for n in range(30)]
    assert records[-1]["loss"] < 0.6 * records[0]["loss"]


def test_the_best_epoch_and_eps_are_kept(fitted):
    """By PAN's overall on the validation pairs, abstentions included."""
    network, validation, eps, records = fitted
    best = max(records, key=lambda r: r["overall"])
    assert eps == pytest.approx(best["eps"])
    assert min(abs(eps - candidate) for candidate in (0.05, 0.1, 0.15)) < 1e-6
    with torch.no_grad():
        scores = network.score(validation.pair)
    answers = np.where(scores.o2d2[0] >= 0.5, 0.5, scores.ual[0].double())
    truth = validation.same[0].bool().numpy()
    assert pan_metrics(truth, answers)["overall"] == pytest.approx(best["overall"], abs=1e-6)
    assert best["overall"] > pan_metrics(truth, scores.ual[0].double().numpy())["overall"]


# ---- with evidence ----


@pytest.fixture(scope="module")
def settled(corpus):
    """{(share, strange): stage two, fitted}, of a member that knows one of two sources."""
    made = {}
    for share, strange in ((0.0, 0.0), (0.2, 0.0), (0.2, 1.5), (0.6, 0.0)):
        options = {"share": share, "strange": strange, "epochs": 2, "lr": 0.01}
        settings = corpus.settings.updated({"calibration": {"cohort": 6, "draws": 2}, "abstention": options})
        prepared = corpus.prepared.for_sources([1])
        network = random_network(1, full_model(settings, prepared), vocabulary=prepared.vocabulary)
        two = StageTwo(network, prepared, settings, 7, torch.device("cpu"))
        with torch.no_grad():  # so that it standardises something
            sample = two.calibration.draw_many(two.calibration.folds[0], 4, Stream.HEAD_PAIRS)
            network.ual.told.mean.copy_(sample.pair.evidence.mean(1))
            network.ual.told.scale.copy_(1 / sample.pair.evidence.std(1).clamp_min(1e-3))
        folds = unfitted(network, two.calibration)
        fit_o2d2(network, two.calibration, folds, two.validation, settings.abstention, lambda record: None)
        made[share, strange] = two
    return made


def usual_pairs(two, draws):
    return LabelledPairs.join(
        [two.calibration.draw_many(documents, draws, Stream.USUAL) for documents in two.calibration.folds]
    )


@pytest.mark.slow
def test_how_many_familiar_pairs_are_left_open(settled):
    """The share that the settings say of those that it was set by, to one pair: a parabola goes through three of them,
    or very near by."""
    for (share, _), two in settled.items():
        if not share:
            assert not two.network.o2d2.least.any()
            continue
        sample = usual_pairs(two, SAMPLE_DRAWS)
        with torch.no_grad():
            logit = two.network.score(sample.pair).o2d2[0].logit()[sample.known]
        assert len(logit) > 5
        assert (logit > 0.01).sum() - 1 <= share * len(logit) <= (logit > -0.01).sum() + 1


@pytest.mark.slow
def test_evidence_is_standardised_as_for_ual(settled):
    network = settled[0.2, 0.0].network
    for name, tensor in network.ual.told.state_dict().items():
        mine = network.o2d2.told.state_dict()[name]
        assert mine.shape[1] < tensor.shape[1]
        assert torch.equal(tensor[:, -mine.shape[1] :], mine), name


@pytest.mark.slow
def test_a_member_must_be_surer_of_strange_kinds(settled):
    """A kind that is surely strange adds half of what the settings say to the logit, a familiar one takes it off."""
    network, pair = settled[0.2, 1.5].network, settled[0.2, 1.5].whole_pairs
    assert network.o2d2.strange.item() == 1.5
    p, confusion = network.ual(pair, network.bfs(pair))
    with torch.no_grad():
        known, neither, strange = (
            network.o2d2.logit(pair, confusion, p, torch.full_like(p, familiar)) for familiar in (1.0, 0.5, 0.0)
        )
    torch.testing.assert_close(strange - neither, torch.full_like(p, 0.75), atol=1e-4, rtol=0)
    torch.testing.assert_close(neither - known, torch.full_like(p, 0.75), atol=1e-4, rtol=0)
    assert not settled[0.2, 0.0].network.o2d2.strange.any()


def test_every_fold_is_judged_by_its_own_scores():
    """In turns, so that no epoch ends with the pairs of one."""
    asked = []

    class Told(MadeUAL):
        def __init__(self, name):
            self.name = name

        def __call__(self, pair, p):
            asked.append(self.name)
            return super().__call__(pair, p)

    network = made_network()
    folds = [Fold(np.zeros(0), network.bfs, Told(name)) for name in "ab"]
    validation = Made.draw(50, torch.Generator().manual_seed(0))
    settings = AbstentionSettings(epochs=2, batch=10)
    fit_o2d2(network, Made(), folds, validation, settings, lambda record: None)
    assert asked == ["a", "b"] * 8 * 2


# ---- its steps ----


def test_the_papers_rates_and_clipping(monkeypatch):
    """max(1e-3 - e 5e-6, 5e-4), so 7.05e-4 in the last of 60 epochs; candidates are clipped to 5 each, on their own."""
    rates, clips = [], []

    def step(self, loss, rate):
        rates.append(rate)
        clips.append((self.clip, {self.apart[p] for p in self.parameters}))

    monkeypatch.setattr(Optimiser, "step", step)
    validation = Made.draw(50, torch.Generator().manual_seed(0))
    network = made_network()
    fit_o2d2(network, Made(), folds_of(network), validation, PRESETS["paper"].abstention, lambda record: None)
    assert len(rates) == 60 * 8
    by_epoch = rates[::8]
    assert by_epoch == pytest.approx([max(1e-3 - e * 5e-6, 5e-4) for e in range(60)])
    assert by_epoch[-1] == pytest.approx(7.05e-4)
    assert set(map(repr, clips)) == {repr((5.0, {(0,)}))}


def test_rates_that_fall_with_the_epochs(monkeypatch):
    """As the shipped recipe's do; an epoch, at one rate, is of the pairs of all folds."""
    rates = []
    monkeypatch.setattr(Optimiser, "step", lambda self, loss, rate: rates.append(rate))
    settings = replace(PRESETS["compact"].abstention, share=0.0)
    validation = Made.draw(50, torch.Generator().manual_seed(0))
    network = made_network()
    fit_o2d2(network, Made(), 2 * folds_of(network), validation, settings, lambda record: None)
    assert rates == pytest.approx([1e-3 - 5e-4 * e / 10 for e in range(10) for _ in range(2 * 8)])


def test_dropout_before_each_of_the_three_layers():
    """A quarter is left out, in training only."""
    torch.manual_seed(0)
    detector, seen = O2D2(1, 60), []
    detector.dropout = PRESETS["paper"].abstention.dropout
    for layer in detector.layers:
        layer.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    pair = EmbeddingPair.of(torch.rand(1, 300, 60) + 1, torch.zeros(1, 300, 60))
    detector.train().logit(pair, torch.full((1, 300, 2, 2), 0.5), torch.full((1, 300), 0.7), None)
    assert [x.shape[-1] for x in seen] == [124, 60, 30]
    for x in seen:
        assert float((x == 0).float().mean()) == pytest.approx(0.25, abs=0.03)


@pytest.mark.slow
def test_next_to_none_of_the_shortest_pairs_are_left_open(corpus, settled, monkeypatch):
    """Where there are enough longer ones, the threshold rises steeply from there on."""
    two = settled[0.2, 0.0]
    sample = usual_pairs(two, 10 * SAMPLE_DRAWS)
    scant = scantness(sample.pair)
    limit = float(scant.quantile(0.6))
    for module in (abstention, scores):
        monkeypatch.setattr(module, "OPEN_UNTIL", limit)
    monkeypatch.setattr(abstention, "FEWEST_LONG", 5)
    network = copy.deepcopy(two.network)
    network.o2d2.least.zero_()
    settings = replace(corpus.settings.abstention, share=0.2, strange=0.0)
    abstention._settle(network.o2d2, judge(network, sample), settings)
    with torch.no_grad():
        logit = network.score(sample.pair).o2d2[0].logit()
    assert (logit[scant <= limit] > 0).any()
    assert network.o2d2.least[0, -1] == abstention.CLOSING
    far = scant > limit + 0.5
    assert far.any()
    assert not (logit[far] > 0).any()
