import json
import re
from dataclasses import replace
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import SHARED, needs_shared

from pan21av.data import tokeniser as tokeniser_module
from pan21av.data.layout import SYMBOLS, layout
from pan21av.data.tokeniser import (
    CHARS_PER_TOKEN,
    DEFAULT,
    MAX_PIECE,
    SPACES,
    UNREADABLE,
    Tokens,
    encode_all,
    encode_documents,
    find_tokeniser,
    unify,
)

GOLDEN = json.loads((Path(__file__).parent / "golden_tokens.json").read_text("utf-8"))
default = find_tokeniser(DEFAULT)
spaces = find_tokeniser(SPACES)
any_text = st.text(alphabet=st.characters(exclude_categories=()))
needed = tuple(map(int, GOLDEN["nltk"].split(".")))


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["why"])
def test_golden_tokens(case):
    """Other tokens need another name, as the weights of an ensemble are trained on these."""
    assert default.name == GOLDEN["tokeniser"]
    found = tuple(map(int, version("nltk").split(".")[:2]))
    assert found >= needed, f"these are tokens of NLTK {GOLDEN['nltk']} and later, whose \\w knows combining marks"
    assert default.tokenise(case["raw"]) == case["tokens"]


@pytest.mark.parametrize(
    ("one", "other"), [("“a”", '"a"'), ("it’s", "it's"), ("a – b", "a — b"), ("x…", "x ..."), ("-", "‐")]
)
def test_typography_is_unified(one, other):
    assert default.tokenise(one) == default.tokenise(other)


@given(any_text)
def test_nothing_but_spaces_is_lost(text):
    normalised = unify(text)
    tokens = default.tokenise(text)
    assert "".join(tokens) == "".join(normalised.split())
    assert [normalised[start:end] for start, end in default.spans(normalised)] == tokens
    assert all(tokens)


@given(st.lists(st.one_of(any_text, st.sampled_from(["don't", "n't", "'s", "a'll", "1,2", "--", "..", " "]))))
def test_words_that_come_again_are_cut_as_the_pattern_cuts(parts):
    """Tokens are remembered word by word; the pattern alone, over the whole text, says what is right."""
    text = " ".join([*parts, *parts])
    for tokeniser in (default, spaces):
        assert tokeniser.tokenise(text) == tokeniser.pattern.tokenize(tokeniser.normalise(text))


@needs_shared
def test_real_texts_are_cut_as_the_pattern_cuts():
    with (SHARED / "eval" / "fanfic-dev" / "pairs.jsonl").open(encoding="utf-8") as lines:
        texts = [text for line in islice(lines, 40) for text in json.loads(line)["pair"]]
    assert sum(map(len, texts)) > 100_000
    for text in texts:
        assert default.tokenise(text) == default.pattern.tokenize(default.normalise(text))


def test_few_words_are_remembered(monkeypatch):
    """Memory is bounded, whatever the texts are, and nothing else changes."""
    monkeypatch.setattr(tokeniser_module, "WORDS_REMEMBERED", 3)
    tokeniser = replace(default)
    words = [f"w{letter}" for letter in "abcdefgh"] + ["x" * 1000]
    for _ in range(2):
        assert tokeniser.tokenise(" ".join(words)) == [*words[:-1], "xxx"]
        assert len(tokeniser._cut) <= 3


@given(any_text)
def test_spaces_alone(text):
    assert spaces.tokenise(text) == text.split()
    normalised = spaces.normalise(text)
    assert [normalised[start:end] for start, end in spaces.spans(normalised)] == text.split()


@given(any_text, st.integers(1, 20), st.sampled_from([default, spaces]))
def test_limit_takes_the_beginning(text, limit, tokeniser):
    assert tokeniser.tokenise(text, limit) == tokeniser.tokenise(text)[:limit]


def test_what_is_beyond_the_limit_is_not_read():
    """Such a text must not cost a minute: characters beyond the limit change nothing, whatever they are."""
    read = ("word " * 100)[: CHARS_PER_TOKEN * 5]
    assert default.tokenise(read + "x" * 100, 5) == ["word"] * 5
    assert default.tokenise(" " * CHARS_PER_TOKEN * 5 + "unread", 5) == []


@given(st.lists(st.sampled_from("abc")))
def test_tokens_of_restore_the_document(tokens):
    made = Tokens.of(tokens)
    assert [made.types[i] for i in made.ids] == tokens
    assert len(set(made.types)) == len(made.types)


def test_documents_are_never_empty():
    empty, full = encode_all(["\u200b", "a b a"])
    assert empty.types == [UNREADABLE]
    assert empty.ids.tolist() == [0]
    assert full.types == ["a", "b"]
    assert full.ids.tolist() == [0, 1, 0]
    (cut,) = encode_all(["x-y z"], SPACES, limit=1)
    assert cut.types == ["x-y"]


def test_unknown_tokenisers():
    with pytest.raises(ValueError, match=r"unknown tokeniser 'pan21av-0'.*pan21av-1, published, spaces"):
        find_tokeniser("pan21av-0")


