"""What is left of a text without its words: counted by hand, and the fast way against the plain one."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import needs_native

from pan21av.data import layout
from pan21av.data.counting import layout_of
from pan21av.data.layout import LENGTHS, SYMBOLS, count, gram_number, gram_numbers, gram_of, is_gram

TYPED = st.sampled_from([*"aAbB01 \n\r\t.,!\"'—…\u00ad\u200b\ufeff\u2028\u3000é😀\x00_*ʰǅ½", "\r\n", "\ud800", " \n "])


def read(text: str) -> str:
    return " ".join(SYMBOLS[number] for number in layout.layout(text))


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("", ""),
        (" \n\t ", ""),
        ("one two", "word word"),
        ("One  two", "Name ·· word"),
        ("one\ttwo", "word ·· word"),
        ("ONE I A", "CAPITALS Name Name"),
        ("aB BA Ba", "word CAPITALS Name"),
        ("7 1999 4A", "number number number Name"),
        ("one\ntwo", "word ¶ word"),
        ("one \n\n two", "word ¶¶ word"),
        ("one\r\n\r\n\r\n\r\ntwo", "word ¶¶¶ word"),
        ("one\rtwo", "word ¶ word"),
        ("  one\n", "word"),
        ("Yes, no.", "Name ,· word .·"),
        ("yes ,no", "word ·, word"),
        ("yes - no", "word ·-· word"),
        ("yes-no", "word - word"),
        ("“Yes.”", "·“ Name . ”·"),
        ('"Yes."', '·" Name . "·'),
        ("no...", "word . . .·"),
        ("no… no", "word …· word"),
        ("don't", "word ' word"),
        ("so\u00adft\u200b", "word"),
        (".\u200b a", "·.· word"),
        ("(a)\n—b", "·( word )· ¶ ·— word"),
        ("☃ a", "·sign· word"),
        ("中文", "word"),
    ],
)
def test_by_hand(text, symbols):
    assert read(text) == symbols


@needs_native
@given(st.lists(TYPED, max_size=30).map("".join))
@example("".join(map(chr, range(0x10000))))
@example("".join(f"a{chr(code)} " for code in range(0x10000)))
def test_native_and_plain_are_the_same(text):
    np.testing.assert_array_equal(layout_of(text), layout.layout(text))


def test_every_symbol_is_one():
    assert len(set(SYMBOLS)) == len(SYMBOLS) < 1 << layout.BITS
    assert not any(" " in symbol for symbol in SYMBOLS)


@given(st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=LENGTHS[-1]))
def test_grams_have_numbers(symbols):
    gram = " ".join(symbols)
    assert is_gram(gram)
    assert gram_of(gram_number(gram)) == gram
    assert gram_number(gram) < 1 << 63


@pytest.mark.parametrize("gram", ["", "word  word", "nothing", "word word word word word word"])
def test_what_is_no_gram(gram):
    assert not is_gram(gram)


def test_frequencies_are_over_symbols():
    symbols = layout.layout("One, two, three.")  # Name ,· word ,· word .·
    found = count(symbols, ["word", ",·", ",· word", "Name ,· word ,· word", "¶"])
    np.testing.assert_allclose(found, np.array([2, 2, 2, 1, 0]) / 6)
    assert len(gram_numbers(symbols)) == 6 + 5 + 4 + 3 + 2
    assert not count(layout.NO_LAYOUT, ["word"]).any()
