"""Random numbers by name: no two uses share theirs, and the same use always has the same."""

from itertools import product

import numpy as np
import pytest
import torch

from pan21av.training.streams import Stream, member_seed, numpy_stream, torch_stream

# A seed of two words, too: as a list, [5 + 2**32, 10, 0] and [5, 1, 10] are the same to NumPy.
SEEDS = (0, 1, 5, 12, 2**31 - 1, 5 + 2**32)
INDICES = (0, 1, 2, 10, 20, 100)
USES = list(product(SEEDS, Stream, INDICES))


def from_numpy(seed, stream, index):
    return tuple(numpy_stream(seed, stream, index).integers(2**63, size=2).tolist())


def from_torch(seed, stream, index):
    torch_stream(seed, stream, index)
    return tuple(torch.randint(2**62, (2,)).tolist())


def test_every_stream_has_a_number_of_its_own():
    """Two names of one number would be one stream under two names."""
    assert len({int(stream) for stream in Stream}) == len(Stream.__members__)


@pytest.mark.parametrize("draw", [from_numpy, from_torch])
def test_no_two_uses_share_their_numbers(draw):
    drawn = {use: draw(*use) for use in USES}
    assert len(set(drawn.values())) == len(USES)
    first = {use: values[0] for use, values in drawn.items()}
    assert len(set(first.values())) == len(USES)


@pytest.mark.parametrize("draw", [from_numpy, from_torch])
def test_the_same_use_has_the_same_numbers(draw):
    for use in USES[::37]:
        assert draw(*use) == draw(*use)
    assert numpy_stream(1, Stream.NGRAMS).random() == numpy_stream(1, Stream.NGRAMS, 0).random()


def test_a_stream_does_not_begin_as_another_seeds_does():
    """NumPy takes [s, 8] and [s, 8, 0] for the same, so a list of numbers is no key; ours always has two."""
    trap = [np.random.default_rng(key).integers(2**63) for key in ([5, 8], [5, 8, 0])]
    assert trap[0] == trap[1], "then the two keys are no longer needed"
    plain = {int(np.random.default_rng(seed).integers(2**63)) for seed in SEEDS}
    assert plain.isdisjoint(from_numpy(*use)[0] for use in USES)


def test_members_differ_and_stay_who_they_are():
    """Member 7 of 9 is member 7 of 21; and no member of one ensemble has the numbers of another's."""
    seeds = [member_seed(seed, number) for seed in SEEDS for number in range(1, 200)]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert member_seed(1, 7) == member_seed(1, 7) != member_seed(2, 7)
