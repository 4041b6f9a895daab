"""Frequencies beside the encoder: learnt on made-up authors."""

from dataclasses import replace

import numpy as np
import torch
from support import TINY

from pan21av.metrics import auc
from pan21av.network.lda import LDA, PRIOR_TOKENS
from pan21av.training import fit_lda as fit_lda_module
from pan21av.training.fit_lda import GAIN, fit_documents, fit_lda
from pan21av.training.prepared import TRAIN
from pan21av.training.sampling import Catalogue

CONFIG = replace(TINY, lda_dim=4, lda_words=3, lda_chars=2)


def test_it_learns_what_tells_authors_apart_and_topics_not():
    """Features 0-4 are an author's, 5-9 a topic's, much louder, the rest noise."""
    rng = np.random.default_rng(0)
    authors, each, features = 400, 3, CONFIG.lda_features
    own, topics = rng.normal(size=(authors, 5)), 3 * rng.normal(size=(12, 5))
    author = np.repeat(np.arange(authors), each)
    topic = rng.integers(12, size=len(author))
    roots = 0.3 + 0.02 * rng.normal(size=(len(author), features))
    roots[:, :5] += 0.02 * own[author]
    roots[:, 5:10] += 0.02 * topics[topic]
    frequencies, tokens = np.square(np.maximum(roots, 0)).astype(np.float32), np.full(len(author), 10**6)
    catalogue = Catalogue(author, topic, np.full(len(author), -1), np.zeros(len(author), dtype=int))
    lda = LDA(1, CONFIG)
    fit_documents(lda, frequencies, tokens, np.flatnonzero(author < 300), catalogue, rng)
    code = torch.tanh(lda(torch.from_numpy(frequencies), torch.from_numpy(tokens).float()))[0].numpy()
    unseen = np.flatnonzero(author >= 300)
    same = np.array([(i, j) for i in unseen for j in unseen if author[i] == author[j] and topic[i] != topic[j]])
    different = np.array([(i, j) for i in unseen for j in unseen if author[i] < author[j] and topic[i] == topic[j]])

    def score(vectors):
        pairs = np.concatenate([same, different])
        distance = np.square(vectors[pairs[:, 0]] - vectors[pairs[:, 1]]).sum(1)
        return auc(np.arange(len(pairs)) < len(same), -distance)

    assert score(roots) < 0.3  # plain distances follow the topic
    assert score(code) > 0.75


def plain_moments(frequencies, tokens):
    """Mean and deviation of the roots of frequencies, smoothed by PRIOR_TOKENS of the average."""
    background = frequencies.mean(0)
    weight = (tokens / (tokens + PRIOR_TOKENS))[:, None]
    roots = np.sqrt(weight * frequencies + (1 - weight) * background)
    return roots.mean(0), roots.std(0, ddof=1)


def test_it_is_fitted_with_the_tokens_that_are_read(corpus, monkeypatch):
    """A text of which only the beginning is read is no surer than one that ends there."""
    monkeypatch.setattr(fit_lda_module, "AUTHOR_SHARE", 1.0)  # all authors, so that we need not know which
    prepared = corpus.prepared
    lda = LDA(1, prepared.model)
    fit_lda(lda, prepared, 3)
    documents = prepared.documents(TRAIN)
    frequencies = np.asarray(prepared.frequencies[documents], dtype=np.float64)
    lengths = np.diff(prepared.offsets)[documents]
    mean, deviation = plain_moments(frequencies, np.minimum(lengths, prepared.model.max_tokens))
    np.testing.assert_allclose(lda.mean[0], mean, rtol=1e-5, atol=1e-7)
    varied = deviation > 1e-4
    np.testing.assert_allclose(lda.scale[0][varied], 1 / deviation[varied], rtol=1e-4)
    wrong, wrong_deviation = plain_moments(frequencies, lengths)
    assert not np.allclose(lda.scale[0][varied], 1 / wrong_deviation[varied], rtol=1e-3), "no document is cut"
    assert wrong.shape == mean.shape


def test_every_member_learns_from_authors_of_its_own(corpus):
    def fitted(seed):
        lda = LDA(1, corpus.prepared.model)
        fit_lda(lda, corpus.prepared, seed)
        return lda.state_dict()

    one, again, other = fitted(1), fitted(1), fitted(2)
    for name in one:
        assert torch.equal(one[name], again[name]), name
        assert not torch.equal(one[name], other[name]), name


def test_the_code_has_the_spread_that_tanh_needs(corpus):
    lda = LDA(1, corpus.prepared.model)
    fit_lda(lda, corpus.prepared, 1)
    documents = corpus.prepared.documents(TRAIN)
    code = lda(
        torch.from_numpy(np.array(corpus.prepared.frequencies[documents])),
        torch.from_numpy(corpus.prepared.tokens_read()[documents]).float(),
    )
    assert abs(float(code.std()) / GAIN - 1) < 0.15  # over all training texts, not only its own
