"""The n-gram part: moments that are streamed against matrices held whole, and directions planted in made-up authors."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from support import TINY_LIGHT

from pan21av.data.layout import layout
from pan21av.data.ngrams import TOKEN_VIEWS, Pool
from pan21av.metrics import auc
from pan21av.network.ngram_part import MAX_DEVIATIONS, PRIOR_TOKENS, NgramPart
from pan21av.training import fit_ngrams as module
from pan21av.training.fit_ngrams import (
    LAYOUT,
    MIN_TOPIC_AUTHORS,
    RANK_OFFSET,
    RIDGE,
    SHRINK,
    TOPIC_WEIGHT,
    draw_features,
    fit_ngrams,
    n_features,
)
from pan21av.training.prepared import TRAIN, Prepared
from pan21av.training.sampling import Catalogue
from pan21av.training.settings import NgramSettings
from pan21av.training.streams import Stream, numpy_stream

# ---- which n-grams a member reads ----

POOL = Pool(
    tuple(f"word{n}" for n in range(2_000)),
    ("the", "of"),
    ("the of", "of the"),
    ("the of the",),
    tuple(f"{a}{b}" for a in "abcdefgh" for b in "abcdefgh"),
    ("word word", "word .", "word , word", "I word", "Name word"),
    ("word", "Name", ".·", "word ,·", "¶¶ Name", "··"),
)


def test_some_of_each_view_and_all_of_those_that_are_not_drawn():
    settings = NgramSettings(words=70, pairs=5, triples=4, letters=20, shapes=3)
    index = draw_features(POOL, settings, np.random.default_rng(0))
    assert index.tolist() == sorted(set(index.tolist()))
    counts = {view: np.sum((index >= where.start) & (index < where.stop)) for view, where in POOL.views.items()}
    sizes = {view: where.stop - where.start for view, where in POOL.views.items()}
    assert counts == {**sizes, "words": 70, "letters": 20, "shapes": 3, "layout": 0}
    assert (counts["pairs"], counts["triples"]) == (2, 1), "all that there are"
    assert n_features(POOL, settings) == len(index)


@pytest.mark.parametrize(("asked", "count"), [(4, 4), (6, 6), (700, 6)])
def test_the_layout_part_reads_layout_alone(asked, count):
    settings, where = NgramSettings(layout=asked), POOL.views["layout"]
    index = draw_features(POOL, settings, np.random.default_rng(0), LAYOUT)
    assert index.tolist() == sorted(set(index.tolist()))
    assert set(index) <= set(range(where.start, where.stop))
    assert n_features(POOL, settings, LAYOUT) == len(index) == count


@pytest.mark.parametrize("view", ["words", "pairs", "triples", "letters", "shapes"])
def test_a_pool_that_has_nothing_of_a_view(view):
    """As `--set ngrams.pool_triples=0` makes it."""
    pool, settings = replace(POOL, **{view: ()}), NgramSettings(words=3, pairs=1, triples=1, letters=2, shapes=2)
    index = draw_features(pool, settings, np.random.default_rng(0))
    assert pool.views[view].start == pool.views[view].stop
    assert len(index) == n_features(pool, settings) == n_features(POOL, settings) - getattr(settings, view)


def test_common_words_are_drawn_more_often():
    """With weight 1 / (offset + rank): the first 200 of 2,000 with ln(400 / 200) / ln(2200 / 200)."""
    assert RANK_OFFSET == 200
    settings, rng = NgramSettings(words=1, pairs=0, triples=0, letters=0, shapes=0), np.random.default_rng(0)
    drawn = [int(draw_features(POOL, settings, rng)[0]) for _ in range(3_000)]
    for rank in (200, 800):
        share = np.log((200 + rank) / 200) / np.log(2200 / 200)
        assert np.mean(np.array(drawn) < rank) == pytest.approx(share, abs=0.03)


# ---- on a corpus ----


def part_for(prepared, settings, dim=4, views=TOKEN_VIEWS):
    features = n_features(prepared.vocabulary.ngrams, settings, views)
    return NgramPart(1, replace(TINY_LIGHT, ngram_features=features, ngram_dim=dim, kinds=0))


@pytest.fixture(scope="module")
def fitted(corpus):
    part = part_for(corpus.prepared, corpus.settings.ngrams)
    fit_ngrams(part, corpus.prepared, corpus.settings.ngrams, 3)
    return part


@pytest.fixture(scope="module")
def of_layout(corpus):
    """The layout part of the same member."""
    part = part_for(corpus.prepared, corpus.settings.ngrams, 3, LAYOUT)
    fit_ngrams(part, corpus.prepared, corpus.settings.ngrams, 3, LAYOUT)
    return part


def plain_counts(corpus, part, documents):
    """Frequencies (D, F) by the plain rules, and tokens (D)."""
    prepared = corpus.prepared
    index, limit = part.index[0].long().numpy(), prepared.model.max_tokens
    rows, tokens = [], []
    for document in documents:
        types = prepared.tokens[prepared.offsets[document] : prepared.offsets[document + 1]][:limit]
        symbols = layout(corpus.documents[document]["text"])
        symbols = symbols[: len(types) * len(symbols) // prepared.length(document)]
        rows.append(prepared.vocabulary.ngrams.count([prepared.types[t] for t in types], symbols)[index])
        tokens.append(len(types))
    return np.array(rows, dtype=np.float64), np.array(tokens, dtype=np.float64)


def smoothed_roots(frequencies, tokens, background):
    weight = (tokens / (tokens + PRIOR_TOKENS))[:, None]
    return np.sqrt(weight * frequencies + (1 - weight) * background)


@pytest.mark.parametrize("which", ["fitted", "of_layout"])
def test_where_usual_frequencies_lie(corpus, which, request):
    """Mean and deviation of the roots of frequencies, smoothed by PRIOR_TOKENS of the average: of all training texts,
    as far as they are read."""
    fitted, documents = request.getfixturevalue(which), corpus.prepared.documents(TRAIN)
    frequencies, tokens = plain_counts(corpus, fitted, documents)
    background = frequencies.mean(0)
    roots = smoothed_roots(frequencies, tokens, background)
    np.testing.assert_allclose(fitted.background[0], background, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(fitted.mean[0], roots.mean(0), rtol=1e-5, atol=1e-7)
    deviation = roots.std(0, ddof=1)
    varied = deviation > 1e-4
    assert varied.sum() > 20
    assert (varied.sum() < len(varied)) == (which == "fitted"), "of tokens both kinds are there"
    np.testing.assert_allclose(fitted.scale[0][varied], 1 / deviation[varied], rtol=1e-4)
    assert not fitted.scale[0][deviation == 0].any(), "what does not vary says nothing"
    lengths = np.diff(corpus.prepared.offsets)[documents].astype(float)
    assert (lengths > tokens).any(), "some documents are not read to the end"


def z_scores(corpus, part, documents):
    """(D, F), rounded as the part rounds them."""
    counted, tokens = plain_counts(corpus, part, documents)
    frequencies = torch.zeros(len(documents), len(corpus.prepared.vocabulary.ngrams))
    frequencies[:, part.index[0].long()] = torch.from_numpy(counted).float()
    z = part.z_scores(frequencies, torch.from_numpy(tokens).float())[0].double().numpy()
    background, mean, scale = (p[0].double().numpy() for p in (part.background, part.mean, part.scale))
    plain = (smoothed_roots(counted, tokens, background) - mean) * scale
    np.testing.assert_allclose(z, np.clip(plain, -MAX_DEVIATIONS, MAX_DEVIATIONS), atol=1e-3)
    return z


def held_whole(corpus, part, documents, min_topic_authors):
    """Noise and total covariance from all z-scores at once, in double precision."""
    z = z_scores(corpus, part, documents)
    catalogue = corpus.prepared.catalogue
    author, topic, source = (column[documents] for column in (catalogue.author, catalogue.topic, catalogue.source))
    inside, within, source_means = np.empty_like(z), np.empty_like(z), []
    for number in np.unique(source):
        source_means.append(z[source == number].mean(0))
        inside[source == number] = z[source == number] - source_means[-1]
    for number in np.unique(author):
        within[author == number] = z[author == number] - z[author == number].mean(0)
    total = inside.T @ inside / len(z)
    within = within.T @ within / (len(z) - len(np.unique(author)))
    noise = (1 - SHRINK) * within + SHRINK * np.diag(np.diag(within))
    if len(source_means) > 1:
        noise += np.cov(np.array(source_means).T, bias=True)
    shared = [t for t in np.unique(topic) if len(np.unique(author[topic == t])) >= min_topic_authors]
    means = np.array([inside[topic == t].mean(0) for t in shared]).reshape(len(shared), z.shape[1])
    if shared:
        noise += TOPIC_WEIGHT * means.T @ means / len(shared)
    noise += (RIDGE * np.diag(within).mean() + 1e-9) * np.eye(len(noise))
    return noise, total, len(shared)


def assert_same_covariances(found, expected):
    """To a millionth. No single number may be far off either, measured by the deviations of its two features."""
    for mine, plain in zip(found, expected, strict=True):
        assert np.linalg.norm(mine - plain) < 1e-6 * np.linalg.norm(plain)
        deviation = np.sqrt(np.diag(plain)).clip(0.3)  # features that are constant have no variance but rounding
        assert np.abs((mine - plain) / np.outer(deviation, deviation)).max() < 2e-5


@pytest.mark.parametrize("min_topic_authors", [1, MIN_TOPIC_AUTHORS, "some", 1_000])
@pytest.mark.parametrize("block", [1, 7, 512])
@pytest.mark.parametrize("sources", [(0, 1), (1,)])
def test_streamed_covariances_are_those_of_the_whole_matrix(
    corpus, fitted, monkeypatch, min_topic_authors, block, sources
):
    """Whether an author's documents, or a topic's, lie in one block or in several; with topics of few authors left out,
    and where there is one source only."""
    prepared = corpus.prepared.for_sources(sources)
    documents = prepared.documents(TRAIN)
    cells = np.unique(np.stack([prepared.catalogue.topic, prepared.catalogue.author], 1)[documents], axis=0)
    authors = np.bincount(cells[:, 0])
    if min_topic_authors == "some":
        min_topic_authors = int(authors.max())
        assert (authors < min_topic_authors).any()
        assert (authors >= min_topic_authors).any()
    monkeypatch.setattr(module, "DOCUMENTS_PER_BLOCK", block)
    monkeypatch.setattr(module, "MIN_TOPIC_AUTHORS", min_topic_authors)
    found = module._covariances(fitted, prepared, documents)
    noise, total, shared = held_whole(corpus, fitted, documents, min_topic_authors)
    assert shared == np.sum(authors >= min_topic_authors)
    assert_same_covariances(found, (noise, total))


def test_covariances_of_authors_with_one_document_each(corpus, fitted):
    """They add nothing to what varies within authors."""
    catalogue = corpus.prepared.catalogue
    documents = corpus.prepared.documents(TRAIN)
    _, first = np.unique(catalogue.author[documents], return_index=True)
    some = np.sort(np.concatenate([documents[first[3:]], documents[catalogue.author[documents] < 4]]))
    some = np.unique(some)
    found = module._covariances(fitted, corpus.prepared, some)
    assert_same_covariances(found, held_whole(corpus, fitted, some, MIN_TOPIC_AUTHORS)[:2])


@pytest.mark.parametrize(("which", "dim"), [("fitted", 4), ("of_layout", 3)])
def test_the_projection_is_the_best_there_is(corpus, which, dim, request):
    """Columns w with total w = ratio noise w for the largest ratios; noise in each has the variance (1 - 1 / ratio)^2:
    by so much a two-covariance model shrinks what it sees."""
    fitted = request.getfixturevalue(which)
    noise, total, _ = held_whole(corpus, fitted, corpus.prepared.documents(TRAIN), MIN_TOPIC_AUTHORS)
    ratios = np.sort(np.linalg.eigvals(np.linalg.solve(noise, total)).real)[-dim:]
    assert ratios[0] > 1
    weight = fitted.weight[0].double().numpy()
    np.testing.assert_allclose(total @ weight, noise @ weight * ratios, atol=1e-4)
    expected = np.diag(np.square(1 - 1 / ratios))
    np.testing.assert_allclose(weight.T @ noise @ weight, expected, atol=1e-4)


def as_bytes(part):
    return {name: tensor.numpy().tobytes() for name, tensor in part.state_dict().items()}


def test_the_same_seed_gives_the_same_bytes(corpus, fitted):
    def again(seed):
        part = part_for(corpus.prepared, corpus.settings.ngrams)
        fit_ngrams(part, corpus.prepared, corpus.settings.ngrams, seed)
        return as_bytes(part)

    one = as_bytes(fitted)
    assert again(3) == one
    other = again(4)
    assert all(other[name] != one[name] for name in one), "every member reads n-grams of its own"


def test_the_n_gram_part_is_the_same_with_layout_and_without(corpus, fitted):
    vocabulary = corpus.prepared.vocabulary
    bare = replace(vocabulary, ngrams=replace(vocabulary.ngrams, layout=()))
    without = replace(corpus.prepared, vocabulary=bare, layout_offsets=0 * corpus.prepared.layout_offsets)
    part = part_for(without, corpus.settings.ngrams)
    fit_ngrams(part, without, corpus.settings.ngrams, 3)
    assert as_bytes(part) == as_bytes(fitted)


def test_the_layout_part_reads_nothing_of_tokens(corpus, of_layout, monkeypatch):
    """It is the same where texts have no tokens but for their number; and it is not that of another member."""
    where, real = corpus.prepared.vocabulary.ngrams.views["layout"], Prepared.count_ngrams

    def of_layout_alone(self, spans):
        counted, tokens = real(self, spans)
        counted[:, : where.start] = 0
        return counted, tokens

    monkeypatch.setattr(Prepared, "count_ngrams", of_layout_alone)
    for seed, same in ((3, True), (4, False)):
        part = part_for(corpus.prepared, corpus.settings.ngrams, 3, LAYOUT)
        fit_ngrams(part, corpus.prepared, corpus.settings.ngrams, seed, LAYOUT)
        assert (as_bytes(part) == as_bytes(of_layout)) == same
    assert of_layout.weight.any()


def test_layout_is_drawn_from_a_stream_of_its_own(corpus, of_layout):
    def drawn(stream):
        return draw_features(corpus.prepared.vocabulary.ngrams, corpus.settings.ngrams, numpy_stream(3, stream), LAYOUT)

    assert of_layout.index[0].tolist() == drawn(Stream.LAYOUT).tolist() != drawn(Stream.NGRAMS).tolist()


def test_blocks_make_no_difference(corpus, fitted, monkeypatch):
    """To rounding; products of documents are compared, because directions of equal merit may be exchanged."""
    z = z_scores(corpus, fitted, corpus.prepared.documents(TRAIN))

    def products(part):
        y = z @ part.weight[0].double().numpy()
        return y @ y.T

    for block in (5, 33):
        monkeypatch.setattr(module, "DOCUMENTS_PER_BLOCK", block)
        part = part_for(corpus.prepared, corpus.settings.ngrams)
        fit_ngrams(part, corpus.prepared, corpus.settings.ngrams, 3)
        assert torch.equal(part.index, fitted.index)
        torch.testing.assert_close(part.scale, fitted.scale)
        np.testing.assert_allclose(products(part), products(fitted), atol=1e-4 * products(fitted).max())


@pytest.mark.parametrize("method", ["tokens_of", "layout_of"])
@pytest.mark.parametrize("views", [TOKEN_VIEWS, LAYOUT])
def test_only_training_texts_of_its_sources_are_read(corpus, monkeypatch, method, views):
    read, real = set(), getattr(Prepared, method)
    monkeypatch.setattr(Prepared, method, lambda self, span: (read.add(span.document), real(self, span))[1])
    part = part_for(corpus.prepared, corpus.settings.ngrams, views=views)
    fit_ngrams(part, corpus.prepared.for_sources([1]), corpus.settings.ngrams, 3, views)
    prepared = corpus.prepared
    assert read == {int(d) for d in prepared.documents(TRAIN) if prepared.catalogue.source[d] == 1}


# ---- made-up authors ----

BARE = Pool(("a",), ("a",), ("a a",), ("a a a",), ("_a",))  # and classes of words, gaps and lengths
OWN, TOPICS, SOURCES = slice(0, 5), slice(5, 10), slice(10, 15)
AUTHORS, EACH = 400, 3


class Made:
    """Texts that nobody wrote: `frequencies` (D, F) of them, each a million tokens long."""

    def __init__(self, frequencies, catalogue, training):
        self.frequencies, self.catalogue, self.training = frequencies, catalogue, training
        self.vocabulary, self.model = SimpleNamespace(ngrams=BARE), SimpleNamespace(max_tokens=10**6)

    def documents(self, split):
        return self.training

    def count_ngrams(self, spans):
        return self.frequencies[[span.document for span in spans]], np.full(len(spans), 10**6)


@pytest.fixture(scope="module")
def made():
    """Features 0-4 are an author's, 5-9 a topic's and 10-14 a source's, both much louder, the rest noise."""
    rng = np.random.default_rng(0)
    author = np.repeat(np.arange(AUTHORS), EACH)
    source, topic = author % 4, rng.integers(12, size=len(author))
    roots = 0.3 + 0.02 * rng.normal(size=(len(author), len(BARE)))
    roots[:, OWN] += 0.04 * rng.normal(size=(AUTHORS, 5))[author]
    roots[:, TOPICS] += 0.1 * rng.normal(size=(12, 5))[topic]
    roots[:, SOURCES] += 0.1 * rng.normal(size=(4, 5))[source]
    catalogue = Catalogue(author, topic, np.full(len(author), -1), source)
    prepared = Made(np.square(roots).astype(np.float32), catalogue, np.flatnonzero(author < 300))
    part = NgramPart(1, replace(TINY_LIGHT, ngram_features=len(BARE), ngram_dim=5))
    fit_ngrams(part, prepared, NgramSettings(), 1)
    return prepared, part


