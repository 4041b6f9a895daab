import json
from dataclasses import replace

import numpy as np
import pytest

from pan21av.verdict import Note, Verdict, verdicts


@pytest.mark.parametrize(
    ("probability", "decision", "words"),
    [
        (0.5, None, "cannot tell"),
        (0.51, True, "inconclusive, leaning towards the same author"),
        (0.49, False, "inconclusive, leaning towards different authors"),
        (0.7, True, "weak support for the same author"),  # odds of 2.3
        (0.9, True, "weak support for the same author"),  # of 9
        (0.92, True, "moderate support for the same author"),  # of 11.5
        (0.01, False, "moderate support for different authors"),  # of 99
        (0.005, False, "moderately strong support for different authors"),  # of 199
        (0.0, False, "moderately strong support for different authors"),
        (1.0, True, "moderately strong support for the same author"),
    ],
)
def test_what_it_says(probability, decision, words):
    verdict = Verdict(probability, 0, 1, 0)
    assert verdict.decision is decision
    assert verdict.words == words


def test_nobody_was_asked():
    verdict = Verdict.unusable(21)
    assert (verdict.probability, verdict.decision) == (0.5, None)
    assert (verdict.abstained, verdict.same, verdict.different) == (21, 0, 0)
    assert verdict.scores is verdict.distance is verdict.score("ual") is None


def test_scores_of_three_members_on_two_pairs():
    """By hand. On the first pair the third member abstains; on the second two do, one as its number is none."""
    scores = np.zeros((4, 3, 2))
    scores[0], scores[1] = 0.25, 0.75
    scores[2] = [[0.9, np.nan], [0.3, 0.8], [0.1, 0.9]]  # UAL
    scores[3] = [[0.1, 0.1], [0.2, 0.6], [0.7, 0.2]]  # O2D2
    note = Note("cut", "first text", "only its beginning was read")
    first, second = verdicts(scores, np.array([1.5, 2.5]), [(), (note,)])
    assert (first.notes, second.notes) == ((), (note,))
    assert first.probability == pytest.approx(0.6)
    assert (first.abstained, first.same, first.different) == (1, 1, 1)
    assert second.probability == 0.5
    assert (second.abstained, second.same, second.different) == (2, 1, 0)
    assert (first.distance, second.distance) == (1.5, 2.5)
    for name, expected in {
        "dml": [0.25] * 3,
        "bfs": [0.75] * 3,
        "ual": [0.9, 0.3, 0.1],
        "o2d2": [0.1, 0.2, 0.7],
    }.items():
        assert first.score(name).tolist() == expected
    with pytest.raises(ValueError, match="not in tuple"):
        first.score("p_ual")


def test_members_that_know_the_kind_of_text():
    """By hand: two of three on the first pair, none on the second; a number that is none is no knowledge."""
    familiar = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, np.nan]])
    scores, distances, notes = np.full((4, 3, 2), 0.25), np.ones(2), [(), ()]
    first, second = verdicts(scores, distances, notes, familiar)
    assert (first.familiar, second.familiar) == (2, 0)
    assert first.kind == "2 of 3 members take it for a kind of text that they know"
    assert second.kind == "0 of 3 members take it for a kind of text that they know"
    # What they say does not depend on it.
    for one, other in zip(verdicts(scores, distances, notes), (first, second), strict=True):
        assert (one.familiar, one.kind) == (None, "")
        assert one == replace(other, familiar=None)
    assert Verdict.unusable(3).familiar is None


def test_as_json():
    """Plain values that come back as they were."""
    note = Note("cut", "first text", "only its beginning")
    scores = np.array([[0.25], [0.5], [0.75], [0.125]])
    verdict = Verdict(0.75, 0, 1, 0, scores, 1.5, (note,))
    assert json.loads(json.dumps(verdict.to_dict())) == {
        "probability": 0.75, "words": "weak support for the same author", "decision": True,
        "members": 1, "abstained": 0, "same": 1, "different": 0, "distance": 1.5, "familiar": None,
        "notes": [{"kind": "cut", "where": "first text", "words": "only its beginning"}],
        "scores": {"dml": [0.25], "bfs": [0.5], "ual": [0.75], "o2d2": [0.125]},
    }  # fmt: skip
    assert replace(verdict, familiar=1).to_dict() == {**verdict.to_dict(), "familiar": 1}
    unusable = Verdict.unusable(3).to_dict()
    assert (unusable["members"], unusable["scores"], unusable["distance"]) == (3, None, None)


def test_equal_verdicts():
    def one():
        return Verdict(0.75, 0, 1, 0, np.full((4, 1), 0.25), 1.5)

    assert one() == one()
    assert len({one(), one()}) == 1
    others = (Verdict(0.75, 0, 1, 0, np.full((4, 1), 0.5), 1.5), Verdict(0.75, 0, 1, 0), Verdict.unusable(1))
    for other in (*others, replace(one(), familiar=1)):
        assert one() != other
