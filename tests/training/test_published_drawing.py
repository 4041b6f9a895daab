"""The paper's rule of drawing pairs, against the same written out here in plain loops, on a catalogue like PAN20's."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan21av.data.pan import PAIR_KINDS
from pan21av.training.drawings import draw, draw_fixed
from pan21av.training.published_drawing import PUBLISHED, Bag, Rounds
from pan21av.training.sampling import Catalogue, split_documents


def pan_like(authors=3000, topics=1600, seed=3):
    """Few documents of most authors and many of some, large topics and small ones."""
    rng = random.Random(seed)
    rows = []
    for author in range(authors):
        own = [int(topics * rng.random() ** 2) for _ in range(1 + min(8, int(rng.expovariate(0.5))))]
        rows += [(author, rng.choice(own)) for _ in range(1 + min(40, int(rng.paretovariate(0.9))))]
    author, topic = np.array(rows).T
    topic = np.unique(topic, return_inverse=True)[1]
    return Catalogue(author, topic, np.full(len(author), -1), np.zeros(len(author), dtype=np.int64))


PAN_LIKE = pan_like()


def by_the_book(documents, d1, d2, d3, rng):
    """The published rule: [(author, topic)] -> how many pairs of each kind; plain and slow."""
    left = {}
    for author, topic in documents:
        left.setdefault(author, []).append(topic)
    kinds, pool = Counter(), []
    while left:
        authors = list(left)
        rng.shuffle(authors)
        for author in authors:
            mine = left[author]
            if rng.random() < d1:
                if rng.random() < d2:
                    if len(set(mine)) > 1:
                        for topic in rng.sample(sorted(set(mine)), 2):
                            mine.remove(topic)
                        kinds["SA_DF"] += 1
                else:
                    several = sorted(topic for topic, count in Counter(mine).items() if count > 1)
                    if several:
                        topic = rng.choice(several)
                        mine.remove(topic)
                        mine.remove(topic)
                        kinds["SA_SF"] += 1
            else:
                topic = rng.choice(sorted(set(mine)))
                mine.remove(topic)
                pool.append((author, topic))
            if not mine:
                del left[author]
    shelves = {}
    for author, topic in pool:
        shelves.setdefault(topic, []).append(author)
    for shelf in shelves.values():
        rng.shuffle(shelf)
    while sum(map(len, shelves.values())) > 1:
        if rng.random() < d3:
            several = [topic for topic, shelf in shelves.items() if len(shelf) > 1]
            if not several:
                continue
            chosen = [rng.choice(several)] * 2
        else:
            if len(shelves) < 2:
                continue
            chosen = rng.sample(list(shelves), 2)
        first, second = (shelves[topic].pop() for topic in chosen)
        for topic in set(chosen):
            if not shelves[topic]:
                del shelves[topic]
        kinds[("SA_" if first == second else "DA_") + ("SF" if chosen[0] == chosen[1] else "DF")] += 1
    return kinds


@pytest.mark.parametrize("d", [(0.7, 0.6, 0.6), (0.95, 0.95, 0.7), (0.9, 0.9, 0.7)], ids=str)
def test_kinds_come_in_the_published_proportions(d):
    """Within two points of the rule written out above."""
    chosen = np.flatnonzero(PAN_LIKE.author < 2000)
    documents = list(zip(PAN_LIKE.author[chosen].tolist(), PAN_LIKE.topic[chosen].tolist(), strict=True))
    expected = by_the_book(documents, *d, random.Random(1))
    pairs = Rounds(*d).draw(PAN_LIKE, chosen, np.random.default_rng(1))
    found = PAN_LIKE.count_kinds(pairs)
    assert len(pairs) == sum(expected.values()) == len(chosen) // 2, "every document is used once, one may be left"
    assert len(np.unique(pairs)) == 2 * len(pairs)
    assert set(pairs.flatten()) <= set(chosen)
    for kind in PAIR_KINDS:
        assert found[kind] / len(pairs) == pytest.approx(expected[kind] / len(pairs), abs=0.02), (found, expected)
        assert expected[kind] > 0


def test_the_numbers_of_the_paper():
    """(d1, d2, d3) as published."""
    rules = {name: (rule.same_author, rule.cross_topic, rule.same_topic) for name, rule in PUBLISHED.items()}
    assert rules == {
        "training": (0.7, 0.6, 0.6),
        "calibration": (0.95, 0.95, 0.7),
        "fixed calibration": (0.9, 0.9, 0.7),
        "validation": (0.9, 0.9, 0.7),
    }


def limited(count, limit):
    return min(count, int(limit))


def test_what_is_kept_of_each_draw():
    """The caps of the paper's table 1: the same draw, uncut, tells what there was."""
    everything = np.arange(len(PAN_LIKE.author))

    def counts(rule):
        return PAN_LIKE.count_kinds(rule.draw(PAN_LIKE, everything, np.random.default_rng(7)))

    uncut = counts(Rounds(0.95, 0.95, 0.7))
    cap = 1.5 * uncut["SA_DF"]
    assert counts(PUBLISHED["calibration"]) == {
        "SA_SF": uncut["SA_SF"], "SA_DF": uncut["SA_DF"],
        "DA_SF": limited(uncut["DA_SF"], cap), "DA_DF": limited(uncut["DA_DF"], cap),
    }  # fmt: skip
    uncut = counts(Rounds(0.9, 0.9, 0.7))
    assert counts(PUBLISHED["fixed calibration"]) == dict.fromkeys(PAIR_KINDS, min(uncut.values()))
    assert counts(PUBLISHED["validation"]) == {
        "SA_SF": 0, "SA_DF": uncut["SA_DF"], "DA_SF": limited(uncut["DA_SF"], 1.35 * uncut["SA_DF"]), "DA_DF": 0,
    }  # fmt: skip
    assert counts(PUBLISHED["training"]) == counts(Rounds(0.7, 0.6, 0.6)), "all are kept"


