from hypothesis import given
from hypothesis import strategies as st
from support import tiny_vocabulary

from pan21av.data.masking import kept_words, mask, mask_token
from pan21av.data.ngrams import word_class
from pan21av.data.tokeniser import DEFAULT, find_tokeniser

WORDS = st.text(st.sampled_from("abcdefgilmnostuyABEGINST0123456789'.,-"), min_size=1, max_size=14)


def test_content_goes_and_structure_stays():
    kept = kept_words(tiny_vocabulary())
    assert kept == {"the", "of", "and", "to", "a", "in", ".", ","}
    tokens = ["The", "sleeping", "giants", "of", "Rome", ",", "1,234", "NATO", "cats", "quickly", "ran", "!"]
    text, share = mask(tokens, kept)
    assert text == "The xqxqxing xqxqxs of Xqxe , 0,101 XQXQ xqxs xqxqxly xqx !".replace("0,101", "0,010")
    assert share == 8 / 12


@given(WORDS)
def test_a_masked_token_is_of_its_class_and_length(token):
    masked = mask_token(token)
    assert len(masked) == len(token)
    assert word_class(masked) == word_class(token)
    assert mask_token(masked) == masked


@given(st.lists(WORDS, max_size=40).map(" ".join))
def test_masked_texts_are_cut_where_they_were(text):
    tokeniser = find_tokeniser(DEFAULT)
    tokens = tokeniser.tokenise(text)
    text, _ = mask(tokens, frozenset())
    again = tokeniser.tokenise(text)
    words = [token for token in tokens if token[0].isalpha()]
    assert [len(token) for token in again if token[0].isalpha()] == [len(token) for token in words]
