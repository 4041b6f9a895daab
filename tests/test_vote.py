import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pan21av.vote import PlattScaling, answered, says_same, vote


@pytest.mark.parametrize("members", [1, 3, 5, 21])
def test_every_vote_count(members):
    p = np.linspace(0.1, 0.9, members)
    for abstaining in range(members + 1):
        undecidable = np.where(np.arange(members) < abstaining, 0.7, 0.2)
        (answer,) = vote(p[:, None], undecidable[:, None]).answers
        if abstaining > members // 2:
            assert answer == 0.5
        else:
            assert answer == pytest.approx(np.mean(p[abstaining:]))


@pytest.mark.parametrize(
    ("p", "undecidable", "answer", "abstains", "same", "different"),
    [
        (0.8, 0.1, 0.8, 0, 1, 0),
        (0.3, 0.1, 0.3, 0, 0, 1),
        (0.8, 0.5, 0.5, 1, 0, 0),
        (np.nan, 0.1, 0.5, 1, 0, 0),
        (0.8, np.nan, 0.5, 1, 0, 0),
    ],
)
def test_one_member_alone(p, undecidable, answer, abstains, same, different):
    votes = vote(np.array([[p]]), np.array([[undecidable]]))
    assert votes.answers == answer
    assert votes.abstains.sum() == abstains
    assert (votes.same, votes.different) == (same, different)


def test_exactly_a_half_abstains():
    p = np.array([[0.9], [0.9], [0.9]])
    assert vote(p, np.array([[0.5], [0.5], [0.1]])).answers == 0.5
    below = np.nextafter(0.5, 0)
    assert vote(p, np.array([[below], [0.5], [0.1]])).answers == pytest.approx(0.9)


@pytest.mark.parametrize("faulty", [np.nan, np.inf, -np.inf])
def test_a_member_without_a_number_abstains(faulty):
    """Once it answered 0.5, and was counted as "different" all the same."""
    p = np.array([[faulty], [0.9], [0.7]])
    votes = vote(p, np.full((3, 1), 0.2))
    assert votes.answers == pytest.approx(0.8)
    assert votes.abstains.tolist() == [[True], [False], [False]]
    assert (votes.same, votes.different) == (2, 0)
    in_doubt = vote(np.full((3, 1), 0.9), np.array([[faulty], [0.2], [0.2]]))
    assert in_doubt.abstains.tolist() == [[True], [False], [False]]


@pytest.mark.parametrize("members", [0, 2, 20])
def test_even_numbers_are_refused(members):
    with pytest.raises(ValueError, match="odd number"):
        vote(np.full((members, 1), 0.7), np.zeros((members, 1)))


def test_what_an_answer_says():
    values = np.array([0.0, np.nextafter(0.5, 0), 0.5, np.nextafter(0.5, 1), 1.0])
    assert answered(values).tolist() == [True, True, False, True, True]
    assert says_same(values).tolist() == [False, False, False, True, True]


numbers = st.one_of(st.floats(0, 1), st.sampled_from([0.5, np.nan, np.inf, -np.inf]))


@settings(max_examples=60)
@given(st.integers(0, 10), st.integers(1, 6), st.data())
def test_against_a_count_by_hand(half, pairs, data):
    members = 2 * half + 1
    table = st.lists(st.lists(numbers, min_size=pairs, max_size=pairs), min_size=members, max_size=members)
    p, undecidable = np.array(data.draw(table)), np.array(data.draw(table))
    votes = vote(p, undecidable)
    for i in range(pairs):
        numbered = [m for m in range(members) if np.isfinite(p[m, i]) and np.isfinite(undecidable[m, i])]
        confident = [p[m, i] for m in numbered if undecidable[m, i] < 0.5]
        assert votes.abstains[:, i].sum() == members - len(confident)
        assert votes.same[i] == sum(value > 0.5 for value in confident)
        assert votes.different[i] == sum(value <= 0.5 for value in confident)
        if len(confident) <= half:
            assert votes.answers[i] == 0.5
        else:
            assert votes.answers[i] == pytest.approx(sum(confident) / len(confident), abs=1e-12)
    order = data.draw(st.permutations(range(members)))
    np.testing.assert_allclose(vote(p[order], undecidable[order]).answers, votes.answers, atol=1e-12)


def test_answers_are_the_surer_the_more_members_stand_behind_them():
    """Logits times 0.5 + share: of pairs that all three members, two or one of them do not abstain on."""
    p = np.array([[0.8, 0.8, 0.8]] * 3)
    undecidable = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.9], [0.0, 0.9, 0.9]])
    found = vote(p, undecidable, PlattScaling(scale=0.5, support=1.0)).answers
    odds = 4 ** np.array([1.5, 0.5 + 2 / 3])
    np.testing.assert_allclose(found, [*(odds / (1 + odds)), 0.5])
