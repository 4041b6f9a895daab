"""How much each part of a vector counts: fitted to pairs whose true posteriors we know."""

import pytest
import torch

from pan21av.metrics import auc
from pan21av.training.fit_parts import fit_part_scale


def pairs(weights, count=20_000, seed=0):
    """Distances (P, parts) of very different sizes, and truths drawn with the logit 2 - weights . distances."""
    generator, parts = torch.Generator().manual_seed(seed), len(weights)
    distances = torch.rand(count, parts, generator=generator) * torch.tensor([4.0, 0.5, 1.5][:parts])
    logit = 2 - distances @ torch.tensor(weights)
    return distances, (torch.rand(count, generator=generator) < logit.sigmoid()).float()


@pytest.mark.parametrize("weights", [(1.0, 8.0), (0.25, 8.0), (2.0, 2.0), (0.5, 4.0, 1.0)])
def test_the_weights_that_made_the_pairs_are_found(weights):
    """A distance grows with the square of the factor by which its vectors are multiplied."""
    factors = fit_part_scale(*pairs(weights))
    torch.testing.assert_close(factors.square(), torch.tensor(weights), rtol=0.15, atol=0.05)


def test_factors_of_distances_in_other_units():
    """Vectors ten times as long need a tenth of the factor."""
    distances, same = pairs((1.0, 8.0))
    factors = fit_part_scale(distances, same)
    other = fit_part_scale(distances * torch.tensor([100.0, 1e-4]), same)
    torch.testing.assert_close(other, factors / torch.tensor([10.0, 1e-2]), rtol=1e-3, atol=0)


def test_a_part_that_says_nothing_hardly_counts():
    """And one that says the opposite does not count against."""
    for useless in (0.0, -6.0):
        distances, same = pairs((1.0, useless))
        factors = fit_part_scale(distances, same)
        assert (factors > 0).all()
        told, nothing = (factors.square() * distances.std(0)).tolist()
        assert nothing < 0.1 * told


def test_both_together_tell_more_than_either():
    distances, same = pairs((0.8, 6.0))
    factors = fit_part_scale(distances, same)
    new, truth = pairs((0.8, 6.0), seed=1)

    def score(distance):
        return auc(truth.bool().numpy(), -distance.numpy())

    together = score(new @ factors.square())
    assert together > max(score(new[:, 0]), score(new[:, 1]), score(new.sum(1))) + 0.01
    assert together > score(new @ torch.tensor([0.8, 6.0])) - 0.002


def test_nothing_is_left_to_chance():
    torch.manual_seed(1)
    one = fit_part_scale(*pairs((1.0, 8.0), 500))
    torch.manual_seed(2)
    assert torch.equal(fit_part_scale(*pairs((1.0, 8.0), 500)), one)
