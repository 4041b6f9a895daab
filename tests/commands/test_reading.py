from dataclasses import replace

import numpy as np
import pytest
from support import TINY, TINY_FULL, TINY_LIGHT, WORDS, prose, tiny_pool, write_random_ensemble

from pan21av.commands.reading import SHOWN_HABITS, TYPED, habits, readable_names, readings
from pan21av.config import ModelConfig
from pan21av.data.ngrams import Pool
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


def test_an_ensemble_without_encoder_attends_to_nothing(tmp_path):
    """The texts are shown all the same, in the pieces that are read."""
    verifier = Verifier.load(write_random_ensemble(tmp_path / "light", config=TINY_LIGHT), threads=1)
    texts = [QUOTED, prose(4, 900), "\u200b"]
    found, batch = readings(verifier, texts)
    with_encoder, _ = readings(Verifier.load(write_random_ensemble(tmp_path / "full", config=TINY_FULL)), texts)
    assert batch.ngrams.shape == (3, len(tiny_pool()))
    for reading, other in zip(found, with_encoder, strict=True):
        assert reading.word is reading.passage is None
        assert (reading.tokens, reading.pieces) == (other.tokens, other.pieces)


# ---- habits ----


def test_no_habits_without_ngrams(verifier):
    _, batch = readings(verifier, ["the of", "it"])
    assert habits(verifier, batch) is None
    assert habits(verifier, batch, TYPED) is None


def test_no_typing_without_layout(tmp_path):
    config = replace(TINY_FULL, layout_dim=0, layout_features=0)
    verifier = Verifier.load(write_random_ensemble(tmp_path / "ngrams", config=config), threads=1)
    _, batch = readings(verifier, ["the, of", "it"])
    assert habits(verifier, batch, TYPED) is None
    assert habits(verifier, batch) is not None


def all_of(pool: Pool) -> ModelConfig:
    """A network whose members read all n-grams of a pool."""
    of_tokens = len(pool) - len(pool.layout)
    return replace(TINY_FULL, ngram_features=of_tokens, layout_features=len(pool.layout))


def test_habits_by_hand(tmp_path):
    """Among 1,000 words: of five tokens, each stands for 200."""
    verifier = Verifier.load(write_random_ensemble(tmp_path / "ngrams", config=all_of(tiny_pool())), threads=1)
    texts = ("the the the of it", "the of of of it")
    _, batch = readings(verifier, texts)
    common, apart = habits(verifier, batch)
    found = {habit.name: (round(habit.first), round(habit.second)) for habit in common + apart}
    assert found == {"the": (600, 200), "of": (200, 600), "it": (200, 200)}
    assert len(common) + len(apart) == 3  # no word twice, none that neither text has
    assert "it" not in {habit.name for habit in apart}  # in which they do not differ
    for habit in common + apart:
        row = tiny_pool().words.index(habit.name)
        usual = verifier.network.ngrams.background[:, row].mean()
        assert habit.usual == pytest.approx(1000 * float(usual), rel=1e-5)


def test_typing_by_hand(tmp_path):
    """Among 1,000 words and signs, of which there are seven and five; words alone are not shown."""
    verifier = Verifier.load(write_random_ensemble(tmp_path / "layout", config=all_of(tiny_pool())), threads=1)
    # word ,· word ,· word ¶ word; Name word ·· word .·
    _, batch = readings(verifier, ("the, of, it\nis", "The of  it."))
    common, apart = habits(verifier, batch, TYPED)
    found = {habit.name: (round(habit.first), round(habit.second)) for habit in common + apart}
    assert found == {
        ",␣": (286, 0), "(word),␣(word)": (286, 0), "(line end)": (143, 0), "(wide gap)": (0, 200), ".␣": (0, 200),
    }  # fmt: skip
    part, first = verifier.network.layout, tiny_pool().views["layout"].start
    for habit in common + apart:
        row = first + readable_names(tiny_pool())[first:].index(habit.name)
        usual = part.background[part.index == row].mean()
        assert habit.usual == pytest.approx(1000 * float(usual), rel=1e-5)


