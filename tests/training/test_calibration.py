"""What stage two learns from: views, populations, cohorts, folds, and pairs whose labels are true."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import random_network

from pan21av.network.cohort import MIN_DEVIATION, TOP_K
from pan21av.network.embedding import Embedding
from pan21av.network.network import DOUBTED_TEXTS, Population
from pan21av.training.calibration import (
    FEWEST,
    FOLDS,
    Calibration,
    Populations,
    Projected,
    Views,
    cohort_documents,
    fewest_in_cohort,
    measured,
    project_views,
)
from pan21av.training.member import full_model
from pan21av.training.prepared import CALIBRATE, TRAIN, Span
from pan21av.training.sampling import Catalogue
from pan21av.training.sources import deal_sources
from pan21av.training.stage1 import project_spans
from pan21av.training.streams import Stream

CPU = torch.device("cpu")
COHORT = 8


@pytest.fixture(scope="module")
def network(corpus):
    """As stage two begins with: both parts of the LEV, and a cohort."""
    settings = corpus.settings.updated({"calibration": {"cohort": COHORT}})
    return random_network(1, full_model(settings, corpus.prepared), vocabulary=corpus.prepared.vocabulary)


def whole(prepared, documents):
    return [Span(int(d), 0, prepared.model.max_tokens) for d in documents]


# ---- views ----


def test_the_first_view_reads_the_whole_text_the_others_crops(corpus, network):
    prepared = corpus.prepared
    settings = corpus.settings.updated({"calibration": {"views": 3, "min_tokens": 30}})
    documents = prepared.documents(CALIBRATE)
    found = project_views(network, prepared, np.tile(documents[::-1], 2), settings, np.random.default_rng(0))
    np.testing.assert_array_equal(found.documents, documents)  # each once, in order
    assert found.n_views == 3
    assert found.parts.shape == (1, 3 * len(documents), network.config.projected_dim)
    expected, _ = project_spans(network, prepared, whole(prepared, documents))
    torch.testing.assert_close(found.parts[:, : len(documents)], expected)
    tokens = found.tokens.numpy().reshape(3, -1)
    np.testing.assert_array_equal(tokens[0], prepared.tokens_read()[documents])
    assert (tokens[1:] <= tokens[0]).all()
    assert (tokens[1:] < tokens[0]).mean() > 0.5
    assert 30 <= tokens.min() < 45, "crops of any length"
    assert not np.array_equal(tokens[1], tokens[2])


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


def calibration(corpus, n_views=3, n_conditions=3, seed=1, sources=(0, 1), **changes):
    settings = corpus.settings.updated({"calibration": {"views": n_views, "draws": 4}}).updated(changes)
    prepared = corpus.prepared.for_sources(sources)
    return Calibration(marked_views(corpus, n_views, n_conditions), prepared, settings, seed, CPU)


def test_pairs_are_labelled_by_their_authors(corpus):
    made = calibration(corpus)
    author = corpus.prepared.catalogue.author
    pairs = made.draw_many(made.views.documents, 40, Stream.HEAD_PAIRS)
    first, second = pairs.pair.first[0].long().numpy(), pairs.pair.second[0].long().numpy()
    same = pairs.same[0].numpy()
    np.testing.assert_array_equal(same, author[first[:, 0]] == author[second[:, 0]])
    assert 0.4 < same.mean() < 0.6
    assert set(first[:, 0]) | set(second[:, 0]) == set(made.views.documents)
    assert len(pairs.pair) > 300
    # A third of the pairs whole, of the others each text at one of three views of its own.
    for side in (first, second):
        assert np.mean(side[:, 1] == 0) == pytest.approx(1 / 3 + 2 / 9, abs=0.08)
        assert set(side[:, 1]) == {0, 1, 2}
    both = (first[:, 1] == 0) & (second[:, 1] == 0)
    assert both.mean() == pytest.approx(1 / 3 + 2 / 27, abs=0.08)
    # Half of the pairs have a population, and then it is the same for both texts.
    np.testing.assert_array_equal(first[:, 2], second[:, 2])
    assert np.mean(first[:, 2] == 0) == pytest.approx(0.5, abs=0.08)
    assert np.mean(first[:, 2] == 1) == pytest.approx(0.25, abs=0.08)


def test_one_view_is_the_whole_text(corpus):
    made = calibration(corpus, n_views=1, n_conditions=1)
    pairs = made.draw_many(made.views.documents, 5, Stream.HEAD_PAIRS)
    assert not pairs.pair.first[0, :, 1:].any()


def test_an_epoch_is_several_draws_in_batches(corpus):
    made = calibration(corpus)
    batches = list(made.epoch(made.views.documents, np.random.default_rng(0), 10))
    sizes = [len(pair) for pair, _, _ in batches]
    assert all(same.shape == (1, len(pair)) and known.shape == (len(pair),) for pair, same, known in batches)
    assert max(sizes) == 10
    assert sum(size < 10 for size in sizes) <= 4  # the last of each of four draws
    assert sum(sizes) > 3 * 10


def sources_of(corpus, pairs):
    return corpus.prepared.catalogue.source[pairs.pair.first[0, :, 0].long().numpy()]


@pytest.mark.parametrize("sources", [(0,), (1,), (0, 1)])
def test_pairs_of_sources_that_the_member_knows(corpus, sources):
    made = calibration(corpus, sources=sources)
    pairs = made.draw(made.views.documents, np.random.default_rng(0))
    np.testing.assert_array_equal(pairs.known.numpy(), np.isin(sources_of(corpus, pairs), sources))


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 0.8])
def test_as_many_of_unfamiliar_sources_as_the_settings_say(corpus, share):
    """Some come again, or are left out; those of familiar sources are as they were drawn."""
    made = calibration(corpus, sources=[1], calibration={"unfamiliar": share})
    documents = made.views.documents
    pairs = made.draw(documents, np.random.default_rng(0))
    familiar = int(pairs.known.sum())
    assert familiar > 5
    assert abs(len(pairs.known) - familiar - share / (1 - share) * familiar) <= 0.5
    plain = calibration(corpus).draw(documents, np.random.default_rng(0))

    def numbers(drawn, which):
        both = torch.stack([drawn.pair.first[0, :, 0], drawn.pair.second[0, :, 0]], -1)[which]
        return sorted(tuple(pair) for pair in both.long().tolist())

    assert numbers(pairs, pairs.known) == numbers(plain, torch.from_numpy(sources_of(corpus, plain) == 1))
    assert set(numbers(pairs, ~pairs.known)) <= set(
        numbers(plain, torch.from_numpy(sources_of(corpus, plain) == 0))
    )  # fmt: skip


def test_a_large_source_does_not_decide_alone(corpus):
    made = calibration(corpus, calibration={"per_source": 3})
    pairs = made.draw(made.views.documents, np.random.default_rng(0))
    assert np.bincount(sources_of(corpus, pairs)).tolist() == [3, 3]


# ---- folds ----


def test_every_author_is_in_one_fold_and_every_source_in_all(corpus):
    catalogue = corpus.prepared.catalogue
    one, other = (calibration(corpus, seed=seed).folds for seed in (1, 2))
    assert len(one) == FOLDS
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_array_equal(mine, theirs, "all members have the same")
    authors = [set(catalogue.author[documents]) for documents in one]
    assert not set.intersection(*authors)
    assert set(np.concatenate(one)) == set(corpus.prepared.documents(CALIBRATE))
    for source in (0, 1):
        counts = [len(set(catalogue.author[d[catalogue.source[d] == source]])) for d in one]
        assert max(counts) - min(counts) <= 1
        assert min(counts) > 0


def test_without_new_scores_one_fold_is_enough(corpus):
    made = calibration(corpus, heads={"epochs": 0}, model={"ngram_dim": 0, "layout_dim": 0}, calibration={"cohort": 0})
    (fold,) = made.folds
    np.testing.assert_array_equal(fold, made.views.documents)


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


@pytest.mark.parametrize("source", [0, 1])
def test_the_cohort_is_of_sources_that_the_member_knows(corpus, source):
    prepared = corpus.prepared.for_sources([source])
    mine = [d for d in prepared.documents(CALIBRATE) if prepared.catalogue.source[d] == source]
    for limit in (4, 1000):
        chosen = cohort_documents(prepared, limit)
        assert set(chosen) <= set(mine)
        assert len(chosen) == min(limit, len(np.unique(prepared.catalogue.author[mine])))


class Labels:
    """A prepared corpus of labels alone, all of it for calibration."""

    def __init__(self, author, source, known=None):
        self.catalogue = Catalogue(author, np.zeros_like(author), np.full_like(author, -1), source)
        self.sources = [str(n) for n in range(int(source.max()) + 1)]
        self.known = np.ones(len(self.sources), dtype=bool) if known is None else known

    def documents(self, split):
        return np.arange(len(self.catalogue.author))


def test_the_fewest_authors_that_a_cohort_can_have_by_hand():
    """Five, two and nine authors: of two sources, 5 + 2 at least."""
    source = np.repeat([0, 1, 2], [5, 2, 9])
    labels = Labels(np.repeat(np.arange(16), 3), np.repeat(source, 3))
    assert fewest_in_cohort(labels, 0.5) == 7
    assert fewest_in_cohort(labels, 0.3) == 2
    assert fewest_in_cohort(labels, 1.0) == 16
    assert fewest_in_cohort(Labels(np.arange(6), np.array([0, 0, 0, 0, 0, 1])), 0.1) == 6, "two sources: all know both"


def enough_for_every_member(labels, share, seed):
    fewest = fewest_in_cohort(labels, share)
    for _, mine in zip(range(9), deal_sources(len(labels.sources), share, seed)):
        known = np.isin(np.arange(len(labels.sources)), mine)
        cohort = cohort_documents(Labels(labels.catalogue.author, labels.catalogue.source, known), fewest)
        assert len(cohort) == fewest


@given(st.integers(1, 8), st.floats(0.1, 1), st.integers(0, 1000))
def test_every_member_has_a_cohort_of_one_size(n_sources, share, seed):
    author = np.random.default_rng(seed).integers(40, size=100)
    enough_for_every_member(Labels(author, author % n_sources), share, seed)


def test_an_author_who_writes_for_two_sources_is_in_the_cohort_once():
    """So the cohort has fewer texts than its sources have authors."""
    author, source = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 0])
    enough_for_every_member(Labels(author, source), 1.0, 1)


# ---- populations ----


def test_populations_are_of_training_authors_of_the_source(corpus, network):
    """Of sources that the member never read, too: what a user has of a new kind of text."""
    prepared, rng = corpus.prepared.for_sources([1]), np.random.default_rng(0)
    populations = Populations(network, prepared, rng)
    catalogue, encoder = prepared.catalogue, network.config.encoder_dim
    assert set(populations.projected) == {0, 1}
    for source in (0, 1):
        documents = [d for d in corpus.prepared.documents(TRAIN) if catalogue.source[d] == source]
        parts, _ = project_spans(network, prepared, whole(prepared, documents))
        mine = parts[:, :, encoder : network.config.lev_dim]
        every = populations.draw(source, 10_000, rng)
        assert len(every) == len(documents)
        torch.testing.assert_close(every.texts.mean(1), mine.mean(1), atol=1e-5, rtol=1e-4)
        single = populations.draw(source, 1, rng)
        assert len(single) == 1
        assert (mine[0] - single.texts[0]).abs().amax(-1).min() < 1e-5, "a text of somebody else"
        some = [populations.draw(source, 10, rng) for _ in range(2)]
        assert len(some[0]) == len(some[1]) == 10
        assert not torch.equal(some[0].texts, some[1].texts)


def test_a_source_of_next_to_no_texts_has_no_population(corpus, network):
    prepared = corpus.prepared
    kept = prepared.documents(TRAIN)[prepared.catalogue.source[prepared.documents(TRAIN)] == 0]
    for count in (FEWEST - 1, FEWEST):
        split = np.full_like(prepared.split, -1)
        split[kept[:count]] = TRAIN
        few = SimpleNamespace(
            **{
                name: getattr(prepared, name) for name in ("catalogue", "sources", "tokens_of", "count_ngrams", "model")
            },
            full_split=split,
        )
        populations = Populations(network, few, np.random.default_rng(0))
        assert set(populations.projected) == ({0} if count == FEWEST else set())
        assert populations.draw(1, 20, np.random.default_rng(0)) is None


# ---- measured against the cohort ----


def plain_comparable(network, parts, population):
    """One text (L) -> its LEV: layout and n-grams, without what is usual in a population, at length one; parts scaled.
    And the log of the length that n-grams had."""
    config = network.config
    widths = np.cumsum([config.encoder_dim, config.layout_dim])
    encoder, *counted = np.split(parts[: config.lev_dim].double().numpy(), widths)
    if population is not None:
        share = len(population) / (len(population) + DOUBTED_TEXTS)
        usual = share * population.texts[0].double().numpy().mean(0)
        counted = [part - of_part for part, of_part in zip(counted, np.split(usual, [config.layout_dim]), strict=True)]
    found = [encoder, *(part / np.linalg.norm(part) for part in counted)]
    scaled = [part * scale for part, scale in zip(found, network.part_scale[0].double().numpy(), strict=True)]
    return scaled, np.log(np.linalg.norm(counted[-1]))


def plain_measures(y, cohort):
    """Mean of the nearest, mean and deviation of all squared distances, for each part."""
    found = []
    for part in range(len(y)):
        squares = np.array([np.square(y[part] - other[part]).sum() for other in cohort])
        found.append([np.sort(squares)[:TOP_K].mean(), squares.mean(), max(squares.std(), MIN_DEVIATION)])
    return np.array(found)


@pytest.fixture(scope="module")
def populations(network):
    """Of both sources, none at all, and of one only."""
    torch.manual_seed(3)

    def made(texts):
        return Population(torch.randn(1, texts, network.config.counted_dim))

    return [None, {0: made(20), 1: made(200)}, {1: made(10)}]


@pytest.fixture(scope="module")
def cohort(corpus, network):
    prepared = corpus.prepared
    chosen = cohort_documents(prepared, COHORT)
    parts, _ = project_spans(network, prepared, whole(prepared, chosen))
    network.cohort.texts.copy_(parts[..., : network.config.lev_dim])
    return chosen


def test_rows_are_those_of_each_document_by_itself(corpus, network, cohort, populations):
    """And nobody is in their own cohort, whose texts are measured under the same population."""
    prepared, author, source = corpus.prepared, corpus.prepared.catalogue.author, corpus.prepared.catalogue.source
    settings = corpus.settings.updated({"calibration": {"views": 2, "cohort": COHORT}})
    projected = project_views(network, prepared, prepared.documents(CALIBRATE), settings, np.random.default_rng(0))
    views = measured(network, projected, prepared, populations, cohort)
    assert (views.n_views, views.n_conditions) == (2, 3)
    assert len(views.embedding) == 6 * len(projected.documents)
    left_out = 0
    for condition, of_source in enumerate(populations):
        for view in (0, 1):
            for at, document in enumerate(projected.documents):
                row = int(views.rows(np.array([document]), view, condition)[0])
                given = view * len(projected.documents) + at
                population = None if of_source is None else of_source.get(int(source[document]))
                y, norm = plain_comparable(network, projected.parts[0, given], population)
                others = [
                    plain_comparable(network, text, population)[0]
                    for number, text in zip(cohort, network.cohort.texts[0], strict=True)
                    if author[number] != author[document]
                ]
                left_out += len(others) < len(cohort)
                one = views.embedding[[row]]
                np.testing.assert_allclose(one.vectors[0, 0], np.concatenate(y), atol=1e-5)
                np.testing.assert_allclose(one.norm[0, 0], norm, atol=1e-5)
                np.testing.assert_allclose(one.cohort[0, 0], plain_measures(y, others), rtol=1e-4, atol=1e-5)
                assert one.tokens[0] == projected.tokens[given]
                if network.config.kinds:
                    assert one.strangeness[0, 0] == projected.parts[0, given, -1]
                share = 0 if population is None else len(population) / (len(population) + DOUBTED_TEXTS)
                assert one.population[0].item() == pytest.approx(share)
    assert left_out == 6 * sum(np.isin(author[projected.documents], author[cohort]))


def test_validation_texts_have_the_whole_cohort(corpus, network, cohort, populations):
    """As a verifier measures them."""
    parts = torch.cat([network.cohort.texts[:, :3], torch.ones(1, 3, 1)], -1)  # of a strange kind
    projected = Projected(parts, torch.full((3,), 100.0), cohort[:3], 1)
    views = measured(network, projected, corpus.prepared, [None], None)
    expected = network.embedding(projected.parts, projected.tokens)
    torch.testing.assert_close(views.embedding.cohort, expected.cohort)
    own = measured(network, projected, corpus.prepared, [None], cohort)
    assert (own.embedding.cohort[..., 0] > views.embedding.cohort[..., 0]).all(), "they are in it themselves"
