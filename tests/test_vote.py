import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan21av.ensemble import decide


@pytest.mark.parametrize("members", [1, 3, 5, 21])
def test_every_vote_count(members):
    p = np.linspace(0.1, 0.9, members)
    for abstaining in range(members + 1):
        undecidable = np.where(np.arange(members) < abstaining, 0.7, 0.2)
        (answer,) = decide(p[:, None], undecidable[:, None])
        if abstaining > members // 2:
            assert answer == 0.5
        else:
            assert answer == pytest.approx(np.mean(p[abstaining:]))


def test_exactly_a_half_abstains():
    p = np.array([[0.9], [0.9], [0.9]])
    assert decide(p, np.array([[0.5], [0.5], [0.1]])) == 0.5
    below = np.nextafter(0.5, 0)
    assert decide(p, np.array([[below], [0.5], [0.1]])) == pytest.approx(0.9)


def test_even_numbers_are_refused():
    with pytest.raises(ValueError, match="odd number"):
        decide(np.full((2, 1), 0.7), np.zeros((2, 1)))


@given(st.integers(0, 10), st.integers(1, 6), st.data())
def test_answers_stay_between_the_members(half, pairs, data):
    members = 2 * half + 1
    values = st.lists(st.lists(st.floats(0, 1), min_size=pairs, max_size=pairs), min_size=members, max_size=members)
    p, undecidable = np.array(data.draw(values)), np.array(data.draw(values))
    answers = decide(p, undecidable)
    order = data.draw(st.permutations(range(members)))
    np.testing.assert_allclose(decide(p[order], undecidable[order]), answers, atol=1e-12)
    for i, answer in enumerate(answers):
        confident = p[undecidable[:, i] < 0.5, i]
        if len(confident) <= half:
            assert answer == 0.5
        else:
            assert confident.min() - 1e-12 <= answer <= confident.max() + 1e-12
