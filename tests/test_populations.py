"""A population of other texts: which are drawn, what is taken off, what is left out."""

import numpy as np
import pytest
import torch
from support import LAX_LIMITS, TINY, TINY_FULL, prose, write_random_ensemble

from pan21av.data.batch import batch_of
from pan21av.data.tokeniser import encode_all
from pan21av.data.trials import Trial
from pan21av.errors import InputError
from pan21av.network.checkpoint import load_ensemble
from pan21av.network.network import Population
from pan21av.populations import PopulationTexts, draw, load_population, project_population, text_key
from pan21av.verifier import Verifier

OTHERS = [prose(1000 + n, 60 + n).replace(" it ", (", it ", "\nit ", "  it ")[n % 3]) for n in range(30)]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory):
    return write_random_ensemble(tmp_path_factory.mktemp("models") / "full", config=TINY_FULL)


@pytest.fixture(scope="module")
def verifier(ensemble):
    return Verifier.load(ensemble, device="cpu", threads=1)


def test_a_draw_depends_on_the_texts_alone():
    texts = [prose(n, 9) for n in range(200)]
    drawn = draw(texts, 50)
    assert drawn == sorted(texts, key=text_key)[:50]  # however they were found
    assert draw([*texts[::-1], *texts, " ", ""], 50) == drawn
    assert draw(texts[:20], 50) == sorted(texts[:20], key=text_key)
    assert draw(["a b", " a\n b "], 50) == ["a b"]


def test_the_mean_of_the_others_is_taken_off(verifier):
    """As the network does it by itself, with the projections' mean."""
    asked = verifier.with_population(OTHERS)
    texts = [prose(1).replace(" the ", ",\nThe "), prose(2, 200)]
    network = verifier.network

    others, mine = (
        batch_of(
            encode_all(some, limit=verifier.config.max_tokens, layout=True), verifier.ensemble.vocabulary, TINY_FULL
        )
        for some in (OTHERS, texts)
    )
    of_encoder, of_layout, of_ngrams = TINY_FULL.lev_parts
    population = Population(network.project(others)[..., of_encoder : of_encoder + of_layout + of_ngrams])
    expected, found = network.embed(mine, population), asked.embed(texts)
    torch.testing.assert_close(found.vectors, expected.vectors, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.cohort, expected.cohort, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(found.population, torch.full((2,), 30 / 40))
    assert not torch.allclose(found.vectors, verifier.embed(texts).vectors, atol=1e-3)


def test_it_does_not_mix_with_the_other_verifier(verifier):
    asked = verifier.with_population(OTHERS)
    bare, informed = verifier.verify(prose(1), prose(2)), asked.verify(prose(1), prose(2))
    assert bare != informed
    assert verifier.verify(prose(1), prose(2)) == bare
    assert asked.with_population(OTHERS[::-1]).verify(prose(1), prose(2)) == informed
    assert verifier.population is None


def test_texts_of_the_pair_are_left_out(verifier):
    """They are judged with the others alone, whatever else is asked in the same batch."""
    pair, other = (OTHERS[3], prose(2)), (prose(5), prose(2))
    without = verifier.with_population([text for text in OTHERS if text != OTHERS[3]])
    first, second = verifier.with_population(OTHERS).predict([pair, other])
    expected = without.verify(*pair)
    np.testing.assert_array_equal(first.scores, expected.scores)
    assert [(note.kind, note.where) for note in first.notes] == [("population", "both texts")]
    assert "one of the population's texts is left out of it for this comparison" in first.notes[0].words
    assert not second.notes
    np.testing.assert_array_equal(second.scores, verifier.with_population(OTHERS).verify(*other).scores)
    # White space apart, and among several known texts.
    spaced = verifier.with_population(OTHERS).verify(prose(2), [prose(7), f"  {OTHERS[3]}\n"])
    assert [note.kind for note in spaced.notes] == ["population"]


def test_company_changes_nothing(verifier):
    asked = verifier.with_population(OTHERS)
    pairs = [(OTHERS[n % 12], prose(n, 50)) for n in range(24)]
    expected = list(asked.predict(pairs))
    trials = [Trial(str(n), pair) for n, pair in enumerate(pairs)][::-1]
    again = [v for _, v in verifier.with_population(OTHERS).answer(trials, tokens_per_chunk=1)][::-1]
    assert [v.probability for v in again] == [v.probability for v in expected]


def test_too_few(verifier):
    with pytest.raises(InputError, match=r"10 to 500 texts .* and here are only 9 that can be used"):
        verifier.with_population(OTHERS[:9])
    with pytest.raises(InputError, match="only 1 that can be used"):
        verifier.with_population(OTHERS[:1] * 20)


def test_texts_of_no_use_are_counted(tmp_path):
    limits = {**LAX_LIMITS, "min_tokens": 20, "min_common": 0.3}
    folder = write_random_ensemble(tmp_path / "guarded", config=TINY_FULL, limits=limits)
    foreign = [f"wort {n} und noch ein anderes hier ebenso " * 9 for n in range(3)]
    found = project_population(load_ensemble(folder), [*OTHERS, *foreign, prose(1, 5)])
    assert (len(found), found.left_out) == (30, {"language": 3, "too short": 1})
    assert found.words.startswith("a population of 30 texts (left out: ")
    assert "3 in another language" in found.words
    assert "1 too short" in found.words
    with pytest.raises(InputError, match=r"only 9 that can be used \(left out: 3 in another language\)"):
        project_population(load_ensemble(folder), [*OTHERS[:9], *foreign])


def test_an_ensemble_without_ngrams(tmp_path):
    folder = write_random_ensemble(tmp_path / "paper", config=TINY)
    with pytest.raises(InputError, match="reads no n-grams"):
        Verifier.load(folder).with_population(OTHERS)


def test_kept_in_a_file(verifier, tmp_path):
    made = project_population(verifier.ensemble, OTHERS)
    made.save(tmp_path / "mine.npz")
    kept = load_population(tmp_path / "mine.npz", verifier.ensemble)
    assert (kept.keys, kept.sha256, kept.left_out) == (made.keys, made.sha256, made.left_out)
    assert torch.equal(kept.projected, made.projected)
    one, other = (verifier.with_population(p).verify(prose(1), prose(2)) for p in (made, kept))
    assert one == other


def test_files_that_are_none(verifier, tmp_path):
    made = project_population(verifier.ensemble, OTHERS)
    other = PopulationTexts(made.keys, made.projected, "another", {})
    other.save(tmp_path / "other.npz")
    with pytest.raises(InputError, match="made with another ensemble"):
        load_population(tmp_path / "other.npz", verifier.ensemble)
    for number, data in enumerate((b"", b"text", made.to_bytes()[:500])):
        path = tmp_path / f"{number}.npz"
        path.write_bytes(data)
        with pytest.raises(InputError, match="holds no population"):
            load_population(path, verifier.ensemble)
    np.savez(tmp_path / "few.npz", keys=np.zeros((2, 16)), projected=np.zeros(3))
    with pytest.raises(InputError, match="holds no population"):
        load_population(tmp_path / "few.npz", verifier.ensemble)
