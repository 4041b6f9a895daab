import numpy as np
import pytest
import torch
from support import random_network

from pan21av.data.layout import layout
from pan21av.network.embedding import Embedding
from pan21av.training.known_texts import KNOWN, PER_AUTHOR, known_scores, known_trials
from pan21av.training.member import full_model
from pan21av.training.prepared import VALIDATE, Span


@pytest.fixture(scope="module")
def network(corpus):
    return random_network(1, full_model(corpus.settings, corpus.prepared), vocabulary=corpus.prepared.vocabulary)


def test_trials_are_of_validation_authors_with_enough_texts(corpus):
    catalogue, trials = corpus.prepared.catalogue, known_trials(corpus.prepared)
    validation = set(corpus.prepared.documents(VALIDATE).tolist())
    _, counts = np.unique(catalogue.author[list(validation)], return_counts=True)
    assert len(trials.same) == 2 * PER_AUTHOR * (counts > KNOWN).sum() > 0
    assert trials.same.mean() == 0.5
    for questioned, known, same in zip(*trials, strict=True):
        assert {questioned, *known} <= validation
        assert len({questioned, *known}) == 1 + KNOWN, "nothing is compared with itself"
        assert len(set(catalogue.author[known])) == 1
        assert (catalogue.author[questioned] == catalogue.author[known[0]]) == same
        assert catalogue.source[questioned] == catalogue.source[known[0]]


def test_no_two_texts_of_one_work(corpus, monkeypatch):
    """Where an author's texts are all of one work, there is nothing to compare them with."""
    monkeypatch.setattr(type(corpus.prepared.catalogue), "may_pair", lambda self, a, b: False)
    assert len(known_trials(corpus.prepared).same) == 0


def test_the_texts_of_a_person_are_read_as_one_document(corpus, network):
    """Windows stay inside each text, n-grams are those of all tokens and of all layout, and length counts all of
    them."""
    prepared, trials = corpus.prepared, known_trials(corpus.prepared)
    said = known_scores(network, prepared)
    assert set(said) == {f"{name}*{n}" for name in ("ual", "o2d2") for n in range(1, KNOWN + 1)}
    limit, trial = prepared.model.max_tokens, 1
    spans = [Span(int(d), 0, limit) for d in trials.known[trial]]
    tokens = [prepared.tokens_of(span) for span in spans]
    batch = prepared.batch_of_texts([spans], network.config)
    assert batch.tokens.tolist() == [sum(map(len, tokens))]
    apart = [prepared.batch([span], network.config) for span in spans]
    assert len(batch.windows) == sum(len(one.windows) for one in apart)
    words = [prepared.types[t] for t in np.concatenate(tokens)]
    typed = [layout(corpus.documents[d]["text"]) for d in trials.known[trial]]
    read = [s[: len(t) * len(s) // prepared.length(d)] for s, t, (d, _, _) in zip(typed, tokens, spans, strict=True)]
    expected = prepared.vocabulary.ngrams.count(words, np.concatenate(read))
    np.testing.assert_allclose(batch.ngrams[0], expected, rtol=1e-6, atol=1e-8)
    assert expected[prepared.vocabulary.ngrams.views["layout"]].any()
    with torch.no_grad():
        questioned = network.embed(prepared.batch([Span(int(trials.questioned[trial]), 0, limit)], network.config))
        joined = Embedding.join([questioned, network.embed(batch)], "documents")
        scores = network.score(joined.pair([0], [1]))
    assert said["ual*3"][trial] == pytest.approx(float(scores.ual), abs=1e-5)
    assert said["o2d2*3"][trial] == pytest.approx(float(scores.o2d2), abs=1e-5)
