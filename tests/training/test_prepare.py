"""From texts to token ids on disk, once: what is kept, what is reused, and what a batch of it holds."""

import json
import shutil

import generated_corpus
import numpy as np
import pytest

from pan21av.data.tokeniser import DEFAULT, find_tokeniser
from pan21av.errors import InputError
from pan21av.training import prepare as prepare_module
from pan21av.training.prepare import prepare
from pan21av.training.prepared import CALIBRATE, TRAIN, VALIDATE, Prepared, Span
from pan21av.training.word_vectors import SPREAD, read_vectors


@pytest.fixture
def in_place(monkeypatch):
    """Tokenise in this process: no seconds lost on starting others."""
    monkeypatch.setattr(prepare_module, "ordered_map", lambda f, jobs, pool, ahead: ((i, f(a)) for i, a in jobs))


# ---- what is there ----


def test_tokens_are_those_of_the_documents(corpus):
    made = corpus.prepared
    assert len(made.split) == len(corpus.documents) - 1  # without the short one
    assert made.sources == ["a", "b"]
    tokeniser = find_tokeniser(DEFAULT)
    for number in (0, 100, 239):
        tokens = tokeniser.tokenise(corpus.documents[number]["text"])
        words, chars = made.vocabulary.ids(tokens, made.model.chars_per_token)
        types = made.tokens[made.offsets[number] : made.offsets[number + 1]]
        np.testing.assert_array_equal(made.type_words[types], words)
        np.testing.assert_array_equal(made.type_chars[types], chars)
        assert made.length(number) == len(tokens)


def test_catalogue_and_splits(corpus):
    made, docs = corpus.prepared, corpus.documents[:-1]
    catalogue = made.catalogue
    for column, key in ((catalogue.author, "author"), (catalogue.topic, "topic"), (catalogue.source, "source")):
        names = [d[key] for d in docs]
        assert len(set(zip(column.tolist(), names, strict=True))) == len(set(names)) == len(set(column.tolist()))
    assert set(catalogue.work.tolist()) == {-1}
    splits = [made.documents(split) for split in (TRAIN, CALIBRATE, VALIDATE)]
    assert sorted(np.concatenate(splits).tolist()) == list(range(len(docs)))
    authors = [set(catalogue.author[documents]) for documents in splits]
    assert all(authors)
    assert len(set.union(*authors)) == sum(map(len, authors)), "an author is in two of them"
    assert set(made.validation.flatten()) <= set(splits[2])
    assert set(made.development.flatten()) <= set(splits[1]) | set(splits[2])
    table = made.table["validation"]
    assert table["documents"] == len(splits[2])
    assert sum(table[kind] for kind in ("SA_SF", "SA_DF", "DA_SF", "DA_DF")) == len(made.validation)


def test_batches_hold_the_documents_asked_for(corpus):
    made = corpus.prepared
    batch = made.batch([Span(3, 10, 40), Span(7, 0, 10_000)])
    read = batch.words[batch.windows.ids.long()].numpy()
    start = made.offsets[3] + 10
    np.testing.assert_array_equal(read[:40], made.type_words[made.tokens[start : start + 40]])
    end = made.offsets[7] + made.tokens_read()[7]
    np.testing.assert_array_equal(read[40:], made.type_words[made.tokens[made.offsets[7] : end]])
    assert len(batch.documents) == 2
    assert batch.tokens.tolist() == [40, made.tokens_read()[7]]


def test_frequencies_are_of_the_tokens_that_are_read(corpus):
    """A document beyond the limit counts as far as it is read, in preparation as in a batch."""
    made, limit = corpus.prepared, corpus.prepared.model.max_tokens
    lengths = np.diff(made.offsets)
    assert lengths.min() < limit < lengths.max(), "the corpus has both kinds"
    np.testing.assert_array_equal(made.tokens_read(), [min(int(n), limit) for n in lengths])
    numbers = [int(lengths.argmin()), int(lengths.argmax()), 5]
    batch = made.batch([Span(number, 0, limit) for number in numbers])
    np.testing.assert_array_equal(batch.frequencies, made.frequencies[numbers])
    whole = made.batch([Span(number, 0, 10_000) for number in numbers])
    np.testing.assert_array_equal(whole.frequencies, batch.frequencies)
    assert whole.tokens.tolist() == batch.tokens.tolist() == made.tokens_read()[numbers].tolist()
    assert made.batch([Span(5, 0, limit)], frequencies=False).frequencies is None


# ---- reuse ----


