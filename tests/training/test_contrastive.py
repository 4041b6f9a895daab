"""Contrast: what a batch is made of, and the standardisation that is folded away."""

from itertools import islice

import numpy as np
import pytest
import torch
from support import TINY, random_network
from torch import nn

from pan21av.data.counting import Counter
from pan21av.errors import InputError
from pan21av.network.layers import Linear
from pan21av.training.contrastive import contrastive_batches, contrastive_epoch, fold, standardisation
from pan21av.training.optimiser import Optimiser
from pan21av.training.pairs import pair_epoch
from pan21av.training.prepared import TRAIN, Prepared, Span
from pan21av.training.sampling import Catalogue
from pan21av.training.settings import ContrastiveSettings, PairSettings
from pan21av.training.topic_probe import TopicProbe


class Fake:
    """A prepared corpus of labels alone."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue, self.model = catalogue, TINY

    def documents(self, split: int) -> np.ndarray:
        return np.arange(len(self.catalogue.author))

    def length(self, document: int) -> int:
        return 500


def labels(rng, authors=40, each=5, topics=6, sources=2) -> Catalogue:
    author = np.repeat(np.arange(authors), each)
    work = np.where(rng.random(len(author)) < 0.5, author * 2 + rng.integers(2, size=len(author)), -1)
    return Catalogue(author, rng.integers(topics, size=len(author)), work, author % sources)


def batches(catalogue, count=30, **options):
    settings = ContrastiveSettings(**{"authors": 8, "min_windows": 2, "max_windows": 6, **options})
    return list(islice(contrastive_batches(Fake(catalogue), settings, np.random.default_rng(0)), count))


def test_two_documents_of_each_author_of_one_source():
    catalogue = labels(np.random.default_rng(0))
    sources = set()
    for spans in batches(catalogue):
        documents = np.array([span.document for span in spans])
        assert len(documents) == 16
        first, second = documents[::2], documents[1::2]
        assert (catalogue.author[first] == catalogue.author[second]).all()
        assert (first != second).all()
        assert len(np.unique(catalogue.author[first])) == 8, "an author twice would have two partners"
        assert all(catalogue.may_pair(a, b) for a, b in zip(first, second, strict=True))
        (source,) = np.unique(catalogue.source[documents])
        sources.add(int(source))
        assert {span.tokens for span in spans} <= {TINY.tokens_in(n) for n in range(2, 7)}
    assert sources == {0, 1}


def test_topics_of_partners_and_of_batches():
    catalogue = labels(np.random.default_rng(1), topics=3, sources=1)

    def across(spans):
        topics = catalogue.topic[[span.document for span in spans]]
        return float(np.mean(topics[::2] != topics[1::2]))

    def spread(spans):
        """How many topics the authors, by the first of their documents in the corpus, are of."""
        authors = {int(catalogue.author[span.document]) for span in spans}
        return len({int(catalogue.topic[catalogue.author == a][0]) for a in authors})

    plain, crossed = batches(catalogue), batches(catalogue, cross_topic=1.0)
    assert np.mean([across(b) for b in crossed]) > np.mean([across(b) for b in plain]) + 0.2
    assert np.mean([spread(b) for b in plain]) > 2.5
    assert np.mean([spread(b) for b in batches(catalogue, same_topic=1.0)]) < 1.5


def test_sources_are_drawn_by_their_authors():
    """36 authors of one and 4 of the other: 3 to 1 by the root, 9 to 1 by the number."""
    author = np.repeat(np.arange(40), 3)
    catalogue = Catalogue(author, author % 5, np.full(120, -1), (author >= 36).astype(int))
    for balance, share in ((0.5, 0.75), (1.0, 0.9), (0.0, 0.5)):
        drawn = batches(catalogue, 600, source_balance=balance)
        first = np.mean([catalogue.source[spans[0].document] == 0 for spans in drawn])
        assert first == pytest.approx(share, abs=0.06)


def test_who_cannot_be_contrasted():
    one_each = Catalogue(np.arange(9), np.zeros(9, int), np.full(9, -1), np.zeros(9, int))
    one_work = Catalogue(np.repeat(np.arange(4), 2), np.zeros(8, int), np.repeat(np.arange(4), 2), np.zeros(8, int))
    apart = Catalogue(np.repeat(np.arange(2), 2), np.zeros(4, int), np.full(4, -1), np.repeat(np.arange(2), 2))
    for catalogue in (one_each, one_work, apart):
        with pytest.raises(InputError, match="two authors of one source with two documents each"):
            batches(catalogue, 1)


# ---- standardisation ----


def encoder_alone(corpus):
    """What stage one trains."""
    return random_network(1, corpus.settings.model.encoder_alone, vocabulary=corpus.prepared.vocabulary)


def test_folding_changes_nothing():
    """The metric layer of standardised vectors, and the folded layer of bare ones, are the same map."""
    torch.manual_seed(0)
    norm = nn.BatchNorm1d(10, affine=False).double()
    norm.running_mean.normal_()
    norm.running_var.uniform_(0.01, 4)
    metric, x = Linear(1, 10, 6).double(), torch.randn(20, 10).double()
    expected = metric(norm.eval()(x)[None])
    fold(metric, norm.running_mean, (norm.running_var + norm.eps).rsqrt())
    torch.testing.assert_close(metric(x[None]), expected)


def test_standardisation_weighs_sources_alike(corpus):
    """The mean of the sources' means, the mean of their variances: of whole texts."""
    prepared, network = corpus.prepared, encoder_alone(corpus)
    mean, scale = standardisation(network, prepared, 1e-3, 4)
    documents, source = prepared.documents(TRAIN), prepared.catalogue.source
    by_source = []
    for number in (0, 1):
        spans = [Span(int(d), 0, prepared.model.max_tokens) for d in documents if source[d] == number]
        by_source.append(network.encoder(prepared.batch(spans, network.config)).vectors[0].numpy())
    expected_mean = np.mean([vectors.mean(0) for vectors in by_source], 0)
    variance = np.mean([vectors.var(0) for vectors in by_source], 0)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-5)
    np.testing.assert_allclose(scale, 1 / np.sqrt(variance + 1e-3), rtol=1e-3)