class Watched:
    """A pattern that keeps how much it was given at a time."""

    def __init__(self, pattern):
        self.pattern, self.longest = pattern, 0

    def tokenize(self, text):
        self.longest = max(self.longest, len(text))
        return self.pattern.tokenize(text)

    def span_tokenize(self, text):
        self.longest = max(self.longest, len(text))
        return self.pattern.span_tokenize(text)


@pytest.mark.parametrize("text", ["one (two) " * 60_000, "(x)" * 100_000])
def test_long_texts_are_read_in_pieces(text):
    """NLTK ends a match after five seconds, so none is given more than a piece, spaces or not."""
    watched = Watched(default.pattern)
    tokeniser = replace(default, pattern=watched)
    expected = re.findall(r"\w+|[()]", text)
    assert tokeniser.tokenise(text) == expected
    normalised = default.normalise(text)
    assert [normalised[start:end] for start, end in tokeniser.spans(normalised)] == expected
    assert watched.longest <= MAX_PIECE


@example([" " * 40, " " * 40, "b!"], 1)
@given(st.lists(st.sampled_from(["a", "b!", " " * 40, " ", "c" * 90])), st.integers(1, 4))
def test_what_was_cut_is_told(parts, limit):
    """However tokens are spread: near the end of what is looked at there may be more of them than before it."""
    text = "".join(parts)
    read = default.encode(text, limit)
    beginning = default.tokenise(text, limit + 1)
    assert [read.types[i] for i in read.ids] == (beginning[:limit] or [UNREADABLE])
    assert ("cut" in read.notes) == (len(beginning) > limit)
    share = int(re.search(r"(\d+)%", read.notes["cut"])[1]) if "cut" in read.notes else 0
    assert share <= 100


def test_how_much_was_read():
    assert default.encode("a b c d", 4).notes == {}
    assert default.encode("a b c d e", 4).notes == {"cut": "only its beginning was read: 4 tokens, 78% of it"}  # 7 of 9
    # Of 100 equal words, but seen are 5 tokens' worth of characters only.
    long = default.encode("word " * 100, 4).notes["cut"]
    assert long == "only its beginning was read: 4 tokens, 4% of it"


# ---- how a text was typed ----


def typed(tokens: Tokens) -> str:
    return " ".join(SYMBOLS[number] for number in tokens.layout)


def test_layout_is_of_the_text_before_it_is_cut_into_tokens():
    """Whose tokens are the same; and only where somebody asks."""
    texts = ["“Yes”—he  said…", '"Yes" -- he said ...']
    one, other = encode_all(texts, layout=True)
    assert one.words == other.words == ['"', "Yes", '"', "--", "he", "said", "..."]
    assert typed(one) == "·“ Name ” — word ·· word …·"
    assert typed(other) == '·" Name "· ·- -· word word ·. . .·'
    assert all(len(tokens.layout) == 0 for tokens in encode_all(texts))


def test_layout_of_a_text_in_which_nothing_can_be_read():
    (tokens,) = encode_all(["\u200b"], layout=True)
    assert (tokens.words, typed(tokens)) == ([UNREADABLE], "")


@given(st.lists(st.sampled_from(["a", "Bc", "12", "(", ".", ","]), max_size=40), st.integers(1, 20))
def test_no_more_layout_is_read_than_tokens(words, limit):
    """Up to the last one that is read."""
    (tokens,) = encode_all([" ".join(words)], SPACES, limit, layout=True)
    np.testing.assert_array_equal(tokens.layout, layout(" ".join(words[:limit])))


def test_layout_beyond_the_limit_is_not_read():
    """Of a text that is longer than what is looked at."""
    beginning = "One, two\nthree. "
    (tokens,) = encode_all([20 * beginning + 10_000 * "UNREAD! "], limit=10, layout=True)
    assert tokens.words == ["One", ",", "two", "three", "."] * 2
    assert typed(tokens) == "Name ,· word ¶ word .· Name ,· word ¶ word .·"


def test_layout_is_of_no_more_than_tokens_are_looked_for_in():
    blanks = " " * CHARS_PER_TOKEN * 6
    (tokens,) = encode_all([blanks + "unread, UNREAD!"], limit=5, layout=True)
    assert (tokens.types, len(tokens.layout)) == ([UNREADABLE], 0)


def test_layout_is_of_the_mended_text():
    """What is not the author's was not typed by the author."""
    page = "<p>One, two.</p>\n<p>Three.</p>"
    mended, _ = default.repaired(page)
    assert "<" not in mended
    found, raw = (encode_all([page], mend=mend, layout=True)[0] for mend in (True, False))
    np.testing.assert_array_equal(found.layout, layout(mended))
    np.testing.assert_array_equal(raw.layout, layout(page))


def test_layouts_of_several_texts_follow_each_other():
    """Each is cut by itself; no end of a line is typed between them."""
    ((*each,),) = encode_documents([["One, two.\n", "three! four five", "  “Six” "]], limit=4, layout=True)
    joined = Tokens.join(each)
    assert [typed(tokens) for tokens in each] == ["Name ,· word .·", "word !· word word", "·“ Name ”·"]
    assert typed(joined) == "Name ,· word .· word !· word word ·“ Name ”·"
    assert joined.words == ["One", ",", "two", ".", "three", "!", "four", "five", '"', "Six", '"']
    assert typed(Tokens.join(each[:1])) == typed(each[0])
