"""The paper's pair training and sizes, against the published numbers (what initial values, masks, clipping, drawing and
O2D2 are has tests of its own)."""

import numpy as np
import pytest
import torch
from torch import nn

from pan21av.data.batch import window_spans
from pan21av.data.vocabulary import PAD, UNKNOWN, Vocabulary
from pan21av.network.embedding import EmbeddingPair
from pan21av.network.network import Network
from pan21av.network.scores import BFS
from pan21av.training.pairs import pair_epoch
from pan21av.training.prepared import TRAIN, Prepared
from pan21av.training.settings import PRESETS
from pan21av.training.stage1 import StageOne
from pan21av.training.streams import Stream, member_seed, numpy_stream
from pan21av.training.topic_probe import TopicProbe

CPU = torch.device("cpu")
PAPER = PRESETS["paper"]


# ---- sizes and texts ----


def test_sizes():
    """Without the leading member: char 10, CNN 4 wide with 30 filters, word 300, BiLSTMs 50 a direction, attention
    100 -> 100 -> 1, LEV 60, BFS 40, UAL 60 -> 120 -> 4, O2D2 124 -> 60 -> 30 -> 1."""
    found = {name: tuple(p.shape[1:]) for name, p in Network(PAPER.model, 1, 5002, 302).named_parameters()}
    expected = {
        "encoder.words": (5002, 300), "encoder.chars": (302, 10), "encoder.cnn": (4, 10, 30),
        "encoder.window.input": (330, 2, 4, 50), "encoder.window.recurrent": (2, 50, 4, 50),
        "encoder.document.input": (100, 2, 4, 50), "encoder.document.recurrent": (2, 50, 4, 50),
        "encoder.window.att_matrix": (100, 100), "encoder.window.att_vector": (100,),
        "encoder.document.att_matrix": (100, 100), "encoder.document.att_vector": (100,),
        "metric.weight": (100, 60), "bfs.projection.weight": (60, 40), "bfs.within": (40, 40),
        "bfs.between": (40, 40), "bfs.mean": (40,),
        "ual.hidden.weight": (60, 120), "ual.logits.weight": (120, 4),
        "o2d2.layers.0.weight": (124, 60), "o2d2.layers.1.weight": (60, 30), "o2d2.layers.2.weight": (30, 1),
    }  # fmt: skip
    assert expected.items() <= found.items()
    assert {name for name in found if "bias" not in name} - set(expected) == {"dml.log_gamma", "dml.log_alpha"}


@pytest.mark.parametrize(
    ("tokens", "windows"), [(1, 1), (26, 1), (27, 2), (30, 2), (52, 2), (53, 3), (5460, 210), (5461, 210), (9999, 210)]
)
def test_windows(tokens, windows):
    """30 tokens, one at every hop of 26 while a token is left: the last may only repeat. The first 210 count."""
    spans = window_spans(tokens, PAPER.model)
    assert [tuple(span) for span in spans] == [(26 * n, min(30, tokens - 26 * n)) for n in range(windows)]


def test_ids_of_words_and_characters():
    """0 is the padding, 1 the unknown, then by rank, with no least count; a token shows its first 15 characters."""
    vocabulary = Vocabulary.build([("rare", 1), ("the", 9), ("of", 5)], words=5000, chars=300, lowercase=False)
    assert (PAD, UNKNOWN) == (0, 1)
    assert [vocabulary.word_id(word) for word in ("the", "of", "rare", "The")] == [2, 3, 4, 1]
    words, chars = vocabulary.ids(["theoftheoftheofX", "the"], PAPER.model.chars_per_token)
    assert words.tolist() == [UNKNOWN, 2]
    assert chars.shape == (2, 15)
    assert (chars[0] > UNKNOWN).all()
    assert chars[1, 3:].tolist() == [PAD] * 12


# ---- stage one ----


class Recorder:
    """In place of an optimiser: what it is asked to do."""

    def __init__(self):
        self.losses, self.rates = [], []

    def step(self, loss, rate):
        self.losses.append(float(loss.detach()))
        self.rates.append(rate)


@pytest.fixture(scope="module")
def paper(corpus):
    """The preset, at the sizes and with the drawing of the shared corpus."""
    settings = corpus.settings
    values = {"pairs": vars(PAPER.pairs), "dropout": vars(PAPER.dropout), "contrastive": {"epochs": 0}}
    return settings.updated(values)


@pytest.mark.parametrize(("epoch", "rate"), [(0, 6e-4), (1, 6e-4 - 4e-4 / 30), (15, 4e-4), (30, 2e-4), (34, 2e-4)])
def test_rates_of_stage_one(corpus, paper, monkeypatch, epoch, rate):
    """max(6e-4 - e 4e-4 / 30, 2e-4), the same for all steps of an epoch."""
    real = Prepared.draw
    monkeypatch.setattr(Prepared, "draw", lambda *args: real(*args)[:3])
    one, recorder = StageOne(corpus.prepared, paper, 5, CPU), Recorder()
    pair_epoch(
        one.state.network, nn.Identity(), one.state.probe, recorder, corpus.prepared, paper.pairs, epoch,
        np.random.default_rng(0),
    )  # fmt: skip
    assert recorder.rates == [pytest.approx(rate)]