def test_caps_where_they_bind():
    """Authors of one document make different-author pairs alone: more than the caps let through."""
    rng = np.random.default_rng(0)
    author = np.concatenate([np.repeat(np.arange(200), 4), np.arange(200, 4200)])
    catalogue = Catalogue(author, rng.integers(50, size=len(author)), np.full(len(author), -1), np.zeros_like(author))
    everything = np.arange(len(author))
    kinds = {
        name: catalogue.count_kinds(PUBLISHED[name].draw(catalogue, everything, np.random.default_rng(1)))
        for name in ("calibration", "validation")
    }
    calibration, validation = kinds["calibration"], kinds["validation"]
    assert calibration["DA_SF"] == calibration["DA_DF"] == int(1.5 * calibration["SA_DF"]) > 100
    assert validation["DA_SF"] == int(1.35 * validation["SA_DF"]) > 100


@st.composite
def small_catalogues(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 120))
    author = rng.integers(draw(st.integers(1, 30)), size=n)
    work = np.where(rng.random(n) < draw(st.sampled_from([0, 0.6])), author, -1)
    topic, sources = rng.integers(draw(st.integers(1, 9)), size=n), draw(st.integers(1, 2))
    return Catalogue(author, topic, work, author % sources)


@given(small_catalogues(), st.sampled_from(list(PUBLISHED)), st.integers(0, 1000))
def test_any_corpus(catalogue, name, seed):
    """It ends; no document comes twice; nothing crosses sources; two documents of one work are no same-author pair."""
    pairs = PUBLISHED[name].draw(catalogue, np.arange(len(catalogue.author)), np.random.default_rng(seed))
    assert len(np.unique(pairs)) == 2 * len(pairs)
    sources, works = catalogue.source[pairs], catalogue.work[pairs]
    assert (sources[:, 0] == sources[:, 1]).all()
    assert not (catalogue.same_author(pairs) & (works[:, 0] >= 0) & (works[:, 0] == works[:, 1])).any()
    if name == "training" and (catalogue.work < 0).all():
        assert len(pairs) == sum(n // 2 for n in np.bincount(catalogue.source))


def test_what_cannot_be_met_does_nothing():
    """Authors of one topic each with one document: no fall-back makes a same-author pair of them."""
    author = np.arange(40)
    catalogue = Catalogue(author, author % 4, np.full(40, -1), np.zeros(40, dtype=np.int64))
    kinds = catalogue.count_kinds(Rounds(0.95, 0.95, 0.7).draw(catalogue, author, np.random.default_rng(0)))
    assert (kinds["SA_SF"], kinds["SA_DF"]) == (0, 0)
    assert kinds["DA_SF"] + kinds["DA_DF"] == 20


def test_two_of_one_author_in_the_pool_are_a_same_author_pair():
    catalogue = Catalogue(*(np.array(column) for column in ([0] * 4, [0, 0, 1, 1], [-1] * 4, [0] * 4)))
    kinds = catalogue.count_kinds(Rounds(0.0, 0.5, 0.5).draw(catalogue, np.arange(4), np.random.default_rng(0)))
    assert sum(kinds.values()) == kinds["SA_SF"] + kinds["SA_DF"] == 2


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9))))
def test_a_bag_is_a_set(steps):
    bag, plain = Bag(), set()
    for put, item in steps:
        if put:
            bag.add(item)
            plain.add(item)
        elif item in plain:
            bag.remove(item)
            plain.remove(item)
        assert len(bag) == len(plain)
    rng = np.random.default_rng(0)
    assert {bag.pick(rng) for _ in range(200 * bool(plain))} == plain