# ---- epochs ----


class Recorder(Optimiser):
    """Notes the rates instead of changing anything."""

    def step(self, loss, rate):
        assert torch.isfinite(loss)
        self.rates = [*getattr(self, "rates", []), rate]


def parts(corpus):
    network = encoder_alone(corpus).train()
    return network, nn.BatchNorm1d(2 * TINY.document_hidden, affine=False), TopicProbe(corpus.settings)


def test_contrast_counts_no_ngrams(corpus, monkeypatch):
    """Of tokens or of layout: they take time, and only the encoder's part learns by contrast."""

    def refused(*_):
        raise AssertionError("n-grams were counted")

    monkeypatch.setattr(Counter, "count", refused)
    with pytest.raises(AssertionError, match="were counted"):
        corpus.prepared.batch([Span(0, 0, 50)], corpus.settings.model)
    monkeypatch.setattr(Prepared, "layout_of", refused)
    network, norm, probe = parts(corpus)
    settings = ContrastiveSettings(epochs=4, steps=5, authors=6, min_windows=2, max_windows=3, lr=0.5, lr_end=0.1)
    optimiser = Recorder(network.parameters())
    record = contrastive_epoch(
        network, norm, probe, optimiser, corpus.prepared, settings, 2, np.random.default_rng(0)
    )  # fmt: skip
    assert record.keys() == {"loss", "dml_loss", "accuracy", "topic_accuracy"}
    # From 0.5 to 0.1 over 4 epochs of 5 steps each: the third begins half-way.
    assert optimiser.rates == pytest.approx([0.5 - 0.4 * (10 + step) / 20 for step in range(5)])


@pytest.mark.parametrize(("epoch", "rate"), [(0, 6e-4), (15, 4e-4), (30, 2e-4), (34, 2e-4)])
def test_the_papers_rates_of_pair_training(corpus, epoch, rate):
    """max(6e-4 - e 4e-4 / 30, 2e-4), the same at all steps of an epoch."""
    network, norm, probe = parts(corpus)
    optimiser = Recorder(network.parameters())
    settings = PairSettings(batch=30, max_windows=2)
    record = pair_epoch(network, norm, probe, optimiser, corpus.prepared, settings, epoch, np.random.default_rng(0))
    assert optimiser.rates == pytest.approx([rate] * len(optimiser.rates))
    assert len(optimiser.rates) == -(-record["pairs"] // 30)


class Kept(nn.Module):
    """Notes the document vectors that it is given, and gives back something else."""

    def forward(self, vectors):
        self.seen = [*getattr(self, "seen", []), vectors.detach().clone()]
        return vectors.tanh() + 0.25


def test_pair_training_reads_standardised_vectors(corpus, monkeypatch):
    """Everything that learns from pairs reads document vectors as `norm` leaves them, the topic probe as well."""
    network, _, probe = parts(corpus)
    norm, given, probed = Kept(), [], []
    real, real_loss = network.encoder_part, probe.loss
    monkeypatch.setattr(network, "encoder_part", lambda v, pair: (given.append(v.detach()), real(v, pair))[1])
    monkeypatch.setattr(
        probe, "loss", lambda a, b, same: (probed.append(torch.cat([a, b], 1)), real_loss(a, b, same))[1]
    )
    settings, optimiser = PairSettings(batch=10, max_windows=2, per_source=15), Recorder(network.parameters())
    record = pair_epoch(network, norm, probe, optimiser, corpus.prepared, settings, 0, np.random.default_rng(0))
    assert record["pairs"] == 30  # of two sources
    assert [len(seen) for seen in norm.seen] == [20, 20, 20]
    for seen, vectors, read in zip(norm.seen, given, probed, strict=True):
        torch.testing.assert_close(vectors[0], seen.tanh() + 0.25)
        torch.testing.assert_close(read, vectors)


def test_pair_training_keeps_the_statistics_of_the_norm_up(corpus):
    network, norm, probe = parts(corpus)
    settings, optimiser = PairSettings(batch=30, max_windows=2), Recorder(network.parameters())
    before = norm.running_mean.clone()
    pair_epoch(network, norm, probe, optimiser, corpus.prepared, settings, 0, np.random.default_rng(0))
    assert int(norm.num_batches_tracked) == len(optimiser.rates)
    assert not torch.equal(norm.running_mean, before)