def test_an_epoch_of_pairs(corpus, paper, monkeypatch):
    """Batches of 40, the short last one kept; the loss is the sum of the means DML + BFS + UAL and the fandom
    verifier's; its accuracy is the plain share of training pairs, with dropout on."""
    one, recorder, batches, probed = StageOne(corpus.prepared, paper, 5, CPU), Recorder(), [], []
    real_loss, real_batch, real_draw = TopicProbe.loss, Prepared.batch, Prepared.draw

    def loss(self, first, second, same):
        assert self.training
        value, said = real_loss(self, first, second, same)
        probed.append((float(value.detach()), float((said == same.bool()).float().mean())))
        return value, said

    def batch(self, spans, config):
        batches.append(len(spans))
        return real_batch(self, spans, config)

    monkeypatch.setattr(TopicProbe, "loss", loss)
    monkeypatch.setattr(Prepared, "batch", batch)
    monkeypatch.setattr(Prepared, "draw", lambda *args: np.tile(real_draw(*args), (2, 1))[:47])
    one.state.network.train()
    found = pair_epoch(
        one.state.network, nn.Identity(), one.state.probe, recorder, corpus.prepared, paper.pairs, 0,
        np.random.default_rng(0),
    )  # fmt: skip
    assert found["pairs"] == 47
    assert batches == [80, 14]  # documents
    mean = np.mean([total - own for total, (own, _) in zip(recorder.losses, probed, strict=True)])
    assert mean == pytest.approx(found["dml_loss"] + found["bfs_loss"] + found["ual_loss"], rel=1e-4)
    assert found["topic_accuracy"] == pytest.approx(np.mean([share for _, share in probed]))


def test_margins_crops_and_stage_two():
    pairs, calibration = PAPER.pairs, PAPER.calibration
    assert (pairs.dml_low, pairs.dml_high, pairs.ual_beta) == (0.09, 0.91, 0.105)
    assert (pairs.max_windows, pairs.min_windows, pairs.crop_share) == (210, 0, 0.5)
    assert (pairs.per_source, pairs.probe_reversal) == (0, 0)
    assert (calibration.views, calibration.draws, calibration.per_source) == (1, 1, 0), "whole texts, one draw an epoch"


def test_padding_stays_zero_and_words_that_are_read_are_trained(corpus, paper, monkeypatch):
    """The unknown one too."""
    prepared, read, real = corpus.prepared, set(), Prepared.batch

    def batch(self, spans, config):
        for span in spans:
            read.update(self.type_words[self.tokens_of(span)].tolist())
        return real(self, spans, config)

    monkeypatch.setattr(Prepared, "batch", batch)
    one = StageOne(prepared, paper, 5, CPU)
    encoder, state = one.encoder, one.state
    words, chars = encoder.words.detach().clone(), encoder.chars.detach().clone()
    state.network.train()
    rng = np.random.default_rng(0)
    pair_epoch(state.network, state.norm, state.probe, state.optimiser, prepared, paper.pairs, 0, rng)
    assert not encoder.words[:, PAD].any()
    assert not encoder.chars[:, PAD].any()
    moved = set((encoder.words[0] != words[0]).any(-1).nonzero()[:, 0].tolist())
    assert moved <= read
    assert len(moved) > 0.9 * len(read), "pairs beyond the margins of DML teach nothing, so some may stay"
    assert UNKNOWN in moved
    assert (encoder.chars[0] != chars[0]).any(-1).sum() > 20


def test_the_mask_of_bfs():
    """60 numbers for every pair, the same on both LEVs: a fifth is dropped, the others are raised."""
    torch.manual_seed(0)
    bfs, seen = BFS(1, 60, 40), []
    bfs.dropout = PAPER.dropout.metric
    bfs.projection.register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    bfs.train()(EmbeddingPair.of(torch.ones(1, 300, 60), -torch.ones(1, 300, 60)))
    first, second = seen
    assert first.shape == (1, 300, 60)
    assert torch.equal(first, -second)
    assert first.unique().tolist() == pytest.approx([0, 1.25])
    assert float((first == 0).float().mean()) == pytest.approx(0.2, abs=0.01)
    assert not torch.equal(first[0, 0], first[0, 1])


def test_members_share_the_corpus_but_neither_start_nor_pairs(corpus, paper):
    """Split and fixed pairs are prepared once for all."""
    seeds = [member_seed(1, number) for number in (1, 2)]
    starts = [StageOne(corpus.prepared, paper, seed, CPU).state.network.state_dict() for seed in seeds]
    same = [name for name, tensor in starts[0].items() if torch.equal(tensor, starts[1][name])]
    assert all("bias" in name or name.startswith("dml") for name in same), same
    documents = corpus.prepared.documents(TRAIN)
    draws = [
        corpus.prepared.draw("training", documents, numpy_stream(seed, Stream.STAGE_ONE_EPOCH, epoch))
        for seed in seeds
        for epoch in (0, 1)
    ]
    assert len({draw.tobytes() for draw in draws}) == 4
