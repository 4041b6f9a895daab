"""What stage two learns from: views, cohorts, halves, and pairs whose labels are true."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from support import random_network

from pan21av.network.cohort import MIN_DISTANCE, TOP_K
from pan21av.network.embedding import Embedding
from pan21av.training.calibration import Calibration, Views, cohort_documents, compute_views
from pan21av.training.member import with_cohort
from pan21av.training.prepared import CALIBRATE, VALIDATE, Span
from pan21av.training.stage1 import embed_spans
from pan21av.training.stage2 import StageTwo
from pan21av.training.streams import Stream

CPU = torch.device("cpu")


def encoder(corpus):
    return random_network(1, corpus.settings.model, vocabulary=corpus.prepared.vocabulary)


# ---- views ----


def test_the_first_view_reads_the_whole_text_the_others_crops(corpus):
    prepared, network = corpus.prepared, encoder(corpus)
    settings = corpus.settings.updated({"calibration": {"views": 3, "min_windows": 2}})
    documents = prepared.documents(CALIBRATE)
    views = compute_views(network, prepared, np.tile(documents, 2), settings, np.random.default_rng(0), CPU)
    np.testing.assert_array_equal(views.documents, documents)  # each once
    assert views.embedding.vectors.shape[1] == 3 * len(documents)
    limit = prepared.model.max_tokens
    whole = embed_spans(network, prepared, [Span(int(d), 0, limit) for d in documents], CPU)
    some = documents[[5, 0, 11]]
    assert torch.equal(views.embedding[views.rows(some)].vectors, whole.vectors[:, [5, 0, 11]])
    tokens = np.stack([views.embedding.tokens[views.rows(documents, v)].numpy() for v in range(3)])
    np.testing.assert_array_equal(tokens[0], prepared.tokens_read()[documents])
    assert (tokens[1:] <= tokens[0]).all()
    assert (tokens[1:] < tokens[0]).mean() > 0.5
    assert tokens.min() >= min(prepared.model.tokens_in(2), tokens[0].min())


def marked_views(corpus, n_views, n_conditions):
    """Views whose vectors say which document, view and condition they are of."""
    documents = corpus.prepared.documents(CALIBRATE)
    rows = [(d, v, c) for c in range(n_conditions) for v in range(n_views) for d in documents]
    vectors = torch.tensor(rows, dtype=torch.float32)[None]
    return Views(Embedding(vectors, torch.full((len(rows),), 500.0), (3,)), documents, n_views, n_conditions)


def test_rows_of_views_and_conditions(corpus):
    views = marked_views(corpus, 3, 2)
    some = views.documents[[4, 4, 0, 7]]
    wanted = np.array([[some[0], 0, 1], [some[1], 2, 0], [some[2], 1, 1], [some[3], 2, 1]])
    found = views.embedding.vectors[0, views.rows(*wanted.T)]
    np.testing.assert_array_equal(found.numpy(), wanted)


# ---- pairs ----


def calibration(corpus, n_views=3, n_conditions=2, seed=1, **changes):
    settings = corpus.settings.updated({"calibration": {"views": n_views, "draws": 4}, **changes})
    return Calibration(marked_views(corpus, n_views, n_conditions), corpus.prepared, settings, seed, CPU)


def test_pairs_are_labelled_by_their_authors(corpus):
    made = calibration(corpus)
    author = corpus.prepared.catalogue.author
    pairs = made.draw_many(made.views.documents, 20, Stream.HEAD_PAIRS)
    first, second = pairs.pair.first[0].long().numpy(), pairs.pair.second[0].long().numpy()
    same = pairs.same[0].numpy()
    np.testing.assert_array_equal(same, author[first[:, 0]] == author[second[:, 0]])
    assert 0.4 < same.mean() < 0.6
    assert set(first[:, 0]) | set(second[:, 0]) == set(made.views.documents)
    # Either text at a view of its own, the whole half of the time; a pair as a whole is familiar or not.
    assert len(pairs.pair) > 150
    for side in (first, second):
        assert 0.35 < np.mean(side[:, 1] == 0) < 0.65
        assert set(side[:, 1]) == {0, 1, 2}
    assert not np.array_equal(first[:, 1], second[:, 1])
    np.testing.assert_array_equal(first[:, 2], second[:, 2])
    assert 0.35 < first[:, 2].mean() < 0.65


@pytest.mark.parametrize("unfamiliar", [0.0, 1.0])
def test_the_share_of_unfamiliar_pairs(corpus, unfamiliar):
    made = calibration(corpus, calibration={"unfamiliar": unfamiliar, "views": 3})
    pairs = made.draw_many(made.views.documents, 5, Stream.HEAD_PAIRS)
    assert set(pairs.pair.first[0, :, 2].tolist()) == {unfamiliar}


def test_one_view_is_the_whole_text(corpus):
    made = calibration(corpus, n_views=1, n_conditions=1)
    pairs = made.draw_many(made.views.documents, 5, Stream.HEAD_PAIRS)
    assert not pairs.pair.first[0, :, 1:].any()


def test_an_epoch_is_several_draws_in_batches(corpus):
    made = calibration(corpus)
    batches = list(made.epoch(made.views.documents, np.random.default_rng(0), 10))
    sizes = [len(pair) for pair, _ in batches]
    assert all(same.shape == (1, len(pair)) for pair, same in batches)
    assert max(sizes) == 10
    assert sum(size < 10 for size in sizes) <= 4  # the last of each of four draws
    assert sum(sizes) > 3 * 10


# ---- halves ----


def test_scores_and_o2d2_learn_from_different_authors(corpus):
    author = corpus.prepared.catalogue.author
    made = [calibration(corpus, seed=seed) for seed in (1, 2)]
    halves = [[set(author[documents]) for documents in (one.for_scores, one.for_o2d2)] for one in made]
    for mine, others in halves:
        assert not mine & others
        assert abs(len(mine) - len(others)) <= 1
        assert mine | others == set(author[corpus.prepared.documents(CALIBRATE)])
    assert halves[0] != halves[1], "every member halves them in its own way"


def test_without_new_scores_all_authors_serve_o2d2(corpus):
    made = calibration(corpus, heads={"epochs": 0})
    assert len(made.for_scores) == 0
    np.testing.assert_array_equal(made.for_o2d2, made.views.documents)


# ---- the cohort ----


def test_the_cohort_is_shared_by_authors_and_sources(corpus):
    prepared = corpus.prepared
    author, source = prepared.catalogue.author, prepared.catalogue.source
    for limit in (0, 1, 8, 1000):
        chosen = cohort_documents(prepared, limit)
        assert len(chosen) == min(limit, len(np.unique(author[prepared.documents(CALIBRATE)])))
        assert len(np.unique(author[chosen])) == len(chosen), "one document each"
        assert set(chosen) <= set(prepared.documents(CALIBRATE))
        counts = np.bincount(source[chosen], minlength=2)
        assert abs(counts[0] - counts[1]) <= 1
    np.testing.assert_array_equal(cohort_documents(prepared, 8), cohort_documents(prepared, 8))
    assert set(cohort_documents(prepared, 4)) < set(cohort_documents(prepared, 8))


@pytest.fixture(scope="module")
def stage_two(corpus):
    settings = corpus.settings.updated({"calibration": {"cohort": 8}})
    network = random_network(1, with_cohort(settings, corpus.prepared), vocabulary=corpus.prepared.vocabulary)
    assert network.config == replace(settings.model, cohort=8)
    before = encoder(corpus)
    shared = {n: t for n, t in before.state_dict().items() if n.startswith(("encoder.", "metric.", "lda."))}
    network.load_state_dict(network.state_dict() | shared)
    return StageTwo(before, network, corpus.prepared, settings, 3, CPU)


def plain_distances(y, levs, counted, parts):
    """To the nearest of those of the cohort that count, for each part."""
    out, at = [], 0
    for width in parts:
        squares = [
            float(np.square(y[at : at + width] - lev[at : at + width]).mean())
            for lev, counts in zip(levs, counted, strict=True)
            if counts
        ]
        out.append(max(np.mean(sorted(squares)[:TOP_K]), MIN_DISTANCE))
        at += width
    return out


def test_nobody_is_in_his_own_cohort(corpus, stage_two):
    """Nor, in the second condition, is anybody of the same source: a verifier will meet other kinds of text."""
    prepared, views = corpus.prepared, stage_two.calibration.views
    author, source = prepared.catalogue.author, prepared.catalogue.source
    chosen = cohort_documents(prepared, 8)
    levs = stage_two.network.cohort.levs[0]
    assert torch.equal(levs, levs.half().float()), "as they will be shipped"
    torch.testing.assert_close(levs, views.embedding.vectors[0, views.rows(chosen)], atol=1e-3, rtol=0)
    assert (views.n_views, views.n_conditions) == (2, 2)
    for document in views.documents:
        counted = [author[chosen] != author[document], source[chosen] != source[document]]
        for view in (0, 1):
            for condition in (0, 1):
                row = views.rows(document[None], view, condition)
                y = views.embedding.vectors[0, row][0].double().numpy()
                expected = plain_distances(y, levs.double().numpy(), counted[condition], prepared.model.lev_parts)
                found = views.embedding.cohort_distance[0, row][0].tolist()
                assert found == pytest.approx(expected, rel=1e-3)


def test_validation_texts_are_measured_as_a_verifier_would(corpus, stage_two):
    """Whole cohort, every view; the first pairs are those of whole texts."""
    prepared = corpus.prepared
    pairs = prepared.validation
    assert set(pairs.flatten()) <= set(prepared.documents(VALIDATE))
    assert len(stage_two.validation.pair) == 2 * len(pairs)
    assert len(stage_two.whole_pairs) == len(pairs)
    truth = prepared.catalogue.same_author(pairs)
    np.testing.assert_array_equal(stage_two.validation.same[0], np.tile(truth, 2))
    documents = [[Span(int(d), 0, prepared.model.max_tokens) for d in pairs[:, side]] for side in (0, 1)]
    count = len(pairs)
    embedding = embed_spans(stage_two.network, prepared, documents[0] + documents[1], CPU)
    expected = embedding.pair(slice(0, count), slice(count, None))
    torch.testing.assert_close(stage_two.whole_pairs.distance, expected.distance, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(stage_two.whole_pairs.lengths, expected.lengths)
