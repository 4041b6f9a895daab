from dataclasses import replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from support import TINY, TINY_FULL, WORDS, tiny_pool, tiny_vocabulary

from pan21av.config import ModelConfig
from pan21av.data.batch import batch_of, make_batch, window_spans
from pan21av.data.layout import layout
from pan21av.data.tokeniser import Tokens

documents = st.lists(
    st.lists(st.sampled_from([*WORDS, "Zzz", "\ufffd"]), min_size=1, max_size=300), min_size=1, max_size=4
)


@given(st.integers(0, 700), st.integers(1, 40), st.integers(1, 40), st.integers(1, 30))
def test_windows_cover_every_token_up_to_the_limit(tokens, size, hop, limit):
    hop = min(hop, size)
    config = ModelConfig(window_tokens=size, window_hop=hop, max_windows=limit)
    spans = window_spans(tokens, config)
    covered = {position for start, length in spans for position in range(start, start + length)}
    assert covered == set(range(min(tokens, (limit - 1) * hop + size)))
    assert len(spans) <= limit
    assert all(1 <= length <= size for _, length in spans)
    assert [start for start, _ in spans] == [hop * i for i in range(len(spans))]


@given(documents)
def test_a_batch_spells_out_its_documents(texts):
    """Windows, put together again where they overlap, are the texts: as words and as characters."""
    vocabulary = tiny_vocabulary()
    batch = batch_of([Tokens.of(text) for text in texts], vocabulary, TINY)
    assert len(batch.words) == len({token for text in texts for token in text})  # each type once
    windows = [
        batch.windows.ids[start : start + length].tolist()
        for start, length in zip(batch.windows.start.tolist(), batch.windows.length.tolist(), strict=True)
    ]
    for number, text in enumerate(texts):
        start, length = int(batch.documents.start[number]), int(batch.documents.length[number])
        mine = [windows[i] for i in batch.documents.ids[start : start + length].tolist()]
        types = [position for window in mine[:-1] for position in window[: TINY.window_hop]] + mine[-1]
        read = text[: TINY.max_tokens]
        assert batch.tokens[number] == len(read)
        assert batch.words[types].tolist() == [vocabulary.word_id(token) for token in read]
        _, chars = vocabulary.ids(read, TINY.chars_per_token)
        np.testing.assert_array_equal(batch.chars[types].numpy(), chars)
    assert batch.ngrams is None


def test_ngrams_where_somebody_reads_them():
    vocabulary, texts = tiny_vocabulary(), [["the", "of", "the"], ["it"]]
    batch = batch_of([Tokens.of(text) for text in texts], vocabulary, TINY_FULL)
    np.testing.assert_array_equal(batch.ngrams.numpy(), np.stack([tiny_pool().count(text) for text in texts]))
    assert batch.ngrams[0, :2].tolist() == [np.float32(2 / 3), np.float32(1 / 3)]  # "the", "of"
    # What lies beyond the limit is not counted.
    limited = replace(TINY_FULL, max_windows=1)
    assert limited.max_tokens == TINY.window_tokens
    cut = batch_of([Tokens.of(["the"] * TINY.window_tokens + ["of"] * 9)], vocabulary, limited)
    assert cut.tokens.tolist() == [TINY.window_tokens]
    assert cut.ngrams[0, :2].tolist() == [1, 0]


def test_every_document_has_its_own_layout():
    """Of the same tokens, typed in three ways; where nobody knows how, there is nothing."""
    tokens = ["The", ",", "of", "it"]
    known = [Tokens.of(tokens, layout=layout(text)) for text in ("The, of\n\nit", "The , of it", "The,of it")]
    found = batch_of([*known, Tokens.of(tokens)], tiny_vocabulary(), TINY_FULL).ngrams
    where = tiny_pool().views["layout"]
    grams = [tiny_pool().layout.index(gram) for gram in ("word", "Name", ",·", "word word")]
    np.testing.assert_allclose(
        found[:, where][:, grams],
        [
            np.array([2, 1, 1, 0]) / 5,  # Name ,· word ¶¶ word
            np.array([2, 1, 0, 1]) / 4,  # Name ·,· word word
            np.array([2, 1, 0, 1]) / 4,  # Name , word word
            np.zeros(4),
        ],
    )
    assert not found[3, where].any()
    assert (found[:, : where.start] == found[0, : where.start]).all()


@given(documents)
def test_ngrams_do_not_depend_on_the_batch(texts):
    together = batch_of([Tokens.of(text) for text in texts], tiny_vocabulary(), TINY_FULL).ngrams
    for row, text in zip(together, texts, strict=True):
        alone = batch_of([Tokens.of(text)], tiny_vocabulary(), TINY_FULL).ngrams
        assert torch.equal(alone[0], row)


def test_ngrams_that_were_counted_elsewhere():
    words, chars = tiny_vocabulary().ids(["the", "of"], TINY.chars_per_token)
    counts = np.arange(6, dtype=np.float32).reshape(2, 3)
    given_documents = [np.array([0, 1, 0]), np.array([1])]
    assert torch.equal(make_batch(words, chars, given_documents, TINY, counts).ngrams, torch.from_numpy(counts))
    assert make_batch(words, chars, given_documents, TINY).ngrams is None


def test_moving_a_batch_moves_all_of_it():
    batch = batch_of([Tokens.of(["the", "of"])], tiny_vocabulary(), TINY_FULL)
    moved = batch.to(torch.device("meta"))
    tensors = [moved.words, moved.chars, moved.tokens, moved.ngrams]
    for sequences in (moved.windows, moved.documents):
        tensors += [sequences.ids, sequences.start, sequences.length]
    assert {tensor.device.type for tensor in tensors} == {"meta"}
