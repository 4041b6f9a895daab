"""Which part of a document is read."""

import math
from collections import Counter

import numpy as np
import pytest

from pan21av.training.crops import Crops
from pan21av.training.prepared import Span
from pan21av.training.settings import PairSettings


@pytest.fixture
def crops(corpus):
    return Crops(corpus.prepared, np.random.default_rng(0))


def longest_document(crops) -> int:
    return int(np.diff(crops.prepared.offsets).argmax())


def test_lengths_are_even_on_a_logarithmic_scale(crops):
    """P(w windows) = log((w + 1) / w) / log((longest + 1) / shortest)."""
    model = crops.prepared.model
    drawn = Counter(crops.random(0, 2, 6).tokens for _ in range(20_000))
    expected = {model.tokens_in(w): math.log((w + 1) / w) / math.log(7 / 2) for w in range(2, 7)}
    assert drawn.keys() == expected.keys()
    for tokens, share in expected.items():
        assert drawn[tokens] / 20_000 == pytest.approx(share, abs=0.015)


def test_places_are_anywhere_in_the_document(crops):
    document = longest_document(crops)
    length, tokens = crops.prepared.length(document), crops.prepared.model.tokens_in(2)
    spans = [crops.random(document, 2, 2) for _ in range(4_000)]
    assert {span.tokens for span in spans} == {tokens}
    starts = np.array([span.first for span in spans])
    assert (starts.min(), starts.max()) == (0, length - tokens)  # from the first to the last possible
    assert starts.mean() == pytest.approx((length - tokens) / 2, rel=0.05)
    # One that is too short for the crop is read from its beginning.
    assert crops.random(document, 200, 200) == Span(document, 0, crops.prepared.model.tokens_in(200))


def test_lengths_in_tokens_are_even_on_a_logarithmic_scale(crops):
    """P(n tokens or fewer) = log((n + 1/2) / shortest) / log(length / shortest), of what is read of the document."""
    document = longest_document(crops)
    limit = crops.prepared.model.max_tokens
    assert crops.prepared.length(document) > limit, "the corpus has one that is not read to its end"
    spans = [crops.of_any_length(document, 20) for _ in range(10_000)]
    counts = np.array([span.tokens for span in spans])
    assert counts.min() == 20
    assert limit - 2 <= counts.max() <= limit
    for tokens in (25, 40, 70, 120):
        share = math.log((tokens + 0.5) / 20) / math.log(limit / 20)
        assert np.mean(counts <= tokens) == pytest.approx(share, abs=0.02)
    # Anywhere, to the end of the document and not of what a network reads of it.
    starts = np.array([span.first for span in spans])
    spare = crops.prepared.length(document) - counts
    assert starts.min() == 0
    assert ((starts >= 0) & (starts <= spare)).all()
    assert (starts == spare).any()
    assert np.mean(starts / np.maximum(spare, 1)) == pytest.approx(0.5, abs=0.02)


def test_a_document_that_is_shorter_than_the_shortest_crop_is_read_whole(crops):
    for document in (0, longest_document(crops)):
        whole = min(crops.prepared.length(document), crops.prepared.model.max_tokens)
        assert {crops.of_any_length(document, 10_000).tokens for _ in range(20)} == {whole}
    short = int(np.diff(crops.prepared.offsets).argmin())
    assert crops.prepared.length(short) < crops.prepared.model.max_tokens
    assert crops.of_any_length(short, 10_000) == Span(short, 0, crops.prepared.length(short))


def test_the_papers_crops(crops):
    """Whole if it fits; else from a random window on, half of the time."""
    model, document = crops.prepared.model, longest_document(crops)
    assert crops.whole(document) == Span(document, 0, model.max_tokens)
    fits = PairSettings(max_windows=200)
    assert {crops.for_pair(document, fits) for _ in range(50)} == {Span(document, 0, model.tokens_in(200))}
    settings = PairSettings(max_windows=5)
    spans = [crops.for_pair(document, settings) for _ in range(4_000)]
    assert {span.tokens for span in spans} == {model.tokens_in(5)}
    spare = crops.prepared.length(document) - model.tokens_in(5)
    possible = range(0, spare + 1, model.window_hop)
    counts = Counter(span.first for span in spans)
    assert set(counts) == set(possible)
    moved = 1 - counts[0] / 4_000
    assert moved == pytest.approx(0.5 * (1 - 1 / len(possible)), abs=0.04)
    with_lengths = PairSettings(max_windows=5, min_windows=2)
    assert len({crops.for_pair(document, with_lengths).tokens for _ in range(200)}) == 4