def files_of(folder):
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_prepared_once(corpus, in_place, tmp_path):
    """The same files and settings: nothing is done again. What members do with them is another matter."""
    one = prepare([corpus.file], tmp_path / "out", corpus.settings, workers=1)
    before = files_of(tmp_path / "out")
    reused = corpus.settings.updated(
        {"heads": {"lr": 0.5}, "pairs": {"epochs": 9}, "data": {"development_pairs": 3}, "model": {"lev_dim": 10}}
    )
    for settings in (corpus.settings, reused):
        again = prepare([corpus.file], tmp_path / "out", settings, workers=1)
        assert files_of(tmp_path / "out") == before
        assert again.fingerprint == one.fingerprint
        assert again.model == settings.model
        np.testing.assert_array_equal(again.tokens, one.tokens)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("data", {"words": 100}),
        ("data", {"train_share": 0.5}),
        ("data", {"min_tokens": 120}),
        ("model", {"chars_per_token": 9}),
        ("model", {"max_windows": 10}),  # frequencies are of what is read
        ("model", {"lda_words": 5}),
        ("seed", 2),
        ("vectors", None),
        ("file", None),
    ],
)
def test_prepared_anew(corpus, in_place, tmp_path, section, change):
    """Another setting that preparation depends on, or another content of a file of the same name."""
    file = tmp_path / "documents.jsonl"
    lines = corpus.file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[8:] if section == "file" else lines))
    shutil.copytree(corpus.prepared.folder, tmp_path / "out")
    before = files_of(tmp_path / "out")
    settings = corpus.settings.updated({section: change}) if section in ("data", "model") else corpus.settings
    vectors, seed = None if section == "vectors" else corpus.vectors, change if section == "seed" else 1
    made = prepare([file], tmp_path / "out", settings, vectors=vectors, seed=seed, workers=1)
    assert made.fingerprint != corpus.prepared.fingerprint
    after = files_of(tmp_path / "out")
    assert not any(after[name] == before[name] for name in after)
    assert (len(made.split) < len(corpus.prepared.split)) == (section == "file" or change == {"min_tokens": 120})


def test_what_a_killed_preparation_left_is_not_taken_for_whole(corpus, in_place, tmp_path):
    (tmp_path / "out.part").mkdir()
    (tmp_path / "out.part" / "tokens.i32").write_bytes(b"\1\2\3\4" * 99)
    made = prepare([corpus.file], tmp_path / "out", corpus.settings, workers=1)
    np.testing.assert_array_equal(made.tokens, corpus.prepared.tokens)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_worker_processes_make_no_difference(corpus, in_place, tmp_path):
    """`corpus` was tokenised by a process of its own, this one is not."""
    made = prepare([corpus.file], tmp_path / "out", corpus.settings, vectors=corpus.vectors, workers=1)
    assert made.fingerprint == corpus.prepared.fingerprint
    for file in ("tokens.i32", "vocab.json", "type_words.npy", "type_chars.npy", "frequencies.npy", "manifest.json"):
        assert (made.folder / file).read_bytes() == (corpus.prepared.folder / file).read_bytes(), file
    assert isinstance(made, Prepared)


# ---- refusals ----


def test_corpora_that_are_refused(corpus, in_place, tmp_path):
    settings = corpus.settings
    with pytest.raises(InputError, match=r"nothing\.jsonl does not exist"):
        prepare([tmp_path / "nothing.jsonl"], tmp_path / "out", settings, workers=1)
    with pytest.raises(InputError, match="no document has 5000 tokens or more"):
        prepare([corpus.file], tmp_path / "out", settings.updated({"data": {"min_tokens": 5000}}), workers=1)
    few = tmp_path / "few.jsonl"
    generated_corpus.write(few, generated_corpus.documents(3, each=2, topics=2, sentences=12))
    with pytest.raises(InputError, match=r"3 of 3 in all, which leaves 2 for training, .* 4 pairs") as caught:
        prepare([few], tmp_path / "out", settings, workers=1)
    assert "--split authors" not in str(caught.value)
    by_topics = settings.updated({"data": {"split": "topics"}})
    with pytest.raises(InputError, match="where topics are few, --split authors loses less"):
        prepare([few], tmp_path / "out", by_topics, workers=1)
    assert not (tmp_path / "out").exists()


# ---- word vectors ----


def test_word_vectors_are_scaled_and_the_rest_begins_at_random(corpus):
    made = corpus.prepared
    row = made.vocabulary.word_id("the")
    assert np.corrcoef(made.vectors[row], np.arange(7))[0, 1] == pytest.approx(1)
    assert made.vectors[row].std() == pytest.approx(SPREAD)
    assert np.isnan(np.delete(made.vectors, row, 0)).all()


def test_word_vectors_of_a_word_that_comes_twice_and_faults(corpus, tmp_path):
    path, vocabulary = tmp_path / "vectors.txt", corpus.prepared.vocabulary
    path.write_text("the 1 -1\nand 2 -2\nThe 5 5\n")
    table, known = read_vectors(path, vocabulary, 2)
    assert known == 2
    ratio = table[vocabulary.word_id("and")] / table[vocabulary.word_id("the")]
    np.testing.assert_allclose(ratio, [2, 2], rtol=1e-6)  # the first of "the" and "The" counts
    for content, message in (
        ("the 1 2\nand 1 2 3\n", r"vectors\.txt:2: 3 numbers, but model\.word_dim is 2"),
        ("the 1 x\n", r"vectors\.txt:1: not a word and numbers"),
        ("unheard 1 2\n", "holds none of the corpus's words"),
    ):
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            read_vectors(path, vocabulary, 2)


def test_manifest_says_what_was_found(corpus):
    manifest = json.loads((corpus.prepared.folder / "manifest.json").read_text())
    assert manifest["tokens"] == len(corpus.prepared.tokens) == corpus.prepared.offsets[-1]
    assert manifest["types"] == len(corpus.prepared.type_words)
