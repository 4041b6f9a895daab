"""Cohort distances: mean squares to the nearest, against plain loops."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import TINY_FULL, random_network, tiny_vocabulary

from pan21av.data.batch import batch_of
from pan21av.data.tokeniser import encode_all
from pan21av.network.cohort import MIN_DISTANCE, TOP_K, cohort_distance

PARTS = (5, 3)


def plain_distance(y: np.ndarray, cohort: np.ndarray) -> float:
    """Mean square, per number, of the differences of one text from the nearest of a cohort."""
    squares = sorted(sum((a - b) ** 2 for a, b in zip(y, other, strict=True)) for other in cohort)[:TOP_K]
    return sum(squares) / len(squares) / len(y)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 25), st.booleans())
def test_mean_squares_to_the_nearest(seed, size, masked):
    rng = np.random.default_rng(seed)
    y, cohort = rng.uniform(-1, 1, (4, 8)), rng.uniform(-1, 1, (size, 8))
    usable = rng.random((4, size)) < 0.5 if masked else np.ones((4, size), dtype=bool)
    usable[:, 0] = True  # at least one
    found = cohort_distance(
        torch.from_numpy(y)[None], torch.from_numpy(cohort)[None], PARTS, torch.from_numpy(usable) if masked else None
    )[0]
    for d in range(4):
        for part, columns in enumerate((slice(0, 5), slice(5, 8))):
            expected = plain_distance(y[d, columns], cohort[usable[d]][:, columns])
            assert float(found[d, part]) == pytest.approx(expected, rel=1e-9)


def test_a_text_of_the_cohort_itself_is_not_divided_by_zero():
    y = torch.rand(1, 1, 8, dtype=torch.double)
    found = cohort_distance(y, y.expand(1, 3, 8), PARTS)
    assert found.flatten().tolist() == pytest.approx([MIN_DISTANCE] * 2)


def test_the_network_measures_every_document_against_its_own_members_cohort():
    network = random_network(3, TINY_FULL)
    texts = ["the cat was here and it is not that", "but they had a house in the sea", "of of of"]
    embedding = network.embed(batch_of(encode_all(texts), tiny_vocabulary(), TINY_FULL))
    assert embedding.parts == (5, 4)
    assert embedding.tokens.tolist() == [9, 8, 3]
    assert embedding.cohort_distance.shape == (3, 3, 2)
    for m in range(3):
        for d in range(3):
            y, levs = embedding.vectors[m, d].numpy(), network.cohort.levs[m].numpy()
            for part, columns in enumerate((slice(0, 5), slice(5, 9))):
                expected = plain_distance(y[columns].astype(float), levs[:, columns].astype(float))
                assert float(embedding.cohort_distance[m, d, part]) == pytest.approx(expected, rel=1e-5)
    # What DML reads is divided by them, what BFS reads is not.
    pair = embedding.pair([0], [1])
    unit = embedding.cohort_distance[:, :2].mean(1)
    squares = (embedding.vectors[:, 0] - embedding.vectors[:, 1]).square()
    expected = squares[:, :5].sum(1) / unit[:, 0] + squares[:, 5:].sum(1) / unit[:, 1]
    torch.testing.assert_close(pair.distance[:, 0], expected)
    gamma, alpha = network.dml.log_gamma.exp(), network.dml.log_alpha.exp()
    torch.testing.assert_close(network.score(pair).dml[:, 0], torch.exp(-gamma * expected**alpha))
    assert torch.equal(pair.first[:, 0], embedding.vectors[:, 0])
