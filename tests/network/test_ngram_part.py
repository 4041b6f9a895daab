"""The parts of an embedding that come from n-grams, before anything is fitted."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import TINY, TINY_FULL, random_network, tiny_pool, tiny_vocabulary

from pan21av.config import ModelConfig
from pan21av.data.batch import batch_of
from pan21av.data.layout import layout
from pan21av.data.tokeniser import encode_all
from pan21av.network.ngram_part import MAX_DEVIATIONS, PRIOR_TOKENS, NgramPart, standardise

# Tokens with white space between, so that it is plain what they are.
TEXTS = ["The cat was  here , and\nit is not that", "but they had\n\na house in the sea .", "of of of"]
TOKENS = (10, 9, 3)


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


def test_shapes():
    config = replace(TINY_FULL, ngram_features=7, ngram_dim=3)
    part = NgramPart(2, config)
    assert part.index.dtype is torch.int32
    frequencies, tokens = torch.rand(5, 11), torch.full((5,), 100.0)
    assert part.z_scores(frequencies, tokens).shape == (2, 5, 7)
    assert part(frequencies, tokens).shape == (2, 5, 4)  # one more for the kind of text
    assert NgramPart(2, replace(config, kinds=0))(frequencies, tokens).shape == (2, 5, 3)
    assert part(frequencies.double(), tokens.double()).dtype is torch.double
    assert part(frequencies[:0], tokens[:0]).shape == (2, 0, 4)
    assert not any(parameter.requires_grad for parameter in part.parameters())


def test_every_member_reads_its_own_ngrams():
    part = NgramPart(2, replace(TINY_FULL, ngram_features=3))
    part.index.copy_(torch.tensor([[0, 2, 4], [5, 1, 1]]))
    part.scale.fill_(1.0)
    frequencies = torch.tensor([[0.0, 0.01, 0.04, 0.09, 0.16, 0.25]])
    found = part.z_scores(frequencies, torch.tensor([1e12]))
    torch.testing.assert_close(found, torch.tensor([[[0.0, 0.2, 0.4]], [[0.5, 0.1, 0.1]]]))


def expected_part(part: NgramPart, counts: np.ndarray, tokens: int, m: int) -> tuple[np.ndarray, float | None]:
    """z-scores of the roots of smoothed frequencies, projected, and the distance to the nearest kind, where kinds are
    told apart; one member, one text."""
    background, mean, scale, weight = (
        p[m].double().numpy() for p in (part.background, part.mean, part.scale, part.weight)
    )
    trusted = tokens / (tokens + PRIOR_TOKENS)
    smoothed = trusted * counts.astype(float)[part.index[m].numpy()] + (1 - trusted) * background
    z = np.clip((np.sqrt(smoothed) - mean) * scale, -MAX_DEVIATIONS, MAX_DEVIATIONS)
    if part.kinds is None:
        return z @ weight, None
    there = z @ part.kinds.weight[m].double().numpy()
    nearest = min(np.sqrt(((there - centre.double().numpy()) ** 2).sum()) for centre in part.kinds.centres[m])
    return z @ weight, nearest


def test_the_parts_of_an_embedding_literally():
    """The encoder's, that of layout, that of n-grams, and the distance to the nearest kind."""
    network = random_network(3, TINY_FULL)
    batch = batch_of(encode_all(TEXTS, layout=True), tiny_vocabulary(), TINY_FULL)
    assert batch.tokens.tolist() == list(TOKENS)
    projected, embedding = network.project(batch), network.embed(batch)
    assert embedding.vectors.shape == (3, 3, TINY_FULL.lev_dim)
    assert projected.shape == (3, 3, TINY_FULL.projected_dim)
    assert embedding.parts == (5, 3, 4)
    for m in range(3):
        of_encoder, of_layout, of_ngrams = network.part_scale[m].tolist()
        for d, (text, tokens) in enumerate(zip(TEXTS, TOKENS, strict=True)):
            counts = tiny_pool().count(text.split(), layout(text))
            typed, _ = expected_part(network.layout, counts, tokens, m)
            mine, nearest = expected_part(network.ngrams, counts, tokens, m)
            np.testing.assert_allclose(projected[m, d, 5:8], typed, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(projected[m, d, 8:12], mine, rtol=1e-5, atol=1e-6)
            assert float(projected[m, d, 12]) == float(embedding.strangeness[m, d]) == pytest.approx(nearest, rel=1e-5)
            # At length one, by its weight; the length itself is kept, of n-grams.
            length = np.sqrt((mine**2).sum())
            typed = typed / np.sqrt((typed**2).sum())
            np.testing.assert_allclose(embedding.vectors[m, d, 5:8], of_layout * typed, rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(embedding.vectors[m, d, 8:], of_ngrams * mine / length, rtol=1e-5, atol=1e-6)
            assert float(embedding.norm[m, d]) == pytest.approx(np.log(length), abs=1e-5)
            encoded = network.encoder(batch).vectors[m, d].numpy() @ network.metric.weight[m].numpy()
            theirs = np.tanh(encoded + network.metric.bias[m].numpy())
            np.testing.assert_allclose(projected[m, d, :5], theirs, atol=1e-6)
            np.testing.assert_allclose(embedding.vectors[m, d, :5], of_encoder * theirs, atol=1e-6)


def test_a_text_that_is_as_usual_as_can_be():
    """A vector without a direction is none; nothing is divided by zero."""
    network = random_network(2, TINY_FULL)
    embedding = network.embedding(torch.zeros(2, 1, TINY_FULL.projected_dim), torch.tensor([5.0]))
    assert torch.equal(embedding.vectors, torch.zeros(2, 1, TINY_FULL.lev_dim))
    assert torch.isfinite(embedding.norm).all()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"ngram_dim": -1}, "ngram_dim"),
        ({"ngram_features": -1}, "ngram_features"),
        ({"ngram_features": 4097}, "ngram_features"),
        ({"layout_dim": -1}, "layout_dim"),
        ({"layout_features": 4097}, "layout_features"),
        ({"encoder_dim": -1}, "encoder_dim"),
        ({"ngram_dim": 2.0}, "ngram_dim"),
        ({"ngram_dim": True}, "ngram_dim"),
    ],
)
def test_sizes_that_are_refused(change, name):
    with pytest.raises(ValueError, match=f"model.{name} must be a number from 0 to 4096"):
        replace(TINY, **change)


