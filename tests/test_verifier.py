"""The Python interface: whatever way one asks, the answer is the same."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import TINY_FULL, TINY_LIGHT, prose, write_random_ensemble

from pan21av.data.trials import Trial
from pan21av.errors import InputError
from pan21av.network import kernel, recurrent
from pan21av.network.embedding import Embedding
from pan21av.network.network import Network
from pan21av.runtime.parallel import worker_pool
from pan21av.verdict import NO_TEXTS, Verdict
from pan21av.verifier import TOKENS_PER_CHUNK, TOKENS_PER_DOCUMENT, Verifier
from pan21av.vote import SCORES

needs_kernel = pytest.mark.skipif(not kernel.available(), reason="the native kernel was not built")


@pytest.fixture(scope="module")
def verifier(tiny_ensemble):
    return Verifier.load(tiny_ensemble, device="cpu", threads=2)


@pytest.fixture(scope="module")
def full_verifier(tmp_path_factory):
    """With n-grams and a cohort."""
    folder = write_random_ensemble(tmp_path_factory.mktemp("models") / "full", config=TINY_FULL)
    return Verifier.load(folder, device="cpu", threads=2)


@pytest.fixture(scope="module")
def light_verifier(tmp_path_factory):
    """The same without an encoder."""
    folder = write_random_ensemble(tmp_path_factory.mktemp("models") / "light", config=TINY_LIGHT)
    return Verifier.load(folder, device="cpu", threads=2)


ALL = ("verifier", "full_verifier", "light_verifier")


def fresh(verifier):
    """One that has read nothing yet."""
    return Verifier(verifier.ensemble, verifier.device, verifier.threads)


def probabilities(verdicts):
    return [verdict.probability for verdict in verdicts]


@pytest.fixture
def embedded(monkeypatch):
    """How many documents every call of the network embeds."""
    seen, embed = [], Network.embed
    monkeypatch.setattr(Network, "embed", lambda self, batch: seen.append(len(batch.tokens)) or embed(self, batch))
    return seen


# ---- the answer depends on the two texts alone -------------------------------------------------------


def test_order_batch_and_neighbours_do_not_matter(verifier):
    pairs = [(prose(n, 5 + 13 * n), prose(99 - n, 400 - 9 * n)) for n in range(40)]
    expected = probabilities(verifier.predict(pairs))
    assert len(set(expected)) > 10
    trials = [Trial(str(n), pair) for n, pair in enumerate(pairs)][::-1]
    for size in (1, 5_000, 100_000):
        found = list(fresh(verifier).answer(trials, tokens_per_chunk=size))
        assert [trial for trial, _ in found] == trials
        np.testing.assert_allclose(probabilities(v for _, v in found)[::-1], expected, atol=1e-6, rtol=0)


@needs_kernel
@pytest.mark.parametrize("which", ALL)
def test_answers_are_the_same_to_the_last_bit_in_any_company(which, request):
    """So that a run may be resumed, or cut into shards, after any pair."""
    verifier = request.getfixturevalue(which)
    trials = [Trial(str(n), (prose(n, 5 + 13 * n), prose(99 - n, 400 - 9 * n))) for n in range(40)]
    expected = dict(fresh(verifier).answer(trials))
    for size, some in ((1, trials), (5_000, trials[::-1]), (320_000, trials[3:]), (100, trials[:17])):
        for trial, verdict in fresh(verifier).answer(some, tokens_per_chunk=size):
            np.testing.assert_array_equal(verdict.scores, expected[trial].scores)
            assert verdict == expected[trial]


@needs_kernel
@pytest.mark.parametrize("which", ALL)
def test_embeddings_are_the_same_to_the_last_bit_in_any_company(which, request):
    """What resuming relies on: a document read again in another batch has the same embedding."""
    verifier = request.getfixturevalue(which)
    together = verifier.embed([prose(n, 1 + 7 * n) for n in range(60)])
    for rows in ([0], [7, 8], [30, 31, 32], list(range(5, 50)), list(range(59, -1, -1))):
        part = verifier.embed([prose(n, 1 + 7 * n) for n in rows])
        assert torch.equal(part.vectors, together[rows].vectors)
        assert torch.equal(part.tokens, together[rows].tokens)
        if which != "verifier":
            assert torch.equal(part.cohort, together[rows].cohort)
            assert torch.equal(part.norm, together[rows].norm)


@needs_kernel
@pytest.mark.parametrize("which", ["verifier", "full_verifier"])
def test_kernel_and_torch_agree(which, request):
    verifier = request.getfixturevalue(which)
    pairs = [(prose(n, 1 + 40 * n), prose(99 - n, 300)) for n in range(12)]
    with recurrent.only("kernel"):
        fast = list(fresh(verifier).predict(pairs))
    with recurrent.only("reference"):
        slow = list(fresh(verifier).predict(pairs))
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-5, rtol=0)


def count_by_hand(verdict):
    """(probability, abstained, same, different) of the members' scores."""
    scores = dict(zip(SCORES, verdict.scores, strict=True))
    confident = [p for p, doubt in zip(scores["ual"], scores["o2d2"], strict=True) if doubt < 0.5]
    members = len(scores["ual"])
    same = sum(p > 0.5 for p in confident)
    probability = sum(confident) / len(confident) if 2 * len(confident) > members else 0.5
    return pytest.approx(probability), members - len(confident), same, len(confident) - same


