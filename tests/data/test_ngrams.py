"""The rules of n-grams, by hand; and which pools are none."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import TINY, tiny_pool, tiny_vocabulary

from pan21av.data.batch import batch_of
from pan21av.data.layout import SYMBOLS
from pan21av.data.ngrams import (
    CLASSES,
    GAP_BINS,
    LENGTHS,
    MARKS,
    MAX_GAP,
    SHAPE_BITS,
    SHAPES,
    VIEWS,
    Pool,
    gap_bin,
    is_letter_gram,
    letter_grams,
    mark,
    shape,
    shape_gram,
    shape_number,
    word_class,
)  # fmt: skip
from pan21av.data.tokeniser import Tokens
from pan21av.data.vocabulary import Vocabulary

# ---- rules ----


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("1999", "<number>"), ("3,14", "<number>"), ("2nd", "<number>"), ("²", "<number>"), ("٣", "<number>"),
        (",", "<sign>"), ("--", "<sign>"), ("'", "<sign>"), ("½", "<sign>"), ("€", "<sign>"), ("\ufffd", "<sign>"),
        (chr(0xD800), "<sign>"), ("𝐀𝐁", "<sign>"), ("😀", "<sign>"),
        ("USA", "<CAPITALS>"), ("OK", "<CAPITALS>"), ("U.S.", "<CAPITALS>"), ("A4", "<CAPITALS>"),
        ("ÉCOLE", "<CAPITALS>"), ("N'T", "<CAPITALS>"),
        ("A", "<Name-short->"), ("Bob", "<Name-short->"), ("Élan", "<Name-short->"), ("İstanbul", "<Name-long->"),
        ("iPhone", "<word-middle-e>"), ("McDonalds", "<Name-long-s>"),
        ("ß", "<word-short->"), ("ǅep", "<word-short->"),  # titlecase is not upper case
        ("word", "<word-short->"), ("words", "<word-middle-s>"), ("cartoon", "<word-middle->"),
        ("cartoons", "<word-long-s>"), ("'ll", "<word-short->"), ("n't", "<word-short->"), ("中文", "<word-short->"),
    ],
)  # fmt: skip
def test_classes(token, expected):
    assert CLASSES[word_class(token)] == expected


@pytest.mark.parametrize(
    ("token", "ending"),
    [
        ("singing", "ing"), ("station", "tion"), ("goodness", "ness"), ("moment", "ment"), ("awful", "ful"),
        ("biggest", "est"), ("walked", "ed"), ("quickly", "ly"), ("river", "er"), ("final", "al"), ("cats", "s"),
        ("city", "y"), ("house", "e"), ("window", ""), ("SiNGiNG", "ing"),
        # An ending with a single letter before it is none; a shorter ending may be one.
        ("king", ""), ("being", "ing"), ("ament", ""), ("red", ""), ("fled", "ed"), ("her", ""), ("over", "er"),
        ("is", ""), ("his", "s"), ("he", ""), ("the", "e"), ("my", ""), ("fly", "y"), ("ally", "ly"),
        # The longer one counts.
        ("stations", "s"), ("happiness", "ness"), ("rested", "ed"), ("early", "ly"), ("actress", "s"),
    ],
)  # fmt: skip
def test_endings(token, ending):
    assert CLASSES[word_class(token)].strip("<>").split("-")[2] == ending


def test_sizes():
    sizes = [CLASSES[word_class("o" * n)].split("-")[1] for n in range(1, 10)]
    assert sizes == ["short"] * 4 + ["middle"] * 3 + ["long"] * 2


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("The", "_t th he e_ _th the he_ _the the_"),
        ("a", "_a a_ _a_"),
        ("Éa", "_é éa a_ _éa éa_ _éa_"),
        ("\u0130", "_i i\u0307 \u0307_ _i\u0307 i\u0307_ _i\u0307_"),  # two characters in lower case
        ("1a", ""), ("'ll", ""), ("...", ""), ("\ud800a", ""), ("𝐀", ""),
    ],
)  # fmt: skip
def test_letters(token, expected):
    assert sorted(letter_grams(token)) == sorted(expected.split())


def test_letters_of_a_long_word():
    """Its first twenty: 21 pairs, 20 triples and 19 quadruples."""
    grams = letter_grams("abcdefghijklmnopqrstuvwxyz")
    assert len(grams) == 21 + 20 + 19
    assert {"_abc", "qrst", "rst_", "t_"} <= set(grams)
    assert not {"tu", "stu", "yz", "z_"} & set(grams)


@pytest.mark.parametrize(("gram", "sound"), [("a", 0), ("ab", 1), ("abcd", 1), ("abcde", 0), ("a𝐀", 0), ("", 0)])
def test_what_a_letter_gram_is(gram, sound):
    assert is_letter_gram(gram) == bool(sound)


def test_marks():
    assert MARKS == ("sentence end", "comma", "quote")
    found = {
        token: mark(token) for token in (".", "...", "!", "?", "!!", "?!", ",", '"', "..", ";", "'", ",,", "a", "—")
    }
    ends = dict.fromkeys((".", "...", "!", "?", "!!", "?!"), 1)
    assert found == ends | {",": 2, '"': 3} | dict.fromkeys(("..", ";", "'", ",,", "a", "—"), 0)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("word ß n't iPhone ǅep 中文 o", "word"),
        ("Bob A Élan McDonalds", "Name"),
        ("USA OK U.S. A4 ÉCOLE", "CAPITALS"),
        ("1999 3,14 2nd ²", "number"),
        ("'ll 's 'LL", "'s"),
        ("½ € 😀 𝐀𝐁 .. ,, ?! ----", "sign"),
        ("I", "I"), ("i", "i"), (".", "."), ("...", "..."), ("--", "--"), ("!!!", "!!!"), ("'", "'"), ('"', '"'),
    ],
)  # fmt: skip
def test_shapes(tokens, expected):
    assert {SHAPES[shape(token)] for token in tokens.split()} == {expected}


@given(st.lists(st.sampled_from(SHAPES), min_size=2, max_size=6))
def test_n_grams_of_shapes_as_numbers(symbols):
    """In base 64, a number of which the length is the highest place."""
    gram = " ".join(symbols)
    digits = [len(symbols), *[0] * (6 - len(symbols)), *map(SHAPES.index, symbols)]
    assert shape_number(gram) == sum(digit * 64**place for place, digit in enumerate(reversed(digits)))
    assert shape_gram(shape_number(gram)) == gram


def test_every_shape_has_a_number_of_its_own_that_fits():
    assert len(set(SHAPES)) == len(SHAPES) <= 1 << SHAPE_BITS


def test_gaps_have_two_bins_to_an_octave():
    """Bin b begins where the square of the gap reaches 2^b."""
    for gap in range(1, MAX_GAP + 1):
        assert gap_bin(gap) == min(GAP_BINS - 1, (gap * gap).bit_length() - 1)
    assert gap_bin(MAX_GAP) == GAP_BINS - 1


# ---- frequencies ----


POOL = Pool(
    ("the", "cat", "dog"),
    ("the", "and", ",", "."),
    ("the <word-short->", "the <word-short-s>", "the the"),
    ("<word-short-s> and <Name-short->", "the the the", "<word-short-> , the"),
    ("th", "at", "_c", "at_", "he_", "zz"),
    ("word ,", "word word", "Name word , word word word", "Name word .", "I I"),
    ("word", ",· word", "¶¶", "Name ,· word ¶¶ Name"),
)


def view(pool: Pool, counts: np.ndarray, name: str) -> list[float]:
    return counts[pool.views[name]].tolist()


def shares(*counts: int, of: int) -> list[float]:
    return [float(np.float32(count / of)) for count in counts]


def test_views_follow_each_other():
    bounds = [(where.start, where.stop) for where in POOL.views.values()]
    assert tuple(POOL.views) == VIEWS
    assert [stop - start for start, stop in bounds] == [3, 4 + 87, 3, 3, 6, 45, 16, 5, 4]
    assert bounds[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(bounds))
    assert len(POOL) == bounds[-1][1] == 176


def test_a_sentence_by_hand():
    counts = POOL.count(["The", "cat", ",", "the", "cats", "and", "Bob", "sat", "."])
    assert counts.dtype == np.float32
    assert view(POOL, counts, "words") == shares(2, 1, 0, of=9)
    symbols = dict(zip(POOL.symbols, view(POOL, counts, "symbols"), strict=True))
    found = {symbol: share for symbol, share in symbols.items() if share}
    once, twice = shares(1, 2, of=9)
    assert found == {
        "the": twice, "<word-short->": twice, ",": once, "and": once, ".": once, "<word-short-s>": once,
        "<Name-short->": once,
    }  # fmt: skip
    assert view(POOL, counts, "pairs") == shares(1, 1, 0, of=8)
    assert view(POOL, counts, "triples") == shares(1, 0, 1, of=7)
    # "the" has th and he_ twice; "cat" _c, at and at_; "cats" _c and at; "sat" at and at_. Others are not counted.
    assert view(POOL, counts, "letters") == shares(2, 3, 2, 2, 2, 0, of=11)
    gaps = np.zeros((len(MARKS), GAP_BINS))
    gaps[0, 6] = gaps[1, 3] = 1 / 2  # nine tokens up to ".", 2^6 <= 81 < 2^7; three up to ",", 2^3 <= 9 < 2^4
    assert view(POOL, counts, "gaps") == gaps.flatten().tolist()
    lengths = [0.0] * LENGTHS
    lengths[3 - 1], lengths[4 - 1] = shares(6, 1, of=7)
    assert view(POOL, counts, "lengths") == lengths
    # Name word , word word word Name word . : over the nine tokens.
    assert view(POOL, counts, "shapes") == shares(1, 2, 1, 1, 0, of=9)
    # Tokens alone do not say how they were typed.
    assert view(POOL, counts, "layout") == [0] * 4


def test_layout_stands_beside_the_tokens_and_changes_nothing_of_them():
    """Over symbols, of which a text has other numbers than of tokens: "Yes, no" and "Well", a blank line between."""
    tokens = ["Yes", ",", "no", "Well"]
    typed = np.array([SYMBOLS.index(symbol) for symbol in ("Name", ",·", "word", "¶¶", "Name")], dtype=np.uint8)
    counts, alone = POOL.count(tokens, typed), POOL.count(tokens)
    assert view(POOL, counts, "layout") == shares(1, 1, 1, 1, of=5)
    assert all(view(POOL, counts, name) == view(POOL, alone, name) for name in VIEWS if name != "layout")


def test_gaps_of_marks_that_come_again():
    counts = POOL.count(['"', "a", '"', "b", "c", ".", "d", "?!"])
    gaps = np.zeros((len(MARKS), GAP_BINS))
    gaps[2, 0] = gaps[2, 2] = gaps[0, 5] = gaps[0, 2] = 1 / 4  # gaps of 1, 2, 6 and 2 tokens
    assert view(POOL, counts, "gaps") == gaps.flatten().tolist()
    # Ever so long a gap is in the last bin.
    counts = POOL.count(["a"] * 5000 + ["."])
    assert view(POOL, counts, "gaps")[GAP_BINS - 1] == 1


def test_long_words_share_the_last_length():
    counts = POOL.count(["o" * 15, "o" * 16, "o" * 99, "1234", "."])
    assert view(POOL, counts, "lengths") == [*[0.0] * 14, *shares(1, 2, of=3)]


@pytest.mark.parametrize("tokens", [[], ["dog"], ["!"], ["the", "the"]])
def test_texts_that_are_too_short_for_some_views(tokens):
    counts = POOL.count(tokens)
    assert np.isfinite(counts).all()
    empty = {"words", "symbols"} if not tokens else set()
    empty |= {"pairs"} if len(tokens) < 2 else set()
    assert not any(counts[POOL.views[name]].any() for name in empty | {"triples"})


@given(st.lists(st.sampled_from(["the", "The", "cat", "cats", ",", ".", '"', "and", "12", "'s"]), max_size=60))
def test_views_are_distributions(tokens):
    """Where everything belongs to a view, its shares sum to one; elsewhere to less."""
    counts = POOL.count(tokens)
    for name in VIEWS:
        total = counts[POOL.views[name]].astype(float).sum()
        assert total <= (5 if name == "shapes" else 1) + 1e-5  # shapes have one n-gram of each length at a token
        if name in ("symbols", "lengths", "gaps", "letters") and total:
            assert total == pytest.approx(1, abs=1e-5)


def test_anchors_in_any_case():
    assert [POOL.symbols[POOL.symbol(token)] for token in ("THE", "The", "the", ",")] == ["the", "the", "the", ","]
    assert POOL.symbols[POOL.symbol("THEN")] == "<CAPITALS>"
    # Who writes the name of a class has not written a word of it.
    assert POOL.symbols[POOL.symbol("<number>")] == "<sign>"
    assert POOL.count(["<number>"])[POOL.views["symbols"]][POOL.symbol_ids["<sign>"]] == 1


# ---- pools ----


def changed(**fields) -> Pool:
    return Pool(**{**{name: getattr(POOL, name) for name in Pool.FIELDS}, **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"words": ("a", "b", "a")}, "list some words twice"),
        ({"anchors": ("the", "and", ",", ".", "the")}, "list some anchors twice"),
        ({"pairs": ("the the", "the the")}, "list some pairs twice"),
        ({"letters": ("ab", "ab")}, "list some letters twice"),
        ({"pairs": ("the",)}, "'the' is no skeleton of 2 symbols"),
        ({"pairs": ("the the the",)}, "'the the the' is no skeleton of 2 symbols"),
        ({"pairs": ("the  the",)}, "is no skeleton of 2 symbols"),
        ({"pairs": ("the cat",)}, "'the cat' is no skeleton of 2 symbols"),  # "cat" is no anchor
        ({"triples": ("the the",)}, "'the the' is no skeleton of 3 symbols"),
        ({"triples": ("the <word-tiny-> the",)}, "is no skeleton of 3 symbols"),
        ({"letters": ("a",)}, "letter n-grams have 2 to 4 letters"),
        ({"letters": ("th", "abcde")}, "letter n-grams have 2 to 4 letters"),
        ({"letters": ("a𝐀",)}, "letter n-grams have"),
        ({"shapes": ("word ,", "word ,")}, "list some shapes twice"),
        ({"shapes": ("word",)}, "'word' is no n-gram of shapes"),
        ({"shapes": ("word word word word word word word",)}, "is no n-gram of shapes"),
        ({"shapes": ("word the",)}, "'word the' is no n-gram of shapes"),
        ({"shapes": ("word  ,",)}, "is no n-gram of shapes"),
        ({"layout": ("word", "word")}, "list some layout twice"),
        ({"layout": ("the",)}, "'the' is no n-gram of layout"),
        ({"layout": ("word , · word",)}, "is no n-gram of layout"),
        ({"layout": ("word word word word word word",)}, "is no n-gram of layout"),
    ],
)
def test_pools_that_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        changed(**fields)


def test_a_pool_of_nothing_has_what_every_pool_has():
    pool = Pool((), (), (), (), ())
    assert len(pool) == 87 + 45 + 16
    assert pool.count(["a", "b"])[pool.views["symbols"]].sum() == 1


def as_lists(**fields) -> dict[str, object]:
    return {**{name: list(getattr(POOL, name)) for name in Pool.FIELDS}, **fields}


@pytest.mark.parametrize("value", [None, "abc", {"a": 1}, ["the", 3], ["the", None], ["the", ""], [["the"]]])
@pytest.mark.parametrize("name", Pool.FIELDS)
def test_lists_that_are_none(name, value):
    with pytest.raises(ValueError, match=f"{name} of the n-grams must be a list of strings"):
        Pool.from_dict(as_lists(**{name: value}))


def test_a_list_that_is_missing():
    for name in Pool.FIELDS:
        values = as_lists()
        del values[name]
        with pytest.raises(ValueError, match=f"{name} of the n-grams must be"):
            Pool.from_dict(values)


# ---- in a vocabulary ----


def test_a_vocabulary_keeps_its_pool():
    vocabulary = tiny_vocabulary()
    read = Vocabulary.from_json(vocabulary.to_json())
    assert read == vocabulary
    assert read.ngrams == tiny_pool()
    assert read.ngrams.views == tiny_pool().views
    odd = Vocabulary(("a",), ("a",), ngrams=changed(words=("é", "ß", "中", "\u0307", "𝐀")))
    assert Vocabulary.from_json(odd.to_json()) == odd
    assert odd.sha256 != Vocabulary(("a",), ("a",), ngrams=POOL).sha256


def test_a_vocabulary_without_a_pool():
    """As in the paper: nothing of it is written, and nobody can count."""
    vocabulary = Vocabulary(("a",), ("a",))
    assert b"ngrams" not in vocabulary.to_json()
    read = Vocabulary.from_json(vocabulary.to_json())
    assert read == vocabulary
    assert read.ngrams is None
    with pytest.raises(ValueError, match="has no n-grams"):
        vocabulary.counter  # noqa: B018
    assert batch_of([Tokens.of(["a"])], vocabulary, TINY).ngrams is None


@pytest.mark.parametrize("ngrams", [b'["the"]', b'"the"', b"3", b"[]", b'{"words": []}'])
def test_vocabularies_whose_pool_is_none(ngrams):
    data = b'{"words": [], "chars": [], "lowercase": true, "ngrams": ' + ngrams + b"}"
    with pytest.raises(ValueError, match=r"n-?grams"):
        Vocabulary.from_json(data)
