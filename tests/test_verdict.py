import json
import math
from dataclasses import replace

import numpy as np
import pytest

from pan21av.verdict import Note, Verdict, compare_texts, ratio_bounds, three_figures, verdicts


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


@pytest.mark.parametrize(
    ("probability", "shown"),
    [(1.0, "1.000"), (0.9999, "> 0.999"), (0.9995, "> 0.999"), (0.9994, "0.999"), (0.5, "0.500"), (0.0006, "0.001"),
     (0.0004, "< 0.001"), (1e-12, "< 0.001"), (0.0, "0.000")],
)  # fmt: skip
def test_nothing_uncertain_is_shown_as_certain(probability, shown):
    assert three_figures(probability) == shown


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
    assert replace(first, familiar=1).kind == "1 of 3 members takes it for a kind of text that it knows"
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
        "log10_lr": None, "log10_lr_bounds": None,
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


# ---- likelihood ratios -------------------------------------------------------------------------------

BOUNDS = ratio_bounds(400, 1000)


def test_bounds_are_what_so_many_pairs_can_show():
    assert ratio_bounds(400, 1000) == pytest.approx((math.log10(1 / 400), 3))
    assert ratio_bounds(0, 0) == (0, 0)


@pytest.mark.parametrize(
    ("probability", "ratio", "bounded"),
    [(0.75, 3, False), (0.25, 1 / 3, False), (0.9999, 1000, True), (1.0, 1000, True), (0.0001, 1 / 400, True)],
)
def test_the_ratio_is_the_odds_within_bounds(probability, ratio, bounded):
    verdict = Verdict(probability, 0, 1, 0, bounds=BOUNDS)
    assert 10**verdict.log10_lr == pytest.approx(ratio)
    assert verdict.bounded is bounded
    assert ("cut there" in verdict.ratio_words) is bounded
    assert "no ratio beyond 1/400 and 1,000" in verdict.ratio_words
    first, second = verdict.ratio_words.split(" times as probable if ")[1].split(" as if ")
    assert ("another person" in first) is (probability < 0.5)
    assert ("another person" in second) is (probability > 0.5)


def test_few_validation_pairs_allow_no_strong_words():
    assert Verdict(0.999, 0, 1, 0).words == "moderately strong support for the same author"
    assert Verdict(0.999, 0, 1, 0, bounds=ratio_bounds(50, 50)).words == "moderate support for the same author"


def test_another_prior():
    """By Bayes' rule, from a ratio of 3."""
    verdict = Verdict(0.75, 0, 1, 0, bounds=BOUNDS)
    assert verdict.posterior(0.5) == pytest.approx(0.75)
    assert verdict.posterior(0.1) == pytest.approx(0.1 * 3 / (0.1 * 3 + 0.9 * 1))
    assert Verdict(1.0, 0, 1, 0, bounds=BOUNDS).posterior(0.5) == pytest.approx(1000 / 1001)
    for prior in (0, 1, -1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            verdict.posterior(prior)


def test_no_ratio():
    """Where the members cannot tell nothing is learnt; where validation is unknown nothing is claimed."""
    silent, unvalidated = Verdict(0.5, 3, 0, 0, np.zeros((4, 3)), bounds=BOUNDS), Verdict(0.75, 0, 1, 0)
    assert silent.log10_lr is unvalidated.log10_lr is None
    assert (silent.posterior(0.2), unvalidated.posterior(0.2)) == (0.2, None)
    assert "the members cannot tell" in silent.ratio_words
    assert "the texts do not allow a decision" in Verdict.unusable(3).ratio_words
    assert "does not say how many pairs" in unvalidated.ratio_words


# ---- several known texts -----------------------------------------------------------------------------


def test_remarks_on_several_known_texts():
    one, two, three = "a b c d", "e f g", "x a b c d y"
    assert compare_texts([one, two]) == ()
    found = compare_texts([one, two, "a  b c d", three, two, "b c"])
    assert [(note.kind, note.where) for note in found] == [
        ("identical", "known text 2"), ("contained", "first text"), ("contained", "known text 5"),
        ("repeated", "known text 4"),
    ]  # fmt: skip