@pytest.mark.parametrize("which", ALL)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=st.text(min_size=1), second=st.text(min_size=1), repeat=st.integers(1, 40))
def test_any_unicode_either_way_round(which, request, first, second, repeat):
    verifier = request.getfixturevalue(which)
    first *= repeat
    one, other = verifier.verify(first, second), verifier.verify(second, first)
    assert (one.probability, one.distance) == (other.probability, other.distance)
    if first.strip() and second.strip():
        np.testing.assert_array_equal(one.scores, other.scores)
        assert (one.probability, one.abstained, one.same, one.different) == count_by_hand(one)
    else:
        assert one == Verdict.unusable(3, [NO_TEXTS])


# ---- many pairs --------------------------------------------------------------------------------------


def test_repeated_documents_are_embedded_once(verifier, embedded):
    texts = [prose(1000 + n) for n in range(9)]
    pairs = [(a, b) for a in texts for b in texts]
    asked = fresh(verifier)
    trials = [Trial(f"{n}", pair) for n, pair in enumerate(pairs)]
    assert len(list(asked.answer(trials, tokens_per_chunk=3_000))) == 81
    assert sum(embedded) == 9 * 3  # by each of three members
    asked.verify(texts[3], texts[5])
    assert sum(embedded) == 9 * 3  # they are remembered


def test_old_documents_are_forgotten_and_read_again(verifier, embedded, monkeypatch):
    """Memory is bounded; it may not cost an answer, not even within a chunk."""
    monkeypatch.setattr("pan21av.verifier.MAX_CACHED", 3)
    pairs = [(prose(n), prose(n + 1)) for n in range(10)]
    asked = fresh(verifier)
    expected = probabilities(verifier.verify(*pair) for pair in pairs)
    embedded.clear()
    np.testing.assert_allclose(probabilities(asked.predict(pairs)), expected, atol=1e-6, rtol=0)
    assert sum(embedded) == 11 * 3
    asked.verify(prose(0), prose(1))
    assert sum(embedded) == 13 * 3


def test_no_more_is_read_than_is_needed(verifier):
    """Input may be endless, or slow to come."""
    read = []

    def trials():
        for n in range(100):
            read.append(n)
            yield Trial(str(n), (prose(n, 5), prose(n + 1, 5)))

    answers = verifier.answer(trials(), tokens_per_chunk=1)
    next(answers)
    assert len(read) <= 3
    answers.close()


@pytest.mark.slow
def test_chunks_hold_so_many_tokens_and_grow(verifier, embedded):
    """Short texts come by the hundred, long ones by the dozen; the first answers come soon."""
    members = 3
    for words, most_at_first, least_at_last in ((5, 100, 500), (170, 60, 100)):
        embedded.clear()
        pairs = [(prose(n, words), prose(n + 5000, words)) for n in range(1200)]
        assert len(set(pairs)) == 1200
        assert len(list(fresh(verifier).predict(pairs))) == 1200
        chunks = embedded[::members]
        assert 2 <= chunks[0] <= most_at_first
        assert max(chunks) >= least_at_last
        tokens = [size * (TOKENS_PER_DOCUMENT + words) for size in chunks]
        assert max(tokens) <= 1.5 * TOKENS_PER_CHUNK


