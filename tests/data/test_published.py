"""How the authors' program reads a text: its replacements, written out here as published, and spaCy's rules."""

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan21av.data import published
from pan21av.data.published import MAX_WORD, EnglishRules, normalise
from pan21av.data.tokeniser import PUBLISHED, encode_all, find_tokeniser
from pan21av.errors import EnvironmentFault

spacy = pytest.importorskip("spacy", reason="the extra `published` is not installed")
tokeniser = find_tokeniser(PUBLISHED)
# Much of what the rules are about, and what they are not.
texts = st.lists(
    st.sampled_from(
        [*"abZé '\"-.,!?~:;()\n\t", "''", "--", "...", ",~~", "don't", "Mr.", "U.S.", ":)", "1.5", "\u00a0"]
    )
).map("".join)


def as_published(text):
    """Step by step, nothing made clever."""
    text = text.replace('"', "'")
    text = re.sub("'{2,}", " ' ' ", text)
    for sign in "-.!,":
        text = re.sub(re.escape(sign) + "{2,}", f" {sign}{sign} ", text)
    text = text.replace(",'", ", '")
    text = re.sub(",~{2,}", " ~~ ", text)
    text = re.sub(r"([^\n])\1\1\1+", lambda run: 3 * run[1], text)
    text = re.sub("([a-zA-Z])([!?:,-])([a-zA-Z])", r"\1 \2 \3", text)
    text = re.sub("([a-zA-Z])([!?.:,()-])", r"\1 \2", text)
    return re.sub("([!?.:,()-])([a-zA-Z])", r"\1 \2", text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"', "'"),
        ("a''''b", "a ' ' b"),
        ('he said ""', "he said  ' ' "),
        ("so---then", "so -- then"),
        ("so....then", "so .. then"),
        ("so!!!then", "so !! then"),
        ("so,,,then", "so ,, then"),
        ("1,'2", "1, '2"),
        ("1,~~~2", "1 ~~ 2"),
        ("1~~~~~2", "1~~~2"),
        ("sooooo", "sooo"),
        ("a\n\n\n\n\nb", "a\n\n\n\n\nb"),
        ("a:b", "a : b"),
        ("a.b", "a . b"),
        ("(a) 1,5", "( a ) 1,5"),
        ("é-é", "é-é"),  # ASCII letters only
        ("Case “kept”", "Case “kept”"),
    ],
)
def test_every_replacement(text, expected):
    assert normalise(text) == expected
    assert as_published(text) == expected


@given(texts)
def test_in_the_published_order(text):
    assert normalise(text) == as_published(text)


@pytest.fixture(scope="module")
def blank():
    return spacy.blank("en")


@given(texts)
def test_word_by_word_is_what_spacy_does_to_the_whole(blank, text):
    """Joined and split again at white space, as the program does."""
    expected = " ".join(token.text for token in blank(as_published(text))).split()
    assert tokeniser.tokenise(text) == expected
    normalised = tokeniser.normalise(text)
    assert [normalised[start:end] for start, end in tokeniser.spans(normalised)] == expected


def test_by_hand():
    text = "She said: \"I don't know, Mr. Fox...\" -- WELL!!!! It cost 5kg\u00a0of gold,can't it?\n\n:)"
    assert tokeniser.tokenise(text) == [
        "She", "said", ":", "'", "I", "do", "n't", "know", ",", "Mr", ".", "Fox", "..", "'", "--", "WELL", "!", "!",
        "It", "cost", "5", "kg", "of", "gold", ",", "ca", "n't", "it", "?", ":)",
    ]  # fmt: skip


def test_a_long_word_is_cut_and_what_was_met_is_forgotten(monkeypatch):
    """spaCy takes minutes for 30,000 signs in a row; and it would keep every word of a corpus."""
    given_to_spacy, made = [], []
    load = published._load_english

    def watched():
        made.append(cut := load())
        return lambda text: given_to_spacy.append(len(text)) or cut(text)

    monkeypatch.setattr(published, "_load_english", watched)
    monkeypatch.setattr(published, "MAX_KNOWN", 5)
    rules = EnglishRules()
    assert "".join(rules.tokenize("!?" * 500)) == "!?" * 500
    assert max(given_to_spacy) == MAX_WORD
    words = [f"word{number}" for number in range(12)]
    assert rules.tokenize(" ".join(words)) == words
    assert len(made) == 3, "13 words, at most 5 of them remembered"
    before = len(given_to_spacy)
    rules.tokenize("word11 word11")
    assert len(given_to_spacy) == before, "met before"


def test_nothing_is_repaired():
    """The program reads mark-up and headers as they stand."""
    assert not tokeniser.mends
    (tokens,) = encode_all(["<b>Hi</b>"], PUBLISHED)
    assert "".join(tokens.types) == "".join(dict.fromkeys(tokeniser.tokenise("<b>Hi</b>")))
    assert "<" in "".join(tokens.types)


def test_without_spacy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(published.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EnvironmentFault, match=r"needs spaCy: pip install 'pan21av\[published\]'$"):
        find_tokeniser(PUBLISHED)


@pytest.mark.slow
def test_what_a_worker_loads():
    """spaCy when the first text is read, and torch, which it would take along, never."""
    script = (
        "import sys; from pan21av.data.tokeniser import encode_all, PUBLISHED; print('spacy' in sys.modules);"
        "encode_all(['It works.'], PUBLISHED); print('spacy' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "False"]
