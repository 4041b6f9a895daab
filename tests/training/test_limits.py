"""How short a text may be, from the settings; tests/data/test_fitness.py has the limits that are learnt."""

import torch
from support import small

from pan21av.network.embedding import MIN_TOKENS, pair_lengths
from pan21av.training.limits import min_tokens


def test_the_shortest_text_that_scores_learnt_from():
    """The shortest crop of stage two; where it reads whole texts only, the shortest document."""
    cropped = small("model.window_tokens=30", "model.window_hop=26", "calibration.min_windows=3", "data.min_tokens=77")
    assert min_tokens(cropped) == 30 + 2 * 26
    assert min_tokens(cropped.updated({"calibration": {"views": 1}})) == 77
    assert min_tokens(cropped.updated({"calibration": {"cohort": 9, "min_windows": 20}})) == 30 + 19 * 26


def test_scores_that_know_the_length_know_it_from_a_minimum_on():
    """With a cohort, UAL reads the lengths of both texts, which are the same below that minimum."""
    settings = small("calibration.cohort=10", "calibration.min_windows=1")
    first, second = torch.tensor([MIN_TOKENS - 1.0, 1.0]), torch.tensor([5000.0, 5000.0])
    assert torch.equal(*pair_lengths(first, second))  # they cannot be told apart
    assert min_tokens(settings) == MIN_TOKENS