def test_a_text_against_very_many(verifier):
    """Nothing is new in them, yet a chunk of pairs has an end."""
    pair = (prose(1), prose(2))
    asked = fresh(verifier)
    read = []
    answers = asked.predict(read.append(n) or pair for n in range(50_000))
    for _ in range(1000):
        next(answers)
    answers.close()
    assert len(read) < 20_000


def test_trials_keep_their_ids(verifier):
    trials = [Trial("x", (prose(1), prose(2))), Trial("", None), Trial("\ud800", (prose(2), prose(3)))]
    found = list(verifier.answer(iter(trials)))
    assert [trial for trial, _ in found] == trials
    assert found[1][1] == Verdict.unusable(3, [NO_TEXTS])
    np.testing.assert_allclose(
        probabilities([found[0][1], found[2][1]]),
        [verifier.verify(prose(1), prose(2)).probability, verifier.verify(prose(2), prose(3)).probability],
        atol=1e-6, rtol=0,
    )  # fmt: skip


def test_worker_processes_change_nothing(verifier):
    trials = [Trial(str(n), None if n % 7 == 3 else (prose(n), prose(n + 9))) for n in range(30)]
    expected = list(fresh(verifier).answer(trials, tokens_per_chunk=8_000))
    with worker_pool(1) as pool:
        assert list(fresh(verifier).answer(trials, pool=pool, tokens_per_chunk=8_000)) == expected


def test_nothing_asked_nothing_answered(verifier):
    assert list(verifier.predict([])) == []
    assert list(verifier.predict([None] * 40)) == [Verdict.unusable(3, [NO_TEXTS])] * 40


# ---- iterators that are not read to their end --------------------------------------------------------


def test_an_iterator_may_be_left(verifier):
    """What it had begun to read is not taken for read."""
    asked = fresh(verifier)
    pairs = [(prose(n), prose(n + 500)) for n in range(100)]  # several chunks
    for verdict in asked.predict(pairs):
        first = verdict
        break
    for n in (0, 40, 99):
        expected = fresh(verifier).verify(*pairs[n]).probability
        assert asked.verify(*pairs[n]).probability == pytest.approx(expected, abs=1e-6)
    assert first.probability == pytest.approx(asked.verify(*pairs[0]).probability, abs=1e-6)


def test_interleaved_iterators(verifier):
    """They share texts, which either may be the first to read."""
    asked = fresh(verifier)
    one = [(prose(n), prose(n + 1)) for n in range(80)]
    other = [(prose(n + 1), prose(n)) for n in range(80)][::-1]
    expected = [probabilities(fresh(verifier).predict(pairs)) for pairs in (one, other)]
    found = zip(*zip(asked.predict(one), asked.predict(other), strict=True), strict=True)
    for mine, verdicts in zip(expected, found, strict=True):
        np.testing.assert_allclose(probabilities(verdicts), mine, atol=1e-6, rtol=0)


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_torch_has_its_threads_back(verifier):
    pairs = [(prose(n), prose(n + 1)) for n in range(3)]
    verifier.verify(*pairs[0])
    assert torch.get_num_threads() == 3
    verifier.embed([prose(1)])
    assert torch.get_num_threads() == 3
    left = verifier.predict(pairs)
    next(left)
    left.close()
    assert torch.get_num_threads() == 3
    with pytest.raises(InputError, match="pair 1 is not two strings"):
        list(verifier.predict([pairs[0], (prose(1), 3)]))
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_torch_has_its_threads_back_after_interleaved_iterators(verifier):
    one, other = (verifier.predict([(prose(n), prose(n + 1)) for n in range(3)]) for _ in range(2))
    next(one), next(other)
    one.close()
    other.close()
    assert torch.get_num_threads() == 3


# ---- embed once, compare often -----------------------------------------------------------------------


