"""The stacked network: members are views of it, scores do not depend on the order of the texts, dropout masks."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import TINY, TINY_FULL, random_network, tiny_vocabulary

from pan21av.data.batch import Batch, batch_of
from pan21av.data.tokeniser import encode_all
from pan21av.data.vocabulary import UNKNOWN
from pan21av.network import kernel, recurrent
from pan21av.network.embedding import Embedding, EmbeddingPair
from pan21av.network.layers import Dropout, shared_mask
from pan21av.network.scores import BFS, UAL

TEXTS = [
    "the cat was here and it is not that, but they had a house! " * 3,
    "but they had a house in the sea " * 7,
    "of of of",
    "what? - you and I are not here for this. " * 12,
]
SCORES = ("dml", "bfs", "ual", "o2d2", "confusion")


def batch(config=TINY, texts=TEXTS) -> Batch:
    return batch_of(encode_all(texts), tiny_vocabulary(), config)


# ---- members ----


@pytest.mark.parametrize("config", [TINY, TINY_FULL], ids=["plain", "full"])
@pytest.mark.parametrize("implementation", ["kernel", "reference"])
def test_members_embed_and_score_as_the_stacked_network_does(config, implementation):
    if implementation == "kernel" and not kernel.available():
        pytest.skip("the native kernel was not built")
    network = random_network(3, config)
    with recurrent.only(implementation):
        together = network.embed(batch(config))
        alone = Embedding.join([network.member(m).embed(batch(config)) for m in range(3)], "members")
    assert torch.equal(alone.tokens, together.tokens)
    torch.testing.assert_close(alone.vectors, together.vectors, atol=1e-6, rtol=0)
    if implementation == "kernel":  # one member after the other there, too
        assert torch.equal(alone.vectors, together.vectors)
    assert len({tuple(v.flatten().tolist()) for v in together.vectors}) == 3, "members that are alike prove nothing"
    if config.cohort:
        torch.testing.assert_close(alone.cohort_distance, together.cohort_distance, atol=1e-6, rtol=1e-5)
    scores = network.score(together.pair([0, 1], [2, 3]))
    for m in range(3):
        member = network.member(m)
        assert member.n_members == 1
        own = Embedding(
            together.vectors[m : m + 1], together.tokens, together.parts,
            None if together.cohort_distance is None else together.cohort_distance[m : m + 1],
        )  # fmt: skip
        one = member.score(own.pair([0, 1], [2, 3]))
        for name in SCORES:
            torch.testing.assert_close(getattr(one, name)[0], getattr(scores, name)[m], atol=1e-6, rtol=1e-5)


def test_a_member_is_a_view_on_the_same_memory():
    network = random_network(3, TINY_FULL)
    member = network.member(1)
    named = dict(network.named_parameters())
    assert {name for name, _ in member.named_parameters()} == set(named)
    for name, parameter in member.named_parameters():
        assert parameter.data_ptr() == named[name][1].data_ptr(), name
        assert torch.equal(parameter[0], named[name][1]), name
    with torch.no_grad():
        member.metric.weight.fill_(7)
    assert (network.metric.weight[1] == 7).all()
    assert not (network.metric.weight[[0, 2]] == 7).any()


@pytest.mark.skipif(not kernel.available(), reason="the native kernel was not built")
def test_an_embedding_does_not_depend_on_the_batch():
    network = random_network(2, TINY_FULL)
    together = network.embed(batch(TINY_FULL))
    for number, text in enumerate(TEXTS):
        alone = network.embed(batch(TINY_FULL, [text]))
        assert torch.equal(alone.vectors[:, 0], together.vectors[:, number])


# ---- scores ----


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans())
def test_scores_are_symmetric_to_the_last_bit(seed, pairs, full):
    network = random_network(3, TINY_FULL if full else TINY)
    if full:
        network.ual.slope.fill_(-0.4)
    g = torch.Generator().manual_seed(seed)
    y = torch.rand(3, 2 * pairs, TINY.lev_dim, generator=g) * 2 - 1
    tokens = torch.randint(100, 4000, (2 * pairs,), generator=g).float()
    distance = network.cohort(y) if full else None
    embedding = Embedding(y, tokens, network.config.lev_parts, distance)
    rows = slice(0, pairs), slice(pairs, None)
    one, other = network.score(embedding.pair(*rows)), network.score(embedding.pair(*rows[::-1]))
    for name in SCORES:
        values = getattr(one, name)
        assert torch.equal(values, getattr(other, name)), name
        assert ((values >= 0) & (values <= 1)).all(), name
    assert torch.equal(one.stacked()[2], one.ual)


def test_what_is_said_depends_on_the_length_of_the_texts_where_it_is_known():
    network = random_network(3, TINY_FULL)
    network.ual.slope.fill_(-0.4)
    embedding = network.embed(batch(TINY_FULL))
    longer = Embedding(
        embedding.vectors, 2000 + embedding.tokens, embedding.parts, embedding.cohort_distance
    )  # fmt: skip
    one, other = (network.score(e.pair([0], [1])) for e in (embedding, longer))
    assert torch.equal(one.bfs, other.bfs)
    assert (one.ual - other.ual).abs().min() > 1e-3


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
