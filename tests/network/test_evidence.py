"""What is told of a pair: every column by a formula of its own."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pan21av.network.embedding import EmbeddingPair
from pan21av.network.evidence import evidence, n_evidence, parabola, scantness

MEMBERS = 2


def inputs(seed: int, pairs: int, parts: int) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)

    def between(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand(*shape, generator=g, dtype=torch.double)

    return {
        "distance": between(0, 4, MEMBERS, pairs, parts),
        "cohort": between(0.1, 3, 2, MEMBERS, pairs, parts, 3),
        "tokens": between(math.log(2), math.log(6000), 2, pairs).exp().round(),
        "norm": between(-3, 3, 2, MEMBERS, pairs),
        "strangeness": between(0, 9, 2, MEMBERS, pairs),
        "neighbours": between(0, 3, 2, MEMBERS, pairs),
        "population": between(0, 1, pairs),
    }


def plain(distance, cohort, tokens, norm, strangeness, neighbours, population) -> list[float]:
    """Of one pair and member: distances of each part, measures of both documents [side][part], tokens, norms and so on
    of both, share of the population."""
    parts = range(len(distance))
    nearest, mean, deviation = ([[of_part[k] for of_part in side] for side in cohort] for k in range(3))
    bare = list(distance)
    near = [distance[p] - (nearest[0][p] + nearest[1][p]) / 2 for p in parts]
    against = [sum((distance[p] - mean[s][p]) / deviation[s][p] for s in (0, 1)) / 2 for p in parts]
    counted = [max(10.0, n) for n in tokens]
    # The harmonic mean of both lengths, and the shorter one, against a text of 1,330 tokens.
    harmonic = 2 / (1 / counted[0] + 1 / counted[1])
    scant, short = math.log(1330 / harmonic), math.log(min(counted) / 1330)
    familiar = min(counted) / (min(counted) + 500)
    # The population's nearest, where there is one; how strange the kind is, and less so with a population.
    crowd = distance[-1] - (neighbours[0] + neighbours[1]) / 2 if population else 0
    columns = [crowd * factor for factor in (1, scant, short, population)]
    strange = familiar * (strangeness[0] + strangeness[1]) / 2
    columns += [strange, strange * distance[-1], strange * against[-1]]
    columns += [strange * population, strange * distance[-1] * population]
    columns += [
        factor * value for factor in (1, scant, scant**2, short, population) for value in (*bare, *near, *against)
    ]
    columns += [scant, scant**2, short, abs(math.log(counted[0] / counted[1])), population]
    size = (norm[0] + norm[1]) / 2
    return columns + [familiar * value for value in (1, distance[-1], size, distance[-1] * size)]


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from([1, 2]))
def test_every_column(seed, pairs, parts):
    given_of = inputs(seed, pairs, parts)
    found = evidence(**given_of)
    assert found.shape == (MEMBERS, pairs, n_evidence(parts))
    for m in range(MEMBERS):
        for p in range(pairs):
            expected = plain(
                given_of["distance"][m, p].tolist(),
                given_of["cohort"][:, m, p].tolist(),
                given_of["tokens"][:, p].tolist(),
                *(given_of[name][:, m, p].tolist() for name in ("norm", "strangeness", "neighbours")),
                float(given_of["population"][p]),
            )
            assert found[m, p].tolist() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_how_much_there_is():
    """15 numbers a distance, four of the population, five of the kind, five of the lengths, four of familiarity."""
    assert (n_evidence(1), n_evidence(2)) == (33, 48)
    assert evidence(**inputs(0, 0, 2)).shape == (MEMBERS, 0, 48)


@given(st.integers(0, 10_000), st.sampled_from([1, 2]), st.booleans())
def test_either_way_round_to_the_last_bit(seed, parts, single):
    of_pair = inputs(seed, 5, parts)
    if single:
        of_pair = {name: tensor.float() for name, tensor in of_pair.items()}
    mirrored = of_pair | {
        name: of_pair[name].flip(0) for name in ("cohort", "tokens", "norm", "strangeness", "neighbours")
    }
    assert torch.equal(evidence(**of_pair), evidence(**mirrored))


def test_texts_of_typical_length_have_no_length_to_speak_of():
    of_pair = inputs(1, 3, 2) | {"tokens": torch.full((2, 3), 1330.0, dtype=torch.double)}
    found = evidence(**of_pair)
    torch.testing.assert_close(found[..., 39:43], torch.zeros(MEMBERS, 3, 4, dtype=torch.double), atol=1e-12, rtol=0)


def test_the_shortest_texts_are_alike():
    one, ten = (
        evidence(**inputs(1, 3, 2) | {"tokens": torch.full((2, 3), n, dtype=torch.double)}) for n in (1.0, 10.0)
    )
    assert torch.equal(one, ten)
    assert torch.isfinite(one).all()


def test_a_population_is_told_of_once_and_in_products():
    """Nothing else of the evidence knows it, and without one its neighbours are nobody's."""
    of_pair = inputs(2, 4, 2)
    without, known = (
        evidence(**of_pair | {"population": torch.full((4,), share, dtype=torch.double)}) for share in (0.0, 0.75)
    )
    moved = sorted({int(column) for column in (without != known).nonzero()[:, 2]})
    assert moved == [*range(4), 7, 8, *range(33, 39), 43]
    torch.testing.assert_close(known[..., 33:39], 0.75 * known[..., 9:15])
    assert (without[..., moved] == 0).all()
    torch.testing.assert_close(known[..., 7:9], 0.75 * known[..., 4:6])
    assert (known[..., 43] == 0.75).all()


def test_scantness_of_a_pair():
    """The logarithm of 1,330 over the harmonic mean of both lengths, from the evidence of pairs."""
    tokens = torch.tensor([[1330.0, 665.0, 100.0], [1330.0, 665.0, 400.0]], dtype=torch.double)
    for parts in (1, 2):
        y = torch.zeros(MEMBERS, 3, 4)
        pair = EmbeddingPair(y, y, evidence(**inputs(3, 3, parts) | {"tokens": tokens}))
        expected = [0, math.log(2), math.log(1330 / 160)]
        assert scantness(pair).tolist() == pytest.approx(expected, abs=1e-12)
    terms = parabola(torch.tensor([0.0, 2.0, -3.0]))
    assert terms.tolist() == [[1, 0, 0], [1, 2, 4], [1, -3, 9]]
