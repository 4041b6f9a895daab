"""The fast way to count n-grams is the plain one, to the last bit."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import TINY_FULL, needs_native, tiny_pool, tiny_vocabulary

from pan21av.data import counting
from pan21av.data.batch import batch_of
from pan21av.data.counting import Counter, library
from pan21av.data.layout import SYMBOLS
from pan21av.data.ngrams import CLASSES, MAX_GAP, Pool
from pan21av.data.tokeniser import Tokens

# Words that differ in one rule only, marks, and characters for which upper, lower and title case are odd.
ODD = [
    "the", "The", "THE", "and", "An", "A", "I", "a", "king", "being", "stations", "Station", "his", "is", "'s", "'",
    "'LL", "n't", "McDonalds", "iPhone", "U.S.", "A4", "4A", "1999", "²", "½", "٣", ".", "..", "...", "....", ",", ",,",
    '"', "!", "!?", "?!", ";", "<number>", "<Name-short->", "_", "__", "a_b", "İ", "İs", "ßs", "ß", "ẞ", "ﬁ", "ǅ", "ǅe",
    "Ǆ", "ǆ", "ŉ", "Σς", "ΑΣ", "é", "e\u0301", "É", "𝐀", "a𝐀b", "𝐀b", "😀", "\uffff", "a\uffffb", "a\ufffeb", "中文",
    "\ud800", "a\ud800", "\udfffb", "a" * 19, "a" * 20, "a" * 21, "th" * 30, "antidisestablishmentarianism", "ʰa", "ªb",
    "a\U00010061a",  # "aaa" in the lower 16 bits
]  # fmt: skip
# Control characters do not come out of a tokeniser.
LETTERS = st.characters(exclude_categories=("Cc",)) | st.characters(categories=("Cs", "Lt", "Lm", "Nd", "No"))
TOKENS = st.sampled_from(ODD) | st.text(LETTERS, min_size=1, max_size=30)
POOL = Pool(
    ("the", "i̇s", "ß", "é", "e\u0301", "'s", ".", "中文", "a𝐀b", "σς", "nothing"),
    ("the", "and", ",", ".", "...", "'s", "i̇", "ǆe", "ß", "😀"),
    ("the and", "and the", ". <Name-short->", "<sign> <sign>", "<number> the", "😀 ß", "<word-short-> <word-short->"),
    ("the and the", "<sign> <sign> <sign>", ", the <word-short-s>", "😀 😀 😀", "<CAPITALS> . <number>"),
    ("th", "the", "_the", "he_", "_a_", "aa", "aaaa", "aa_", "i̇", "_i̇", "ß_", "_ß_", "中文", "_中", "é_", "_e\u0301_",
     "__", "a_", "a_b", "a\ufffeb", "ς_", "σς", "ʰa"),
    ("word word", "Name word", "CAPITALS CAPITALS", "I number", "i , .", "sign sign sign", ". . . .", "word 's word",
     "' \" ! ; word", "word word word word word word", "Name , word word word .", "sign word"),
    ("word", ".·", "·“ Name", "¶¶ word", "word ,· word word word", "sign ··"),
)  # fmt: skip


def documents_of(texts: list[list[str]]) -> tuple[list[str], list[np.ndarray]]:
    """Distinct tokens of all texts, and the texts as numbers of them."""
    index: dict[str, int] = {}
    documents = [[index.setdefault(token, len(index)) for token in text] for text in texts]
    return list(index), [np.array(document, dtype=np.int32) for document in documents]


def counted(pool: Pool, texts: list[list[str]], *, native: bool) -> np.ndarray:
    types, documents = documents_of(texts)
    counter = Counter(pool, native=native)
    return counter.count(counter.analyse(types), documents)


@pytest.fixture(scope="module")
def native():
    return Counter(POOL)


@needs_native
@given(st.lists(st.lists(TOKENS, max_size=40), max_size=4), st.binary(max_size=60))
@example([[token] for token in ODD], b"")
@example([ODD, ODD[::-1], ODD[::2]], bytes([0, 0, 11, 0, 0, 0]))
@example([["the", "and", "the"], ["the", "and"], ["the"], []], bytes([0, 18, 0, 0, 0, 11, 17]))
@example([["\ud83d", "\ude00"], ["😀"]], b"")  # two halves are not a whole
def test_native_and_plain_are_the_same(native, texts, typed):
    types, documents = documents_of(texts)
    symbols = np.frombuffer(typed, dtype=np.uint8) % len(SYMBOLS)
    layouts = [symbols[at:] for at in range(len(texts))]
    found = native.count(native.analyse(types), documents, layouts)
    assert found.dtype == np.float32
    assert found.shape == (len(texts), len(POOL))
    for row, text, symbols in zip(found, texts, layouts, strict=True):
        np.testing.assert_array_equal(row, POOL.count(text, symbols))


@needs_native
def test_every_character_of_the_basic_plane():
    """Before a letter and after one."""
    characters = [chr(code) for code in range(0x21, 0x10000)]
    pool = Pool(("é",), ("ж",), ("ж <sign>",), (), ("_é", "éa", "aé", "жa", "中_", "aa"))
    parts = [characters[at : at + 4096] for at in range(0, len(characters), 4096)]
    texts = [[c + "a" for c in part] for part in parts] + [["A" + c + "s" for c in part] for part in parts]
    np.testing.assert_array_equal(counted(pool, texts, native=True), counted(pool, texts, native=False))


@needs_native
@pytest.mark.parametrize("gap", [1, 2, 3, 90, 91, MAX_GAP - 1, MAX_GAP, MAX_GAP + 1, 1000])
def test_gaps(native, gap):
    texts = [["a"] * (gap - 1) + ["."], [",", *["a"] * (gap - 1), ",", '"'], ['"', *["a"] * (gap - 1), '"']]
    types, documents = documents_of(texts)
    for row, text in zip(native.count(native.analyse(types), documents), texts, strict=True):
        np.testing.assert_array_equal(row, POOL.count(text))


@needs_native
@pytest.mark.parametrize(
    "pool",
    [
        Pool((), (), (), (), ()),
        Pool(("the",), (), ("<word-short-e> <word-short-e>",), (), ()),
        Pool((), ("the",), (), ("the the the",), ("th",)),
    ],
)
def test_pools_with_little_in_them(pool):
    texts = [["the", "the", "the", "1", "."], ["the"]]
    np.testing.assert_array_equal(counted(pool, texts, native=True), counted(pool, texts, native=False))


@needs_native
def test_a_pool_of_many():
    """Every n-gram is found again under its own number: tables that are full to the half, all classes, all lengths."""
    rng = np.random.default_rng(1)
    alphabet = np.array(list("abcdefghijklmnop"))
    words = tuple(dict.fromkeys("".join(rng.choice(alphabet, 6)) for _ in range(1500)))
    anchors = words[:100]
    symbols = [*anchors, *CLASSES]
    pairs = tuple(dict.fromkeys(" ".join(rng.choice(symbols, 2)) for _ in range(2000)))
    triples = tuple(dict.fromkeys(" ".join(rng.choice(symbols, 3)) for _ in range(3000)))
    letters = tuple(dict.fromkeys(word[at : at + n] for word in words for at in range(5) for n in (2, 3, 4)
                                  if len(word[at : at + n]) > 1))  # fmt: skip
    pool = Pool(words, anchors, pairs, triples, letters)
    counter = Counter(pool)
    (row,) = counter.count(counter.analyse(words), [np.arange(len(words))])
    np.testing.assert_array_equal(row[pool.views["words"]], np.float32(1 / len(words)))
    # Skeletons of anchors, word by word as the pool lists them.
    listed = [entry.split(" ") for entry in (*pairs, *triples) if not entry.count("<")]
    types, documents = documents_of(listed)
    for entry, counts in zip(listed, counter.count(counter.analyse(types), documents), strict=True):
        view = {2: "pairs", 3: "triples"}[len(entry)]
        where = getattr(pool, view).index(" ".join(entry))
        (found,) = np.flatnonzero(counts[pool.views[view]])
        assert (found, counts[pool.views[view]][found]) == (where, 1)
    texts = [rng.choice(words, 300).tolist() for _ in range(3)]
    np.testing.assert_array_equal(counted(pool, texts, native=True), counted(pool, texts, native=False))


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_native), False])
def test_a_document_is_counted_by_itself(native):
    """Whatever else the table holds, and whatever was counted before."""
    texts = [ODD * 2, ["the", "and", "the", "."], ["a"], ["the"] * 5, ODD[::-1]]
    counter = Counter(POOL, native=native)
    types, documents = documents_of(texts)
    table = counter.analyse(types)
    together = counter.count(table, documents)
    assert not table.seen.any()
    for number, text in enumerate(texts):
        np.testing.assert_array_equal(counter.count(table, [documents[number]])[0], together[number])
        assert not table.seen.any()
        np.testing.assert_array_equal(counted(POOL, [text], native=native)[0], together[number])
    np.testing.assert_array_equal(counter.count(table, documents[::-1]), together[::-1])
    # Two tables of one counter do not get in each other's way.
    other = counter.analyse(types[::-1])
    mirrored = [len(types) - 1 - document for document in documents]
    np.testing.assert_array_equal(counter.count(other, mirrored), together)
    np.testing.assert_array_equal(counter.count(table, documents), together)


@pytest.mark.parametrize("native", [pytest.param(True, marks=needs_native), False])
def test_a_crop_is_counted_as_the_text_that_it_is(native):
    """Parts of an array: other kinds of integers, steps, and read-only memory."""
    counter = Counter(POOL, native=native)
    types, (document,) = documents_of([ODD * 3])
    table = counter.analyse(types)
    frozen = document.copy()
    frozen.flags.writeable = False
    for part in (slice(7, 40), slice(0, 1), slice(5, 5), slice(None, None, 2), slice(None, None, -1)):
        expected = POOL.count([types[i] for i in document[part]])
        for ids in (document, document.astype(np.int64), frozen):
            np.testing.assert_array_equal(counter.count(table, [ids[part]])[0], expected)
    assert counter.count(table, []).shape == (0, len(POOL))


def test_without_the_library(monkeypatch):
    """Where there is no compiler, or the library is of another platform."""
    texts = [ODD, ["the", "and", "the"]]
    expected = np.stack([POOL.count(text) for text in texts])
    monkeypatch.setattr(counting, "library", lambda: None)
    np.testing.assert_array_equal(counted(POOL, texts, native=True), expected)
    batch = batch_of([Tokens.of(text) for text in texts], tiny_vocabulary(), TINY_FULL)
    read = [text[: TINY_FULL.max_tokens] for text in texts]
    np.testing.assert_array_equal(batch.ngrams.numpy(), np.stack([tiny_pool().count(text) for text in read]))


def test_a_library_of_another_platform_is_none(tmp_path, monkeypatch):
    (tmp_path / "_ngrams.abi3.so").write_bytes(b"\x7fELF of another machine")
    monkeypatch.setattr(counting, "__file__", str(tmp_path / "counting.py"))
    assert library.__wrapped__() is None
    (tmp_path / "_ngrams.abi3.so").unlink()
    assert library.__wrapped__() is None
    assert not list(Path(tmp_path).iterdir())
