import pytest
from hypothesis import given
from hypothesis import strategies as st

from pan21av.text import Tokens, normalise, tokenise, window_spans


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        ("“Don’t!” she said.", ['"', "Do", "n't", "!", '"', "she", "said", "."]),
        ("can't you'll I'd we've", ["ca", "n't", "you", "'ll", "I", "'d", "we", "'ve"]),
        ("wait—no – yes -- maybe", ["wait", "--", "no", "--", "yes", "--", "maybe"]),
        ("well… so. . . on.....", ["well", "...", "so", "...", "on", "..."]),
        ("soooooo loud!!!!!!!!", ["sooo", "loud", "!!!"]),
        ("well-known", ["well", "-", "known"]),
        ("3,000.50 at 10:30", ["3,000.50", "at", "10:30"]),
        ("_really_ ‘odd’", ["really", "'", "odd", "'"]),
        ('don"t, it"s "quoted"', ["do", "n't", ",", "it", "'s", '"', "quoted", '"']),
        ("''old'' style", ['"', "old", '"', "style"]),
        ("naïve café 你好", ["naïve", "café", "你好"]),
        ("", []),
        (" \n\t\x00 ", []),
    ],
)
def test_tokens(raw, tokens):
    assert tokenise(raw) == tokens


@pytest.mark.parametrize(
    ("one", "other"), [("“a”", '"a"'), ("it’s", "it's"), ("a – b", "a — b"), ("x…", "x ..."), ("-", "‐")]
)
def test_typography_is_unified(one, other):
    assert tokenise(one) == tokenise(other)


@given(st.text())
def test_any_text(text):
    tokens = tokenise(text)
    assert all(token and not token.isspace() and " " not in token for token in tokens)
    assert normalise(normalise(text)) == normalise(text) or tokenise(normalise(text)) == tokens


@given(st.text(alphabet=st.characters(exclude_categories=())), st.integers(1, 20))
def test_limit_takes_the_beginning(text, limit):
    assert tokenise(text, limit) == tokenise(text)[:limit]


def test_huge_text_is_cut_early():
    assert len(tokenise("word " * 12_000_000, 5464)) == 5464


@given(st.lists(st.sampled_from("abc")))
def test_tokens_of_restore_the_document(tokens):
    made = Tokens.of(tokens)
    assert [made.types[i] for i in made.ids] == tokens
    assert len(set(made.types)) == len(made.types)


@given(st.integers(0, 700), st.integers(1, 40), st.integers(1, 40), st.integers(1, 30))
def test_windows_cover_every_token_up_to_the_limit(tokens, size, hop, limit):
    hop = min(hop, size)
    spans = window_spans(tokens, size, hop, limit)
    covered = {position for start, length in spans for position in range(start, start + length)}
    assert covered == set(range(min(tokens, (limit - 1) * hop + size)))
    assert len(spans) <= limit
    assert all(1 <= length <= size for _, length in spans)
    assert [start for start, _ in spans] == [hop * i for i in range(len(spans))]