@pytest.fixture
def even_verifier(tmp_path):
    """All n-grams are as usual as each other, and weigh as much."""
    verifier = Verifier.load(write_random_ensemble(tmp_path / "even", config=all_of(tiny_pool())), threads=1)
    part = verifier.network.ngrams
    part.background.fill_(0.1)
    part.mean.fill_(0.1**0.5)
    part.scale.fill_(1.0)
    part.weight.fill_(1.0)
    return verifier


def test_what_both_do_and_what_one_does(even_verifier):
    """A third of all words, where a tenth is usual; and a skeleton of the pool."""
    texts = ("in the that in the that in the that", "in the was in the was in the was")
    _, batch = readings(even_verifier, texts)
    common, apart = habits(even_verifier, batch)
    assert {habit.name for habit in common} == {"in", "the", "in the"}
    assert {habit.name for habit in apart} == {"that", "was", "the (short word)"}


def test_only_members_that_read_an_ngram_say_what_is_usual(even_verifier):
    """Of three members one reads "the", at its own usual frequency, and none reads "of"."""
    part = even_verifier.network.ngrams
    the, it = (tiny_pool().words.index(word) for word in ("the", "it"))
    part.index.fill_(it)
    part.index[1, 0] = the
    part.background[1, 0] = 0.04
    _, batch = readings(even_verifier, ("the of it", "the of it"))
    common, apart = habits(even_verifier, batch)
    found = {habit.name: habit.usual for habit in common + apart}
    assert found.keys() == {"the", "it"}
    assert found["the"] == pytest.approx(40, rel=1e-4)
    assert found["it"] == pytest.approx(100, rel=1e-4)


def test_no_more_than_fit_on_a_page(even_verifier):
    _, batch = readings(even_verifier, (" ".join(WORDS), " ".join(WORDS)))
    common, apart = habits(even_verifier, batch)
    assert len(common) == SHOWN_HABITS
    assert len({habit.name for habit in common}) == SHOWN_HABITS
    assert not apart  # the same text twice


def test_names_that_a_reader_understands():
    pool = Pool(
        ("the", "of"),
        ("the", ",", "<b>"),
        ("the <word-short-ing>", ", <Name-long->", "<word-short-> <word-middle->", "<number> <b>"),
        ("the <word-long-> <CAPITALS>", "<sign> <Name-middle-s> the"),
        ("th",),
        layout=(",·", "word", "Name word"),
    )
    names = readable_names(pool)
    assert len(names) == len(pool)
    assert names[pool.views["words"]] == ["the", "of"]
    assert names[pool.views["pairs"]] == ["the …ing", ", (Name)", "(short word) (word)", "(number) <b>"]
    assert names[pool.views["triples"]] == ["the (long word) (CAPITALS)", "(sign) …s the"]
    assert names[pool.views["layout"]] == [",␣", "", ""]
    shown = [name for name in names if name]
    assert len(set(shown)) == len(shown) == 2 + 4 + 2 + 1


@pytest.mark.parametrize(
    ("gram", "name"),
    [
        ("word", ""),
        ("number Name CAPITALS word", ""),
        (".·", ".␣"),
        ("·,", "␣,"),
        ("word ,· word", "(word),␣(word)"),
        ("word ' word", "(word)'(word)"),
        ("·“ Name CAPITALS", "␣“(Name)␣(CAPITALS)"),
        (",· ·—· number", ",␣—␣(number)"),  # one blank, which both signs know of
        (".· ¶ Name", ".(line end)(Name)"),  # no blank, but the end of the line
        ("word ¶¶ word", "(word)(blank line)(word)"),
        ("¶¶¶", "(blank lines)"),
        ("!· ·· word", "!(wide gap)(word)"),
        ("< word >", "<(word)>"),
        ("·sign· word", "␣(sign)␣(word)"),  # one that has no symbol of its own
    ],
)
def test_typing_as_a_reader_understands_it(gram, name):
    pool = Pool((), (), (), (), (), layout=(gram,))
    assert readable_names(pool)[pool.views["layout"]] == [name]
