"""Embeddings and pairs of them: which rows, which members, and what normalisation does, against plain loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pan21av.network.embedding import Embedding, EmbeddingPair, pair_lengths

PARTS = (5, 3)


def embedding(n_members=2, documents=6, cohort=True, seed=0):
    g = torch.Generator().manual_seed(seed)
    return Embedding(
        torch.rand(n_members, documents, sum(PARTS), generator=g) * 2 - 1,
        torch.randint(10, 5000, (documents,), generator=g).float(),
        PARTS,
        torch.rand(n_members, documents, len(PARTS), generator=g) + 0.1 if cohort else None,
    )


def same(one: Embedding, other: Embedding) -> bool:
    distances = [e.cohort_distance for e in (one, other)]
    return (
        torch.equal(one.vectors, other.vectors)
        and torch.equal(one.tokens, other.tokens)
        and one.parts == other.parts
        and (distances == [None, None] if distances[0] is None else torch.equal(*distances))
    )


@pytest.mark.parametrize("cohort", [False, True])
def test_rows_and_joining(cohort):
    whole = embedding(cohort=cohort)
    assert len(whole) == 6
    for rows in (slice(1, 4), [5, 0, 5], torch.tensor([2])):
        part = whole[rows]
        assert torch.equal(part.vectors, whole.vectors[:, rows])
        assert torch.equal(part.tokens, whole.tokens[rows])
        assert (part.cohort_distance is None) == (not cohort)
        if cohort:
            assert torch.equal(part.cohort_distance, whole.cohort_distance[:, rows])
    assert same(Embedding.join([whole[:1], whole[1:4], whole[4:]], "documents"), whole)
    members = [
        Embedding(whole.vectors[m : m + 1], whole.tokens, PARTS, whole.cohort_distance[m : m + 1] if cohort else None)
        for m in range(2)
    ]
    assert same(Embedding.join(members, "members"), whole)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 8), st.booleans())
def test_a_pair_is_measured_in_the_mean_of_its_cohort_distances(seed, count, cohort):
    whole = embedding(cohort=cohort, seed=seed)
    rows = torch.randint(6, (2, count), generator=torch.Generator().manual_seed(seed))
    pair = whole.pair(*rows)
    assert len(pair) == count
    for m in range(2):
        for p, (i, j) in enumerate(rows.T.tolist()):
            y1, y2 = whole.vectors[m, i].tolist(), whole.vectors[m, j].tolist()
            assert pair.first[m, p].tolist() == y1
            assert pair.second[m, p].tolist() == y2
            squares = []
            for column in range(8):
                part = 0 if column < 5 else 1
                unit = 1.0
                if cohort:
                    unit = float(whole.cohort_distance[m, i, part] + whole.cohort_distance[m, j, part]) / 2
                squares.append((y1[column] - y2[column]) ** 2 / unit)
                assert float(pair.scaled_first[m, p, column]) == pytest.approx(y1[column] / math.sqrt(unit), abs=1e-6)
                assert float(pair.scaled_second[m, p, column]) == pytest.approx(y2[column] / math.sqrt(unit), abs=1e-6)
            assert pair.squares[m, p].tolist() == pytest.approx(squares, abs=1e-5)
            assert float(pair.distance[m, p]) == pytest.approx(sum(squares), abs=1e-4)
    tokens = [[max(300.0, float(whole.tokens[i])) for i in row] for row in rows.tolist()]
    for p, (one, other) in enumerate(zip(*tokens, strict=True)):
        expected = [math.log(1330 / 2 * (1 / one + 1 / other)), abs(math.log(one / other))]
        assert pair.lengths[p].tolist() == pytest.approx(expected, abs=1e-5)


def test_lengths_are_none_to_speak_of_at_the_typical_length():
    typical = torch.tensor([1330.0])
    torch.testing.assert_close(pair_lengths(typical, typical), torch.zeros(1, 2), atol=1e-6, rtol=0)
    # Below the least that counts, one is as short as the other.
    assert torch.equal(
        pair_lengths(torch.tensor([1.0]), typical), pair_lengths(torch.tensor([300.0]), typical)
    )  # fmt: skip


def test_a_pair_the_other_way_round_mirrors_to_the_last_bit():
    whole = embedding()
    one, other = whole.pair([0, 1, 2], [3, 4, 5]), whole.pair([3, 4, 5], [0, 1, 2])
    for mine, theirs in (("first", "second"), ("scaled_first", "scaled_second")):
        assert torch.equal(getattr(one, mine), getattr(other, theirs))
        assert torch.equal(getattr(one, theirs), getattr(other, mine))
    for name in ("squares", "distance", "lengths"):
        assert torch.equal(getattr(one, name), getattr(other, name))


FIELDS = ("first", "second", "scaled_first", "scaled_second", "lengths")


def test_parts_of_pairs_and_joining():
    pair = embedding().pair([0, 1, 2, 3], [3, 4, 5, 0])
    joined = EmbeddingPair.join([pair[:1], pair[1:3], pair[3:]])
    for name in FIELDS:
        assert torch.equal(getattr(joined, name), getattr(pair, name)), name
    bare = EmbeddingPair.of(pair.first, pair.second)
    assert bare.lengths is None
    assert EmbeddingPair.join([bare[:2], bare[2:]]).lengths is None
    assert torch.equal(bare.squares, (pair.first - pair.second).square())


def test_one_members_pairs_for_several():
    pair = embedding(n_members=1).pair([0, 1], [2, 3])
    wide = pair.expand(3)
    for name in FIELDS[:4]:
        assert getattr(wide, name).shape == (3, 2, 8)
        assert (getattr(wide, name) == getattr(pair, name)).all()
    assert torch.equal(wide.lengths, pair.lengths)


def test_a_detached_pair_sends_no_gradient_back():
    vectors = torch.randn(1, 4, 8, requires_grad=True)
    pair = Embedding(vectors, torch.full((4,), 500.0), PARTS).pair([0, 1], [2, 3])
    assert pair.distance.requires_grad
    detached = pair.detach()
    assert not any(getattr(detached, name).requires_grad for name in FIELDS)
    assert torch.equal(detached.distance, pair.distance)
