"""Validation figures, by independent sums; and that the card holds them."""

from types import SimpleNamespace

import numpy as np
import pytest

from pan21av.metrics import all_metrics
from pan21av.training.member import VALIDATION_SCORES
from pan21av.training.report import (
    MIN_PAIRS,
    apart,
    ensemble_report,
    figures,
    figures_of,
    histogram,
    known_sources,
    member_scores,
)
from pan21av.training.sampling import Catalogue
from pan21av.vote import vote

TRUTH = np.array([True, True, True, False, False, False])
SCORES = {
    "dml": np.array([[0.9, 0.8, 0.4, 0.3, 0.6, 0.1], [0.7, 0.9, 0.6, 0.2, 0.3, 0.4], [0.2, 0.9, 0.6, 0.2, 0.3, 0.4]]),
    "ual": np.array([[0.9, 0.8, 0.4, 0.3, 0.6, 0.1], [0.7, 0.9, 0.6, 0.2, 0.7, 0.4], [0.2, 0.9, 0.6, 0.2, 0.3, 0.9]]),
    "o2d2": np.array([[0.1, 0.2, 0.7, 0.1, 0.8, 0.1], [0.1, 0.1, 0.6, 0.2, 0.5, 0.1], [0.9, 0.1, 0.1, 0.2, 0.1, 0.8]]),
}
SCORES["bfs"] = SCORES["dml"][::-1]


def test_members_alone_and_together():
    found = figures(TRUTH, SCORES)
    assert list(found) == ["dml", "bfs", "ual", "o2d2", "ensemble", "ensemble_o2d2"]
    correct = [np.mean((p > 0.5) == TRUTH) for p in SCORES["dml"]]
    assert found["dml"]["accuracy"] == pytest.approx(np.mean(correct))
    assert found["dml"]["deviation"]["accuracy"] == pytest.approx(np.std(correct))
    assert found["bfs"]["accuracy"] == pytest.approx(found["dml"]["accuracy"])
    # The mean of all, and then the vote: a majority abstains from the third and the fifth pair.
    together = np.mean(SCORES["ual"], 0)
    assert found["ensemble"] == all_metrics(TRUTH, together)
    voted = [0.8, np.mean([0.8, 0.9, 0.9]), 0.5, np.mean([0.3, 0.2, 0.2]), 0.5, np.mean([0.1, 0.4])]
    assert found["ensemble_o2d2"] == pytest.approx(all_metrics(TRUTH, np.array(voted)))
    alone = [np.where(o >= 0.5, 0.5, p) for p, o in zip(SCORES["ual"], SCORES["o2d2"], strict=True)]
    expected = [all_metrics(TRUTH, p)["c@1"] for p in alone]
    assert found["o2d2"]["c@1"] == pytest.approx(np.mean(expected))


def made_authors(truth):
    """(P, 2): every pair has authors of its own."""
    numbers = np.arange(2 * len(truth)).reshape(-1, 2)
    return np.where(truth[:, None], numbers[:, :1], numbers)


def test_rows_have_intervals_where_there_are_both_kinds():
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2 == 0
    answers = np.clip(truth * 0.3 + rng.uniform(0, 0.7, 60), 0, 1)
    found = figures_of(truth, answers, made_authors(truth))
    assert found["pairs"] == 60
    for name in ("auc", "overall"):
        low, high = found["intervals"][name]
        assert low < found[name] < high
        assert 0.02 < high - low < 0.4
    assert figures_of(truth[::2], answers[::2], made_authors(truth[::2]))["intervals"] == {}


@pytest.mark.parametrize("each", [2, 3, 5])
def test_rows_of_very_few_pairs(each):
    """A bootstrap sample of authors may then hold no pair at all: it says nothing, and does no harm."""
    truth = np.arange(2 * each) < each
    answers = np.where(truth, 0.8, 0.3)
    found = figures_of(truth, answers, made_authors(truth))
    assert found["intervals"]["auc"] == [1.0, 1.0]


# ---- sources that members know, and others ----


def test_what_is_stored_votes_as_what_was_said(tmp_path):
    """Of whole texts all of it; of other conditions in fewer steps, which no abstention depends on."""
    rng, tasks, said = np.random.default_rng(0), [], []
    for number in range(5):
        said.append({name: rng.random(400).astype(np.float16) for name in ("ual", "o2d2", "ual@600", "o2d2@600")})
        said[-1]["o2d2@600"][:9] = [0.4998, 0.5, np.nan, *[0.499] * 6]
        folder = tmp_path / str(number)
        folder.mkdir()
        np.savez(folder / VALIDATION_SCORES, **said[-1])
        tasks.append(SimpleNamespace(folder=folder))
    stored = member_scores(tasks)
    for mark in ("", "@600"):
        told = [np.stack([each[name + mark] for each in said]).astype(float) for name in ("ual", "o2d2")]
        one, other = vote(*told), vote(*(stored[name + mark].astype(float) for name in ("ual", "o2d2")))
        np.testing.assert_array_equal(one.abstains, other.abstains)
        np.testing.assert_allclose(one.answers, other.answers, atol=0 if not mark else 1 / 512)
    assert len(np.unique(stored["ual@600"])) <= 256
    assert 0 < stored["ual@600"].min() < stored["ual@600"].max() < 1
    assert not (stored["ual@600"] == 0.5).any()


