from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import tiny_vocabulary

from pan21av.data.masking import Masking
from pan21av.data.ngrams import Pool, word_class
from pan21av.data.tokeniser import DEFAULT, find_tokeniser
from pan21av.data.vocabulary import Vocabulary

ANCHORS = ("the", "of", "and", "to", ".", ",")
VOCABULARY = Vocabulary(
    ("the", "of", "city", "mind", "giving", "taking", "Rome", "Kent", "cats", "don't", "Nile", "NATO"),
    tuple("abc"), lowercase=False, ngrams=Pool(("the",), ANCHORS, (), (), ()),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _few_kept(monkeypatch):
    """So small a vocabulary has hardly any words that are not common."""
    monkeypatch.setattr("pan21av.data.masking.KEPT_WORDS", 1)


WORDS = st.text(st.sampled_from("abcdefgilmnostuyABEGINST0123456789'.,-"), min_size=1, max_size=14)


def test_content_goes_and_structure_stays():
    tokens = ["The", "sending", "of", "dogs", "to", "Bath", ",", "1,234", "OPEC", "giraffes", "!"]
    masked, share = Masking(VOCABULARY).mask(tokens, 0)
    assert len(masked) == len(tokens)
    for place in (0, 2, 4, 6, 10):
        assert masked[place] == tokens[place]
    assert masked[1] in ("giving", "taking")
    assert masked[3] == "cats"
    assert masked[5] == "Kent"  # "Rome" and "Nile" end in e
    assert masked[7][1] == ","
    assert len(masked[7]) == 5
    assert masked[8] == "NATO"
    assert masked[9] == "xqxqxqxq"  # no word of its class is known
    assert share == 5 / 11


def test_common_words_come_more_often():
    """By Zipf's law: the third and the fourth of the vocabulary, one word of which has an ending."""
    vocabulary = Vocabulary(("the", "moon", "mind", "wind"), ("a",), ngrams=Pool(("the",), ("the",), (), (), ()))
    masked, _ = Masking(vocabulary).mask(["fish"] * 13_000, 1)
    counts, total = Counter(masked), 1 / 2 + 1 / 3 + 1 / 4
    for word, rank in (("moon", 2), ("mind", 3), ("wind", 4)):
        assert abs(counts[word] / 13_000 - 1 / rank / total) < 0.02


def test_what_is_common_stays(monkeypatch):
    monkeypatch.setattr("pan21av.data.masking.KEPT_WORDS", 4)
    assert Masking(VOCABULARY).kept == {*ANCHORS, "city", "mind"}
    assert Masking(VOCABULARY).mask(["City", "n't", "'ll", "She's"], 0) == (["City", "n't", "'ll", "She's"], 0)


def test_other_seeds_draw_other_words():
    masking, tokens = Masking(VOCABULARY), ["sending"] * 50
    assert masking.mask(tokens, 1) == masking.mask(tokens, 1)
    assert masking.mask(tokens, 1) != masking.mask(tokens, 2)


@given(st.lists(WORDS, max_size=40).map(" ".join))
def test_exchanged_texts_are_cut_where_they_were(text):
    """And every word is of the class it was, where the vocabulary has one."""
    tokeniser, masking = find_tokeniser(DEFAULT), Masking(tiny_vocabulary())
    tokens = tokeniser.tokenise(text)
    masked, _ = masking.mask(tokens, 0)
    assert len(masked) == len(tokens)
    for one, other in zip(tokens, masked, strict=True):
        if one[0].isalpha() and word_class(one) in masking.words:
            assert word_class(other) == word_class(one)
    words = [token for token in masked if token[0].isalpha()]
    assert [token for token in tokeniser.tokenise(" ".join(masked)) if token[0].isalpha()] == words
