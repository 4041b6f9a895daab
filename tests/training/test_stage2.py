"""Stage two as a whole: what it is given, and that what it says of validation texts is what a verifier would say."""

import numpy as np
import pytest
import torch
from support import random_network

from pan21av.network.embedding import Embedding
from pan21av.training.calibration import POPULATIONS, cohort_documents
from pan21av.training.member import full_model
from pan21av.training.prepared import CALIBRATE, VALIDATE, Span
from pan21av.training.stage1 import embed_spans, project_spans
from pan21av.training.stage2 import LENGTHS, SIZES, TYPICAL_CHARS_PER_TOKEN, StageTwo

CPU = torch.device("cpu")
COHORT = 6  # as many calibration authors as a source has


def stage_two_of(corpus, sources=(0, 1), **changes):
    prepared = corpus.prepared.for_sources(sources)
    settings = corpus.settings.updated({"calibration": {"cohort": COHORT}}).updated(changes)
    network = random_network(1, full_model(settings, prepared), vocabulary=prepared.vocabulary)
    return StageTwo(network, prepared, settings, 3, CPU)


@pytest.fixture(scope="module")
def stage_two(corpus):
    """Of a member that knows the second source only."""
    return stage_two_of(corpus, [1])


def whole(prepared, documents):
    return [Span(int(d), 0, prepared.model.max_tokens) for d in documents]


def same_pairs(found, expected):
    torch.testing.assert_close(found.first, expected.first, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.second, expected.second, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found.evidence, expected.evidence, atol=1e-3, rtol=1e-3)


def test_the_cohort_as_it_will_be_shipped(corpus, stage_two):
    """Parts of whole texts before they are made comparable, in half precision; of known sources only."""
    prepared, network = stage_two.prepared, stage_two.network
    chosen = cohort_documents(prepared, COHORT)
    assert network.cohort.texts.shape == (1, COHORT, network.config.lev_dim)
    assert set(prepared.catalogue.source[chosen]) == {1}
    expected, _ = project_spans(network, prepared, whole(prepared, chosen))
    assert torch.equal(network.cohort.texts, expected[..., : network.config.lev_dim].half().float())


def test_what_scores_learn_from(corpus, stage_two):
    """Calibration documents of all sources, in every view, without a population and with several."""
    views = stage_two.calibration.views
    np.testing.assert_array_equal(views.documents, corpus.prepared.documents(CALIBRATE))
    assert (views.n_views, views.n_conditions) == (2, 1 + POPULATIONS)
    shares = views.embedding.population.numpy().reshape(1 + POPULATIONS, -1)
    assert not shares[0].any()
    assert (shares[1:] >= 10 / 20 - 1e-6).all()  # ten texts count half
    source = np.tile(corpus.prepared.catalogue.source[views.documents], 2)
    for condition in shares[1:]:
        assert all(len(np.unique(condition[source == number])) == 1 for number in (0, 1)), "one for each source"


def test_the_parts_are_weighed_by_pairs(corpus, stage_two):
    """Random networks know no authors; still no part is switched off, or left as it came."""
    scale = stage_two.network.part_scale
    assert (scale > 0).all()
    start = random_network(1, stage_two.network.config, vocabulary=corpus.prepared.vocabulary)
    assert not torch.equal(scale, start.part_scale)


def test_everything_else_is_left_alone(corpus, stage_two):
    start = random_network(1, stage_two.network.config, vocabulary=corpus.prepared.vocabulary).state_dict()
    moved = {n for n, tensor in stage_two.network.state_dict().items() if not torch.equal(tensor, start[n])}
    assert moved == {"cohort.texts", "part_scale"}