def test_who_knows_what():
    tasks = [SimpleNamespace(sources=sources) for sources in ((0, 2), (1,), ())]
    assert known_sources(tasks, 3).tolist() == [[True, False, True], [False, True, False], [False] * 3]


@pytest.fixture(scope="module")
def report():
    """Three members, three sources of 80, 60 and 20 pairs. Members say nothing of sources that they do not know but a
    little with a population of 10."""
    source = np.repeat([0, 1, 2], [80, 60, 20])
    truth = np.arange(len(source)) % 2 == 0
    authors = made_authors(truth)
    # Documents of pair n are 2 n and 2 n + 1.
    catalogue = Catalogue(authors.flatten(), np.zeros(320, int), np.full(320, -1), np.repeat(source, 2))
    prepared = SimpleNamespace(
        catalogue=catalogue, validation=np.arange(320).reshape(-1, 2), sources=["large", "middle", "small"]
    )
    knows = np.array([[True, False, True], [True, True, False], [True, False, False]])
    right = np.where(truth, 0.9, 0.1)
    ual = np.where(knows[:, source], right, 1 - right)
    scores = {
        **dict.fromkeys(("dml", "bfs", "ual"), ual), "o2d2": np.zeros_like(ual),
        "ual+10": np.where(knows[:, source], right, 0.5 + (right - 0.5) / 4), "o2d2+10": np.zeros_like(ual),
        "ual@300": np.broadcast_to(right, ual.shape), "o2d2@300": np.ones_like(ual),
        "distance_encoder": 1 - ual, "distance_ngrams": np.broadcast_to(1 - right, ual.shape),
    }  # fmt: skip
    return ensemble_report(scores, prepared, knows)


def test_sources_as_judged_by_those_who_know_them_and_by_others(report):
    """The large one is known to all, the middle one to one of three: the other two, of whom one has a vote, are
    always wrong. The small one has too few pairs."""
    assert MIN_PAIRS == 60
    table = report["validation_of_sources"]
    assert list(table) == [
        "all members", "all members, population of 10",
        "members that know the source", "members that know the source, population of 10",
        "members that do not", "members that do not, population of 10",
    ]  # fmt: skip
    assert [row["sources"] for row in table.values()] == [2, 2, 2, 2, 1, 1]
    assert [row["accuracy"] for row in table.values()] == [0.5, 1, 1, 1, 0, 1]
    # "Same author" above 0.8 of two authors: of the mean (0.9 + 2 * 0.1) / 3 never, of one who is wrong always.
    assert [row["bold"] for row in table.values()] == [0, 0, 0, 0, 1, 0]


def test_rows_of_sources_lengths_and_parts(report):
    assert list(report["validation_by_source"]) == ["large", "middle", "small"]
    assert [row["pairs"] for row in report["validation_by_source"].values()] == [80, 60, 20]
    assert [row["accuracy"] for row in report["validation_by_source"].values()] == [1, 0, 0]
    assert list(report["validation_by_length"]) == ["cut to 300 characters", "whole texts"]
    assert report["validation_by_length"]["cut to 300 characters"]["non_responses"] == 1
    assert report["validation_of_parts"].keys() == {"encoder", "ngrams"}
    assert report["validation_of_parts"]["ngrams"] == 1
    # Mean distances of the encoder: right on 80 pairs, on the others 1 - (0.9 + 2 * 0.1) / 3 for different authors and
    # 1 - (0.1 + 2 * 0.9) / 3 for the same, between those of the large source.
    assert report["validation_of_parts"]["encoder"] == pytest.approx(0.75)


def test_histogram_counts_every_pair_once():
    distances = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 8.0])
    found = histogram(TRUTH, distances, bins=4)
    assert found["edges"] == pytest.approx([0, 2, 4, 6, 8], rel=1e-3)
    assert found["same"] == [3, 0, 0, 0]  # 0, 1 and 2: the edges lie a little beyond whole numbers
    assert found["different"] == [0, 2, 0, 1]


def test_pairs_that_share_no_text():
    pairs = np.array([[0, 1], [2, 3], [1, 4], [4, 5], [5, 6], [6, 0]])
    assert apart(pairs).tolist() == [True, True, False, True, False, False]