@pytest.mark.parametrize("which", ALL)
def test_embed_and_compare_are_verify(which, request):
    verifier = request.getfixturevalue(which)
    firsts, seconds = [prose(n, 20 + n) for n in range(70)], [prose(n + 100, 90 - n) for n in range(70)]
    one, other = verifier.embed(firsts), verifier.embed(seconds)
    assert len(one) == 70  # more than are embedded at a time
    for n in (0, 31, 69):
        (found,) = verifier.compare(one[[n]], other[[n]])
        assert found.probability == verifier.verify(firsts[n], seconds[n]).probability
        np.testing.assert_array_equal(found.scores, verifier.verify(firsts[n], seconds[n]).scores)
    together = verifier.compare(one, other)
    assert len({verdict.scores.tobytes() for verdict in together}) > 10
    for found, expected in zip(together, verifier.predict(zip(firsts, seconds)), strict=True):
        assert found.probability == pytest.approx(expected.probability, abs=1e-5)
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-5, rtol=0)


def test_who_knows_the_kind_of_text(verifier, full_verifier):
    """As many as find it more probable than not; in the paper nobody is asked."""
    pairs = [(prose(n, 10 + 9 * n), prose(n + 100, 300)) for n in range(20)]
    assert {verdict.familiar for verdict in verifier.predict(pairs)} == {None}
    one, other = (full_verifier.embed([pair[side] for pair in pairs]) for side in (0, 1))
    both = Embedding.join([one, other], "documents")
    said = full_verifier.network.score(both.pair(slice(0, 20), slice(20, None))).familiar
    expected = [sum(p > 0.5 for p in column) for column in said.T.tolist()]
    assert [verdict.familiar for verdict in full_verifier.predict(pairs)] == expected
    assert [verdict.familiar for verdict in full_verifier.compare(one, other)] == expected


def test_one_against_many(verifier):
    single, texts = prose(1), [prose(n) for n in range(2, 12)]
    one, many = verifier.embed([single]), verifier.embed(texts)
    expected = [verifier.verify(single, other) for other in texts]
    for found in (verifier.compare(one, many), verifier.compare(many, one)):
        np.testing.assert_allclose(probabilities(found), probabilities(expected), atol=1e-6, rtol=0)
        np.testing.assert_allclose([v.distance for v in found], [v.distance for v in expected], rtol=1e-5)


@pytest.mark.parametrize(("first", "second"), [(2, 3), (3, 2)])
def test_wrong_numbers_of_rows(verifier, first, second):
    embedding = verifier.embed([prose(n) for n in range(3)])
    with pytest.raises(ValueError, match=f"{first} documents cannot be compared with {second}"):
        verifier.compare(embedding[:first], embedding[:second])


def test_a_text_and_itself(verifier):
    """No distance, and every member's DML is certain: exp(0)."""
    (verdict,) = verifier.compare(verifier.embed([prose(1)]), verifier.embed([prose(1)]))
    assert verdict.distance == 0
    np.testing.assert_allclose(verdict.score("dml"), 1, atol=1e-3)


# ---- what cannot be judged ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """The same members, for texts of 20 tokens and more."""
    limits = {"min_tokens": 20, "min_words": 0, "min_common": 0, "max_unknown": 1, "max_foreign": 1}
    folder = write_random_ensemble(tmp_path_factory.mktemp("models") / "guarded", limits=limits)
    return Verifier.load(folder, device="cpu", threads=2)


def test_texts_that_are_turned_away(verifier, guarded, embedded):
    """They are told why, cost nothing, and change nothing for the others."""
    long, other, short = prose(1), prose(2), prose(3, 10)
    found = list(guarded.predict([(long, other), (long, short), (short, short), (other, long), None]))
    assert sum(embedded) == 2 * 3
    assert [verdict.probability == 0.5 and verdict.scores is None for verdict in found] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert [[(note.kind, note.where) for note in verdict.notes] for verdict in found] == [
        [],
        [("too short", "second text")],
        [("identical", "both texts"), ("too short", "first text"), ("too short", "second text")],
        [],
        [("no text", "both texts")],
    ]
    assert "11 tokens, of at least 20" in found[1].notes[0].words
    # Known by now, and turned away all the same.
    assert guarded.verify(short, long).notes[0].kind == "too short"
    assert sum(embedded) == 2 * 3
    assert found[0].probability == pytest.approx(verifier.verify(long, other).probability, abs=1e-6)


