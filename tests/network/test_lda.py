"""Frequencies beside the encoder: counted by hand, learnt on made-up authors."""

import numpy as np
import pytest
import torch
from conftest import SMALL, TINY, random_members, tiny_vocabulary

from pan21av.config import ModelConfig
from pan21av.documents import batch_of_tokens
from pan21av.metrics import auc
from pan21av.style import CLIP, PRIOR_TOKENS, Style, frequencies, standardise
from pan21av.text import tokenise_all
from pan21av.train import train
from pan21av.train.pairs import Catalogue
from pan21av.train.style import fit
from pan21av.verifier import Verifier

CONFIG = ModelConfig(**{**TINY.to_dict(), "style_dim": 4, "style_words": 3, "style_chars": 2})


def test_frequencies_by_hand():
    """Words 2, 3, 4 are the commonest three, 1 is unknown, 9 a rarer one; letters 2 and 3 the common ones."""
    words = np.array([2, 9, 1, 4])
    chars = np.array([[2, 3, 0], [3, 7, 0], [7, 7, 7], [2, 0, 0]])
    (found,) = frequencies(words, chars, [np.array([0, 0, 1, 2, 3])], CONFIG)
    np.testing.assert_allclose(found[:4], [1 / 5, 2 / 5, 0, 1 / 5])
    # Pairs of (0 other or end, 1, 2): word 0 twice "ab": 01 12 20; word 1 "b?": 02 20 (00); word 3 "a": 01 10
    pairs = {(0, 1): 3, (1, 2): 2, (2, 0): 3, (0, 2): 1, (1, 0): 1}
    expected = np.zeros(9)
    for (a, b), n in pairs.items():
        expected[3 * a + b] = n / 10
    np.testing.assert_allclose(found[4:], expected, rtol=1e-6)
    assert CONFIG.style_features == 4 + 9


def test_short_texts_stay_near_the_average():
    usage = torch.tensor([[0.04, 0.0]])
    usual, mean, scale = torch.tensor([0.01, 0.01]), torch.tensor([0.1, 0.1]), torch.tensor([20.0, 20.0])
    at = [standardise(usage, torch.tensor([n]), usual, mean, scale)[0] for n in (1.0, PRIOR_TOKENS * 1.0, 1e9)]
    assert at[0].abs().max() < 0.1
    # Half the weight at PRIOR_TOKENS: the root of 0.025 and of 0.005.
    torch.testing.assert_close(at[1], 20 * (torch.tensor([0.025, 0.005]).sqrt() - 0.1))
    torch.testing.assert_close(at[2], torch.tensor([2.0, -2.0]), atol=1e-3, rtol=0)
    assert standardise(usage, torch.tensor([1e9]), usual, mean, 1000 * scale).abs().max() == CLIP


def test_it_learns_what_tells_authors_apart_and_topics_not():
    """Features 0-4 are an author's, 5-9 a topic's, much louder, the rest noise."""
    rng = np.random.default_rng(0)
    authors, each, features = 400, 3, CONFIG.style_features
    own, topics = rng.normal(size=(authors, 5)), 3 * rng.normal(size=(12, 5))
    author = np.repeat(np.arange(authors), each)
    topic = rng.integers(12, size=len(author))
    roots = 0.3 + 0.02 * rng.normal(size=(len(author), features))
    roots[:, :5] += 0.02 * own[author]
    roots[:, 5:10] += 0.02 * topics[topic]
    usage, tokens = np.square(np.maximum(roots, 0)).astype(np.float32), np.full(len(author), 10**6)
    catalogue = Catalogue(author, topic, np.full(len(author), -1), np.zeros(len(author), dtype=int))
    train_rows = np.flatnonzero(author < 300)
    style = Style(1, CONFIG)
    fit(style, usage, tokens, train_rows, catalogue, rng)
    code = torch.tanh(style(torch.from_numpy(usage), torch.from_numpy(tokens).float()))[0].numpy()
    unseen = np.flatnonzero(author >= 300)
    same = np.array([(i, j) for i in unseen for j in unseen if author[i] == author[j] and topic[i] != topic[j]])
    different = np.array([(i, j) for i in unseen for j in unseen if author[i] < author[j] and topic[i] == topic[j]])

    def score(vectors):
        pairs = np.concatenate([same, different])
        distance = np.square(vectors[pairs[:, 0]] - vectors[pairs[:, 1]]).sum(1)
        return auc(np.arange(len(pairs)) < len(same), -distance)

    assert score(roots) < 0.3  # plain distances follow the topic
    assert score(code) > 0.75


def test_both_ways_to_the_lev_agree():
    members, vocabulary = random_members(3, CONFIG), tiny_vocabulary()
    texts = ["the cat was here and it is not that", "but they had a house in the sea", "of of of"]
    batch = batch_of_tokens(tokenise_all(texts), vocabulary, CONFIG)
    vectors = members.encoder(batch).vectors
    together = members.lev(vectors, batch)
    assert together.shape == (3, 3, CONFIG.lev_dim)
    for m in range(3):
        torch.testing.assert_close(members.member_lev(m, vectors[m], batch), together[m], atol=1e-5, rtol=0)


@pytest.mark.parametrize("change", [{"style_dim": 9}, {"style_chars": 65}, {"style_words": -1}])
def test_sizes_that_are_refused(change):
    with pytest.raises(ValueError, match="style_"):
        ModelConfig(**{**CONFIG.to_dict(), **change})


@pytest.mark.slow
def test_training_with_style(small_corpus, tmp_path):
    settings = [*SMALL, "style_dim=6", "style_words=100", "style_chars=20", "epochs=0"]
    figures = train(small_corpus, tmp_path / "out", members=1, assignments=settings, jobs=1)
    assert figures["dml"]["auc"] > 0.6
    verifier = Verifier.load(tmp_path / "out")
    assert verifier.config.style_dim == 6
    assert 0 <= verifier.verify("the cat sat. " * 30, "a dog was not here! " * 30).probability <= 1
    card = (tmp_path / "out" / "MODEL_CARD.md").read_text()
    assert "cut to 2,000 characters" in card
    assert (tmp_path / "out" / "reliability.png").exists()