# ---- the split ----


def test_authors_who_touch_several_sets_toss_coins():
    """1/2 training, 1/4 calibration, 1/4 validation of three sets; halves of two; documents do not count."""
    topics, authors = 80, 3000
    rng = np.random.default_rng(0)
    rows = [(a, t) for a in range(authors) for t in rng.choice(topics, size=rng.integers(1, 7), replace=False)]
    rows += [(a, t) for a, t in rows if t < 20 for _ in range(5)]  # many documents of some topics
    author, topic = np.array(rows).T
    catalogue = Catalogue(author, topic, np.full(len(author), -1), np.zeros_like(author))
    split = split_documents(catalogue, True, 0.75, np.random.default_rng(4))
    home = {t: {int(s) for s in split[topic == t]} - {-1} for t in range(topics)}
    assert all(len(sets) == 1 for sets in home.values())
    sizes = Counter(sets.copy().pop() for sets in home.values())
    assert sizes == {0: 60, 1: 10, 2: 10}, "75 % of the topics, the rest halved"
    went = {}
    topics_of, split_of = {}, {}
    for a, t, where in zip(author.tolist(), topic.tolist(), split.tolist(), strict=True):
        topics_of.setdefault(a, set()).add(t)
        split_of.setdefault(a, set()).add(where)
    for a in range(authors):
        touched = frozenset(s for t in topics_of[a] for s in home[t])
        (chosen,) = split_of[a] - {-1}
        went.setdefault(touched, Counter())[chosen] += 1
    shares = {(0, 1, 2): (1 / 2, 1 / 4, 1 / 4), (0, 1): (1 / 2, 1 / 2), (0, 2): (1 / 2, 1 / 2), (1, 2): (1 / 2, 1 / 2)}
    for touched, expected in shares.items():
        found = went[frozenset(touched)]
        total = sum(found.values())
        error = 4 * np.sqrt(0.25 / total)
        for number, share in zip(touched, expected, strict=True):
            assert found[number] / total == pytest.approx(share, abs=error), (touched, found)
    for alone in range(3):
        assert set(went[frozenset([alone])]) == {alone}
    # What is left out is what lies in another set than its author.
    for document in range(0, len(author), 97):
        (where,) = set(split[author == author[document]].tolist()) - {-1}
        assert (split[document] == -1) == (home[int(topic[document])] != {where})


def test_fixed_pairs_of_the_paper():
    """Validation and development have no other limit; calibration has the four kinds alike; ours has no such pairs."""
    split = split_documents(PAN_LIKE, True, 0.75, np.random.default_rng(0))
    calibration, validation = np.flatnonzero(split == 1), np.flatnonzero(split == 2)

    def fixed(drawing, limit=0):
        return draw_fixed(drawing, PAN_LIKE, calibration, validation, np.random.default_rng(0), limit)

    pairs = fixed("published")
    assert list(pairs) == ["validation", "development", "calibration"]
    for name in ("validation", "development"):
        kinds = PAN_LIKE.count_kinds(pairs[name])
        assert kinds["SA_SF"] == kinds["DA_DF"] == 0
        assert 0 < kinds["DA_SF"] <= 1.35 * kinds["SA_DF"]
    assert set(pairs["validation"].flatten()) <= set(validation)
    assert set(pairs["development"].flatten()) & set(calibration)
    assert set(pairs["development"].flatten()) & set(validation)
    assert len(set(PAN_LIKE.count_kinds(pairs["calibration"]).values())) == 1
    assert set(pairs["calibration"].flatten()) <= set(calibration)
    assert len(fixed("published", limit=10)["validation"]) == 10
    assert list(fixed("balanced", limit=100)) == ["validation", "development"]


def test_the_setting_chooses_the_rule():
    documents = np.flatnonzero(PAN_LIKE.author < 300)
    for purpose in ("training", "calibration"):
        expected = PUBLISHED[purpose].draw(PAN_LIKE, documents, np.random.default_rng(2))
        found = draw("published", purpose, PAN_LIKE, documents, np.random.default_rng(2))
        np.testing.assert_array_equal(found, expected)
        ours = draw("balanced", purpose, PAN_LIKE, documents, np.random.default_rng(2))
        assert {tuple(pair) for pair in ours} != {tuple(pair) for pair in found}
