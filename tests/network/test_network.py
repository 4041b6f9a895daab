"""The stacked network: members are views of it, what a population changes, scores do not depend on the order of the
texts, dropout masks."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import TINY, TINY_FULL, TINY_LIGHT, random_network, tiny_pool, tiny_vocabulary

from pan21av.data.batch import Batch, batch_of
from pan21av.data.tokeniser import encode_all
from pan21av.data.vocabulary import UNKNOWN
from pan21av.network import kernel, recurrent
from pan21av.network.cohort import TOP_K
from pan21av.network.embedding import Embedding, EmbeddingPair
from pan21av.network.evidence import n_evidence
from pan21av.network.layers import Dropout, shared_mask
from pan21av.network.network import Population
from pan21av.network.scores import BFS, UAL

TEXTS = [
    "the cat was here and it is not that, but they had a house! " * 3,
    "but they had a house in the sea " * 7,
    "of of of",
    "What?  - you and I are\nnot here for this. " * 12,
]
SCORES = ("dml", "bfs", "ual", "o2d2", "confusion")
NGRAMS_ALONE = replace(TINY_LIGHT, layout_dim=0, layout_features=0)
CONFIGS = {"plain": TINY, "full": TINY_FULL, "light": TINY_LIGHT, "ngrams alone": NGRAMS_ALONE}
every_config = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


def batch(config=TINY, texts=TEXTS) -> Batch:
    return batch_of(encode_all(texts, layout=True), tiny_vocabulary(), config)


# ---- members ----


@every_config
@pytest.mark.parametrize("implementation", ["kernel", "reference"])
def test_members_embed_and_score_as_the_stacked_network_does(config, implementation):
    if implementation == "kernel" and not kernel.available():
        pytest.skip("the native kernel was not built")
    network = random_network(3, config)
    with recurrent.only(implementation):
        together = network.embed(batch(config))
        every = [network.member(m).embed(batch(config)) for m in range(3)]
        alone = Embedding.join(every, "members")
    assert torch.equal(alone.tokens, together.tokens)
    torch.testing.assert_close(alone.vectors, together.vectors, atol=1e-6, rtol=0)
    if implementation == "kernel":  # one member after the other there, too
        assert torch.equal(alone.vectors, together.vectors)
    assert len({tuple(v.flatten().tolist()) for v in together.vectors}) == 3, "members that are alike prove nothing"
    assert (together.cohort is None) == (not config.cohort)
    assert (together.norm is None) == (not config.ngram_dim)
    assert (together.strangeness is None) == (not config.kinds)
    for mine, theirs in ((getattr(e, name) for e in (alone, together)) for name in ("cohort", "norm", "strangeness")):
        if theirs is not None:
            torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)
    scores = network.score(together.pair([0, 1], [2, 3]))
    for m in range(3):
        member = network.member(m)
        assert member.n_members == 1
        one = member.score(every[m].pair([0, 1], [2, 3]))
        for name in SCORES:
            torch.testing.assert_close(getattr(one, name)[0], getattr(scores, name)[m], atol=1e-5, rtol=1e-4)


@every_config
def test_a_member_is_a_view_on_the_same_memory(config):
    network = random_network(3, config)
    member = network.member(1)
    named = dict(network.named_parameters())
    assert {name for name, _ in member.named_parameters()} == set(named)
    for name, parameter in member.named_parameters():
        assert parameter.data_ptr() == named[name][1].data_ptr(), name
        assert torch.equal(parameter[0], named[name][1]), name
        assert parameter.dtype is named[name].dtype, name
    with torch.no_grad():
        member.dml.log_gamma.fill_(7)
    assert (network.dml.log_gamma == 7).tolist() == [False, True, False]


@pytest.mark.skipif(not kernel.available(), reason="the native kernel was not built")
@pytest.mark.parametrize("config", [TINY_FULL, TINY_LIGHT], ids=["full", "light"])
def test_an_embedding_does_not_depend_on_the_batch(config):
    network = random_network(2, config)
    together = network.embed(batch(config))
    for number, text in enumerate(TEXTS):
        alone = network.embed(batch(config, [text]))
        for name in ("vectors", "cohort", "norm"):
            assert torch.equal(getattr(alone, name)[:, 0], getattr(together, name)[:, number]), name


# ---- what it is made of ----


def test_the_papers_network_is_told_nothing_besides():
    """One part, taken as it is; UAL reads squared differences, O2D2 those and squared sums."""
    network = random_network(2, TINY)
    assert network.ngrams is network.layout is network.cohort is network.part_scale is None
    assert network.ual.told is network.ual.direct is network.o2d2.told is None
    assert network.ual.hidden.weight.shape == (2, 9, 18)
    assert network.o2d2.layers[0].weight.shape == (2, 2 * 9 + 4, 60)
    assert batch().ngrams is None
    embedding = network.embed(batch())
    assert torch.equal(embedding.vectors, network.project(batch()))
    assert embedding.parts == (9,)
    assert embedding.pair([0], [1]).evidence is None
    assert network.score(embedding.pair([0], [1])).familiar is None
    names = {name.split(".")[0] for name in network.state_dict()}
    assert names == {"encoder", "metric", "dml", "bfs", "ual", "o2d2"}


def test_a_light_network_has_no_encoder():
    network = random_network(2, TINY_LIGHT)
    assert network.encoder is network.metric is None
    assert {name.split(".")[0] for name in network.state_dict()} == {
        "ngrams", "layout", "part_scale", "cohort", "dml", "bfs", "ual", "o2d2",
    }  # fmt: skip
    network.use_dropout(Dropout(0.1, 0.1, 0.1, 0.1, 0.1))
    embedding = network.embed(batch(TINY_LIGHT))
    for part, where in enumerate((slice(0, 3), slice(3, 7))):
        lengths = network.part_scale[:, part, None].expand(2, 4)
        torch.testing.assert_close(embedding.vectors[..., where].norm(dim=-1), lengths)
    # Nothing but frequencies counts: words and letters may be any.
    blind = batch(TINY_LIGHT)
    blind = replace(blind, words=torch.zeros_like(blind.words), chars=torch.zeros_like(blind.chars))
    assert torch.equal(network.embed(blind).vectors, embedding.vectors)
    pair = embedding.pair([0, 1], [2, 3])
    assert pair.evidence.shape == (2, 2, n_evidence(2))
    assert network.ual.hidden.weight.shape == (2, n_evidence(2), 60)
    for name in SCORES:
        assert torch.isfinite(getattr(network.score(pair), name)).all(), name


def test_ngrams_alone_are_one_part_that_needs_no_scale():
    network = random_network(2, NGRAMS_ALONE)
    assert network.encoder is network.layout is network.part_scale is None
    embedding = network.embed(batch(NGRAMS_ALONE))
    assert embedding.parts == (4,)
    torch.testing.assert_close(embedding.vectors.norm(dim=-1), torch.ones(2, 4))
    assert embedding.pair([0], [1]).evidence.shape == (2, 1, n_evidence(1))


def test_typing_moves_the_part_of_layout_alone():
    """The same tokens with other blanks, quotes and ends of lines."""
    network = random_network(2, TINY_FULL)
    typed = ["“It is” not\n\nthat… or, is it", '"It  is" not that ... or , is it']
    assert len({tuple(read.words) for read in encode_all(typed)}) == 1
    vectors = network.embed(batch(TINY_FULL, typed)).vectors
    assert torch.equal(vectors[:, 0, :5], vectors[:, 1, :5])
    assert (vectors[:, 0, 5:8] - vectors[:, 1, 5:8]).norm(dim=-1).min() > 1e-3
    # In a random network the part of n-grams has drawn some of layout, too.
    network.ngrams.weight[network.ngrams.index >= tiny_pool().views["layout"].start] = 0
    vectors = network.embed(batch(TINY_FULL, typed)).vectors
    assert torch.equal(vectors[:, 0, 8:], vectors[:, 1, 8:])


def test_a_network_with_ngrams_and_no_cohort():
    config = replace(TINY_FULL, cohort=0)
    network = random_network(2, config)
    embedding = network.embed(batch(config))
    assert embedding.cohort is None
    assert embedding.norm.shape == (2, 4)
    assert embedding.pair([0], [1]).evidence is None
    assert network.score(embedding.pair([0], [1])).ual.shape == (2, 1)


@pytest.mark.parametrize(("part", "where"), [(0, slice(0, 5)), (1, slice(5, 8)), (2, slice(8, 12))])
def test_parts_count_by_their_scale(part, where):
    """Twice the scale is four times the squared distance, of that part alone, to the cohort as well."""
    network = random_network(2, TINY_FULL)
    before = network.embed(batch(TINY_FULL))
    network.part_scale[:, part] *= 2
    after = network.embed(batch(TINY_FULL))
    vectors, cohort = before.vectors.clone(), before.cohort.clone()
    vectors[..., where] *= 2
    cohort[:, :, part] *= 4
    torch.testing.assert_close(after.vectors, vectors)
    torch.testing.assert_close(after.cohort, cohort)
    assert torch.equal(after.norm, before.norm)


# ---- populations ----


def plain_part(mine: np.ndarray, mean: np.ndarray, texts: int, scale: float) -> tuple[np.ndarray, float]:
    """A part of frequencies without what is usual in a population of so many texts: ten of them are believed half."""
    rest = mine.astype(float) - texts / (texts + 10) * mean.astype(float)
    length = np.sqrt((rest**2).sum())
    return scale * rest / length, float(np.log(length))


@pytest.mark.parametrize("config", [TINY_FULL, TINY_LIGHT, NGRAMS_ALONE], ids=["full", "light", "ngrams alone"])
@pytest.mark.parametrize("texts", [1, 10, 300])
def test_what_is_usual_in_a_population_is_taken_off(config, texts):
    """Off the part of layout and off that of n-grams, each by itself."""
    network = random_network(3, config)
    projected = network.project(batch(config))
    layout, ngrams, last = config.layout_dim, 4, len(config.lev_parts) - 1
    others = torch.randn(3, texts, layout + ngrams, generator=torch.Generator().manual_seed(1))
    found = network.embed(batch(config), Population(others))
    # Which part of the vector each is, where it stands in it, and where in what is known of the population.
    kept = config.encoder_dim
    places = [(last, slice(kept + layout, None), slice(layout, None))]
    if layout:
        places.append((last - 1, slice(kept, kept + layout), slice(layout)))
    for m, (part, where, columns) in product(range(3), places):
        scale = 1.0 if network.part_scale is None else float(network.part_scale[m, part])
        mean = others[m, :, columns].double().mean(0).numpy()
        cohort = np.stack([plain_part(t.numpy()[where], mean, texts, scale)[0] for t in network.cohort.texts[m]])
        crowd = [plain_part(t.numpy(), mean, texts, scale)[0] for t in others[m, :, columns]]
        for d in range(4):
            mine = projected[m, d, : config.lev_dim].numpy()[where]
            expected, log_length = plain_part(mine, mean, texts, scale)
            np.testing.assert_allclose(found.vectors[m, d, where], expected, rtol=1e-5, atol=1e-6)
            # Of the cohort's texts too.
            squares = np.sort(((cohort - expected) ** 2).sum(1))
            measures = [squares[:TOP_K].mean(), squares.mean(), squares.std()]
            assert found.cohort[m, d, part].tolist() == pytest.approx(measures, rel=1e-4)
            if part == last:
                assert float(found.norm[m, d]) == pytest.approx(log_length, abs=1e-5)
                # And of its own, the nearest tenth of which is told.
                squares = sorted(((expected - other) ** 2).sum() for other in crowd)
                nearest = np.mean(squares[: max(1, texts // 10)])
                assert float(found.neighbours[m, d]) == pytest.approx(nearest, rel=1e-4, abs=1e-6)
    assert found.population.tolist() == [pytest.approx(texts / (texts + 10))] * 4


def test_a_population_says_nothing_of_the_encoder():
    network = random_network(2, TINY_FULL)
    alone, known = (network.embed(batch(TINY_FULL), p) for p in (None, Population(torch.ones(2, 50, 7))))
    assert torch.equal(alone.vectors[..., :5], known.vectors[..., :5])
    assert torch.equal(alone.cohort[:, :, 0], known.cohort[:, :, 0])
    for where in (slice(5, 8), slice(8, 12)):
        assert not torch.allclose(alone.vectors[..., where], known.vectors[..., where], atol=1e-2)
    assert alone.population.tolist() == [0] * 4


def test_what_does_not_depend_on_a_population():
    network = random_network(2, TINY_FULL)
    alone, known = (network.embed(batch(TINY_FULL), p) for p in (None, Population(torch.ones(2, 50, 7))))
    assert torch.equal(alone.strangeness, known.strangeness)
    assert torch.equal(alone.neighbours, torch.zeros(2, 4))
    assert (known.neighbours > 0).all()


# ---- scores ----


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 12), st.sampled_from(sorted(CONFIGS)))
def test_scores_are_symmetric_to_the_last_bit(seed, pairs, which):
    config = CONFIGS[which]
    network = random_network(3, config)
    g = torch.Generator().manual_seed(seed)
    projected = torch.rand(3, 2 * pairs, config.projected_dim, generator=g) * 2 - 1
    tokens = torch.randint(1, 4000, (2 * pairs,), generator=g).float()
    others = torch.rand(3, seed % 40, config.counted_dim, generator=g)
    population = Population(others) if config.ngram_dim and seed % 2 else None
    embedding = network.embedding(projected, tokens, population)
    rows = slice(0, pairs), slice(pairs, None)
    one, other = network.score(embedding.pair(*rows)), network.score(embedding.pair(*rows[::-1]))
    for name in SCORES:
        values = getattr(one, name)
        assert torch.equal(values, getattr(other, name)), name
        assert ((values >= 0) & (values <= 1)).all(), name
    assert torch.equal(one.stacked()[2], one.ual)
    assert (one.familiar is None) == (not config.cohort)
    if one.familiar is not None:
        assert one.familiar.shape == (3, pairs)
        assert torch.equal(one.familiar, other.familiar)


def test_what_is_said_depends_on_the_length_of_the_texts_where_it_is_known():
    for config, known in ((TINY_FULL, True), (TINY, False)):
        network = random_network(3, config)
        embedding = network.embed(batch(config))
        longer = replace(embedding, tokens=2000 + embedding.tokens)
        one, other = (network.score(e.pair([0], [1])) for e in (embedding, longer))
        assert torch.equal(one.bfs, other.bfs)
        assert torch.equal(one.ual, other.ual) == (not known)
        assert torch.equal(one.o2d2, other.o2d2) == (not known)


# ---- dropout ----


def test_one_mask_for_everything():
    x = torch.ones(2, 50, 200)
    torch.manual_seed(0)
    masked = shared_mask(x, 0.25, True)
    assert torch.equal(masked, masked[:1, :1].expand_as(x)), "every row the same columns"
    values = masked.unique().tolist()
    assert values == pytest.approx([0, 1 / 0.75])  # what is left is raised by what is lost
    assert 0.15 < float((masked[0, 0] == 0).float().mean()) < 0.35
    assert shared_mask(x, 0.25, False) is x
    assert shared_mask(x, 0.0, True) is x


def test_a_document_twice_in_a_batch_stays_the_same():
    """The two of a pair share their mask; the next batch has another one, and in use there is none."""
    network = random_network(1).train()
    twice = batch(texts=[TEXTS[3], TEXTS[3], TEXTS[0]])
    network.use_dropout(Dropout(0.3, 0.3, 0.3, 0.3, 0.3))
    torch.manual_seed(0)
    one, other = (network.embed(twice).vectors for _ in "ab")
    torch.testing.assert_close(one[:, 0], one[:, 1], atol=1e-6, rtol=0)
    assert (one - other).abs().max() > 1e-3
    network.eval()
    one, other = (network.embed(twice).vectors for _ in "ab")
    assert torch.equal(one, other)


@pytest.mark.parametrize("share", ["words", "cnn", "lstm", "attention", "metric"])
def test_every_share_does_something(share):
    network = random_network(1).train()
    plain = network.embed(batch()).vectors
    network.use_dropout(Dropout(**{share: 0.5}))
    torch.manual_seed(0)
    assert (network.embed(batch()).vectors - plain).abs().max() > 1e-3
    network.use_dropout(Dropout())
    assert torch.equal(network.embed(batch()).vectors, plain)


def test_a_type_without_its_word_keeps_its_characters():
    network = random_network(1).train()
    network.use_dropout(Dropout(words=1.0))
    plain = batch()
    unknown = Batch(
        torch.full_like(plain.words, UNKNOWN), plain.chars, plain.windows, plain.documents, plain.tokens
    )  # fmt: skip
    hidden = network.embed(plain).vectors
    network.eval()
    assert torch.equal(network.embed(unknown).vectors, hidden)
    other_letters = Batch(
        unknown.words, plain.chars.roll(1, 0), plain.windows, plain.documents, plain.tokens
    )  # fmt: skip
    assert not torch.allclose(network.embed(other_letters).vectors, hidden, atol=1e-3)


def test_bfs_drops_the_same_of_both_documents():
    torch.manual_seed(0)
    bfs = BFS(1, 200, 3).train()
    bfs.dropout = 0.5
    seen = []
    bfs.project = lambda y: (seen.append(y), bfs.projection(y).tanh())[1]
    bfs.log_ratio(EmbeddingPair.of(torch.ones(1, 4, 200), torch.full((1, 4, 200), -1.0)))
    first, second = seen
    assert torch.equal(first, -second)
    assert first.unique().tolist() == [0.0, 2.0]
    assert len({tuple(row.tolist()) for row in first[0]}) == 4, "every pair its own mask"
    bfs.eval()
    seen.clear()
    bfs.log_ratio(EmbeddingPair.of(torch.ones(1, 4, 200), torch.ones(1, 4, 200)))
    assert (seen[0] == 1).all()


def test_ual_drops_hidden_units_in_training_only():
    torch.manual_seed(0)
    ual = UAL(1, 9)
    ual.dropout = 0.5
    pair = EmbeddingPair.of(torch.rand(1, 5, 9), -torch.rand(1, 5, 9))
    one, other = (ual.train().confusion(pair) for _ in "ab")
    assert not torch.allclose(one, other)
    assert torch.equal(ual.eval().confusion(pair), ual.confusion(pair))
