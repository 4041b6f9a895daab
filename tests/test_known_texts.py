"""Several texts that one person wrote: one verdict from all of them."""

import numpy as np
import pytest
from support import LAX_LIMITS, TINY_FULL, prose, tiny_vocabulary, write_random_ensemble

from pan21av.data.batch import batch_of, window_spans
from pan21av.data.layout import layout
from pan21av.data.tokeniser import Tokens, encode_all
from pan21av.data.trials import Trial
from pan21av.errors import InputError
from pan21av.verdict import NO_TEXTS, Verdict
from pan21av.verifier import Verifier

KNOWN = [prose(10, 70).replace(" it ", "\nIt "), prose(11, 40), prose(12, 90).replace(" to ", ", to ")]
QUESTIONED = prose(20, 80)


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    folder = write_random_ensemble(tmp_path_factory.mktemp("models") / "full", config=TINY_FULL)
    return Verifier.load(folder, device="cpu", threads=1)


def test_one_known_text_is_a_pair(verifier):
    assert verifier.verify(QUESTIONED, KNOWN[:1]) == verifier.verify(QUESTIONED, KNOWN[0])


def test_they_are_read_as_one_document(verifier):
    """Their n-grams, layouts and lengths add up; no window goes over the end of a text."""
    texts, vocabulary, config = encode_all(KNOWN, layout=True), tiny_vocabulary(), verifier.config
    batch = batch_of([Tokens.join(texts)], vocabulary, config)
    tokens = [text.types[i] for text in texts for i in text.ids]
    typed = np.concatenate([layout(text) for text in KNOWN])
    assert batch.tokens.tolist() == [len(tokens)]
    np.testing.assert_allclose(batch.ngrams[0], vocabulary.ngrams.count(tokens, typed), rtol=1e-6)
    starts = np.cumsum([0, *(len(text.ids) for text in texts)])
    spans = [(at + start, n) for at, text in zip(starts, texts) for start, n in window_spans(len(text.ids), config)]
    assert list(zip(batch.windows.start.tolist(), batch.windows.length.tolist(), strict=True)) == spans
    assert batch.documents.length.tolist() == [len(spans)]


def test_no_text_is_cut_for_the_others(verifier):
    """A person's texts may together be longer than one that is read."""
    limit = verifier.config.max_tokens
    texts = [prose(n, limit - 20) for n in range(3)]
    batch = batch_of([Tokens.join(encode_all(texts, limit=limit))], tiny_vocabulary(), verifier.config)
    assert batch.tokens.item() > 2 * limit
    assert verifier.verify(QUESTIONED, texts) != verifier.verify(QUESTIONED, texts[:2])


def test_what_is_beyond_the_limit_of_one_text_is_noted(verifier):
    """Each is read up to the limit; nobody is left to believe that ten novels were read whole."""
    limit = verifier.config.max_tokens
    long = prose(1, 3 * limit)
    verdict = verifier.verify(QUESTIONED, [KNOWN[0], long, KNOWN[1]])
    (note,) = (note for note in verdict.notes if note.kind == "cut")
    assert str(note).startswith(f"known text 2: only its beginning was read: {limit:,} tokens, 3")  # a third of it
    beginning = " ".join(long.split()[:limit])
    np.testing.assert_array_equal(verdict.scores, verifier.verify(QUESTIONED, [KNOWN[0], beginning, KNOWN[1]]).scores)


def test_company_and_order_of_trials_change_nothing(verifier):
    trials = [Trial(str(n), (prose(n), *KNOWN[: 1 + n % 3])) for n in range(12)]
    expected = {trial.id: verifier.verify(trial.texts[0], trial.texts[1:]).probability for trial in trials}
    fresh = Verifier(verifier.ensemble, verifier.device, 1)
    for size in (1, 10_000):
        found = fresh.answer(trials[::-1], tokens_per_chunk=size)
        assert {trial.id: verdict.probability for trial, verdict in found} == expected


def test_copies_count_once(verifier):
    verdict = verifier.verify(QUESTIONED, [KNOWN[0], KNOWN[1], KNOWN[0]])
    assert [(note.kind, note.where) for note in verdict.notes] == [("repeated", "known text 3")]
    np.testing.assert_array_equal(verdict.scores, verifier.verify(QUESTIONED, KNOWN[:2]).scores)
    spaced = verifier.verify(QUESTIONED, [KNOWN[0], KNOWN[1], KNOWN[0].replace(" ", "  ")])
    np.testing.assert_array_equal(verdict.scores, spaced.scores)
    alone = verifier.verify(QUESTIONED, [KNOWN[0], KNOWN[0]])
    np.testing.assert_array_equal(alone.scores, verifier.verify(QUESTIONED, KNOWN[0]).scores)


def test_what_is_no_use(tmp_path):
    """Short texts add up; one in another language is left out, and said so."""
    limits = {**LAX_LIMITS, "min_tokens": 50, "min_common": 0.3}
    folder = write_random_ensemble(tmp_path / "guarded", config=TINY_FULL, limits=limits)
    guarded = Verifier.load(folder, device="cpu", threads=1)
    short, foreign = [prose(n, 30) for n in range(2)], "wort und noch ein anderes hier ebenso " * 12
    assert guarded.verify(QUESTIONED, short[0]).scores is None
    together = guarded.verify(QUESTIONED, short)
    assert together.scores is not None
    assert together.notes == ()
    mixed = guarded.verify(QUESTIONED, [*short, foreign])
    assert [(note.kind, note.where) for note in mixed.notes] == [("language", "known text 3")]
    assert mixed.notes[0].words.startswith("left out, ")
    np.testing.assert_array_equal(mixed.scores, together.scores)
    none = guarded.verify(QUESTIONED, [foreign, foreign + " mehr"])
    assert none.scores is None
    assert [note.kind for note in none.notes if note.kind == "language"]


def test_what_is_no_text(verifier):
    assert verifier.verify(QUESTIONED, [KNOWN[0], " "]) == Verdict.unusable(3, [NO_TEXTS])
    for wrong in ([], [1], 3, [KNOWN[0], None]):
        with pytest.raises(InputError, match="is not two strings"):
            verifier.verify(QUESTIONED, wrong)