def test_validation_texts_are_measured_as_a_verifier_would(stage_two):
    """Whole cohort, every view; the first pairs are those of whole texts."""
    prepared = stage_two.prepared
    pairs = prepared.validation
    assert set(pairs.flatten()) <= set(prepared.documents(VALIDATE))
    assert len(stage_two.validation.pair) == 2 * len(pairs)
    assert len(stage_two.whole_pairs) == len(pairs)
    truth = prepared.catalogue.same_author(pairs)
    np.testing.assert_array_equal(stage_two.validation.same[0], np.tile(truth, 2))
    known = prepared.catalogue.source[pairs[:, 0]] == 1
    assert 0 < known.sum() < len(known)
    np.testing.assert_array_equal(stage_two.validation.known, np.tile(known, 2))
    count = len(pairs)
    embedding = embed_spans(stage_two.network, prepared, whole(prepared, pairs.T.flatten()))
    same_pairs(stage_two.whole_pairs, embedding.pair(slice(0, count), slice(count, None)))


@pytest.fixture(scope="module")
def said(stage_two):
    return stage_two.validation_scores()


def test_texts_are_cut_as_a_reader_would_cut_them(stage_two, said):
    """To as many tokens as so many characters have, from the beginning on: each text by itself."""
    prepared, network, pairs = stage_two.prepared, stage_two.network, stage_two.prepared.validation
    some = np.array([0, len(pairs) // 2, len(pairs) - 1])
    for characters in LENGTHS:
        tokens = round(characters / TYPICAL_CHARS_PER_TOKEN)
        each = [embed_spans(network, prepared, [Span(int(d), 0, tokens)]) for d in pairs[some].flatten()]
        assert {int(one.tokens[0]) for one in each} <= set(range(1, tokens + 1))
        joined = Embedding.join(each, "documents")
        scores = network.score(joined.pair(slice(0, None, 2), slice(1, None, 2)))
        for name in ("ual", "o2d2"):
            found = said[f"{name}@{characters}"]
            assert found.shape == (len(pairs),)
            np.testing.assert_allclose(found[some], getattr(scores, name)[0], atol=1e-4)
    assert not np.allclose(said["ual@300"], said["ual"], atol=1e-4)


def test_what_is_said_of_whole_texts(stage_two, said):
    scores = stage_two.network.score(stage_two.whole_pairs)
    for name in ("dml", "bfs", "ual", "o2d2"):
        np.testing.assert_allclose(said[name], getattr(scores, name)[0], atol=1e-6)
    parts = said["distance_encoder"] + said["distance_layout"] + said["distance_ngrams"]
    np.testing.assert_allclose(parts, stage_two.whole_pairs.distance[0], rtol=1e-4)


def test_what_is_said_with_a_population(corpus, said):
    count = len(corpus.prepared.validation)
    columns = [said[f"ual+{size}"] for size in SIZES]
    assert all(column.shape == (count,) for column in columns)
    for column in columns:
        assert ((column >= 0) & (column <= 1)).all()
        assert not np.allclose(column, said["ual"], atol=1e-4)


def test_the_same_seed_says_the_same(corpus, said):
    again = stage_two_of(corpus, [1]).validation_scores()
    assert again.keys() == said.keys()
    for name, column in said.items():
        np.testing.assert_array_equal(again[name], column, err_msg=name)


@pytest.mark.parametrize(
    ("options", "conditions"),
    [
        # As in the paper; nothing that a population could be taken off.
        ({"calibration": {"cohort": 0}, "heads": {"epochs": 0}, "model": {"ngram_dim": 0, "layout_dim": 0}}, 1),
        ({"model": {"ngram_dim": 0, "layout_dim": 0}}, 1),
        ({"model": {"encoder_dim": 0, "layout_dim": 0}}, 1 + POPULATIONS),
    ],
)
def test_members_of_other_kinds(corpus, options, conditions):
    """Without a cohort and n-grams, without n-grams, without an encoder."""
    stage = stage_two_of(corpus, **options)
    assert stage.calibration.views.n_conditions == conditions
    said = stage.validation_scores()
    assert ("ual+10" in said) == (conditions > 1)
    assert sum(name.startswith("distance") for name in said) == 1, "there is one part only"
    assert all(np.isfinite(column).all() for name, column in said.items() if not name.startswith("fold"))