def test_the_planted_directions_are_found(made):
    """By how much the projection moves with a root of a frequency, in deviations of all texts."""
    _, part = made
    assert part.index[0].tolist() == list(range(len(BARE)))
    strength = part.weight[0].norm(dim=1)
    assert strength[OWN].min() > 4 * strength[TOPICS].max()
    assert strength[OWN].min() > 4 * strength[SOURCES].max()
    assert strength[OWN].square().sum() > 0.8 * strength.square().sum()


def test_what_sources_differ_in_is_gone(made):
    """Their means lie together, measured by what varies inside them."""
    prepared, part = made
    y = part(torch.from_numpy(prepared.frequencies), torch.full((AUTHORS * EACH,), 1e6))[0].numpy()
    roots, source = np.sqrt(prepared.frequencies), prepared.catalogue.source

    def separation(values):
        means = np.array([values[source == s].mean(0) for s in range(4)])
        inside = values - means[source]
        return float(means.var(0).sum() / inside.var(0).sum())

    assert separation(roots[:, SOURCES]) > 1
    assert separation(y) < 0.05


def test_unseen_authors_are_told_apart_and_topics_not(made):
    prepared, part = made
    author, topic = prepared.catalogue.author, prepared.catalogue.topic
    code = part(torch.from_numpy(prepared.frequencies), torch.full((AUTHORS * EACH,), 1e6))[0].numpy()
    unseen = np.flatnonzero(author >= 300)
    one, other = (column.flatten() for column in np.meshgrid(unseen, unseen))
    same = (author[one] == author[other]) & (topic[one] != topic[other])
    different = (author[one] < author[other]) & (topic[one] == topic[other])

    def score(vectors):
        chosen = same | different
        distance = np.square(vectors[one] - vectors[other]).sum(1)[chosen]
        return auc(same[chosen], -distance)

    roots = np.sqrt(prepared.frequencies)
    assert score(roots) < 0.3  # plain distances follow the topic
    assert score(code) > score(roots[:, OWN]) - 0.05 > 0.8  # nearly as well as who knows where to look


def test_a_topic_of_few_authors_is_not_taken_for_a_topic(made):
    """Where topics say who wrote, they would take away what tells authors apart."""
    prepared, _ = made
    author = prepared.catalogue.author
    alone = replace(prepared.catalogue, topic=author // (MIN_TOPIC_AUTHORS - 1))
    other = NgramPart(1, replace(TINY_LIGHT, ngram_features=len(BARE), ngram_dim=5))
    fit_ngrams(other, Made(prepared.frequencies, alone, prepared.training), NgramSettings(), 1)
    many = replace(prepared.catalogue, topic=author // MIN_TOPIC_AUTHORS)
    lost = NgramPart(1, replace(TINY_LIGHT, ngram_features=len(BARE), ngram_dim=5))
    fit_ngrams(lost, Made(prepared.frequencies, many, prepared.training), NgramSettings(), 1)

    def own(part):
        strength = part.weight[0].norm(dim=1)
        return float(strength[OWN].square().sum())

    assert own(lost) < 0.95 * own(other)
