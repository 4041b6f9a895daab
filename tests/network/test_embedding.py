"""Embeddings and pairs of them: which rows, which members, and what is told of a pair, against plain loops."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pan21av.network.embedding import Embedding, EmbeddingPair
from pan21av.network.evidence import evidence, n_evidence

PARTS = (5, 3)
OF_MEMBERS = ("cohort", "norm", "strangeness", "neighbours")
OPTIONAL = (*OF_MEMBERS, "population")
FIELDS = ("vectors", "tokens", *OPTIONAL)


def embedding(n_members=2, documents=6, cohort=True, seed=0) -> Embedding:
    """With or without what networks that have a cohort tell besides."""
    g = torch.Generator().manual_seed(seed)
    vectors = torch.rand(n_members, documents, sum(PARTS), generator=g) * 2 - 1
    tokens = torch.randint(10, 5000, (documents,), generator=g).float()
    if not cohort:
        return Embedding(vectors, tokens, PARTS)
    return Embedding(
        vectors,
        tokens,
        PARTS,
        torch.rand(n_members, documents, len(PARTS), 3, generator=g) + 0.1,
        torch.randn(n_members, documents, generator=g),
        torch.rand(n_members, documents, generator=g),
        torch.rand(n_members, documents, generator=g),
        torch.full((documents,), 0.25),
    )


def same(one: Embedding, other: Embedding) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name in FIELDS]
    return one.parts == other.parts and all(
        a is b is None or (a is not None and b is not None and torch.equal(a, b)) for a, b in pairs
    )


@pytest.mark.parametrize("cohort", [False, True])
def test_rows_and_joining(cohort):
    whole = embedding(cohort=cohort)
    assert len(whole) == 6
    for rows in (slice(1, 4), [5, 0, 5], torch.tensor([2])):
        part = whole[rows]
        assert torch.equal(part.vectors, whole.vectors[:, rows])
        assert torch.equal(part.tokens, whole.tokens[rows])
        if cohort:
            for name in OF_MEMBERS:
                assert torch.equal(getattr(part, name), getattr(whole, name)[:, rows]), name
            assert torch.equal(part.population, whole.population[rows])
        else:
            assert all(getattr(part, name) is None for name in OPTIONAL)
    assert same(Embedding.join([whole[:1], whole[1:4], whole[4:]], "documents"), whole)
    members = [
        replace(
            whole,
            vectors=whole.vectors[m : m + 1],
            **{name: getattr(whole, name)[m : m + 1] for name in OF_MEMBERS if cohort},
        )
        for m in range(2)
    ]
    assert same(Embedding.join(members, "members"), whole)


@pytest.mark.parametrize("cohort", [False, True])
def test_moving_an_embedding_moves_all_of_it(cohort):
    moved = embedding(cohort=cohort).to(torch.device("meta"))
    tensors = [getattr(moved, name) for name in FIELDS if getattr(moved, name) is not None]
    assert len(tensors) == (7 if cohort else 2)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert moved.parts == PARTS


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 8), st.booleans())
def test_pairs_are_those_asked_for(seed, count, cohort):
    whole = embedding(cohort=cohort, seed=seed)
    rows = torch.randint(6, (2, count), generator=torch.Generator().manual_seed(seed))
    pair = whole.pair(*rows)
    assert len(pair) == count
    for m in range(2):
        for p, (i, j) in enumerate(rows.T.tolist()):
            y1, y2 = whole.vectors[m, i].tolist(), whole.vectors[m, j].tolist()
            assert pair.first[m, p].tolist() == y1
            assert pair.second[m, p].tolist() == y2
            squares = [(a - b) ** 2 for a, b in zip(y1, y2, strict=True)]
            assert pair.squares[m, p].tolist() == pytest.approx(squares, abs=1e-6)
            assert float(pair.distance[m, p]) == pytest.approx(sum(squares), abs=1e-5)
            if not cohort:
                continue
            distance = torch.tensor([sum(squares[:5]), sum(squares[5:])])
            expected = evidence(
                distance[None, None], whole.cohort[m, [i, j]][:, None, None], whole.tokens[[i, j]][:, None],
                *(getattr(whole, name)[m, [i, j]][:, None, None] for name in ("norm", "strangeness", "neighbours")),
                whole.population[[i]],
            )  # fmt: skip
            torch.testing.assert_close(pair.evidence[m, p], expected[0, 0], rtol=1e-4, atol=1e-4)
    if cohort:
        assert pair.evidence.shape == (2, count, n_evidence(2))
    else:
        assert pair.evidence is None


def test_without_norm_and_population_both_are_nothing():
    """A network without n-grams has no norm to tell of."""
    whole = embedding()
    unknown = ("norm", "strangeness", "neighbours", "population")
    bare = replace(whole, **dict.fromkeys(unknown))
    zero = replace(whole, **{name: torch.zeros_like(getattr(whole, name)) for name in unknown})
    assert torch.equal(bare.pair([0, 1], [2, 3]).evidence, zero.pair([0, 1], [2, 3]).evidence)
    assert not torch.equal(bare.pair([0, 1], [2, 3]).evidence, whole.pair([0, 1], [2, 3]).evidence)


def test_a_pair_the_other_way_round_mirrors_to_the_last_bit():
    whole = embedding()
    one, other = whole.pair([0, 1, 2], [3, 4, 5]), whole.pair([3, 4, 5], [0, 1, 2])
    assert torch.equal(one.first, other.second)
    assert torch.equal(one.second, other.first)
    for name in ("squares", "distance", "evidence"):
        assert torch.equal(getattr(one, name), getattr(other, name))


PAIR_FIELDS = ("first", "second", "evidence")


def test_parts_of_pairs_and_joining():
    pair = embedding().pair([0, 1, 2, 3], [3, 4, 5, 0])
    joined = EmbeddingPair.join([pair[:1], pair[1:3], pair[3:]])
    for name in PAIR_FIELDS:
        assert torch.equal(getattr(joined, name), getattr(pair, name)), name
        assert torch.equal(getattr(pair[[2, 0]], name), getattr(pair, name)[:, [2, 0]]), name
    bare = EmbeddingPair.of(pair.first, pair.second)
    assert bare.evidence is None
    assert bare[1:].evidence is None
    assert EmbeddingPair.join([bare[:2], bare[2:]]).evidence is None
    assert torch.equal(bare.squares, (pair.first - pair.second).square())


def test_one_members_pairs_for_several():
    pair = embedding(n_members=1).pair([0, 1], [2, 3])
    wide = pair.expand(3)
    for name in PAIR_FIELDS:
        assert getattr(wide, name).shape == (3, *getattr(pair, name).shape[1:])
        assert (getattr(wide, name) == getattr(pair, name)).all()
    assert EmbeddingPair.of(pair.first, pair.second).expand(3).evidence is None


def test_a_detached_pair_sends_no_gradient_back():
    vectors = torch.randn(1, 6, 8, requires_grad=True)
    pair = replace(embedding(n_members=1), vectors=vectors).pair([0, 1], [2, 3])
    assert pair.distance.requires_grad
    assert pair.evidence.requires_grad
    detached = pair.detach()
    assert not any(getattr(detached, name).requires_grad for name in PAIR_FIELDS)
    assert torch.equal(detached.distance, pair.distance)
