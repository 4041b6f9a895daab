"""Dealing sources to members: evenly, and to a member the same ones however many there are beside it."""

import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan21av.training.sources import deal_sources, n_known


def dealt(n_sources, share, members, seed=1):
    return [mine.tolist() for mine in islice(deal_sources(n_sources, share, seed), members)]


@pytest.mark.parametrize(
    ("n_sources", "share", "count"),
    [
        (21, 0.66, 14),  # 13.86
        (3, 1 / 3, 1),  # a third of three is one, whatever rounding makes of it
        (9, 2 / 3, 6),
        (30, 0.7, 21),
        (25, 0.56, 14),  # 14.000000000000002 in floating-point numbers
        (4, 0.51, 3),
        (5, 1.0, 5),
        (3, 0.01, 1),
    ],
)
def test_how_many_a_member_knows(n_sources, share, count):
    """The share of them, rounded up."""
    assert n_known(n_sources, share) == count
    assert {len(mine) for mine in dealt(n_sources, share, 7)} == {count}


@pytest.mark.parametrize("n_sources", [1, 2])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_one_or_two_are_known_to_all(n_sources, share):
    assert n_known(n_sources, share) == n_sources
    assert dealt(n_sources, share, 5) == [list(range(n_sources))] * 5


shares = st.floats(0.05, 1)


@given(st.integers(1, 30), shares, st.integers(1, 40), st.integers(0, 2**31))
def test_sources_are_dealt_evenly(n_sources, share, members, seed):
    """After any number of members, no source was dealt more than once more often than another."""
    hands = dealt(n_sources, share, members, seed)
    for mine in hands:
        assert mine == sorted(set(mine)), "each once, in order"
        assert set(mine) <= set(range(n_sources))
    counts = np.bincount(np.concatenate(hands).astype(int), minlength=n_sources)
    assert counts.max() - counts.min() <= 1
    assert counts.sum() == members * len(hands[0])


@given(st.integers(3, 25), shares, st.integers(0, 2**31))
def test_member_7_of_9_is_member_7_of_21(n_sources, share, seed):
    assert dealt(n_sources, share, 9, seed) == dealt(n_sources, share, 21, seed)[:9]


def test_a_majority_knows_a_source_and_several_do_not():
    """What the shipped recipe is built on: 21 members, 14 of 21 sources each."""
    hands = dealt(21, 0.66, 21)
    known = np.bincount(np.concatenate(hands), minlength=21)
    assert known.tolist() == [14] * 21
    assert len({tuple(mine) for mine in hands}) > 15, "members differ"


def test_seeds_deal_differently():
    hands = {seed: dealt(12, 0.5, 5, seed) for seed in range(6)}
    assert len({str(hand) for hand in hands.values()}) == 6
    assert dealt(12, 0.5, 5, 3) == hands[3]


def test_they_are_in_no_order():
    """At random among those that were dealt equally often: the first member has the first sources by chance only."""
    first = np.array([np.isin(np.arange(6), dealt(6, 0.5, 1, seed)[0]) for seed in range(2_000)])
    deviation = math.sqrt(0.25 / 2_000)
    assert np.abs(first.mean(0) - 0.5).max() < 5 * deviation