def test_a_vector_of_nothing_is_refused():
    with pytest.raises(ValueError, match=r"encoder_dim and model\.ngram_dim must not both be 0"):
        replace(TINY, encoder_dim=0)


def test_kinds_are_told_apart_by_ngrams():
    with pytest.raises(ValueError, match=r"model\.kinds are told apart by n-grams"):
        replace(TINY, kinds=3)


def test_layout_stands_beside_ngrams():
    with pytest.raises(ValueError, match=r"model\.layout_dim stands beside n-grams: it needs model\.ngram_dim"):
        replace(TINY, layout_dim=3)


@pytest.mark.parametrize(
    ("config", "names", "sizes", "counted"),
    [
        (ModelConfig(), ("encoder",), (60,), 0),
        (TINY_FULL, ("encoder", "layout", "ngrams"), (5, 3, 4), 7),
        (replace(TINY_FULL, encoder_dim=0), ("layout", "ngrams"), (3, 4), 7),
        (replace(TINY_FULL, layout_dim=0), ("encoder", "ngrams"), (5, 4), 4),
        (replace(TINY_FULL, encoder_dim=0, layout_dim=0), ("ngrams",), (4,), 4),
    ],
)
def test_parts_of_a_vector(config, names, sizes, counted):
    assert (config.part_names, config.lev_parts) == (names, sizes)
    assert (config.lev_dim, config.counted_dim) == (sum(sizes), counted)
    assert config.projected_dim == sum(sizes) + bool(config.kinds)


def test_sizes_are_kept():
    assert "lev_dim" not in TINY_FULL.to_dict()
    assert ModelConfig.from_dict(TINY_FULL.to_dict()) == TINY_FULL


def test_what_stage_one_trains_has_no_other_part():
    alone = replace(TINY_FULL, bfs_dim=7).encoder_alone
    assert (alone.lev_dim, alone.lev_parts) == (5, (5,))
    assert alone.ngram_features == alone.layout_features == alone.cohort == 0
    assert alone.bfs_dim == 5  # no more than there is to read
    assert TINY_FULL.encoder_alone.bfs_dim == TINY_FULL.bfs_dim
    assert TINY.encoder_alone == TINY
