from dataclasses import replace

import numpy as np
import pytest
from support import TINY, prose, write_random_ensemble

from pan21av.commands.reading import habits, readings
from pan21av.verifier import Verifier

QUOTED = """He said "it's <b>bold</b> & 'that'...".

A second -- and the end ... """


@pytest.fixture(scope="module")
def verifier(tiny_ensemble):
    return Verifier.load(tiny_ensemble, device="cpu", threads=1)


def test_attention_adds_up(verifier):
    """A share of all attention: each member's weights sum to one over a document, whatever the overlaps."""
    texts = [prose(3, 150), QUOTED, prose(4, 900)]  # the last is cut
    found, batch = readings(verifier, texts)
    assert batch.tokens.tolist() == [len(reading.tokens) for reading in found]
    assert len(found[2].tokens) == TINY.max_tokens
    for reading, text in zip(found, texts, strict=True):
        assert reading.tokens == verifier.ensemble.tokeniser.tokenise(text, verifier.config.max_tokens)
        assert reading.word.sum() == pytest.approx(1, abs=1e-5)
        assert [piece for piece, number in reading.pieces if number >= 0] == reading.tokens
        assert [number for _, number in reading.pieces if number >= 0] == list(range(len(reading.tokens)))


def test_a_passage_has_the_weight_of_its_windows(verifier):
    """Within one window all tokens share it; over the windows of a document it is 1 on average."""
    (one_window, several), _ = readings(verifier, [prose(1, TINY.window_hop - 1), prose(2, 4 * TINY.window_hop - 1)])
    np.testing.assert_allclose(one_window.passage, 1, atol=1e-5)
    # Tokens that only one window covers: those between the overlaps, which are window_tokens - window_hop long.
    hop, overlap = TINY.window_hop, TINY.window_tokens - TINY.window_hop
    alone = [several.passage[0], *(several.passage[k * hop + overlap] for k in (1, 2, 3))]
    assert np.mean(alone) == pytest.approx(1, abs=1e-5)
    assert np.ptp(alone) > 1e-3
    np.testing.assert_allclose(several.passage[hop : hop + overlap], (alone[0] + alone[1]) / 2, atol=1e-5)


def test_paragraphs_are_kept(verifier):
    found, _ = readings(verifier, ["one two\n\nthree. four\n \nfive", "x"])
    text = "".join(piece for piece, _ in found[0].pieces)
    assert text.split("\n\n")[:3] == ["one two", "three. four", "five"]


def test_a_text_in_which_nothing_can_be_read(verifier):
    found, _ = readings(verifier, ["\u200b", "x"])
    assert found[0].tokens == ["\ufffd"]
    assert found[0].word.tolist() == pytest.approx([1])


def test_no_habits_without_frequencies(verifier):
    _, batch = readings(verifier, ["the of", "it"])
    assert habits(verifier, batch) is None


def test_habits_by_hand(tmp_path):
    """Among 1,000 words: of five tokens, each stands for 200."""
    config = replace(TINY, lda_dim=4, lda_words=10, lda_chars=5)
    verifier = Verifier.load(write_random_ensemble(tmp_path / "lda", config=config), threads=1)
    texts = ("the the the of it", "the of of of it")
    _, batch = readings(verifier, texts)
    common, apart = habits(verifier, batch)
    found = {habit.word: (round(habit.first), round(habit.second)) for habit in common + apart}
    assert found == {"the": (600, 200), "of": (200, 600), "it": (200, 200)}
    assert len(common) + len(apart) == 3  # no word twice, none that neither text has
    assert "it" not in {habit.word for habit in apart}  # in which they do not differ
    background = verifier.network.lda.background[0]
    for habit in common + apart:
        row = 1 + verifier.ensemble.vocabulary.words.index(habit.word)  # after the unknown word
        assert habit.usual == pytest.approx(1000 * float(background[row]))
