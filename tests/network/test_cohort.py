"""How documents lie to a cohort, against plain loops."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import TINY_FULL, TINY_LIGHT, random_network, tiny_vocabulary

from pan21av.data.batch import batch_of
from pan21av.data.tokeniser import encode_all
from pan21av.network.cohort import MIN_DEVIATION, TOP_K, cohort_measures, nearest_tenth

TEXTS = ["The cat was  here and\nit is not that", "but they had, a house in the sea", "of of of"]


def plain_measures(y: np.ndarray, cohort: np.ndarray) -> list[float]:
    """Mean of the nearest squared distances of one text; mean and standard deviation of all."""
    squares = sorted(sum((a - b) ** 2 for a, b in zip(y, other, strict=True)) for other in cohort)
    nearest = squares[:TOP_K]
    mean = sum(squares) / len(squares)
    deviation = (sum((square - mean) ** 2 for square in squares) / len(squares)) ** 0.5
    return [sum(nearest) / len(nearest), mean, max(MIN_DEVIATION, deviation)]


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 25), st.booleans())
def test_measures(seed, size, masked):
    rng = np.random.default_rng(seed)
    y, cohort = rng.uniform(-1, 1, (2, 4, 6)), rng.uniform(-1, 1, (2, size, 6))
    usable = rng.random((4, size)) < 0.5 if masked else np.ones((4, size), dtype=bool)
    usable[:, 0] = True  # at least one
    found = cohort_measures(
        torch.from_numpy(y), torch.from_numpy(cohort), torch.from_numpy(usable) if masked else None
    )  # fmt: skip
    assert found.shape == (2, 4, 3)
    for m in range(2):
        for d in range(4):
            assert found[m, d].tolist() == pytest.approx(plain_measures(y[m, d], cohort[m][usable[d]]), rel=1e-9)


@given(st.integers(0, 10_000), st.integers(1, 45))
def test_the_nearest_tenth(seed, size):
    rng = np.random.default_rng(seed)
    y, texts = rng.uniform(-1, 1, (2, 3, 6)), rng.uniform(-1, 1, (2, size, 6))
    found = nearest_tenth(torch.from_numpy(y), torch.from_numpy(texts))
    for m in range(2):
        for d in range(3):
            squares = sorted(((y[m, d] - other) ** 2).sum() for other in texts[m])
            assert float(found[m, d]) == pytest.approx(np.mean(squares[: max(1, size // 10)]), rel=1e-9)


def test_a_cohort_of_one_text_has_no_deviation_to_divide_by():
    y = torch.rand(1, 2, 8, dtype=torch.double)
    found = cohort_measures(y, y[:, :1].expand(1, 3, 8))
    assert found[0, 0].tolist() == pytest.approx([0, 0, MIN_DEVIATION], abs=1e-12)
    assert float(found[0, 1, 2]) == MIN_DEVIATION
    assert float(found[0, 1, 0]) == pytest.approx(float((y[0, 1] - y[0, 0]).square().sum()))


def test_nobody_of_the_cohort_counts():
    y = torch.rand(1, 2, 8, dtype=torch.double)
    found = cohort_measures(y, torch.rand(1, 30, 8, dtype=torch.double), torch.zeros(2, 30, dtype=torch.bool))
    assert torch.isfinite(found).all()


def test_no_documents_no_measures():
    assert cohort_measures(torch.rand(2, 0, 8), torch.rand(2, 5, 8)).shape == (2, 0, 3)


def plain_comparable(network, projected: np.ndarray, m: int) -> list[np.ndarray]:
    """The parts of one member's vector as they are compared: layout and n-grams at length one, each part by its
    weight."""
    config = network.config
    sizes = [config.encoder_dim, config.layout_dim, config.ngram_dim]
    encoder, *counted = np.split(projected[: sum(sizes)].astype(float), np.cumsum(sizes)[:-1])
    parts = [part for part in (encoder, *(each / np.sqrt((each**2).sum()) for each in counted)) if len(part)]
    scale = [1.0] if network.part_scale is None else network.part_scale[m].tolist()
    return [factor * part for factor, part in zip(scale, parts, strict=True)]


NGRAMS_ALONE = replace(TINY_LIGHT, layout_dim=0, layout_features=0)


@pytest.mark.parametrize("config", [TINY_FULL, TINY_LIGHT, NGRAMS_ALONE], ids=["full", "light", "ngrams alone"])
def test_the_network_measures_every_document_against_its_own_members_cohort(config):
    """Part by part, and texts of the cohort are made comparable as the documents are."""
    network = random_network(3, config)
    batch = batch_of(encode_all(TEXTS, layout=True), tiny_vocabulary(), config)
    projected, embedding = network.project(batch), network.embed(batch)
    parts = len(config.lev_parts)
    assert embedding.parts == config.lev_parts
    assert embedding.tokens.tolist() == [9, 9, 3]
    assert embedding.cohort.shape == (3, 3, parts, 3)
    for m in range(3):
        others = [plain_comparable(network, text.numpy(), m) for text in network.cohort.texts[m]]
        for d in range(3):
            mine = plain_comparable(network, projected[m, d].numpy(), m)
            np.testing.assert_allclose(embedding.vectors[m, d], np.concatenate(mine), rtol=1e-5, atol=1e-6)
            for part in range(parts):
                expected = plain_measures(mine[part], np.stack([other[part] for other in others]))
                assert embedding.cohort[m, d, part].tolist() == pytest.approx(expected, rel=1e-5)


def test_some_of_the_cohort_count():
    """Who is left out might as well not be there."""
    network = random_network(2, TINY_FULL)
    projected, tokens = torch.rand(2, 3, TINY_FULL.projected_dim) * 2 - 1, torch.full((3,), 100.0)
    usable = torch.rand(3, TINY_FULL.cohort, generator=torch.Generator().manual_seed(1)) < 0.4
    found = network.embedding(projected, tokens, usable=usable)
    texts = network.cohort.texts.clone()
    for d in range(3):
        network.cohort.texts.data = texts[:, usable[d]]
        alone = network.embedding(projected[:, d : d + 1], tokens[:1])
        torch.testing.assert_close(found.cohort[:, d], alone.cohort[:, 0])
        assert torch.equal(found.vectors[:, d], alone.vectors[:, 0])
