"""Drawing pairs and splits: properties over many random corpora."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan21av.data.pan import PAIR_KINDS
from pan21av.training.drawings import draw_fixed
from pan21av.training.sampling import (
    FOR_CALIBRATION,
    FOR_SCORES,
    FOR_TRAINING,
    Catalogue,
    Drawing,
    draw_pairs,
    fixed_pairs,
    per_source,
    split_documents,
)


@st.composite
def catalogues(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    documents = draw(st.integers(1, 300))
    author = rng.integers(draw(st.integers(1, 60)), size=documents)
    topic = rng.integers(draw(st.integers(1, 12)), size=documents)
    work = np.where(rng.random(documents) < 0.3, author * 2 + rng.integers(2, size=documents), -1)
    source = author % draw(st.integers(1, 3))  # an author writes for one source
    return Catalogue(author, topic, work, source)


drawings = st.sampled_from([FOR_TRAINING, FOR_CALIBRATION, FOR_SCORES, Drawing(0.5, 0.5, 0.5)])


@given(catalogues(), drawings, st.integers(0, 1000))
def test_every_epoch(catalogue, drawing, seed):
    documents = np.arange(0, len(catalogue.author), 2)  # a split, not the whole corpus
    pairs = draw_pairs(catalogue, documents, drawing, np.random.default_rng(seed))
    flat = pairs.flatten()
    assert len(np.unique(flat)) == len(flat), "a document is used twice"
    assert set(flat) <= set(documents), "a document of another split"
    same = catalogue.same_author(pairs)
    works = catalogue.work[pairs]
    assert not (same & (works[:, 0] >= 0) & (works[:, 0] == works[:, 1])).any(), "two documents of one work"
    sources = catalogue.source[pairs]
    assert (sources[:, 0] == sources[:, 1]).all()
    if len(np.unique(sources)) > 1 or drawing.balanced:
        for source in np.unique(sources):
            here = sources[:, 0] == source
            assert 2 * same[here].sum() == here.sum(), "a source that gives the answer away"
    if drawing.cap is not None and len(np.unique(catalogue.source)) == 1:  # several sources are balanced afterwards
        kinds = catalogue.count_kinds(pairs)
        assert max(kinds["DA_SF"], kinds["DA_DF"]) < drawing.cap * same.sum() + 1


def test_kinds_by_hand():
    catalogue = Catalogue(*(np.array(column) for column in ([0, 0, 1, 1], [5, 6, 5, 5], [-1] * 4, [0] * 4)))
    pairs = np.array([[0, 1], [0, 2], [1, 2], [2, 3], [2, 3]])
    assert catalogue.kinds(pairs).tolist() == ["SA_DF", "DA_SF", "DA_DF", "SA_SF", "SA_SF"]
    assert catalogue.count_kinds(pairs) == {"SA_SF": 2, "SA_DF": 1, "DA_SF": 1, "DA_DF": 1}


@pytest.mark.parametrize(("works", "allowed"), [((-1, -1), True), ((3, -1), True), ((3, 4), True), ((3, 3), False)])
def test_two_documents_of_one_work_are_no_pair(works, allowed):
    catalogue = Catalogue(np.zeros(2, int), np.zeros(2, int), np.array(works), np.zeros(2, int))
    assert catalogue.may_pair(0, 1) is catalogue.may_pair(1, 0) is allowed


def rich_catalogue(sources=1):
    rng = np.random.default_rng(0)
    author = np.repeat(np.arange(300), 6)
    return Catalogue(author, rng.integers(6, size=1800), np.full(1800, -1), author % sources)


@pytest.mark.parametrize("sources", [1, 3])
def test_all_kinds_appear_in_their_shares(sources):
    catalogue = rich_catalogue(sources)
    pairs = draw_pairs(catalogue, np.arange(1800), FOR_TRAINING, np.random.default_rng(1))
    kinds = catalogue.count_kinds(pairs)
    assert all(kinds[kind] > 20 for kind in PAIR_KINDS), kinds
    assert kinds["SA_DF"] > kinds["SA_SF"]


@given(catalogues(), st.integers(0, 30), st.integers(0, 1000))
def test_at_most_so_many_pairs_of_a_source(catalogue, limit, seed):
    """The first of them, in the order in which they were drawn; 0 is no limit."""
    pairs = draw_pairs(catalogue, np.arange(len(catalogue.author)), FOR_TRAINING, np.random.default_rng(seed))
    kept, expected = per_source(catalogue, pairs, limit), []
    counts = dict.fromkeys(range(3), 0)
    for pair in pairs.tolist():
        source = int(catalogue.source[pair[0]])
        counts[source] += 1
        if not limit or counts[source] <= limit:
            expected.append(pair)
    assert kept.tolist() == expected
    assert kept.shape == (len(expected), 2)


def test_epochs_differ():
    catalogue = rich_catalogue()
    one, other = (draw_pairs(catalogue, np.arange(1800), FOR_TRAINING, np.random.default_rng(s)) for s in (1, 2))
    assert {tuple(p) for p in one} != {tuple(p) for p in other}


def test_fixed_pairs_are_balanced_across_topics_and_within():
    catalogue = rich_catalogue()
    pairs = fixed_pairs(catalogue, np.arange(1800), np.random.default_rng(1), 400)
    kinds = catalogue.count_kinds(pairs)
    assert kinds["SA_DF"] + kinds["SA_SF"] == kinds["DA_SF"] + kinds["DA_DF"] == 200
    assert kinds["SA_DF"] > 0.95 * len(pairs) / 2
    assert kinds["DA_SF"] > 0.95 * len(pairs) / 2


@given(catalogues(), st.booleans(), st.integers(0, 1000))
def test_splits_are_disjoint(catalogue, by_topic, seed):
    split = split_documents(catalogue, by_topic, 0.75, np.random.default_rng(seed))
    assert set(np.unique(split)) <= {-1, 0, 1, 2}
    kept = split >= 0
    for labels in (catalogue.author, catalogue.topic) if by_topic else (catalogue.author,):
        for value in np.unique(labels[kept]):
            assert len(np.unique(split[kept & (labels == value)])) == 1
    if not by_topic:
        assert kept.all()


def test_split_shares():
    split = split_documents(rich_catalogue(), False, 0.75, np.random.default_rng(0))
    shares = np.bincount(split) / len(split)
    np.testing.assert_allclose(shares, [0.75, 0.125, 0.125], atol=0.01)


@given(catalogues(), st.integers(2, 5), st.integers(0, 1000))
def test_validation_pairs_of_several_draws(catalogue, draws, seed):
    """Each pair once, both answers alike often in every source, the first draw first; development stays as it is."""
    documents = np.arange(len(catalogue.author))
    calibration, validation = documents[::3], documents[1::3]

    def fixed(count):
        return draw_fixed("balanced", catalogue, calibration, validation, np.random.default_rng(seed), 0, count)

    one, several = fixed(1), fixed(draws)
    np.testing.assert_array_equal(one["development"], several["development"])
    pairs = several["validation"]
    np.testing.assert_array_equal(pairs[: len(one["validation"])], one["validation"])
    assert len({frozenset(pair) for pair in pairs.tolist()}) == len(pairs)
    assert set(pairs.flatten()) <= set(validation)
    same, source = catalogue.same_author(pairs), catalogue.source[pairs[:, 0]]
    for number in np.unique(source):
        assert same[source == number].mean() == 0.5