def test_short_texts_are_not_compared_either(guarded):
    texts = guarded.embed([prose(1), prose(3, 10), prose(2)])
    first, second, third = guarded.compare(texts[[0]], texts)
    assert first.scores is not None
    assert (second.probability, second.scores, second.notes[0].kind) == (0.5, None, "too short")
    assert third.probability == pytest.approx(guarded.verify(prose(1), prose(2)).probability, abs=1e-6)
    assert guarded.compare(texts[[1]], texts[[0]])[0].scores is None


def test_texts_that_are_not_two(verifier):
    one, two = prose(1, 40), prose(2, 40)
    for first, second, expected in [
        (one, two, []),
        (one, "\n" + one.replace(" ", "  "), [("identical", "both texts")]),
        (one, f"{two} {one} {two}", [("contained", "first text")]),
        (f"{two} {one}", two, [("contained", "second text")]),
    ]:
        verdict = verifier.verify(first, second)
        assert [(note.kind, note.where) for note in verdict.notes] == expected
        assert verdict.scores is not None


def test_texts_that_are_one_once_they_are_repaired(guarded):
    """A page and its text, one with a header and one without; and two that begin alike but are not cut there."""
    words = prose(1, 120)
    page = "".join(f"<p>{part}</p>" for part in words.split(" of "))
    header = f"From: a@b.c\nSubject: none\nDate: today\n\n{words}"
    for first, second in ((words.replace(" of ", " "), page), (words, header)):
        notes = {note.kind: note.where for note in guarded.verify(first, second).notes}
        assert notes.pop("identical") == "both texts"
        assert len(notes) == 1  # what was left out; not "contained", though one text holds the other
    assert "identical" not in {note.kind for note in guarded.verify(words, f"{words} {prose(2)}").notes}


def test_it_says_how_little_of_a_long_text_it_knows(verifier, guarded):
    """By hand: all tokens are words of about as many letters, so their share is about that of the text."""
    limit, words = guarded.config.max_tokens, 5000
    (note,) = guarded.verify(prose(1, words), prose(2)).notes
    assert (note.kind, note.where) == ("cut", "first text")
    share = int(re.search(rf"{limit:,} tokens, (\d+)% of it", note.words)[1])
    assert share == pytest.approx(100 * limit / words, abs=1)
    assert verifier.verify(prose(1, 5), prose(2)).scores is not None, "without limits nothing is turned away"


def test_nothing_embedded_nothing_compared(verifier, full_verifier, light_verifier):
    for asked in (verifier, full_verifier, light_verifier):
        none = asked.embed([])
        assert len(none) == 0
        assert asked.compare(none, none) == []
        assert asked.compare(none, asked.embed([prose(1)])) == []


# ---- loading -----------------------------------------------------------------------------------------


def test_even_ensembles_are_refused(tmp_path):
    with pytest.raises(ValueError, match="odd number"):
        write_random_ensemble(tmp_path / "two", count=2)


def test_one_member_alone_is_an_ensemble(tmp_path):
    verifier = Verifier.load(write_random_ensemble(tmp_path / "one", count=1), threads=1)
    verdict = verifier.verify(prose(1), prose(2))
    assert verdict.abstained + verdict.same + verdict.different == verdict.scores.shape[1] == 1
    assert (verdict.probability, verdict.abstained, verdict.same, verdict.different) == count_by_hand(verdict)


def test_members_are_those_of_the_ensemble(tmp_path, verifier):
    """One of three answers alone as it does among the others."""
    alone = replace(verifier.ensemble, network=verifier.network.member(1))
    expected = verifier.verify(prose(1), prose(2)).scores[:, 1:2]
    found = Verifier(alone, verifier.device, 1).verify(prose(1), prose(2)).scores
    np.testing.assert_allclose(found, expected, atol=1e-6, rtol=0)


def test_what_it_computes_on(verifier):
    assert verifier.description.startswith("cpu, ")
    assert verifier.description.endswith(", 2 threads")
