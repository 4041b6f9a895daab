"""Which n-grams an ensemble knows: by hand on a few sentences, and by definition on many random texts."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan21av.data.layout import SYMBOLS
from pan21av.data.ngrams import GRAM_LENGTHS, SHAPES, Pool, letter_grams, shape
from pan21av.training.ngram_pool import build_pool, common_layout
from pan21av.training.settings import NgramSettings

ALL = NgramSettings()


def pool_of(sources, settings=ALL, types=()) -> Pool:
    """Of sources, lists of documents, that are lists of tokens. Types are numbered as they come, after `types`."""
    index = {token: number for number, token in enumerate(types)}
    numbers = [[np.array([index.setdefault(t, len(index)) for t in doc]) for doc in source] for source in sources]
    return build_pool(list(index), numbers, settings)


def spaced(*sources):
    return [[document.split(" ") for document in source] for source in sources]


# ---- by hand ----

# Three documents of one source, one of the other.
BY_HAND = spaced(["The cat sat .", "the cat ran ; the cat", "the dog sat . cat"], [". a dog , the"])


def test_words_rank_by_the_share_of_documents_in_the_mean_over_sources():
    """How often a document has it does not count; nor does it help to be in a source of many documents.

    the (3/3 + 1/1) / 2 = 1, "." (2/3 + 1) / 2 = 5/6, dog (1/3 + 1) / 2 = 2/3, cat 3/3 / 2 = 1/2, as a and ",", which
    come later; sat 2/3 / 2 = 1/3; ran 1/3 / 2 = 1/6, as ";"
    """
    assert pool_of(BY_HAND).words == ("the", ".", "dog", "cat", "a", ",", "sat", "ran", ";")


def test_anchors_are_common_in_every_source():
    """By the least share of any source: the 1, "." 2/3, dog 1/3. "cat", in three of four documents, is none."""
    assert pool_of(BY_HAND).anchors == ("the", ".", "dog")


def test_anchors_of_equal_shares_rank_by_the_mean():
    """x and y have at least 1/2 everywhere, but y more elsewhere; z comes as often as x, and after it."""
    pool = pool_of(spaced(["x y z", "y"], ["x y z", "q"]))
    assert pool.anchors == ("y", "x", "z")
    assert pool_of(spaced(["z x y", "y"], ["x y z", "q"])).anchors == ("y", "z", "x")


def test_skeletons_by_hand():
    """Anchors stay as they are, the rest becomes its class."""
    pool = pool_of(spaced(["The cat sat .", "the dog saw the dogs ."], ["Is the end ."]), NgramSettings(anchors=2))
    assert pool.anchors == ("the", ".")
    # "the <word>" is in all documents; "<word> ." in two of three, that is (1/2 + 1) / 2 of a source.
    assert pool.pairs[:2] == ("the <word-short->", "<word-short-> .")
    assert set(pool.pairs[2:]) == {
        "<word-short-> <word-short->",  # cat sat, dog saw
        "<word-short-> the",  # saw the
        "the <word-short-s>",  # the dogs
        "<word-short-s> .",
        "<Name-short-> the",  # Is
    }
    # Shares of triples: the <word> <word> 2/2 of the first source; the end . 1/1 of the second.
    assert set(pool.triples[:3]) == {
        "the <word-short-> <word-short->", "the <word-short-> .", "<Name-short-> the <word-short->"
    }  # fmt: skip
    assert set(pool.triples[3:]) == {
        "<word-short-> <word-short-> .", "<word-short-> <word-short-> the", "<word-short-> the <word-short-s>",
        "the <word-short-s> .",
    }  # fmt: skip


def test_shapes_by_hand():
    """All that is there, common ones first; words are alike, whatever they are."""
    pool = pool_of(spaced(["The cat , I sat .", "a cow , I ran !"], ["dog , I 7"]))
    # In all documents: "word ,", ", I", and both together.
    assert set(pool.shapes[:3]) == {"word ,", ", I", "word , I"}
    # In one source whole: "I word" and what goes on from it; in the other "I number".
    whole = {"I word", ", I word", "word , I word", "I number", ", I number", "word , I number"}
    assert set(pool.shapes[3:9]) == whole
    halves = pool.shapes[9:]
    assert len(set(halves)) == len(halves)
    assert "Name word , I word ." in halves
    assert "word word , I word !" in halves
    assert not any("Name word , I word . " in gram for gram in halves)  # of six tokens at most


def test_letters_by_hand():
    """n-grams of words between their bounds, in lower case; nothing of what is no word."""
    pool = pool_of(spaced(["At 12 .", "at a"], ["cat !"]))
    # at_ and at are in all documents, _a and _at in those of the first source, "_a_" in one of them.
    assert set(pool.letters[:3]) == {"at", "at_", "t_"}
    assert set(pool.letters[3:]) == {
        "_a", "_at", "_at_", "_c", "_ca", "_cat", "ca", "cat", "cat_", "_a_", "a_",
    }  # fmt: skip
    assert set(pool.letters[-2:]) == {"_a_", "a_"}


def layout_of(sources, limit=10_000):
    """Of sources, lists of documents, that are lists of symbols."""
    numbers = [[np.array([SYMBOLS.index(s) for s in doc], dtype=np.uint8) for doc in source] for source in sources]
    return common_layout(numbers, limit)


def test_layout_ranks_by_the_share_of_documents_in_the_mean_over_sources():
    """ ".·" (2/3 + 1/1) / 2 = 5/6; word 3/3 / 2 = 1/2, though it is in most documents, as Name and "Name .·"; "word .·"
    2/3 / 2 = 1/3; what is in one document of three 1/6."""
    sources = spaced(["word .·", "word word ¶ word", "word word .·"], ["Name .·"])
    found = layout_of(sources)
    assert found[0] == ".·"
    assert set(found[1:4]) == {"word", "Name", "Name .·"}
    assert set(found[4:6]) == {"word .·", "word word"}
    assert set(found[6:]) == {
        "¶", "word ¶", "¶ word", "word word ¶", "word ¶ word", "word word ¶ word", "word word .·",
    }  # fmt: skip
    assert layout_of(sources, 4) == found[:4]
    assert layout_of(sources, 0) == ()


# ---- by definition ----

TOKENS = [
    "the",
    "The",
    "THE",
    "of",
    "running",
    "stations",
    "Bob",
    "12",
    ".",
    ",",
    "...",
    "n't",
    "Ünder",
    "😀",
    "_",
    "x",
]
texts = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=12)
corpora = st.lists(st.lists(texts, min_size=1, max_size=4), min_size=1, max_size=3)


def skeletons(pool, document, length):
    symbols = [pool.symbols[pool.symbol(token)] for token in document]
    return [" ".join(symbols[at : at + length]) for at in range(len(symbols) - length + 1)]


def shape_grams(document):
    shapes = [SHAPES[shape(token)] for token in document]
    return [" ".join(shapes[a:b]) for b in range(len(shapes) + 1) for a in range(max(0, b - 6), b - 1)]


FEATURES = {
    "words": lambda pool, document: [token.lower() for token in document],
    "pairs": lambda pool, document: skeletons(pool, document, 2),
    "triples": lambda pool, document: skeletons(pool, document, 3),
    "letters": lambda pool, document: [gram for token in document for gram in letter_grams(token)],
    "shapes": lambda pool, document: shape_grams(document),
}


def mean_shares(sources, features) -> dict[str, Fraction]:
    shares: dict[str, Fraction] = {}
    for source in sources:
        for document in source:
            for feature in set(features(document)):
                shares[feature] = shares.get(feature, 0) + Fraction(1, len(source) * len(sources))
    return shares


limits = st.integers(0, 40)


@given(corpora, limits, limits, limits, limits, limits, st.integers(0, 6))
def test_the_most_widespread_of_each_view(sources, words, pairs, triples, letters, shapes, anchors):
    """As many as the settings allow, in the order of their shares; all that there are, if those are fewer."""
    # A corpus without any letter has no place here: see the next test.
    sources = [[*source, ["word"]] for source in sources]
    settings = NgramSettings(
        pool_words=words, pool_pairs=pairs, pool_triples=triples, pool_letters=letters, pool_shapes=shapes,
        anchors=anchors,
    )  # fmt: skip
    pool = pool_of(sources, settings)
    for (name, features), limit in zip(FEATURES.items(), (words, pairs, triples, letters, shapes), strict=True):
        shares = mean_shares(sources, lambda document, features=features: features(pool, document))
        found = [float(shares[entry]) for entry in getattr(pool, name)]
        assert found == pytest.approx(sorted(map(float, shares.values()), reverse=True)[:limit]), name
    everywhere = set.intersection(*({t.lower() for doc in source for t in doc} for source in sources))
    assert set(pool.anchors) <= everywhere
    assert len(pool.anchors) == min(anchors, len(everywhere))
    assert all(len(gram) in GRAM_LENGTHS for gram in pool.letters)


@given(corpora, st.randoms(use_true_random=False))
def test_equal_ones_are_always_in_the_same_order(sources, random):
    """The same numbers of types, the same pool: in whatever order documents of a source are looked at."""
    sources = [[*source, ["word"]] for source in sources]
    types = sorted({token for source in sources for document in source for token in document})
    shuffled = [random.sample(source, len(source)) for source in sources]
    assert pool_of(shuffled, types=types) == pool_of(sources, types=types)


def test_types_of_documents_that_are_not_looked_at_make_no_difference():
    """All types of the corpus have a number, those of validation documents too."""
    apart = pool_of(BY_HAND, types=["unseen", "the", "elsewhere", ","])
    alone = pool_of(BY_HAND, types=["the", ","])
    assert apart == alone
    assert "unseen" not in apart.words


SYMBOL_LISTS = st.lists(st.sampled_from(["word", "Name", "¶", ".·", ",·", "·“"]), max_size=12)


@given(st.lists(st.lists(SYMBOL_LISTS, min_size=1, max_size=4), min_size=1, max_size=3), limits)
def test_the_most_widespread_layout(sources, limit):
    """n-grams of one to five symbols; a document may have none."""

    def grams(document):
        return [" ".join(document[a : a + n]) for n in range(1, 6) for a in range(len(document) - n + 1)]

    shares = mean_shares(sources, grams)
    found = layout_of(sources, limit)
    assert len(set(found)) == len(found)
    expected = sorted(map(float, shares.values()), reverse=True)[:limit]
    assert [float(shares[gram]) for gram in found] == pytest.approx(expected)
    assert layout_of([source[::-1] for source in sources], limit) == found


# ---- odd texts ----


def test_a_lone_surrogate_cannot_be_written_down():
    pool = pool_of([[["a\ud800b", "the", "\udfff", "the"]]])
    assert pool.words == ("the",)
    assert pool.anchors == ("the",)
    assert not any("\ud800" <= char <= "\udfff" for gram in pool.letters for char in gram)
    assert "_a" in pool.letters


@pytest.mark.parametrize("document", ["1 2 . 3", ".", "7"])
def test_texts_without_a_letter(document):
    pool = pool_of([[document.split(" ")]])
    assert set(pool.words) == set(document.split(" "))
    assert pool.letters == ()
    assert len(pool.triples) == max(0, len(document.split(" ")) - 2)
