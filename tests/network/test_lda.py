"""The frequency part of an embedding, before anything is fitted."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import TINY, random_network, tiny_vocabulary

from pan21av.data.batch import batch_of
from pan21av.data.tokeniser import encode_all
from pan21av.network.lda import MAX_DEVIATIONS, PRIOR_TOKENS, standardise

CONFIG = replace(TINY, lda_dim=4, lda_words=3, lda_chars=2)


def test_short_texts_stay_near_the_average():
    frequencies = torch.tensor([[0.04, 0.0]])
    background, mean, scale = torch.tensor([0.01, 0.01]), torch.tensor([0.1, 0.1]), torch.tensor([20.0, 20.0])
    at = [
        standardise(frequencies, torch.tensor([n]), background, mean, scale)[0] for n in (1.0, PRIOR_TOKENS * 1.0, 1e9)
    ]
    assert at[0].abs().max() < 0.1
    # Half the weight at PRIOR_TOKENS: the root of 0.025 and of 0.005.
    torch.testing.assert_close(at[1], 20 * (torch.tensor([0.025, 0.005]).sqrt() - 0.1))
    torch.testing.assert_close(at[2], torch.tensor([2.0, -2.0]), atol=1e-3, rtol=0)
    far = standardise(frequencies, torch.tensor([1e9]), background, mean, 1000 * scale)
    assert far.tolist() == [[MAX_DEVIATIONS, -MAX_DEVIATIONS]]


def test_the_second_part_of_an_embedding_literally():
    """tanh of the z-scores of the roots of smoothed frequencies, projected: member by member, text by text."""
    network = random_network(3, CONFIG)
    network.lda.background.data.abs_()
    texts = ["the cat was here and it is not that", "but they had a house in the sea", "of of of"]
    batch = batch_of(encode_all(texts), tiny_vocabulary(), CONFIG)
    embedding = network.embed(batch)
    assert embedding.vectors.shape == (3, 3, CONFIG.lev_dim)
    for m in range(3):
        background, mean, scale, weight = (p[m].double().numpy() for p in network.lda.parameters())
        for d, tokens in enumerate([9, 8, 3]):
            trusted = tokens / (tokens + PRIOR_TOKENS)
            smoothed = trusted * batch.frequencies[d].double().numpy() + (1 - trusted) * background
            z = np.clip((np.sqrt(smoothed) - mean) * scale, -MAX_DEVIATIONS, MAX_DEVIATIONS)
            np.testing.assert_allclose(embedding.vectors[m, d, 5:], np.tanh(z @ weight), atol=1e-6)
            encoded = network.encoder(batch).vectors[m, d].numpy() @ network.metric.weight[m].numpy()
            expected = np.tanh(encoded + network.metric.bias[m].numpy())
            np.testing.assert_allclose(embedding.vectors[m, d, :5], expected, atol=1e-6)


@pytest.mark.parametrize("change", [{"lda_dim": 9}, {"lda_chars": 65}, {"lda_words": -1}])
def test_sizes_that_are_refused(change):
    (name,) = change
    with pytest.raises(ValueError, match=f"model.{name} must be"):
        replace(CONFIG, **change)
